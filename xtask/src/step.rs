//! A step of a command: a program to run, and what to do if it fails.

use std::{
    env,
    ffi::OsStr,
    fmt,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// A program to run in the root of the repository, with empty standard input.
pub(crate) struct Step {
    command: Command,
    shown: String,
    advice: &'static str,
}

impl Step {
    /// Creates a step that runs a program.
    pub(crate) fn new(program: impl AsRef<Path>, arguments: &[&str]) -> Self {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(root()).stdin(Stdio::null());
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
        Self { command, shown: format!("{name} {}", arguments.join(" ")), advice: "read its output above" }
    }

    /// Creates a step that runs the cargo that runs this program.
    pub(crate) fn cargo(arguments: &[&str]) -> Self {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut step = Self::new(cargo, arguments);
        // Variables that cargo has set for this package would make some build scripts rerun.
        for (variable, _) in env::vars_os() {
            if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| variable.to_string_lossy().starts_with(prefix)) {
                step.command.env_remove(variable);
            }
        }
        step
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, variable: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(variable, value);
        self
    }

    /// Sets what to do if it fails, as the user reads it.
    pub(crate) fn advice(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }

    /// Prints the step, and runs it to completion.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        eprintln!("xtask: {}", self.shown);
        match self.command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::new(format!("`{}` failed ({status})", self.shown), self.advice)),
            Err(error) => Err(Failure::new(format!("`{}` cannot run: {error}", self.shown), self.advice)),
        }
    }

    /// Prints the step, runs it to completion, and returns what it printed, which it also passes on.
    pub(crate) fn run_captured(mut self) -> Result<Captured, Failure> {
        eprintln!("xtask: {}", self.shown);
        let failure = |error| Failure::new(format!("`{}` cannot run: {error}", self.shown), self.advice);
        let mut child = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failure)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = thread::scope(|scope| {
            let errors = scope.spawn(|| pass_on(stderr, io::stderr()));
            (pass_on(stdout, io::stdout()), errors.join().unwrap_or_default())
        });
        let is_success = child.wait().map_err(failure)?.success();
        Ok(Captured { is_success, stdout, stderr })
    }

    /// Runs it silently, and returns whether it succeeded.
    pub(crate) fn succeeds(mut self) -> bool {
        self.command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Runs it, and returns its trimmed standard output if it succeeded.
    pub(crate) fn output(mut self) -> Option<String> {
        let output = self.command.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// What a step has printed, and whether it succeeded.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) is_success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Copies everything from one stream to another as it arrives, and returns it.
fn pass_on(from: Option<impl Read>, mut to: impl Write) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 8192]);
    let Some(mut from) = from else { return String::new() };
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let _ = to.write_all(&buffer[..length]).and_then(|()| to.flush());
        all.extend_from_slice(&buffer[..length]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Why a command failed, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    advice: &'static str,
}

impl Failure {
    /// Creates a failure.
    pub(crate) fn new(what: impl Into<String>, advice: &'static str) -> Self {
        Self { what: what.into(), advice }
    }

    /// Creates the failure of reading or writing a file.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self::new(format!("{}: {error}", path.display()), "check that the disk has space and the path is writable")
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
