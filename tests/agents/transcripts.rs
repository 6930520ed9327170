//! Transcripts: what an agent was given, wrote and did, as its lead reads it.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use nix::sys::signal::Signal;
use serde_json::Value;
use teamwire_scripted_model::{Rule, TOKENS};

use crate::{
    program::Can,
    setup::{BACKEND, Setup},
    world::{LEAD, eventually, signal},
};

scenarios! {
    the_lead_reads_what_an_agent_was_given_wrote_and_did,
    a_transcript_has_no_gap_after_kills_in_mid_turn,
    a_transcript_outlives_its_runner,
}

fn transcript(setup: &Setup, options: &[&str]) -> Vec<Value> {
    let command = [&["transcript", BACKEND, "--json", "-n", "10000"], options].concat();
    let shown = setup.world.cli(LEAD, &command).succeeds().stdout;
    shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the texts of the entries of one kind.
fn of_kind<'t>(entries: &'t [Value], kind: &str) -> Vec<&'t str> {
    let of_kind = entries.iter().filter(|entry| entry["kind"] == kind);
    of_kind.map(|entry| entry["text"].as_str().unwrap_or_default()).collect()
}

/// Waits until the transcript has a tool call. A program may say so only after the tool has begun.
fn await_call(setup: &Setup, input: &str) -> Vec<Value> {
    // Otherwise, the call has only the name of its tool.
    let input = if setup.program.can(Can::ReportRunningCalls) { input } else { "Bash" };
    let has_call = |entries: &Vec<Value>| of_kind(entries, "tool_call").iter().any(|text| text.contains(input));
    eventually("the tool call is there", || Some(transcript(setup, &[])).filter(has_call))
}

#[track_caller]
fn assert_dense(entries: &[Value]) {
    let sequences: Vec<u64> = entries.iter().map(|entry| entry["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
}

#[track_caller]
fn assert_only_for_the_owner(path: &Path) {
    let mode = fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{} is for others, too", path.display());
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| assert_only_for_the_owner(&entry.unwrap().path()));
    }
}

fn the_lead_reads_what_an_agent_was_given_wrote_and_did(setup: Setup) {
    setup.world.join("ann");
    setup.on_shell(
        "Review the API",
        "printf 'the answer is %s' 42; touch running; until [ -e go ]; do sleep 0.05; done",
    );
    setup.model.add(Rule::when("the answer is 42").says("All is well."));
    let backend = setup.backend(&["--permissions", "allow"]);
    setup.send("Review the API.");
    setup.await_file("running");
    let during = await_call(&setup, "printf");
    assert!(of_kind(&during, "prompt").iter().any(|text| text.contains("Review the API.")), "{during:#?}");
    setup.create("go");
    setup.await_receipt("Review the API.", "processed");
    let entries = transcript(&setup, &[]);
    assert_dense(&entries);
    // Gemini CLI does not tell what a command has printed.
    let has_result = of_kind(&entries, "tool_result").iter().any(|text| text.contains("the answer is 42"));
    assert!(has_result || setup.program.name == "gemini", "{entries:#?}");
    assert!(of_kind(&entries, "text").contains(&"All is well."), "{entries:#?}");
    let place = |kind: &str| entries.iter().position(|entry| entry["kind"] == kind).unwrap();
    let order = ["prompt", "tool_call", "tool_result", "text", "turn_ended"].map(place);
    assert!(order.is_sorted(), "{entries:#?}");
    let call = entries.iter().find(|entry| entry["kind"] == "tool_call").unwrap();
    let result = entries.iter().find(|entry| entry["kind"] == "tool_result").unwrap();
    assert_eq!(call["call_id"], result["call_id"]);

    let shown = setup.world.cli(LEAD, &["transcript", BACKEND]).succeeds().stdout;
    assert!(shown.contains("--- turn 1 of life 1 ---") && shown.contains("All is well."), "{shown}");
    setup.world.cli("ann", &["transcript", BACKEND]).exits(77);
    let of_turn = setup.world.cli(LEAD, &["transcript", BACKEND, "--turn", "1", "--json"]).succeeds().stdout;
    assert!(of_turn.contains("All is well."), "{of_turn}");
    let state = setup.world.home(BACKEND).join("state");
    assert_only_for_the_owner(&state.join("transcripts"));
    setup.shut_down(backend);
    // The files stay on the machine where the member ran.
    let refused = setup.world.cli(LEAD, &["transcript", BACKEND]).exits(1);
    assert!(refused.stderr.contains("has exited"), "{}", refused.stderr);
    let there = [("TEAMWIRE_STATE_DIR", state.to_str().unwrap())];
    let left = setup.world.cli_in(LEAD, &["transcript", BACKEND, "--full"], &there).succeeds().stdout;
    assert!(left.contains("All is well.") && left.contains("process ended"), "{left}");
}

