//! `teamwire mcp`, used by the official Python client in place of an agent program.

mod http;

use std::{
    cell::RefCell,
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde_json::{Value, json};

use crate::{
    agents,
    world::{LEAD, PATIENCE, ScriptedHost, TEAMWIRE, World, eventually, offer},
};

/// The environment variable with the path of a Python that has the official client.
const PYTHON: &str = "TEAMWIRE_TEST_MCP_PYTHON";

/// How many tokens the names, descriptions and inputs of a lead's tools may take in a model's context.
const TOKENS_MAX: usize = 4_150;

/// How many bytes of such a text make a token at least. Tokenizers of today need 3.5 to 4.5.
const BYTES_OF_A_TOKEN: usize = 3;

scenarios! {
    members_talk_and_share_tasks_through_their_tools,
    only_the_lead_has_the_tools_of_a_lead,
    the_lead_starts_a_teammate_on_a_host,
    the_lead_sees_whose_turns_fail,
    requests_are_answered_with_the_tool_input_that_their_text_shows,
    a_message_that_no_later_inbox_check_confirmed_is_returned_to_the_next_process,
    an_agent_without_a_team_creates_one_and_leads_it,
    an_answer_to_a_message_from_a_hook_names_that_message,
}

/// Returns the Python with the official client. `None` if it is not prepared, so the test is skipped; with `CI`, that
/// fails.
fn python() -> Option<String> {
    let python = env::var(PYTHON).ok();
    if python.is_none() {
        let notice = format!("{PYTHON} is not set: run `cargo xtask test`");
        assert!(env::var_os("CI").is_none(), "{notice}");
        eprintln!("skipped: {notice}");
    }
    python
}

/// An agent program that has started `teamwire mcp`.
struct Agent {
    stdin: RefCell<ChildStdin>,
    lines: Receiver<String>,
    greeting: Value,
}

impl Agent {
    /// Starts an agent with the identity of a user. `None` for the reasons of [`python`].
    fn start(world: &World, identity: &str) -> Option<Self> {
        let mut command = world.program(identity, Path::new(&python()?));
        command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp/agent.py"), TEAMWIRE]);
        Some(Self::spawn(command))
    }

    fn spawn(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let (send, lines) = channel();
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)).ok();
            process.wait()
        });
        let mut agent = Self { stdin: stdin.into(), lines, greeting: Value::Null };
        agent.greeting = agent.next();
        agent
    }

    fn next(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(PATIENCE).expect("an answer of the agent")).unwrap()
    }

    fn tools(&self) -> Vec<&str> {
        let tools = self.greeting["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        self.begin(tool, arguments);
        self.next()
    }

    /// Begins a call. The next answer is its result.
    fn begin(&self, tool: &str, arguments: Value) {
        let call = json!({ "tool": tool, "arguments": arguments });
        writeln!(self.stdin.borrow_mut(), "{call}").unwrap();
    }

    /// Begins a call that is repeated with a key until it is answered.
    fn begin_with_key(&self, key: &str, tool: &str, arguments: Value) {
        let call = json!({ "tool": tool, "arguments": arguments, "key": key });
        writeln!(self.stdin.borrow_mut(), "{call}").unwrap();
    }

    /// Makes such a call and returns the tool's text.
    fn does_with_key(&self, key: &str, tool: &str, arguments: Value) -> String {
        self.begin_with_key(key, tool, arguments);
        let answer = self.next();
        assert_eq!(answer["is_error"], false, "{answer}");
        answer["text"].as_str().unwrap().to_owned()
    }

    /// Calls a tool and returns its text.
    fn does(&self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments);
        assert_eq!(answer["is_error"], false, "{answer}");
        answer["text"].as_str().unwrap().to_owned()
    }

    /// Calls a tool that refuses, and returns why.
    fn is_refused(&self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments);
        assert_eq!(answer["is_error"], true, "{answer}");
        answer["text"].as_str().unwrap().to_owned()
    }
}

