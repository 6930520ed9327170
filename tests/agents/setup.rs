//! What a scenario begins with: a team, a scripted model, and programs that know no other.

use std::{env, fs, os::unix::fs::MetadataExt as _, path::PathBuf, process::Command};

use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use teamwire_scripted_model::{Model, Rule};

use crate::{
    program::{self, Program},
    world::{LEAD, Output, Runner, Terminal, World, eventually, is_alive},
};

/// The member that the scenarios are about.
pub(crate) const BACKEND: &str = "backend";

/// What the scripted model costs, for programs that report no cost: a US dollar for a million tokens.
const PRICES: &str = "[usage]\nprices = [\"* 1 1 1\"]\n";

/// A team with its lead, on a coordinator with the embedded store.
pub(crate) struct Setup {
    /// The program under test.
    pub program: &'static Program,
    /// What all programs take for their makers' models. Dropped before the world, so that it prints its requests first.
    pub model: Model,
    pub world: World,
}

impl Setup {
    /// Creates a team for a program. None, with a notice: the program is not installed.
    pub(crate) fn with(name: &str) -> Option<Self> {
        let program = Program::installed(name)?;
        isolate();
        let (model, world) = (Model::start(), World::configured(PRICES));
        world.environment.borrow_mut().extend(program::environment(&model.address()));
        world.create_team("acme");
        Some(Self { program, model, world })
    }

    /// Starts the program as [`BACKEND`], and waits until it runs.
    pub(crate) fn backend(&self, options: &[&str]) -> Runner {
        self.run(BACKEND, self.program, options)
    }

    /// Starts a program as a member, as a user types it, and waits until it runs.
    pub(crate) fn run(&self, name: &str, program: &Program, options: &[&str]) -> Runner {
        let invitation = self.world.invite(name);
        self.run_again(name, program, &[&["--join", invitation.as_str()], options].concat())
    }

    /// Starts a program as a member that ran before.
    pub(crate) fn run_again(&self, name: &str, program: &Program, options: &[&str]) -> Runner {
        program::configure(&self.world.home(name), &self.model.address());
        self.world.run_program(name, options, &[&[program.name], program.arguments].concat()).ready()
    }

    /// Sends the backend a message.
    #[track_caller]
    pub(crate) fn send(&self, content: &str) {
        self.world.cli(LEAD, &["send", BACKEND, content]).succeeds();
    }

    /// Asks the backend something, and returns its reply.
    #[track_caller]
    pub(crate) fn ask(&self, content: &str) -> Value {
        let asked = self.world.cli(LEAD, &["send", BACKEND, content, "--wait-reply", "60", "--json"]).succeeds();
        asked.json()["reply"].clone()
    }

    /// Adds a rule that runs a shell command.
    pub(crate) fn on_shell(&self, pattern: &str, command: &str) {
        let (tool, input) = self.program.shell(command);
        self.model.add(Rule::when(pattern).calls(tool, input));
    }

    /// Returns how far a message of the lead got with the backend: `queued`, `delivered` or `processed`.
    pub(crate) fn receipt(&self, content: &str) -> String {
        let history = self.world.history(LEAD);
        let entry = history.iter().find(|entry| entry["message"]["content"] == content);
        let entry = entry.unwrap_or_else(|| panic!("there is no message \"{content}\""));
        entry["receipts"][0]["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a message of the lead has reached a state.
    #[track_caller]
    pub(crate) fn await_receipt(&self, content: &str, state: &str) {
        eventually(&format!("\"{content}\" is {state}"), || (self.receipt(content) == state).then_some(()));
    }

    /// Returns a file in the backend's directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.world.home(BACKEND).join(name)
    }

    /// Waits for a file in the backend's directory.
    #[track_caller]
    pub(crate) fn await_file(&self, name: &str) {
        eventually(&format!("the file {name}"), || self.file(name).exists().then_some(()));
    }

    /// Creates a file in the backend's directory.
    pub(crate) fn create(&self, name: &str) {
        fs::write(self.file(name), "").unwrap();
    }

    /// Returns what keeps the backend from its work, as its lead sees it. Empty means nothing.
    pub(crate) fn trouble(&self) -> String {
        trouble(&self.world.member(BACKEND))
    }

    /// Has a person type a text at the terminal of a program until the model reads a word of it: a program drops what is
    /// typed before it is ready.
    pub(crate) fn types(&self, terminal: &mut Terminal, text: &str, word: &str) {
        let mut tries = 0;
        eventually("the agent reads what the person types", || {
            tries += 1;
            match tries % 20 {
                1 => terminal.types(text),
                10 => terminal.types("\r"),
                _ => {}
            }
            self.model.requests().iter().any(|request| request.text.contains(word)).then_some(())
        });
    }

    /// Ends the backend as its lead asks it to, with the model approving. Asserts that no process of it is left.
    #[track_caller]
    pub(crate) fn shut_down(&self, backend: Runner) -> Output {
        self.model.add(approval());
        let family = family(&backend);
        let output = self.world.cli(LEAD, &["shutdown", BACKEND, "all done", "--wait"]).succeeds();
        assert_gone(&family);
        assert_eq!(backend.exit(), 0);
        output
    }
}

/// Returns what keeps a member from its work, as it is shown. Empty means nothing.
pub(crate) fn trouble(member: &Value) -> String {
    member["program"]["trouble"].as_str().unwrap_or_default().to_owned()
}

/// Returns the rule by which the model approves a shutdown, with the input that the request's text shows.
pub(crate) fn approval() -> Rule {
    Rule::when("To approve, call SendMessage with (\\{\"type\":\"shutdown_response\".*\\})").calls("SendMessage", "$1")
}

/// Returns the rule by which the model refuses a shutdown, with the input that the request's text shows.
pub(crate) fn refusal() -> Rule {
    Rule::when("To refuse: (\\{\"type\":\"shutdown_response\".*\\})").calls("SendMessage", "$1")
}

/// Returns the process ids of a runner's program and of all its descendants.
pub(crate) fn family(runner: &Runner) -> Vec<u32> {
    let mut family = vec![runner.program()];
    let mut next = 0;
    while let Some(parent) = family.get(next) {
        let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let children: Vec<u32> = lists
            .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect();
        family.extend(children);
        next += 1;
    }
    family
}

/// Asserts that no process of a family runs.
#[track_caller]
pub(crate) fn assert_gone(family: &[u32]) {
    let left: Vec<String> = family.iter().filter(|pid| is_alive(**pid)).map(|pid| command_line(*pid)).collect();
    assert!(left.is_empty(), "these live on: {left:#?}");
}

fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid}: {}", String::from_utf8_lossy(&line).replace('\0', " "))
}

/// Moves this thread, and everything that it starts, into a separate network with nothing but a loopback interface.
/// Takes root and `ip`; without them, only their settings keep the programs from other machines.
fn isolate() {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        return;
    }
    let isolated = unshare(CloneFlags::CLONE_NEWNET).map_err(|error| error.to_string()).and_then(|()| {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        up.is_ok_and(|status| status.success()).then_some(()).ok_or_else(|| "`ip link set lo up` failed".to_owned())
    });
    if let Err(why) = isolated {
        assert!(env::var_os("CI").is_none(), "CI must isolate the programs where it is root: {why}");
        eprintln!("the programs are not isolated from the network: {why}");
    }
}
