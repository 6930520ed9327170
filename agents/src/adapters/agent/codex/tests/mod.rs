//! The lines are those that Codex 0.169.0 wrote, without the fields that are not read.

mod requests;

use serde_json::{Value, json};

use super::{super::protocol::*, *};

const THREAD: &str = "01a203bc-2cb3-7d30-bf22-b81572413942";
const TURN: &str = "01a203bc-2cd7-7810-9162-c175cb138b50";
const LATER_TURN: &str = "01a203bc-a2d0-7530-985a-fa17f2d70b4d";

/// A program whose side of the conversation is written by hand.
struct Script {
    codex: Codex,
    out: Outbox,
}

impl Script {
    /// Starts a session.
    fn ready(setup: Setup) -> Self {
        let mut script = Self::started(setup);
        script.answer("thread/start", opened(THREAD, "default", "workspaceWrite"));
        assert_eq!(script.events(), [Event::Ready { session_id: Some(THREAD.to_owned()) }]);
        script
    }

    /// Runs up to the request that opens the thread.
    fn started(setup: Setup) -> Self {
        let mut script = Self { codex: Codex::new(setup), out: Outbox::default() };
        script.codex.start(&mut script.out);
        let asked = script.answer("initialize", json!({"userAgent": "teamwire/0.169.0", "platformOs": "linux"}));
        assert_eq!(asked["capabilities"], json!({"experimentalApi": true}));
        assert_eq!(script.out.lines.remove(0), json!({"method": "initialized"}));
        assert!(!script.codex.accepts_prompt());
        script
    }

    /// Answers the oldest line, which is a request for `method`. Returns its parameters.
    fn answer(&mut self, method: &str, result: Value) -> Value {
        let asked = self.asked(method);
        self.codex.read(json!({"id": asked["id"], "result": result}), &mut self.out);
        asked["params"].clone()
    }

    /// Refuses the oldest line, which is a request for `method`.
    fn refuse(&mut self, method: &str, message: &str) {
        let asked = self.asked(method);
        self.codex.read(json!({"error": {"code": -32600, "message": message}, "id": asked["id"]}), &mut self.out);
    }

    fn asked(&mut self, method: &str) -> Value {
        let asked = self.out.lines.remove(0);
        assert_eq!(asked["method"], method);
        asked
    }

    /// Returns the text in the oldest line, which is a request for `method`.
    fn said(&mut self, method: &str) -> String {
        text(&self.asked(method)["params"]["input"][0], "text").to_owned()
    }

    fn notify(&mut self, method: &str, mut params: Value) {
        if params["threadId"].is_null() {
            params["threadId"] = json!(THREAD);
        }
        self.codex.read(json!({"method": method, "params": params, "emittedAtMs": 1}), &mut self.out);
    }

    fn request(&mut self, method: &str, id: u64, mut params: Value) {
        params["threadId"] = json!(THREAD);
        params["turnId"] = json!(TURN);
        self.codex.read(json!({"method": method, "id": id, "params": params}), &mut self.out);
    }

    fn prompt(&mut self, id: PromptId) {
        self.codex.prompt(Prompt { id, text: format!("prompt {id}") }, &mut self.out);
    }

    /// Hands over a prompt, which begins or joins a turn.
    fn hand_over(&mut self, id: PromptId, turn: &str) {
        self.prompt(id);
        let asked = self.answer("turn/start", json!({"turn": {"id": turn, "status": "inProgress", "error": null}}));
        assert_eq!(asked["input"], json!([{"type": "text", "text": format!("prompt {id}")}]));
        assert_eq!(asked["clientUserMessageId"], format!("teamwire-{id}"));
    }

    fn turn_started(&mut self, turn: &str) {
        self.notify("turn/started", json!({"turn": {"id": turn, "status": "inProgress"}}));
    }

