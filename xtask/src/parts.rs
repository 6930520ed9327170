//! The parts of a long command: what ran, how long it took, and what failed.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::step::Failure;

/// The parts that have ended. Dropping it prints them.
pub(crate) struct Parts {
    began: Instant,
    /// Whether the other parts still run once one has failed.
    goes_on: bool,
    ended: Mutex<Vec<(&'static str, Duration, bool)>>,
}

impl Parts {
    /// Starts a command with parts. `goes_on`: a part that fails does not keep the next ones from running.
    pub(crate) fn new(goes_on: bool) -> Self {
        Self { began: Instant::now(), goes_on, ended: Mutex::default() }
    }

    /// Runs a part, and records how it ended. Says at once why it failed: another part may be running.
    pub(crate) fn run<T>(&self, name: &'static str, part: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let is_over = |ended: &[(_, _, bool)]| !self.goes_on && ended.iter().any(|(_, _, passed)| !passed);
        if is_over(&self.ended.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Err(Failure::new(format!("`{name}` did not run, because another part failed"), "see above"));
        }
        let began = Instant::now();
        let result = part().inspect_err(|failure| eprintln!("{failure}"));
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push((name, began.elapsed(), result.is_ok()));
        result
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, took, passed) in &*ended {
            let outcome = if *passed { "passed" } else { "FAILED" };
            eprintln!("xtask: {:>8} {outcome}  {name}", minutes(*took));
        }
        eprintln!("xtask: {:>8} in all", minutes(self.began.elapsed()));
    }
}

/// Returns a duration as minutes and seconds.
fn minutes(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
