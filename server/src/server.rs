//! Builds a coordinator, serves it, drains it and ends it.

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch, time::timeout};
use tokio_stream::StreamExt as _;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::service::Routes;
use tonic_health::server::{HealthReporter, health_reporter};
use tower::util::option_layer;

use crate::{
    budget::{Budgets, Rates, Shares},
    console::{Console, ConsoleLayer},
    coordinator::Coordinator,
    delivery::{
        AlertQueue, AlertWorker, AuditWriter, Heartbeats, Pace, Targets, data_loss, due_worker, reconciler,
        retention_worker,
    },
    domain::{
        Limits,
        alerts::{AlertRule, AlertRules},
        secret::{OperatorSecrets, SecretHash},
    },
    edge::{self, Acceptor, Listen, tls::Tls},
    grpc::{
        self, Advertised, ServiceConfig, Services,
        call_layer::{CallBounds, CallLayer},
    },
    health,
    mcp::{self, Mcp, McpLayer},
    sender::Target,
    store::{Store, StoreError},
    telemetry::{Metrics, metered_conn::MeteredConn, metered_store::MeteredStore},
};

/// The configuration of a coordinator.
#[derive(Debug)]
pub struct Config {
    /// The bounds of the rules.
    pub limits: Limits,
    /// The operator's secrets, which may change while the coordinator runs.
    pub operator: watch::Receiver<OperatorSecrets>,
    /// The rhythm of sessions.
    pub pace: Pace,
    /// How fast each credential may call.
    pub rates: Rates,
    /// How much may be open, or wait, at once.
    pub shares: Shares,
    /// The bounds of connections and of what goes over them.
    pub edge: edge::Bounds,
    /// The certificates. `None` if connections are not encrypted.
    pub tls: Option<Arc<Tls>>,
    /// How often the certificates' files are checked for changes. 5 s.
    pub tls_reload_interval: Duration,
    /// Where clients elsewhere reach this coordinator.
    pub advertised: Advertised,
    /// The origins of web pages that may call by gRPC-web; see [`grpc::web::is_origin`]. Empty means none.
    pub web_origins: Vec<String>,
    /// The console. `None` if it is not served.
    pub console: Option<Console>,
    /// MCP over HTTP. `None` if it is not served.
    pub mcp: Option<Mcp>,
    /// How long open calls may continue after the shutdown was requested. 25 s.
    pub drain_grace: Duration,
    /// How long after the shutdown was requested everything is dropped, finished or not. 30 s.
    pub hard_stop: Duration,
    /// What people are notified of, and where that goes.
    pub alerts: Vec<(AlertRule, Target)>,
    /// What it counts into.
    pub metrics: Arc<Metrics>,
}

impl Config {
    /// Returns the defaults, with the operator's secret.
    pub fn new(operator_secret: &str) -> Self {
        Self {
            limits: Limits::default(),
            operator: watch::channel(SecretHash::of(operator_secret).into()).1,
            pace: Pace::default(),
            rates: Rates::default(),
            shares: Shares::default(),
            edge: edge::Bounds::default(),
            tls: None,
            tls_reload_interval: Duration::from_secs(5),
            advertised: Advertised::default(),
            web_origins: Vec::new(),
            console: None,
            mcp: None,
            drain_grace: Duration::from_secs(25),
            hard_stop: Duration::from_secs(30),
            alerts: Vec::new(),
            metrics: Arc::default(),
        }
    }
}

/// The listeners of a coordinator.
#[derive(Debug)]
pub struct Listeners<L = TcpListener> {
    /// For the protocol.
    pub protocol: L,
    /// For health checks alone, without TLS. `None` if they are answered on the protocol's listener only.
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
    /// The protocol's descriptors cannot be read.
    #[error("the reflection service cannot be built: {0}")]
    Reflection(String),
}