    fn taken(&mut self, id: PromptId, turn: &str) {
        let item = json!({"type": "userMessage", "id": "01a2", "clientId": format!("teamwire-{id}"), "content": []});
        self.notify("item/completed", json!({"item": item, "turnId": turn}));
    }

    fn turn_ended(&mut self, turn: &str, status: &str, error: Value) {
        self.notify("turn/completed", json!({"turn": {"id": turn, "items": [], "status": status, "error": error}}));
    }

    fn events(&mut self) -> Vec<Event> {
        self.out.events.drain(..).collect()
    }

    /// Returns what became of prompts.
    fn outcomes(&mut self) -> Vec<Event> {
        let is_outcome = |event: &Event| matches!(event, Event::Taken(_) | Event::Processed(_) | Event::Failed(..));
        self.events().into_iter().filter(is_outcome).collect()
    }
}

fn opened(thread: &str, mode: &str, sandbox: &str) -> Value {
    json!({
        "thread": {"id": thread, "status": {"type": "idle"}}, "model": "gpt", "reasoningEffort": "high",
        "approvalPolicy": "on-request", "sandbox": {"type": sandbox, "networkAccess": false},
        "collaborationMode": {"mode": mode},
    })
}

fn report(total: u64, last: u64) -> Value {
    let tokens = |count: u64| json!({"inputTokens": count, "cachedInputTokens": count / 2, "outputTokens": 1});
    json!({"total": tokens(total), "last": tokens(last), "modelContextWindow": 258_400})
}

fn plan_first() -> Setup {
    Setup { plan_first: true, ..Setup::default() }
}

#[test]
fn a_session_begins_with_the_tools_in_the_directory_that_the_user_chose() {
    let tool =
        Tool { name: "SendMessage".into(), description: "Sends".into(), input_schema: json!({"type": "object"}) };
    let arguments = ["-C".to_owned(), "sub".to_owned()].to_vec();
    let setup = Setup { arguments, directory: "/work".into(), tools: vec![tool], ..Setup::default() };
    let mut script = Script::started(setup);
    let asked = script.answer("thread/start", opened(THREAD, "default", "readOnly"));
    assert_eq!(asked["cwd"], "/work/sub");
    assert_eq!(
        asked["dynamicTools"],
        json!([{"type": "function", "name": "SendMessage", "description": "Sends", "inputSchema": {"type": "object"}}])
    );
    assert_eq!(asked["approvalPolicy"], Value::Null, "the user's configuration decides");
    assert!(script.codex.accepts_prompt());
}

#[test]
fn arguments_that_cannot_be_carried_over_end_the_program() {
    let setup = Setup { arguments: vec!["Fix the bug".to_owned()], ..Setup::default() };
    let (mut codex, mut out) = (Codex::new(setup), Outbox::default());
    codex.start(&mut out);
    assert!(out.lines.is_empty());
    assert!(matches!(&out.events[0], Event::Broken(why) if why.contains("--prompt")));
}

#[test]
fn a_prompt_is_processed_when_the_turn_that_took_it_has_completed() {
    let mut script = Script::ready(Setup::default());
    script.hand_over(1, TURN);
    script.turn_started(TURN);
    assert_eq!(script.outcomes(), []);
    script.taken(1, TURN);
    assert_eq!(script.outcomes(), [Event::Taken(1)]);
    script.hand_over(2, TURN);
    script.taken(2, TURN);
    assert_eq!(script.outcomes(), [Event::Taken(2)]);
    assert!(script.codex.is_in_turn());
    script.turn_ended(TURN, "completed", Value::Null);
    assert_eq!(script.outcomes(), [Event::Processed(1), Event::Processed(2)]);
    assert!(!script.codex.is_in_turn());
}

