//! How fast connections are accepted while new ones push out others.

use std::time::Duration;

use tokio::time::sleep;

/// How many connections may push out others before a pause. With [`PAUSE`], a full backlog takes about two seconds.
const AT_ONCE: u32 = 2;

/// The pause: the least that the runtime's clock can measure.
const PAUSE: Duration = Duration::from_millis(1);

/// Keeps a flood of connections from using up the processors. Clients that come back after an outage are not slowed,
/// since they push out no one.
#[derive(Debug, Default)]
pub(super) struct AcceptPace {
    pushed_out: u32,
}

impl AcceptPace {
    /// Records that a new connection has pushed out another one, or was itself closed at once.
    pub(super) fn pushed_out(&mut self) {
        self.pushed_out += 1;
    }

    /// Waits until the next connection may be accepted.
    pub(super) async fn wait(&mut self) {
        if self.pushed_out >= AT_ONCE {
            sleep(PAUSE).await;
            self.pushed_out = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connections_are_slowed_only_while_they_push_out_others() {
        let (mut pace, began) = (AcceptPace::default(), Instant::now());
        for _ in 0..1_000 {
            pace.wait().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..1_000 {
            pace.pushed_out();
            pace.wait().await;
        }
        assert!(began.elapsed() >= PAUSE * 1_000 / AT_ONCE, "{:?}", began.elapsed());
    }
}
