//! The lines are recorded from Gemini CLI 0.61.0 and opencode 1.18.33, and trimmed.

mod options;
mod tool_uses;

use super::*;
use crate::adapters::agent::protocol::{Change, McpCommand, PermissionRequest};
use teamwire_proto::v1::ToolUse;

const GEMINI: &str = "/usr/bin/gemini";
const OPENCODE: &str = "opencode";
const WORK: &str = "/proj";

fn setup() -> Setup {
    let mcp = McpCommand {
        program: "/bin/teamwire".to_owned(),
        arguments: vec!["mcp".to_owned()],
        environment: vec![("TEAMWIRE_MEMBER".to_owned(), "backend".to_owned())],
    };
    let arguments = ["-m", "gemini-2.5-flash"].map(str::to_owned).to_vec();
    Setup { arguments, directory: WORK.into(), mcp: Some(mcp), ..Setup::default() }
}

fn read(acp: &mut Acp, lines: impl IntoIterator<Item = Value>) -> Outbox {
    let mut out = Outbox::default();
    lines.into_iter().for_each(|line| acp.read(line, &mut out));
    out
}

/// Starts a program, and returns the request with which its session begins.
fn begin(command: &str, setup: Setup) -> (Acp, Value) {
    let mut acp = Acp::new(command, setup);
    let mut out = Outbox::default();
    acp.start(&mut out);
    assert_eq!((&out.lines[0]["method"], &out.lines[0]["id"]), (&json!("initialize"), &json!(1)));
    let mut out = read(&mut acp, [initialized(command)]);
    (acp, out.lines.remove(0))
}

fn initialized(command: &str) -> Value {
    let session = match command {
        OPENCODE => json!({"close": {}, "fork": {}, "list": {}, "resume": {}}),
        _ => Value::Null,
    };
    json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1,
        "authMethods": [{"id": "gemini-api-key", "name": "Gemini API key", "_meta": {"api-key": {"provider": "google"}}}],
        "agentInfo": {"name": "gemini-cli", "title": "Gemini CLI", "version": "0.61.0"},
        "agentCapabilities": {"loadSession": true, "promptCapabilities": {"image": true, "embeddedContext": true},
            "mcpCapabilities": {"http": true, "sse": true}, "sessionCapabilities": session}}})
}

fn opened() -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s1", "modes": {"currentModeId": "default",
        "availableModes": [{"id": "default", "name": "Default"}, {"id": "plan", "name": "Plan"}]},
        "models": {"availableModels": [{"modelId": "auto", "name": "Auto"}], "currentModelId": "gemini-2.5-flash"}}})
}

/// Returns a program that takes prompts.
fn ready(command: &str) -> Acp {
    let (mut acp, request) = begin(command, setup());
    assert_eq!(request["method"], json!("session/new"));
    assert!(!acp.accepts_prompt());
    let out = read(&mut acp, [opened()]);
    assert_eq!(out.events, [Event::Ready { session_id: Some("s1".to_owned()) }]);
    acp
}

/// Hands over a prompt, and returns the number of the request.
fn hand_over(acp: &mut Acp, id: PromptId) -> i64 {
    assert!(acp.accepts_prompt());
    let mut out = Outbox::default();
    acp.prompt(Prompt { id, text: format!("prompt {id}") }, &mut out);
    let request = &out.lines[0];
    let params = json!({"sessionId": "s1", "prompt": [{"type": "text", "text": format!("prompt {id}")}]});
    assert_eq!((&request["method"], &request["params"]), (&json!("session/prompt"), &params));
    assert!(!acp.accepts_prompt(), "one prompt at a time");
    request["id"].as_i64().expect("a number")
}

fn ended(id: i64, stop_reason: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": stop_reason}})
}

fn update(update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": update}})
}

fn says(text: &str) -> Value {
    update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

/// A request for permission as opencode makes it.
fn wants(id: i64, call: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {"sessionId": "s1",
        "toolCall": call, "options": [
            {"optionId": "always", "kind": "allow_always", "name": "Always allow"},
            {"optionId": "once", "kind": "allow_once", "name": "Allow once"},
            {"optionId": "reject", "kind": "reject_once", "name": "Reject"}]}})
}

