//! What a command does while the coordinator does not answer: it says what it waits for, and does not wait in vain.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use teamwire_client::Waiting;

use crate::failure::is_local;

/// How long to try a coordinator on this machine that is not running. One that restarts is back sooner.
const ABSENT_PATIENCE: Duration = Duration::from_millis(600);

/// How long a command may wait before it says why.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Returns the observer of a command's client. `is_patient`: a timeout was set, so wait even for a coordinator that is
/// not running. `is_quiet`: print nothing.
pub(super) fn observer(
    is_patient: bool,
    is_quiet: bool,
) -> impl Fn(&Waiting<'_>) -> ControlFlow<()> + Send + Sync + 'static {
    let has_spoken = AtomicBool::new(false);
    move |waiting| {
        let by_next = waiting.waited + waiting.delay;
        if !is_patient && waiting.is_absent && by_next >= ABSENT_PATIENCE && is_local(waiting.address) {
            return ControlFlow::Break(());
        }
        if !is_quiet && by_next >= SILENCE_MAX && !has_spoken.swap(true, Ordering::Relaxed) {
            anstream::eprintln!("{}", text(waiting));
        }
        ControlFlow::Continue(())
    }
}

fn text(waiting: &Waiting<'_>) -> String {
    let detail = waiting.detail.trim_end_matches('.');
    let until = match waiting.left {
        Some(left) => format!("giving up in {} s", left.as_secs()),
        None => "press Ctrl+C to stop".to_owned(),
    };
    format!("Waiting for the coordinator at {} ({detail}); {until}.", waiting.address)
}
