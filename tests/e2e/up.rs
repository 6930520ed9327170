//! `teamwire up` and `teamwire down`: a team from a file, from nothing on one machine, and nothing left of it.

use std::{fs, net::TcpListener, path::Path};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    agents,
    world::{FreshMachine, Output, eventually, kill_process, signal},
};

impl FreshMachine {
    /// Writes the team's file. `{echo}`: a profile's command that answers messages.
    fn write(&self, team: &str) {
        fs::write(self.path().join("team.toml"), team.replace("{echo}", ECHO)).unwrap();
    }

    /// Returns what `up` or `down` did, as JSON: what, name and outcome of each line.
    #[track_caller]
    fn lines(&self, arguments: &[&str]) -> Vec<String> {
        summary(&self.run(&[arguments, &["--json"]].concat()).succeeds())
    }

    fn record(&self, file: &str) -> Value {
        serde_json::from_slice(&fs::read(self.state().join("up").join(file)).unwrap()).unwrap()
    }

    /// Returns the process of the local host.
    pub(crate) fn host(&self) -> u32 {
        self.record("teams/acme/team.json")["host"]["id"].as_u64().unwrap().try_into().unwrap()
    }
}

/// A program that needs nothing but the binary, which is not on the PATH of these tests.
const ECHO: &str = "[\"teamwire\", \"echo-teammate\"]";

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
    reschedule = true

    [[tasks]]
    key = "release"
    subject = "Release"
    blocked_by = ["Design the API"]

    [[tasks]]
    subject = "Design the API"
    owner = "backend"

    [hosts.local.profiles.echo]
    command = {echo}
"#;

#[test]
fn from_nothing_a_team_answers_a_second_up_changes_nothing_and_down_leaves_nothing() {
    let machine = FreshMachine::new();
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
    let planned = machine.run(&["up", "--dry-run"]).succeeds().stdout;
    assert!(planned.contains("Would start backend: echo.\n"), "{planned}");
    assert!(planned.contains("Would start reviewer: echo; again on another host, if its host is lost.\n"), "{planned}");
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
    let orders = machine.run(&["requests", "--json"]).succeeds().lines();
    let is_rescheduled =
        |name: &str| orders.iter().find(|order| order["member"] == name).unwrap()["spawn"]["reschedule"] == true;
    assert!(is_rescheduled("reviewer") && !is_rescheduled("backend"), "{orders:?}");
    let answer = machine.run(&["send", "backend", "Are you there?", "-s", "a question", "--wait-reply"]).succeeds();
    assert!(answer.stdout.contains("You said: Are you there?"), "{}", answer.stdout);
    let release = machine.run(&["task", "list", "--json"]).succeeds().lines();
    assert_eq!((&release[1]["subject"], &release[1]["blocked_by"][0]), (&"Release".into(), &1.into()));

    // That a member is idle may be noticed meanwhile.
    let changes = || {
        let history = machine.run(&["history", "--all", "--json"]).succeeds().lines();
        history.iter().filter(|entry| entry["message"]["notice"]["kind"] != "idle").count()
    };
    let before = changes();
    let again = machine.lines(&["up"]);
    assert!(again.iter().all(|line| line.ends_with(" kept")), "{again:?}");
    assert_eq!(again.len(), 6, "{again:?}");
    assert_eq!(before, changes(), "nothing has changed");
    let text = machine.run(&["up"]).succeeds().stdout;
    assert!(text.contains("There is nothing to do for team acme."), "{text}");

    let address = machine.record("coordinator.json")["address"].as_str().unwrap().to_owned();
    let mut ended = machine.lines(&["down"]);
    ended[..2].sort();
    assert_eq!(
        ended,
        [
            "member backend done",
            "member reviewer done",
            "host local done",
            "history acme kept",
            "team acme done",
            "coordinator done"
        ]
    );
    machine.assert_nothing_is_left();
    let archives: Vec<_> = fs::read_dir(machine.state().join("archive")).unwrap().flatten().collect();
    assert_eq!(archives.len(), 1, "{archives:?}");
    let archive = fs::read_to_string(archives[0].path()).unwrap();
    assert!(archive.contains("Are you there?") && archive.contains("You said: Are you there?"), "{archive}");
    let socket = address.strip_prefix("unix://").unwrap();
    assert!(!fs::exists(socket).unwrap(), "{socket} is left");
    let identities = machine.run(&["identities", "--json"]).succeeds();
    assert_eq!(identities.stdout, "");
    assert!(machine.run(&["down"]).succeeds().stdout.contains("Nothing runs for team acme."));
}

