//! `HistoryService`.

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use teamwire_proto::{
    Refusal,
    v1::{self, history_service_server::HistoryService},
};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::{
    admission::Admitted,
    follow::{FRAMES_MAX, Followed, Follower, Frames, READ_BYTES_MAX},
    services::Services,
};
use crate::{
    budget::Account,
    coordinator::{Coordinator, decide::Touches, history::HistoryQuery},
    domain::{
        identity::{CallerCredentials, namespace_of},
        page::{self, page_size},
        team,
    },
};

/// After how long without an entry a frame without one proves that the stream is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

#[tonic::async_trait]
impl HistoryService for Services {
    type FollowHistoryStream = Frames<v1::FollowHistoryResponse>;

    async fn list_history(
        &self,
        request: Request<v1::ListHistoryRequest>,
    ) -> Result<Response<v1::ListHistoryResponse>, Status> {
        let (Admitted { who, call, .. }, request) = self.admit(request).await?;
        let position = page::number(&request.page_token)?;
        let newest = request.newest;
        let query = HistoryQuery {
            filter: request.filter,
            after: position.filter(|_| !newest).unwrap_or(request.after_sequence),
            seen: if position.is_none() && !newest { request.after_sequence } else { 0 },
            before: position.filter(|_| newest),
            limit: page_size(request.page_size)?,
            newest,
            ..HistoryQuery::default()
        };
        let page = self.coordinator.history(&who, &request.team, &query).await?;
        let covered = if newest { page.looked_from } else { page.looked_to };
        call.has_examined(page.examined);
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
        let (Admitted { who, account, .. }, request) = self.admit(request).await?;
        let v1::FollowHistoryRequest { team, filter, after_sequence, .. } = request;
        // Refuse at once rather than in the stream.
        self.coordinator.rule(&who, &team, Touches::Team, |tx| team::get(tx, &who, &team)).await?;
        let namespace = namespace_of(&who, &team)?;
        let (limit, bytes_max) = (FRAMES_MAX, READ_BYTES_MAX);
        let query = HistoryQuery {
            filter,
            after: after_sequence,
            seen: after_sequence,
            limit,
            bytes_max,
            ..HistoryQuery::default()
        };
        let watch = self.coordinator.notifier().watch(&namespace);
        let coordinator = Arc::clone(&self.coordinator);
        let entries =
            Entries { coordinator, who: Arc::clone(&who), account: account.clone(), team, query, sent_at: None };
        Ok(Response::new(self.follow(Follower { who, account, namespace }, watch, entries)))
    }
}

/// The history, from a sequence on.
struct Entries {
    coordinator: Arc<Coordinator>,
    who: Arc<CallerCredentials>,
    account: Option<Arc<Account>>,
    team: String,
    query: HistoryQuery,
    /// When the last frame was sent. `None` if the client did not have everything yet.
    sent_at: Option<Instant>,
}

#[tonic::async_trait]
impl Followed for Entries {
    type Frame = v1::FollowHistoryResponse;

    async fn next(&mut self) -> Result<(Vec<Self::Frame>, bool), Refusal> {
        let page = self.coordinator.history(&self.who, &self.team, &self.query).await?;
        if let Some(account) = &self.account {
            // What is sent is charged when it is.
            let sent: usize = page.entries.iter().map(v1::HistoryEntry::encoded_len).sum();
            account.charge_stream(page.examined.saturating_sub(sent) as u64);
        }
        self.query.after = page.looked_to;
        self.query.seen = page.looked_to;
        let is_due = self.sent_at.is_none_or(|at| at.elapsed() >= KEEP_ALIVE && page.entries.is_empty());
        let everything = v1::FollowHistoryResponse { entry: None, last_sequence: page.looked_to };
        let entries = page.entries.into_iter().map(|entry| {
            let last_sequence = entry.sequence;
            v1::FollowHistoryResponse { entry: Some(entry), last_sequence }
        });
        let mut frames: Vec<_> = entries.collect();
        if !page.more && is_due {
            frames.push(everything);
        }
        if !frames.is_empty() && (self.sent_at.is_some() || !page.more) {
            self.sent_at = Some(Instant::now());
        }
        Ok((frames, page.more))
    }
}
