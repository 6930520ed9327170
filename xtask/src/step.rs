//! One step of a command: a program, and what to do when it fails.

use std::{
    env,
    ffi::OsStr,
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

/// A program that is about to run in the root of the repository, without input.
pub(crate) struct Step {
    command: Command,
    shown: String,
    advice: &'static str,
}

impl Step {
    /// Names a program and its arguments.
    pub(crate) fn new(program: impl AsRef<Path>, arguments: &[&str]) -> Self {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(root()).stdin(Stdio::null());
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
        Self { command, shown: format!("{name} {}", arguments.join(" ")), advice: "see what it says above" }
    }

    /// Names arguments for the cargo that runs this.
    pub(crate) fn cargo(arguments: &[&str]) -> Self {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut step = Self::new(cargo, arguments);
        // What cargo has set for us would make some build scripts run again.
        for (variable, _) in env::vars_os() {
            if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| variable.to_string_lossy().starts_with(prefix)) {
                step.command.env_remove(variable);
            }
        }
        step
    }

    /// Sets a variable of its environment.
    pub(crate) fn env(mut self, variable: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(variable, value);
        self
    }

    /// Says what to do when it fails.
    pub(crate) fn advice(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }

    /// Shows the step and runs it to its end.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        eprintln!("xtask: {}", self.shown);
        match self.command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::new(format!("`{}` failed ({status})", self.shown), self.advice)),
            Err(error) => Err(Failure::new(format!("`{}` cannot run: {error}", self.shown), self.advice)),
        }
    }

    /// Runs it without a word, and returns whether it succeeded.
    pub(crate) fn succeeds(mut self) -> bool {
        self.command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Runs it, and returns what it printed, if it succeeded.
    pub(crate) fn output(mut self) -> Option<String> {
        let output = self.command.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Why a command ended, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    advice: &'static str,
}

impl Failure {
    /// Says both.
    pub(crate) fn new(what: impl Into<String>, advice: &'static str) -> Self {
        Self { what: what.into(), advice }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xtask: {}\nxtask: next: {}", self.what, self.advice)
    }
}

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    let xtask = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    xtask.parent().map_or(xtask.clone(), Path::to_path_buf)
}

/// Returns when a file was last written; `None` where there is none.
pub(crate) fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
