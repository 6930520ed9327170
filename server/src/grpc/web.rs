//! gRPC-web, for programs in browsers: translates it to gRPC before any other layer sees a call, and tells browsers
//! which pages may call (CORS).

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
    time::Duration,
};

use futures::future;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use teamwire_proto::{SESSION_METADATA_KEY, trace_parent};
use tonic_web::GrpcWebLayer;
use tower::{
    Layer, Service,
    layer::util::Stack,
    util::{Either, option_layer},
};
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_layer::Identity;

/// How long a browser may cache the answer. Most browsers cap it at two hours.
const REMEMBERED_FOR: Duration = Duration::from_secs(2 * 60 * 60);

/// The origin that matches every page.
pub const ANY_ORIGIN: &str = "*";

/// Returns whether a text is an origin as browsers send it, such as `https://console.example:8443`, or [`ANY_ORIGIN`].
pub fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return text == ANY_ORIGIN };
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_:[]".contains(c);
    matches!(scheme, "http" | "https") && !authority.is_empty() && authority.chars().all(is_plain)
}

/// Makes the layer that translates calls, and tells browsers that pages of these other origins may make them.
pub fn layer(origins: &[String]) -> Stack<GrpcWebLayer, Either<CorsLayer, Identity>> {
    Stack::new(GrpcWebLayer::new(), option_layer((!origins.is_empty()).then(|| cors(origins))))
}

/// Makes the layer that bounds headers to this many bytes.
pub fn short_headers(header_bytes_max: u32) -> ShortHeaders {
    ShortHeaders { bytes_max: header_bytes_max }
}

/// Answers requests with larger headers with HTTP status 431, as HTTP/2 does already: over HTTP/1.1, hyper accepts 400
/// KiB.
#[derive(Clone, Copy, Debug)]
pub struct ShortHeaders {
    bytes_max: u32,
}

impl<S> Layer<S> for ShortHeaders {
    type Service = WithShortHeaders<S>;

    fn layer(&self, inner: S) -> WithShortHeaders<S> {
        WithShortHeaders { inner, bytes_max: self.bytes_max as usize }
    }
}

/// A service that gets no request with larger headers.
#[derive(Clone, Debug)]
pub struct WithShortHeaders<S> {
    inner: S,
    bytes_max: usize,
}

impl<S, B, R> Service<Request<B>> for WithShortHeaders<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = future::Either<S::Future, Ready<Result<S::Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if header_bytes(request.headers()) <= self.bytes_max {
            return future::Either::Left(self.inner.call(request));
        }
        let mut refusal = Response::new(R::default());
        *refusal.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        future::Either::Right(ready(Ok(refusal)))
    }
}

/// Counts bytes as HTTP/2 does: names, values, and 32 for each header.
fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
}

fn cors(origins: &[String]) -> CorsLayer {
    let allowed = match origins.iter().any(|origin| origin == ANY_ORIGIN) {
        true => AllowOrigin::any(),
        false => AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok())),
    };
    let asked = ["grpc-timeout", "x-grpc-web", "x-user-agent", SESSION_METADATA_KEY, trace_parent::METADATA_KEY];
    let told = ["grpc-status", "grpc-message", "grpc-status-details-bin"];
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::POST])
        .allow_headers(
            [AUTHORIZATION, CONTENT_TYPE].into_iter().chain(asked.map(HeaderName::from_static)).collect::<Vec<_>>(),
        )
        .expose_headers(told.map(HeaderName::from_static))
        .max_age(REMEMBERED_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_as_a_browser_sends_them_are_accepted() {
        for text in ["*", "https://console.example", "http://localhost:5173", "http://[::1]:80"] {
            assert!(is_origin(text), "{text}");
        }
        for text in
            ["", "console.example", "https://", "https://a/", "https://A", "ftp://a", "https://a b", "https://*"]
        {
            assert!(!is_origin(text), "{text}");
        }
    }
}
