//! What is tried again, when, and for how long.
//!
//! A call that changes something carries an idempotency key, so that it can be repeated until its outcome is known. The
//! delays double from `delay_min` to `delay_max`, each multiplied with a random number between 0 and 1 (full jitter), so
//! that clients which lost the same coordinator do not come back in step; where a refusal says how long to wait, no less
//! than that.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use teamwire_proto::{Reason, Refusal, method::Effect, reason};
use tonic::{Code, ConnectError, Status};

use crate::transport::{DialError, Spent};

/// How persistent a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How long a call may take in all, delays included. Zero: one attempt.
    pub total: Duration,
    /// The bound of the first delay.
    pub delay_min: Duration,
    /// The bound of every delay.
    pub delay_max: Duration,
    /// True: INBOX_FULL is waited out, too. It is not by default, because a sender that waits for a recipient which waits
    /// for the sender would wait in vain. RATE_LIMITED always is: it passes by itself.
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
    /// Tries once.
    pub fn none() -> Self {
        Self::within(Duration::ZERO)
    }

    /// Tries for as long as this.
    pub fn within(total: Duration) -> Self {
        Self { total, ..Self::default() }
    }

    /// Waits for room in a full inbox, too.
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
    /// Returns how long to wait now.
    pub(crate) fn next(&mut self) -> Duration {
        self.bounds.next().unwrap_or(self.retry.delay_max).mul_f64(rand::random_range(0.0..=1.0))
    }

    /// Begins again with the shortest delay.
    pub(crate) fn reset(&mut self) {
        self.bounds = self.retry.bounds();
    }
}

/// What a failed attempt means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The rules say no, and would say so again.
    Refused(Refusal),
    /// The rules say not now. `is_outcome_known`: nothing was changed.
    NotNow { refusal: Refusal, is_outcome_known: bool },
    /// The request has not left this machine.
    NotSent,
    /// The request has not left this machine, because the connection had ended before.
    Stale,
    /// TLS stands in the way, and will until somebody changes something. The request has not left this machine.
    Insecure(String),
    /// The connection broke, or time ran out: whatever was asked may have been done.
    Broken,
    /// An answer that is none of the protocol's.
    Unexpected,
}

impl Failure {
    /// Reads a status.
    pub(crate) fn of(status: &Status) -> Self {
        if let Some(refusal) = Refusal::from_status(status) {
            if !refusal.reason.is_retryable() {
                return Self::Refused(refusal);
            }
            let is_outcome_known = refusal.reason.is_outcome_known();
            return Self::NotNow { refusal, is_outcome_known };
        }
        if let Some(error) = causes(status).find_map(|cause| cause.downcast_ref::<DialError>()) {
            return if error.is_final() { Self::Insecure(error.to_string()) } else { Self::NotSent };
        }
        if causes(status).any(|cause| cause.is::<Spent>()) {
            return Self::Stale;
        }
        if causes(status).any(|cause| cause.is::<ConnectError>()) {
            return Self::NotSent;
        }
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => Self::Broken,
            // A status that came over the wire has no cause; one that has, was made here out of a transport's error.
            _ if causes(status).next().is_some() => Self::Broken,
            _ => Self::Unexpected,
        }
    }

    /// Returns whether to try again, given what the call does and how patient the client is.
    pub(crate) fn is_retried(&self, effect: Effect, retry: &Retry) -> bool {
        match self {
            Self::NotSent | Self::Stale => true,
            Self::NotNow { refusal, is_outcome_known } => match refusal.reason.retry() {
                reason::Retry::OnRequest if !refusal.reason.reopens_stream() => retry.while_full,
                _ => effect != Effect::Once || *is_outcome_known,
            },
            Self::Broken => effect != Effect::Once,
            Self::Refused(_) | Self::Insecure(_) | Self::Unexpected => false,
        }
    }

    /// Returns whether the attempt may have changed something.
    pub(crate) fn may_have_changed(&self, effect: Effect) -> bool {
        effect != Effect::Read && matches!(self, Self::Broken | Self::NotNow { is_outcome_known: false, .. })
    }

    /// Returns how long the coordinator asks to wait. One that goes away asks to be left, and another one is there.
    pub(crate) fn asks_to_wait(&self) -> Duration {
        match self {
            Self::NotNow { refusal, .. } if refusal.reason == Reason::Draining => Duration::ZERO,
            Self::NotNow { refusal, .. } => refusal.retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
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
    fn every_reason_is_final_or_waited_out() {
        for reason in Reason::ALL {
            let failure = of(*reason);
            let retried = failure.is_retried(Effect::Repeatable, &Retry::default().while_full());
            assert_eq!(retried, reason.is_retryable(), "{reason}");
            assert!(failure.asks_to_wait() == Duration::ZERO || reason.is_retryable());
        }
    }

    #[test]
    fn a_full_inbox_is_waited_out_only_when_asked_for() {
        assert!(!of(Reason::InboxFull).is_retried(Effect::Repeatable, &Retry::default()));
        assert!(of(Reason::InboxFull).is_retried(Effect::Repeatable, &Retry::default().while_full()));
        assert!(!of(Reason::InboxFull).may_have_changed(Effect::Repeatable));
    }

    #[test]
    fn the_end_of_a_rate_limit_is_always_waited_for() {
        for effect in [Effect::Read, Effect::Repeatable, Effect::Once] {
            assert!(of(Reason::RateLimited).is_retried(effect, &Retry::default()));
            assert!(!of(Reason::RateLimited).may_have_changed(effect));
        }
    }

    #[test]
    fn the_four_codes_of_an_unknown_outcome_are_retried_with_a_key_only() {
        for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled, Code::Unknown] {
            let failure = Failure::of(&Status::new(code, "tcp"));
            assert!(failure.is_retried(Effect::Repeatable, &Retry::default()));
            assert!(failure.is_retried(Effect::Read, &Retry::default()));
            assert!(!failure.is_retried(Effect::Once, &Retry::default()));
            assert!(failure.may_have_changed(Effect::Once) && !failure.may_have_changed(Effect::Read));
        }
        assert!(of(Reason::StoreUnavailable).may_have_changed(Effect::Repeatable));
        assert!(of(Reason::Draining).is_retried(Effect::Once, &Retry::default()));
    }

    #[test]
    fn other_codes_without_a_reason_are_unexpected_unless_they_were_made_here() {
        assert_eq!(Failure::of(&Status::unimplemented("who?")), Failure::Unexpected);
        assert_eq!(Failure::of(&Status::internal("made there")), Failure::Unexpected);
        let mut made_here = Status::internal("h2 protocol error");
        made_here.set_source(std::sync::Arc::new(std::io::Error::other("reset")));
        assert_eq!(Failure::of(&made_here), Failure::Broken);
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
