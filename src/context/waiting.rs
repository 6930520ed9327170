//! What a command does while the coordinator does not answer: it says what it waits for, and does not wait in vain.

use std::{ops::ControlFlow, time::Duration};

use parking_lot::Mutex;
use teamwire_client::Waiting;

use crate::failure::is_local;

/// How long to try a coordinator on this machine that is not running. One that restarts is back sooner.
const ABSENT_PATIENCE: Duration = Duration::from_millis(600);

/// How long a command may wait before it says why.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// What the client of a command does while the coordinator does not answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// A timeout was set, so it waits even for a coordinator that is not running.
    pub(super) is_patient: bool,
    /// It prints nothing.
    pub(super) is_quiet: bool,
    /// How long a stream may be broken. `None`: it reopens until the command ends.
    pub(super) of_streams: Option<Duration>,
}

impl Patience {
    /// Returns the observer of the client.
    pub(super) fn observer(self) -> impl Fn(&Waiting<'_>) -> ControlFlow<()> + Send + Sync + 'static {
        let spoken_at: Mutex<Option<Duration>> = Mutex::new(None);
        move |waiting| {
            let by_next = waiting.waited + waiting.delay;
            let is_absent = !self.is_patient && waiting.is_absent && is_local(waiting.address);
            let gives_up = self.of_streams.is_some_and(|max| waiting.left.is_none() && by_next >= max);
            if (is_absent && by_next >= ABSENT_PATIENCE) || gives_up {
                return ControlFlow::Break(());
            }
            let mut spoken_at = spoken_at.lock();
            // A stream that has waited for less than before has broken again.
            if waiting.left.is_none() && spoken_at.is_some_and(|waited| waiting.waited < waited) {
                *spoken_at = None;
            }
            if by_next >= SILENCE_MAX {
                if !self.is_quiet && spoken_at.is_none() {
                    anstream::eprintln!("{}", text(waiting, self.of_streams));
                }
                *spoken_at = Some(waiting.waited);
            }
            ControlFlow::Continue(())
        }
    }
}

fn text(waiting: &Waiting<'_>, of_streams: Option<Duration>) -> String {
    let detail = waiting.detail.trim_end_matches('.');
    let until = match waiting.left.or(of_streams.map(|max| max.saturating_sub(waiting.waited))) {
        Some(left) => format!("giving up in {} s", left.as_secs()),
        None => "press Ctrl+C to stop".to_owned(),
    };
    format!("Waiting for the coordinator at {} ({detail}); {until}.", waiting.address)
}
