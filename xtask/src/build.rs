//! Builds the workspace.
//!
//! Architecture invariant: every step of the check selects [`ALL`]. Cargo compiles a dependency again for each set of
//! its features, so a step with a selection that differs would compile most crates twice.

use std::{env, path::PathBuf};

use crate::step::{Failure, Step, root};

/// What every step selects.
pub(crate) const ALL: [&str; 3] = ["--workspace", "--all-features", "--locked"];

/// Builds every program, library, test and example.
pub(crate) fn workspace() -> Result<(), Failure> {
    cargo("build", &["--all-targets"]).advice("fix what the compiler names").run()
}

/// Creates a step that runs a command of cargo on the whole workspace.
pub(crate) fn cargo(command: &str, arguments: &[&str]) -> Step {
    Step::cargo(&[&[command], &ALL[..], arguments].concat())
}

/// Returns the path of a program that [`workspace`] builds.
pub(crate) fn program(name: &str) -> PathBuf {
    target().join("debug").join(name)
}

/// Returns the path of a program that was built with `--release`.
pub(crate) fn released(name: &str) -> PathBuf {
    target().join("release").join(name)
}

/// Returns the directory in which cargo builds.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
