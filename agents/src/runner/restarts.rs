//! Decides whether a program is restarted, and when.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::{
    config::Restart,
    exit::{End, Why},
};

/// How long a program must have run for its failure to count as the first again.
const SETTLED_AFTER: Duration = Duration::from_secs(60);

/// The longest delay before a restart: shorter than a member's lease and its grace, so that a member which is about to
/// be restarted does not count as lost.
const DELAY_MAX: Duration = Duration::from_secs(30);

/// The failures of a program so far.
pub(super) struct Restarts {
    policy: Restart,
    failures: u32,
    delays: ExponentialBackoff,
}

impl Restarts {
    pub(super) fn new(policy: Restart) -> Self {
        let delays = ExponentialBuilder::new().with_max_delay(DELAY_MAX).without_max_times().build();
        Self { policy, failures: 0, delays }
    }

    /// Returns how long to wait before the next start, after an incarnation that ran for `ran`. `None` if it must not
    /// be restarted.
    pub(super) fn next(&mut self, end: &End, ran: Duration) -> Option<Duration> {
        let has_failed = end.exit.as_ref().is_some_and(|exit| !exit.is_success());
        let failures_max = match self.policy {
            Restart::OnFailure { failures_max } if has_failed => failures_max,
            Restart::Always { failures_max } => failures_max,
            Restart::OnFailure { .. } | Restart::Never => return None,
        };
        if !matches!(end.why, Why::Exited) || end.is_final {
            return None;
        }
        if ran >= SETTLED_AFTER {
            *self = Self::new(self.policy);
        }
        self.failures += 1;
        (self.failures < failures_max.max(1)).then(|| self.delays.next()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn end(why: Why, code: i32) -> End {
        End { why, exit: Some(Exit { code: Some(code), ..Exit::default() }), ..End::default() }
    }

    #[test]
    fn only_failures_are_restarted_and_only_up_to_a_bound() {
        let mut restarts = Restarts::new(Restart::OnFailure { failures_max: 4 });
        assert_eq!(restarts.next(&end(Why::Exited, 0), Duration::ZERO), None);
        assert_eq!(restarts.next(&end(Why::Approved, 1), Duration::ZERO), None);
        for seconds in [1, 2, 4] {
            assert_eq!(restarts.next(&end(Why::Exited, 1), Duration::ZERO), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(restarts.next(&end(Why::Exited, 1), Duration::ZERO), None);
        assert_eq!(restarts.next(&end(Why::Exited, 1), SETTLED_AFTER), Some(Duration::from_secs(1)));
        assert_eq!(Restarts::new(Restart::Never).next(&end(Why::Exited, 1), Duration::ZERO), None);
    }

    #[test]
    fn a_program_that_always_restarts_does_so_after_a_success_but_not_after_an_approved_shutdown() {
        let mut restarts = Restarts::new(Restart::Always { failures_max: 2 });
        assert_eq!(restarts.next(&end(Why::Approved, 0), Duration::ZERO), None);
        assert_eq!(restarts.next(&end(Why::Exited, 0), Duration::ZERO), Some(Duration::from_secs(1)));
        assert_eq!(restarts.next(&end(Why::Exited, 0), Duration::ZERO), None, "too often");
    }
}
