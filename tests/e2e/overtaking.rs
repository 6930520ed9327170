//! A request to end reaches a member whatever else waits for it.

use teamwire_client::{Client, Delivery, Event, SubscribeOptions, Subscription, message};
use teamwire_proto::v1::message::Body;
use tokio::{runtime::Runtime, time::timeout};

use crate::world::{LEAD, PATIENCE, World, is_alive};

scenarios! {
    program_that_reads_nothing_is_approved_and_ended,
    program_that_works_on_a_batch_is_approved_and_ended,
    force_ends_a_program_that_reads_nothing,
}

store_scenarios! {
    member_that_acknowledges_nothing_is_asked_and_then_gets_the_rest_in_order,
}

redis_scenarios! {
    request_sent_to_another_coordinator_reaches_a_member_that_acknowledges_nothing,
}

/// Never reads its input.
const DEAF: &str = "exec sleep 600";

/// More than a session delivers without an acknowledgement: 64.
const MANY: usize = 70;

fn runtime() -> Runtime {
    Runtime::new().unwrap()
}

fn client(world: &World, credential: &str) -> Client {
    Client::connect(&world.coordinator.address()).unwrap().with_credential(credential).unwrap()
}

/// Makes the coordinator's inboxes so small that [`MANY`] messages fill them.
fn bound_inboxes(world: &mut World) {
    world.coordinator.restart_with(&[("TEAMWIRE_LIMITS_INBOX_ENTRIES_MAX", &MANY.to_string())]);
}

/// Fills a member's inbox with numbered messages of the lead.
async fn fill(world: &World, member: &str) {
    let lead = client(world, &world.credential(LEAD));
    for number in 1..=MANY {
        lead.send(message::direct(member, "a number", number.to_string())).await.unwrap();
    }
}

fn program_that_reads_nothing_is_approved_and_ended(mut world: World) {
    bound_inboxes(&mut world);
    world.create_team("acme");
    let deaf = world.run("deaf", &["--on-shutdown", "approve", "--grace", "1"], DEAF).ready();
    let program = deaf.program();
    runtime().block_on(fill(&world, "deaf"));
    world.cli(LEAD, &["send", "deaf", "one more"]).exits(1).complains_of("INBOX_FULL");
    world.cli(LEAD, &["shutdown", "deaf", "--wait"]).succeeds();
    assert!(!is_alive(program));
    assert_eq!(deaf.exit(), 0);
}

fn program_that_works_on_a_batch_is_approved_and_ended(mut world: World) {
    bound_inboxes(&mut world);
    world.create_team("acme");
    let busy = world.run("busy", &["--via", "exec", "--on-shutdown", "approve", "--grace", "1"], DEAF);
    busy.await_log("connected");
    runtime().block_on(fill(&world, "busy"));
    busy.await_log("started process");
    let program = busy.program();
    world.cli(LEAD, &["shutdown", "busy", "--wait"]).succeeds();
    assert!(!is_alive(program));
    assert_eq!(busy.exit(), 0);
}

fn force_ends_a_program_that_reads_nothing(world: World) {
    world.create_team("acme");
    let deaf = world.run("deaf", &[], DEAF).ready();
    let program = deaf.program();
    runtime().block_on(fill(&world, "deaf"));
    world.cli(LEAD, &["shutdown", "deaf", "--force"]).succeeds();
    deaf.exit();
    assert!(!is_alive(program));
}

/// Waits for the next message.
async fn next(subscription: &mut Subscription) -> Box<Delivery> {
    loop {
        match timeout(PATIENCE, subscription.next()).await.expect("a message").unwrap().unwrap() {
            Event::Delivery(delivery) => return delivery,
            Event::Opened(_) | Event::Lost { .. } => {}
            other => panic!("no message: {other:?}"),
        }
    }
}

/// Takes messages without acknowledging any until the shutdown request comes. Returns it and the messages before it.
async fn until_asked(subscription: &mut Subscription) -> (Box<Delivery>, Vec<Box<Delivery>>) {
    let mut before = Vec::new();
    loop {
        let delivery = next(subscription).await;
        if matches!(delivery.message.body, Some(Body::ShutdownRequest(_))) {
            return (delivery, before);
        }
        before.push(delivery);
    }
}

fn member_that_acknowledges_nothing_is_asked_and_then_gets_the_rest_in_order(world: World) {
    world.create_team("acme");
    let credential = world.join("ann");
    runtime().block_on(async {
        fill(&world, "ann").await;
        let member = client(&world, &credential);
        // Asked during the first session; the second one opens on the backlog.
        let mut first = member.subscribe(SubscribeOptions::default());
        let request_id = client(&world, &world.credential(LEAD)).request_shutdown("ann", "done?").await.unwrap();
        let (request, before) = until_asked(&mut first).await;
        assert_eq!((&request.message.request_id, request.delivery_count), (&request_id, 1));
        assert!(before.len() <= 64, "{} messages without an acknowledgement", before.len());
        drop(first);

        let mut second = member.subscribe(SubscribeOptions::default());
        let (request, mut taken) = until_asked(&mut second).await;
        assert_eq!((&request.message.request_id, request.delivery_count), (&request_id, 2));
        member.reject_shutdown(&request_id, "not yet").await.unwrap();
        request.ack();
        taken.iter().for_each(|delivery| delivery.ack());
        while taken.len() < MANY {
            let delivery = next(&mut second).await;
            delivery.ack();
            taken.push(delivery);
        }
        let sequences: Vec<_> = taken.iter().map(|delivery| delivery.sequence).collect();
        assert_eq!(sequences, (1..=MANY as u64).collect::<Vec<_>>());
        second.flush().await.unwrap();
    });
    assert!(world.take_inbox("ann").is_empty());
}

fn request_sent_to_another_coordinator_reaches_a_member_that_acknowledges_nothing(world: World) {
    world.create_team("acme");
    let credential = world.join("ann");
    let other = world.another_coordinator();
    runtime().block_on(async {
        fill(&world, "ann").await;
        let mut subscription = client(&world, &credential).subscribe(SubscribeOptions::default());
        for sequence in 1..=64 {
            assert_eq!(next(&mut subscription).await.sequence, sequence);
        }
        let lead = Client::connect(&other.address()).unwrap().with_credential(&world.credential(LEAD)).unwrap();
        let request_id = lead.request_shutdown("ann", "done?").await.unwrap();
        let request = next(&mut subscription).await;
        assert_eq!((&request.message.request_id, request.sequence), (&request_id, MANY as u64 + 1));
    });
}
