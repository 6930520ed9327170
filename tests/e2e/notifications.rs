//! People are notified of what waits for them.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use serde_json::Value;
use standardwebhooks::Webhook;
use tokio_rustls::rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::agents::ACP;
use crate::world::{LEAD, Received, Receiver, World, eventually, is_alive};

scenarios! {
    what_waits_makes_one_notification,
    a_redirect_is_not_followed_and_the_notification_comes_again_with_the_same_id,
    a_private_address_is_refused,
    a_server_with_tls_is_verified,
    a_program_gets_the_notification_and_is_ended_if_it_hangs,
    failing_lost_and_idle_programs_are_reported,
    the_documented_receivers_get_what_they_expect,
}

store_scenarios! {
    a_request_that_no_one_answers_is_notified_of_once_however_the_coordinator_ends,
    a_request_that_is_answered_in_time_is_not_mentioned,
}

redis_scenarios! {
    one_of_several_coordinators_notifies,
}

const SECRET: &str = "whsec_bm90IGEgc2VjcmV0LCBidXQgbG9uZyBlbm91Z2g=";

const FAILED: &str = "a notification was not delivered";

/// Returns the configuration for a server on this machine.
fn webhook(receiver: &Receiver, more: &str) -> String {
    // What a table of `more` says comes first.
    let to = receiver.url("/hook?a=b");
    format!(
        "[[notify]]\nevents = [\"permission\"]\nto = \"{to}\"\nsecret_env = \"NOTIFY_SECRET\"\nallow_private = true\n{more}\n"
    )
}

/// Starts the coordinator again with a configuration.
fn configure(world: &mut World, configuration: &str) {
    world.coordinator.configure(configuration);
    world.coordinator.restart_with(&[("NOTIFY_SECRET", SECRET)]);
}

const ASK: [&str; 9] =
    ["permission", "request", "--tool", "Bash", "--summary", "clean up", "--detail", "rm -r target", "--json"];

fn ask(world: &World, who: &str) -> String {
    let asked = world.cli(who, &ASK);
    asked.succeeds().json()["request_id"].as_str().unwrap().to_owned()
}

/// Checks the signature with the library of Standard Webhooks, and returns the notification.
fn verified(received: &Received) -> Value {
    Webhook::new(SECRET).unwrap().verify(received.body.as_bytes(), &received.headers).unwrap();
    assert_eq!((received.path.as_str(), received.header("content-type")), ("/hook?a=b", "application/json"));
    let said = received.json();
    assert_eq!(said["id"], received.header("webhook-id"));
    said
}

fn seconds(time: &Value) -> f64 {
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    time.as_millisecond() as f64 / 1_000.0
}

