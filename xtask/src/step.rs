//! A step of a command: a program to run, and what to do if it fails.

use std::{
    cell::Cell,
    env,
    ffi::OsStr,
    fmt,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
};

thread_local! {
    /// Whether this thread prints a step's output only once the step has ended.
    static HOLDS_OUTPUT: Cell<bool> = const { Cell::new(false) };
}

/// Runs two lists of steps at the same time. What a step of the second list prints appears when that step ends.
pub(crate) fn beside(
    first: impl FnOnce() -> Result<(), Failure>,
    second: impl FnOnce() -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            HOLDS_OUTPUT.set(true);
            second()
        });
        let first = first();
        let second = second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        first.and(second)
    })
}

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
        Self::new(cargo, arguments).without_variables_of_this_package()
    }

    /// Removes what cargo has set for this package, which would make a cargo below rerun some build scripts.
    pub(crate) fn without_variables_of_this_package(mut self) -> Self {
        for (variable, _) in env::vars_os() {
            if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| variable.to_string_lossy().starts_with(prefix)) {
                self.command.env_remove(variable);
            }
        }
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, variable: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(variable, value);
        self
    }

    /// Removes an environment variable.
    pub(crate) fn without(mut self, variable: &str) -> Self {
        self.command.env_remove(variable);
        self
    }

    /// Sets what to do if it fails, as the user reads it.
    pub(crate) fn advice(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }

    /// Prints the step, and runs it to completion.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        let status = if HOLDS_OUTPUT.get() {
            self.status_with_output_held()
        } else {
            eprintln!("xtask: {}", self.shown);
            self.command.status()
        };
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::new(format!("`{}` failed ({status})", self.shown), self.advice)),
            Err(error) => Err(Failure::new(format!("`{}` cannot run: {error}", self.shown), self.advice)),
        }
    }

    /// Runs it to completion, and then prints the step and its output at once.
    fn status_with_output_held(&mut self) -> io::Result<ExitStatus> {
        let (mut output, writer) = io::pipe()?;
        self.command.stdout(writer.try_clone()?).stderr(writer);
        let started = self.command.spawn();
        // The command holds the pipe's other end. As long as it does, the output has no end.
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut held = format!("xtask: {}\n", self.shown).into_bytes();
        let status = started.and_then(|mut child| {
            output.read_to_end(&mut held)?;
            child.wait()
        });
        io::stderr().lock().write_all(&held)?;
        status
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
