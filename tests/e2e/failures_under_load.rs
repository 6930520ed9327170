//! A stream of messages, by the Rust client, while what carries it fails.

use std::{collections::BTreeMap, net::TcpStream, sync::mpsc, time::Duration};

use nix::sys::signal::Signal;
use teamwire_client::{Client, Event, SubscribeOptions, message, v1};
use teamwire_proto::v1::message::Body;
use tokio::{runtime::Runtime, task::JoinSet};

use crate::world::{LEAD, PATIENCE, World};

/// How many clients send.
const SENDERS: usize = 4;

/// How many messages each sends.
const EACH: usize = 75;

/// After how many arrivals something fails, where it is over at once.
pub(super) const THREE_TIMES: &[usize] = &[40, 120, 200];

store_scenarios! {
    a_waiting_session_delivers_new_messages_without_store_reads,
    simultaneous_connections_to_a_stalled_coordinator_wait_and_are_not_refused,
}

redis_scenarios! {
    a_redis_killed_under_load_loses_nothing_and_repeats_nothing,
    clients_wait_for_a_redis_that_hangs,
    two_coordinators_on_one_redis_serve_one_team,
}

fn a_redis_killed_under_load_loses_nothing_and_repeats_nothing(mut world: World) {
    under_load(&mut world, THREE_TIMES, |world| {
        world.with_redis(|redis| {
            redis.kill();
            redis.restart();
        });
    });
}

fn clients_wait_for_a_redis_that_hangs(mut world: World) {
    under_load(&mut world, &[100], |world| {
        world.with_redis(|redis| redis.signal(Signal::SIGSTOP));
        // The fault itself: this is how long it lasts.
        std::thread::sleep(Duration::from_secs(3));
        world.with_redis(|redis| redis.signal(Signal::SIGCONT));
    });
}

fn a_waiting_session_delivers_new_messages_without_store_reads(world: World) {
    world.create_team("acme");
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    let client = |name: &str| {
        let credential = world.join(name);
        Client::connect(&world.coordinator.address()).unwrap().with_credential(&credential).unwrap()
    };
    let (ann, bob) = (client("ann"), client("bob"));
    runtime.block_on(async {
        let mut inbox = bob.subscribe(SubscribeOptions::default());
        assert!(matches!(next(&mut inbox).await, Event::Opened(_)));
        let take_one = async |inbox: &mut teamwire_client::Subscription| {
            ann.send(message::direct("bob", "a number", "7")).await.unwrap();
            let Event::Delivery(delivery) = next(inbox).await else { panic!("no message") };
            delivery.ack();
        };
        // The session looks into the store once, as it opens.
        take_one(&mut inbox).await;
        let reads = || world.coordinator.metric("teamwire_store_seconds_count{operation=\"range\"}");
        let before = reads();
        for _ in 0..EACH {
            take_one(&mut inbox).await;
        }
        // The reconciler may find a message before its notification has arrived, and has the session look. It comes
        // every few seconds, and not with each message.
        let count = reads() - before;
        assert!(count < EACH as f64 / 3.0, "{EACH} messages took {count} reads of the store");
    });
}

fn simultaneous_connections_to_a_stalled_coordinator_wait_and_are_not_refused(world: World) {
    world.coordinator.signal(Signal::SIGSTOP);
    let dial = |_| TcpStream::connect_timeout(&world.coordinator.socket(), PATIENCE);
    let all: Result<Vec<_>, _> = (0..500).map(dial).collect();
    world.coordinator.signal(Signal::SIGCONT);
    all.unwrap();
}

