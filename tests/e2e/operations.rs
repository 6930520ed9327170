//! What those who run a coordinator see of it: health, numbers, the log.

use std::{collections::BTreeSet, fs, path::Path};

use nix::sys::signal::Signal;

use crate::{
    agents,
    world::{LEAD, SECRET, ScriptedHost, World, eventually, offer},
};

scenarios! {
    the_open_tasks_of_each_team_are_shown_only_if_the_configuration_says_so,
    reflection_lists_every_service,
    reflection_describes_the_details_of_refusals,
    a_health_watcher_sees_the_shutdown_and_does_not_delay_it,
    health_needs_no_credential_and_ends_with_the_coordinator,
}

store_scenarios! {
    the_metrics_count_exactly_what_was_done,
    every_metric_is_documented_and_every_documented_metric_exists,
    the_log_holds_no_secret_and_no_content,
    a_stopping_coordinator_closes_its_sessions_and_its_store,
}

redis_scenarios! {
    health_follows_a_redis_that_hangs,
    a_process_is_live_while_its_store_is_away,
    health_follows_a_redis_that_is_gone,
}

fn the_metrics_count_exactly_what_was_done(world: World) {
    world.create_team("acme");
    let ann = world.run("ann", &[], agents::WILLING).ready();
    world.join("bob");
    for number in 1..=3 {
        world.cli(LEAD, &["send", "ann", &format!("step {number}")]).succeeds();
    }
    world.cli(LEAD, &["send", "--broadcast", "stop the line"]).succeeds();
    for _ in 0..2 {
        world.cli(LEAD, &["send", "bob", "once", "--idempotency-key", "key-1"]).succeeds();
    }
    world.cli(LEAD, &["send", "nobody", "hello"]).exits(1);
    ann.await_text("stop the line");

    let coordinator = &world.coordinator;
    eventually("all of ann's messages are acknowledged", || {
        (coordinator.metric("teamwire_acks_total") >= 4.0).then_some(())
    });
    let is = |series: &str, value: f64| assert_eq!(coordinator.metric(series), value, "{series}");
    is("teamwire_sends_total{type=\"message\",outcome=\"ok\"}", 4.0);
    is("teamwire_sends_total{type=\"message\",outcome=\"replayed\"}", 1.0);
    is("teamwire_sends_total{type=\"message\",outcome=\"AGENT_NOT_FOUND\"}", 1.0);
    is("teamwire_sends_total{type=\"broadcast\",outcome=\"ok\"}", 1.0);
    is("teamwire_sends_total{type=\"shutdown_request\",outcome=\"ok\"}", 0.0);
    is("teamwire_send_seconds_count", 7.0);
    is("teamwire_rpc_seconds_count{method=\"teamwire.v1.MessageService/Send\",code=\"OK\"}", 6.0);
    is("teamwire_rpc_seconds_count{method=\"teamwire.v1.MessageService/Send\",code=\"NOT_FOUND\"}", 1.0);
    is("teamwire_refusals_total{reason=\"AGENT_NOT_FOUND\"}", 1.0);
    is("teamwire_deliveries_total", 4.0);
    is("teamwire_redeliveries_total", 0.0);
    is("teamwire_acks_total", 4.0);
    is("teamwire_dead_letters_total{cause=\"delivery_limit\"}", 0.0);
    is("teamwire_sessions", 1.0);
    is("teamwire_connections", 1.0);
    is("teamwire_store_up", 1.0);
    is("teamwire_lost_writes_total", 0.0);
    // Two messages wait for bob. The lead gets a notice when ann is idle.
    eventually("the inboxes are counted", || {
        world.take_inbox(LEAD);
        let counted = ["teamwire_inbox_messages", "teamwire_inbox_messages_max"].map(|name| coordinator.metric(name));
        (counted == [2.0, 2.0]).then_some(())
    });
    is("teamwire_teams", 1.0);
    // The people are away by now if the machine is slow.
    eventually("the members are counted", || {
        let states =
            ["live", "away"].map(|state| coordinator.metric(&format!("teamwire_members{{state=\"{state}\"}}")));
        (states.iter().sum::<f64>() == 3.0).then_some(())
    });

    world.cli(LEAD, &["task", "create", "count the words"]).succeeds();
    world.cli(LEAD, &["task", "create", "sum them up", "--blocked-by", "1"]).succeeds();
    eventually("the open tasks are counted", || {
        let of = |status| coordinator.metric(&format!("teamwire_tasks{{status=\"{status}\"}}"));
        (["ready", "assigned", "blocked", "in_progress"].map(of) == [1.0, 0.0, 1.0, 0.0]).then_some(())
    });

    world.cli(LEAD, &["shutdown", "ann", "--wait"]).succeeds();
    assert_eq!(ann.exit(), 0);
    is("teamwire_sends_total{type=\"shutdown_request\",outcome=\"ok\"}", 1.0);
    is("teamwire_sends_total{type=\"shutdown_response\",outcome=\"ok\"}", 1.0);
    is("teamwire_sessions", 0.0);
    eventually("the member that has ended is counted as such", || {
        (coordinator.metric("teamwire_members{state=\"exited\"}") == 1.0).then_some(())
    });
    is("teamwire_decisions_total{kind=\"shutdown\",outcome=\"approved\"}", 1.0);

    let mut host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[], 4));
    let spawn = ["spawn", "tester", "--profile", "claude", "--no-wait"];
    world.cli(LEAD, &spawn).succeeds();
    let order = host.next_order();
    host.refuse(&order, "no disk");
    world.cli(LEAD, &spawn).succeeds();
    let order = host.next_order();
    let _tester = host.start(&world, &order, agents::WILLING).ready();
    eventually("the start is counted", || {
        let started = coordinator.metric("teamwire_decisions_total{kind=\"spawn\",outcome=\"approved\"}");
        (started == 1.0).then_some(())
    });
    is("teamwire_decisions_total{kind=\"spawn\",outcome=\"rejected\"}", 1.0);
    eventually("the host and its slots are counted", || {
        let series = [
            "teamwire_hosts{state=\"live\"}",
            "teamwire_host_slots{state=\"taken\"}",
            "teamwire_host_slots{state=\"free\"}",
        ];
        (series.map(|series| coordinator.metric(series)) == [1.0, 1.0, 3.0]).then_some(())
    });
    let metrics = coordinator.metrics();
    for name in ["acme", "ann", "bob", "nobody", "gpu-1", "tester"] {
        assert!(!metrics.contains(&format!("\"{name}")), "a name in a label: {metrics}");
    }
}