#[test]
fn a_stopped_coordinator_comes_back_with_its_team() {
    let machine = FreshMachine::new();
    machine.write(TEAM);
    for command in ["stop", "restart"] {
        machine.run(&[command]).exits(1).complains_of("`teamwire up` has started no coordinator here");
    }
    machine.run(&["up"]).succeeds();
    let host = machine.host();
    let address =
        |printed: &str| printed.split(" at ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    let ask = |question: &str| {
        let answer = machine.run(&["send", "backend", question, "-s", "a question", "--wait-reply"]).succeeds();
        assert!(answer.stdout.contains(&format!("You said: {question}")), "{}", answer.stdout);
    };
    ask("one");

    assert_eq!(machine.lines(&["stop"]), ["coordinator done"]);
    machine.run(&["status", "--timeout", "1"]).exits(69).complains_of("Nothing listens at");
    assert_eq!(machine.lines(&["stop"]), ["coordinator kept"]);
    let started = machine.run(&["restart"]).succeeds().stdout;
    assert!(started.starts_with("Started the coordinator at "), "{started}");
    ask("two");
    let restarted = machine.run(&["restart"]).succeeds().stdout;
    assert!(restarted.starts_with("Restarted the coordinator at "), "{restarted}");
    assert_eq!(address(&restarted), address(&started));
    ask("three");
    let members = machine.run(&["status", "--json"]).succeeds().json();
    let lives: Vec<_> = members["members"].as_array().unwrap().iter().map(|member| &member["incarnation"]).collect();
    assert!(lives.iter().all(|life| **life == 1), "{members}");
    assert_eq!(machine.host(), host);
    let again = machine.lines(&["up"]);
    assert!(again.iter().all(|line| line.ends_with(" kept")), "{again:?}");
    machine.run(&["down"]).succeeds();
}

#[cfg(target_os = "linux")]
#[test]
fn at_a_terminal_down_says_what_ends_and_ends_nothing_without_a_yes() {
    let machine = FreshMachine::new();
    machine.write(TEAM);
    machine.run(&["up"]).succeeds();
    let mut asking = machine.at_terminal(machine.path(), &["down"]);
    let asked = asking.shows("To keep it, add --keep-team. Continue? [y/N]");
    assert!(asked.contains("Team acme will be deleted: 3 members, "), "{asked}");
    asking.types("n\r");
    asking.ends();
    let team = machine.run(&["team", "show", "--json"]).succeeds().json();
    let transcripts = machine.state().join("transcripts").join(team["team"]["id"].as_str().unwrap());
    fs::create_dir_all(transcripts.join("backend")).unwrap();
    assert!(["active", "idle"].contains(&machine.member("backend")["state"].as_str().unwrap()));
    let ended = machine.run(&["down", "--yes", "--no-archive", "--force"]).succeeds().stdout;
    assert!(ended.contains("backend was stopped by force: "), "{ended}");
    assert!(!machine.state().join("archive").exists() && !transcripts.exists(), "{ended}");
}

#[test]
fn a_member_that_does_not_start_is_reported_and_the_others_go_on() {
    let machine = FreshMachine::new();
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
    for name in ["backend", "reviewer"] {
        let state = machine.member(name)["state"].clone();
        assert!(state == "active" || state == "idle", "{name} is {state}");
    }
    machine.lines(&["down", "--force"]);
    eventually("no process is left", || machine.processes().is_empty().then_some(()));
}

