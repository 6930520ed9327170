//! What all services have at hand, and how they take a call apart.

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    v1::{
        access_service_server::AccessServiceServer, audit_service_server::AuditServiceServer,
        backup_service_server::BackupServiceServer, history_service_server::HistoryServiceServer,
        host_service_server::HostServiceServer, message_service_server::MessageServiceServer,
        request_service_server::RequestServiceServer, task_service_server::TaskServiceServer,
        team_service_server::TeamServiceServer, watch_service_server::WatchServiceServer,
    },
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Status, server::NamedService};

use super::{
    advertised::{Advertised, NotesCalledAt},
    audit_layer::Noted,
    audited::about,
    credentials::{self, CredentialsResult},
    spending::Spending,
};
use crate::{
    budget::{Account, Budgets, Life, Payer},
    coordinator::Coordinator,
    delivery::{AuditWriter, Heartbeats, Pace, TeamWatches},
    domain::identity::{CallerCredentials, LookedUp},
    edge::auth_gate::GatedCall,
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
    /// The address at which browsers on this machine reach the console. Empty: this coordinator does not serve it.
    pub console_address: String,
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
    budgets: Arc<Budgets>,
    pub(super) watches: Arc<TeamWatches>,
    pub(super) audit: Arc<AuditWriter>,
    pub(super) console_address: String,
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
    ];

    /// Makes the services of a coordinator. They end their streams when `draining` is cancelled, and run sessions as tasks of
    /// `sessions`.
    pub fn new(
        coordinator: Arc<Coordinator>,
        heartbeats: Arc<Heartbeats>,
        audit: Arc<AuditWriter>,
        draining: CancellationToken,
        sessions: TaskTracker,
        config: ServiceConfig,
    ) -> Self {
        let ServiceConfig { advertised, pace, budgets, request_bytes_max, console_address } = config;
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
            request_bytes_max,
        }
    }

    /// Adds them to a router.
    pub fn register(&self, routes: &mut tonic::service::RoutesBuilder) {
        let of = || self.clone();
        routes
            .add_service(MessageServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(NotesCalledAt {
                inner: TeamServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max),
                socket: self.advertised.socket.clone(),
            })
            .add_service(RequestServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(TaskServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(HistoryServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(HostServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(WatchServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(AccessServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(AuditServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(BackupServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max));
    }

    /// Takes a call apart: who calls, and what it asks for.
    pub(super) async fn open<T: 'static>(&self, request: Request<T>) -> Result<(Arc<CallerCredentials>, T), Status> {
        let (who, _, request) = self.open_with_account(request).await?;
        Ok((who, request))
    }

    /// Takes a call apart, and returns who pays for it, too. `None`: the credential is no longer valid.
    ///
    /// The credentials of a connection's first calls are looked up before anything else is done for them, so that strangers
    /// are neither answered nor waited for. Once a connection has shown a member's credential, the rules of the calls look it up.
    pub(super) async fn open_with_account<T: 'static>(
        &self,
        mut request: Request<T>,
    ) -> Result<(Arc<CallerCredentials>, Option<Arc<Account>>, T), Status> {
        if let Some(noted) = request.extensions_mut().remove::<Noted>() {
            let _ = noted.set(about(request.get_ref()));
        }
        if self.draining.is_cancelled() {
            return Err(draining().into());
        }
        let mut who =
            request.extensions_mut().remove::<CredentialsResult>().unwrap_or_else(|| Err(credentials::missing()))?;
        let call = request.extensions().get::<Arc<GatedCall>>().cloned();
        let spending = request.extensions().get::<Arc<Spending>>().cloned();
        let request = request.into_inner();
        if let Some(call) = &call {
            call.has_credential();
        }
        let known = call.as_ref().and_then(|call| call.known().get(&who.hash));
        if let (Some(spending), Some(account)) = (&spending, &known) {
            spending.pay(account).await?;
        }
        if known.is_some() && matches!(who.credential, Credential::Member { .. }) {
            return Ok((who, known, request));
        }
        let is_new = known.is_none() && call.as_ref().is_some_and(|call| !call.known().has(&who.hash));
        let stranger = is_new.then(|| call.as_ref().and_then(|call| call.account())).flatten();
        if let Some(owner) = stranger {
            if let Some(spending) = &spending {
                spending.is_of(&owner);
            }
            // So that no one looks up invented credentials at will.
            owner.look_up()?;
        }
        let found = self.coordinator.look_up(&who).await;
        let is_current = found.as_ref().is_ok_and(|found| found.is_current);
        if !is_current && let Some(call) = &call {
            call.known().forget(&who.hash);
        }
        let found = found?;
        if found.operator_sign_in.is_some() {
            Arc::make_mut(&mut who).operator_sign_in = found.operator_sign_in;
        }
        if known.is_some() || !is_current {
            return Ok((who, known, request));
        }
        let (account, life) = self.account_of(&who, found);
        if let Some(spending) = &spending {
            spending.is_of(&account);
        }
        if let Some(call) = &call {
            let is_passing = matches!(who.credential, Credential::Join { .. } | Credential::SignInCode { .. });
            call.opens(&account, life, is_passing)?;
            call.known().put(who.hash, Arc::clone(&account), life);
        }
        if let Some(spending) = &spending {
            spending.pay(&account).await?;
        }
        Ok((who, Some(account), request))
    }

    /// Returns the account of a valid credential, and which of the lives that share it has the credential.
    fn account_of(&self, who: &CallerCredentials, found: LookedUp) -> (Arc<Account>, Life) {
        let (payer, life) = match (&who.credential, found.acts_for) {
            (Credential::Member { team, member, .. }, _) => {
                (Payer::Member { team: team.clone(), member: member.clone() }, Life::With(who.hash))
            }
            (credential, Some(identity)) => {
                (Payer::ConsolesOf { team: credential.team().cloned(), identity }, Life::None)
            }
            _ => (Payer::Credential(who.hash), Life::None),
        };
        (self.budgets.account(payer, found.leads), life)
    }
}

/// The refusal of calls while the coordinator drains.
pub(super) fn draining() -> Refusal {
    Refusal::new(Reason::Draining, "This coordinator is shutting down. Try again; another one will answer.")
}
