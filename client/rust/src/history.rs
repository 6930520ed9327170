//! Following the history of a team.

use teamwire_proto::{Method, v1};

use crate::{Client, Error, client::history, follow::Follower};

/// The history of a team as it is written. Reconnects by itself and goes on after the last entry.
#[derive(Debug)]
pub struct HistoryFollower(Follower<v1::FollowHistoryRequest, v1::FollowHistoryResponse>);

impl Client {
    /// Follows the history from a place on. Nothing is sent before the first [`HistoryFollower::next`].
    pub fn follow_history(&self, mut request: v1::FollowHistoryRequest) -> HistoryFollower {
        self.fill(&mut request.team);
        HistoryFollower(Follower::new(self, Method::FollowHistory, request, |channel, request| {
            Box::pin(async move { history(channel).follow_history(request).await })
        }))
    }
}

impl HistoryFollower {
    /// Returns the next entry, and waits for it first. After an error, which is a refusal, there is nothing more.
    pub async fn next(&mut self) -> Option<Result<v1::HistoryEntry, Error>> {
        loop {
            match self.0.next().await? {
                Ok(response) => {
                    let Some(entry) = response.entry else { continue };
                    self.0.request.after_sequence = entry.sequence;
                    return Some(Ok(entry));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