fn members_talk_and_share_tasks_through_their_tools(world: World) {
    world.create_team("acme");
    world.join("ann");
    let (Some(lead), Some(ann)) = (Agent::start(&world, LEAD), Agent::start(&world, "ann")) else { return };
    assert_eq!(
        ann.greeting["instructions"],
        "You are ann of team acme. Your teammates read only what SendMessage sends."
    );

    // The classic form, answered in the newer one. The answer says what it answers, although no field of the tool does.
    lead.does("SendMessage", json!({"type": "message", "recipient": "ann", "content": "<b>Go</b>", "summary": "go"}));
    let read = ann.does("CheckInbox", json!({}));
    let id = world.history(LEAD).last().unwrap()["message"]["id"].as_str().unwrap().to_owned();
    let element = format!(
        "<teammate-message teammate_id=\"lead\" message_id=\"{id}\" summary=\"go\">&lt;b&gt;Go&lt;/b&gt;</teammate-message>"
    );
    assert_eq!(read, element);
    ann.does("SendMessage", json!({"to": "team-lead", "message": "Gone.", "summary": "gone"}));
    let history = world.history(LEAD);
    let sent = |content: &str| history.iter().find(|entry| entry["message"]["content"] == content).unwrap();
    assert_eq!(sent("Gone.")["message"]["in_reply_to"], sent("<b>Go</b>")["message"]["id"]);
    assert_eq!(ann.does("CheckInbox", json!({"wait_seconds": 1})), "You have no new messages.");
    let is_processed =
        |entry: &Value| entry["message"]["content"] == "<b>Go</b>" && entry["receipts"][0]["state"] == "processed";
    assert!(world.history(LEAD).iter().any(is_processed), "the next look acknowledges");

    lead.does("TaskCreate", json!({"subject": "Write", "description": "All of it."}));
    lead.does("TaskCreate", json!({"subject": "Test", "blockedBy": ["1"]}));
    assert!(ann.does("TaskClaim", json!({})).contains("#1 [in_progress] Write (by ann)"));
    let done = ann.does("TaskUpdate", json!({"taskId": "1", "status": "completed", "result": "Written."}));
    assert_eq!(done, "Completed #1 [completed] Write (by ann)\nReady now: #2");
    ann.does("TaskUpdate", json!({"taskId": 2, "status": "in_progress", "subject": "Test it"}));
    ann.does("TaskUpdate", json!({"taskId": "2", "status": "pending", "result": "No time."}));
    assert_eq!(lead.does("TaskList", json!({})), "#1 [completed] Write (by ann)\n#2 [pending] Test it");
    assert!(lead.does("TaskGet", json!({"taskId": "#2"})).ends_with("Last given back:\nNo time."));
    assert!(lead.does("TeamStatus", json!({})).contains("ann (teammate): "));
    for (arguments, why) in [
        (json!({"taskId": "two"}), "\"two\" is not the number of a task."),
        (json!({"taskId": "7"}), "TASK_NOT_FOUND: There is no task 7 in your team. See TaskList."),
        (json!({}), "missing field `taskId`"),
    ] {
        assert!(ann.is_refused("TaskGet", arguments).contains(why), "{why}");
    }
    assert!(ann.is_refused("TaskUpdate", json!({"taskId": "1"})).starts_with("Nothing to change"));
}

fn only_the_lead_has_the_tools_of_a_lead(world: World) {
    world.create_team("acme");
    world.join("ann");
    let (Some(lead), Some(ann)) = (Agent::start(&world, LEAD), Agent::start(&world, "ann")) else { return };
    for tool in ["Task", "Invite", "ForceStop", "Last", "Interrupt", "TeamDelete"] {
        assert!(lead.tools().contains(&tool) && !ann.tools().contains(&tool), "{tool}");
        assert!(ann.is_refused(tool, json!({"name": "lead"})).starts_with(&format!("You have no tool {tool}.")));
    }
    assert!(ann.tools().contains(&"SubmitPlan") && !lead.tools().contains(&"SubmitPlan"), "plans go to the lead");
    assert!(lead.is_refused("SubmitPlan", json!({"plan": "1. do"})).starts_with("You have no tool SubmitPlan."));
    let shutdown = json!({"type": "shutdown_request", "recipient": "lead", "content": "please"});
    assert!(ann.is_refused("SendMessage", shutdown).starts_with("LEAD_ONLY: "));
    let types = |agent: &Agent| {
        let tools = agent.greeting["tools"].as_array().unwrap();
        let send = tools.iter().find(|tool| tool["name"] == "SendMessage").unwrap();
        (send["inputSchema"]["properties"]["type"]["enum"].to_string(), send["description"].to_string())
    };
    let ((hers, ann_reads), (all, lead_reads)) = (types(&ann), types(&lead));
    for kind in ["shutdown_request", "plan_approval_response"] {
        let quoted = format!("\"{kind}\"");
        assert!(all.contains(&quoted) && !hers.contains(&quoted), "{hers}");
        assert!(lead_reads.contains(kind) && !ann_reads.contains(kind), "{ann_reads}");
    }
    let tokens = tokens(&lead);
    assert!(tokens <= TOKENS_MAX, "the tools take {tokens} tokens");

    let invited = lead.does("Invite", json!({"name": "bob"}));
    let join_string = invited.split_whitespace().find(|word| word.starts_with("twj:")).unwrap();
    world.cli("bob", &["join", join_string, "--name", "bob"]).succeeds();
    assert_eq!(lead.does("ForceStop", json!({"name": "bob", "reason": "not needed"})), "Stopped bob.");

    // The tools follow the role.
    world.cli(LEAD, &["team", "lead", "ann", "--yes"]).succeeds();
    assert!(lead.is_refused("TeamDelete", json!({})).starts_with("You have no tool TeamDelete."));
    ann.does("Invite", json!({"name": "carol"}));
}

