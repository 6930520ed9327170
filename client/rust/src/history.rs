//! Following the history of a team.

use teamwire_proto::v1;
use tokio::time::sleep;
use tonic::{Status, Streaming};

use crate::{
    Client, Error,
    client::{Call, history},
    retry::{Delays, Effect, Failure},
    transport::Link,
};

/// The history of a team as it is written. Reconnects by itself and goes on after the last entry.
#[derive(Debug)]
pub struct HistoryFollower {
    client: Client,
    request: v1::FollowHistoryRequest,
    stream: Option<(Link, Streaming<v1::FollowHistoryResponse>)>,
    delays: Delays,
    is_over: bool,
}

impl Client {
    /// Follows the history from a place on. Nothing is sent before the first [`HistoryFollower::next`].
    pub fn follow_history(&self, mut request: v1::FollowHistoryRequest) -> HistoryFollower {
        self.fill(&mut request.team);
        let delays = self.retry().delays();
        HistoryFollower { client: self.clone(), request, stream: None, delays, is_over: false }
    }
}

impl HistoryFollower {
    /// Returns the next entry, and waits for it first. After an error, which is a refusal, there is nothing more.
    pub async fn next(&mut self) -> Option<Result<v1::HistoryEntry, Error>> {
        while !self.is_over {
            let (link, status) = match &mut self.stream {
                None => match self.open().await {
                    Ok(opened) => {
                        self.stream = Some(opened);
                        continue;
                    }
                    Err(failed) => failed,
                },
                Some((link, stream)) => match stream.message().await {
                    Ok(Some(response)) => {
                        self.delays.reset();
                        let Some(entry) = response.entry else { continue };
                        self.request.after_sequence = entry.sequence;
                        return Some(Ok(entry));
                    }
                    Ok(None) => (Some(link.clone()), Status::unavailable("the stream ended without a reason")),
                    Err(status) => (Some(link.clone()), status),
                },
            };
            self.stream = None;
            let failure = match link {
                Some(link) => self.client.transport().judge(&link, &status),
                None => Failure::of(&status),
            };
            if !failure.is_retried(Effect::Read, &self.client.retry()) {
                self.is_over = true;
                let call = Call::new("FollowHistory", Effect::Read);
                return Some(Err(self.client.error(call, failure, false, status)));
            }
            tracing::debug!(message = status.message(), "following the history again");
            sleep(self.delays.next().max(failure.asks_to_wait())).await;
        }
        None
    }
    async fn open(&self) -> Result<(Link, Streaming<v1::FollowHistoryResponse>), (Option<Link>, Status)> {
        let link = self.client.transport().link().await.map_err(|status| (None, status))?;
        let session = self.client.session().borrow().clone();
        let request = self.client.request(self.request.clone(), &session);
        match history(link.channel()).follow_history(request).await {
            Ok(response) => Ok((link, response.into_inner())),
            Err(status) => Err((Some(link), status)),
        }
    }
}
