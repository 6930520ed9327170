//! Programs of different makers in one team.

use serde_json::{Value, json};
use teamwire_scripted_model::Rule;

use crate::{
    program::{NAMES, Program},
    setup::{Setup, approval},
    world::{LEAD, eventually},
};

/// Has the lead ask the backend, which asks the frontend, a program of another maker, and passes its answer on.
fn consult(backend: &str, frontend: &str) {
    let (Some(setup), Some(frontend)) = (Setup::with(backend), Program::installed(frontend)) else { return };
    let ask = json!({"to": "frontend", "message": "Your favorite color?", "summary": "a question"});
    setup.model.add(Rule::when("Ask the frontend").calls("SendMessage", ask));
    let answer = json!({"to": "backend", "message": "Teal it is.", "summary": "the color"});
    setup.model.add(Rule::when("teammate_id=\"backend\"(?s:.*)Your favorite color").calls("SendMessage", answer));
    let tell = json!({"to": "team-lead", "message": "The frontend likes teal.", "summary": "the color"});
    setup.model.add(Rule::when("teammate_id=\"frontend\"(?s:.*)Teal it is").calls("SendMessage", tell));
    let runners = [setup.backend(&[]), setup.run("frontend", frontend, &[])];
    setup.send("Ask the frontend.");
    let is_it = |message: &Value| message["content"] == "The frontend likes teal.";
    let answer = setup.world.await_inbox(LEAD, "what the frontend likes", is_it);
    assert_eq!(answer["from"], "backend", "{answer}");
    for (name, runner) in ["backend", "frontend"].into_iter().zip(runners) {
        setup.model.add(approval());
        setup.world.cli(LEAD, &["shutdown", name, "--wait"]).succeeds();
        assert_eq!(runner.exit(), 0);
    }
}

#[test]
fn claude_consults_codex() {
    consult("claude", "codex");
}

#[test]
fn codex_consults_gemini() {
    consult("codex", "gemini");
}

#[test]
fn gemini_consults_claude() {
    consult("gemini", "claude");
}

#[test]
fn opencode_consults_codex() {
    consult("opencode", "codex");
}

/// All programs that are tested share a board, each with a task.
#[test]
fn all_makers_pass_a_task_round() {
    let programs: Vec<_> = NAMES.iter().map_while(|name| Program::installed(name)).collect();
    if programs.len() < NAMES.len() {
        return;
    }
    let Some(setup) = Setup::with(NAMES[0]) else { return };
    setup.model.add(Rule::when("Claim a task").calls("TaskClaim", json!({})).always());
    let done = json!({"taskId": "$1", "status": "completed", "result": "Done."});
    setup.model.add(Rule::when("#(\\d+) \\[in_progress\\] Round").calls("TaskUpdate", done).always());
    let runners: Vec<_> = programs.iter().map(|program| setup.run(program.name, program, &[])).collect();
    for name in NAMES {
        setup.world.cli(LEAD, &["task", "create", &format!("Round of {name}"), "--owner", name]).succeeds();
    }
    setup.world.cli(LEAD, &["send", "--broadcast", "Claim a task."]).succeeds();
    eventually("every task is completed", || {
        let tasks = setup.world.cli(LEAD, &["task", "list", "--json"]).succeeds().lines();
        let is_done = |task: &Value| {
            let owner = task["owner"].as_str().unwrap_or_default();
            task["status"] == "completed" && task["subject"] == format!("Round of {owner}")
        };
        (tasks.len() == NAMES.len() && tasks.iter().all(is_done)).then_some(())
    });
    eventually("every receipt is processed", || {
        let history = setup.world.history(LEAD);
        let broadcast = history.iter().find(|entry| entry["message"]["content"] == "Claim a task.")?;
        let receipts = broadcast["receipts"].as_array()?;
        let processed = receipts.iter().filter(|receipt| receipt["state"] == "processed").count();
        (processed == NAMES.len()).then_some(())
    });
    setup.model.add(approval().always());
    for (name, runner) in NAMES.iter().zip(runners) {
        setup.world.cli(LEAD, &["shutdown", name, "--wait"]).succeeds();
        assert_eq!(runner.exit(), 0, "{name}");
    }
}
