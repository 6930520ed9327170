//! Text that others wrote deceives no reader: nothing in it is hidden from a person or an agent, on any path.
//!
//! The texts are in `proto/testdata/hostile_text.json`, which the tests of the console read, too.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{
    agents,
    world::{LEAD, TEAMWIRE, World, eventually},
};

scenarios! {
    hidden_characters_are_shown_on_every_path,
}

/// A text of the corpus.
struct Case {
    name: String,
    text: String,
    /// As a terminal shows it.
    shown: String,
}

fn corpus() -> Vec<Case> {
    let corpus: Value = serde_json::from_str(include_str!("../../proto/testdata/hostile_text.json")).unwrap();
    let text = |case: &Value, field: &str| case[field].as_str().map(str::to_owned);
    let cases = corpus["texts"].as_array().unwrap().iter().map(|case| {
        let (name, written) = (text(case, "name").unwrap(), text(case, "text").unwrap());
        Case { name, shown: text(case, "shown").unwrap_or_else(|| written.clone()), text: written }
    });
    // A carriage return before a line break is a line break; alone, it is hidden.
    cases.filter(|case| !case.text.contains('\0')).collect()
}

/// A hostile text for fields of one line.
const LINE: &str = "x\u{202e}y\u{e0041}\u{200b}é\u{200b}\u{fe01}z";

/// [`LINE`] as a terminal shows it, and as an agent reads it.
const LINE_SHOWN: &str = r"x\u{202e}y\u{e0041}\u{200b}é\u{200b}\u{fe01}z";
const LINE_READ: &str = "x&#x202E;y&#xE0041;&#x200B;é&#x200B;&#xFE01;z";

/// Asserts that a text has no character that a reader does not see.
#[track_caller]
fn is_clean(what: &str, text: &str) {
    let is_bad = |c: char| {
        let is_control = c.is_control() && !matches!(c, '\n' | '\t');
        let is_turning =
            matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let is_invisible = matches!(c, '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{ad}' | '\u{2028}' | '\u{2029}')
            || matches!(c, '\u{e0000}'..='\u{e0fff}' | '\u{fe00}'..='\u{fe0d}' | '\u{3164}' | '\u{115f}' | '\u{34f}');
        is_control || is_turning || is_invisible
    };
    let found = text.chars().find(|c| is_bad(*c));
    assert_eq!(found, None, "{what}: {text:?}");
    assert_eq!(teamwire_agents::visible::shown(text), text, "{what}");
}

/// Asserts that a terminal's output shows each case, and the line.
#[track_caller]
fn shows_all(what: &str, output: &str, cases: &[Case]) {
    is_clean(what, output);
    for case in cases {
        assert!(output.contains(&case.shown), "{what}: {}: {output}", case.name);
    }
}

/// Returns each line of JSON, and asserts that it hides nothing.
#[track_caller]
fn json_lines(what: &str, output: &str) -> Vec<Value> {
    is_clean(what, output);
    output.lines().map(|line| serde_json::from_str(line).expect(what)).collect()
}

