//! Every command in README.md, and in the page that it sends beginners to, works as printed.

use std::{fs, net::TcpListener, path::Path};

use crate::world::{FreshMachine, LEAD, StartedCommand, World, eventually};

/// Commands that other tests run: this one's own command line, the containers' and the charts' tests.
const TESTED_ELSEWHERE: [&str; 5] = [
    "cargo xtask test",
    "alias teamwire=$PWD/target/debug/teamwire",
    "docker compose --file deploy/compose.yaml up --build",
    // `cargo xtask dist --verify`, from servers on this machine.
    "curl -LsSf https://github.com/teamwire/teamwire/releases/latest/download/install.sh | sh",
    "uv tool install teamwire",
];

/// The clone that a reader works in.
const CLONE: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the commands of a page's shell blocks, block by block, without comments.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(Path::new(CLONE).join(page)).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let command = |line: &str| line.split(" #").next().unwrap().trim().to_owned();
    blocks.map(|block| block.lines().map(command).filter(|line| !line.is_empty()).collect()).collect()
}

/// Returns the commands of the README's block that contains `marker`, except those that are tested elsewhere.
pub(crate) fn block_with(marker: &str) -> Vec<String> {
    let block = blocks("README.md").into_iter().find(|block| block.iter().any(|line| line.contains(marker)));
    let block = block.unwrap_or_else(|| panic!("README.md has no block with `{marker}`"));
    block.into_iter().filter(|line| !TESTED_ELSEWHERE.contains(&line.as_str())).collect()
}

/// Starts a README command in the repository, as a person on the coordinator's machine would.
fn type_in(world: &World, identity: &str, command: &str) -> StartedCommand {
    let script = format!("teamwire() {{ \"$0\" \"$@\"; }}; {command}");
    world.spawn_shell(identity, &script)
}

#[test]
fn the_first_minute_works_as_printed() {
    let machine = FreshMachine::new();
    let first = block_with("cargo run");
    assert_eq!(first.len(), 1, "{first:?}");
    let then = block_with("teamwire task list");
    assert_eq!(then[then.len() - 2..], ["teamwire console", "teamwire down"]);
    for command in first.into_iter().chain(then) {
        let typed = command.replace("cargo run -- ", "teamwire ");
        let output = machine.type_in(Path::new(CLONE), &typed).output().succeeds().stdout;
        let expected = match typed.as_str() {
            _ if typed.contains("--wait-reply") => "You said: The schema is ready.",
            _ if typed.contains(" shutdown ") => "reviewer exited: approved its shutdown",
            "teamwire task list" => "Design the API",
            "teamwire console" => "sign in within 60 s",
            "teamwire down" => "Ended the coordinator.",
            _ => "Team acme is up.",
        };
        assert!(output.contains(expected), "{typed}: {output}");
        if typed == "teamwire task list" {
            eventually("the tasks are completed, as the comment says", || {
                let tasks = machine.run(&["task", "list", "--json"]).succeeds().lines();
                tasks.iter().all(|task| task["status"] == "completed").then_some(())
            });
        }
    }
    machine.assert_nothing_is_left();
}

#[test]
fn the_steps_by_hand_work_as_printed() {
    let world = World::embedded();
    let mut runners = Vec::new();
    let steps = blocks("docs/step-by-step.md").concat();
    // The world is that coordinator.
    assert_eq!(steps[0], "teamwire serve");
    for command in &steps[1..] {
        let command = command.replace("examples/", &format!("{CLONE}/examples/"));
        // It asks for confirmation, which only a person at a terminal can give.
        let command = if command == "teamwire team delete" { format!("{command} --yes") } else { command };
        let running = type_in(&world, LEAD, &command);
        if command.starts_with("teamwire run ") {
            eventually("the teammate runs", || world.member("backend").is_object().then_some(()));
            runners.push(running);
            continue;
        }
        let output = running.output().succeeds();
        if command.contains("--wait-reply") {
            assert!(output.stdout.contains("You said: The schema is ready."), "{}", output.stdout);
        }
    }
    assert_eq!(runners.len(), 1);
    for runner in runners {
        runner.output().succeeds();
    }
}

/// What `serve` prints in a terminal. A person types the second command in another one.
const NEXT_STEPS: &str = include_str!("../../src/command/serve/next_steps.txt");