/// The plan that Gemini CLI wants approved, under the name of its file.
fn wants_plan_approved(id: i64) -> Value {
    wants(
        id,
        json!({"toolCallId": "exit_plan_mode__exit_plan_mode_1795359666571_0", "status": "pending", "kind": "other",
        "title": "Requesting plan approval for: /h/.gemini/tmp/proj/s1/plans/p.md", "content": [], "locations": []}),
    )
}

fn wrote_plan(text: &str) -> Value {
    update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "write_file__1", "status": "completed",
        "title": "Writing to ../.../plans/p.md", "kind": "edit", "content": [{"type": "diff",
            "path": "/h/.gemini/tmp/proj/s1/plans/p.md", "oldText": "", "newText": text, "_meta": {"kind": "add"}}]}))
}

fn chosen(out: &Outbox) -> Vec<&Value> {
    out.lines.iter().map(|line| &line["result"]["outcome"]["optionId"]).collect()
}

#[test]
fn known_programs_get_the_arguments_and_environment_for_acp() {
    let before = |command: &str, arguments: &[&str]| {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Acp::new(command, Setup { arguments, ..Setup::default() }).launch().before
    };
    assert_eq!(before(GEMINI, &["-m", "x"]), ["--acp"]);
    assert_eq!(before(GEMINI, &["--acp"]), [] as [&str; 0]);
    assert_eq!(before(OPENCODE, &["--pure"]), ["acp"]);
    assert_eq!(before(OPENCODE, &["acp", "--pure"]), [] as [&str; 0]);
    assert_eq!(before("my-agent", &["--stdio"]), [] as [&str; 0]);
    let environment = Acp::new(GEMINI, Setup::default()).launch().environment;
    assert!(environment.contains(&("GEMINI_CLI_NO_RELAUNCH".into(), "true".into())));
}

#[test]
fn gemini_without_a_model_is_warned_about() {
    let warnings = |arguments: &[&str]| {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let mut out = Outbox::default();
        Acp::new(GEMINI, Setup { arguments, ..Setup::default() }).start(&mut out);
        out.events.len()
    };
    assert_eq!((warnings(&[]), warnings(&["-m", "x"]), warnings(&["--model=x"])), (1, 0, 0));
}

#[test]
fn a_session_begins_with_our_tools() {
    let (_, request) = begin(GEMINI, setup());
    let server = json!({"name": "teamwire", "command": "/bin/teamwire", "args": ["mcp"],
        "env": [{"name": "TEAMWIRE_MEMBER", "value": "backend"}]});
    assert_eq!(request["params"], json!({"cwd": "/proj", "mcpServers": [server]}));
}

#[test]
fn a_program_that_is_not_signed_in_is_refused_with_what_to_do() {
    let (mut acp, _) = begin(GEMINI, setup());
    let error = json!({"code": -32000, "message": "Gemini API key is missing or not configured."});
    let out = read(&mut acp, [json!({"jsonrpc": "2.0", "id": 2, "error": error})]);
    let Some(Event::Broken(why)) = out.events.front() else { panic!("{out:?}") };
    assert_eq!(
        why,
        "The program is not signed in: Gemini API key is missing or not configured. Start it once without teamwire and \
         sign in, or set its API key."
    );
}

#[test]
fn a_program_with_another_version_of_the_protocol_is_refused() {
    let mut acp = Acp::new("agent", setup());
    acp.start(&mut Outbox::default());
    let out = read(&mut acp, [json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 2}})]);
    assert!(matches!(&out.events[0], Event::Broken(why) if why.contains("version 2")), "{out:?}");
}

