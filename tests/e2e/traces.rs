//! One message is one trace, across all processes that it passes.

use std::time::Duration;

use opentelemetry_proto::tonic::{
    common::v1::{KeyValue, any_value},
    metrics::v1::{HistogramDataPoint, metric::Data},
    trace::v1::Span,
};
use serde_json::json;
use teamwire_client::v1;

use crate::{
    agents,
    world::{Collector, LEAD, Runner, World, eventually},
};

scenarios! {
    a_turn_is_a_span_with_its_tool_calls_and_is_counted,
    a_turn_that_fails_and_its_texts_are_recorded_if_that_is_asked_for,
    a_tool_call_continues_the_trace_in_its_meta,
    spans_and_metrics_reach_collectors_with_tls,
    what_cannot_be_exported_is_said,
    without_a_collector_nothing_is_recorded,
    an_unreachable_collector_does_no_harm,
}

store_scenarios! {
    a_message_is_one_trace_from_its_sender_to_its_acknowledgement,
    claims_that_are_carried_out_together_are_linked_to_the_trace_with_the_commit,
}

/// Where the traces of the test's own caller are said to come from.
const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn a_message_is_one_trace_from_its_sender_to_its_acknowledgement(mut world: World) {
    let collector = Collector::start();
    world
        .coordinator
        .restart_with(&[("OTEL_BSP_SCHEDULE_DELAY", "100"), ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address())]);
    world.environment.borrow_mut().push(("OTEL_BSP_SCHEDULE_DELAY".into(), "100".into()));
    world.environment.borrow_mut().push(("OTEL_EXPORTER_OTLP_ENDPOINT".into(), collector.address().into()));
    world.create_team("acme");
    let ann = world.run("ann", &[], agents::WILLING).ready();

    world.environment.borrow_mut().push(("TRACEPARENT".into(), CALLER.into()));
    let sent = world.cli(LEAD, &["send", "ann", "follow me", "--json"]).succeeds().json();
    world.environment.borrow_mut().pop();
    // Another one, that must not get into the same trace.
    world.cli(LEAD, &["send", "ann", "leave me"]).succeeds();
    ann.await_text("leave me");

    let of_the_trace = || -> Vec<Span> {
        let mut spans = collector.spans();
        spans.retain(|span| hex(&span.trace_id) == "0af7651916cd43dd8448eb211c80319c");
        spans
    };
    let spans = eventually("the whole trace", || {
        let spans = of_the_trace();
        let is_there = |name: &str| spans.iter().any(|span| span.name == name);
        let all = ["teamwire.v1.MessageService/Ack", "process", "deliver", "teamwire"];
        all.into_iter().all(is_there).then_some(spans)
    });
    let named = |name: &str| {
        let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "{name} in {:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
        found[0]
    };
    let is_child = |child: &str, parent: &str| {
        assert_eq!(named(child).parent_span_id, named(parent).span_id, "{child} of {parent}");
    };
    assert_eq!(hex(&named("teamwire").parent_span_id), "b7ad6b7169203331");
    is_child("Send", "teamwire");
    is_child("teamwire.v1.MessageService/Send", "Send");
    is_child("deliver", "Send");
    is_child("process", "Send");
    is_child("ack", "process");
    is_child("Ack", "ack");
    is_child("teamwire.v1.MessageService/Ack", "Ack");
    let rule = spans.iter().filter(|span| span.name == "decide").map(|span| &span.parent_span_id);
    let rpcs = ["Send", "Ack"].map(|call| &named(&format!("teamwire.v1.MessageService/{call}")).span_id);
    assert!(rpcs.into_iter().all(|rpc| rule.clone().any(|parent| parent == rpc)), "a rule in each call");
    assert!(spans.iter().any(|span| span.name == "commit"));

    let id = sent["message_id"].as_str().unwrap();
    let attributes = format!("{:?}", named("process").attributes);
    assert!(attributes.contains(id), "{attributes}");
    let everything = format!("{:?}", collector.spans());
    assert!(!everything.contains("follow me"), "contents are not part of a trace");
    // What a coordinator does by itself makes no traces.
    let roots: Vec<Span> = collector.spans().into_iter().filter(|span| span.parent_span_id.is_empty()).collect();
    assert!(roots.iter().all(|span| !["decide", "commit"].contains(&span.name.as_str())), "{roots:?}");
}

