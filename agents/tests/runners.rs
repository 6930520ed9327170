//! Runners with real programs, with a scripted coordinator.

use std::{
    cell::Cell,
    env,
    ffi::OsString,
    os::unix::fs::PermissionsExt as _,
    process::{self, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use teamwire_agents::{
    AckPolicy, Containment, Mode, OnShutdown, Restart, Runner, RunnerConfig, RunnerEvent, RunnerExit,
};
use teamwire_client::{
    Pem, Reason, Refusal, Retry, TlsOptions,
    v1::{self, Activity, CloseReason, RunnerAction, SendRequest, message::Body, send_request},
};
use teamwire_test_coordinator::{Authority, Coordinator, JOIN_TOKEN};
use tokio::{
    io::{AsyncBufReadExt, BufReader, DuplexStream, Lines, duplex},
    process::{Child, ChildStdout, Command},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Sets `id` to the id of the message in `line`.
const ID: &str = r#"id=$(printf '%s\n' "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')"#;

struct StartedRunner {
    output: Lines<BufReader<DuplexStream>>,
    events: mpsc::Receiver<RunnerEvent>,
    stopper: CancellationToken,
    exit: JoinHandle<RunnerExit>,
}

impl StartedRunner {
    async fn line(&mut self) -> String {
        let line = timeout(Duration::from_secs(20), self.output.next_line()).await.expect("in time");
        line.expect("readable").expect("a line")
    }

    async fn json(&mut self) -> serde_json::Value {
        let line = self.line().await;
        serde_json::from_str(&line).expect(&line)
    }

    async fn exit(self) -> RunnerExit {
        timeout(Duration::from_secs(30), self.exit).await.expect("in time").expect("no panic")
    }

    async fn until(&mut self, is_wanted: impl Fn(&RunnerEvent) -> bool) -> RunnerEvent {
        let waiting = async {
            loop {
                let event = self.events.recv().await.expect("it is still running");
                if is_wanted(&event) {
                    return event;
                }
            }
        };
        timeout(Duration::from_secs(20), waiting).await.expect("in time")
    }
}

fn shell(script: &str) -> Vec<OsString> {
    vec!["sh".into(), "-c".into(), script.replace("$ID", ID).into()]
}

fn run(coordinator: &Coordinator, script: &str, change: impl FnOnce(&mut RunnerConfig)) -> StartedRunner {
    let (ours, theirs) = duplex(1 << 16);
    // No test causes as many events; if one did, the rest would be dropped.
    let (tell, events) = mpsc::channel(1_024);
    let mut config = RunnerConfig::new(coordinator.url(), JOIN_TOKEN, shell(script));
    config.output = Box::new(theirs);
    config.on_event = Arc::new(move |event| drop(tell.try_send(event.clone())));
    config.handles_signals = false;
    config.wrap_up = Duration::from_millis(300);
    config.grace = Duration::from_millis(300);
    config.idle_after = Duration::from_millis(20);
    config.heartbeat_interval = Duration::from_millis(200);
    config.report_patience = Duration::from_secs(5);
    config.retry = Retry { delay_min: Duration::from_millis(10), ..Retry::default() };
    change(&mut config);
    let runner = Runner::new(config);
    let stopper = runner.stopper();
    StartedRunner { output: BufReader::new(ours).lines(), events, stopper, exit: tokio::spawn(runner.run()) }
}

fn report(coordinator: &Coordinator) -> v1::ExitReport {
    let leaves = coordinator.with(|state| state.leaves.clone());
    assert_eq!(leaves.len(), 1, "one report");
    leaves[0].exit.clone().expect("how it ended")
}

async fn sent(coordinator: &Coordinator) -> SendRequest {
    coordinator.until("a send", |state| state.sends.last().map(|(request, _)| request.clone())).await
}

#[tokio::test]
async fn a_program_is_welcomed_handed_messages_and_acknowledges_them() {
    let coordinator = Coordinator::start().await;
    let member = |name: &str, role: v1::Role| v1::Member { name: name.into(), role: role.into(), ..Default::default() };
    let members = vec![member("lead", v1::Role::Lead), member("ann", v1::Role::Teammate)];
    coordinator.with(|state| state.members = members);
    let script = r#"
        read -r line; printf '%s\n' "$line"
        echo "$TEAMWIRE_TEAM $TEAMWIRE_MEMBER $TEAMWIRE_ADDRESS $TEAMWIRE_CREDENTIAL"
        while read -r line; do $ID; printf '%s\n' "$line"; echo "{\"ack\":\"$id\"}"; done"#;
    let mut running = run(&coordinator, script, |_| {});
    let mut welcome = running.json().await;
    let text = welcome["text"].take();
    assert!(text.as_str().is_some_and(|text| text.starts_with("You are ann, a teammate of team blue.")), "{text}");
    let facts = serde_json::json!({
        "type": "welcome", "team": "blue", "member": "ann", "incarnation": 1, "role": "teammate", "lead": "lead",
        "others": [{"name": "lead"}], "has_more_others": false, "text": null,
    });
    assert_eq!(welcome, facts);
    let environment = format!("blue ann {} twm:blue:ann:0123456789abcde1", coordinator.url());
    assert_eq!(running.line().await, environment);
    let id = coordinator.put_text("<one>").await;
    let line = running.json().await;
    assert_eq!((line["type"].as_str(), line["id"].as_str()), (Some("message"), Some(id.as_str())));
    assert_eq!(line["delivery_count"], 1);
    let text = "<teammate-message teammate_id=\"lead\" summary=\"about &lt;one&gt;\">&lt;one&gt;</teammate-message>";
    assert_eq!(line["text"], text);
    coordinator.until("the acknowledgement", |state| state.inbox.is_empty().then_some(())).await;
    running.stopper.cancel();
    let exit = running.exit().await;
    assert_eq!(exit.code, 143, "{exit:?}");
    assert_eq!(report(&coordinator).signal, 15);
}

#[tokio::test]
async fn an_unacknowledged_message_stays_in_the_inbox() {
    let coordinator = Coordinator::start().await;
    let script = r#"read -r line; while read -r line; do printf 'got it\n'; done"#;
    let mut running = run(&coordinator, script, |_| {});
    coordinator.put_text("one").await;
    assert_eq!(running.line().await, "got it");
    running.stopper.cancel();
    running.exit().await;
    assert_eq!(coordinator.with(|state| (state.inbox.len(), state.acked.len())), (1, 0));
}

#[tokio::test]
async fn a_program_that_acknowledges_nothing_is_reported_when_no_more_messages_come() {
    let coordinator = Coordinator::start().await;
    let mut running = run(&coordinator, "while read -r line; do :; done", |_| {});
    for number in 0..64 {
        coordinator.put_text(&number.to_string()).await;
    }
    let full = running.until(|event| matches!(event, RunnerEvent::WindowFull { .. })).await.to_string();
    assert!(full.contains("64 messages") && full.contains(r#"{"ack":"ID"}"#), "{full}");
    running.stopper.cancel();
    running.exit().await;
}

#[tokio::test]
async fn with_ack_policy_written_writing_the_line_acknowledges_the_message() {
    let coordinator = Coordinator::start().await;
    let running = run(&coordinator, "exec sleep 1000", |config| config.mode = Mode::Stdin { ack: AckPolicy::Written });
    coordinator.put_text("one").await;
    coordinator.until("the acknowledgement", |state| state.inbox.is_empty().then_some(())).await;
    running.stopper.cancel();
    running.exit().await;
}

#[tokio::test]
async fn a_reply_is_sent_and_acknowledges_the_message_it_answers() {
    let coordinator = Coordinator::start().await;
    let script = r#"
        read -r line; read -r line; $ID
        echo "{\"to\":\"lead\",\"message\":\"done\",\"summary\":\"it is done\",\"in_reply_to\":\"$id\"}"
        read -r line; printf '%s\n' "$line"
        echo '{"to":"lead","message":5}'
        read -r line; printf 'is: %s\n' "$line"
        read -r line"#;
    let mut running = run(&coordinator, script, |_| {});
    let id = coordinator.put_text("one").await;
    let reply = running.json().await;
    assert_eq!((reply["type"].as_str(), reply["request"]["message"].as_str()), (Some("sent"), Some("done")));
    let request = sent(&coordinator).await;
    assert_eq!(request.in_reply_to, id);
    coordinator.until("the acknowledgement", |state| state.inbox.is_empty().then_some(())).await;
    // A message that cannot be read is an error.
    let reply = running.line().await;
    let reply: serde_json::Value = serde_json::from_str(reply.strip_prefix("is: ").expect(&reply)).expect("JSON");
    assert_eq!((reply["type"].as_str(), reply["reason"].as_str()), (Some("error"), Some("INVALID_JSON")));
    assert_eq!((reply["field"].as_str(), &reply["request"]["message"]), (Some("message"), &serde_json::json!(5)));
    let idle = coordinator.until("idle", |state| {
        state.heartbeats.iter().find(|heartbeat| heartbeat.activity() == Activity::Idle).cloned()
    });
    assert_eq!(idle.await.summary, "it is done");
    running.stopper.cancel();
    running.exit().await;
}

#[tokio::test]
async fn a_wrong_line_is_answered_with_an_error_and_logged() {
    let coordinator = Coordinator::start().await;
    let script = r#"
        read -r line
        try() { printf '%s\n' "$1"; read -r line; printf 'is: %s\n' "$line"; }
        try '{"to":"lead","mesage":"done"}'
        try "{'to': 'lead', 'message': 'done'}"
        try '{"type":"shutdown_response","request_id":"r","approve":false,"approve":true}'
        try '{"ack":"m","to":"lead","message":"done","summary":"s"}'
        echo '{"level":"info","message":"mail sent","to":"lead"}'
        printf '{"to":"lead","message":"'; head -c 3000000 /dev/zero | tr '\0' x; printf '"}\n'
        read -r line; printf 'is: %s\n' "$line""#;
    let mut running = run(&coordinator, script, |_| {});
    for (field, quoted) in [
        ("mesage", r#"{"to":"lead","mesage":"done"}"#),
        ("json", "{'to': 'lead', 'message': 'done'}"),
        ("approve", r#"{"type":"shutdown_response","request_id":"r","approve":false,"approve":true}"#),
        ("message", r#"{"ack":"m","to":"lead","message":"done","summary":"s"}"#),
    ] {
        let reply = running.line().await;
        let reply: serde_json::Value = serde_json::from_str(reply.strip_prefix("is: ").expect(&reply)).expect("JSON");
        assert_eq!(
            (&reply["type"], &reply["reason"], &reply["field"]),
            (&"error".into(), &"INVALID_JSON".into(), &field.into())
        );
        let quote = reply["line"].as_str().map_or_else(|| reply["request"].to_string(), str::to_owned);
        assert_eq!(quote, quoted);
        let logged = running.until(|event| matches!(event, RunnerEvent::LineRefused { .. })).await.to_string();
        assert!(logged.contains("refused a line of the program: INVALID_JSON"), "{logged}");
    }
    assert_eq!(running.line().await, r#"{"level":"info","message":"mail sent","to":"lead"}"#);
    let reply = running.line().await;
    assert!(reply.starts_with("is: ") && reply.contains("CONTENT_TOO_LARGE") && reply.len() < 1_000, "{reply}");
    assert_eq!(running.exit().await.code, 0);
    assert_eq!(coordinator.with(|state| state.sends.len()), 0);
}

#[tokio::test]
async fn a_message_to_the_sender_of_the_only_message_in_hand_answers_it() {
    let coordinator = Coordinator::start().await;
    let script = r#"
        read -r line
        while read -r line; do
            case "$line" in
                *delivery_count*) echo '{"to":"lead","message":"done","summary":"s"}';;
                *) printf '%s\n' "$line";;
            esac
        done"#;
    let mut running = run(&coordinator, script, |_| {});
    for number in 1..=2 {
        let id = coordinator.put_text("work").await;
        let reply = running.json().await;
        assert_eq!((reply["type"].as_str(), reply["in_reply_to"].as_str()), (Some("sent"), Some(id.as_str())));
        let sends = coordinator.with(|state| state.sends.iter().map(|(sent, _)| sent.clone()).collect::<Vec<_>>());
        assert_eq!((sends.len(), sends[number - 1].in_reply_to.as_str()), (number, id.as_str()));
    }
    running.stopper.cancel();
    running.exit().await;
    assert_eq!(coordinator.with(|state| (state.inbox.len(), state.acked.len())), (2, 0), "an inference is not proof");
}

#[tokio::test]
async fn a_send_is_no_reply_while_two_messages_from_its_recipient_are_in_hand() {
    let coordinator = Coordinator::start().await;
    let script = r#"
        read -r line; read -r line; read -r line
        echo '{"to":"lead","message":"done","summary":"s"}'; read -r line; printf '%s\n' "$line""#;
    let mut running = run(&coordinator, script, |_| {});
    for text in ["one", "two"] {
        coordinator.put_text(text).await;
    }
    assert_eq!(running.json().await.get("in_reply_to"), None);
    assert_eq!(sent(&coordinator).await.in_reply_to, "");
    assert_eq!(running.exit().await.code, 0);
}

#[tokio::test]
async fn in_exec_mode_a_send_replies_to_the_recipients_last_message_in_the_batch() {
    let coordinator = Coordinator::start().await;
    coordinator.put_text("one").await;
    let last = coordinator.put_text("two").await;
    let script = r#"
        cat > /dev/null; printf '%s\n' "$TEAMWIRE_WELCOME"
        echo '{"to":"lead","message":"done","summary":"s"}'; echo '{"to":"bob","message":"done","summary":"s"}'"#;
    let running = run(&coordinator, script, exec);
    coordinator.until("the acknowledgements", |state| state.inbox.is_empty().then_some(())).await;
    // The two may have come in two batches.
    let sends = coordinator.with(|state| state.sends.iter().map(|(sent, _)| sent.clone()).collect::<Vec<_>>());
    let [.., to_lead, to_bob, reply] = sends.as_slice() else { panic!("{sends:?}") };
    assert_eq!((to_lead.in_reply_to.as_str(), to_bob.in_reply_to.as_str()), (last.as_str(), ""));
    // The program has printed its welcome, so that it became the reply.
    assert!(matches!(&reply.body, Some(send_request::Body::Message(body)) if body.content.contains("You are ann")));
    running.stopper.cancel();
    running.exit().await;
}

#[tokio::test]
async fn the_program_reads_why_its_send_was_refused() {
    let coordinator = Coordinator::start().await;
    let refusal = Refusal::new(Reason::AgentNotFound, "There is no \"bo\".").field("recipient").with("closest", "bob");
    coordinator.with(|state| state.fail_sends.push_back(refusal.into()));
    let script = r#"
        read -r line; echo '{"type":"message","recipient":"bo","summary":"s","content":"c"}'
        read -r line; printf 'is: %s\n' "$line"
        echo '{"ack":"none of mine"}'
        read -r line; printf 'is: %s\n' "$line""#;
    let mut running = run(&coordinator, script, |_| {});
    let reply = running.line().await;
    assert!(
        reply.contains("AGENT_NOT_FOUND") && reply.contains("closest") && reply.contains("\"field\":\"recipient\""),
        "{reply}"
    );
    assert!(running.line().await.contains("MESSAGE_NOT_FOUND"));
    assert_eq!(running.exit().await.code, 0);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_approved_shutdown_ends_the_program_and_what_it_has_started() {
    let coordinator = Coordinator::start().await;
    let script = r#"
        setsid sh -c 'trap "" TERM; echo $$; exec sleep 1000' &
        read -r line; read -r line; $ID
        request=$(printf '%s\n' "$line" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
        echo "{\"type\":\"shutdown_response\",\"request_id\":\"$request\",\"approve\":true}"
        exec sleep 1000"#;
    let mut running = run(&coordinator, script, |_| {});
    let straggler = running.line().await;
    coordinator.put_shutdown_request("req_1").await;
    let exit = running.exit().await;
    assert_eq!(exit.code, 0, "{exit:?}");
    assert_eq!(exit.detail, "The member approved its shutdown; its runner ended it with SIGTERM.");
    let report = report(&coordinator);
    assert_eq!((report.signal, report.runner_action()), (15, RunnerAction::Sigterm));
    assert!(!std::path::Path::new(&format!("/proc/{straggler}")).exists());
    assert_eq!(coordinator.with(|state| state.inbox.len()), 0, "the answer acknowledges the request");
}

#[tokio::test]
async fn a_program_that_approves_its_shutdown_reads_the_end_of_input_and_may_finish() {
    let coordinator = Coordinator::start().await;
    let script = r#"
        trap 'echo terminated; exit 1' TERM
        read -r line; read -r line
        echo '{"type":"shutdown_response","request_id":"req_1","approve":true}'
        while read -r line; do :; done; echo finished; exit 4"#;
    let mut running = run(&coordinator, script, |config| config.wrap_up = Duration::from_secs(60));
    coordinator.put_shutdown_request("req_1").await;
    assert_eq!(running.line().await, "finished");
    let exit = running.exit().await;
    assert_eq!((exit.code, exit.detail.as_str()), (0, "The member approved its shutdown and ended with code 4."));
    let report = report(&coordinator);
    assert_eq!((report.code, report.runner_action()), (Some(4), RunnerAction::None));
}

#[tokio::test]
async fn neither_a_shutdown_request_nor_its_rejection_ends_the_program() {
    let coordinator = Coordinator::start().await;
    let script = r#"
        read -r line; read -r line; $ID
        echo '{"to":"lead","message":{"type":"shutdown_response","request_id":"req_1","approve":false,"reason":"busy"}}'
        read -r line; read -r line; echo still here; exit 5"#;
    let mut running = run(&coordinator, script, |_| {});
    coordinator.put_shutdown_request("req_1").await;
    let request = sent(&coordinator).await;
    assert!(
        matches!(request.body, Some(send_request::Body::ShutdownResponse(ref body)) if body.approve == Some(false))
    );
    coordinator.put_text("go on").await;
    assert_eq!(running.line().await, "still here");
    let exit = running.exit().await;
    assert_eq!(exit.code, 5, "{exit:?}");
    assert_eq!(report(&coordinator).code, Some(5));
}

#[tokio::test]
async fn a_program_that_approves_through_the_command_line_and_exits_was_shut_down() {
    let coordinator = Coordinator::start().await;
    let running = run(&coordinator, "read -r line; read -r line; exit 9", |_| {});
    // The approval came through the command line, and the program exits before the last frame arrives.
    coordinator.with(|state| state.approved.push("req_1".to_owned()));
    coordinator.put_shutdown_request("req_1").await;
    assert_eq!(running.exit().await.code, 0);
    assert_eq!(report(&coordinator).code, Some(9));
}

#[tokio::test]
async fn the_runner_approves_if_configured_to() {
    let coordinator = Coordinator::start().await;
    let mut running = run(&coordinator, "read -r line; read -r line; echo never; exec sleep 1000", |config| {
        config.on_shutdown = Some(OnShutdown::Approve);
    });
    running.until(|event| matches!(event, RunnerEvent::Connected { .. })).await;
    coordinator.put_shutdown_request("req_1").await;
    assert_eq!(running.exit().await.code, 0);
    assert_eq!(coordinator.with(|state| state.inbox.len()), 0, "the request is acknowledged");
}

#[tokio::test]
async fn a_forced_stop_kills_at_once_and_a_closed_session_ends_the_runner() {
    for (reason, code, is_reported) in [
        (CloseReason::MemberStopped, 77, true),
        (CloseReason::Superseded, 77, false),
        (CloseReason::TeamDeleted, 0, false),
        (CloseReason::DataLost, 77, false),
    ] {
        let coordinator = Coordinator::start().await;
        let mut running = run(&coordinator, "trap '' TERM; echo up; while :; do sleep 0.01; done", |config| {
            config.grace = if reason == CloseReason::MemberStopped { Duration::from_secs(1000) } else { config.grace };
        });
        running.line().await;
        coordinator.close(reason, "").await;
        let exit = running.exit().await;
        assert_eq!(exit.code, code, "{exit:?}");
        assert_eq!(coordinator.with(|state| state.leaves.len()), usize::from(is_reported), "{reason:?}");
        assert_eq!(coordinator.with(|state| state.opened.len()), 1);
    }
}

#[tokio::test]
async fn a_program_gets_the_tls_options_of_its_runner() {
    let ours = Authority::new("ours");
    let coordinator = Coordinator::start_with(Some(ours.issue("127.0.0.1").serve(&ours))).await;
    let issued = ours.issue("ann");
    let directory = tempfile::tempdir().expect("a directory");
    let (cert, key) = (directory.path().join("ann.crt"), directory.path().join("ann.key"));
    std::fs::write(&cert, issued.cert).expect("written");
    std::fs::write(&key, issued.key).expect("written");
    let script = r#"echo "$TEAMWIRE_ADDRESS $TEAMWIRE_CERT $TEAMWIRE_KEY"; echo "$TEAMWIRE_CA""#;
    let mut running = run(&coordinator, script, |config| {
        // The program gets the authority's certificate, since it does not have the join string.
        let fingerprint = Some(ours.fingerprint());
        let (cert, key) = (Some(Pem::File(cert.clone())), Some(Pem::File(key.clone())));
        config.tls = TlsOptions { ca: None, fingerprint, cert, key };
    });
    assert_eq!(running.line().await, format!("{} {} {}", coordinator.url(), cert.display(), key.display()));
    for line in ours.pem().lines() {
        assert_eq!(running.line().await, line);
    }
    assert_eq!(running.exit().await.code, 0);
}

#[tokio::test]
async fn the_program_does_not_notice_that_the_coordinator_restarts() {
    let coordinator = Coordinator::start().await;
    let script = r#"read -r line; while read -r line; do $ID; echo "{\"ack\":\"$id\"}"; echo "$id"; done"#;
    let mut running = run(&coordinator, script, |_| {});
    let one = coordinator.put_text("one").await;
    assert_eq!(running.line().await, one);
    coordinator.restart().await;
    let two = coordinator.put_text("two").await;
    assert_eq!(running.line().await, two);
    coordinator.until("the acknowledgements", |state| state.inbox.is_empty().then_some(())).await;
    assert_eq!(coordinator.with(|state| state.joins.len()), 1);
    running.stopper.cancel();
    running.exit().await;
}

#[tokio::test]
async fn an_outage_is_reported_once_and_its_end_with_its_length() {
    let coordinator = Coordinator::start().await;
    let mut running = run(&coordinator, "cat", |_| {});
    running.until(|event| matches!(event, RunnerEvent::Connected { away: None, .. })).await;
    coordinator.with(|state| state.fail_streams.extend((0..5).map(|_| Status::unavailable("away"))));
    coordinator.cut(Some(Status::unavailable("cut"))).await;
    let lost = Cell::new(0);
    let is_back = |event: &RunnerEvent| {
        lost.set(lost.get() + usize::from(matches!(event, RunnerEvent::Disconnected { .. })));
        matches!(event, RunnerEvent::Connected { away: Some(_), .. })
    };
    let back = running.until(is_back).await;
    assert!(back.to_string().starts_with("connected again after "), "{back}");
    assert!(coordinator.with(|state| state.fail_streams.is_empty()), "no attempt to reconnect has failed");
    assert_eq!(lost.get(), 1);
    running.stopper.cancel();
    running.exit().await;
}

#[tokio::test]
async fn a_restarted_program_is_a_new_incarnation_that_joins_with_the_last_credential() {
    let coordinator = Coordinator::start().await;
    let script = r#"read -r line; printf '%s\n' "$line"; case "$line" in *'"incarnation":1'*) exit 3;; esac"#;
    let mut joined = Vec::new();
    let mut running = run(&coordinator, script, |config| {
        config.restart = Restart::OnFailure { failures_max: 3 };
        config.name = "ann".to_owned();
        config.on_joined = Arc::new(|reply, _| assert!(reply.credential.starts_with("twm:")));
    });
    for _ in 0..2 {
        joined.push(running.json().await["incarnation"].clone());
    }
    assert_eq!(joined, [1, 2]);
    assert_eq!(running.exit().await.code, 0);
    assert_eq!(report(&coordinator).code, Some(0), "only the last incarnation leaves");
    let crashes: Vec<_> = coordinator.with(|state| state.joins.iter().map(|join| join.previous_exit.clone()).collect());
    let codes: Vec<_> = crashes.iter().map(|exit| exit.as_ref().map(|exit| exit.code)).collect();
    assert_eq!(codes, [None, Some(Some(3))], "the second join reports how the first life ended");
}

#[tokio::test]
async fn a_runner_that_cannot_join_starts_no_program() {
    let coordinator = Coordinator::start().await;
    coordinator
        .with(|state| state.fail_joins.push_back(Refusal::new(Reason::JoinTokenUsed, "Ask for another.").into()));
    assert_eq!(run(&coordinator, "echo never", |_| {}).exit().await.code, 77);
    coordinator.stop().await;
    let nobody = run(&coordinator, "echo never", |config| {
        // Nothing listens on the discard port.
        config.address = "127.0.0.1:9".to_owned();
        config.start_patience = Duration::from_millis(100);
    });
    assert_eq!(nobody.exit().await.code, 69);
}

#[tokio::test]
async fn no_member_joins_for_a_program_that_does_not_exist() {
    let coordinator = Coordinator::start().await;
    for (program, code) in [("/no/such/program", 127), ("nosuchprogram", 127), ("/etc/passwd", 126)] {
        let exit = run(&coordinator, "", |config| config.command = vec![program.into()]).exit().await;
        assert_eq!(exit.code, code, "{exit:?}");
        assert!(exit.detail.contains(program), "{exit:?}");
    }
    assert_eq!(coordinator.with(|state| (state.joins.len(), state.leaves.len())), (0, 0));
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_reported() {
    let coordinator = Coordinator::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    std::fs::write(&program, "#!/no/such/interpreter\n").expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let running = run(&coordinator, "", |config| config.command = vec![program.into()]);
    assert_eq!(running.exit().await.code, 127);
    assert!(report(&coordinator).detail.contains("could not be started"));
}

#[tokio::test]
async fn the_runner_waits_for_a_send_in_progress_and_otherwise_reports_an_unknown_outcome() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| state.fail_sends.extend([Status::unavailable("cut"), Status::unavailable("cut")]));
    let answers = r#"echo '{"to":"lead","message":"bye","summary":"bye"}'"#;
    assert_eq!(run(&coordinator, answers, |_| {}).exit().await.code, 0);
    assert_eq!(coordinator.with(|state| state.sends.len()), 3);

    coordinator.with(|state| state.fail_sends.extend((0..1_000).map(|_| Status::unavailable("cut"))));
    let running = run(&coordinator, answers, |config| config.report_patience = Duration::from_millis(200));
    assert_eq!(running.exit().await.code, 75);
}

/// Not a test: with these variables set, this process does nothing but run a runner.
#[tokio::test]
async fn a_runner_in_a_separate_process() {
    let (Ok(address), Ok(script)) = (env::var("TEST_RUNNER_ADDRESS"), env::var("TEST_RUNNER_SCRIPT")) else { return };
    let mut config = RunnerConfig::new(address, JOIN_TOKEN, shell(&script));
    config.claims_orphans = true;
    config.grace = Duration::from_millis(300);
    config.containment = match env::var("TEST_RUNNER_CONTAINMENT").as_deref() {
        Ok("cgroup") => Containment::Cgroup,
        _ => Containment::Watchdog,
    };
    let this = env::current_exe().expect("this program");
    let arguments = ["--exact", "a_watchdog_in_a_separate_process", "--nocapture", "--quiet"];
    config.watchdog = Some([this.into()].into_iter().chain(arguments.map(OsString::from)).collect());
    process::exit(Runner::new(config).run().await.code.into());
}

/// Not a test: under this name, this process does nothing but watch over a runner.
#[test]
fn a_watchdog_in_a_separate_process() {
    if env::args_os().next().is_some_and(|name| name == "tw-watchdog") {
        teamwire_agents::watch();
        process::exit(0);
    }
}

fn start_runner(coordinator: &Coordinator, script: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    start_contained(coordinator, script, "watchdog")
}

fn start_contained(
    coordinator: &Coordinator,
    script: &str,
    containment: &str,
) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "a_runner_in_a_separate_process", "--nocapture", "--quiet"]);
    command.env("TEST_RUNNER_ADDRESS", coordinator.url()).env("TEST_RUNNER_SCRIPT", script);
    command.env("TEST_RUNNER_CONTAINMENT", containment);
    let mut runner = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("this program");
    let lines = BufReader::new(runner.stdout.take().expect("a pipe")).lines();
    (runner, lines)
}

/// Returns the number in the next line that says `pid NUMBER`.
async fn pid(lines: &mut Lines<BufReader<ChildStdout>>) -> u32 {
    try_pid(lines).await.expect("a pid")
}

/// Returns the number in the next line that says `pid NUMBER`. `None` if the output has ended.
async fn try_pid(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<u32> {
    let reading = async {
        loop {
            let line = lines.next_line().await.expect("readable")?;
            if let Some(pid) = line.strip_prefix("pid ") {
                return Some(pid.parse().expect("a number"));
            }
        }
    };
    timeout(Duration::from_secs(20), reading).await.expect("in time")
}

#[cfg(not(target_os = "linux"))]
fn lives(pid: u32) -> bool {
    kill(Pid::from_raw(pid.cast_signed()), None).is_ok()
}

#[cfg(target_os = "linux")]
fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn sigterm_to_the_runner_ends_the_program_and_its_hidden_descendants() {
    let coordinator = Coordinator::start().await;
    // Detached twice, in another session, with an empty environment.
    let script = r#"
        (env -i setsid sh -c '(echo "pid $$"; trap "" TERM; while :; do sleep 0.05; done) & sleep 0.1' &)
        echo "pid $$"; trap 'exit 4' TERM; while :; do sleep 0.01; done"#;
    let (mut runner, mut lines) = start_runner(&coordinator, script);
    let pids = [pid(&mut lines).await, pid(&mut lines).await];
    let number = i32::try_from(runner.id().expect("it runs")).expect("a pid");
    kill(Pid::from_raw(number), Signal::SIGTERM).expect("it runs");
    let status = timeout(Duration::from_secs(20), runner.wait()).await.expect("in time").expect("it ends");
    assert_eq!(status.code(), Some(4));
    assert_eq!(report(&coordinator).code, Some(4));
    assert!(!pids.iter().any(|pid| lives(*pid)), "{pids:?}");
}

#[tokio::test]
async fn sigquit_ends_the_runner_cleanly_and_unused_signals_do_nothing() {
    let coordinator = Coordinator::start().await;
    let script = r#"echo "pid $$"; trap 'exit 4' TERM; while :; do sleep 0.01; done"#;
    let (mut runner, mut lines) = start_runner(&coordinator, script);
    pid(&mut lines).await;
    let number = Pid::from_raw(i32::try_from(runner.id().expect("it runs")).expect("a pid"));
    use Signal::{SIGALRM, SIGIO, SIGPROF, SIGQUIT, SIGUSR1, SIGUSR2, SIGVTALRM};
    for signal in [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGQUIT] {
        kill(number, signal).expect("it runs");
    }
    let status = timeout(Duration::from_secs(20), runner.wait()).await.expect("in time").expect("it ends");
    assert_eq!(status.code(), Some(4), "{status:?}");
    assert_eq!(report(&coordinator).code, Some(4));
}

#[tokio::test]
async fn after_two_quick_signals_the_runner_still_reports_the_exit() {
    let coordinator = Coordinator::start().await;
    let script = r#"trap "" TERM; echo "pid $$"; while :; do sleep 0.01; done"#;
    let (mut runner, mut lines) = start_runner(&coordinator, script);
    pid(&mut lines).await;
    let number = Pid::from_raw(i32::try_from(runner.id().expect("it runs")).expect("a pid"));
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        kill(number, signal).expect("it runs");
    }
    let status = timeout(Duration::from_secs(20), runner.wait()).await.expect("in time").expect("it ends");
    assert_eq!(status.code(), Some(137), "{status:?}");
    let report = report(&coordinator);
    assert_eq!((report.signal, report.runner_action()), (9, v1::RunnerAction::Sigkill));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn in_a_cgroup_even_hidden_processes_die_with_the_runner() {
    let coordinator = Coordinator::start().await;
    // Detached twice, in another session, with an empty environment.
    let script = r#"
        (env -i setsid sh -c '(echo "pid $$"; trap "" TERM; while :; do sleep 0.05; done) & sleep 0.1' &)
        echo "pid $$"; exec sleep 1000"#;
    let (mut runner, mut lines) = start_contained(&coordinator, script, "cgroup");
    let Some(first) = try_pid(&mut lines).await else {
        assert_eq!(runner.wait().await.expect("it ends").code(), Some(64));
        return eprintln!("skipped: no cgroup can be created here");
    };
    let pids = [first, pid(&mut lines).await];
    runner.kill().await.expect("it runs");
    while timeout(Duration::from_secs(20), lines.next_line()).await.expect("in time").expect("readable").is_some() {}
    while pids.iter().any(|pid| lives(*pid)) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn killing_the_runner_kills_its_program() {
    let coordinator = Coordinator::start().await;
    let (mut runner, mut lines) = start_runner(&coordinator, r#"echo "pid $$"; trap "" TERM HUP; exec sleep 1000"#);
    let pid = pid(&mut lines).await;
    runner.kill().await.expect("it runs");
    // The pipe that the program and the runner share closes when both are gone.
    while timeout(Duration::from_secs(20), lines.next_line()).await.expect("in time").expect("readable").is_some() {}
    while lives(pid) {
        tokio::task::yield_now().await;
    }
}

fn exec(config: &mut RunnerConfig) {
    config.mode = Mode::exec();
}

#[tokio::test]
async fn exit_code_zero_acknowledges_the_batch_and_the_output_is_the_reply() {
    let coordinator = Coordinator::start().await;
    let id = coordinator.put_text("one").await;
    let script = r#"cat > /dev/null; echo 'All fine'; echo 'in detail'; echo '{"to":"*","message":"m","summary":"s"}'"#;
    let running = run(&coordinator, script, exec);
    coordinator.until("the acknowledgement", |state| state.inbox.is_empty().then_some(())).await;
    let sends = coordinator.with(|state| state.sends.iter().map(|(request, _)| request.clone()).collect::<Vec<_>>());
    assert!(matches!(sends[0].body, Some(send_request::Body::Broadcast(_))));
    let Some(send_request::Body::Message(reply)) = &sends[1].body else { panic!("no reply: {sends:?}") };
    assert_eq!((reply.recipient.as_str(), reply.summary.as_str()), ("lead", "All fine"));
    assert_eq!((reply.content.as_str(), sends[1].in_reply_to.as_str()), ("All fine\nin detail", id.as_str()));
    running.stopper.cancel();
    assert_eq!(running.exit().await.code, 0);
    assert_eq!(report(&coordinator).code, Some(0));
}

#[tokio::test]
async fn waiting_messages_go_together_and_a_shutdown_request_goes_alone_and_first() {
    let coordinator = Coordinator::start().await;
    for text in ["one", "two"] {
        coordinator.put_text(text).await;
    }
    coordinator.put_shutdown_request("req_1").await;
    let directory = tempfile::tempdir().expect("a directory");
    let batches = directory.path().join("batches");
    let script = r#"
        input=$(cat); printf '%s\n' "$input" | wc -l >> "$BATCHES"
        case "$input" in *shutdown_request*) echo '{"type":"shutdown_response","request_id":"req_1","approve":false}';; esac"#;
    let running = run(&coordinator, script, |config| {
        exec(config);
        config.on_shutdown = Some(OnShutdown::Ask);
        config.environment.push(("BATCHES".into(), batches.clone().into()));
    });
    coordinator.until("the acknowledgements", |state| state.inbox.is_empty().then_some(())).await;
    running.stopper.cancel();
    running.exit().await;
    let sizes: Vec<u32> = std::fs::read_to_string(&batches)
        .expect("batches")
        .lines()
        .map(|line| line.trim().parse().expect("a number"))
        .collect();
    assert_eq!(sizes.iter().sum::<u32>(), 3, "{sizes:?}");
}

#[tokio::test]
async fn a_message_that_keeps_failing_goes_back_and_the_session_is_renewed() {
    let coordinator = Coordinator::start().await;
    coordinator.put_text("poison").await;
    let mut running = run(&coordinator, "cat > /dev/null; echo oops; exit 1", exec);
    running.until(|event| matches!(event, RunnerEvent::GivenBack { .. })).await;
    coordinator.until("another session", |state| (state.opened.len() == 2).then_some(())).await;
    let again = running.until(|event| matches!(event, RunnerEvent::Handed { .. })).await;
    assert!(matches!(again, RunnerEvent::Handed { delivery_count: 2, .. }), "{again:?}");
    let (instances, sends) = coordinator.with(|state| {
        (state.opened.iter().map(|opened| opened.instance_id.clone()).collect::<Vec<_>>(), state.sends.len())
    });
    assert_eq!((instances[0] == instances[1], sends), (true, 0));
    let failed = coordinator.with(|state| state.opened.iter().map(|o| o.failed_sequences.clone()).collect::<Vec<_>>());
    assert_eq!(failed, [vec![], vec![1]]);
    running.stopper.cancel();
    running.exit().await;
}

#[tokio::test]
async fn a_shutdown_request_does_not_wait_for_the_next_attempt_at_a_message() {
    let coordinator = Coordinator::start().await;
    coordinator.put_text("poison").await;
    let mut running = run(&coordinator, "cat > /dev/null; exit 1", exec);
    for _ in 0..3 {
        running.until(|event| matches!(event, RunnerEvent::GivenBack { .. })).await;
    }
    // The next attempt is due in 16 s.
    let asked = Instant::now();
    coordinator.put_shutdown_request("req_1").await;
    assert_eq!(running.exit().await.code, 0);
    assert!(asked.elapsed() < Duration::from_secs(12), "it waited {:?}", asked.elapsed());
}

#[tokio::test]
async fn an_approval_in_exec_mode_ends_the_runner() {
    let coordinator = Coordinator::start().await;
    coordinator.put_shutdown_request("req_1").await;
    let script = r#"cat > /dev/null; echo '{"type":"shutdown_response","request_id":"req_1","approve":true}'"#;
    let running = run(&coordinator, script, |config| {
        exec(config);
        config.on_shutdown = Some(OnShutdown::Ask);
    });
    assert_eq!(running.exit().await.code, 0);
    assert_eq!(coordinator.with(|state| (state.inbox.len(), state.leaves.len(), state.sends.len())), (0, 1, 1));
}

#[tokio::test]
async fn a_runner_in_exec_mode_approves_a_shutdown_after_the_current_batch() {
    let coordinator = Coordinator::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let script = r#"
        cat > heard; trap 'echo terminated' TERM; : > started
        until [ -e go ]; do sleep 0.01; done; cat heard >> all; echo 'It is done'"#;
    let mut running = run(&coordinator, script, |config| {
        exec(config);
        config.directory = Some(directory.path().to_owned());
    });
    coordinator.put_text("one").await;
    running.until(|event| matches!(event, RunnerEvent::Started { .. })).await;
    coordinator.put_shutdown_request("req_1").await;
    running.until(|event| matches!(event, RunnerEvent::ShutdownRequested { .. })).await;
    assert_eq!(coordinator.with(|state| state.sends.len()), 0, "it was approved during the batch");
    std::fs::write(directory.path().join("go"), "").expect("written");
    let exit = running.exit().await;
    assert_eq!((exit.code, exit.detail.as_str()), (0, "The member approved its shutdown and ended with code 0."));
    assert_eq!(coordinator.with(|state| state.inbox.len()), 0);
    let sends = coordinator.with(|state| state.sends.iter().map(|(request, _)| request.clone()).collect::<Vec<_>>());
    assert!(matches!(&sends[0].body, Some(send_request::Body::Message(reply)) if reply.content == "It is done"));
    let Some(send_request::Body::ShutdownResponse(answer)) = &sends[1].body else { panic!("no answer: {sends:?}") };
    assert_eq!(answer.approve, Some(true));
    let all = std::fs::read_to_string(directory.path().join("all")).expect("what the program read");
    assert!(!all.contains("shutdown_request"), "{all}");
}

#[tokio::test]
async fn a_program_asked_in_exec_mode_answers_with_its_exit_code() {
    for (script, approve, reason) in [
        ("cat > /dev/null; echo 'All saved'", true, "All saved"),
        ("cat > /dev/null; echo 'Three tests run'; exit 1", false, "Three tests run"),
        ("cat > /dev/null; kill -9 $$", false, "the program was ended by signal 9"),
    ] {
        let coordinator = Coordinator::start().await;
        let running = run(&coordinator, script, |config| {
            exec(config);
            config.on_shutdown = Some(OnShutdown::Ask);
        });
        coordinator.put_shutdown_request("req_1").await;
        let Some(send_request::Body::ShutdownResponse(answer)) = sent(&coordinator).await.body else {
            panic!("no answer")
        };
        assert_eq!((answer.approve, answer.reason.as_str()), (Some(approve), reason));
        coordinator.until("the acknowledgement", |state| state.inbox.is_empty().then_some(())).await;
        running.stopper.cancel();
        assert_eq!(running.exit().await.code, 0);
    }
}

#[tokio::test]
async fn a_long_line_is_passed_on() {
    let coordinator = Coordinator::start().await;
    let mut running = run(&coordinator, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end", |_| {});
    assert_eq!(running.line().await.len(), 3_000_000);
    assert_eq!(running.line().await, "end");
    assert_eq!(running.exit().await.code, 0);
}

#[tokio::test]
async fn a_byte_order_mark_is_accepted_in_the_first_line_and_refused_in_others() {
    let coordinator = Coordinator::start().await;
    let script = r#"
        mark=$(printf '\357\273\277'); read -r line
        printf '%s{"to":"lead","message":"one","summary":"s"}\n' "$mark"; read -r line
        printf '%s{"to":"lead","message":"two","summary":"s"}\n' "$mark"; read -r line; printf '%s\n' "$line""#;
    let mut running = run(&coordinator, script, |_| {});
    let error = running.json().await;
    assert_eq!((&error["type"], &error["field"]), (&"error".into(), &"json".into()), "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("byte-order mark")), "{error}");
    running.exit().await;
    let sends = coordinator.with(|state| state.sends.iter().map(|(request, _)| request.clone()).collect::<Vec<_>>());
    let [send] = sends.as_slice() else { panic!("{sends:?}") };
    assert!(matches!(&send.body, Some(send_request::Body::Message(sent)) if sent.content == "one"), "{send:?}");
}

#[tokio::test]
async fn activity_arrives_once_and_in_order_although_reports_fail_and_before_the_exit_is_reported() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| state.fail_reports.extend([Status::unavailable("cut"), Status::unknown("cut")]));
    let script = r#"
        echo '{"activity":"first"}'; read -r line; read -r line; $ID
        for n in 1 2 3; do echo "{\"activity\":\"then $n\"}"; done
        echo '{"usage":{"turns":1}}'; echo '{"usage":{"turns":2,"cost_usd":0.5}}'; echo "{\"ack\":\"$id\"}""#;
    let running = run(&coordinator, script, |_| {});
    // The first report has its line alone.
    coordinator.until("a report", |state| (!state.reports.is_empty()).then_some(())).await;
    coordinator.put_text("go on").await;
    let exit = running.exit().await;
    assert_eq!(exit.code, 0, "{exit:?}");
    let reports = coordinator.with(|state| state.reports.clone());
    let keys: Vec<_> = reports.iter().map(|report| report.idempotency_key.as_str()).collect();
    assert!(keys[0] == keys[1] && keys[1] == keys[2] && keys[2] != keys[3], "{keys:?}");
    let texts = |report: &v1::ReportActivityRequest| -> Vec<String> {
        report.lines.iter().map(|line| line.text.clone()).collect()
    };
    assert!(reports[..3].iter().all(|report| texts(report) == ["first"]), "{reports:?}");
    let rest: Vec<_> = reports[3..].iter().flat_map(texts).collect();
    assert_eq!(rest, ["then 1", "then 2", "then 3"]);
    let usage = reports.last().and_then(|report| report.usage);
    assert_eq!(usage, Some(v1::Usage { turns: 2, cost_usd_micros: 500_000, ..Default::default() }));
}

#[tokio::test]
async fn failing_activity_reports_delay_neither_messages_nor_the_exit() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| state.fail_reports.extend((0..1_000).map(|_| Status::unavailable("cut"))));
    let script = r#"
        n=0; while [ $n -lt 300 ]; do echo "{\"activity\":\"line $n\"}"; n=$((n + 1)); done
        read -r line; read -r line; $ID; echo "{\"ack\":\"$id\"}""#;
    let running = run(&coordinator, script, |_| {});
    coordinator.put_text("in time").await;
    let exit = running.exit().await;
    assert_eq!(exit.code, 0, "{exit:?}");
    assert!(coordinator.with(|state| state.inbox.is_empty()), "the message is acknowledged");
    assert_eq!(report(&coordinator).code, Some(0));
}

#[tokio::test]
async fn a_notice_reaches_the_program_as_a_notice() {
    let coordinator = Coordinator::start().await;
    let mut running = run(&coordinator, r#"read -r line; read -r line; printf '%s\n' "$line""#, |_| {});
    coordinator.put(Body::Notice(v1::Notice { text: "a is idle.".into(), ..Default::default() })).await;
    assert_eq!(running.json().await["type"], "notice");
    running.exit().await;
}