#[test]
fn up_restarts_what_has_ended_and_shows_what_differs() {
    let machine = FreshMachine::new();
    machine.write(TEAM);
    machine.lines(&["up"]);
    machine.run(&["shutdown", "reviewer", "--wait"]).succeeds();
    signal(machine.host(), Signal::SIGKILL);
    let coordinator = machine.record("coordinator.json")["process"]["id"].as_u64().unwrap();
    machine.write(&TEAM.replace("You own the API.", "You own the database."));
    let lines = machine.lines(&["up"]);
    assert_eq!(
        lines,
        [
            "host local done",
            "team acme kept",
            "member backend kept",
            "task 1 kept",
            "task 2 kept",
            "difference  differs",
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
fn after_a_restart_of_the_machine_one_up_starts_every_member_again() {
    let machine = FreshMachine::new();
    machine.write(TEAM);
    machine.lines(&["up"]);
    eventually("no process is left", || {
        let left = machine.processes();
        left.iter().for_each(|pid| signal(*pid, Signal::SIGKILL));
        left.is_empty().then_some(())
    });
    // The coordinator must get the address that the lead knows.
    let mut command = machine.command();
    command.env_remove("TEAMWIRE_LISTEN");
    let mut lines = summary(&machine.run_command(command, &["up", "--json"]).succeeds());
    lines.sort();
    assert_eq!(
        lines,
        [
            "coordinator done",
            "host local done",
            // Ordered, and started.
            "member backend done",
            "member backend done",
            "member reviewer done",
            "member reviewer done",
            "task 1 kept",
            "task 2 kept",
            "team acme kept",
        ]
    );
    for name in ["backend", "reviewer"] {
        assert_eq!(machine.member(name)["incarnation"].as_u64(), Some(2));
    }
    let answer = machine.run(&["send", "backend", "Are you there?", "-s", "a question", "--wait-reply"]).succeeds();
    assert!(answer.stdout.contains("You said: Are you there?"), "{}", answer.stdout);
    let again = machine.run(&["up"]).succeeds().stdout;
    assert!(again.contains("There is nothing to do for team acme."), "{again}");
    machine.lines(&["down"]);
    eventually("no process is left", || machine.processes().is_empty().then_some(()));
}

#[test]
fn a_member_that_rejects_holds_the_team_unless_it_is_forced() {
    let machine = FreshMachine::new();
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
fn the_file_can_name_a_member_as_the_lead() {
    let machine = FreshMachine::new();
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
    let machine = FreshMachine::new();
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
    let machine = FreshMachine::new();
    machine.write(&TEAM.replace("restart = \"never\"", "restart = \"seldom\""));
    let output = machine.run(&["up"]).exits(64);
    assert!(
        output.stderr.contains("team.toml:13: unknown variant `seldom`, expected one of `never`"),
        "{}",
        output.stderr
    );
    assert!(!machine.state().exists());
}

#[test]
fn a_dry_run_names_the_members_that_no_host_could_start() {
    let machine = FreshMachine::new();
    let member = |name: &str, key: &str| format!("[[members]]\nname = \"{name}\"\nprofile = \"echo\"\n{key}\n");
    let missing = member("missing", "").replace("\"echo\"", "\"nowhere\"");
    let away = member("away", "host = \"gpu-1\"");
    let labeled = member("labeled", "labels = { gpu = \"a100\" }");
    machine.write(&TEAM.replacen("    [[tasks]]", &format!("{missing}{away}{labeled}[[tasks]]"), 1));
    let dry = machine.run(&["up", "--dry-run", "--json"]).exits(1);
    let failed = |output: &Output, name: &str| {
        let line = output.lines().into_iter().find(|line| line["name"] == name).unwrap();
        assert_eq!(line["outcome"], "failed", "{line}");
        line["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(failed(&dry, "missing"), "missing would not start: local has no profile nowhere, but echo.");
    assert_eq!(failed(&dry, "away"), "away would not start: there is no live host gpu-1.");
    assert_eq!(failed(&dry, "labeled"), "labeled would not start: local does not have the label gpu=a100.");
    assert_eq!(dry.error()["message"], "Team acme would not be complete: missing, away, labeled.");
    assert!(summary(&dry).contains(&"member backend planned".to_owned()), "{}", dry.stdout);
    assert!(!machine.state().exists());

    // The same with a team that runs.
    assert_eq!(machine.run(&["up"]).code, 1);
    let dry = machine.run(&["up", "--dry-run", "--json"]).exits(1);
    assert_eq!(failed(&dry, "missing"), "missing would not start: local has no profile nowhere, but echo.");
    assert!(summary(&dry).contains(&"member backend kept".to_owned()), "{}", dry.stdout);
    machine.lines(&["down"]);

    // For the local host, the file itself is wrong.
    machine.write(&TEAM.replacen("profile = \"echo\"", "profile = \"ecko\"\n    host = \"local\"", 1));
    for arguments in [&["up"][..], &["up", "--dry-run"]] {
        let wrong = machine.run(arguments).exits(64);
        wrong.complains_of("team.toml:7: members.profile: the local host has no profile \"ecko\", but echo.");
    }
    machine.assert_nothing_is_left();
}

#[test]
fn members_work_in_the_directory_of_the_teams_file_unless_the_file_says_otherwise() {
    let machine = FreshMachine::new();
    let command = serde_json::json!(["sh", "-c", agents::script(agents::WILLING)]).to_string();
    let app = machine.path().join("app");
    fs::create_dir_all(app.join("services/api")).unwrap();
    let member = |name: &str, profile: &str, dir: &str| {
        format!("[[members]]\nname = \"{name}\"\nprofile = \"{profile}\"\ndir = \"{dir}\"\n")
    };
    let file = format!(
        "name = \"acme\"\n{}{}{}{}[hosts.local.profiles.here]\ncommand = {command}\n[hosts.local.profiles.apart]\ncommand = {command}\n\
         dir = \"~/members\"",
        member("backend", "here", ""),
        member("api", "here", "services/api"),
        member("nowhere", "here", "services/web"),
        member("reviewer", "apart", ""),
    );
    fs::write(app.join("team.toml"), file).unwrap();
    let output = machine.run(&["up", "app/team.toml"]);
    assert_eq!(output.code, 3, "{}{}", output.stdout, output.stderr);
    let why = format!("There is no directory services/web in {}.", app.display());
    assert!(output.stdout.contains(&why), "{}", output.stdout);
    let started = |directory: &Path| directory.join("pids").exists();
    let apart = machine.path().join("members/reviewer");
    // A member has started once its runner has joined, which may be before its program writes anything.
    eventually("every program has started where it should", || {
        (started(&app) && started(&app.join("services/api")) && started(&apart)).then_some(())
    });
    assert!(!app.join("services/web").exists() && !app.join("backend").exists());

    // What members have written stays, and so do the person's directories, even empty ones.
    fs::create_dir(app.join("empty")).unwrap();
    machine.lines(&["down"]);
    assert!(started(&app) && started(&app.join("services/api")) && started(&apart) && app.join("empty").exists());
    machine.assert_nothing_is_left();
}

#[test]
fn down_removes_what_a_killed_host_has_left() {
    let machine = FreshMachine::new();
    // Their directories are the host's to remove, unless they have written something.
    machine.write(&format!("{TEAM}    dir = \"{}/members\"\n", machine.path().display()));
    machine.lines(&["up"]);
    let members = machine.path().join("members");
    fs::write(members.join("reviewer/notes"), "two tests are red").unwrap();
    kill_process(machine.host());
    machine.run(&["shutdown", "reviewer", "--wait"]).succeeds();
    assert!(machine.state().join("hosts/acme/orders").read_dir().unwrap().count() == 2, "no host has cleaned up");
    let mut ended = machine.lines(&["down", "--keep-team"]);
    ended.sort();
    assert_eq!(ended, ["member backend done", "team acme kept"]);
    assert_eq!(machine.state().join("hosts/acme/orders").read_dir().unwrap().count(), 0);
    assert!(!members.join("backend").exists() && members.join("reviewer/notes").exists());

    // The team continues, and is then deleted.
    machine.lines(&["up"]);
    kill_process(machine.host());
    machine.lines(&["down"]);
    machine.assert_nothing_is_left();
    assert!(!members.join("backend").exists() && members.join("reviewer/notes").exists());
}

/// The example of the documentation, with a program that needs no account.
#[test]
fn the_example_of_the_documentation_starts_as_printed() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/team-file.md")).unwrap();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let machine = FreshMachine::new();
    let text = example.replace("command = [\"claude\", \"--model\", \"opus\"]", &format!("command = {ECHO}"));
    assert_ne!(text, example);
    fs::write(machine.path().join("reviewer.md"), "Review every change.").unwrap();
    machine.write(&text);
    machine.lines(&["up"]);
    machine.lines(&["down"]);
    eventually("no process is left", || machine.processes().is_empty().then_some(()));
}
