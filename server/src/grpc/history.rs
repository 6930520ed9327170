//! `HistoryService`.

use std::{pin::Pin, time::Duration};

use teamwire_proto::{
    Reason, Refusal,
    v1::{self, history_service_server::HistoryService},
};
use tokio::{sync::mpsc, time::sleep};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status};

use super::Services;
use crate::{
    coordinator::{
        calls::space_of,
        reads::{HistoryQuery, limit},
    },
    domain::identity::{Presented, team_not_found},
};

/// How many entries wait for a client that follows.
const ENTRIES_MAX: usize = 32;

/// How often a follower looks by itself, in case a hint was lost.
const POLL: Duration = Duration::from_secs(2);

type Entries = Pin<Box<dyn Stream<Item = Result<v1::FollowHistoryResponse, Status>> + Send>>;

#[tonic::async_trait]
impl HistoryService for Services {
    type FollowHistoryStream = Entries;

    async fn list_history(
        &self,
        request: Request<v1::ListHistoryRequest>,
    ) -> Result<Response<v1::ListHistoryResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let query = HistoryQuery {
            filter: request.filter,
            after: request.after_sequence,
            limit: limit(request.limit, "limit")?,
            newest: request.newest,
        };
        let page = self.coordinator.history(&who, &request.team, &query).await?;
        self.heard_of(&who);
        Ok(Response::new(v1::ListHistoryResponse {
            entries: page.entries,
            next_after_sequence: page.looked_to,
            more: page.more,
        }))
    }

    async fn follow_history(&self, request: Request<v1::FollowHistoryRequest>) -> Result<Response<Entries>, Status> {
        let (who, request) = self.open(request).await?;
        // Refused at once rather than in the stream.
        self.coordinator.get_team(&who, &request.team).await?;
        let (entries, out) = mpsc::channel(ENTRIES_MAX);
        let services = self.clone();
        tokio::spawn(async move {
            let followed = services.follow(&who, &request, &entries);
            let refusal = match services.draining.run_until_cancelled(followed).await {
                Some(Some(refusal)) => refusal,
                Some(None) => return,
                None => Refusal::new(Reason::Draining, "This coordinator is going away. Resume at another one."),
            };
            let _ = entries.send(Err(refusal.into())).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(out))))
    }
}

impl Services {
    /// Sends entries until the client is gone (`None`) or no more can come.
    async fn follow(
        &self,
        who: &Presented,
        request: &v1::FollowHistoryRequest,
        entries: &mpsc::Sender<Result<v1::FollowHistoryResponse, Status>>,
    ) -> Option<Refusal> {
        let space = match space_of(who, &request.team) {
            Ok(space) => space,
            Err(refusal) => return Some(refusal),
        };
        let mut watch = self.coordinator.hub().watch(&space);
        let mut query = HistoryQuery {
            filter: request.filter.clone(),
            after: request.after_sequence,
            limit: ENTRIES_MAX,
            newest: false,
        };
        loop {
            watch.mark_unchanged();
            match self.coordinator.history(who, &request.team, &query).await {
                Ok(page) => {
                    self.heard_of(who);
                    for entry in page.entries {
                        entries.send(Ok(v1::FollowHistoryResponse { entry: Some(entry) })).await.ok()?;
                    }
                    query.after = page.looked_to;
                    if page.more {
                        continue;
                    }
                }
                Err(refusal) if refusal.reason == Reason::StoreUnavailable => {}
                // The credential of a team that is gone is worth nothing; here that is known to be why.
                Err(refusal) if refusal.reason == Reason::CredentialInvalid => {
                    return Some(team_not_found(space.as_str()));
                }
                Err(refusal) => return Some(refusal),
            }
            tokio::select! {
                _ = watch.changed() => {}
                () = sleep(POLL) => {}
                () = entries.closed() => return None,
            }
        }
    }
}
