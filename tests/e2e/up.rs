//! `teamwire up` and `teamwire down`: a team from a file, from nothing on one machine, and nothing left of it.

use std::{
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    agents,
    world::{Output, TEAMWIRE, World, bare_command, eventually, processes_with, signal},
};

/// A machine with nothing but the binary: an empty home, and what a test puts there.
struct Machine {
    home: TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { home: tempfile::Builder::new().prefix("teamwire-up-").tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    fn state(&self) -> PathBuf {
        self.path().join(".local/state/teamwire")
    }

    /// Writes the team's file. `{echo}`: a profile's command that answers messages.
    fn write(&self, team: &str) {
        let echo = format!("[\"{}\", \"echo-teammate\"]", TEAMWIRE);
        fs::write(self.path().join("team.toml"), team.replace("{echo}", &echo)).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = bare_command();
        command.env("HOME", self.path()).env("TEAMWIRE_LISTEN", "127.0.0.1:0").env("TEAMWIRE_TIMEOUT", "60");
        command.current_dir(self.path());
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Output {
        self.run_command(self.command(), arguments)
    }

    #[track_caller]
    fn run_command(&self, command: Command, arguments: &[&str]) -> Output {
        World::start_command(command, &env::temp_dir(), "a person", arguments, "").output()
    }

    /// Returns what `up` or `down` did, as JSON: what, name and outcome of each line.
    #[track_caller]
    fn lines(&self, arguments: &[&str]) -> Vec<String> {
        summary(&self.run(&[arguments, &["--json"]].concat()).succeeds())
    }

    fn member(&self, name: &str) -> Value {
        let status = self.run(&["--as", "lead", "status", "--json"]).succeeds().json();
        let members = status["members"].as_array().unwrap();
        members.iter().find(|member| member["name"] == name).cloned().unwrap_or(Value::Null)
    }

    /// Returns the processes that were started here. Members get the variable, too.
    fn processes(&self) -> Vec<u32> {
        processes_with("HOME", self.path())
    }

    fn record(&self, file: &str) -> Value {
        serde_json::from_slice(&fs::read(self.state().join("up").join(file)).unwrap()).unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for pid in self.processes() {
            signal(pid, Signal::SIGKILL);
        }
    }
}

/// Acknowledges every message, and rejects its shutdown.
const REJECTS: &str = r#"
while hear; do
    case "$line" in
        *'"type":"shutdown_request"'*) answer false 'two tests are red' ;;
        *'"id":"'*) ack ;;
    esac
done
"#;

/// Returns the lines of a command as `what name outcome`.
fn summary(output: &Output) -> Vec<String> {
    let word = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    let line = |line: &Value| match word(line, "what").as_str() {
        // Its name is its address.
        "coordinator" => format!("coordinator {}", word(line, "outcome")),
        what => format!("{what} {} {}", word(line, "name"), word(line, "outcome")),
    };
    output.lines().iter().map(line).collect()
}

const TEAM: &str = r#"
    name = "acme"
    description = "The billing rewrite"

    [[members]]
    name = "backend"
    profile = "echo"
    prompt = "You own the API."

    [[members]]
    name = "reviewer"
    profile = "echo"
    restart = "never"

    [[tasks]]
    key = "release"
    subject = "Release"
    depends_on = ["Design the API"]

    [[tasks]]
    subject = "Design the API"
    owner = "backend"

    [hosts.local.profiles.echo]
    command = {echo}
"#;