#[test]
fn a_prompt_is_processed_when_the_program_has_answered_it() {
    let mut acp = ready(GEMINI);
    let id = hand_over(&mut acp, 7);
    assert!(!read(&mut acp, [says("done")]).events.contains(&Event::Processed(7)));
    let quota = json!({"token_count": {"input_tokens": 20, "output_tokens": 10}, "model_usage": []});
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "end_turn", "_meta": {"quota": quota}}});
    let out = read(&mut acp, [answer]);
    let usage = Usage { turns: 1, input_tokens: 20, output_tokens: 10, ..Usage::default() };
    let end = Event::ended("done");
    assert_eq!(out.events, [Event::Activity("done".to_owned()), Event::Usage(usage), end, Event::Processed(7)]);

    // What comes before a tool call is no report.
    let id = hand_over(&mut acp, 8);
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "edit", "status": "completed",
        "content": [{"type": "diff", "path": "/w/a.rs", "newText": "x"}]});
    let out = read(&mut acp, [says("I look."), update(call), says("All "), says("done."), ended(id, "end_turn")]);
    assert!(out.events.contains(&Event::ended("All done.")), "{out:?}");
    assert!(out.changes.contains(&Change::FileChanged("/w/a.rs".to_owned())), "{out:?}");
}

#[test]
fn failed_and_cancelled_turns_fail_their_prompt_and_turns_cut_short_process_it() {
    let mut acp = ready(OPENCODE);
    let id = hand_over(&mut acp, 1);
    let error = json!({"code": -32603, "message": "Internal error: scripted", "data": {"errorName": "APIError"}});
    let out = read(&mut acp, [json!({"jsonrpc": "2.0", "id": id, "error": error})]);
    let why = "Internal error: scripted".to_owned();
    let end = Event::TurnEnded(TurnEnd { cut_short: why.clone(), ..TurnEnd::default() });
    assert_eq!(out.events, [end, Event::Failed(1, why)]);

    let id = hand_over(&mut acp, 2);
    let out = read(&mut acp, [ended(id, "cancelled")]);
    assert!(out.events.contains(&Event::Failed(2, "the turn was cancelled".to_owned())), "{out:?}");

    for (prompt, stop_reason) in [(3, "max_tokens"), (4, "max_turn_requests"), (5, "refusal")] {
        let id = hand_over(&mut acp, prompt);
        let out = read(&mut acp, [ended(id, stop_reason)]);
        assert!(out.events.iter().any(|event| matches!(event, Event::Warning(_))), "{out:?}");
        assert!(out.events.contains(&Event::Processed(prompt)), "{out:?}");
    }

    let id = hand_over(&mut acp, 6);
    let out = read(&mut acp, [ended(id, "a_reason_of_a_later_version")]);
    assert!(matches!(out.events[1], Event::Failed(6, _)), "{out:?}");
}

#[test]
fn a_session_is_resumed_where_the_program_can() {
    let resumed = |command: &str| begin(command, Setup { resume: Some("s1".to_owned()), ..setup() });
    assert_eq!(resumed(OPENCODE).1["method"], json!("session/resume"));
    let (mut acp, request) = resumed(GEMINI);
    assert_eq!((&request["method"], &request["params"]["sessionId"]), (&json!("session/load"), &json!("s1")));

    // The replay goes on after the answer, and after the next prompt.
    let loaded =
        json!({"jsonrpc": "2.0", "id": 2, "result": {"modes": {"availableModes": [], "currentModeId": "default"}}});
    let replayed_call = update(json!({"sessionUpdate": "tool_call", "toolCallId": "mcp_teamwire_TeamStatus__1",
        "status": "completed", "title": "TeamStatus (teamwire MCP Server)", "kind": "other"}));
    let out = read(&mut acp, [says("old"), loaded, replayed_call.clone(), says("old\n")]);
    assert_eq!(out.events, [Event::Ready { session_id: Some("s1".to_owned()) }]);
    let id = hand_over(&mut acp, 1);
    assert_eq!(read(&mut acp, [replayed_call, says("old\n")]).events, []);
    let live_call =
        update(json!({"sessionUpdate": "tool_call", "toolCallId": "write_file__2", "status": "in_progress",
        "title": "Writing to w.txt", "kind": "edit"}));
    let out = read(&mut acp, [live_call, says("new\n")]);
    let activity = ["Edits: Writing to w.txt", "new"].map(|line| Event::Activity(line.to_owned()));
    assert_eq!(out.events, activity);
    assert!(read(&mut acp, [ended(id, "end_turn")]).events.contains(&Event::Processed(1)));
}

