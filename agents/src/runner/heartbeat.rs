//! Says whether the member is at work: at work while it holds a message, idle when it has held some, holds none, and
//! nothing has happened for a moment. A program that was never handed anything may be at work of its own accord.

use std::time::Duration;

use teamwire_proto::v1::{Activity, HeartbeatRequest};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use teamwire_client::{Client, Retry};

/// What the member has in hand.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// How many messages it holds.
    pub(crate) held: usize,
    /// How many tasks it has taken.
    pub(crate) tasks: usize,
    /// It takes no task for now, because its program has failed.
    pub(crate) rests: bool,
    /// It was handed some.
    pub(crate) has_begun: bool,
    /// When something last happened.
    pub(crate) at: Instant,
    /// What it was about: the summary of the last message, or of the last one that the member has sent.
    pub(crate) summary: String,
}

impl Default for Work {
    fn default() -> Self {
        Self { held: 0, tasks: 0, rests: false, has_begun: false, at: Instant::now(), summary: String::new() }
    }
}

impl Work {
    /// Returns whether it has nothing in hand.
    pub(crate) fn is_free(&self) -> bool {
        self.held == 0 && self.tasks == 0 && !self.rests
    }

    /// Returns what to say now, and when that will change by itself.
    fn activity(&self, now: Instant, idle_after: Duration) -> (Activity, Option<Instant>) {
        let idle_at = self.at + idle_after;
        match () {
            () if self.held > 0 || self.tasks > 0 || !self.has_begun => (Activity::Active, None),
            () if now < idle_at => (Activity::Active, Some(idle_at)),
            () => (Activity::Idle, None),
        }
    }
}

/// Renews the lease and says what changes, for as long as it is polled.
///
/// A heartbeat that fails is not repeated before the next is due: the open session renews the lease, too.
pub(crate) async fn run(client: Client, mut work: watch::Receiver<Work>, interval: Duration, idle_after: Duration) {
    let client = client.with_retry(Retry::none());
    let mut said = Activity::Unspecified;
    let mut beat_at = Instant::now();
    loop {
        let now = Instant::now();
        let (activity, changes_at) = work.borrow_and_update().activity(now, idle_after);
        if activity != said || now >= beat_at {
            let summary = match activity {
                Activity::Idle => work.borrow().summary.clone(),
                _ => String::new(),
            };
            match client.heartbeat(HeartbeatRequest { activity: activity.into(), summary }).await {
                Ok(_) => said = activity,
                Err(error) => tracing::debug!(%error, "no heartbeat"),
            }
            beat_at = now + interval;
        }
        let wake_at = changes_at.map_or(beat_at, |at| at.min(beat_at));
        tokio::select! {
            changed = work.changed() => if changed.is_err() { return },
            () = sleep_until(wake_at) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_idle_when_it_has_worked_and_rested() {
        let idle_after = Duration::from_secs(1);
        let mut work = Work::default();
        let later = work.at + Duration::from_secs(9);
        assert_eq!(work.activity(later, idle_after), (Activity::Active, None));
        work = Work { held: 1, has_begun: true, ..work };
        assert_eq!(work.activity(later, idle_after), (Activity::Active, None));
        work.held = 0;
        assert_eq!(work.activity(work.at, idle_after), (Activity::Active, Some(work.at + idle_after)));
        assert_eq!(work.activity(later, idle_after), (Activity::Idle, None));
    }
}