/// Serves a coordinator until `shutdown` is cancelled, and then until its calls have ended or the grace is over.
pub async fn run<L: Listen>(
    mut config: Config,
    store: Arc<dyn Store>,
    listeners: Listeners<L>,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let store: Arc<dyn Store> = Arc::new(MeteredStore::new(store, Arc::clone(&config.metrics)));
    let coordinator = Coordinator::new(Arc::clone(&store), config.limits.clone(), config.operator.clone()).await?;
    let (rules, targets) = config.take_alerts();
    let coordinator = coordinator.with_metrics(Arc::clone(&config.metrics)).with_alerts(rules);
    let coordinator = Arc::new(if store.is_exclusive() { coordinator.alone() } else { coordinator });
    let heartbeats = Arc::new(Heartbeats::for_leases_of(config.limits.lease_ttl));

    let audit = Arc::new(AuditWriter::new(Arc::clone(&coordinator)));

    let (alerts, alert_worker) = AlertWorker::new(targets);
    let background = Background::start(&coordinator, &heartbeats, alerts);
    background.spawn(alert_worker.run(Arc::clone(&coordinator), background.stop.clone()));
    background.spawn(Arc::clone(&audit).run(background.stop.clone()));
    if let Some(tls) = &config.tls {
        background.spawn(Arc::clone(tls).keep_current(config.tls_reload_interval, background.stop.clone()));
    }
    let (health, health_service) = health_reporter();
    background.report_health(health, listeners.health, store, &config.metrics, &shutdown);

    let mut routes = Routes::builder();
    let (draining, sessions) = (shutdown.clone(), background.tasks.clone());
    let budgets = Arc::new(Budgets::new(config.rates, config.shares, config.metrics.budget_refusals.clone()));
    let services = config.services(Arc::clone(&budgets));
    let (of, beats, log) = (Arc::clone(&coordinator), Arc::clone(&heartbeats), Arc::clone(&audit));
    Services::new(of, beats, log, draining, sessions, services).register(&mut routes);
    routes.add_service(health_service);
    add_reflection(&mut routes)?;

    let served = serve(&config, listeners.protocol, budgets, routes.routes(), &heartbeats, audit, &shutdown);
    let result = tokio::select! {
        served = served => served,
        () = grace_is_over(&shutdown, config.drain_grace) => {
            tracing::warn!("calls were still open at the end of the grace; they are cut off");
            Ok(())
        }
    };
    background.end(&heartbeats, &coordinator, config.hard_stop.saturating_sub(config.drain_grace)).await;
    result
}

impl Config {
    /// Separates what people are notified of from where that goes.
    fn take_alerts(&mut self) -> (AlertRules, Targets) {
        let alerts = std::mem::take(&mut self.alerts);
        let rules = alerts.iter().map(|(rule, _)| rule.clone()).collect();
        let advertised = self.advertised.addresses.first();
        // Where people elsewhere reach it, if they do.
        let console = self.console.as_ref().map(|console| advertised.unwrap_or(&console.address).clone());
        let targets = alerts.into_iter().map(|(rule, target)| (rule.id, target)).collect();
        (AlertRules { rules, console }, targets)
    }

    fn services(&self, budgets: Arc<Budgets>) -> ServiceConfig {
        ServiceConfig {
            advertised: self.advertised.clone(),
            pace: self.pace,
            budgets,
            request_bytes_max: self.edge.request_bytes_max,
            console_address: self.console.as_ref().map(|console| console.address.clone()).unwrap_or_default(),
            mcp_address: self.mcp_address(),
        }
    }

    /// Returns where programs elsewhere reach MCP, if they do, or else those on this machine. Empty if it is not served.
    fn mcp_address(&self) -> String {
        let here = self.mcp.as_ref().map(|mcp| &mcp.address);
        here.map(|here| self.advertised.addresses.first().unwrap_or(here).clone()).unwrap_or_default()
    }

    fn mcp_layer(&self) -> Option<McpLayer> {
        let bounds =
            mcp::Bounds { request_bytes_max: self.edge.request_bytes_max, request_timeout: self.edge.request_timeout };
        Some(McpLayer::new(self.mcp.as_ref()?, bounds, self.console.is_some()))
    }

    fn call_layer(&self, audit: Arc<AuditWriter>, heartbeats: &Arc<Heartbeats>) -> CallLayer {
        let bounds = CallBounds {
            request_bytes_max: self.edge.request_bytes_max,
            request_timeout: self.edge.request_timeout,
            write_timeout: self.pace.write_timeout,
        };
        CallLayer::new(Arc::clone(&self.metrics), audit, Arc::clone(heartbeats), bounds)
    }
}

