//! Renews the member's lease and reports whether it is active or idle.
//!
//! A member is active while it works on something, and idle once it has worked on something, has nothing left, and
//! nothing has changed for a moment. A program that was never handed anything may be working by itself, and counts as
//! active.

use std::time::Duration;

use teamwire_client::{Client, Retry};
use teamwire_proto::v1::{Activity, HeartbeatRequest};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// How much the member has in hand.
#[derive(Clone, Debug)]
pub(crate) struct InHand {
    /// How many messages it was handed and has not processed.
    pub(crate) messages: usize,
    /// How many tasks it has claimed.
    pub(crate) tasks: usize,
    /// True once something was in hand.
    pub(crate) has_begun: bool,
    /// When this last changed.
    pub(crate) changed_at: Instant,
    /// The summary of the last message that the member was handed or has sent.
    pub(crate) summary: String,
}

impl Default for InHand {
    fn default() -> Self {
        Self { messages: 0, tasks: 0, has_begun: false, changed_at: Instant::now(), summary: String::new() }
    }
}

impl InHand {
    /// Returns the activity to report now, and when it changes by itself.
    fn activity(&self, now: Instant, idle_after: Duration) -> (Activity, Option<Instant>) {
        let idle_at = self.changed_at + idle_after;
        match () {
            () if self.messages > 0 || self.tasks > 0 || !self.has_begun => (Activity::Active, None),
            () if now < idle_at => (Activity::Active, Some(idle_at)),
            () => (Activity::Idle, None),
        }
    }
}

/// Sends a heartbeat every `interval`, and at once when the activity changes. Returns when the sender of `in_hand` is
/// gone.
///
/// A heartbeat that fails is not retried before the next one is due: the open session renews the lease as well.
pub(crate) async fn run(
    client: Client,
    mut in_hand: watch::Receiver<InHand>,
    interval: Duration,
    idle_after: Duration,
) {
    let client = client.with_retry(Retry::none());
    let mut reported = Activity::Unspecified;
    let mut beat_at = Instant::now();
    loop {
        let now = Instant::now();
        let (activity, changes_at) = in_hand.borrow_and_update().activity(now, idle_after);
        if activity != reported || now >= beat_at {
            let summary = match activity {
                Activity::Idle => in_hand.borrow().summary.clone(),
                _ => String::new(),
            };
            match client.heartbeat(HeartbeatRequest { activity: activity.into(), summary, failure: None }).await {
                Ok(_) => reported = activity,
                Err(error) => tracing::debug!(%error, "heartbeat failed"),
            }
            beat_at = now + interval;
        }
        let wake_at = changes_at.map_or(beat_at, |at| at.min(beat_at));
        tokio::select! {
            changed = in_hand.changed() => if changed.is_err() { return },
            () = sleep_until(wake_at) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_becomes_idle_a_while_after_its_work_ends() {
        let idle_after = Duration::from_secs(1);
        let mut work = InHand::default();
        let later = work.changed_at + Duration::from_secs(9);
        assert_eq!(work.activity(later, idle_after), (Activity::Active, None));
        work = InHand { messages: 1, has_begun: true, ..work };
        assert_eq!(work.activity(later, idle_after), (Activity::Active, None));
        work.messages = 0;
        let idle_at = work.changed_at + idle_after;
        assert_eq!(work.activity(work.changed_at, idle_after), (Activity::Active, Some(idle_at)));
        assert_eq!(work.activity(later, idle_after), (Activity::Idle, None));
    }
}