#[test]
fn from_nothing_a_team_answers_a_second_up_changes_nothing_and_down_leaves_nothing() {
    let machine = Machine::new();
    machine.write(TEAM);
    let planned = machine.lines(&["up", "--dry-run"]);
    assert_eq!(
        planned,
        [
            "coordinator planned",
            "team acme planned",
            "host local planned",
            "member backend planned",
            "member reviewer planned",
            "task Design the API planned",
            "task release planned"
        ]
    );
    assert!(!machine.state().exists(), "--dry-run does nothing");

    let mut done = machine.lines(&["up"]);
    // The members start in any order.
    done[7..].sort();
    assert_eq!(
        done,
        [
            "coordinator done",
            "team acme done",
            "host local done",
            "member backend done",
            "member reviewer done",
            "task Design the API done",
            "task release done",
            "member backend done",
            "member reviewer done"
        ]
    );
    let answer = machine.run(&["send", "backend", "Are you there?", "-s", "a question", "--wait-reply"]).succeeds();
    assert!(answer.stdout.contains("You said: Are you there?"), "{}", answer.stdout);
    let release = machine.run(&["task", "list", "--json"]).succeeds().lines();
    assert_eq!((&release[1]["subject"], &release[1]["blocked_by"][0]), (&"Release".into(), &1.into()));

    let before = machine.run(&["history", "--all", "--json"]).succeeds().lines().len();
    let again = machine.lines(&["up"]);
    assert!(again.iter().all(|line| line.ends_with(" kept")), "{again:?}");
    assert_eq!(again.len(), 6, "{again:?}");
    let after = machine.run(&["history", "--all", "--json"]).succeeds().lines().len();
    assert_eq!(before, after, "nothing has changed");
    let text = machine.run(&["up"]).succeeds().stdout;
    assert!(text.contains("There is nothing to do for team acme."), "{text}");

    let address = machine.record("coordinator.json")["address"].as_str().unwrap().to_owned();
    let mut ended = machine.lines(&["down"]);
    ended[..2].sort();
    assert_eq!(
        ended,
        ["member backend done", "member reviewer done", "host local done", "team acme done", "coordinator done"]
    );
    eventually("no process is left", || machine.processes().is_empty().then_some(()));
    let socket = address.rsplit('/').next().unwrap();
    assert!(TcpListener::bind(socket).is_ok(), "nothing listens at {socket}");
    let identities = machine.run(&["identities", "--json"]).succeeds();
    assert_eq!(identities.stdout, "");
    assert!(machine.run(&["down"]).succeeds().stdout.contains("Nothing runs for team acme."));
}

#[test]
fn a_member_that_does_not_start_is_reported_and_the_others_go_on() {
    let machine = Machine::new();
    let member = |name: &str| format!("[[members]]\nname = \"{name}\"\nprofile = \"{name}\"\n");
    let text = TEAM.replacen("    [[tasks]]", &format!("{}{}[[tasks]]", member("broken"), member("missing")), 1);
    machine.write(&format!("{text}\n[hosts.local.profiles.broken]\ncommand = [\"/nowhere/agent\"]"));
    let output = machine.run(&["up", "--json"]);
    assert_eq!(output.code, 1, "{}{}", output.stdout, output.stderr);
    let lines = output.lines();
    let of = |name: &str| lines.iter().rfind(|line| line["name"] == name).unwrap().clone();
    assert_eq!(of("backend")["outcome"], "done");
    assert_eq!(of("reviewer")["outcome"], "done");
    let failed = |name: &str| {
        assert_eq!(of(name)["outcome"], "failed", "{}", output.stdout);
        of(name)["text"].as_str().unwrap().to_owned()
    };
    assert!(failed("missing").contains("has no profile missing, but broken, echo"), "{}", output.stdout);
    assert!(failed("broken").contains("broken was not started: local says: "), "{}", output.stdout);
    let error = output.error()["message"].as_str().unwrap().to_owned();
    assert!(error.contains("Team acme is not complete: missing, broken."), "{error}");
    assert_eq!(machine.member("backend")["state"], machine.member("reviewer")["state"]);
    machine.lines(&["down", "--force"]);
    eventually("no process is left", || machine.processes().is_empty().then_some(()));
}