fn hidden_characters_are_shown_on_every_path(world: World) {
    let cases = corpus();
    // One content with all texts, each in its own line.
    let content: String = cases.iter().map(|case| format!("[{}]\n", case.text)).collect();
    world.cli(LEAD, &["team", "create", "acme", "--description", LINE]).succeeds();
    world.join("ann");
    let bob = world.run("bob", &[], agents::WILLING).ready();
    world.cli_with_input("ann", &["send", LEAD, "-", "-s", LINE], &content).succeeds();
    // A hook shows it in full, and only mentions the longer one.
    world.cli("ann", &["send", LEAD, "short", "-s", LINE]).succeeds();
    world.cli_with_input(LEAD, &["send", "bob", "-", "-s", LINE], &content).succeeds();
    world.cli_with_input(
        "ann",
        &["permission", "request", "--tool", LINE, "--summary", LINE, "--detail", "-"],
        &content,
    );
    let told = world.cli("ann", &["task", "create", LINE, "--description", &content]).succeeds();
    is_clean("task create", &told.stdout);
    world.cli("ann", &["task", "claim", "1"]).succeeds();
    world.cli("ann", &["task", "release", "1", "--reason", LINE]).succeeds();
    // A program that fails writes to its error output, and another reports what it does.
    fs::write(world.home("eve").join("words"), format!("{LINE}\n")).unwrap();
    let eve = world.run("eve", &[], "cat words >&2; exit 3");
    assert_eq!(eve.exit(), 3);
    let activity = json!({ "activity": LINE }).to_string() + "\n";
    fs::write(world.home("zoe").join("activity"), activity).unwrap();
    let _zoe = world.run("zoe", &[], "cat activity; while hear; do :; done").ready();
    eventually("the activity is reported", || {
        (!world.cli(LEAD, &["logs", "zoe"]).succeeds().stdout.is_empty()).then_some(())
    });

    // What a person reads at a terminal.
    let inbox = world.cli(LEAD, &["inbox"]).succeeds().stdout;
    shows_all("inbox", &inbox, &cases);
    assert!(inbox.contains(LINE_SHOWN), "{inbox}");
    let delivered = world.cli(LEAD, &["inbox", "--json"]).succeeds().stdout;
    let delivered = json_lines("inbox --json", &delivered);
    let message = delivered.iter().map(|one| &one["message"]).find(|message| message["type"] == "message").unwrap();
    assert_eq!((&message["content"], &message["summary"]), (&json!(content), &json!(LINE)), "it is lossless");
    let id = message["id"].as_str().unwrap();
    shows_all("message show", &world.cli(LEAD, &["message", "show", id]).succeeds().stdout, &cases);
    shows_all("task show", &world.cli(LEAD, &["task", "show", "1"]).succeeds().stdout, &cases);
    let paths: [&[&str]; 9] = [
        &["history", "--all"],
        &["status"],
        &["team", "show"],
        &["task", "list"],
        &["task", "show", "1"],
        &["requests"],
        &["logs", "zoe"],
        &["doctor"],
        &["message", "show", id],
    ];
    for path in paths {
        let what = path.join(" ");
        let shown = world.cli(LEAD, path);
        is_clean(&what, &shown.stdout);
        is_clean(&what, &shown.stderr);
        if path[0] != "doctor" {
            assert!(shown.stdout.contains(LINE_SHOWN), "{what}: {}", shown.stdout);
        }
        json_lines(&what, &world.cli(LEAD, &[path, &["--json"]].concat()).stdout);
    }

    // What quotes the arguments of a command.
    let escapes = "a\u{1b}[2J\u{9b}\u{202e}b";
    let wrong: [&[&str]; 6] = [
        &["team", "show", escapes],
        &["send", escapes, "x"],
        &["task", "claim", escapes],
        &["join", escapes],
        &[escapes],
        &["message", "show", escapes],
    ];
    for path in wrong {
        let refused = world.cli(LEAD, path);
        assert_ne!(refused.code, 0, "{path:?}");
        is_clean("an error", &refused.stderr);
        let refused = world.cli(LEAD, &[path, &["--json"]].concat());
        is_clean("an error as JSON", &refused.stderr);
    }

    // What agents read: lines, the command line inside, the tools, hooks, and prompts.
    let heard = bob.await_heard("the message", |line| line["summary"] == LINE);
    assert_eq!(heard["content"], content, "it is lossless");
    is_read("a line for a program", heard["text"].as_str().unwrap(), &cases);
    let raw = fs::read_to_string(world.home("bob").join("heard")).unwrap();
    is_clean("the lines of a program", &raw);
    let inside = world.cli_in(LEAD, &["inbox"], &[("TEAMWIRE_MEMBER", LEAD)]).succeeds().stdout;
    is_read("the inbox of an agent", &inside, &cases);
    let hook = json!({
        "session_id": "s", "transcript_path": "/t", "cwd": "/w", "hook_event_name": "UserPromptSubmit",
        "prompt_id": "p", "permission_mode": "default", "prompt": "Go on.",
    });
    let hooked = world.cli_with_input(LEAD, &["hook", "claude", "--as", "lead@acme"], &hook.to_string()).succeeds();
    is_clean("a hook", &hooked.stdout);
    let context = hooked.json()["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned();
    is_clean("a hook's text", &context);
    assert!(context.contains(LINE_READ), "{context}");
    let tools = mcp(&world);
    assert!(tools.iter().any(|text| text.contains(LINE_READ)), "{tools:?}");
    for text in &tools {
        is_clean("a tool", text);
    }
    let join_string = world.invite("acp");
    let acp = world.run_program("acp", &["--join", &join_string, "--via", "acp"], agents::ACP).ready();
    world.cli_with_input("ann", &["send", "acp", "-", "-s", LINE], &content).succeeds();
    let prompts = eventually("the agent program reads the message", || {
        let prompts = fs::read_to_string(world.home("acp").join("prompts")).unwrap_or_default();
        prompts.contains(LINE_READ).then_some(prompts)
    });
    is_clean("a prompt", &prompts);
    for log in [bob.log(), acp.log()] {
        is_clean("a runner's log", &log);
    }
    is_clean("the coordinator's log", &world.coordinator.log());
}

/// Asserts that a text for an agent shows each case, with hidden characters as numbers.
#[track_caller]
fn is_read(what: &str, text: &str, cases: &[Case]) {
    is_clean(what, text);
    assert!(text.contains(LINE_READ), "{what}: {text}");
    for case in cases {
        let escaped = |text: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            text.replace('"', "&quot;").replace('\'', "&apos;")
        };
        let mut expected = escaped(&case.shown);
        while let Some((before, after)) = expected.split_once(r"\u{") {
            let (number, after) = after.split_once('}').unwrap();
            expected = format!("{before}&#x{};{after}", number.to_uppercase());
        }
        assert!(text.contains(&expected), "{what}: {}: {expected}: {text}", case.name);
    }
}

/// Calls tools of the lead's MCP server. Returns the texts of the answers.
fn mcp(world: &World) -> Vec<String> {
    let call = |id: u64, tool: &str, arguments: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": arguments } });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    } });
    let lines = [
        hello,
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        call(2, "TeamStatus", json!({})),
        call(3, "TaskList", json!({})),
        call(4, "TaskGet", json!({ "taskId": "1" })),
        call(5, "CheckInbox", json!({})),
        call(6, "TaskClaim", json!({ "taskId": "a\u{1b}\u{202e}b" })),
        call(7, "SendMessage", json!({ "type": "message", "recipient": "a\u{202e}b", "content": "x", "summary": "x" })),
        call(8, "No\u{202e}Tool", json!({})),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut server = world.program(LEAD, Path::new(TEAMWIRE));
    let mut server = server.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to_server = server.stdin.take().unwrap();
    to_server.write_all(input.as_bytes()).unwrap();
    let mut texts = Vec::new();
    for line in BufReader::new(server.stdout.take().unwrap()).lines().take(lines.len() - 1) {
        let answer: Value = serde_json::from_str(&line.unwrap()).expect("JSON");
        texts.extend(answer["result"]["content"][0]["text"].as_str().map(str::to_owned));
        texts.extend(answer["error"]["message"].as_str().map(str::to_owned));
    }
    drop(to_server);
    server.wait().unwrap();
    texts
}
