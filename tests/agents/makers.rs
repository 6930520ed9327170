//! Programs of different makers in one team.

use serde_json::{Value, json};
use teamwire_scripted_model::Rule;

use crate::{
    program::Program,
    setup::{Setup, approval},
    world::LEAD,
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
