//! Puts a coordinator together and serves it: build, run, drain, end.

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpListener, time::timeout};
use tokio_stream::StreamExt as _;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::body::Body;
use tower::util::MapResponseLayer;

use crate::{
    coordinator::Coordinator,
    delivery::{data_loss, expiry_worker, heartbeats::Heartbeats, reconciler, retention_worker, session::Pace},
    domain::{Limits, secret::SecretHash},
    edge::{self, Acceptor, Listen, auth_gate::AuthGateLayer, tls::Tls},
    grpc::{self, Advertised, Services, metrics_layer::MetricsLayer},
    health,
    rate::Rates,
    store::{Store, StoreError},
    telemetry::{Metrics, metered_conn::MeteredConn, metered_store::MeteredStore},
};

/// What a coordinator needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The bounds of the rules.
    pub limits: Limits,
    /// The hash of the operator's secret.
    pub operator: SecretHash,
    /// The rhythm of sessions.
    pub pace: Pace,
    /// How fast members may send.
    pub rates: Rates,
    /// The bounds of connections and of what goes over them.
    pub edge: edge::Bounds,
    /// The certificates. None: connections are not encrypted.
    pub tls: Option<Arc<Tls>>,
    /// How often the files of the certificates are looked at. 5 s.
    pub tls_reload_interval: Duration,
    /// What others are told of where this coordinator is.
    pub advertised: Advertised,
    /// The origins of pages whose browsers may call by gRPC-web; see [`grpc::web::is_origin`]. Empty: none.
    pub web_origins: Vec<String>,
    /// How long open calls may go on after the shutdown was asked for. 25 s.
    pub drain_grace: Duration,
    /// How long after the shutdown was asked for everything is dropped, done or not. 30 s.
    pub hard_stop: Duration,
    /// Where it counts what it does.
    pub metrics: Arc<Metrics>,
}

impl Config {
    /// The defaults, with the operator's secret.
    pub fn new(operator_secret: &str) -> Self {
        Self {
            limits: Limits::default(),
            operator: SecretHash::of(operator_secret),
            pace: Pace::default(),
            rates: Rates::default(),
            edge: edge::Bounds::default(),
            tls: None,
            tls_reload_interval: Duration::from_secs(5),
            advertised: Advertised::default(),
            web_origins: Vec::new(),
            drain_grace: Duration::from_secs(25),
            hard_stop: Duration::from_secs(30),
            metrics: Arc::default(),
        }
    }
}

/// Where a coordinator is reached.
#[derive(Debug)]
pub struct Listeners<L = TcpListener> {
    /// For the protocol.
    pub protocol: L,
    /// For health checks alone, without TLS. None: they are answered with the protocol only.
    pub health: Option<TcpListener>,
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

/// Serves a coordinator on its listeners until `shutdown` is cancelled, and then until its calls have ended or the grace is
/// over.
pub async fn run<L: Listen>(
    config: Config,
    store: Arc<dyn Store>,
    listeners: Listeners<L>,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let metrics = config.metrics;
    let store: Arc<dyn Store> = Arc::new(MeteredStore::new(store, Arc::clone(&metrics)));
    let coordinator = Coordinator::new(Arc::clone(&store), config.limits, config.operator).await?;
    let coordinator = Arc::new(coordinator.with_metrics(Arc::clone(&metrics)));
    let heartbeats = Arc::new(Heartbeats::default());
    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    tasks.spawn(notifications(Arc::clone(&coordinator), stop.clone()));
    tasks.spawn(Arc::clone(&heartbeats).run(Arc::clone(&coordinator), stop.clone()));
    tasks.spawn(expiry_worker::run(Arc::clone(&coordinator), Arc::clone(&heartbeats), stop.clone()));
    tasks.spawn(data_loss::run(Arc::clone(&coordinator), stop.clone()));
    tasks.spawn(reconciler::run(Arc::clone(&coordinator), stop.clone()));
    tasks.spawn(retention_worker::run(Arc::clone(&coordinator), stop.clone()));

    let mut routes = tonic::service::Routes::builder();
    let (pace, rates, request_bytes_max) = (config.pace, config.rates, config.edge.request_bytes_max);
    let advertised = config.advertised;
    let draining = shutdown.clone();
    Services::new(
        Arc::clone(&coordinator),
        Arc::clone(&heartbeats),
        advertised,
        draining,
        pace,
        rates,
        request_bytes_max,
    )
    .register(&mut routes);
    let (health, health_service) = tonic_health::server::health_reporter();
    let mut reporters = vec![health];
    if let Some(listener) = listeners.health {
        let (reporter, probes) = health::probes(listener, stop.clone());
        reporters.push(reporter);
        tasks.spawn(probes);
    }
    tasks.spawn(health::run(store, Arc::clone(&metrics), reporters, Services::HEALTH_NAMES, shutdown.clone()));
    routes.add_service(health_service);
    let reflection = |error: tonic_reflection::server::Error| RunError::Reflection(error.to_string());
    let describe = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(teamwire_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    routes.add_service(describe().build_v1().map_err(reflection)?);
    routes.add_service(describe().build_v1alpha().map_err(reflection)?);

    if let Some(tls) = &config.tls {
        tasks.spawn(Arc::clone(tls).keep_current(config.tls_reload_interval, stop.clone()));
    }
    let incoming = Acceptor::new(listeners.protocol, config.tls, config.edge.clone()).incoming();
    let counting = Arc::clone(&metrics);
    let incoming = incoming.map(move |accepted| accepted.map(|connection| MeteredConn::new(connection, &counting)));
    let served = config
        .edge
        .server()
        // Without TLS browsers speak nothing newer.
        .accept_http1(!config.web_origins.is_empty())
        .layer(grpc::web::layer(&config.web_origins, config.edge.header_bytes_max))
        .layer(MapResponseLayer::new(|response: http::Response<_>| response.map(Body::new)))
        .layer(MetricsLayer::new(metrics))
        .layer(AuthGateLayer)
        .layer(grpc::too_large::layer(request_bytes_max))
        .layer(grpc::unreadable::layer())
        .layer(grpc::too_slow::layer(config.edge.request_timeout))
        .add_routes(routes.routes())
        .serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
    let drained = async {
        shutdown.cancelled().await;
        tokio::time::sleep(config.drain_grace).await;
    };
    let result = tokio::select! {
        served = served => served.map_err(RunError::from),
        () = drained => {
            tracing::warn!("calls were still open at the end of the grace; they are cut off");
            Ok(())
        }
    };
    stop.cancel();
    tasks.close();
    let last_things = async {
        heartbeats.write(&coordinator).await;
        tasks.wait().await;
    };
    if timeout(config.hard_stop.saturating_sub(config.drain_grace), last_things).await.is_err() {
        tracing::warn!("the store did not answer in time; leases were not renewed a last time");
    }
    result
}

/// Passes the store's notifications on to the sessions.
async fn notifications(coordinator: Arc<Coordinator>, stop: CancellationToken) {
    use tokio::sync::broadcast::error::RecvError;

    use crate::store::Notification;

    let mut notifications = coordinator.store().notifications();
    while let Some(notification) = stop.run_until_cancelled(notifications.recv()).await {
        match notification {
            Ok(notification) => coordinator.notifier().notification(&notification),
            Err(RecvError::Lagged(_)) => coordinator.notifier().notification(&Notification::All),
            Err(RecvError::Closed) => return,
        }
    }
}
