//! A machine with nothing but the binary.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::{Machine, Output, StartedCommand, TEAMWIRE, World, bare, bare_command, eventually, processes_with, signal};

/// A machine with nothing but the binary: an empty home, and what a test puts there. Dropping it kills what was started
/// there.
pub(crate) struct FreshMachine {
    home: TempDir,
    environment: Vec<(String, String)>,
    /// Its place in a network. `None`: the network of the tests.
    network: Option<Machine>,
}

impl FreshMachine {
    pub(crate) fn new() -> Self {
        Self::with(Vec::new())
    }

    /// A machine on which everything gets more environment variables.
    pub(crate) fn with(environment: Vec<(String, String)>) -> Self {
        Self { home: tempfile::Builder::new().prefix("teamwire up-").tempdir().unwrap(), environment, network: None }
    }

    /// A machine in a network.
    pub(crate) fn at(machine: &Machine) -> Self {
        let mut placed = Self::new();
        placed.network = Some(machine.clone());
        placed
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
        self.prepared(match &self.network {
            Some(machine) => bare(machine.command(TEAMWIRE)),
            None => bare_command(),
        })
    }

    /// Starts a command, and types a text.
    pub(crate) fn start(&self, arguments: &[&str], typed: &str) -> StartedCommand {
        World::start_command(self.command(), self.path().parent().unwrap(), "a person", arguments, typed)
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
        let documented = [
            "address",
            "archive",
            "coordinator.lock",
            "coordinator.log",
            "operator.credential",
            "teamwire.redb",
            "teamwire.redb.reserve",
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
