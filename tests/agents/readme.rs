//! The README's commands for agent programs work as printed.

use std::{fs, path::Path};

use serde_json::json;
use teamwire_scripted_model::Rule;

use crate::{
    program::{self, Program},
    setup::{Setup, approval},
    world::{FreshMachine, eventually},
};

/// Returns the commands of the README's block about agent programs, without comments.
fn commands() -> Vec<String> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let block = readme.split("```sh\n").skip(1).find(|block| block.contains("-- claude"));
    let block = block.expect("README.md has a block about agent programs").split("```").next().unwrap();
    block.lines().map(|line| line.split(" #").next().unwrap().trim().to_owned()).collect()
}

#[test]
fn agents_join_answer_and_end_as_printed() {
    let (Some(setup), Some(_)) = (Setup::with("claude"), Program::installed("codex")) else { return };
    let machine = FreshMachine::with(program::environment(&setup.model.address()));
    program::configure(machine.path(), &setup.model.address());
    let clone = machine.path().join("teamwire");
    let file = "examples/team.toml";
    fs::create_dir_all(clone.join("examples")).unwrap();
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), clone.join(file)).unwrap();
    for (question, answer) in
        [("Which files are here", "Only a README."), ("Which of the files here need a review", "All of them.")]
    {
        let tell = json!({"type": "message", "recipient": "team-lead", "content": answer, "summary": "an answer"});
        setup.model.add(Rule::when(question).calls("SendMessage", tell));
        setup.model.add(approval());
    }
    let mut runners = Vec::new();
    for command in commands() {
        let running = machine.type_in(&clone, &command);
        if let Some(name) = command.strip_prefix("teamwire run ").and_then(|rest| rest.split(' ').next()) {
            eventually("the teammate runs", || machine.member(name).is_object().then_some(()));
            runners.push(running);
            continue;
        }
        let output = running.output().succeeds().stdout;
        if command.starts_with("teamwire logs") {
            // The runner reports activity in batches, so the first look may be too early.
            eventually("the call of the tool is reported", || {
                machine.type_in(&clone, &command).output().succeeds().stdout.contains("SendMessage").then_some(())
            });
            continue;
        }
        let expected = match command.as_str() {
            _ if command.starts_with("teamwire up") => "Team acme is up.",
            _ if command.contains("Which files") => "Only a README.",
            _ if command.contains("need a review") => "All of them.",
            _ if command.starts_with("teamwire shutdown") => "approved its shutdown",
            "teamwire down" => "tester exited: approved its shutdown",
            _ => "",
        };
        assert!(output.contains(expected), "{command}: {output}");
    }
    assert_eq!(runners.len(), 2);
    for runner in runners {
        runner.output().succeeds();
    }
    machine.assert_nothing_is_left();
}