#[test]
fn the_text_of_the_first_turn_after_a_replay_is_reported() {
    let (mut acp, _) = begin(GEMINI, Setup { resume: Some("s1".to_owned()), ..setup() });
    let loaded = json!({"jsonrpc": "2.0", "id": 2, "result": {}});
    let complete = update(json!({"sessionUpdate": "available_commands_update", "availableCommands": []}));
    read(&mut acp, [says("old\n"), loaded]);
    let id = hand_over(&mut acp, 1);
    assert_eq!(read(&mut acp, [says("old\n"), complete]).events, []);
    let out = read(&mut acp, [says("new\n"), ended(id, "end_turn")]);
    assert_eq!(out.events[0], Event::Activity("new".to_owned()));
    assert!(out.events.contains(&Event::Processed(1)), "{out:?}");
}

#[test]
fn a_session_that_cannot_be_resumed_is_replaced_with_a_warning() {
    let (mut acp, _) = begin(GEMINI, Setup { resume: Some("s0".to_owned()), ..setup() });
    let error = json!({"code": -32603, "message": "Internal error",
        "data": {"details": "No previous sessions found for this project."}});
    let out = read(&mut acp, [json!({"jsonrpc": "2.0", "id": 2, "error": error})]);
    assert!(matches!(&out.events[0], Event::Warning(why) if why.contains("No previous sessions")), "{out:?}");
    assert!(out.events.contains(&Event::StartedOver), "{out:?}");
    assert_eq!(out.lines[0]["method"], json!("session/new"));
    let mut opened = opened();
    opened["id"] = json!(3);
    let out = read(&mut acp, [opened]);
    assert_eq!(out.events, [Event::Ready { session_id: Some("s1".to_owned()) }]);
}

#[test]
fn a_permission_applies_to_one_call() {
    let mut acp = ready(OPENCODE);
    hand_over(&mut acp, 1);
    let call = json!({"toolCallId": "call_1", "title": "touch x", "kind": "execute", "status": "pending", "locations": [],
        "rawInput": {"command": "touch x"}});
    let bash = update(json!({"sessionUpdate": "tool_call", "toolCallId": "call_1", "title": "bash", "kind": "execute",
        "status": "pending", "locations": [], "rawInput": {}}));
    let mut out = read(&mut acp, [bash, says("I will."), wants(0, call)]);
    let request = PermissionRequest {
        key: "0".to_owned(),
        tool: "bash".to_owned(),
        summary: "touch x".to_owned(),
        detail: "touch x".to_owned(),
        tool_use: Some(ToolUse { command: "touch x".to_owned(), directory: WORK.to_owned(), ..ToolUse::default() }),
    };
    assert_eq!(out.events, [Event::Activity("I will.".to_owned()), Event::PermissionWanted(request)]);
    acp.decide("0", Decision::Allow, &mut out);
    assert_eq!((&out.lines[0]["id"], chosen(&out)), (&json!(0), vec![&json!("once")]));
    acp.decide("0", Decision::Allow, &mut out);
    assert_eq!(out.lines.len(), 1, "a permission request is answered once");
}

#[test]
fn the_agent_reads_why_it_was_refused_before_the_prompt_is_processed() {
    let mut acp = ready(OPENCODE);
    let id = hand_over(&mut acp, 1);
    let call =
        json!({"toolCallId": "call_1", "title": "rm -r /", "kind": "execute", "rawInput": {"command": "rm -r /"}});
    let mut out = read(&mut acp, [wants(0, call)]);
    acp.decide("0", Decision::Deny("Not on a &lt;Sunday&gt;.".to_owned()), &mut out);
    assert_eq!(chosen(&out), [&json!("reject")]);
    let out = read(&mut acp, [ended(id, "end_turn")]);
    assert!(!out.events.contains(&Event::Processed(1)), "{out:?}");
    let text = out.lines[0]["params"]["prompt"][0]["text"].as_str().expect("a prompt");
    assert!(text.contains("rm -r /\nNot on a &lt;Sunday&gt;."), "{text}");
    assert!(!acp.accepts_prompt());
    let id = out.lines[0]["id"].as_i64().expect("a number");
    assert!(read(&mut acp, [ended(id, "end_turn")]).events.contains(&Event::Processed(1)));
}