#[test]
fn a_failed_turn_fails_the_prompts_that_it_took() {
    let mut script = Script::ready(Setup::default());
    script.hand_over(1, TURN);
    script.taken(1, TURN);
    let error = json!({"message": "exceeded retry limit, last status: 429 Too Many Requests",
        "codexErrorInfo": {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "additionalDetails": null});
    script.turn_ended(TURN, "failed", error);
    let why = "exceeded retry limit, last status: 429 Too Many Requests".to_owned();
    assert_eq!(script.outcomes(), [Event::Taken(1), Event::Failed(1, why)]);
}

#[test]
fn an_interrupted_turn_fails_all_its_prompts_taken_or_not() {
    let mut script = Script::ready(Setup::default());
    script.hand_over(1, TURN);
    script.taken(1, TURN);
    script.hand_over(2, TURN);
    script.turn_ended(TURN, "interrupted", Value::Null);
    let why = "the turn was interrupted".to_owned();
    assert_eq!(script.outcomes(), [Event::Taken(1), Event::Failed(1, why.clone()), Event::Failed(2, why)]);
}

#[test]
fn a_prompt_that_joined_a_turn_too_late_fails() {
    let mut script = Script::ready(Setup::default());
    script.prompt(1);
    script.turn_ended(TURN, "completed", Value::Null);
    script.answer("turn/start", json!({"turn": {"id": TURN}}));
    assert!(matches!(script.outcomes()[..], [Event::Failed(1, _)]));
}

#[test]
fn a_prompt_that_a_later_turn_takes_is_processed_with_that_turn() {
    let mut script = Script::ready(Setup::default());
    script.hand_over(1, TURN);
    script.taken(1, LATER_TURN);
    script.turn_ended(TURN, "failed", json!({"message": "down"}));
    script.turn_ended(LATER_TURN, "completed", Value::Null);
    assert_eq!(script.outcomes(), [Event::Taken(1), Event::Processed(1)]);
}

#[test]
fn a_refused_prompt_fails() {
    let mut script = Script::ready(Setup::default());
    script.prompt(1);
    script.refuse("turn/start", "failed to submit turn input: ActiveTurnNotSteerable { turn_kind: Compact }");
    assert!(matches!(&script.outcomes()[..], [Event::Failed(1, why)] if why.contains("Compact")));
}

#[test]
fn a_session_is_resumed() {
    let mut script = Script::started(Setup { resume: Some(THREAD.to_owned()), ..Setup::default() });
    let asked = script.answer("thread/resume", opened(THREAD, "default", "workspaceWrite"));
    assert_eq!((&asked["threadId"], &asked["excludeTurns"]), (&json!(THREAD), &json!(true)));
    assert_eq!(script.events(), [Event::Ready { session_id: Some(THREAD.to_owned()) }]);
    assert_eq!(script.out.lines, Vec::<Value>::new());
}

#[test]
fn a_session_that_cannot_be_resumed_is_replaced() {
    let mut script = Script::started(Setup { resume: Some("lost".to_owned()), ..Setup::default() });
    script.refuse("thread/resume", "no rollout found for thread id lost");
    assert!(
        matches!(&script.events()[..], [Event::Warning(why), Event::StartedOver] if why.contains("no rollout found"))
    );
    script.answer("thread/start", opened(THREAD, "default", "workspaceWrite"));
    assert_eq!(script.events(), [Event::Ready { session_id: Some(THREAD.to_owned()) }]);
}

#[test]
fn a_session_that_cannot_be_started_is_broken() {
    let mut script = Script::started(Setup::default());
    script.refuse("thread/start", "config.toml: invalid value");
    assert!(matches!(&script.events()[..], [Event::Broken(why)] if why.contains("invalid value")));
}

#[test]
fn a_plan_is_carried_out_once_it_is_approved() {
    let mut script = Script::ready(plan_first());
    let planning = script.answer("thread/settings/update", json!({}));
    let settings = json!({"model": "gpt", "reasoning_effort": "high", "developer_instructions": null});
    assert_eq!(planning["collaborationMode"], json!({"mode": "plan", "settings": settings}));
    assert_eq!(planning["sandboxPolicy"], json!({"type": "readOnly"}));
    script.hand_over(1, TURN);
    script.turn_started(TURN);
    script.notify(
        "item/completed",
        json!({"item": {"type": "plan", "id": "p", "text": "# Plan\n1. do it\n"}, "turnId": TURN}),
    );
    script.taken(1, TURN);
    script.events();
    script.turn_ended(TURN, "completed", Value::Null);
    let key = format!("plan-{TURN}");
    assert_eq!(
        script.events().last(),
        Some(&Event::PlanReady { key: key.clone(), plan: "# Plan\n1. do it\n".to_owned() })
    );

    // While a turn runs, the decision waits: that turn keeps its mode.
    script.hand_over(2, LATER_TURN);
    script.codex.decide(&key, Decision::Allow, &mut script.out);
    assert_eq!(script.out.lines, Vec::<Value>::new());
    script.turn_ended(LATER_TURN, "completed", Value::Null);
    let working = script.answer("thread/settings/update", json!({}));
    assert_eq!(working["collaborationMode"]["mode"], "default");
    assert_eq!(working["sandboxPolicy"], json!({"type": "workspaceWrite", "networkAccess": false}));
    assert!(script.said("turn/start").contains("approved"));
}

#[test]
fn a_rejected_plan_stays_in_plan_mode_with_the_feedback() {
    let mut script = Script::ready(plan_first());
    script.answer("thread/settings/update", json!({}));
    let plan = |text: &str| json!({"item": {"type": "plan", "text": text}, "turnId": TURN});
    script.notify("item/completed", plan("first"));
    script.turn_ended(TURN, "completed", Value::Null);
    let key = format!("plan-{TURN}");
    script.codex.decide(&key, Decision::Deny("lead said no: smaller steps".to_owned()), &mut script.out);
    let said = script.said("turn/start");
    assert!(said.ends_with("lead said no: smaller steps"), "{said}");
    assert_eq!(script.out.lines, Vec::<Value>::new());

    script.notify("item/completed", plan("second"));
    script.turn_ended(LATER_TURN, "completed", Value::Null);
    let later = format!("plan-{LATER_TURN}");
    assert!(script.events().contains(&Event::PlanReady { key: later.clone(), plan: "second".to_owned() }));
    // A newer plan replaces one that was not decided.
    script.notify("item/completed", plan("third"));
    script.turn_ended(TURN, "completed", Value::Null);
    assert!(script.events().contains(&Event::WishWithdrawn { key: later }));
}

#[test]
fn a_session_resumed_in_plan_mode_leaves_it_with_its_usual_sandbox() {
    let mut script = Script::started(Setup { resume: Some(THREAD.to_owned()), ..Setup::default() });
    script.answer("thread/resume", opened(THREAD, "plan", "readOnly"));
    let probe = script.answer("thread/start", opened("another", "default", "workspaceWrite"));
    assert_eq!(probe["ephemeral"], json!(true));
    let working = script.answer("thread/settings/update", json!({}));
    assert_eq!((&working["threadId"], &working["collaborationMode"]["mode"]), (&json!(THREAD), &json!("default")));
    assert_eq!(working["sandboxPolicy"], json!({"type": "workspaceWrite", "networkAccess": false}));
}

#[test]
fn a_runner_that_permits_everything_turns_the_sandbox_off_except_while_planning() {
    let setup = Setup { permits_all: true, ..plan_first() };
    let launched: Vec<_> = Codex::new(setup.clone()).launch().after;
    assert_eq!(launched, ["app-server", "-c", "sandbox_mode=\"danger-full-access\""]);
    let mut script = Script::started(setup);
    script.answer("thread/start", opened(THREAD, "default", "dangerFullAccess"));
    let planning = script.answer("thread/settings/update", json!({}));
    assert_eq!(planning["sandboxPolicy"], json!({"type": "readOnly"}));

    let arguments = vec!["--sandbox".to_owned(), "workspace-write".to_owned()];
    let launched = Codex::new(Setup { permits_all: true, arguments, ..Setup::default() }).launch().after;
    assert_eq!(launched, ["app-server", "-c", "sandbox_mode=\"workspace-write\""], "the user has chosen");
}

#[test]
fn a_program_without_a_sandbox_plans_without_one() {
    let mut script = Script::started(plan_first());
    script.answer("thread/start", opened(THREAD, "default", "dangerFullAccess"));
    let planning = script.answer("thread/settings/update", json!({}));
    assert_eq!(planning["sandboxPolicy"]["type"], "dangerFullAccess");
}

#[test]
fn usage_counts_what_no_earlier_process_has_counted() {
    let used_before = Usage { input_tokens: 60, cached_tokens: 30, output_tokens: 1, ..Usage::default() };
    let mut script = Script::started(Setup { resume: Some(THREAD.to_owned()), used_before, ..Setup::default() });
    script.answer("thread/resume", opened(THREAD, "default", "workspaceWrite"));
    script.notify("thread/tokenUsage/updated", json!({"turnId": "an earlier one", "tokenUsage": report(70, 10)}));
    let unreported = script.events().pop().expect("usage");
    let used = Usage { input_tokens: 10, cached_tokens: 5, ..Usage::default() };
    assert_eq!(unreported, Event::Usage(used), "the process before was killed before it reported it");
    script.hand_over(1, TURN);
    script.taken(1, TURN);
    script.notify("thread/tokenUsage/updated", json!({"turnId": TURN, "tokenUsage": report(90, 20)}));
    script.events();
    script.turn_ended(TURN, "completed", Value::Null);
    let usage = Usage { turns: 1, input_tokens: 30, cached_tokens: 15, output_tokens: 0, cost_usd: None };
    assert_eq!(script.events(), [Event::Usage(usage), Event::ended(""), Event::Processed(1)]);

    let mut script = Script::ready(Setup::default());
    script.taken(1, TURN);
    script.notify("thread/tokenUsage/updated", json!({"turnId": TURN, "tokenUsage": report(10, 10)}));
    let usage = Usage { input_tokens: 10, cached_tokens: 5, output_tokens: 1, ..Usage::default() };
    assert_eq!(script.events(), [Event::Usage(usage)]);
}

#[test]
fn a_turn_ends_with_what_the_model_wrote_after_its_last_tool_call() {
    let mut script = Script::ready(Setup::default());
    let mut item = |event: &str, item: Value| script.notify(event, json!({"item": item, "turnId": TURN}));
    item("item/completed", json!({"type": "agentMessage", "text": "I look."}));
    item(
        "item/started",
        json!({"type": "fileChange", "id": "c", "changes": [{"path": "/w/a.rs", "kind": {"type": "add"}}]}),
    );
    item("item/completed", json!({"type": "fileChange", "id": "c"}));
    item("item/completed", json!({"type": "agentMessage", "text": "Done."}));
    assert!(script.out.changes.contains(&Change::FileChanged("/w/a.rs".to_owned())), "{:?}", script.out);
    script.turn_ended(TURN, "completed", Value::Null);
    let events = script.events();
    assert!(events.contains(&Event::ended("Done.")), "{events:?}");
}

#[test]
fn activity_shows_what_the_agent_does() {
    let mut script = Script::ready(Setup::default());
    for item in [
        json!({"type": "commandExecution", "command": "/bin/bash -lc 'make test'", "cwd": "/w",
            "commandActions": [{"type": "unknown", "command": "make test"}]}),
        json!({"type": "dynamicToolCall", "tool": "SendMessage", "arguments": {"to": "lead"}}),
        json!({"type": "mcpToolCall", "server": "files", "tool": "list", "arguments": {}}),
        json!({"type": "agentMessage", "text": ""}),
    ] {
        script.notify("item/started", json!({"item": item, "turnId": TURN}));
    }
    script.notify("item/completed", json!({"item": {"type": "agentMessage", "text": "Done."}, "turnId": TURN}));
    let error = json!({"message": "Reconnecting... waiting for network", "additionalDetails": "Connection failed"});
    script.notify("error", json!({"error": error, "willRetry": true, "turnId": TURN}));
    let lines: Vec<String> = script
        .events()
        .into_iter()
        .map(|event| match event {
            Event::Activity(line) => line,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        lines,
        [
            "command: make test",
            "SendMessage: lead",
            "files.list",
            "Done.",
            "The model does not answer. Codex tries again. Reconnecting... waiting for network: Connection failed",
        ]
    );
}

#[test]
fn a_subagent_is_not_the_member_but_its_requests_are_decided() {
    let mut script = Script::ready(Setup::default());
    let message = json!({"type": "agentMessage", "text": "Found it."});
    script.notify("item/completed", json!({"threadId": "another", "item": message, "turnId": "t"}));
    script.notify("turn/completed", json!({"threadId": "another", "turn": {"id": "t", "status": "completed"}}));
    assert_eq!(script.events(), []);
    let asks = json!({"method": "item/commandExecution/requestApproval", "id": 9,
        "params": {"threadId": "another", "turnId": "t", "command": "make"}});
    script.codex.read(asks, &mut script.out);
    assert!(matches!(script.events()[..], [Event::PermissionWanted(_)]));
}

#[test]
fn compaction_and_warnings_are_reported() {
    let mut script = Script::ready(Setup::default());
    script.notify("item/completed", json!({"item": {"type": "contextCompaction", "id": "c"}, "turnId": TURN}));
    for _ in 0..2 {
        script.notify("configWarning", json!({"summary": "Codex could not find bubblewrap on PATH.", "details": null}));
    }
    let warning = "Codex could not find bubblewrap on PATH.".to_owned();
    assert_eq!(script.events(), [Event::Compacted, Event::Warning(warning)]);
}

#[test]
fn a_prompt_joins_a_turn_only_while_a_tool_runs() {
    let mut script = Script::ready(Setup::default());
    assert!(script.codex.accepts_prompt());
    script.hand_over(1, TURN);
    assert!(!script.codex.accepts_prompt(), "the turn begins");
    script.turn_started(TURN);
    script.taken(1, TURN);
    for kind in ["reasoning", "agentMessage", "webSearch"] {
        script.notify("item/started", json!({"item": {"type": kind, "id": kind}, "turnId": TURN}));
        assert!(!script.codex.accepts_prompt(), "the model answers");
    }
    let tool = json!({"type": "commandExecution", "id": "c", "command": "make"});
    script.notify("item/started", json!({"item": tool, "turnId": TURN}));
    assert!(script.codex.accepts_prompt());
    script.notify("item/completed", json!({"item": tool, "turnId": TURN}));
    assert!(!script.codex.accepts_prompt());
    script.notify("item/started", json!({"item": tool, "turnId": TURN}));
    script.turn_ended(TURN, "completed", Value::Null);
    assert!(script.codex.accepts_prompt());
}

#[test]
fn a_line_that_cannot_be_read_is_answered_or_fails_what_it_answers() {
    let mut script = Script::ready(Setup::default());
    script.codex.unreadable(&json!({"id": 4, "method": "item/tool/call"}), &mut script.out);
    let answer = script.out.lines.remove(0);
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(4), &json!(-32700)));
    script.prompt(1);
    let asked = script.asked("turn/start");
    script.codex.unreadable(&json!({"id": asked["id"]}), &mut script.out);
    assert!(matches!(script.outcomes()[..], [Event::Failed(1, _)]));
    script.codex.unreadable(&json!({"method": "item/started"}), &mut script.out);
    assert!(script.out.lines.is_empty());
}
