//! Refusals: their reasons, fields and codes, and that they change nothing.

use serde_json::{Value, json};
use teamwire_client::{Client, message};
use teamwire_proto::v1::{self, send_request::Body};
use tokio::runtime::Runtime;
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::{
    raw::{Raw, refused},
    world::{LEAD, World, eventually},
};

scenarios! {
    invalid_messages_from_the_command_line_are_refused_with_reason_field_and_exit_code,
    commands_that_are_refused_say_why_and_what_to_do,
    over_grpc_a_refusal_carries_code_reason_and_field,
    join_tokens_are_limited_by_name_uses_and_time_and_observers_only_read_until_expiry,
    the_first_mistakes_on_a_new_team_are_explained,
    a_prompt_for_a_program_that_cannot_read_one_is_refused,
}

store_scenarios! {
    a_full_inbox_refuses_messages_until_there_is_room,
}

/// Exit codes.
const REFUSED: i32 = 1;
const USAGE: i32 = 64;
const NOT_PERMITTED: i32 = 77;

/// A request id that nobody was given.
const UNKNOWN: &str = "req_00000000000000000000000000";

fn a_prompt_for_a_program_that_cannot_read_one_is_refused(world: World) {
    world.create_team("acme");
    for via in [&["--via", "exec"][..], &[]] {
        let run = [&["run", "backend", "--prompt", "You own the API."][..], via, &["--", "cat"]].concat();
        let refused = world.cli(LEAD, &run).exits(USAGE);
        refused.complains_of("--prompt is only for agent programs").complains_of("teamwire send backend");
    }
    let members = world.cli(LEAD, &["status", "--json"]).succeeds();
    assert!(!members.stdout.contains("backend"), "it has joined: {}", members.stdout);
}

/// A team in which everything is that a message can be refused for.
struct Scene {
    world: World,
    /// A plan of another team's member.
    foreign: String,
    /// Asks ann to end, and is pending.
    asks_ann: String,
    /// Asked cyd to end, in vain.
    expired: String,
    /// Plans of bob's: withdrawn by a newer one, rejected, and pending.
    withdrawn: String,
    rejected: String,
    pending: String,
    /// Of a member that has left.
    gone: String,
}

impl Scene {
    fn set(world: World) -> Self {
        world.create_team("blue");
        world.join("zoe");
        let plan = |who: &str, plan: &str| {
            let reply = world.cli(who, &["plan", "submit", plan, "--json"]).succeeds().json();
            reply["request_id"].as_str().unwrap().to_owned()
        };
        let foreign = plan("zoe", "a plan of blue's");
        world.create_team("acme");
        for name in ["ann", "bob", "cyd"] {
            world.join(name);
        }
        let gone = world.join("gone");
        world.cli("gone", &["leave"]).succeeds();
        let shutdown = |name: &str, options: &[&str]| {
            let asked = world.cli(LEAD, &[&["shutdown", name, "--json"], options].concat()).succeeds().json();
            asked["request_id"].as_str().unwrap().to_owned()
        };
        let expired = shutdown("cyd", &["--deadline", "1"]);
        let asks_ann = shutdown("ann", &[]);
        let withdrawn = plan("bob", "one");
        let rejected = plan("bob", "two");
        world.cli(LEAD, &["plan", "reject", &rejected, "-r", "no"]).succeeds();
        let pending = plan("bob", "three");
        world.cli(LEAD, &["requests", &expired, "--wait"]).exits(4);
        Self { world, foreign, asks_ann, expired, withdrawn, rejected, pending, gone }
    }

    /// Returns all that a refused call must leave as it is.
    fn state(&self) -> Value {
        let requests = self.world.cli(LEAD, &["requests", "--json"]).succeeds().lines();
        let depths: Vec<_> = ["ann", "bob", "cyd", "gone", LEAD].map(|name| self.world.member(name)).to_vec();
        let depths: Vec<_> = depths.iter().map(|member| [&member["inbox_depth"], &member["incarnation"]]).collect();
        json!([self.world.history(LEAD), requests, depths])
    }
}

