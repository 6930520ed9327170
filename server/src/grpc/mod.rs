//! The protocol's face: takes a call apart, asks the coordinator, puts the reply together.
//!
//! Architecture invariant: only this module names `tonic::Status`; no rule is in here.

mod advertised;
mod follow;
mod history;
mod message;
pub mod metrics_layer;
mod request;
mod task;
mod team;
pub mod too_large;
pub mod too_slow;
pub mod unreadable;
pub mod web;

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal, SESSION_METADATA_KEY,
    credential::Credential,
    trace_parent,
    v1::{
        history_service_server::HistoryServiceServer, message_service_server::MessageServiceServer,
        request_service_server::RequestServiceServer, task_service_server::TaskServiceServer,
        team_service_server::TeamServiceServer,
    },
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status, metadata::MetadataMap, server::NamedService};

pub use self::advertised::Advertised;
use self::advertised::NotesCalledAt;
use crate::{
    coordinator::Coordinator,
    delivery::{heartbeats::Heartbeats, session::Pace},
    domain::identity::CallerCredentials,
    edge::auth_gate::GatedCall,
    rate::{Meter, Rates},
    store::Namespace,
};

/// What every service has at hand.
#[derive(Clone, Debug)]
pub struct Services {
    coordinator: Arc<Coordinator>,
    heartbeats: Arc<Heartbeats>,
    advertised: Arc<Advertised>,
    draining: CancellationToken,
    pace: Pace,
    meter: Arc<Meter>,
    request_bytes_max: usize,
}

impl Services {
    /// The services whose health is told, "" for all of them together.
    pub const HEALTH_NAMES: &[&str] = &[
        "",
        MessageServiceServer::<Self>::NAME,
        TeamServiceServer::<Self>::NAME,
        RequestServiceServer::<Self>::NAME,
        TaskServiceServer::<Self>::NAME,
        HistoryServiceServer::<Self>::NAME,
    ];

    /// Makes the services of a coordinator. They end their streams when `draining` is cancelled, keep to the pace of
    /// sessions and the rates of sending, and take requests of up to so many bytes.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        coordinator: Arc<Coordinator>,
        heartbeats: Arc<Heartbeats>,
        advertised: Advertised,
        draining: CancellationToken,
        pace: Pace,
        rates: Rates,
        request_bytes_max: usize,
    ) -> Self {
        let advertised = Arc::new(advertised);
        Self {
            coordinator,
            heartbeats,
            advertised,
            draining,
            pace,
            meter: Arc::new(Meter::new(rates)),
            request_bytes_max,
        }
    }

    /// Adds them to a router.
    pub fn register(&self, routes: &mut tonic::service::RoutesBuilder) {
        let of = || self.clone();
        routes
            .add_service(MessageServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(NotesCalledAt(TeamServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max)))
            .add_service(RequestServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(TaskServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max))
            .add_service(HistoryServiceServer::new(of()).max_decoding_message_size(self.request_bytes_max));
    }

    /// Takes a call apart: what it presents, and what it asks for.
    ///
    /// What the first calls of a connection present is looked up before anything else is done for them, so that strangers
    /// are neither answered nor waited for; a member's calls over a connection that is known are looked up by their rules.
    async fn open<T>(&self, request: Request<T>) -> Result<(CallerCredentials, T), Status> {
        if self.draining.is_cancelled() {
            return Err(draining().into());
        }
        let who = presented(request.metadata())?;
        let call = request.extensions().get::<Arc<GatedCall>>().cloned();
        let request = request.into_inner();
        if let Some(call) = &call {
            call.has_credential();
        }
        let is_looked_up_by_its_rule =
            matches!(who.credential, Credential::Member { .. }) && call.as_ref().is_some_and(|call| call.is_open());
        if !is_looked_up_by_its_rule && self.coordinator.holds(&who).await? {
            call.inspect(|call| call.opens());
        }
        Ok((who, request))
    }

    /// Notes that a member is alive, after a call of it that succeeded.
    fn note_life(&self, who: &CallerCredentials) {
        if let Credential::Member { team, member, .. } = &who.credential {
            self.heartbeats.note_life(&Namespace::team(team), member);
        }
    }
}

fn draining() -> Refusal {
    Refusal::new(Reason::Draining, "This coordinator is going away. Try again; another one will answer.")
}

fn presented(metadata: &MetadataMap) -> Result<CallerCredentials, Refusal> {
    let missing = || {
        Refusal::new(
            Reason::CredentialMissing,
            "No credential was given. Send it in the metadata key `authorization`, as `Bearer TOKEN`; `teamwire join` and \
             `teamwire team create` make one.",
        )
    };
    let invalid = || {
        Refusal::new(
            Reason::CredentialInvalid,
            "The `authorization` metadata must be given once and read `Bearer TOKEN`, in ASCII.",
        )
    };
    let mut headers = metadata.get_all("authorization").iter();
    let header = headers.next().ok_or_else(missing)?.to_str().map_err(|_| invalid())?;
    if headers.next().is_some() {
        // Whoever looks at the call on its way may take the other one for the caller.
        return Err(invalid());
    }
    let token = match header.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => return Err(invalid()),
    };
    if token.is_empty() {
        return Err(missing());
    }
    let session = metadata.get(SESSION_METADATA_KEY).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let trace_parent = metadata.get(trace_parent::METADATA_KEY).and_then(|value| value.to_str().ok());
    let trace_parent = trace_parent.filter(|text| trace_parent::is_valid(text)).unwrap_or_default().to_owned();
    Ok(CallerCredentials { trace_parent, ..CallerCredentials::new(Credential::parse(token)?, session) })
}
