//! Whether the program has loaded the member's tools.
//!
//! The MCP server creates a file when the program asks it for its tools. A program that never does looks healthy, but
//! its agent cannot answer.

use std::{future::pending, path::PathBuf, time::Duration};

use teamwire_proto::v1;
use tempfile::TempDir;
use tokio::time::{Instant, sleep_until};

use super::{Agent, warn};
use crate::incarnation::Incarnation;

/// What to say if the program has not asked for the member's tools.
pub(super) const TOOLS_MISSING: &str = "The program has not loaded the team's tools (`teamwire mcp`), so the agent cannot answer. See what the \
                             program says about its MCP servers.";

/// How long after its first prompt a program may take to load the tools.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the first prompt waits for the tools at most.
const FIRST_PROMPT_WAIT: Duration = Duration::from_secs(5);

/// How often to look for them meanwhile.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Waits until the program has loaded its tools.
#[derive(Debug)]
pub(super) struct Loading {
    directory: TempDir,
    /// Until when the first prompt waits for the tools. `None` if it does not wait, or the program is not ready yet.
    await_until: Option<Instant>,
    waits: bool,
    /// When to look again. `None` if the program has no prompt yet.
    look_at: Option<Instant>,
    is_missing: bool,
}

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The tools are loaded.
    Loaded,
    /// They are not, which was unknown.
    Missing,
    /// They are still not.
    StillMissing,
}

impl Loading {
    /// Creates the directory of the file. `None` if that is impossible, so no one will know.
    /// `waits`: the program may be ready before it has connected to its MCP servers.
    pub(super) fn new(waits: bool) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("teamwire-tools-").tempdir().ok()?;
        Some(Self { directory, await_until: None, waits, look_at: None, is_missing: false })
    }

    /// Returns the file that the MCP server creates.
    pub(super) fn file(&self) -> PathBuf {
        self.directory.path().join("loaded")
    }

    /// Returns whether the first prompt of a program that is ready must wait. Without the tools, the agent could not
    /// answer it.
    pub(super) fn is_awaited(&mut self) -> bool {
        if !self.waits || self.look_at.is_some() || self.file().exists() {
            return false;
        }
        Instant::now() < *self.await_until.get_or_insert_with(|| Instant::now() + FIRST_PROMPT_WAIT)
    }

    /// Records that the program has its first prompt.
    pub(super) fn begin(&mut self) {
        self.look_at.get_or_insert_with(|| Instant::now() + PATIENCE);
    }

    /// Waits until it is time to look. Cancel-safe.
    pub(super) async fn due(&self) {
        match self.look_at {
            Some(at) => sleep_until(at).await,
            None => pending().await,
        }
    }

    /// Looks whether the tools are loaded. Once they are, there is nothing to look for any more.
    pub(super) fn look(&mut self) -> Look {
        if self.file().exists() {
            return Look::Loaded;
        }
        self.look_at = Some(Instant::now() + PATIENCE);
        if std::mem::replace(&mut self.is_missing, true) { Look::StillMissing } else { Look::Missing }
    }
}

/// Waits until it is time to look whether the program has loaded the tools. Cancel-safe.
pub(super) async fn due(loading: &Option<Loading>) {
    match loading {
        Some(loading) => loading.due().await,
        None => pending().await,
    }
}

impl Agent {
    /// Tells the lead if the program has not loaded the member's tools.
    pub(super) fn look_for_tools(&mut self, incarnation: &mut Incarnation<'_>) {
        match self.loading.as_mut().map(Loading::look) {
            Some(Look::Missing) => {
                self.state.set_defect(TOOLS_MISSING);
                warn(incarnation, TOOLS_MISSING);
                incarnation.report_failure(v1::WorkFailure { error: TOOLS_MISSING.to_owned(), ..Default::default() });
            }
            Some(Look::Loaded) => {
                self.state.set_defect("");
                self.loading = None;
            }
            Some(Look::StillMissing) | None => {}
        }
        self.settle_outbox(incarnation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tools_that_are_not_loaded_in_time_are_missing_until_they_are() {
        let mut loading = Loading::new(false).unwrap();
        let began = Instant::now();
        loading.begin();
        loading.due().await;
        assert_eq!((began.elapsed(), loading.look()), (PATIENCE, Look::Missing));
        loading.begin();
        loading.due().await;
        assert_eq!(loading.look(), Look::StillMissing);
        std::fs::write(loading.file(), "").unwrap();
        loading.due().await;
        assert_eq!((began.elapsed(), loading.look()), (PATIENCE * 3, Look::Loaded));
    }
}