fn the_open_tasks_of_each_team_are_shown_only_if_the_configuration_says_so(mut world: World) {
    world.create_team("acme");
    world.cli(LEAD, &["task", "create", "count the words"]).succeeds();
    let series = "teamwire_team_tasks{team=\"acme\",status=\"ready\"}";
    eventually("the task is counted", || {
        (world.coordinator.metric("teamwire_tasks{status=\"ready\"}") == 1.0).then_some(())
    });
    assert!(!world.coordinator.metrics().contains("acme"));

    world.coordinator.restart_with(&[("TEAMWIRE_METRICS_TEAMS", "true")]);
    eventually("the task is counted by team", || (world.coordinator.metric(series) == 1.0).then_some(()));
}

fn every_metric_is_documented_and_every_documented_metric_exists(world: World) {
    world.create_team("acme");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let docs = fs::read_to_string(docs).unwrap();
    let rows = docs.lines().filter_map(|line| line.strip_prefix("| `teamwire_")?.split(['`', '{']).next());
    let documented: BTreeSet<String> = rows.map(|name| format!("teamwire_{name}")).collect();

    let metrics = world.coordinator.metrics();
    let shown: BTreeSet<String> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() })
        .collect();
    assert!(shown.len() > 15);
    assert_eq!(documented, shown);
    let helped = metrics.lines().filter(|line| line.starts_with("# HELP teamwire_")).count();
    assert_eq!(helped, shown.len());
    // What the text says elsewhere of numbers, in rules for alarms, is there as well.
    let words =
        docs.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("teamwire_"));
    // One is the crate, in an example of the log; one is off.
    for word in words.filter(|word| !["teamwire_server", "teamwire_team_tasks"].contains(word)) {
        let name = ["_bucket", "_count", "_sum"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
        assert!(shown.contains(name), "{word} is not a number");
    }
}