/// Waits until the lead sees as many tokens as the model's replies have reported, neither more nor fewer. One reply came
/// just before a kill, and only Claude Code says what a reply has used before its tools have ended.
fn await_every_token(setup: &Setup) {
    // After a kill, what Copilot reports is another number than the model has.
    if !setup.program.can(Can::ReportTokens) || setup.program.name == "copilot" {
        return;
    }
    let untold = usize::from(setup.program.name != "claude");
    eventually("every token is counted", || {
        let replies = setup.model.requests().iter().filter(|request| !request.tools.is_empty()).count();
        let counted = (replies - untold) as u64;
        let expected = (counted * TOKENS.0, counted * TOKENS.1);
        let usage = &setup.world.member(BACKEND)["total_usage"];
        let seen = (usage["input_tokens"].as_u64()?, usage["output_tokens"].as_u64()?);
        (seen == expected).then_some(())
    });
}

fn a_transcript_has_no_gap_after_kills_in_mid_turn(mut setup: Setup) {
    setup.model.add(Rule::when("delivered before(?s:.*)do it").says("It is done."));
    setup.on_shell(">do it<", "touch running; until [ -e go ]; do sleep 0.05; done");
    let backend = setup.backend(&["--permissions", "allow", "--restart", "on-failure"]);
    setup.send("do it");
    setup.await_file("running");
    let before = await_call(&setup, "touch running");
    setup.world.coordinator.kill();
    setup.world.coordinator.restart();
    signal(backend.program(), Signal::SIGKILL);
    setup.await_receipt("do it", "processed");
    let ended = |entries: &[Value]| of_kind(entries, "text").iter().any(|text| text.ends_with("It is done."));
    let after = eventually("the transcript goes on", || Some(transcript(&setup, &[])).filter(|found| ended(found)));
    assert_dense(&after);
    assert_eq!(after[..before.len()], before);
    await_every_token(&setup);
    assert!(of_kind(&after, "runner").iter().any(|text| text.contains("ended by signal 9")), "{after:#?}");
    setup.shut_down(backend);
}

/// The runner is killed, too: its successor goes on in the same files.
fn a_transcript_outlives_its_runner(setup: Setup) {
    setup.model.add(Rule::when("delivered before(?s:.*)do it").says("It is done."));
    setup.on_shell(">do it<", "touch running; until [ -e go ]; do sleep 0.05; done");
    let backend = setup.backend(&["--permissions", "allow"]);
    setup.send("say hello");
    setup.await_receipt("say hello", "processed");
    setup.send("do it");
    setup.await_file("running");
    let before = transcript(&setup, &[]);
    backend.kill();
    let backend = setup.run_again(BACKEND, setup.program, &["--permissions", "allow"]);
    setup.await_receipt("do it", "processed");
    let ended = |entries: &[Value]| of_kind(entries, "text").iter().any(|text| text.ends_with("It is done."));
    let after = eventually("the transcript goes on", || Some(transcript(&setup, &[])).filter(|found| ended(found)));
    assert_dense(&after);
    assert_eq!(after[..before.len()], before);
    await_every_token(&setup);
    let lives: Vec<u64> = after.iter().map(|entry| entry["incarnation"].as_u64().unwrap()).collect();
    assert!(lives.is_sorted() && lives.last() == Some(&2), "{lives:?}");
    setup.shut_down(backend);
}
