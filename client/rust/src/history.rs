//! Follows the history of a team.

use teamwire_proto::{Method, v1};

use crate::{Client, Error, client::history, follow::Follower};

/// The history of a team as it grows. Reconnects automatically, and continues after the last entry.
#[derive(Debug)]
pub struct HistoryFollower(Follower<v1::FollowHistoryRequest, v1::FollowHistoryResponse>);

impl Client {
    /// Follows the history after `after_sequence`. Sends nothing before the first [`HistoryFollower::next`].
    pub fn follow_history(&self, mut request: v1::FollowHistoryRequest) -> HistoryFollower {
        self.fill(&mut request.team);
        HistoryFollower(Follower::new(self, Method::FollowHistory, request, |channel, request| {
            Box::pin(async move { history(channel).follow_history(request).await })
        }))
    }
}

impl HistoryFollower {
    /// Waits for the next entry. An error is final: None follows. One is not: if the store is older than what was seen
    /// (`CURSOR_AHEAD`), the next call continues after the newest entry that the store has.
    pub async fn next(&mut self) -> Option<Result<v1::HistoryEntry, Error>> {
        loop {
            match self.0.next().await? {
                Ok(response) => {
                    let v1::FollowHistoryResponse { entry, last_sequence, .. } = response;
                    self.0.request.after_sequence = entry.as_ref().map_or(last_sequence, |entry| entry.sequence);
                    if let Some(entry) = entry {
                        return Some(Ok(entry));
                    }
                }
                Err(error) => {
                    if let Some(last) = error.store_end() {
                        self.0.request.after_sequence = last;
                        self.0.go_on();
                    }
                    return Some(Err(error));
                }
            }
        }
    }
}