fn the_log_holds_no_secret_and_no_content(mut world: World) {
    world.coordinator.restart_with(&[("TEAMWIRE_LOG", "trace"), ("TEAMWIRE_LOG_FORMAT", "json")]);
    world.create_team("acme");
    let token = world.invite("ann");
    let ann = world.run("ann", &[], agents::WILLING).ready();
    let bob = world.join("bob");
    world.cli(LEAD, &["send", "ann", "content-of-mine", "-s", "summary-of-mine"]).succeeds();
    world.cli(LEAD, &["send", "--broadcast", "content-of-mine", "-s", "summary-of-mine"]).succeeds();
    world.cli(LEAD, &["send", "nobody", "content-of-mine", "-s", "summary-of-mine"]).exits(1);
    world.cli("bob", &["plan", "submit", "content-of-mine"]).succeeds();
    world.cli("bob", &["send", "lead", "content-of-mine", "--credential", "twm:acme:bob:notthesecret"]);
    world.take_inbox("bob");
    world.history(LEAD);
    ann.await_text("content-of-mine");
    world.cli(LEAD, &["shutdown", "ann", "content-of-mine", "--wait"]).succeeds();
    assert_eq!(ann.exit(), 0);

    let log = world.coordinator.log();
    let call = log.lines().find(|line| line.contains("\"code\":\"NOT_FOUND\"")).expect("a line for each call");
    for part in ["\"message\":\"call\"", "MessageService/Send", "AGENT_NOT_FOUND", "\"duration_us\":", "lead@acme"] {
        assert!(call.contains(part), "{part} in {call}");
    }
    // A join string continues after its secret.
    let secret_of = |credential: &str| credential.split('@').next().unwrap().rsplit(':').next().unwrap().to_owned();
    let secrets = [token, bob, world.operator(), world.credential(LEAD), world.credential("ann")];
    for secret in
        secrets.iter().map(|credential| secret_of(credential)).chain([SECRET, "notthesecret"].map(ToOwned::to_owned))
    {
        assert!(secret.len() > 8 && !log.contains(&secret), "a credential in the log");
    }
    for content in ["content-of-mine", "summary-of-mine", "all done"] {
        assert!(!log.contains(content), "{content} in the log");
    }
}

fn health_needs_no_credential_and_ends_with_the_coordinator(mut world: World) {
    let address = world.coordinator.address();
    let told = world.cli("passer-by", &["health", "--address", &address, "--json"]).succeeds().json();
    assert_eq!(told["serving"], true);
    for service in ["Message", "Team", "Request", "History"] {
        let service = format!("teamwire.v1.{service}Service");
        world.cli("passer-by", &["health", "--address", &address, "--service", &service]).succeeds();
    }
    world.cli("passer-by", &["health", "--address", &address, "--service", "other"]).exits(1);
    world.coordinator.end();
    world.cli("passer-by", &["health", "--address", &address]).exits(69);
}

fn reflection_lists_every_service(world: World) {
    use tonic_reflection::pb::{v1, v1alpha};
    /// Asks one version of the service, which are alike.
    macro_rules! services {
        ($version:ident, $channel:expr) => {{
            use $version::{server_reflection_request::MessageRequest, server_reflection_response::MessageResponse};
            let message_request = Some(MessageRequest::ListServices(String::new()));
            let request = $version::ServerReflectionRequest { message_request, ..Default::default() };
            let mut client = $version::server_reflection_client::ServerReflectionClient::new($channel);
            let replies = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
            let reply = replies.into_inner().message().await.unwrap().unwrap();
            let Some(MessageResponse::ListServicesResponse(listed)) = reply.message_response else {
                panic!("{reply:?}")
            };
            listed.service.into_iter().map(|service| service.name).collect::<BTreeSet<_>>()
        }};
    }
    let address = world.coordinator.address();
    let (now, before) = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let channel = tonic::transport::Endpoint::from_shared(address).unwrap().connect().await.unwrap();
        (services!(v1, channel.clone()), services!(v1alpha, channel))
    });
    let ours = ["Message", "Team", "Request", "History"].map(|name| format!("teamwire.v1.{name}Service"));
    for service in ours.into_iter().chain(["grpc.health.v1.Health".to_owned()]) {
        assert!(now.contains(&service) && before.contains(&service), "{service}: {now:?}, {before:?}");
    }
}

fn reflection_describes_the_details_of_refusals(world: World) {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let address = world.coordinator.address();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let channel = tonic::transport::Endpoint::from_shared(address).unwrap().connect().await.unwrap();
        let mut client = ServerReflectionClient::new(channel);
        let mut wanted: Vec<MessageRequest> = ["ErrorInfo", "BadRequest", "RetryInfo"]
            .map(|name| MessageRequest::FileContainingSymbol(format!("google.rpc.{name}")))
            .to_vec();
        let mut found = BTreeSet::new();
        // A tool also needs every file that these import.
        while let Some(message_request) = wanted.pop() {
            let asked = format!("{message_request:?}");
            let message_request = Some(message_request);
            let request = ServerReflectionRequest { message_request, ..ServerReflectionRequest::default() };
            let replies = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
            let reply = replies.into_inner().message().await.unwrap().unwrap();
            let Some(MessageResponse::FileDescriptorResponse(files)) = reply.message_response else {
                panic!("{asked}: {reply:?}")
            };
            for file in files.file_descriptor_proto {
                let file = <prost_types::FileDescriptorProto as prost::Message>::decode(file.as_slice()).unwrap();
                if found.insert(file.name().to_owned()) {
                    wanted.extend(file.dependency.into_iter().map(MessageRequest::FileByFilename));
                }
            }
        }
        assert!(found.contains("google/protobuf/duration.proto"), "{found:?}");
    });
}