fn the_lead_starts_a_teammate_on_a_host(world: World) {
    world.create_team("acme");
    let Some(lead) = Agent::start(&world, LEAD) else { return };
    // The form that agents know.
    let task = json!({"name": "backend", "team_name": "acme", "prompt": "You own the API."});
    let alone = lead.is_refused("Task", task.clone());
    assert!(alone.starts_with("The team has no host.") && alone.contains("`teamwire invite --host`"), "{alone}");

    let mut host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[("gpu", "a100")], 2));
    let status = lead.does("TeamStatus", json!({}));
    assert!(status.ends_with("\ngpu-1 (host): profiles claude; 2 of 2 slots free; gpu=a100"), "{status}");
    lead.begin("Task", task.clone());
    let order = host.next_order();
    assert_eq!(order.terms.profile, "claude");
    let backend = host.start(&world, &order, agents::WILLING).ready();
    let started = lead.next();
    let says = "backend has started on gpu-1, with the profile claude, and has your prompt. It reports with messages.";
    assert_eq!((&started["is_error"], &started["text"]), (&false.into(), &says.into()));
    assert_eq!(backend.await_text("You own the API.")["from"], LEAD);
    assert!(lead.does("TeamStatus", json!({})).contains("backend (teammate): "));
    assert!(!lead.does("CheckInbox", json!({})).contains("has started"), "the tool has said it");
    assert!(lead.is_refused("Task", task).starts_with("MEMBER_EXISTS: "));

    let other = json!({"teammate_name": "tester", "prompt": "Test.", "profile": "claude", "labels": {"gpu": "a100"}, "reschedule": true});
    lead.begin("Task", other.clone());
    assert!(!order.terms.reschedule);
    let order = host.next_order();
    assert!(order.terms.reschedule);
    host.refuse(&order, "claude ended with code 1\n<not logged in>");
    let refused = lead.next();
    let says = "tester was not started, and its name is free again. gpu-1 says:\nclaude ended with code 1\n&lt;not logged in&gt;";
    assert_eq!((&refused["is_error"], &refused["text"]), (&true.into(), &says.into()));
    let elsewhere = json!({"name": "tester", "prompt": "Test.", "team_name": "blue"});
    assert!(lead.is_refused("Task", elsewhere).starts_with("You lead team acme, not blue."));
    let pinned = json!({"name": "tester", "prompt": "Test.", "host": "gpu-1", "reschedule": true});
    assert!(lead.is_refused("Task", pinned).contains("leave out `host`"));
    let codex = json!({"name": "tester", "prompt": "Test.", "profile": "codex"});
    let unknown = lead.is_refused("Task", codex);
    assert!(unknown.starts_with("NO_HOST_FITS: ") && unknown.contains("has no profile codex, but claude"), "{unknown}");
    let _second = ScriptedHost::join(&world, "gpu-2", offer(&["claude", "codex"], &[], 1));
    let which = lead.is_refused("Task", json!({"name": "tester", "prompt": "Test."}));
    assert_eq!(which, "Say which profile to start: claude, codex.");
}