/// Has [`SENDERS`] clients send to one, has things fail after so many arrivals, and checks what arrived.
pub(super) fn under_load(world: &mut World, faults_at: &[usize], fail: impl Fn(&mut World)) {
    world.create_team("acme");
    let address = world.coordinator.address();
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    let client = |credential: String| Client::connect(&address).unwrap().with_credential(&credential).unwrap();
    let sink = client(world.join("sink"));
    let senders: Vec<_> = (0..SENDERS).map(|number| client(world.join(&format!("sender-{number}")))).collect();

    let (arrivals, arrived) = mpsc::channel();
    let receiving = runtime.spawn(receive(sink.clone(), arrivals));
    let mut sending = JoinSet::new();
    for sender in senders {
        sending.spawn_on(send_all(sender), runtime.handle());
    }

    let mut received: Vec<(String, String)> = Vec::new();
    while received.len() < SENDERS * EACH {
        let next = arrived.recv_timeout(PATIENCE);
        received.push(next.unwrap_or_else(|_| panic!("only {} have arrived", received.len())));
        if faults_at.contains(&received.len()) {
            fail(world);
        }
    }
    while let Some(sent) = runtime.block_on(sending.join_next()) {
        sent.unwrap();
    }
    receiving.abort();

    let mut of_each: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (sender, content) in received {
        of_each.entry(sender).or_default().push(content);
    }
    let numbers: Vec<_> = (0..EACH).map(|number| number.to_string()).collect();
    assert_eq!(of_each.len(), SENDERS);
    for (sender, contents) in of_each {
        assert_eq!(contents, numbers, "{sender}'s messages, as they arrived");
    }
    let left = runtime.block_on(sink.list_inbox(v1::ListInboxRequest::default())).unwrap();
    assert_eq!(left.total, 0, "unprocessed though acknowledged: {left:?}");
    let messages = world.history(LEAD).iter().filter(|entry| entry["message"]["type"] == "message").count();
    assert_eq!(messages, SENDERS * EACH, "in the history");
}

/// Sends numbers, each after the one before was accepted.
async fn send_all(client: Client) {
    for number in 0..EACH {
        client.send(message::direct("sink", "a number", number.to_string())).await.unwrap();
    }
}

/// Reports sender and content of what arrives, as an application would see it. Every message is acknowledged for good
/// before the last one is reported.
async fn receive(client: Client, arrivals: mpsc::Sender<(String, String)>) {
    let mut inbox = client.subscribe(SubscribeOptions::default());
    let mut count = 0;
    while let Some(event) = inbox.next().await {
        let Event::Delivery(delivery) = event.unwrap() else { continue };
        let Some(Body::Message(body)) = &delivery.message.body else { continue };
        delivery.ack();
        count += 1;
        if count == SENDERS * EACH {
            inbox.flush().await.unwrap();
        }
        let sender = delivery.message.sender.clone().unwrap_or_default().name;
        if arrivals.send((sender, body.content.clone())).is_err() {
            return;
        }
    }
}

fn two_coordinators_on_one_redis_serve_one_team(world: World) {
    world.create_team("acme");
    let other = world.another_coordinator();
    let credential = world.join("ann");
    let at = |address: String| Client::connect(&address).unwrap().with_credential(&credential).unwrap();
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    let (here, there) = (at(world.coordinator.address()), at(other.address()));
    runtime.block_on(async {
        let mut inbox = there.subscribe(SubscribeOptions::default());
        let opened = inbox.next().await.unwrap().unwrap();
        assert!(matches!(opened, Event::Opened(_)), "{opened:?}");

        // Sent through one, read from the other.
        world.cli(LEAD, &["send", "ann", "across"]).succeeds();
        let Event::Delivery(delivery) = next(&mut inbox).await else { panic!("no message") };
        let Some(Body::Message(body)) = &delivery.message.body else { panic!("{delivery:?}") };
        assert_eq!(body.content, "across");
        delivery.ack();
        inbox.flush().await.unwrap();
        assert!(world.take_inbox("ann").is_empty());

        // A session at one ends the session at the other.
        let mut newer = here.subscribe(SubscribeOptions::default());
        let Event::Closed(closed) = next(&mut inbox).await else { panic!("both hold the inbox") };
        assert_eq!(closed, teamwire_client::Closed::Superseded);
        let refused = there.send(message::direct("team-lead", "am I?", "am I still ann?")).await.unwrap_err();
        assert_eq!(refused.reason(), Some(teamwire_client::Reason::SessionSuperseded), "{refused}");
        assert!(matches!(next(&mut newer).await, Event::Opened(_)));

        // Asked at one, answered at the other.
        let asked = world.cli(LEAD, &["shutdown", "ann", "--json"]).succeeds().json();
        let request_id = asked["request_id"].as_str().unwrap();
        let Event::Delivery(delivery) = next(&mut newer).await else { panic!("no request") };
        assert_eq!(delivery.message.request_id, request_id);
        let apart = at(other.address());
        apart.approve_shutdown(request_id).await.unwrap();
        let Event::ShutdownApproved { request_id: of } = next(&mut newer).await else { panic!("not approved") };
        assert_eq!(of, request_id);
        world.cli(LEAD, &["requests", request_id, "--wait"]).exits(0);
    });
}

/// Returns what comes next, and must come.
async fn next(inbox: &mut teamwire_client::Subscription) -> Event {
    let event = tokio::time::timeout(PATIENCE, inbox.next()).await.expect("something comes");
    event.expect("the subscription continues").expect("no refusal")
}
