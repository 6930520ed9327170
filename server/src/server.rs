//! Puts a coordinator together and serves it: build, run, drain, end.

use std::{sync::Arc, time::Duration};

use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::{Server, server::TcpIncoming};

use crate::{
    coordinator::Coordinator,
    delivery::{lease::SignsOfLife, sweep},
    domain::{Limits, secret::SecretHash},
    grpc::{Advertised, Services},
    store::{Store, StoreError},
};

/// How long streams are given to end once a coordinator drains.
pub const DRAIN_GRACE: Duration = Duration::from_secs(25);

/// What a coordinator needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The bounds of the rules.
    pub limits: Limits,
    /// The hash of the operator's secret.
    pub operator: SecretHash,
    /// Where clients elsewhere find it. Default: where they called.
    pub advertised: Advertised,
    /// How long open calls may go on after the shutdown was asked for. 25 s.
    pub drain_grace: Duration,
}

impl Config {
    /// The defaults, with the operator's secret.
    pub fn new(operator_secret: &str) -> Self {
        Self {
            limits: Limits::default(),
            operator: SecretHash::of(operator_secret),
            advertised: Advertised::default(),
            drain_grace: DRAIN_GRACE,
        }
    }
}

/// Why a coordinator could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The listener failed.
    #[error("the coordinator cannot serve: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The protocol's descriptors are broken.
    #[error("the reflection service cannot be built: {0}")]
    Reflection(String),
}

/// Serves a coordinator on a listener until `shutdown` is cancelled, and then until its calls have ended or the grace is
/// over.
pub async fn run(
    config: Config,
    store: Arc<dyn Store>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let coordinator = Arc::new(Coordinator::new(Arc::clone(&store), config.limits, config.operator).await?);
    let signs = Arc::new(SignsOfLife::default());
    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    tasks.spawn(hints(Arc::clone(&coordinator), stop.clone()));
    tasks.spawn(Arc::clone(&signs).run(Arc::clone(&coordinator), stop.clone()));
    tasks.spawn(sweep::run(Arc::clone(&coordinator), Arc::clone(&signs), stop.clone()));

    let mut routes = tonic::service::Routes::builder();
    Services::new(Arc::clone(&coordinator), Arc::clone(&signs), config.advertised, shutdown.clone())
        .register(&mut routes);
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_service_status("", tonic_health::ServingStatus::Serving).await;
    routes.add_service(health_service);
    let reflection = |error: tonic_reflection::server::Error| RunError::Reflection(error.to_string());
    let describe = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(teamwire_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    routes.add_service(describe().build_v1().map_err(reflection)?);
    routes.add_service(describe().build_v1alpha().map_err(reflection)?);

    // Said of the listener: the builder's own setting holds only for listeners that it makes itself.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let served = Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .max_concurrent_streams(Some(64))
        .http2_max_pending_accept_reset_streams(Some(20))
        .http2_max_header_list_size(Some(16 * 1024))
        .add_routes(routes.routes())
        .serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
    let hard_stop = async {
        shutdown.cancelled().await;
        tokio::time::sleep(config.drain_grace).await;
    };
    let result = tokio::select! {
        served = served => served.map_err(RunError::from),
        () = hard_stop => {
            tracing::warn!("calls were still open at the end of the grace; they are cut off");
            Ok(())
        }
    };
    signs.write(&coordinator).await;
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    result
}

/// Passes the store's hints on to the sessions.
async fn hints(coordinator: Arc<Coordinator>, stop: CancellationToken) {
    use tokio::sync::broadcast::error::RecvError;

    use crate::store::Hint;

    let mut hints = coordinator.store().hints();
    while let Some(hint) = stop.run_until_cancelled(hints.recv()).await {
        match hint {
            Ok(hint) => coordinator.hub().hint(&hint),
            Err(RecvError::Lagged(_)) => coordinator.hub().hint(&Hint::All),
            Err(RecvError::Closed) => return,
        }
    }
}