/// Starts an agent whose runner exports to a collector. `more`: other variables.
fn agent(world: &World, collector: &Collector, more: &[(&str, &str)]) -> Runner {
    let mut environment = world.environment.borrow_mut();
    let always = [("OTEL_BSP_SCHEDULE_DELAY", "100"), ("OTEL_METRIC_EXPORT_INTERVAL", "200")];
    for (name, value) in always.iter().chain(&[("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address())]).chain(more) {
        environment.push(((*name).into(), (*value).into()));
    }
    drop(environment);
    let agent =
        world.run_program("backend", &["--join", &world.invite("backend"), "--via", "acp"], agents::ACP).ready();
    world.environment.borrow_mut().clear();
    agent
}

/// Returns an attribute of a span or of a data point, as text.
fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value?;
    Some(match value {
        any_value::Value::StringValue(text) => text,
        any_value::Value::IntValue(number) => number.to_string(),
        any_value::Value::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

#[track_caller]
fn await_span(collector: &Collector, name: &str) -> Span {
    eventually(name, || collector.spans().into_iter().find(|span| span.name == name))
}

fn a_turn_is_a_span_with_its_tool_calls_and_is_counted(world: World) {
    let collector = Collector::start();
    world.create_team("acme");
    let backend = agent(&world, &collector, &[]);
    world.environment.borrow_mut().push(("TRACEPARENT".into(), CALLER.into()));
    world.environment.borrow_mut().push(("OTEL_EXPORTER_OTLP_ENDPOINT".into(), collector.address().into()));
    world.cli(LEAD, &["send", "backend", "look around; it uses 5000"]).succeeds();
    world.environment.borrow_mut().clear();
    let turn = await_span(&collector, "invoke_agent backend");
    let tool = await_span(&collector, "execute_tool ls");
    assert_eq!(tool.parent_span_id, turn.span_id);
    assert_eq!(hex(&turn.trace_id), "0af7651916cd43dd8448eb211c80319c", "it continues the message's trace");
    for (key, expected) in [
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.provider.name", "unknown"),
        ("gen_ai.agent.name", "backend"),
        ("gen_ai.conversation.id", "s1"),
        ("gen_ai.usage.input_tokens", "5000"),
        ("teamwire.team", "acme"),
        ("teamwire.turn.tool_calls", "1"),
    ] {
        assert_eq!(attribute(&turn.attributes, key).as_deref(), Some(expected), "{key}");
    }
    assert_eq!(attribute(&tool.attributes, "gen_ai.tool.call.id").as_deref(), Some("call-2"));
    assert!(turn.status.is_none_or(|status| status.code == 0) && attribute(&turn.attributes, "error.type").is_none());

    let metric = |name: &str| {
        eventually(name, || collector.metrics().into_iter().rev().find(|metric| metric.name == name)).data.unwrap()
    };
    let Data::Histogram(tokens) = metric("gen_ai.client.token.usage") else { panic!("no histogram") };
    let of_kind = |kind: &str| {
        let is_it =
            |point: &&HistogramDataPoint| attribute(&point.attributes, "gen_ai.token.type").as_deref() == Some(kind);
        tokens.data_points.iter().find(is_it).and_then(|point| point.sum)
    };
    assert_eq!((of_kind("input"), of_kind("output")), (Some(5000.0), Some(0.0)));
    let Data::Histogram(duration) = metric("gen_ai.invoke_agent.duration") else { panic!("no histogram") };
    assert_eq!(duration.data_points[0].count, 1);
    world.cli(LEAD, &["shutdown", "backend", "--force"]).succeeds();
    backend.exit();
    let everything = format!("{:?}{:?}", collector.spans(), collector.metrics());
    for text in ["look around", "secret-place"] {
        assert!(!everything.contains(text), "contents are recorded only if that is asked for: {text}");
    }
}

fn a_turn_that_fails_and_its_texts_are_recorded_if_that_is_asked_for(world: World) {
    let collector = Collector::start();
    world.create_team("acme");
    let backend = agent(&world, &collector, &[("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")]);
    world.cli(LEAD, &["send", "backend", "look around"]).succeeds();
    let turn = await_span(&collector, "invoke_agent backend");
    let input = attribute(&turn.attributes, "gen_ai.input.messages").unwrap();
    assert!(input.starts_with("[{") && input.contains("look around"), "{input}");
    let tool = await_span(&collector, "execute_tool ls");
    assert!(attribute(&tool.attributes, "gen_ai.tool.call.arguments").unwrap().contains("secret-place"));

    std::fs::write(world.home("backend").join("down"), "").unwrap();
    world.cli(LEAD, &["send", "backend", "once more"]).succeeds();
    let failed = eventually("a turn that failed", || {
        let is_failed = |span: &Span| attribute(&span.attributes, "error.type").is_some();
        collector.spans().into_iter().find(|span| span.name == "invoke_agent backend" && is_failed(span))
    });
    let status = failed.status.unwrap();
    assert_eq!((status.code, attribute(&failed.attributes, "error.type").as_deref()), (2, Some("_OTHER")));
    assert!(status.message.contains("the model is overloaded"), "{}", status.message);
    world.cli(LEAD, &["shutdown", "backend", "--force"]).succeeds();
    backend.exit();
}

fn a_tool_call_continues_the_trace_in_its_meta(world: World) {
    let collector = Collector::start();
    world.create_team("acme");
    world.join("ann");
    let info = json!({"name": "test", "version": "1"});
    let arguments = json!({"to": LEAD, "message": "from a tool", "summary": "s"});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params":
            {"name": "SendMessage", "arguments": arguments, "_meta": {"traceparent": CALLER}}}),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    world.environment.borrow_mut().push(("OTEL_EXPORTER_OTLP_ENDPOINT".into(), collector.address().into()));
    let answers = world.cli_with_input("ann", &["mcp"], &lines).succeeds().stdout;
    world.environment.borrow_mut().clear();
    assert!(answers.contains("Sent to lead"), "{answers}");
    let call = await_span(&collector, "tools/call SendMessage");
    let send = await_span(&collector, "Send");
    assert_eq!(hex(&call.parent_span_id), "b7ad6b7169203331");
    assert_eq!(send.parent_span_id, call.span_id);
}

fn spans_and_metrics_reach_collectors_with_tls(world: World) {
    world.create_team("acme");
    world.cli(LEAD, &["certs"]).succeeds();
    let certificates = world.home(LEAD).join("certs");
    let authority = certificates.join("ca.crt").display().to_string();
    let variables =
        |protocol| [("OTEL_EXPORTER_OTLP_PROTOCOL", protocol), ("OTEL_EXPORTER_OTLP_CERTIFICATE", &*authority)];
    for (protocol, collector) in
        [("grpc", Collector::with_tls(&certificates)), ("http/protobuf", Collector::over_http_with_tls(&certificates))]
    {
        let backend = agent(&world, &collector, &variables(protocol));
        world.cli(LEAD, &["send", "backend", "look around"]).succeeds();
        await_span(&collector, "execute_tool ls");
        eventually("metrics", || (!collector.metrics().is_empty()).then_some(()));
        world.cli(LEAD, &["shutdown", "backend", "--force"]).succeeds();
        backend.exit();
    }
}

fn what_cannot_be_exported_is_said(world: World) {
    world.create_team("acme");
    let fails = |name: &str, value: &str, says: &str| {
        let mut environment = world.environment.borrow_mut();
        environment.push(("OTEL_EXPORTER_OTLP_ENDPOINT".into(), "https://127.0.0.1:9".into()));
        environment.push((name.into(), value.into()));
        drop(environment);
        world.cli(LEAD, &["status"]).exits(64).complains_of(says);
        world.environment.borrow_mut().clear();
    };
    fails(
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "http/json",
        "OTEL_EXPORTER_OTLP_PROTOCOL is \"http/json\". Use grpc or http/protobuf.",
    );
    fails("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such.crt", "OTEL_EXPORTER_OTLP_CERTIFICATE is \"/no/such.crt\"");
    fails("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/dev/null", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE");
}

fn without_a_collector_nothing_is_recorded(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.environment.borrow_mut().push(("TRACEPARENT".into(), CALLER.into()));
    world.cli(LEAD, &["send", "ann", "hello"]).succeeds();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let messages = runtime.block_on(async {
        let client = teamwire_client::Client::connect(&world.coordinator.address()).unwrap();
        let client = client.with_credential(&world.credential("ann")).unwrap();
        client.list_inbox(teamwire_client::v1::ListInboxRequest::default()).await.unwrap().deliveries
    });
    assert_eq!(messages[0].message.as_ref().unwrap().trace_parent, "");
}

fn an_unreachable_collector_does_no_harm(mut world: World) {
    // The port is reserved: a free one might be taken by another test meanwhile.
    let gone = "http://127.0.0.1:9".to_owned();
    world.coordinator.restart_with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &gone)]);
    world.environment.borrow_mut().push(("OTEL_EXPORTER_OTLP_ENDPOINT".into(), gone));
    world.create_team("acme");
    world.join("ann");
    let sent = world.cli(LEAD, &["send", "ann", "hello", "--json"]).succeeds();
    assert_eq!(sent.lines().len(), 1);
    assert_eq!(world.take_inbox("ann")[0]["content"], "hello");
    world.coordinator.end();
}