#[test]
fn an_insistent_agent_gets_a_bounded_number_of_follow_ups() {
    let mut acp = ready(OPENCODE);
    let mut id = hand_over(&mut acp, 1);
    let mut follow_ups = 0;
    loop {
        let mut out =
            read(&mut acp, [wants(0, json!({"toolCallId": "call_1", "title": "rm -r /", "kind": "execute"}))]);
        acp.decide("0", Decision::Deny("No.".to_owned()), &mut out);
        let out = read(&mut acp, [ended(id, "end_turn")]);
        if out.events.contains(&Event::Processed(1)) {
            break;
        }
        follow_ups += 1;
        id = out.lines[0]["id"].as_i64().expect("another prompt");
    }
    assert_eq!(follow_ups, FOLLOW_UPS_MAX);
}

#[test]
fn a_closing_program_finishes_its_turn_but_gets_no_permission() {
    let mut acp = ready(GEMINI);
    assert!(acp.ignores_end_of_input() && !ready(OPENCODE).ignores_end_of_input());
    let id = hand_over(&mut acp, 1);
    read(&mut acp, [wants(0, json!({"toolCallId": "run_shell_command__1", "title": "touch x", "kind": "execute"}))]);
    let mut out = Outbox::default();
    acp.close(&mut out);
    assert_eq!(out.events, [Event::WishWithdrawn { key: "0".to_owned() }]);
    assert_eq!(out.lines[0]["result"], json!({"outcome": {"outcome": "cancelled"}}));
    assert!(acp.is_in_turn());
    let out = read(&mut acp, [ended(id, "end_turn")]);
    assert!(out.events.contains(&Event::Processed(1)) && !acp.is_in_turn(), "{out:?}");
}

#[test]
fn our_tools_need_no_permission() {
    let mut acp = ready(GEMINI);
    hand_over(&mut acp, 1);
    let ours = json!({"toolCallId": "mcp_teamwire_SendMessage__mcp_teamwire_SendMessage_1795358927231_0", "kind": "other",
        "status": "pending", "title": "SendMessage (teamwire MCP Server)", "content": [], "locations": []});
    let out = read(&mut acp, [wants(0, ours)]);
    assert_eq!((chosen(&out), out.events.len()), (vec![&json!("once")], 0));
    // A command may have any title.
    let command =
        json!({"toolCallId": "run_shell_command__1", "kind": "execute", "title": "SendMessage (teamwire MCP Server)"});
    assert!(matches!(read(&mut acp, [wants(1, command)]).events[0], Event::PermissionWanted(_)));

    let mut acp = ready(OPENCODE);
    hand_over(&mut acp, 1);
    let ours = json!({"toolCallId": "call_1", "title": "teamwire_SendMessage", "kind": "other", "rawInput": {}});
    let mut begun = ours.clone();
    begun["sessionUpdate"] = json!("tool_call");
    let out = read(&mut acp, [update(begun), wants(0, ours)]);
    assert_eq!(chosen(&out), [&json!("once")]);
    let command = json!({"toolCallId": "call_2", "title": "teamwire_SendMessage", "kind": "execute"});
    let bash =
        update(json!({"sessionUpdate": "tool_call", "toolCallId": "call_2", "title": "bash", "kind": "execute"}));
    assert!(matches!(read(&mut acp, [bash, wants(1, command)]).events[0], Event::PermissionWanted(_)));
}

#[test]
fn our_tools_are_recognized_in_a_program_that_is_not_in_our_list() {
    let mut acp = ready("some-agent");
    hand_over(&mut acp, 1);
    let titles = ["mcp__teamwire__SendMessage", "teamwire.SendMessage", "teamwire/TaskClaim", "mcp_teamwire_Task"];
    for (number, title) in (0..).zip(titles) {
        let ours = json!({"toolCallId": format!("call_{number}"), "title": title, "kind": "other", "rawInput": {"to": "lead"}});
        let mut begun = ours.clone();
        begun["sessionUpdate"] = json!("tool_call");
        let out = read(&mut acp, [update(begun), wants(number, ours)]);
        assert_eq!(chosen(&out), [&json!("once")], "{title}");
    }
    let another = [
        json!({"toolCallId": "a", "title": "teamwire_SendMessage", "kind": "execute"}),
        json!({"toolCallId": "b", "title": "teamwire_SendMessage", "kind": "other", "rawInput": {"command": "x"}}),
        json!({"toolCallId": "c", "title": "teamwire_Shell", "kind": "other"}),
        json!({"toolCallId": "d", "title": "teamwire_SendMessage; rm -r .", "kind": "other"}),
    ];
    for (number, call) in (10..).zip(another) {
        let mut begun = call.clone();
        begun["sessionUpdate"] = json!("tool_call");
        let out = read(&mut acp, [update(begun), wants(number, call.clone())]);
        assert!(matches!(out.events.back(), Some(Event::PermissionWanted(_))), "{call}");
    }
}

