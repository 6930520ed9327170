//! One message is one trace, across all processes that it passes.

use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use teamwire_client::v1;

use crate::{
    agents,
    world::{Collector, LEAD, World, eventually},
};

scenarios! {
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