#[test]
fn the_steps_that_serve_prints_work_as_printed() {
    let world = World::embedded();
    let mut runner = None;
    for line in NEXT_STEPS.lines() {
        let command = line.split(" #").next().unwrap().replace("{me}", "teamwire");
        let running = type_in(&world, LEAD, &command);
        if command.contains(" run ") {
            eventually("the teammate runs", || world.member("backend").is_object().then_some(()));
            runner = Some(running);
            continue;
        }
        let output = running.output().succeeds();
        if command.contains("--wait-reply") {
            assert!(output.stdout.contains("You said: Hello."), "{}", output.stdout);
        }
    }
    runner.expect("a teammate").output().succeeds();
    assert_eq!(world.member("backend")["state"], "exited");
}

#[cfg(target_os = "linux")]
#[test]
fn the_steps_that_serve_prints_name_its_own_directories() {
    let world = World::embedded();
    let serve = "script --quiet --flush --command \"'$0' serve --listen 127.0.0.1:0\" typed > /dev/null";
    let _serving = world.spawn_shell("its host", serve);
    let typed = world.home("its host").join("typed");
    let command = eventually("the steps are printed", || {
        let typed = fs::read_to_string(&typed).ok()?;
        typed.lines().find(|line| line.contains(" team create ")).map(|line| line.trim().to_owned())
    });
    let created = world.spawn_shell("another terminal", &command).output().succeeds();
    assert!(created.stdout.contains("acme"), "{}", created.stdout);
    let who = world.cli("its host", &["whoami", "--json"]).succeeds().json();
    assert_eq!(who["team"], "acme", "the identity is in the given context file: {who}");
}

#[test]
fn the_agents_of_this_machine_start_as_printed() {
    // Without the agent programs that a developer may have, whose turns cost money.
    let machine = FreshMachine::new().and("PATH", "/usr/bin:/bin".to_owned());
    for command in block_with("teamwire init") {
        let output = machine.type_in(machine.path(), &command).output().succeeds().stdout;
        assert!(output.contains("is up. Next:"), "{output}");
    }
    machine.run(&["down"]).succeeds();
}

#[test]
fn a_second_machine_joins_as_printed() {
    let world = World::embedded();
    let machine = FreshMachine::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    machine.type_in(Path::new(CLONE), "teamwire up examples/team.toml").output().succeeds();
    machine.run(&["shutdown", "backend", "--wait"]).succeeds();
    let mut join_string = String::new();
    for command in block_with("teamwire open") {
        let here = format!("teamwire open --host localhost --listen 0.0.0.0:{port}");
        let output = machine.type_in(machine.path(), &command.replace("teamwire open", &here)).output().succeeds();
        join_string = output.stdout.trim().to_owned();
    }

    for command in block_with("JOIN_STRING") {
        let program = format!("python3 {}/examples/echo.py", env!("CARGO_MANIFEST_DIR"));
        let typed = command.replace("JOIN_STRING", &join_string).replace("COMMAND", &program);
        let running = type_in(&world, "elsewhere", &typed);
        if command.contains("teamwire run ") {
            eventually("the teammate has joined", || (machine.member("backend")["connected"] == true).then_some(()));
            let send = ["send", "backend", "Are you there?", "-s", "a question", "--wait-reply"];
            let reply = machine.run(&send).succeeds();
            assert!(reply.stdout.contains("You said: Are you there?"), "{}", reply.stdout);
            machine.run(&["shutdown", "backend", "--wait"]).succeeds();
            running.output().succeeds();
            join_string = machine.run(&["invite", "ann"]).succeeds().stdout.trim().to_owned();
        } else {
            running.output().succeeds();
        }
    }
    machine.run(&["down", "--force"]).succeeds();
}

#[test]
fn no_command_in_the_readme_is_untested() {
    // `tests/agents/readme.rs` runs the block about agent programs, and `work.rs` the one about merging.
    let markers =
        ["cargo run", "teamwire down", "-- claude", "teamwire init", "work merge", "teamwire open", "JOIN_STRING"];
    let tested = markers.map(block_with).concat();
    for command in blocks("README.md").concat() {
        assert!(
            tested.contains(&command) || TESTED_ELSEWHERE.contains(&command.as_str()),
            "`{command}` in README.md is run by no test"
        );
    }
}
