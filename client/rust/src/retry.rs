//! The retry policy: which calls are retried, when, and for how long.
//!
//! A call that changes something carries an idempotency key, so that it can be retried until its outcome is known. The
//! bounds of the delays double from `delay_min` to `delay_max`. Each delay is its bound times a random number between 0
//! and 1 (full jitter), so that clients which lost the same coordinator do not return in step. If a refusal says how
//! long to wait, the delay is at least that.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use teamwire_proto::{Reason, Refusal, method::Effect, reason};
use tonic::{Code, ConnectError, Status};

use crate::transport::{ConnectionEnded, DialError};

/// How a client retries its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How long a call may take in total, delays included, or one outage during a call that waits at the coordinator. Zero
    /// means one attempt, and [`Duration::MAX`] as long as it takes.
    pub total: Duration,
    /// The bound of the first delay.
    pub delay_min: Duration,
    /// The bound of every delay.
    pub delay_max: Duration,
    /// Whether INBOX_FULL is retried, too. Off by default, because two members that wait for room in each other's
    /// inboxes would both wait in vain. RATE_LIMITED is always retried: it passes by itself.
    pub while_full: bool,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            total: Duration::from_secs(10 * 60),
            delay_min: Duration::from_millis(100),
            delay_max: Duration::from_secs(5),
            while_full: false,
        }
    }
}

impl Retry {
    /// Returns the policy that never retries.
    pub fn none() -> Self {
        Self::within(Duration::ZERO)
    }

    /// Returns the default policy with another total duration.
    pub fn within(total: Duration) -> Self {
        Self { total, ..Self::default() }
    }

    /// Also retries while the recipient's inbox is full.
    pub fn while_full(mut self) -> Self {
        self.while_full = true;
        self
    }

    /// Starts a series of delays.
    pub(crate) fn delays(&self) -> Delays {
        Delays { retry: *self, bounds: self.bounds() }
    }

    fn bounds(&self) -> ExponentialBackoff {
        ExponentialBuilder::new()
            .with_min_delay(self.delay_min)
            .with_max_delay(self.delay_max)
            .without_max_times()
            .build()
    }
}

/// A series of delays with full jitter.
#[derive(Debug)]
pub(crate) struct Delays {
    retry: Retry,
    bounds: ExponentialBackoff,
}

impl Delays {
    /// Returns the next delay.
    pub(crate) fn next(&mut self) -> Duration {
        self.bounds.next().unwrap_or(self.retry.delay_max).mul_f64(rand::random_range(0.0..=1.0))
    }

    /// Starts over with the shortest delay.
    pub(crate) fn reset(&mut self) {
        self.bounds = self.retry.bounds();
    }
}

/// What a failed attempt means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The coordinator refused, and would refuse again.
    Refused(Refusal),
    /// The coordinator refused for now.
    NotNow(Refusal),
    /// The request did not leave this machine.
    NotSent,
    /// The request did not leave this machine, because the connection had already ended.
    Stale,
    /// TLS failed, and will fail until a person changes something. The request did not leave this machine.
    Insecure(String),
    /// The connection broke or the time ran out: the call may have been carried out.
    Broken,
    /// The answer does not follow the protocol.
    Unexpected,
}