fn a_health_watcher_sees_the_shutdown_and_does_not_delay_it(mut world: World) {
    use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut watched = runtime.block_on(async {
        let endpoint = tonic::transport::Endpoint::from_shared(world.coordinator.address()).unwrap();
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        client.watch(HealthCheckRequest { service: String::new() }).await.unwrap().into_inner()
    });
    let mut next = || runtime.block_on(watched.message());
    assert_eq!(next().unwrap().unwrap().status(), ServingStatus::Serving);
    // Were it cut off at the end of its grace, its log would have a warning, which is a failure.
    world.coordinator.end();
    assert_eq!(next().unwrap().unwrap().status(), ServingStatus::NotServing);
    assert!(next().unwrap().is_none());
}

fn a_stopping_coordinator_closes_its_sessions_and_its_store(mut world: World) {
    world.create_team("acme");
    world.join("ann");
    let names = ["backend", "reviewer", "tester"];
    let members = names.map(|name| world.run(name, &[], agents::WILLING).ready());
    let ask = ["permission", "request", "--tool", "Bash", "--summary", "clean up", "--wait"];
    let waiting = world.spawn("ann", &ask, "");
    world.await_inbox(LEAD, "the request", |message| message["tool"] == "Bash");
    for member in &members {
        world.cli(LEAD, &["send", "--broadcast", "hello"]).succeeds();
        member.await_text("hello");
    }
    world.coordinator.end();
    world.coordinator.restart();
    assert!(!world.coordinator.log().contains("not closed cleanly"), "{}", world.coordinator.log());
    for (name, member) in names.iter().zip(&members) {
        world.cli(LEAD, &["send", name, "ping", "--wait-reply", "60"]).succeeds();
        // The coordinator knows exactly what it had delivered.
        assert_eq!(member.await_text("ping")["delivery_count"], 1);
    }
    world.cli(LEAD, &["approve", "last"]).succeeds();
    waiting.output().succeeds();
}

/// Waits until `teamwire health` exits with this code.
fn await_health(world: &World, code: i32) {
    let asked = || world.cli(LEAD, &["health"]).code == code;
    eventually(&format!("health exits with {code}"), || asked().then_some(()));
}

fn health_follows_a_redis_that_hangs(world: World) {
    await_health(&world, 0);
    world.with_redis(|redis| redis.signal(Signal::SIGSTOP));
    await_health(&world, 1);
    assert_eq!(world.coordinator.metric("teamwire_store_up"), 0.0);
    world.with_redis(|redis| redis.signal(Signal::SIGCONT));
    await_health(&world, 0);
    assert_eq!(world.coordinator.metric("teamwire_store_up"), 1.0);
}

fn a_process_is_live_while_its_store_is_away(mut world: World) {
    world.coordinator.restart_with(&[("TEAMWIRE_HEALTH", "127.0.0.1:0")]);
    let address = format!("http://{}", world.coordinator.health_address());
    let probe = |service: &str| world.cli("prober", &["health", "--address", &address, "--service", service]).code;
    let await_probe = |code: i32| eventually("the probe is answered", || (probe("") == code).then_some(()));
    await_probe(0);
    assert_eq!(probe("teamwire.v1.MessageService"), 0);
    world.with_redis(|redis| redis.signal(Signal::SIGSTOP));
    await_probe(1);
    assert_eq!((probe("live"), probe("teamwire.v1.MessageService")), (0, 1));
    world.with_redis(|redis| redis.signal(Signal::SIGCONT));
    await_probe(0);
    assert_eq!(probe("live"), 0);
    // Nothing else is served there.
    world.cli(LEAD, &["team", "list", "--address", &address]).exits(69);
}

fn health_follows_a_redis_that_is_gone(world: World) {
    await_health(&world, 0);
    world.with_redis(|redis| redis.kill());
    await_health(&world, 1);
    assert!(world.coordinator.metric("teamwire_store_errors_total{operation=\"now\",kind=\"unavailable\"}") > 0.0);
    world.with_redis(|redis| redis.restart());
    await_health(&world, 0);
}
