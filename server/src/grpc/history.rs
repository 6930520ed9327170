//! `HistoryService`.

use std::sync::Arc;

use teamwire_proto::{
    Refusal,
    v1::{self, history_service_server::HistoryService},
};
use tonic::{Request, Response, Status};

use super::{
    follow::{FRAMES_MAX, Followed, Frames},
    services::Services,
};
use crate::{
    coordinator::{Coordinator, decide::Touches, history::HistoryQuery},
    domain::{
        identity::{CallerCredentials, namespace_of},
        page::{self, page_size},
        team,
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
        let position = page::number(&request.page_token)?;
        let newest = request.newest;
        let query = HistoryQuery {
            filter: request.filter,
            after: position.filter(|_| !newest).unwrap_or(request.after_sequence),
            before: position.filter(|_| newest),
            limit: page_size(request.page_size)?,
            newest,
        };
        let page = self.coordinator.history(&who, &request.team, &query).await?;
        let covered = if newest { page.looked_from } else { page.looked_to };
        Ok(Response::new(v1::ListHistoryResponse {
            entries: page.entries,
            last_sequence: page.looked_to,
            next_page_token: if page.more { page::token(covered) } else { String::new() },
        }))
    }

    async fn follow_history(
        &self,
        request: Request<v1::FollowHistoryRequest>,
    ) -> Result<Response<Self::FollowHistoryStream>, Status> {
        let (who, v1::FollowHistoryRequest { team, filter, after_sequence, .. }) = self.open(request).await?;
        // Refuse at once rather than in the stream.
        self.coordinator.rule(&who, &team, Touches::Team, |tx| team::get(tx, &who, &team)).await?;
        let namespace = namespace_of(&who, &team)?;
        let query = HistoryQuery { filter, after: after_sequence, limit: FRAMES_MAX, ..HistoryQuery::default() };
        let watch = self.coordinator.notifier().watch(&namespace);
        let entries = Entries { coordinator: Arc::clone(&self.coordinator), who: Arc::clone(&who), team, query };
        Ok(Response::new(self.follow(who, namespace, watch, entries)))
    }
}

/// The history, from a sequence on.
struct Entries {
    coordinator: Arc<Coordinator>,
    who: Arc<CallerCredentials>,
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
