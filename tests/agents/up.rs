//! `teamwire up` and `teamwire down` with a real program, on a machine with nothing else.

use std::fs;

use serde_json::json;
use teamwire_scripted_model::{Request, Rule};

use crate::{
    program::{self, Program},
    setup::{Setup, approval},
    world::{FreshMachine, eventually},
};

scenarios! {
    one_command_starts_a_team_that_answers_and_another_removes_all_of_it,
}

fn one_command_starts_a_team_that_answers_and_another_removes_all_of_it(setup: Setup) {
    let machine = FreshMachine::with(program::environment(&setup.model.address()));
    program::configure(machine.path(), &setup.model.address());
    let project = machine.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("team.toml"), team(setup.program)).unwrap();
    let reply = json!({"to": "team-lead", "message": "Forty-two.", "summary": "the number"});
    setup.model.add(Rule::when("How many tests").calls("SendMessage", reply));
    // The turn of the prompt goes on until the question has come.
    setup.model.add(Rule::when("You own the API").calls("TeamStatus", json!({})).at_gate("question"));

    let up = machine.type_in(&project, "teamwire up").output().succeeds();
    assert!(up.stdout.contains("backend has started."), "{}", up.stdout);
    let asking = machine.type_in(&project, "teamwire send backend 'How many tests?' --wait-reply 60");
    eventually("the question has come", || {
        let history = machine.run(&["history", "--all", "--json"]).succeeds().lines();
        let question = history.into_iter().find(|entry| entry["message"]["content"] == "How many tests?")?;
        (question["receipts"][0]["state"] != "queued").then_some(())
    });
    setup.model.open("question");
    let asked = asking.output().succeeds();
    assert!(asked.stdout.contains("Forty-two."), "{}", asked.stdout);
    // opencode also asks for a title.
    let is_turn = |request: &&Request| request.new.contains("How many tests") && !request.tools.is_empty();
    let turn = setup.model.await_requests("How many tests", |requests| requests.iter().find(is_turn).cloned());
    let shown = turn.text;
    assert!(shown.contains("You own the API."), "{shown}");
    assert!(shown.contains(&project.display().to_string()), "it does not work in the project: {shown}");

    setup.model.add(approval());
    let down = machine.type_in(&project, "teamwire down").output().succeeds();
    assert!(down.stdout.contains("backend exited: approved its shutdown"), "{}", down.stdout);
    machine.assert_nothing_is_left();
    assert_eq!(fs::read_dir(machine.state().join("transcripts")).unwrap().count(), 1, "it stays for 30 days");
    let left: Vec<_> = fs::read_dir(&project).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["team.toml"]);
}

/// Returns a team's file with the program as the member `backend`. It has no profile if what a host offers by default
/// is enough.
fn team(program: &Program) -> String {
    let name = program.name;
    let member = format!(
        "name = \"acme\"\n[[members]]\nname = \"backend\"\nprofile = \"{name}\"\nprompt = \"You own the API.\"\n"
    );
    if program.arguments.is_empty() {
        return member;
    }
    let command = json!([&[name], program.arguments].concat());
    format!("{member}[hosts.local.profiles.{name}]\ncommand = {command}\npass_env = [\"GEMINI_*\", \"GOOGLE_*\"]\n")
}