#[test]
fn a_permission_request_is_withdrawn_when_its_turn_ends() {
    let mut acp = ready(OPENCODE);
    let id = hand_over(&mut acp, 1);
    read(&mut acp, [wants(4, json!({"toolCallId": "call_1", "title": "touch x", "kind": "execute"}))]);
    let out = read(&mut acp, [ended(id, "cancelled")]);
    assert!(out.events.contains(&Event::WishWithdrawn { key: "4".to_owned() }), "{out:?}");
    let cancelled = json!({"jsonrpc": "2.0", "id": 4, "result": {"outcome": {"outcome": "cancelled"}}});
    assert_eq!(out.lines, [cancelled]);
}

#[test]
fn a_program_cancels_its_permission_request() {
    let mut acp = ready(OPENCODE);
    hand_over(&mut acp, 1);
    read(&mut acp, [wants(4, json!({"toolCallId": "call_1", "title": "touch x", "kind": "execute"}))]);
    let cancel = |id: u64| json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}});
    let out = read(&mut acp, [cancel(5), cancel(4), cancel(4)]);
    assert_eq!(out.events, [Event::WishWithdrawn { key: "4".to_owned() }]);
    let cancelled = json!({"jsonrpc": "2.0", "id": 4, "result": {"outcome": {"outcome": "cancelled"}}});
    assert_eq!(out.lines, [cancelled]);
    assert!(acp.is_in_turn());
}

#[test]
fn gemini_begins_in_its_plan_mode_and_leaves_it_with_an_approved_plan() {
    let (mut acp, _) = begin(GEMINI, Setup { plan_first: true, ..setup() });
    let out = read(&mut acp, [opened()]);
    assert_eq!(out.lines[0]["params"], json!({"sessionId": "s1", "modeId": "plan"}));
    assert!(out.events.is_empty() && !acp.accepts_prompt());
    let out = read(&mut acp, [says("[MODE_UPDATE] plan"), json!({"jsonrpc": "2.0", "id": 3, "result": {}})]);
    assert_eq!(out.events, [Event::Ready { session_id: Some("s1".to_owned()) }]);

    let id = hand_over(&mut acp, 1);
    let out = read(&mut acp, [wants_plan_approved(0)]);
    assert_eq!((chosen(&out), out.events.len()), (vec![&json!("reject")], 0), "no one can approve a plan unseen");
    let mut out = read(&mut acp, [wrote_plan("# Plan\n1. do"), wants_plan_approved(1)]);
    assert_eq!(out.events.pop_back(), Some(Event::PlanReady { key: "1".to_owned(), plan: "# Plan\n1. do".to_owned() }));
    acp.decide("1", Decision::Deny("Test first.".to_owned()), &mut out);
    assert_eq!(chosen(&out), [&json!("reject")]);
    let out = read(&mut acp, [ended(id, "end_turn")]);
    let feedback = out.lines[0]["params"]["prompt"][0]["text"].as_str().expect("a prompt");
    assert!(feedback.contains("plans/p.md again") && feedback.contains("Test first."), "{feedback}");

    let mut out = read(&mut acp, [wrote_plan("1. test\n2. do"), wants_plan_approved(2)]);
    assert_eq!(
        out.events.pop_back(),
        Some(Event::PlanReady { key: "2".to_owned(), plan: "1. test\n2. do".to_owned() })
    );
    acp.decide("2", Decision::Allow, &mut out);
    assert_eq!(chosen(&out), [&json!("once")]);
}