fn a_request_that_no_one_answers_is_notified_of_once_however_the_coordinator_ends(mut world: World) {
    let receiver = Receiver::start();
    configure(&mut world, &webhook(&receiver, "after = \"2s\""));
    world.create_team("acme");
    world.join("ann");
    let first = ask(&world, "ann");
    // Before it is due.
    world.coordinator.kill();
    world.coordinator.restart();
    let said = verified(&receiver.await_received(1));
    assert_eq!(said["data"]["request_id"], first.as_str());
    assert_eq!(said["data"]["text"], "ann's permission request waits for an answer in team acme.");
    let waited = seconds(&said["timestamp"]) - seconds(&said["data"]["since"]);
    assert!((2.0..7.0).contains(&waited), "{waited}");
    world.coordinator.await_log("a notification was delivered", 1);
    // After it was delivered.
    world.coordinator.kill();
    world.coordinator.restart();
    let second = ask(&world, "ann");
    let said = verified(&receiver.await_received(2));
    assert_eq!((&said["data"]["request_id"], &said["data"]["count"]), (&second.as_str().into(), &2.into()));
    let ids = receiver.received().iter().map(|got| got.json()["data"]["request_id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids, [first, second]);
    let link = said["data"]["link"].as_str().unwrap();
    assert!(link.starts_with("http://127.0.0.1:") && link.contains("/#/approvals?team=acme&id=req_"), "{link}");
    // Nothing that an agent wrote, and no credential.
    let all = receiver.received().iter().map(|got| got.body.clone()).collect::<String>();
    assert!(!all.contains("rm -r") && !all.contains("Bash") && !all.contains("two:"), "{all}");
}

fn a_request_that_is_answered_in_time_is_not_mentioned(mut world: World) {
    let receiver = Receiver::start();
    configure(&mut world, &webhook(&receiver, "after = \"3s\"\ncontent = true"));
    world.create_team("acme");
    world.join("ann");
    let answered = ask(&world, "ann");
    world.cli(LEAD, &["approve", &answered]).succeeds();
    let unanswered = ask(&world, "ann");
    let said = verified(&receiver.await_received(1));
    assert_eq!((&said["data"]["request_id"], &said["data"]["count"]), (&unanswered.as_str().into(), &1.into()));
    assert_eq!(said["data"]["content"], "Bash: rm -r target");
    world.coordinator.await_log("a notification was delivered", 1);
    assert_eq!(receiver.received().len(), 1);
}

fn what_waits_makes_one_notification(mut world: World) {
    let receiver = Receiver::start();
    world.create_team("acme");
    for name in ["ann", "bob"] {
        world.join(name);
    }
    let first = ask(&world, "bob");
    ask(&world, "ann");
    ask(&world, "bob");
    configure(&mut world, &webhook(&receiver, "after = \"0s\""));
    let said = verified(&receiver.await_received(1));
    assert_eq!(said["data"]["text"], "3 permission requests wait for an answer in team acme. The first is bob's.");
    assert_eq!((&said["data"]["request_id"], &said["data"]["count"]), (&first.as_str().into(), &3.into()));
    world.coordinator.await_log("a notification was delivered", 1);
    let metric = |outcome: &str| {
        let series = format!("teamwire_notifications_total{{to=\"webhook\",outcome=\"{outcome}\"}}");
        world.coordinator.metric(&series)
    };
    eventually("it is counted", || (metric("delivered") == 1.0).then_some(()));
    assert_eq!((receiver.received().len(), metric("failed")), (1, 0.0));
}

fn a_redirect_is_not_followed_and_the_notification_comes_again_with_the_same_id(mut world: World) {
    let receiver = Receiver::start();
    world.coordinator.may_complain_of(FAILED);
    receiver.answer_next(&format!("302 Found\r\nlocation: {}", receiver.url("/elsewhere")));
    receiver.answer_next("500 Internal Server Error");
    configure(&mut world, &webhook(&receiver, "after = \"0s\""));
    world.create_team("acme");
    world.join("ann");
    ask(&world, "ann");
    let last = receiver.await_received(3);
    let received = receiver.received();
    for again in &received {
        verified(again);
        assert_eq!((again.header("webhook-id"), &again.body), (last.header("webhook-id"), &last.body));
    }
    world.coordinator.await_log("a notification was delivered", 1);
    assert_eq!(received.len(), 3);
    let log = world.coordinator.log();
    assert!(log.contains("the server answered 302 Found, and redirects are not followed"), "{log}");
    assert!(log.contains("the server answered 500 Internal Server Error"), "{log}");
    assert!(!log.contains("/hook"), "a path may be secret: {log}");
}

fn a_private_address_is_refused(mut world: World) {
    let receiver = Receiver::start();
    world.coordinator.may_complain_of(FAILED);
    let to = format!("https://localhost:{}/", receiver.port());
    let notify = format!(
        "[[notify]]\nevents = [\"permission\"]\nafter = \"0s\"\nto = \"{to}\"\nsecret_env = \"NOTIFY_SECRET\"\n"
    );
    configure(&mut world, &notify);
    world.create_team("acme");
    world.join("ann");
    ask(&world, "ann");
    world.coordinator.await_log("the address is private; to allow it, set allow_private = true", 2);
    let found = world.cli(LEAD, &["doctor", "--json"]).exits(1).lines();
    let finding = found.iter().find(|finding| finding["class"] == "not_notified").unwrap();
    let text = finding["text"].as_str().unwrap();
    assert!(text.starts_with("1 notification to people") && !text.contains("localhost"), "{text}");
    let found = world.cli("ann", &["doctor", "--json"]).lines();
    assert!(found.iter().all(|finding| finding["class"] != "not_notified"), "{found:?}");
    assert_eq!(receiver.connections(), 0);
}

fn a_server_with_tls_is_verified(mut world: World) {
    world.coordinator.may_complain_of(FAILED);
    world.cli(LEAD, &["certs"]).succeeds();
    let certs = world.home(LEAD).join("certs");
    let receiver = Receiver::with_tls(certificate_in(&certs));
    let to = format!("https://localhost:{}/hook?a=b", receiver.port());
    let notify = format!(
        "[[notify]]\nevents = [\"permission\"]\nafter = \"0s\"\nto = \"{to}\"\nsecret_env = \"NOTIFY_SECRET\"\n\
         allow_private = true\n"
    );
    configure(&mut world, &notify);
    world.create_team("acme");
    world.join("ann");
    ask(&world, "ann");
    world.coordinator.await_log(FAILED, 1);
    assert!(receiver.received().is_empty(), "its authority is not known");
    let authority = certs.join("ca.crt").display().to_string();
    world.coordinator.restart_with(&[("SSL_CERT_FILE", &authority)]);
    verified(&receiver.await_received(1));
}

fn certificate_in(directory: &Path) -> ServerConfig {
    let chain = CertificateDer::pem_file_iter(directory.join("server.crt")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(directory.join("server.key")).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    builder.with_no_client_auth().with_single_cert(chain, key).unwrap()
}

fn a_program_gets_the_notification_and_is_ended_if_it_hangs(mut world: World) {
    world.coordinator.may_complain_of(FAILED);
    let home = world.home(LEAD);
    let (got, pid) = (home.join("got"), home.join("pid"));
    let table = |events: &str, script: &str| {
        format!(
            "[[notify]]\nevents = [\"{events}\"]\nafter = \"0s\"\ntimeout = \"1s\"\nexec = [\"sh\", \"-c\", \"{script}\"]\n"
        )
    };
    let write = format!("cat > {0}.part; env > {1}; mv {0}.part {0}", got.display(), home.join("env").display());
    let hang = format!("echo stuck >&2; sleep 1000 & echo $! > {0}.part; mv {0}.part {0}; wait", pid.display());
    configure(&mut world, &(table("permission", &write) + &table("plan", &hang)));
    world.create_team("acme");
    world.join("ann");
    let request = ask(&world, "ann");
    let said = eventually("the program gets it", || fs::read_to_string(&got).ok());
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["data"]["request_id"], request.as_str());
    let environment = fs::read_to_string(home.join("env")).unwrap();
    assert!(environment.contains("PATH=") && !environment.contains("NOTIFY_SECRET"), "{environment}");
    world.cli("ann", &["plan", "submit", "a plan"]).succeeds();
    let pid: u32 = eventually("the program hangs", || fs::read_to_string(&pid).ok()).trim().parse().unwrap();
    world.coordinator.await_log("it took longer than 1 s: stuck", 1);
    eventually("what the program has started is ended", || (!is_alive(pid)).then_some(()));
}

fn failing_lost_and_idle_programs_are_reported(mut world: World) {
    let receiver = Receiver::start();
    let events = "events = [\"failing\", \"lost\", \"idle_team\"]";
    let notify = webhook(&receiver, "after = \"0s\"").replace("events = [\"permission\"]", events);
    let limits = "[limits]\nlease_ttl = \"10s\"\nlost_grace = \"0s\"\n[delivery]\nheartbeat_interval = \"1s\"\n";
    configure(&mut world, &(notify + limits));
    world.create_team("acme");
    let said = |kind: &str| {
        let is_it = |got: &Received| got.json()["type"] == kind;
        let got = eventually(kind, || receiver.received().into_iter().find(is_it));
        verified(&got)["data"]["text"].as_str().unwrap().to_owned()
    };
    let down = world.home("backend").join("down");
    fs::write(&down, "").unwrap();
    let backend = world.run_program("backend", &["--join", &world.invite("backend"), "--via", "acp"], ACP).ready();
    world.cli(LEAD, &["send", "backend", "Do it."]).succeeds();
    assert_eq!(said("failing"), "backend's program keeps failing in team acme.");
    fs::remove_file(down).unwrap();
    assert_eq!(said("idle_team"), "Every agent of team acme is idle.");
    backend.kill();
    assert_eq!(said("lost"), "backend is lost in team acme.");
}

fn one_of_several_coordinators_notifies(mut world: World) {
    let receiver = Receiver::start();
    let notify = webhook(&receiver, "after = \"2s\"");
    configure(&mut world, &notify);
    let others = [0; 2].map(|_| world.another_configured(&notify, &[("NOTIFY_SECRET", SECRET)]));
    world.create_team("acme");
    world.join("ann");
    for count in 1..=3 {
        let request = ask(&world, "ann");
        let said = verified(&receiver.await_received(count));
        assert_eq!(said["data"]["request_id"], request.as_str());
    }
    assert_eq!(receiver.received().len(), 3);
    drop(others);
}

/// Returns whether the programs that the examples use are installed.
fn has_tools() -> bool {
    let runs = |arguments: &[&str]| {
        let run = Command::new(arguments[0]).args(&arguments[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    };
    runs(&["jq", "--version"]) && runs(&["curl", "--json", "{}", "--version"])
}

/// The tables of the documentation, played as they are. Only what stands for a service or the desktop is local.
fn the_documented_receivers_get_what_they_expect(mut world: World) {
    if !has_tools() {
        eprintln!("skipped: the examples need jq, and curl 7.82 or newer");
        return;
    }
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/notifications.md")).unwrap();
    let receiver = Receiver::start();
    let home = world.coordinator.state_directory().parent().unwrap().to_owned();
    let private = home.join(".config/teamwire");
    fs::create_dir_all(&private).unwrap();
    for (file, path) in [("slack", "/services/T0/B0/x"), ("telegram", "/bot1:x/sendMessage")] {
        fs::write(private.join(file), format!("url = \"{}\"\n", receiver.url(path))).unwrap();
    }
    let bin = home.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let shown = home.join("shown");
    let desktop = format!("#!/bin/sh\nprintf '%s|' \"$@\" > {0}.part; mv {0}.part {0}\n", shown.display());
    fs::write(bin.join("notify-send"), desktop).unwrap();
    fs::set_permissions(bin.join("notify-send"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());

    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let examples: Vec<&str> = blocks.filter(|block| block.contains("exec = ")).collect();
    assert_eq!(examples.len(), 4, "Slack, ntfy, Telegram and notify-send");
    assert!(examples.iter().all(|example| example.lines().count() <= 12), "{examples:?}");
    let examples = examples
        .concat()
        .replace("https://ntfy.sh/", &receiver.url("/"))
        .replace("[[notify]]\n", "[[notify]]\nafter = \"0s\"\n");
    world.create_team("acme");
    world.join("ann");
    let request = ask(&world, "ann");
    world.coordinator.configure(&examples);
    world.coordinator.restart_with(&[("PATH", &path)]);
    receiver.await_received(3);
    let mut received = receiver.received();
    received.sort_by(|one, other| one.path.cmp(&other.path));
    let [ntfy, telegram, slack] = received.try_into().unwrap();
    let text = "ann's permission request waits for an answer in team acme.";
    let is_json = |got: &Received| assert_eq!(got.header("content-type"), "application/json");
    [&ntfy, &telegram, &slack].into_iter().for_each(is_json);
    // What their documentation asks for.
    assert_eq!((ntfy.path.as_str(), &ntfy.json()["message"]), ("/", &text.into()));
    let click = ntfy.json()["click"].as_str().unwrap().to_owned();
    assert!(click.contains("/#/approvals?") && click.contains(&request), "{click}");
    assert!(!ntfy.json()["topic"].as_str().unwrap().is_empty());
    assert_eq!(telegram.path, "/bot1:x/sendMessage");
    assert!(telegram.json()["chat_id"].is_number());
    assert_eq!(slack.path, "/services/T0/B0/x");
    for got in [telegram, slack] {
        let said = got.json()["text"].as_str().unwrap().to_owned();
        assert!(said.contains(text) && said.contains(&click), "{said}");
    }
    let shown = eventually("the desktop shows it", || fs::read_to_string(&shown).ok());
    assert!(shown.starts_with("teamwire|") && shown.contains(text), "{shown}");
}
