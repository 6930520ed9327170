//! Serves the numbers at `GET /metrics`, over plain HTTP.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use axum::{
    Router,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use crate::edge::PublicListener;

/// The content type of OpenMetrics.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves until cancelled. Cuts off scrapes that are under way then.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>, stop: CancellationToken) -> io::Result<()> {
    metrics.is_watched.store(true, Ordering::Relaxed);
    let routes = Router::new().route("/metrics", get(move || std::future::ready(page(&metrics))));
    stop.run_until_cancelled(axum::serve(PublicListener::new(listener), routes).into_future()).await.unwrap_or(Ok(()))
}

fn page(metrics: &Metrics) -> Response {
    match metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
