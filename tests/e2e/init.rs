//! `teamwire init`: a team file for what is on the machine, and one sentence about what to do next.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use serde_json::Value;

use crate::world::FreshMachine;

/// A machine with these agent programs: the command and a script that answers questions about itself.
fn machine(programs: &[(&str, &str)]) -> FreshMachine {
    let machine = FreshMachine::new();
    let bin = machine.path().join("programs");
    fs::create_dir(&bin).unwrap();
    for (command, script) in programs {
        let file = bin.join(command);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    machine.and("PATH", format!("{}:/usr/bin:/bin", bin.display()))
}

const CLAUDE: (&str, &str) =
    ("claude", r#"case "$1" in --version) echo '2.1.332 (Claude Code)' ;; auth) echo '{"loggedIn": true}' ;; esac"#);
const SIGNED_OUT_CODEX: (&str, &str) =
    ("codex", r#"case "$1" in --version) echo 'codex-cli 0.100.0' ;; login) echo 'Not logged in' >&2; exit 1 ;; esac"#);
const GEMINI: (&str, &str) = ("gemini", "echo 0.61.0");
const OPENCODE: (&str, &str) = ("opencode", "echo 1.18.33");

fn git(directory: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
    let done = Command::new("git").arg("-C").arg(directory).args(identity).args(arguments).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

fn init(machine: &FreshMachine, arguments: &[&str]) -> Value {
    machine.run(&[&["init", "--json"], arguments].concat()).succeeds().json()
}

#[test]
fn without_an_agent_program_the_echo_agent_answers() {
    let machine = machine(&[]);
    let written = machine.run(&["init", "--yes", "--name", "acme"]).succeeds().stdout;
    assert!(written.starts_with("Found no agent program on your PATH.\nWrote team.toml: team acme with "), "{written}");
    let next = written.lines().last().unwrap();
    assert!(next.starts_with("Next: start the echo agents with `teamwire up`; for real ones, install "), "{next}");
    machine.run(&["up"]).succeeds();
    let answer = machine.run(&["send", "backend", "hello", "-s", "a question", "--wait-reply"]).succeeds();
    assert!(answer.stdout.contains("You said: hello"), "{}", answer.stdout);
    // It writes over nothing.
    let before = fs::read(machine.path().join("team.toml")).unwrap();
    machine.run(&["init", "--yes"]).exits(1).complains_of("team.toml is there already");
    assert_eq!(fs::read(machine.path().join("team.toml")).unwrap(), before);
    machine.run(&["down"]).succeeds();
}

#[test]
fn programs_that_are_signed_in_come_first() {
    let all = machine(&[CLAUDE, SIGNED_OUT_CODEX, GEMINI, OPENCODE]);
    let written = init(&all, &["--name", "acme"]);
    let profiles: Vec<_> = written["members"].as_array().unwrap().iter().map(|member| &member["profile"]).collect();
    assert_eq!(profiles, ["claude", "opencode"]);
    assert_eq!(written["next"], "start the team with `teamwire up`.");
    let programs = written["programs"].as_array().unwrap();
    let of = |command: &str| programs.iter().find(|program| program["command"] == command).unwrap();
    assert_eq!((&of("claude")["version"], &of("claude")["signed_in"]), (&"2.1.332".into(), &true.into()));
    assert_eq!((&of("codex")["version"], &of("codex")["signed_in"]), (&"0.100.0".into(), &false.into()));
    assert_eq!(of("codex")["tried"], "0.171.0");
    assert_eq!((&of("gemini")["signed_in"], &of("opencode")["signed_in"]), (&false.into(), &Value::Null));
    let planned = all.run(&["up", "--dry-run"]).succeeds().stdout;
    assert!(planned.contains("Would start backend: claude.\n"), "{planned}");

    let one = machine(&[SIGNED_OUT_CODEX]);
    let shown = one.run(&["init", "--yes", "--name", "acme"]).succeeds().stdout;
    assert!(shown.starts_with("Found Codex 0.100.0 (tried: 0.171.0), not signed in.\n"), "{shown}");
    let next = "Next: sign in to Codex with `codex login`, and then start the team with `teamwire up`.";
    assert_eq!(shown.lines().last(), Some(next));
    // A program that does not answer keeps no one waiting for long, and is used.
    let broken = machine(&[("claude", "exit 3")]);
    let written = init(&broken, &["--name", "acme"]);
    assert_eq!(
        (&written["programs"][0]["version"], &written["programs"][0]["signed_in"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn the_programs_on_the_machine_are_listed_and_untried_ones_start_with_their_arguments() {
    const CLINE: (&str, &str) =
        ("cline", r#"case "$1" in --version) echo 3.0.4 ;; *) echo "got $*" >&2; exit 3 ;; esac"#);
    let machine = machine(&[CLAUDE, SIGNED_OUT_CODEX, CLINE]);
    let listed = machine.run(&["programs", "--json"]).succeeds().lines();
    let commands: Vec<_> = listed.iter().map(|program| program["command"].as_str().unwrap()).collect();
    assert_eq!(commands, ["claude", "codex", "cline"]);
    assert_eq!((&listed[2]["version"], &listed[2]["tried"]), (&"3.0.4".into(), &Value::Null));
    let shown = machine.run(&["programs"]).succeeds().stdout;
    assert!(shown.contains("To sign in: codex login."), "{shown}");
    let all = machine.run(&["programs", "--all"]).succeeds().stdout;
    assert!(all.contains("To install it: npm install --global @github/copilot."), "{all}");

    let team = "name = \"acme\"\n[[members]]\nname = \"backend\"\nprofile = \"echo\"\n\
                [hosts.local.profiles.echo]\ncommand = [\"teamwire\", \"echo-teammate\"]\n";
    fs::write(machine.path().join("team.toml"), team).unwrap();
    machine.run(&["up"]).succeeds();
    let tried = machine.run(&["run", "web", "--restart", "never", "--", "cline", "--model", "m"]).exits(3);
    tried.complains_of("got --acp --model m");
    let missing = machine.run(&["run", "web", "--", "copilot"]).exits(127);
    missing
        .complains_of("There is no program copilot on the PATH")
        .complains_of("npm install --global @github/copilot");
    machine.run(&["down"]).succeeds();
}

#[test]
fn in_a_repository_each_agent_has_a_worktree() {
    let machine = machine(&[CLAUDE]);
    let app = machine.path().join("my app");
    fs::create_dir(&app).unwrap();
    git(&app, &["init", "--quiet"]);
    let run = |arguments: &[&str]| {
        let mut command = machine.command();
        command.current_dir(&app);
        machine.run_command(command, &[&["init", "--json"], arguments].concat())
    };
    let written = run(&["empty.toml"]).succeeds().json();
    assert!(written["next"].as_str().unwrap().contains("commit first"), "{written}");
    assert_eq!((&written["team"], &written["worktree"]), (&"my-app".into(), &Value::Null));

    git(&app, &["add", "."]);
    git(&app, &["commit", "--quiet", "-m", "first"]);
    let written = run(&["clean.toml"]).succeeds().json();
    assert_eq!(written["next"], "start the team with `teamwire up clean.toml`.");
    let file = fs::read_to_string(app.join("clean.toml")).unwrap();
    assert!(file.contains("worktree = \"~/my app\"\n"), "{file}");
    let written = run(&["dirty.toml"]).succeeds().json();
    let next = "commit 1 changed file, because agents begin with your last commit, and then start the team with `teamwire up dirty.toml`.";
    assert_eq!(written["next"], next);
}

#[test]
fn a_known_program_needs_no_table_and_one_that_is_not_signed_in_is_named() {
    let machine = machine(&[SIGNED_OUT_CODEX]);
    let team = r#"
        name = "acme"
        members = [{ name = "backend", profile = "echo" }, { name = "tester", profile = "codex" }]
        [hosts.local.profiles.echo]
        command = ["teamwire", "echo-teammate"]
    "#;
    fs::write(machine.path().join("team.toml"), team).unwrap();
    let warning = "Codex says that it is not signed in, so it may answer no message. To sign in, run `codex login` in a terminal.";
    // This one ends at once.
    let up = machine.run(&["up"]).exits(3).complains_of(warning).stdout;
    for said in ["Starting backend (echo)…\n", "backend has started.\n", "Starting tester (codex)…\n"] {
        assert!(up.contains(said), "{said}: {up}");
    }
    let run = machine.start(&["run", "other", "--restart", "never", "--", "codex"], "").output();
    run.complains_of(warning);
    machine.run(&["down", "--force"]).succeeds();
}

#[test]
fn an_unusual_machine_needs_no_other_steps() {
    // The home directory of every such machine has a space in its name.
    let machine = machine(&[]).and("LC_ALL", "C".to_owned());
    let temporary = machine.path().join("t".repeat(150));
    fs::create_dir(&temporary).unwrap();
    let machine = machine.and("TMPDIR", temporary.display().to_string());
    let repository = machine.path().join("my repository");
    fs::create_dir(&repository).unwrap();
    git(&repository, &["init", "--quiet"]);
    git(&repository, &["commit", "--quiet", "--allow-empty", "--message", "first"]);
    let typed = "umask 002; teamwire init --yes --name acme && teamwire up && teamwire send backend hi --wait-reply && teamwire down";
    let output = machine.type_in(&repository, typed).output().succeeds().stdout;
    assert!(output.contains("You said: hi") && output.contains("Ended the coordinator."), "{output}");
    machine.assert_nothing_is_left();
}
