//! MCP over HTTP: programs that reach a member's tools by URL.

use std::{
    env,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
};

use serde_json::{Value, json};

use super::{Agent, python};
use crate::{
    console::parse,
    machines,
    world::{LEAD, Network, PATIENCE, World, eventually},
};

scenarios! {
    programs_use_members_tools_by_url,
    a_repeated_call_with_a_key_changes_nothing_more,
    a_credential_without_tools_is_refused,
}

/// What `teamwire mcp --http` has created for a program.
struct Access {
    url: String,
    credential: String,
    id: String,
    setting: String,
}

impl Access {
    fn create(world: &World, identity: &str, options: &[&str]) -> Self {
        let arguments = [&["mcp", "--http", "--json"], options].concat();
        let printed = world.cli(identity, &arguments).succeeds().json();
        let field = |name: &str| printed[name].as_str().unwrap().to_owned();
        Self {
            url: field("url"),
            credential: field("credential"),
            id: field("credential_id"),
            setting: field("setting"),
        }
    }

    /// Starts a program on the machine of a user that knows nothing else of the team.
    fn start(&self, world: &World, user: &str, authority: Option<&Path>) -> Option<Agent> {
        let program = [&python()?, concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp/agent.py")];
        Some(self.start_program(world, user, program, authority))
    }

    fn start_program(&self, world: &World, user: &str, program: [&str; 2], authority: Option<&Path>) -> Agent {
        let mut command = world.program(user, Path::new(program[0]));
        command.args([program[1], &self.url]);
        command.env("TEAMWIRE_TOOL_CREDENTIAL", &self.credential);
        command.envs(authority.map(|authority| ("TEAMWIRE_CA", authority)));
        command.envs(authority.map(|authority| ("NODE_EXTRA_CA_CERTS", authority)));
        Agent::spawn(command)
    }
}

/// Posts to `/mcp`. Returns the status and the body.
fn post(world: &World, headers: &str, body: &str) -> (u16, String) {
    ask(world, "POST /mcp", headers, body)
}

fn ask(world: &World, request: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(world.coordinator.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = format!("{request} HTTP/1.1\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // The answer may come before all of it is read.
    let _ = stream.write_all(body.as_bytes());
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let answer = parse(&reply);
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

fn bearer(credential: &str) -> String {
    format!(
        "host: localhost\r\nauthorization: Bearer {credential}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\n"
    )
}

fn status_call() -> String {
    let params = json!({"name": "TeamStatus", "arguments": {}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

fn programs_use_members_tools_by_url(world: World) {
    world.create_team("acme");
    world.join("ann");
    let access = Access::create(&world, LEAD, &["--lead"]);
    world.cli("ann", &["mcp", "--http", "--lead"]).exits(77).complains_of("LEAD_ONLY");
    world.cli(LEAD, &["mcp", "--http"]).exits(77).complains_of("add --lead");
    let (Some(lead), Some(ann)) =
        (access.start(&world, "elsewhere", None), Access::create(&world, "ann", &[]).start(&world, "elsewhere", None))
    else {
        return;
    };
    let greeting = "You are ann of team acme. Your teammates read only what SendMessage sends.";
    assert_eq!(ann.greeting["instructions"], greeting);
    for tool in ["Task", "Invite", "ForceStop", "Last", "Interrupt", "TeamDelete"] {
        assert!(lead.tools().contains(&tool) && !ann.tools().contains(&tool), "{tool}");
    }
    assert!(!lead.tools().contains(&"WorkMerge"), "the clone is elsewhere");

    ann.begin("CheckInbox", json!({"wait_seconds": 60}));
    lead.does("SendMessage", json!({"to": "ann", "message": "Go", "summary": "go"}));
    assert!(ann.next()["text"].as_str().unwrap().contains("summary=\"go\">Go<"));
    ann.does("SendMessage", json!({"to": "team-lead", "message": "Gone.", "summary": "gone"}));
    // An answer may get lost, so only what the agent names is processed.
    let again = ann.does("CheckInbox", json!({}));
    let (_, processed) = again.split_once("call CheckInbox with ").unwrap();
    let processed: Value = serde_json::from_str(processed.trim_end_matches('.')).unwrap();
    assert_ne!(sent_receipt(&world, "Go"), "processed");
    assert_eq!(ann.does("CheckInbox", processed), "You have no new messages.");
    let history = world.history(LEAD);
    let sent = |content: &str| history.iter().find(|entry| entry["message"]["content"] == content).unwrap();
    assert_eq!(sent("Gone.")["message"]["in_reply_to"], sent("Go")["message"]["id"]);
    assert_eq!(sent_receipt(&world, "Go"), "processed");

    lead.does("TaskCreate", json!({"subject": "Write"}));
    assert!(ann.does("TaskClaim", json!({})).contains("#1 [in_progress] Write (by ann)"));
    assert!(ann.does("TaskUpdate", json!({"taskId": "1", "status": "completed"})).starts_with("Completed #1"));
    assert!(lead.does("TeamStatus", json!({})).contains("ann (teammate): "));
    assert_eq!(lead.does("ForceStop", json!({"name": "ann"})), "Stopped ann.");

    // The setting that goes to a repository holds no secret, and the team can see and end what was created.
    let secret = access.credential.rsplit_once(':').unwrap().1;
    assert!(access.setting.contains(&access.url) && !access.setting.contains(secret), "{}", access.setting);
    let text = world.cli(LEAD, &["mcp", "--http", "--lead", "--for", "codex"]).succeeds().stdout;
    assert!(text.contains("bearer_token_env_var = \"TEAMWIRE_TOOL_CREDENTIAL\""), "{text}");
    let listed = world.cli(LEAD, &["access", "list"]).succeeds().stdout;
    assert!(listed.lines().any(|line| line.starts_with(&access.id[..8]) && line.contains("tools")), "{listed}");
    assert!(world.cli(LEAD, &["history"]).succeeds().stdout.contains("lead created a tool credential"));
}

fn sent_receipt(world: &World, content: &str) -> String {
    let history = world.history(LEAD);
    let sent = history.iter().find(|entry| entry["message"]["content"] == content).unwrap();
    sent["receipts"][0]["state"].as_str().unwrap().to_owned()
}

fn a_repeated_call_with_a_key_changes_nothing_more(mut world: World) {
    world.create_team("acme");
    world.join("ann");
    let access = Access::create(&world, LEAD, &["--lead"]);
    let Some(lead) = access.start(&world, "elsewhere", None) else { return };
    let send = json!({"to": "ann", "message": "once", "summary": "once"});
    let task = json!({"subject": "Only one"});
    assert_eq!(lead.does_with_key("k1", "SendMessage", send.clone()), "Sent to ann.");
    let created = lead.does_with_key("k2", "TaskCreate", task.clone());
    world.coordinator.end();
    world.coordinator.restart();
    assert_eq!(lead.does_with_key("k1", "SendMessage", send.clone()), "Sent to ann.");
    assert_eq!(lead.does_with_key("k2", "TaskCreate", task.clone()), created);
    assert_eq!(lead.does("TaskList", json!({})), "#1 [pending] Only one");
    // Another key is another call.
    lead.does_with_key("k3", "SendMessage", send);
    let sent = world.history(LEAD).iter().filter(|entry| entry["message"]["content"] == "once").count();
    assert_eq!(sent, 2);
}

fn a_credential_without_tools_is_refused(world: World) {
    world.create_team("acme");
    world.join("ann");
    let access = Access::create(&world, "ann", &[]);
    let call = status_call();
    let with = |credential: &str| post(&world, &bearer(credential), &call);
    let (status, body) = with(&access.credential);
    assert!(status == 200 && body.contains("You are ann."), "{body}");

    // No page of another site, and no other host's name, not even with a stolen credential.
    let stolen = bearer(&access.credential);
    for headers in [
        format!("{stolen}origin: http://evil.example\r\n"),
        format!("{stolen}origin: null\r\n"),
        stolen.replace("host: localhost", "host: evil.example"),
    ] {
        assert_eq!(post(&world, &headers, &call).0, 403, "{headers}");
    }
    let join_string = world.cli(LEAD, &["invite", "bob", "--json"]).succeeds().json();
    for (credential, status) in
        [(join_string["token"].as_str().unwrap(), 403), (&world.operator(), 403), ("nonsense", 401), ("", 401)]
    {
        let (answered, body) = with(credential);
        assert_eq!(answered, status, "{body}");
    }
    assert_eq!(post(&world, "host: localhost\r\n", &call).0, 401);
    assert_eq!(ask(&world, "GET /mcp", &stolen, "").0, 405);
    assert_eq!(post(&world, &stolen, &"x".repeat(2 << 20)).0, 413);
    for path in [
        "GET /.well-known/oauth-protected-resource",
        "GET /.well-known/oauth-authorization-server/mcp",
        "POST /register",
    ] {
        assert_eq!(ask(&world, path, "host: localhost\r\n", "").0, 404, "{path}");
    }

    world.cli("ann", &["access", "revoke", &access.id]).succeeds();
    let (status, body) = with(&access.credential);
    assert!(status == 401 && body.contains("revoked"), "{status} {body}");
    // A program that got a teammate's tools never acts as a lead.
    let other = Access::create(&world, "ann", &[]).credential;
    assert_eq!(with(&other).0, 200);
    world.cli(LEAD, &["team", "lead", "ann", "--yes"]).succeeds();
    let (status, body) = with(&other);
    assert!(status == 401 && body.contains("ann leads the team now"), "{status} {body}");
    world.cli("ann", &["team", "lead", LEAD, "--yes"]).succeeds();
    assert_eq!(with(&other).0, 200);
    world.cli("ann", &["leave"]).succeeds();
    assert_eq!(with(&other).0, 401, "it ends with the life");
}

/// What is sent after a program has given up waiting stays in the inbox, and the wait ends with the coordinator.
#[test]
fn a_wait_that_no_one_awaits_takes_nothing_and_delays_nothing() {
    let mut world = World::embedded();
    world.create_team("acme");
    world.join("ann");
    let access = Access::create(&world, "ann", &[]);
    let wait = json!({"name": "CheckInbox", "arguments": {"wait_seconds": 60}});
    let wait = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": wait}).to_string();
    let begin = || {
        let mut stream = TcpStream::connect(world.coordinator.socket()).unwrap();
        let head =
            format!("POST /mcp HTTP/1.1\r\ncontent-length: {}\r\n{}\r\n", wait.len(), bearer(&access.credential));
        stream.write_all(format!("{head}{wait}").as_bytes()).unwrap();
        stream
    };
    drop(begin());
    world.cli(LEAD, &["send", "ann", "still there"]).succeeds();
    let check =
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "CheckInbox", "arguments": {}}});
    for _ in 0..2 {
        let (status, body) = post(&world, &bearer(&access.credential), &check.to_string());
        assert!(status == 200 && body.contains("still there"), "{body}");
    }
    world.take_inbox("ann");
    let looks = || {
        let metrics = world.coordinator.metrics();
        metrics.lines().filter(|line| line.contains("ListInbox")).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = looks();
    let mut waiting = begin();
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    eventually("it waits", || (looks() != before).then_some(()));
    world.coordinator.end();
    let mut reply = String::new();
    waiting.read_to_string(&mut reply).unwrap();
    assert!(reply.contains("You have no new messages."), "{reply}");
}

#[test]
fn without_the_console_nothing_looks_like_a_place_to_sign_in() {
    let world = World::configured("console.enabled = \"off\"\n");
    world.create_team("acme");
    let access = Access::create(&world, LEAD, &["--lead"]);
    assert_eq!(post(&world, &bearer(&access.credential), &status_call()).0, 200);
    for path in ["GET /.well-known/oauth-protected-resource/mcp", "GET /", "POST /register"] {
        assert_eq!(ask(&world, path, "host: localhost\r\n", "").0, 404, "{path}");
    }
}

#[test]
fn a_coordinator_that_serves_no_tools_says_so() {
    let world = World::configured("mcp.enabled = false\n");
    world.create_team("acme");
    world.cli(LEAD, &["mcp", "--http", "--lead"]).exits(64).complains_of("mcp.enabled = true");
    assert_eq!(post(&world, "host: localhost\r\n", "{}").0, 400, "it speaks only gRPC");
}

/// How often the coordinator is restarted. More are for the nightly run.
const RESTARTS: &str = "TEAMWIRE_TEST_RESTARTS";

/// Set if the official TypeScript client is installed beside its script.
const NODE: &str = "TEAMWIRE_TEST_MCP_NODE";

/// Leads a team over TLS from another machine, where nothing of teamwire is installed.
#[test]
fn a_program_on_another_machine_leads_a_team_across_restarts() {
    leads_across_restarts(|access, world, authority| access.start(world, "elsewhere", Some(authority)));
}

#[test]
fn a_typescript_program_on_another_machine_leads_a_team_across_restarts() {
    if env::var_os(NODE).is_none() {
        return eprintln!("skipped: {NODE} is not set: run `cargo xtask nightly mcp`");
    }
    let program = ["node", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp/agent.mjs")];
    leads_across_restarts(|access, world, authority| {
        Some(access.start_program(world, "elsewhere", program, Some(authority)))
    });
}

fn leads_across_restarts(start: impl Fn(&Access, &World, &Path) -> Option<Agent>) {
    let Some(network) = Network::of_two() else { return };
    let [here, there] = network.machines();
    let world = World::embedded();
    let (mut coordinator, _) = machines::serve(&world, here, &[("ann", here), ("elsewhere", there)]);
    let restarts: u32 = env::var(RESTARTS).ok().map_or(2, |text| text.parse().expect("a number"));
    let join_string = world.cli("host", &["invite", "ann", "--json"]).succeeds().json();
    world.cli("ann", &["join", join_string["join_string"].as_str().unwrap(), "--name", "ann"]).succeeds();
    let access = Access::create(&world, "host", &["--lead"]);
    let authority = world.home("host").join("certs").join("ca.crt");
    let Some(lead) = start(&access, &world, &authority) else { return };
    let call = |number: u32| {
        let text = format!("message {number}");
        (format!("key-{number}"), json!({"to": "ann", "message": text, "summary": "count"}))
    };
    let (mut sent, mut got) = (0, Vec::new());
    for round in 0..restarts {
        for _ in 0..20 {
            let (key, arguments) = call(sent);
            lead.begin_with_key(&key, "SendMessage", arguments);
            sent += 1;
        }
        match round % 2 {
            0 => drop(coordinator.terminate().succeeds()),
            _ => coordinator.kill(),
        }
        coordinator = machines::start(&world, here);
        for _ in 0..20 {
            assert_eq!(lead.next()["text"], "Sent to ann.");
        }
        got.extend(world.take_inbox("ann"));
    }
    drop(lead);
    coordinator.terminate().succeeds();
    let texts: Vec<&str> = got.iter().filter_map(|message| message["content"].as_str()).collect();
    let expected: Vec<String> = (0..sent).map(|number| format!("message {number}")).collect();
    assert_eq!(texts, expected, "each once, in order");
}