fn the_lead_sees_whose_turns_fail(world: World) {
    world.create_team("acme");
    let Some(lead) = Agent::start(&world, LEAD) else { return };
    let join_string = world.invite("checker");
    let script = ["sh", "-c", "cat > heard; test -e ok || exit 3"];
    let _checker = world.run_program("checker", &["--join", &join_string, "--via", "exec"], &script);
    let line_of = || {
        let status = lead.does("TeamStatus", json!({}));
        status.lines().find(|line| line.starts_with("checker (teammate)")).map(str::to_owned)
    };
    eventually("it has joined", line_of);
    world.cli(LEAD, &["send", "checker", "hello"]).succeeds();
    let failing = eventually("two batches have failed", || line_of().filter(|line| line.contains(" turns in a row")));
    assert!(
        failing.contains(", failing for ") && failing.contains(", last: the program ended with code 3"),
        "{failing}"
    );
    std::fs::write(world.home("checker").join("ok"), "").unwrap();
    eventually("it no longer fails", || line_of().filter(|line| !line.contains("failing")));

    let bob = world.run("bob", &[], "grep -q hello; exit 3").ready();
    world.cli(LEAD, &["send", "bob", "hello"]).succeeds();
    assert_eq!(bob.exit(), 3);
    let status = lead.does("TeamStatus", json!({}));
    let problem = status.lines().find(|line| line.starts_with("Problem: ")).unwrap();
    assert!(
        problem.starts_with("Problem: bob failed (exit code 3") && problem.contains("teamwire run bob"),
        "{status}"
    );
}

fn requests_are_answered_with_the_tool_input_that_their_text_shows(world: World) {
    world.create_team("acme");
    world.join("ann");
    let (Some(lead), Some(ann)) = (Agent::start(&world, LEAD), Agent::start(&world, "ann")) else { return };
    // Takes the tool input out of the text of a request, as a model would.
    let input = |text: &str, approve: bool| -> Value {
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(&line[line.find('{')?..]).ok());
        lines.into_iter().find(|input| input["approve"] == approve).expect("a tool input")
    };
    ann.does("SubmitPlan", json!({"plan": "1. do"}));
    lead.does("SendMessage", input(&lead.does("CheckInbox", json!({})), false));
    assert!(ann.does("CheckInbox", json!({})).contains("rejected your plan"));
    ann.does("SubmitPlan", json!({"plan": "1. think 2. do"}));
    lead.does("SendMessage", input(&lead.does("CheckInbox", json!({})), true));
    assert!(ann.does("CheckInbox", json!({})).contains("approved your plan"));

    let ask = json!({"type": "permission_request", "tool": "Bash", "summary": "clean up", "content": "rm -r <target>"});
    let asked = ann.does("SendMessage", ask.clone());
    assert!(asked.starts_with("You asked lead for permission (request_id req_"), "{asked}");
    let text = lead.does("CheckInbox", json!({}));
    assert!(
        text.contains("Tool: Bash\nWhat the tool would do:\n    rm -r &lt;target&gt;\nann describes it as: clean up"),
        "{text}"
    );
    lead.does("SendMessage", input(&text, false));
    assert!(ann.does("CheckInbox", json!({})).contains("refused your permission request"));
    ann.does("SendMessage", ask.clone());
    lead.does("SendMessage", input(&lead.does("CheckInbox", json!({})), true));
    assert!(ann.does("CheckInbox", json!({})).contains("granted your permission request"));
    assert!(lead.is_refused("SendMessage", ask).starts_with("SELF_RECIPIENT: "));
    assert_eq!(
        lead.does("CheckInbox", json!({})),
        lead.does("CheckInbox", json!({})),
        "an answer acknowledges the request"
    );

    lead.does("SendMessage", json!({"type": "shutdown_request", "recipient": "ann", "content": "done"}));
    let approved = ann.does("SendMessage", input(&ann.does("CheckInbox", json!({})), true));
    assert!(approved.starts_with("You approved your shutdown."), "{approved}");
    assert!(lead.does("CheckInbox", json!({"wait_seconds": 20})).contains("ann approved its shutdown"));
}

fn a_message_that_no_later_inbox_check_confirmed_is_returned_to_the_next_process(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.cli(LEAD, &["send", "ann", "read me"]).succeeds();
    for _ in 0..2 {
        let Some(ann) = Agent::start(&world, "ann") else { return };
        assert!(ann.does("CheckInbox", json!({})).contains("read me"));
    }
}