impl Failure {
    /// Classifies a status.
    pub(crate) fn of(status: &Status) -> Self {
        if let Some(refusal) = Refusal::from_status(status) {
            return if refusal.reason.is_retryable() { Self::NotNow(refusal) } else { Self::Refused(refusal) };
        }
        if let Some(error) = dial_error(status) {
            return if error.is_final() { Self::Insecure(error.to_string()) } else { Self::NotSent };
        }
        if causes(status).any(|cause| cause.is::<ConnectionEnded>()) {
            return Self::Stale;
        }
        if causes(status).any(|cause| cause.is::<ConnectError>()) {
            return Self::NotSent;
        }
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => Self::Broken,
            // A status from the wire has no cause. One with a cause was made here, of a transport error.
            _ if causes(status).next().is_some() => Self::Broken,
            _ => Self::Unexpected,
        }
    }

    /// Returns whether to retry a call with this effect under this policy.
    pub(crate) fn is_retried(&self, effect: Effect, retry: &Retry) -> bool {
        match self {
            Self::NotSent | Self::Stale => true,
            Self::NotNow(refusal) => match refusal.reason.retry() {
                reason::Retry::OnRequest if !refusal.reason.reopens_stream() => retry.while_full,
                _ => effect != Effect::Once || !refusal.may_have_changed(),
            },
            Self::Broken => effect != Effect::Once,
            Self::Refused(_) | Self::Insecure(_) | Self::Unexpected => false,
        }
    }

    /// Returns whether the attempt may have changed something.
    pub(crate) fn may_have_changed(&self, effect: Effect) -> bool {
        let may_be_done = match self {
            Self::Refused(refusal) | Self::NotNow(refusal) => refusal.may_have_changed(),
            Self::Broken => true,
            Self::NotSent | Self::Stale | Self::Insecure(_) | Self::Unexpected => false,
        };
        may_be_done && effect != Effect::Read
    }

    /// Returns how long the coordinator asks to wait. Zero for one that drains: another one takes the call at once.
    pub(crate) fn asks_to_wait(&self) -> Duration {
        match self {
            Self::NotNow(refusal) if refusal.reason == Reason::Draining => Duration::ZERO,
            Self::NotNow(refusal) => refusal.retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

/// Returns whether every coordinator refused the connection: nothing listens there.
pub(crate) fn is_refused(status: &Status) -> bool {
    dial_error(status).is_some_and(DialError::is_refused)
}

/// Returns whether no coordinator can be reached until a person changes something.
pub(crate) fn is_lasting(status: &Status) -> bool {
    dial_error(status).is_some_and(DialError::is_lasting)
}

/// Says why an attempt failed: the innermost cause of a status that was made here, since the outer ones only name the
/// layer that failed.
pub(crate) fn detail(status: &Status) -> String {
    match dial_error(status) {
        Some(error) => error.to_string(),
        None => causes(status).last().map_or_else(|| status.message().to_owned(), ToString::to_string),
    }
}

fn dial_error(status: &Status) -> Option<&DialError> {
    causes(status).find_map(|cause| cause.downcast_ref::<DialError>())
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(status), |cause| cause.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(reason: Reason) -> Failure {
        Failure::of(&Status::from(Refusal::new(reason, "no")))
    }

    #[test]
    fn every_reason_is_final_or_retried() {
        for reason in Reason::ALL {
            let failure = of(*reason);
            let retried = failure.is_retried(Effect::Repeatable, &Retry::default().while_full());
            assert_eq!(retried, reason.is_retryable(), "{reason}");
            assert!(failure.asks_to_wait() == Duration::ZERO || reason.is_retryable());
        }
    }

    #[test]
    fn a_full_inbox_is_retried_only_on_request() {
        assert!(!of(Reason::InboxFull).is_retried(Effect::Repeatable, &Retry::default()));
        assert!(of(Reason::InboxFull).is_retried(Effect::Repeatable, &Retry::default().while_full()));
        assert!(!of(Reason::InboxFull).may_have_changed(Effect::Repeatable));
    }

    #[test]
    fn a_rate_limit_is_always_retried() {
        for effect in [Effect::Read, Effect::Repeatable, Effect::Once] {
            assert!(of(Reason::RateLimited).is_retried(effect, &Retry::default()));
            assert!(!of(Reason::RateLimited).may_have_changed(effect));
        }
    }

    #[test]
    fn the_four_codes_of_an_unknown_outcome_are_retried_only_with_a_key() {
        for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled, Code::Unknown] {
            let failure = Failure::of(&Status::new(code, "tcp"));
            assert!(failure.is_retried(Effect::Repeatable, &Retry::default()));
            assert!(failure.is_retried(Effect::Read, &Retry::default()));
            assert!(!failure.is_retried(Effect::Once, &Retry::default()));
            assert!(failure.may_have_changed(Effect::Once) && !failure.may_have_changed(Effect::Read));
        }
        assert!(of(Reason::StoreUnavailable).may_have_changed(Effect::Repeatable));
        assert!(
            of(Reason::Internal).may_have_changed(Effect::Once) && !of(Reason::Internal).may_have_changed(Effect::Read)
        );
        assert!(of(Reason::Draining).is_retried(Effect::Once, &Retry::default()));
    }

    #[test]
    fn a_record_that_cannot_be_read_has_changed_nothing() {
        let damaged = Refusal::new(Reason::Internal, "damaged").nothing_changed();
        assert!(!Failure::of(&Status::from(damaged)).may_have_changed(Effect::Repeatable));
    }

    #[test]
    fn a_store_that_refuses_writes_has_changed_nothing() {
        let read_only = Refusal::new(Reason::StoreUnavailable, "read-only").nothing_changed();
        for refusal in [read_only, Refusal::new(Reason::StoreFull, "full")] {
            let failure = Failure::of(&Status::from(refusal));
            assert!(failure.is_retried(Effect::Once, &Retry::default()));
            assert!(!failure.may_have_changed(Effect::Once));
        }
    }

    #[test]
    fn other_codes_without_a_reason_are_unexpected_unless_made_locally() {
        assert_eq!(Failure::of(&Status::unimplemented("who?")), Failure::Unexpected);
        assert_eq!(Failure::of(&Status::internal("made there")), Failure::Unexpected);
        let mut made_here = Status::internal("h2 protocol error");
        made_here.set_source(std::sync::Arc::new(std::io::Error::other("reset")));
        assert_eq!(Failure::of(&made_here), Failure::Broken);
        assert_eq!(detail(&made_here), "reset");
        assert_eq!(detail(&Status::internal("made there")), "made there");
    }

    #[test]
    fn delays_grow_to_their_bound_and_start_over() {
        let retry = Retry { delay_max: Duration::from_millis(400), ..Retry::default() };
        let mut delays = retry.delays();
        for bound in [100, 200, 400, 400, 400] {
            assert!(delays.next() <= Duration::from_millis(bound));
        }
        delays.reset();
        assert!(delays.next() <= Duration::from_millis(100));
    }
}