/// Serves calls until `shutdown` is cancelled and all of them have ended. Layers are listed from the outermost in.
async fn serve<L: Listen>(
    config: &Config,
    listener: L,
    budgets: Arc<Budgets>,
    routes: Routes,
    heartbeats: &Arc<Heartbeats>,
    audit: Arc<AuditWriter>,
    shutdown: &CancellationToken,
) -> Result<(), RunError> {
    let incoming = Acceptor::new(listener, config.tls.clone(), config.edge.clone(), budgets).incoming();
    let metrics = Arc::clone(&config.metrics);
    let incoming = incoming.map(move |accepted| accepted.map(|connection| MeteredConn::new(connection, &metrics)));
    let is_web = config.console.is_some() || config.mcp.is_some() || !config.web_origins.is_empty();
    config
        .edge
        .server()
        // Without TLS, browsers speak nothing newer.
        .accept_http1(is_web)
        .layer(option_layer(is_web.then(|| grpc::web::short_headers(config.edge.header_bytes_max))))
        .layer(option_layer(config.mcp_layer()))
        .layer(option_layer(config.console.as_ref().map(ConsoleLayer::new)))
        .layer(option_layer(is_web.then(|| grpc::web::layer(&config.web_origins))))
        .layer(config.call_layer(audit, heartbeats))
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned())
        .await?;
    Ok(())
}

/// Waits until the grace of a shutdown is over.
async fn grace_is_over(shutdown: &CancellationToken, drain_grace: Duration) {
    shutdown.cancelled().await;
    tokio::time::sleep(drain_grace).await;
}

fn add_reflection(routes: &mut tonic::service::RoutesBuilder) -> Result<(), RunError> {
    let failed = |error: tonic_reflection::server::Error| RunError::Reflection(error.to_string());
    let describe = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(teamwire_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // The details of refusals, so that tools such as grpcurl can show them.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    routes.add_service(describe().build_v1().map_err(failed)?);
    routes.add_service(describe().build_v1alpha().map_err(failed)?);
    Ok(())
}

/// The tasks of a coordinator that no call waits for.
struct Background {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Background {
    fn start(coordinator: &Arc<Coordinator>, heartbeats: &Arc<Heartbeats>, alerts: AlertQueue) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let coordinator = || Arc::clone(coordinator);
        let heartbeats = || Arc::clone(heartbeats);
        tasks.spawn(pass_notifications_on(coordinator(), stop.clone()));
        tasks.spawn(heartbeats().run(coordinator(), stop.clone()));
        tasks.spawn(due_worker::run(coordinator(), heartbeats(), alerts, stop.clone()));
        tasks.spawn(data_loss::run(coordinator(), stop.clone()));
        tasks.spawn(reconciler::run(coordinator(), stop.clone()));
        tasks.spawn(retention_worker::run(coordinator(), stop.clone()));
        Self { tasks, stop }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Keeps the answers to health checks up to date, on the protocol's listener and on a separate one.
    fn report_health(
        &self,
        protocol: HealthReporter,
        listener: Option<TcpListener>,
        store: Arc<dyn Store>,
        metrics: &Arc<Metrics>,
        draining: &CancellationToken,
    ) {
        let mut reporters = vec![protocol];
        if let Some(listener) = listener {
            let (reporter, probes) = health::probes(listener, self.stop.clone());
            reporters.push(reporter);
            self.spawn(probes);
        }
        self.spawn(health::run(store, Arc::clone(metrics), reporters, Services::HEALTH_NAMES, draining.clone()));
    }

    /// Ends the tasks, waits until the sessions have recorded how far they got, and renews the leases of this
    /// coordinator's members one last time, within a limit.
    async fn end(self, heartbeats: &Heartbeats, coordinator: &Coordinator, limit: Duration) {
        self.stop.cancel();
        self.tasks.close();
        let last_writes = async {
            heartbeats.write(coordinator).await;
            self.tasks.wait().await;
        };
        if timeout(limit, last_writes).await.is_err() {
            tracing::warn!("the store did not answer in time; sessions or leases were not written one last time");
        }
    }
}

/// Passes the store's notifications on to the sessions.
async fn pass_notifications_on(coordinator: Arc<Coordinator>, stop: CancellationToken) {
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
