//! Follows what a member's program does.

use std::time::Duration;

use teamwire_proto::{Method, Wait, v1};
use tokio::time::{Instant, sleep};

use crate::{
    Client, Error,
    retry::{Delays, Retry},
};

/// How long one call waits for a line.
const WAIT: Wait = Method::ListActivity.wait().expect("a call that waits");

/// What a member's program does, as it is reported. Reconnects by itself and continues after the last line.
#[derive(Debug)]
pub struct ActivityFollower {
    client: Client,
    request: v1::ListActivityRequest,
    delays: Delays,
}

impl Client {
    /// Follows the activity of a member after `after_sequence`. Sends nothing before the first
    /// [`ActivityFollower::next`].
    pub fn follow_activity(&self, request: v1::ListActivityRequest) -> ActivityFollower {
        let client = self.clone().with_retry(Retry { total: Duration::MAX, ..self.retry() });
        let delays = client.retry().delays();
        ActivityFollower { client, request, delays }
    }
}

impl ActivityFollower {
    /// Waits for the next lines, which are at least one. Cancel-safe.
    pub async fn next(&mut self) -> Result<Vec<v1::ActivityLine>, Error> {
        loop {
            let called = Instant::now();
            let lines = self.read(WAIT.max).await?;
            if !lines.is_empty() {
                self.delays = self.client.retry().delays();
                return Ok(lines);
            }
            // A coordinator that drains may answer early.
            if called.elapsed() < WAIT.max {
                sleep(self.delays.next()).await;
            }
        }
    }

    /// Returns the next lines that are there already. None are left if it returns none. Cancel-safe.
    pub async fn next_now(&mut self) -> Result<Vec<v1::ActivityLine>, Error> {
        self.read(Duration::ZERO).await
    }

    async fn read(&mut self, wait: Duration) -> Result<Vec<v1::ActivityLine>, Error> {
        let wait = prost_types::Duration::try_from(wait).ok();
        let listed = self.client.list_activity(v1::ListActivityRequest { wait, ..self.request.clone() }).await;
        let page = listed.inspect_err(|error| {
            // The next call continues after the newest line that the store has.
            self.request.after_sequence = error.store_end().unwrap_or(self.request.after_sequence);
        })?;
        self.request.after_sequence = page.last_sequence;
        Ok(page.lines)
    }
}
