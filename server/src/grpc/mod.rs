//! The protocol's face: takes a call apart, asks the coordinator, puts the reply together.
//!
//! Architecture invariant: only this module names `tonic::Status`; no rule is in here.

mod advertised;
mod history;
mod message;
mod request;
mod team;

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal, SESSION_METADATA_KEY,
    credential::Credential,
    v1::{
        history_service_server::HistoryServiceServer, message_service_server::MessageServiceServer,
        request_service_server::RequestServiceServer, team_service_server::TeamServiceServer,
    },
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status, metadata::MetadataMap};

pub use self::advertised::Advertised;
use self::advertised::NotesCalledAt;
use crate::{coordinator::Coordinator, delivery::lease::SignsOfLife, domain::identity::Presented, store::Space};

/// How many bytes a request may have: 256 KiB.
const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// What every service has at hand.
#[derive(Clone, Debug)]
pub struct Services {
    coordinator: Arc<Coordinator>,
    signs: Arc<SignsOfLife>,
    advertised: Arc<Advertised>,
    draining: CancellationToken,
}

impl Services {
    /// Makes the services of a coordinator. They end their streams when `draining` is cancelled.
    pub fn new(
        coordinator: Arc<Coordinator>,
        signs: Arc<SignsOfLife>,
        advertised: Advertised,
        draining: CancellationToken,
    ) -> Self {
        Self { coordinator, signs, advertised: Arc::new(advertised), draining }
    }

    /// Adds them to a router.
    pub fn register(&self, routes: &mut tonic::service::RoutesBuilder) {
        let of = || self.clone();
        routes
            .add_service(MessageServiceServer::new(of()).max_decoding_message_size(REQUEST_BYTES_MAX))
            .add_service(NotesCalledAt(TeamServiceServer::new(of()).max_decoding_message_size(REQUEST_BYTES_MAX)))
            .add_service(RequestServiceServer::new(of()).max_decoding_message_size(REQUEST_BYTES_MAX))
            .add_service(HistoryServiceServer::new(of()).max_decoding_message_size(REQUEST_BYTES_MAX));
    }

    /// Takes a call apart: what it presents, and what it asks for.
    fn open<T>(&self, request: Request<T>) -> Result<(Presented, T), Status> {
        if self.draining.is_cancelled() {
            return Err(Refusal::new(
                Reason::Draining,
                "This coordinator is going away. Try again; another one will answer.",
            )
            .into());
        }
        let who = presented(request.metadata())?;
        Ok((who, request.into_inner()))
    }

    /// Notes that a member is alive, after a call of it that succeeded.
    fn heard_of(&self, who: &Presented) {
        if let Credential::Member { team, member, .. } = &who.credential {
            self.signs.heard_of(&Space::team(team), member);
        }
    }
}

fn presented(metadata: &MetadataMap) -> Result<Presented, Refusal> {
    let missing = || {
        Refusal::new(
            Reason::CredentialMissing,
            "No credential was given. Send it in the metadata key `authorization`, as `Bearer TOKEN`; `teamwire join` and \
             `teamwire team create` make one.",
        )
    };
    let invalid =
        || Refusal::new(Reason::CredentialInvalid, "The `authorization` metadata must read `Bearer TOKEN`, in ASCII.");
    let header = metadata.get("authorization").ok_or_else(missing)?.to_str().map_err(|_| invalid())?;
    let token = match header.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => return Err(invalid()),
    };
    if token.is_empty() {
        return Err(missing());
    }
    let session = metadata.get(SESSION_METADATA_KEY).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok(Presented::new(Credential::parse(token)?, session))
}
