//! `HistoryService`.

use std::sync::Arc;

use teamwire_proto::{
    Refusal,
    v1::{self, history_service_server::HistoryService},
};
use tonic::{Request, Response, Status};

use super::{
    Services,
    follow::{FRAMES_MAX, Followed, Frames},
};
use crate::{
    coordinator::{Coordinator, HistoryQuery},
    domain::{
        fields::limit,
        identity::{CallerCredentials, namespace_of},
    },
};

#[tonic::async_trait]
impl HistoryService for Services {
    type FollowHistoryStream = Frames<v1::FollowHistoryResponse>;

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
        self.note_life(&who);
        Ok(Response::new(v1::ListHistoryResponse {
            entries: page.entries,
            next_after_sequence: page.looked_to,
            more: page.more,
        }))
    }

    async fn follow_history(
        &self,
        request: Request<v1::FollowHistoryRequest>,
    ) -> Result<Response<Self::FollowHistoryStream>, Status> {
        let (who, v1::FollowHistoryRequest { team, filter, after_sequence, .. }) = self.open(request).await?;
        // Refused at once rather than in the stream.
        self.coordinator.get_team(&who, &team).await?;
        let namespace = namespace_of(&who, &team)?;
        let query = HistoryQuery { filter, after: after_sequence, limit: FRAMES_MAX, newest: false };
        let watch = self.coordinator.notifier().watch(&namespace);
        let entries = Entries { coordinator: Arc::clone(&self.coordinator), who: who.clone(), team, query };
        Ok(Response::new(self.follow(who, namespace, watch, entries)))
    }
}

/// The history, from a place in it.
struct Entries {
    coordinator: Arc<Coordinator>,
    who: CallerCredentials,
    team: String,
    query: HistoryQuery,
}

#[tonic::async_trait]
impl Followed for Entries {
    type Frame = v1::FollowHistoryResponse;

    async fn next(&mut self) -> Result<(Vec<Self::Frame>, bool), Refusal> {
        let page = self.coordinator.history(&self.who, &self.team, &self.query).await?;
        self.query.after = page.looked_to;
        let frames = page.entries.into_iter().map(|entry| v1::FollowHistoryResponse { entry: Some(entry) });
        Ok((frames.collect(), page.more))
    }
}
