//! A machine with nothing but the binary.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

#[cfg(target_os = "linux")]
use super::Terminal;
use super::{Machine, Output, StartedCommand, TEAMWIRE, World, bare, bare_command, eventually, processes_with, signal};

/// A machine with nothing but the binary: an empty home, and what a test puts there. Dropping it kills what was started
/// there.
pub(crate) struct FreshMachine {
    home: TempDir,
    environment: Vec<(String, String)>,
    /// What runs each command of teamwire: a program and its arguments. Empty if nothing does.
    around: Vec<String>,
}

impl FreshMachine {
    pub(crate) fn new() -> Self {
        Self::with(Vec::new())
    }

    /// A machine on which everything gets more environment variables.
    pub(crate) fn with(environment: Vec<(String, String)>) -> Self {
        let home = tempfile::Builder::new().prefix("teamwire up-").tempdir().unwrap();
        Self { home, environment, around: Vec::new() }
    }

    /// A machine in a network.
    pub(crate) fn at(machine: &Machine) -> Self {
        let mut placed = Self::new();
        placed.around = machine.around();
        placed
    }

    /// A machine without a process table: `/proc` has nothing but the path of teamwire, without which no program finds
    /// its own file. `None`, with a notice, where that is not possible: it takes mount namespaces. CI must give them to
    /// root.
    #[cfg(target_os = "linux")]
    pub(crate) fn without_process_table() -> Option<Self> {
        use std::{
            env,
            os::unix::fs::{MetadataExt as _, symlink},
        };

        let mut machine = Self::new();
        let proc = machine.path().join("proc");
        fs::create_dir_all(proc.join("self")).unwrap();
        symlink(TEAMWIRE, proc.join("self/exe")).unwrap();
        let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        // In a user namespace, every user may mount.
        let options: &[&str] = if is_root { &["--mount"] } else { &["--mount", "--map-root-user"] };
        let hide = "mount --bind \"$0\" /proc && exec \"$@\"";
        let proc = proc.display().to_string();
        let around = [&["unshare"], options, &["sh", "-c", hide, &proc]].concat();
        machine.around = around.into_iter().map(str::to_owned).collect();
        let hidden = machine.wrapped(&["sh", "-c", "! test -e /proc/1"]).output();
        let why = match hidden {
            Ok(output) if output.status.success() => return Some(machine),
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        let must_be = is_root && env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!must_be, "no mount namespaces, and CI must test with them where it is root: {why}");
        eprintln!("skipped: no mount namespaces (they take root, or user namespaces): {why}");
        None
    }

    /// The same machine, on which everything also gets this environment variable.
    pub(crate) fn and(mut self, name: &str, value: String) -> Self {
        self.environment.push((name.to_owned(), value));
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    /// Returns the state directory, which may not exist.
    pub(crate) fn state(&self) -> PathBuf {
        self.path().join(".local/state/teamwire")
    }

    /// Returns a teamwire command of the person at the machine, in the home directory.
    pub(crate) fn command(&self) -> Command {
        let command = if self.around.is_empty() { bare_command() } else { bare(self.wrapped(&[TEAMWIRE])) };
        self.prepared(command)
    }

    /// Starts a command, and types a text.
    pub(crate) fn start(&self, arguments: &[&str], typed: &str) -> StartedCommand {
        World::start_command(self.command(), self.path().parent().unwrap(), "a person", arguments, typed)
    }

    /// Starts a command of a person at a new terminal, in a directory.
    #[cfg(target_os = "linux")]
    pub(crate) fn at_terminal(&self, directory: &Path, arguments: &[&str]) -> Terminal {
        let mut command = self.prepared(bare(Command::new("setsid")));
        command.args(["--ctty", "--wait", TEAMWIRE]).args(arguments).current_dir(directory);
        command.env("TERM", "xterm-256color");
        Terminal::start(command)
    }

    /// Returns a command that what is around each command runs.
    fn wrapped(&self, command: &[&str]) -> Command {
        let mut wrapped = Command::new(&self.around[0]);
        wrapped.args(&self.around[1..]).args(command);
        wrapped
    }

    fn prepared(&self, mut command: Command) -> Command {
        command.envs(self.environment.iter().cloned());
        command.env("HOME", self.path()).env("TEAMWIRE_LISTEN", "127.0.0.1:0").env("TEAMWIRE_TIMEOUT", "60");
        command.current_dir(self.path());
        command
    }

    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_command(self.command(), arguments)
    }

    #[track_caller]
    pub(crate) fn run_command(&self, command: Command, arguments: &[&str]) -> Output {
        World::start_command(command, self.path().parent().unwrap(), "a person", arguments, "").output()
    }

    /// Starts what a person types in a directory.
    pub(crate) fn type_in(&self, directory: &Path, typed: &str) -> StartedCommand {
        let mut command = self.prepared(bare(Command::new("sh")));
        command.current_dir(directory);
        let script = format!("teamwire() {{ \"$0\" \"$@\"; }}; {typed}");
        World::start_command(command, self.path().parent().unwrap(), "a person", &["-c", &script, TEAMWIRE], "")
    }

    /// Returns a member as the lead sees it.
    pub(crate) fn member(&self, name: &str) -> Value {
        let status = self.run(&["--as", "lead", "status", "--json"]).succeeds().json();
        let members = status["members"].as_array().unwrap();
        members.iter().find(|member| member["name"] == name).cloned().unwrap_or(Value::Null)
    }

    /// Returns the processes that were started here. Members get the variable, too.
    pub(crate) fn processes(&self) -> Vec<u32> {
        processes_with("HOME", self.path())
    }

    /// Asserts that nothing runs here, and that the state directory has nothing but what `docs/team-file.md` names.
    #[track_caller]
    pub(crate) fn assert_nothing_is_left(&self) {
        eventually("no process is left", || self.processes().is_empty().then_some(()));
        let mut left: Vec<String> =
            fs::read_dir(self.state()).unwrap().flatten().map(|entry| name_of(&entry)).collect();
        left.sort();
        // Only agents have transcripts.
        left.retain(|name| name != "transcripts");
        let documented = [
            "address",
            "archive",
            "coordinator.lock",
            "coordinator.log",
            "operator.credential",
            "teamwire.redb",
            "teamwire.redb.reserve",
            "teamwire.redb.wal",
            "up",
        ];
        assert_eq!(left, documented);
        let up: Vec<String> =
            fs::read_dir(self.state().join("up")).unwrap().flatten().map(|entry| name_of(&entry)).collect();
        assert_eq!(up, ["lock"]);
    }
}

fn name_of(entry: &fs::DirEntry) -> String {
    entry.file_name().into_string().unwrap()
}

impl Drop for FreshMachine {
    fn drop(&mut self) {
        for pid in self.processes() {
            signal(pid, Signal::SIGKILL);
        }
    }
}