fn claims_that_are_carried_out_together_are_linked_to_the_trace_with_the_commit(mut world: World) {
    const CLAIM: &str = "teamwire.v1.TaskService/ClaimNextTask";
    let collector = Collector::start();
    world
        .coordinator
        .restart_with(&[("OTEL_BSP_SCHEDULE_DELAY", "100"), ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address())]);
    world.create_team("acme");
    world.join("ann");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let [lead, ann] = [LEAD, "ann"].map(|name| {
        let _guard = runtime.enter();
        let client = teamwire_client::Client::connect(&world.coordinator.address()).unwrap();
        client.with_credential(&world.credential(name)).unwrap()
    });
    let mut made = 0;
    let spans = eventually("claims that waited for each other", || {
        runtime.block_on(async {
            for _ in 0..20 {
                let task = v1::CreateTaskRequest { subject: "work".to_owned(), ..Default::default() };
                lead.create_task(task).await.unwrap();
            }
            let claims = (0..20).map(|_| {
                let ann = ann.clone();
                tokio::spawn(async move { ann.claim_next_task(Duration::ZERO).await })
            });
            for claim in claims.collect::<Vec<_>>() {
                claim.await.unwrap().unwrap();
            }
        });
        made += 20;
        let all = eventually("the spans of all claims", || {
            let spans = collector.spans();
            (spans.iter().filter(|span| span.name == CLAIM).count() == made).then_some(spans)
        });
        all.iter().any(|span| span.name == CLAIM && !span.links.is_empty()).then_some(all)
    });
    let claims: Vec<&Span> = spans.iter().filter(|span| span.name == CLAIM).collect();
    let decides = |id: &[u8]| spans.iter().any(|span| span.name == "decide" && span.parent_span_id == id);
    for claim in &claims {
        match &claim.links[..] {
            [] => assert!(decides(&claim.span_id), "{claim:?}"),
            [first] => {
                assert!(claims.iter().any(|other| other.span_id == first.span_id && other.trace_id == first.trace_id));
                assert!(decides(&first.span_id), "{claim:?}");
            }
            _ => panic!("{claim:?}"),
        }
    }
}
