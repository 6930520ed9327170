//! What all services share.

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal,
    v1::{
        access_service_server::AccessServiceServer, audit_service_server::AuditServiceServer,
        backup_service_server::BackupServiceServer, call_service_server::CallServiceServer,
        history_service_server::HistoryServiceServer, host_service_server::HostServiceServer,
        message_service_server::MessageServiceServer, request_service_server::RequestServiceServer,
        task_service_server::TaskServiceServer, team_service_server::TeamServiceServer,
        watch_service_server::WatchServiceServer,
    },
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::server::NamedService;

use super::{advertised::Advertised, frames};
use crate::{
    budget::Budgets,
    coordinator::Coordinator,
    delivery::{AuditWriter, Heartbeats, Pace, TeamWatches},
};

/// How the services behave.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// Where clients elsewhere reach this coordinator.
    pub advertised: Advertised,
    /// The rhythm of sessions.
    pub pace: Pace,
    /// How much each credential may use.
    pub budgets: Arc<Budgets>,
    /// How many bytes a request may have.
    pub request_bytes_max: usize,
    /// The address at which browsers on this machine reach the console. Empty if this coordinator does not serve it.
    pub console_address: String,
    /// The address below which programs reach `/mcp`. Empty if it is not served.
    pub mcp_address: String,
}

/// What every service has at hand.
#[derive(Clone, Debug)]
pub struct Services {
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) heartbeats: Arc<Heartbeats>,
    pub(super) advertised: Arc<Advertised>,
    pub(super) draining: CancellationToken,
    /// The sessions, which outlive the calls that have opened them.
    pub(super) sessions: TaskTracker,
    pub(super) pace: Pace,
    pub(super) budgets: Arc<Budgets>,
    pub(super) watches: Arc<TeamWatches>,
    pub(super) audit: Arc<AuditWriter>,
    pub(super) console_address: String,
    pub(super) mcp_address: String,
    request_bytes_max: usize,
}

impl Services {
    /// The services whose health is reported, "" for all of them together.
    pub const HEALTH_NAMES: &[&str] = &[
        "",
        MessageServiceServer::<Self>::NAME,
        TeamServiceServer::<Self>::NAME,
        RequestServiceServer::<Self>::NAME,
        TaskServiceServer::<Self>::NAME,
        HistoryServiceServer::<Self>::NAME,
        HostServiceServer::<Self>::NAME,
        WatchServiceServer::<Self>::NAME,
        AccessServiceServer::<Self>::NAME,
        AuditServiceServer::<Self>::NAME,
        BackupServiceServer::<Self>::NAME,
        CallServiceServer::<Self>::NAME,
    ];

    /// Makes the services of a coordinator. They end their streams when `draining` is cancelled, and run sessions as
    /// tasks of `sessions`.
    pub fn new(
        coordinator: Arc<Coordinator>,
        heartbeats: Arc<Heartbeats>,
        audit: Arc<AuditWriter>,
        draining: CancellationToken,
        sessions: TaskTracker,
        config: ServiceConfig,
    ) -> Self {
        let ServiceConfig { advertised, pace, budgets, request_bytes_max, console_address, mcp_address } = config;
        let advertised = Arc::new(advertised);
        let watches = Arc::new(TeamWatches::new(Arc::clone(&coordinator), draining.clone()));
        Self {
            coordinator,
            heartbeats,
            advertised,
            draining,
            sessions,
            pace,
            budgets,
            watches,
            audit,
            console_address,
            mcp_address,
            request_bytes_max,
        }
    }

    /// Adds them to a router.
    pub fn register(&self, routes: &mut tonic::service::RoutesBuilder) {
        let of = || self.clone();
        routes
            .add_service(MessageServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(TeamServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(RequestServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(TaskServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(HistoryServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(HostServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(WatchServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(AccessServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(AuditServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(BackupServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(CallServiceServer::new(of()).max_decoding_message_size(frames::MESSAGE_BYTES_MAX));
    }
}

/// The refusal of calls while the coordinator drains.
pub(super) fn draining() -> Refusal {
    Refusal::new(Reason::Draining, "This coordinator is shutting down. Try again; another one will answer.")
}