#[test]
fn a_program_without_a_plan_mode_is_warned_about() {
    let mut out = Outbox::default();
    Acp::new(OPENCODE, Setup { plan_first: true, ..setup() }).start(&mut out);
    assert!(matches!(&out.events[0], Event::Warning(text) if text.contains("SubmitPlan")), "{out:?}");
}

#[test]
fn unknown_and_malformed_requests_are_refused() {
    let mut acp = ready(OPENCODE);
    let write = json!({"jsonrpc": "2.0", "id": 3, "method": "fs/write_text_file",
        "params": {"sessionId": "s1", "path": "/proj/w.txt", "content": "new text"}});
    let out = read(&mut acp, [write]);
    assert_eq!((&out.lines[0]["id"], &out.lines[0]["error"]["code"]), (&json!(3), &json!(-32601)));
    let broken = json!({"jsonrpc": "2.0", "id": "x", "method": "session/request_permission", "params": {}});
    let out = read(&mut acp, [broken]);
    assert_eq!((&out.lines[0]["id"], &out.lines[0]["error"]["code"]), (&json!("x"), &json!(-32602)));
}

#[test]
fn each_call_and_each_message_is_reported_once() {
    let mut acp = ready(OPENCODE);
    hand_over(&mut acp, 1);
    let call = |kind: &str, status: &str, title: &str| {
        update(
            json!({"sessionUpdate": kind, "toolCallId": "call_1", "title": title, "kind": "execute", "status": status}),
        )
    };
    let other_session = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s2", "update":
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "of a subagent\n"}}}});
    let lines = [
        says("Let me "),
        says("see.\nThere is"),
        says(" more."),
        call("tool_call", "pending", "bash"),
        call("tool_call_update", "in_progress", "touch x"),
        call("tool_call_update", "completed", "touch x"),
        other_session,
        update(json!({"sessionUpdate": "a_kind_of_a_later_version"})),
    ];
    let activity = ["Let me see.\nThere is", "Runs: touch x"].map(|line| Event::Activity(line.to_owned()));
    assert_eq!(read(&mut acp, lines).events, activity);
}

#[test]
fn cost_is_counted_from_the_start_of_the_process() {
    let costs = |amount: f64| {
        update(json!({"sessionUpdate": "usage_update", "used": 10, "size": 100000,
            "cost": {"amount": amount, "currency": "USD"}}))
    };
    let turn = |acp: &mut Acp, prompt: PromptId, amount: f64| {
        let id = hand_over(acp, prompt);
        let usage = json!({"inputTokens": 10, "outputTokens": 5, "totalTokens": 15});
        let answer =
            json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "end_turn", "usage": usage, "_meta": {}}});
        let out = read(acp, [costs(amount), answer]);
        out.events.into_iter().find_map(|event| match event {
            Event::Usage(usage) => Some((usage.input_tokens, usage.output_tokens, usage.cost_usd)),
            _ => None,
        })
    };
    let mut acp = ready(OPENCODE);
    assert_eq!(turn(&mut acp, 1, 0.5), Some((10, 5, Some(0.5))));
    assert_eq!(turn(&mut acp, 2, 0.75), Some((20, 10, Some(0.75))));
    let (mut acp, _) = begin(OPENCODE, Setup { resume: Some("s1".to_owned()), ..setup() });
    read(&mut acp, [json!({"jsonrpc": "2.0", "id": 2, "result": {}})]);
    assert_eq!(turn(&mut acp, 1, 0.75), Some((10, 5, Some(0.0))), "the session had a cost before");
    assert_eq!(turn(&mut acp, 2, 1.0), Some((20, 10, Some(0.25))));
}

#[test]
fn a_sharp_drop_in_context_size_counts_as_a_compaction() {
    let mut acp = ready(OPENCODE);
    let mut holds = |tokens: u64| {
        let usage = json!({"sessionUpdate": "usage_update", "used": tokens, "size": 100_000, "cost": {"amount": 0, "currency": "USD"}});
        read(&mut acp, [update(usage)]).events.contains(&Event::Compacted)
    };
    assert_eq!([10, 50_000, 49_000, 9_000, 9_500].map(&mut holds), [false, false, false, true, false]);
}