fn an_agent_without_a_team_creates_one_and_leads_it(world: World) {
    let Some(agent) = Agent::start(&world, LEAD) else { return };
    assert_eq!(agent.tools(), ["TeamCreate"]);
    let instructions = "You are in no team yet. TeamCreate creates one, which you lead.";
    assert_eq!(agent.greeting["instructions"], instructions);
    assert!(agent.is_refused("SendMessage", json!({})).starts_with("You have no tool SendMessage. You are in no team"));
    assert!(agent.is_refused("TeamCreate", json!({})).contains("missing field `team_name`"));
    let created = agent.does("TeamCreate", json!({"team_name": "acme", "description": "The billing rewrite"}));
    assert!(created.starts_with("Created team acme. You are its lead, lead"), "{created}");
    assert!(agent.does("TeamStatus", json!({})).starts_with("Team acme. You are lead."));
    assert_eq!(world.cli(LEAD, &["whoami", "--json"]).succeeds().json()["team"], "acme");

    // Settings that name an identity create no other, and another machine has no right to create one.
    world.environment.borrow_mut().push(("TEAMWIRE_AS".to_owned(), "chief@blue".to_owned()));
    let Some(chief) = Agent::start(&world, LEAD) else { return };
    let gone = chief.greeting["instructions"].as_str().unwrap();
    assert!(gone.contains("There is no identity \"chief@blue\" in the context file."), "{gone}");
    assert!(chief.is_refused("TeamCreate", json!({"team_name": "red"})).contains("must be blue"));
    let created = chief.does("TeamCreate", json!({"name": "blue"}));
    assert!(created.contains("You are its lead, chief"), "{created}");
    let Some(stranger) = Agent::start(&world, "stranger") else { return };
    assert!(stranger.tools().is_empty());
    assert!(stranger.is_refused("TeamCreate", json!({"team_name": "x"})).starts_with("You have no tool TeamCreate."));
}

fn an_answer_to_a_message_from_a_hook_names_that_message(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.cli("ann", &["send", "lead", "question"]).succeeds();
    let event = json!({"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt_id": "t1"}).to_string();
    world.cli_with_input(LEAD, &["hook", "claude"], &event).succeeds();
    let Some(lead) = Agent::start(&world, LEAD) else { return };
    lead.does("SendMessage", json!({"to": "ann", "message": "answer", "summary": "answer"}));
    let history = world.history(LEAD);
    let sent = |content: &str| history.iter().find(|entry| entry["message"]["content"] == content).unwrap();
    assert_eq!(sent("answer")["message"]["in_reply_to"], sent("question")["message"]["id"]);
}

/// Prints how many tokens each tool takes. Returns their sum.
fn tokens(agent: &Agent) -> usize {
    let tools = agent.greeting["tools"].as_array().unwrap().iter();
    let each = tools.map(|tool| {
        let bytes =
            ["name", "description", "inputSchema"].map(|part| tool[part].to_string().len()).iter().sum::<usize>();
        let tokens = bytes.div_ceil(BYTES_OF_A_TOKEN);
        println!("{}: at most {tokens} tokens", tool["name"]);
        tokens
    });
    each.sum()
}

/// Claude Code asks for the newest protocol without a handshake first. Others begin with a handshake.
#[test]
fn the_server_speaks_the_versions_of_the_protocol_that_agent_programs_speak() {
    let world = World::embedded();
    world.create_team("acme");
    let first_answer = |request: Value| -> Value {
        let said = world.cli_with_input(LEAD, &["mcp"], &format!("{request}\n")).stdout;
        serde_json::from_str(said.lines().next().expect("an answer")).unwrap()
    };
    for version in ["2025-06-18", "2025-11-25"] {
        let client = json!({"name": "agent", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        let answer = first_answer(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
    }
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "agent", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let discover = |params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": params});
    let found = first_answer(discover(json!({"_meta": meta})));
    assert!(found["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2025-11-25")), "{found}");
    // Without what the new protocol requires, it is an error, after which a program falls back to the handshake.
    assert_eq!(first_answer(discover(json!({})))["error"]["code"], -32602);
}

/// A runner hands over the messages itself, and acknowledges them for the program.
#[test]
fn under_a_runner_the_tools_act_as_its_member_and_leave_its_inbox_alone() {
    let Some(python) = python() else { return };
    let world = World::embedded();
    world.create_team("acme");
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp/agent.py");
    let call = r#"{"tool":"SendMessage","arguments":{"to":"team-lead","message":"by tool","summary":"by tool"}}"#;
    let script = format!(
        "while hear; do case \"$line\" in\n*'\"type\":\"shutdown_request\"'*) answer true done ;;\n\
         *'\"content\":\"ping\"'*) printf '%s\\n' '{call}' | {python} {agent} \"$TW\" > said; ack ;;\nesac; done"
    );
    let backend = world.run("backend", &[], &script).ready();
    let answered = world.cli(LEAD, &["send", "backend", "ping", "--wait-reply", "60", "--json"]).succeeds();
    assert_eq!(answered.json()["reply"]["content"], "by tool");
    let said = std::fs::read_to_string(world.home("backend").join("said")).unwrap();
    let greeting: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert!(!greeting["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "CheckInbox"));
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    assert_eq!(backend.exit(), 0);
}