#[test]
fn up_starts_again_what_has_ended_and_shows_what_differs() {
    let machine = Machine::new();
    machine.write(TEAM);
    machine.lines(&["up"]);
    machine.run(&["shutdown", "reviewer", "--wait"]).succeeds();
    let host = machine.record("teams/acme/team.json")["host"]["id"].as_u64().unwrap();
    signal(u32::try_from(host).unwrap(), Signal::SIGKILL);
    let coordinator = machine.record("coordinator.json")["process"]["id"].as_u64().unwrap();
    machine.write(&TEAM.replace("You own the API.", "You own the database."));
    let lines = machine.lines(&["up"]);
    assert_eq!(
        lines,
        [
            "team acme kept",
            "member backend kept",
            "task 1 kept",
            "task 2 kept",
            "difference  differs",
            "host local done",
            "member reviewer done",
            "member reviewer done"
        ]
    );
    assert_eq!(
        (machine.member("backend")["incarnation"].as_u64(), machine.member("reviewer")["incarnation"].as_u64()),
        (Some(1), Some(2))
    );
    assert_eq!(machine.record("coordinator.json")["process"]["id"].as_u64(), Some(coordinator));

    machine.run(&["down", "--keep-team"]).succeeds();
    assert_eq!(machine.member("backend")["state"], "exited");
    machine.lines(&["up"]);
    assert_eq!(machine.member("backend")["incarnation"].as_u64(), Some(2));
    machine.lines(&["down"]);
    eventually("no process is left", || machine.processes().is_empty().then_some(()));
}

#[test]
fn a_member_that_rejects_holds_the_team_unless_it_is_forced() {
    let machine = Machine::new();
    let command = serde_json::json!(["sh", "-c", agents::script(REJECTS)]).to_string();
    machine.write(&TEAM.replace("{echo}", &command));
    machine.lines(&["up"]);
    let output = machine.run(&["down"]).exits(3);
    assert!(
        output.stdout.contains("backend was not shut down: rejected by backend: two tests are red"),
        "{}",
        output.stdout
    );
    assert!(output.stderr.contains("--force"), "{}", output.stderr);
    assert_ne!(machine.member("backend")["state"], "exited");
    let forced = machine.run(&["down", "--force"]).succeeds().stdout;
    assert!(forced.contains("backend was stopped by force") && forced.contains("Deleted team acme"), "{forced}");
    eventually("no process is left", || machine.processes().is_empty().then_some(()));
}

#[test]
fn a_member_may_lead() {
    let machine = Machine::new();
    machine.write(&TEAM.replacen("description", "lead = \"backend\"\n    description", 1));
    let lines = machine.lines(&["up"]);
    assert_eq!(lines.last().map(String::as_str), Some("lead backend done"), "{lines:?}");
    let who = machine.run(&["whoami", "--json"]).succeeds().json();
    assert_eq!(who["member"], "user", "{who}");
    let again = machine.lines(&["up"]);
    assert!(again.iter().all(|line| line.ends_with(" kept")), "{again:?}");
    machine.lines(&["down"]);
    eventually("no process is left", || machine.processes().is_empty().then_some(()));
}

#[test]
fn a_taken_port_does_not_keep_a_team_from_starting() {
    let machine = Machine::new();
    machine.write("name = \"acme\"");
    // If this fails, another process has the port.
    let _taken = TcpListener::bind("127.0.0.1:7420");
    let mut command = machine.command();
    command.env_remove("TEAMWIRE_LISTEN");
    let output = machine.run_command(command, &["up", "--json"]).succeeds();
    assert_eq!(summary(&output), ["coordinator done", "team acme done"]);
    machine.lines(&["down"]);
    eventually("no process is left", || machine.processes().is_empty().then_some(()));
}

#[test]
fn a_mistake_in_the_file_starts_nothing() {
    let machine = Machine::new();
    machine.write(&TEAM.replace("restart = \"never\"", "restart = \"seldom\""));
    let output = machine.run(&["up"]).exits(64);
    assert!(
        output.stderr.contains("team.toml:13: unknown variant `seldom`, expected one of `never`"),
        "{}",
        output.stderr
    );
    assert!(!machine.state().exists());
}

/// The example of the documentation, with a program that needs no account.
#[test]
fn the_example_of_the_documentation_starts_as_printed() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/team-file.md")).unwrap();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let machine = Machine::new();
    let echo = format!("command = [\"{}\", \"echo-teammate\"]", TEAMWIRE);
    let text = example.replace("command = [\"claude\", \"--model\", \"opus\"]", &echo);
    assert_ne!(text, example);
    fs::write(machine.path().join("reviewer.md"), "Review every change.").unwrap();
    machine.write(&text);
    machine.lines(&["up"]);
    machine.lines(&["down"]);
    eventually("no process is left", || machine.processes().is_empty().then_some(()));
}