fn message(recipient: &str, content: &str, summary: &str) -> Value {
    json!({"type": "message", "recipient": recipient, "content": content, "summary": summary})
}

fn invalid_messages_from_the_command_line_are_refused_with_reason_field_and_exit_code(world: World) {
    let scene = Scene::set(world);
    let before = scene.state();
    let large = "x".repeat(64 * 1024 + 1);
    let answer = |id: &str| json!({"type": "shutdown_response", "request_id": id, "approve": true});
    let judge = |to: &str, id: &str, approve: bool| json!({"type": "plan_approval_response", "recipient": to, "request_id": id, "approve": approve, "content": "x"});
    let newer = |to: &str, body: Value| json!({"to": to, "message": body, "summary": "s"});
    let with = |key: &str, value: Value| {
        let mut sent = message("bob", "c", "s");
        sent[key] = value;
        sent
    };
    // Who sends it, what, the reason, the field, the exit code.
    let rows: Vec<(&str, Value, &str, &str, i32)> = vec![
        ("ann", json!({}), "INVALID_TYPE", "type", USAGE),
        ("ann", json!({"type": "massage"}), "INVALID_TYPE", "type", USAGE),
        ("ann", newer("bob", json!({"type": "massage"})), "INVALID_TYPE", "message.type", USAGE),
        ("ann", json!(["type"]), "INVALID_JSON", "json", USAGE),
        ("ann", json!({"type": "message", "content": "c", "summary": "s"}), "MISSING_RECIPIENT", "recipient", USAGE),
        ("ann", json!({"message": "c", "summary": "s"}), "MISSING_RECIPIENT", "to", USAGE),
        ("lead", json!({"type": "shutdown_request"}), "MISSING_RECIPIENT", "recipient", USAGE),
        (
            "ann",
            json!({"type": "broadcast", "recipient": "bob", "content": "c", "summary": "s"}),
            "UNEXPECTED_RECIPIENT",
            "recipient",
            USAGE,
        ),
        ("ann", message("bbo", "c", "s"), "AGENT_NOT_FOUND", "recipient", REFUSED),
        ("ann", newer("bbo", json!("c")), "AGENT_NOT_FOUND", "recipient", REFUSED),
        ("ann", message("gone", "c", "s"), "AGENT_EXITED", "recipient", REFUSED),
        ("ann", message("ANN", "c", "s"), "SELF_RECIPIENT", "recipient", USAGE),
        ("lead", message("team-lead", "c", "s"), "SELF_RECIPIENT", "recipient", USAGE),
        ("ann", message("zoe@blue", "c", "s"), "TEAM_MISMATCH", "recipient", USAGE),
        ("ann", message("no spaces", "c", "s"), "INVALID_NAME", "recipient", USAGE),
        ("ann", message("bob", "", "s"), "MISSING_CONTENT", "content", USAGE),
        ("ann", json!({"to": "bob", "summary": "s"}), "MISSING_CONTENT", "message", USAGE),
        ("ann", message("bob", &large, "s"), "CONTENT_TOO_LARGE", "content", USAGE),
        ("ann", newer("*", json!(large)), "CONTENT_TOO_LARGE", "content", USAGE),
        ("ann", json!({"to": "bob", "message": "c"}), "MISSING_SUMMARY", "summary", USAGE),
        ("ann", message("bob", "c", "two\nlines"), "INVALID_SUMMARY", "summary", USAGE),
        ("ann", message("bob", "c", &"s".repeat(201)), "INVALID_SUMMARY", "summary", USAGE),
        ("bob", json!({"type": "plan_approval_request"}), "MISSING_CONTENT", "content", USAGE),
        ("ann", json!({"type": "permission_request", "summary": "s"}), "INVALID_FIELD", "tool", USAGE),
        ("ann", json!({"type": "permission_request", "tool": "t"}), "MISSING_SUMMARY", "summary", USAGE),
        (
            "lead",
            json!({"type": "permission_request", "tool": "t", "summary": "s"}),
            "SELF_RECIPIENT",
            "recipient",
            USAGE,
        ),
        (
            "ann",
            json!({"type": "permission_response", "request_id": UNKNOWN, "approve": true}),
            "REQUEST_NOT_FOUND",
            "request_id",
            REFUSED,
        ),
        ("ann", answer(""), "INVALID_REQUEST_ID", "request_id", USAGE),
        ("ann", answer("nonsense"), "INVALID_REQUEST_ID", "request_id", USAGE),
        ("ann", answer(UNKNOWN), "REQUEST_NOT_FOUND", "request_id", REFUSED),
        ("lead", judge("bob", &scene.foreign, true), "REQUEST_NOT_FOUND", "request_id", REFUSED),
        ("lead", judge("ann", &scene.asks_ann, true), "REQUEST_KIND_MISMATCH", "request_id", REFUSED),
        ("lead", answer(&scene.pending), "REQUEST_KIND_MISMATCH", "request_id", REFUSED),
        (
            "ann",
            json!({"type": "shutdown_response", "request_id": scene.asks_ann}),
            "APPROVE_MISSING",
            "approve",
            USAGE,
        ),
        (
            "ann",
            newer("team-lead", json!({"type": "shutdown_response", "request_id": scene.asks_ann})),
            "APPROVE_MISSING",
            "message.approve",
            USAGE,
        ),
        ("bob", answer(&scene.asks_ann), "REQUEST_NOT_FOUND", "request_id", REFUSED),
        ("lead", answer(&scene.asks_ann), "NOT_REQUEST_TARGET", "request_id", NOT_PERMITTED),
        ("lead", judge("ann", &scene.pending, true), "RECIPIENT_MISMATCH", "recipient", USAGE),
        ("lead", judge("bob", &scene.rejected, true), "ALREADY_DECIDED", "request_id", REFUSED),
        ("cyd", answer(&scene.expired), "REQUEST_EXPIRED", "request_id", REFUSED),
        ("lead", judge("bob", &scene.withdrawn, true), "REQUEST_CANCELLED", "request_id", REFUSED),
        ("lead", json!({"type": "shutdown_request", "recipient": "ann"}), "SHUTDOWN_PENDING", "", REFUSED),
        ("ann", json!({"type": "shutdown_request", "recipient": "bob"}), "LEAD_ONLY", "", NOT_PERMITTED),
        ("bob", judge("bob", &scene.pending, true), "LEAD_ONLY", "", NOT_PERMITTED),
        ("ann", with("idempotency_key", "k".repeat(65).into()), "INVALID_IDEMPOTENCY_KEY", "idempotency_key", USAGE),
        ("ann", with("in_reply_to", "that one".into()), "INVALID_MESSAGE_ID", "in_reply_to", USAGE),
        ("ann", with("attachments", json!([{"media_type": "text/plain"}])), "INVALID_ATTACHMENT", "attachments", USAGE),
    ];
    let twice =
        format!(r#"{{"type":"shutdown_response","request_id":"{}","approve":false,"approve":true}}"#, scene.asks_ann);
    let rows = rows.into_iter().map(|(who, sent, reason, field, code)| (who, sent.to_string(), reason, field, code));
    let mut wrong = Vec::new();
    for (who, sent, reason, field, code) in rows.chain([("ann", twice, "INVALID_JSON", "approve", USAGE)]) {
        let output = scene.world.cli_with_input(who, &["send", "--json", "-"], &sent);
        let shown: String = sent.chars().take(120).collect();
        if output.code == 0 {
            wrong.push(format!("{who} {shown}: was sent"));
            continue;
        }
        let error = output.error();
        let said = (error["reason"].as_str().unwrap_or(""), error["field"].as_str().unwrap_or(""), output.code);
        let helps = error["message"].as_str().is_some_and(|text| text.len() > 20 && text.contains('.'));
        if said != (reason, field, code) || !helps {
            wrong.push(format!("{who} {shown}: {said:?} instead of {:?}: {}", (reason, field, code), error["message"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(scene.state(), before);
}

fn commands_that_are_refused_say_why_and_what_to_do(world: World) {
    let scene = Scene::set(world);
    let before = scene.state();
    // Who calls, what, the exit code, and what must be said.
    let rows: &[(&str, &[&str], i32, &[&str])] = &[
        (LEAD, &["team", "create", "ACME"], REFUSED, &["TEAM_EXISTS"]),
        (LEAD, &["team", "create", "no spaces"], USAGE, &["INVALID_NAME", "name"]),
        (LEAD, &["team", "delete", "--yes"], REFUSED, &["TEAM_HAS_ACTIVE_MEMBERS", "ann", "bob", "cyd"]),
        ("ann", &["team", "delete", "--yes"], NOT_PERMITTED, &["LEAD_ONLY"]),
        ("ann", &["team", "create", "mine"], NOT_PERMITTED, &["OPERATOR_ONLY"]),
        ("ann", &["team", "lead", "ann"], NOT_PERMITTED, &["LEAD_ONLY"]),
        (LEAD, &["team", "lead", "gone"], REFUSED, &["AGENT_EXITED", "gone has exited. Name another member"]),
        (LEAD, &["team", "show", "nowhere"], REFUSED, &["TEAM_NOT_FOUND"]),
        ("ann", &["team", "show", "blue"], REFUSED, &["TEAM_NOT_FOUND"]),
        ("ann", &["invite", "dan"], NOT_PERMITTED, &["LEAD_ONLY"]),
        ("ann", &["shutdown", "bob", "--force"], NOT_PERMITTED, &["LEAD_ONLY"]),
        (LEAD, &["shutdown", "nobody", "--force"], REFUSED, &["AGENT_NOT_FOUND"]),
        (LEAD, &["shutdown", "gone"], REFUSED, &["AGENT_EXITED", "gone has exited. Nothing is left to shut down."]),
        (LEAD, &["shutdown", "ann", "--deadline", "0"], USAGE, &["'0'", "at least 1"]),
        (LEAD, &["shutdown", "ann", "--deadline", "-3"], USAGE, &["'-3'", "at least 1"]),
        ("ann", &["send", "bob", "   "], USAGE, &["The text is blank"]),
        (LEAD, &["send", "gone", "hi"], REFUSED, &["AGENT_EXITED", "Nothing was queued"]),
        (LEAD, &["task", "create", "dig", "--owner", "gone"], REFUSED, &["AGENT_EXITED", "Assign the task to another"]),
        (LEAD, &["task", "show", "abc"], USAGE, &["'abc'", "give the task's number, such as 7"]),
        (LEAD, &["task", "create", "dig", "--blocked-by", "1,x"], USAGE, &["'x'", "give the task's number, such as 7"]),
        ("ann", &["approve", UNKNOWN], REFUSED, &["REQUEST_NOT_FOUND"]),
        ("ann", &["requests", &scene.pending], REFUSED, &["REQUEST_NOT_FOUND"]),
        ("ann", &["inbox", "ack", "nonsense"], USAGE, &["INVALID_MESSAGE_ID", "begins or ends with `nonsense`"]),
        ("ann", &["inbox", "ack", "zzz"], USAGE, &["INVALID_MESSAGE_ID", "`zzz` is too short", "teamwire inbox"]),
        ("ann", &["approve", "zzz"], USAGE, &["INVALID_REQUEST_ID", "`zzz` is too short", "teamwire requests"]),
        ("ann", &["send", "bob"], USAGE, &["recipient and a text"]),
        ("ann", &["status", "--credential", "nonsense"], NOT_PERMITTED, &["CREDENTIAL_INVALID"]),
        ("ann", &["status", "--as", "eve"], USAGE, &["eve", "ann@acme"]),
        ("stranger", &["status"], NOT_PERMITTED, &["teamwire join"]),
        ("stranger", &["status", "--credential", &scene.gone], NOT_PERMITTED, &["MEMBER_STOPPED"]),
        ("stranger", &["nonsense"], USAGE, &["nonsense"]),
    ];
    let mut wrong = Vec::new();
    for (who, arguments, code, words) in rows {
        let address = scene.world.coordinator.address();
        let output = scene.world.cli(who, &[arguments, &["--address", address.as_str()][..]].concat());
        if output.code != *code || words.iter().any(|word| !output.stderr.contains(word)) {
            wrong.push(format!("{who} {arguments:?}: {} instead of {code}, {words:?}: {}", output.code, output.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(scene.state(), before);
}

fn over_grpc_a_refusal_carries_code_reason_and_field(world: World) {
    let scene = Scene::set(world);
    let ann = scene.world.credential("ann");
    let before = scene.state();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let channel = Channel::from_shared(scene.world.coordinator.address()).unwrap().connect_lazy();
        let with = |credential: &str| Raw { channel: channel.clone(), credential: Some(credential.to_owned()) };
        let caller = with(&ann);
        let send = |body: Body| caller.send(Some(body));
        let text = |recipient: &str, content: &str, summary: &str| {
            let body = message::direct(recipient, summary, content).body;
            caller.send(body)
        };
        let answer = |id: &str, approve| {
            let (request_id, reason) = (id.to_owned(), String::new());
            send(Body::ShutdownResponse(v1::ShutdownResponse { request_id, approve, reason }))
        };
        use Code::{AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied, Unauthenticated};

        refused(caller.send(None).await, InvalidArgument, "INVALID_TYPE", "type");
        refused(text("", "c", "s").await, InvalidArgument, "MISSING_RECIPIENT", "recipient");
        refused(text("bbo", "c", "s").await, NotFound, "AGENT_NOT_FOUND", "recipient");
        refused(text("gone", "c", "s").await, FailedPrecondition, "AGENT_EXITED", "recipient");
        refused(text("ann", "c", "s").await, InvalidArgument, "SELF_RECIPIENT", "recipient");
        refused(text("zoe@blue", "c", "s").await, InvalidArgument, "TEAM_MISMATCH", "recipient");
        refused(text("no spaces", "c", "s").await, InvalidArgument, "INVALID_NAME", "recipient");
        refused(text("bob", "", "s").await, InvalidArgument, "MISSING_CONTENT", "content");
        refused(text("bob", &"x".repeat(65_537), "s").await, InvalidArgument, "CONTENT_TOO_LARGE", "content");
        refused(text("bob", "c", "").await, InvalidArgument, "MISSING_SUMMARY", "summary");
        refused(text("bob", "c", "a\nb").await, InvalidArgument, "INVALID_SUMMARY", "summary");
        refused(answer("", Some(true)).await, InvalidArgument, "INVALID_REQUEST_ID", "request_id");
        refused(answer(UNKNOWN, Some(true)).await, NotFound, "REQUEST_NOT_FOUND", "request_id");
        refused(answer(&scene.asks_ann, None).await, InvalidArgument, "APPROVE_MISSING", "approve");
        let ask = message::shutdown_request("bob", "").body;
        refused(caller.send(ask).await, PermissionDenied, "LEAD_ONLY", "");
        let key = |key: &str| v1::SendRequest { idempotency_key: key.to_owned(), ..message::direct("bob", "s", "c") };
        let outcome = caller.send_all(key(&"k".repeat(65))).await;
        refused(outcome, InvalidArgument, "INVALID_IDEMPOTENCY_KEY", "idempotency_key");
        let elsewhere = v1::SendRequest { team: "blue".to_owned(), ..message::direct("zoe", "s", "c") };
        refused(caller.send_all(elsewhere).await, NotFound, "TEAM_NOT_FOUND", "team");

        let nobody = Raw { channel: channel.clone(), credential: None };
        let body = || message::direct("bob", "s", "c").body;
        refused(nobody.send(body()).await, Unauthenticated, "CREDENTIAL_MISSING", "");
        refused(
            with("twm:acme:ann:0123456789abcdef0123456789abcdef").send(body()).await,
            Unauthenticated,
            "CREDENTIAL_INVALID",
            "",
        );
        refused(with(&scene.gone).send(body()).await, FailedPrecondition, "MEMBER_STOPPED", "");
        let mine = v1::CreateTeamRequest { name: "mine".to_owned(), ..v1::CreateTeamRequest::default() };
        let outcome = caller.teams().create_team(caller.request(mine)).await.map(drop);
        refused(outcome, PermissionDenied, "OPERATOR_ONLY", "");
        let outcome = caller.teams().delete_team(caller.request(v1::DeleteTeamRequest::default())).await.map(drop);
        refused(outcome, PermissionDenied, "LEAD_ONLY", "");
        let operator = with(&scene.world.operator());
        let again = v1::CreateTeamRequest { name: "Acme".to_owned(), ..v1::CreateTeamRequest::default() };
        let outcome = operator.teams().create_team(operator.request(again)).await.map(drop);
        refused(outcome, AlreadyExists, "TEAM_EXISTS", "name");
        let delete = v1::DeleteTeamRequest { team: "acme".to_owned() };
        // A member that is away would not be in the way.
        let cyd_calls = || scene.world.cli("cyd", &["status"]).succeeds();
        eventually("cyd is active", || {
            cyd_calls();
            (scene.world.member("cyd")["state"] == "active").then_some(())
        });
        let outcome = operator.teams().delete_team(operator.request(delete)).await.map(drop);
        let status = refused(outcome, FailedPrecondition, "TEAM_HAS_ACTIVE_MEMBERS", "");
        let live = status.get_error_details().error_info().unwrap().metadata.clone();
        assert_eq!(live.get("cyd").map(String::as_str), Some("active"), "{live:?}");
    });
    assert_eq!(scene.state(), before);
}

fn a_full_inbox_refuses_messages_until_there_is_room(world: World) {
    world.create_team("acme");
    let credential = world.join("ann");
    world.join("bob");
    let runtime = Runtime::new().unwrap();
    let client = {
        let _inside = runtime.enter();
        Client::connect(&world.coordinator.address()).unwrap().with_credential(&credential).unwrap()
    };
    let large = "x".repeat(60 * 1024);
    let (accepted, refusal) = runtime.block_on(async {
        let mut accepted = 0;
        loop {
            match client.send(message::direct("bob", "large", large.as_str())).await {
                Ok(_) => accepted += 1,
                Err(refusal) => return (accepted, refusal),
            }
        }
    });
    assert!((100..1_000).contains(&accepted), "{accepted} were accepted");
    let teamwire_client::Error::Refused(refusal) = refusal else { panic!("{refusal}") };
    assert_eq!(refusal.reason.as_str(), "INBOX_FULL");
    assert!(refusal.retry_after.is_some() && refusal.message.contains("bob"), "{refusal}");
    // A broadcast is for all or for none.
    world.join("cyd");
    let error = world.cli_with_input("ann", &["send", "--broadcast", "-", "--json"], &large).exits(REFUSED).error();
    assert_eq!(error["reason"], "INBOX_FULL");
    assert!(world.take_inbox("cyd").is_empty());
    // The lead has sent bob less, and is not shut out.
    world.cli(LEAD, &["send", "bob", "Are you there?"]).succeeds();

    assert_eq!(world.take_inbox("bob").len(), 100);
    runtime.block_on(client.send(message::direct("bob", "large", large.as_str()))).unwrap();
    let left = eventually("the rest", || {
        let left = world.take_inbox("bob");
        (!left.is_empty()).then_some(left)
    });
    assert_eq!(left.len(), accepted - 98);
}

fn join_tokens_are_limited_by_name_uses_and_time_and_observers_only_read_until_expiry(world: World) {
    world.create_team("acme");
    let address = world.coordinator.address();
    let join = |identity: &str, arguments: &[&str]| {
        world.cli(identity, &[&["join", "--address", &address, "--json"], arguments].concat())
    };
    let declined = |output: crate::world::Output, reason: &str| {
        assert_eq!(
            output.exits(if reason == "MEMBER_EXISTS" { REFUSED } else { NOT_PERMITTED }).error()["reason"],
            reason
        );
    };
    // Bound to a name, for one join.
    let token = world.invite("ann");
    declined(join("eve", &[&token, "--name", "eve"]), "NOT_PERMITTED");
    join("ann", &[&token]).succeeds();
    declined(join("eve", &[&token]), "JOIN_TOKEN_USED");
    declined(join("eve", &[&world.invite("ANN")]), "MEMBER_EXISTS");
    // For any name, for two.
    let token = world.cli(LEAD, &["invite", "--uses", "2"]).succeeds().stdout.trim().to_owned();
    join("bob", &[&token, "--name", "bob"]).succeeds();
    join("cyd", &[&token, "--name", "cyd"]).succeeds();
    declined(join("eve", &[&token, "--name", "eve"]), "JOIN_TOKEN_USED");

    // An observer reads everything and changes nothing.
    let observer = world.cli(LEAD, &["invite", "--observer"]).succeeds().stdout.trim().to_owned();
    let observe = |arguments: &[&str]| {
        world.cli("eve", &[arguments, &["--credential", observer.as_str(), "--address", &address]].concat())
    };
    assert_eq!(observe(&["history", "--all", "--json"]).succeeds().lines().len(), world.history(LEAD).len());
    observe(&["send", "ann", "hello"]).exits(NOT_PERMITTED).complains_of("NOT_PERMITTED");

    // What expires is refused then; until then the name that is taken is.
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let channel = Channel::from_shared(address.clone()).unwrap().connect_lazy();
        let with = |credential: String| Raw { channel: channel.clone(), credential: Some(credential) };
        let lead = with(world.credential(LEAD));
        let ttl = Some(prost_types::Duration { seconds: 1, nanos: 0 });
        let invite = v1::InviteRequest { member: "ann".to_owned(), ttl, ..v1::InviteRequest::default() };
        let token = lead.teams().invite(lead.request(invite)).await.unwrap().into_inner().join_token;
        let late = with(token);
        let observing = v1::CreateObserverRequest { ttl, ..v1::CreateObserverRequest::default() };
        let observer = lead.teams().create_observer(lead.request(observing)).await.unwrap().into_inner().credential;
        let observer = with(observer);
        let joined =
            until_expired(|| async { late.teams().join(late.request(v1::JoinRequest::default())).await.map(drop) });
        refused(joined.await, Code::Unauthenticated, "JOIN_TOKEN_EXPIRED", "");
        let seen = until_expired(|| async {
            observer.teams().get_team(observer.request(v1::GetTeamRequest::default())).await.map(drop)
        });
        refused(seen.await, Code::Unauthenticated, "CREDENTIAL_EXPIRED", "");
    });
}

fn the_first_mistakes_on_a_new_team_are_explained(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.cli(LEAD, &["send", "ann", ""]).exits(USAGE).complains_of("MISSING_CONTENT");
    let oneself = world.cli(LEAD, &["shutdown", "lead"]).exits(USAGE).complains_of("SELF_RECIPIENT");
    assert!(oneself.stderr.contains("leave") && !oneself.stderr.contains("broadcast"), "{}", oneself.stderr);
    assert!(world.cli(LEAD, &["task", "list"]).succeeds().stdout.contains("The board is empty."));
    world.cli(LEAD, &["task", "show", "1"]).exits(REFUSED).complains_of("the board is empty");
    let blocked = world.cli(LEAD, &["task", "create", "Test it", "--blocked-by", "1"]).exits(REFUSED);
    blocked.complains_of("There is no task 1").complains_of("TASK_NOT_FOUND, blocked_by");
    let help = world.cli(LEAD, &["--help"]).succeeds().stdout;
    assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains("74 output cannot be written"), "{help}");
}

/// Calls until the call is refused because something has expired.
async fn until_expired<F: Future<Output = Result<(), Status>>>(call: impl Fn() -> F) -> Result<(), Status> {
    let began = tokio::time::Instant::now();
    loop {
        let outcome = call().await;
        let is_expired = outcome.as_ref().is_err_and(|status| status.code() == Code::Unauthenticated);
        if is_expired || began.elapsed() > crate::world::PATIENCE {
            return outcome;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
