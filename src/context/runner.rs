//! The limits on a program that `teamwire run` has started: it acts as its runner's member and as no other.
//!
//! This prevents mistakes, such as a program that loses its credential and then speaks as the lead of the person who
//! started it. It is not a security boundary: see SECURITY.md on processes of the same OS user.

use std::env;

use teamwire_client::{MEMBER_VARIABLE, RUN_VARIABLE, check_within_runner};

use super::ContextArgs;
use crate::failure::{Failure, NOT_PERMITTED};

/// Returns an environment variable. An empty one counts as unset.
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns whether a runner started this process, or one of its ancestors.
pub(crate) fn is_within_runner() -> bool {
    variable(RUN_VARIABLE).is_some()
}

/// Fails within a runner. `what` says what is not possible there, as a sentence.
pub(crate) fn refuse_within_runner(what: &str) -> Result<(), Failure> {
    if !is_within_runner() {
        return Ok(());
    }
    let who = variable(MEMBER_VARIABLE).map_or_else(String::new, |member| format!(" as {member}"));
    Err(refused(format!("{what} This process runs under `teamwire run`{who}.")))
}

impl ContextArgs {
    /// Fails within a runner if the options or the environment select anything but the runner's member.
    pub(super) fn check_within_runner(&self) -> Result<(), Failure> {
        check_within_runner(self.credential.as_deref(), self.who.as_deref()).map_err(|error| refused(error.to_string()))
    }
}

fn refused(message: String) -> Failure {
    Failure::with_code(NOT_PERMITTED, message)
}
