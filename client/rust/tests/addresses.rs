//! Clients of several coordinators: which they try, which they leave, and how they resolve names.

use std::{
    collections::HashSet,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::{FutureExt as _, future::BoxFuture};
use teamwire_client::{
    Client, ConnectOptions, Error, Event, Reason, Refusal, Resolve, Retry, SubscribeOptions, Subscription, message,
    v1::CloseReason,
};
use teamwire_test_coordinator::{Coordinator, MEMBER};
use tokio::{net::TcpListener, runtime::Runtime};

/// Returns an address without a listener.
async fn dead() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address")
}

fn client(address: &str) -> Client {
    Client::connect(address).expect("an address").with_credential(MEMBER).expect("a credential")
}

fn both(a: &Coordinator, b: &Coordinator) -> Client {
    client(&format!("{},{}", a.url(), b.url()))
}

async fn send(client: &Client) -> Result<(), Error> {
    client.send(message::direct("lead", "s", "c")).await.map(drop)
}

fn sends(coordinator: &Coordinator) -> usize {
    coordinator.with(|state| state.sends.len())
}

fn draining() -> tonic::Status {
    Refusal::new(Reason::Draining, "going away").into()
}

async fn opened(subscription: &mut Subscription) {
    loop {
        match subscription.next().await.expect("not over").expect("no refusal") {
            Event::Opened(_) => return,
            Event::Lost { .. } => {}
            other => panic!("no session: {other:?}"),
        }
    }
}

/// A resolver that returns several addresses for a name.
#[derive(Debug)]
struct Names {
    records: Vec<SocketAddr>,
    asked: AtomicUsize,
}

impl Names {
    fn of(records: Vec<SocketAddr>) -> Arc<Self> {
        Arc::new(Self { records, asked: AtomicUsize::new(0) })
    }
}

impl Resolve for Names {
    fn resolve(&self, host: String, _: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let found =
            if host == "coordinators.test" { Ok(self.records.clone()) } else { Err(io::Error::other("unknown")) };
        async move { found }.boxed()
    }
}

fn named(address: &str, names: &Arc<Names>) -> Client {
    let options = ConnectOptions { resolver: names.clone(), ..ConnectOptions::default() };
    Client::connect_with(address, options).expect("an address").with_credential(MEMBER).expect("a credential")
}

#[tokio::test]
async fn dead_coordinators_are_skipped_within_one_attempt() {
    let coordinator = Coordinator::start().await;
    let address = format!("{},{},{}", dead().await, coordinator.url(), dead().await);
    // Often enough that the dead are tried first.
    for _ in 0..16 {
        send(&client(&address).with_retry(Retry::none())).await.expect("sent");
    }
    assert_eq!(sends(&coordinator), 16);
}

#[tokio::test]
async fn an_error_names_every_coordinator_that_failed() {
    let (a, b) = (dead().await, dead().await);
    let error = send(&client(&format!("{a},{b}")).with_retry(Retry::none())).await.expect_err("nobody");
    assert!(matches!(&error, Error::Unreachable { .. }), "{error:?}");
    assert!(
        error.to_string().contains(&format!("http://{a}: ")) && error.to_string().contains(&format!("http://{b}: "))
    );
}

#[tokio::test]
async fn clients_spread_over_coordinators() {
    let (a, b) = (Coordinator::start().await, Coordinator::start().await);
    for _ in 0..40 {
        send(&both(&a, &b)).await.expect("sent");
    }
    // The chance that all pick the same one is 1 in 500,000,000,000.
    assert!(sends(&a) > 0 && sends(&b) > 0 && sends(&a) + sends(&b) == 40);
}

#[tokio::test]
async fn all_records_of_a_name_are_resolved_and_tried_for_every_connection() {
    let coordinator = Coordinator::start().await;
    let names = Names::of(vec![dead().await, coordinator.address]);
    let client = named("http://coordinators.test:7420", &names).with_retry(Retry::none());
    send(&client).await.expect("sent");
    send(&client).await.expect("sent on the same connection");
    assert_eq!((sends(&coordinator), names.asked.load(Ordering::Relaxed)), (2, 1));
}

#[tokio::test]
async fn an_unknown_name_is_unreachable_and_an_ip_address_is_not_resolved() {
    let coordinator = Coordinator::start().await;
    let names = Names::of(vec![]);
    let error = send(&named("http://nobody.test", &names).with_retry(Retry::none())).await.expect_err("unknown");
    assert!(matches!(&error, Error::Unreachable { detail, .. } if detail == "unknown"), "{error:?}");
    let error = send(&named("http://coordinators.test", &names).with_retry(Retry::none())).await.expect_err("empty");
    assert!(error.to_string().contains("has no address"), "{error}");
    let asked = names.asked.load(Ordering::Relaxed);
    send(&named(&coordinator.url(), &names)).await.expect("sent");
    assert_eq!(names.asked.load(Ordering::Relaxed), asked);
}

#[tokio::test]
async fn a_call_refused_by_a_draining_coordinator_goes_to_another_with_the_same_key() {
    let (a, b) = (Coordinator::start().await, Coordinator::start().await);
    let client = both(&a, &b);
    send(&client).await.expect("sent");
    let (draining_one, other) = if sends(&a) == 1 { (&a, &b) } else { (&b, &a) };
    draining_one.with(|state| state.fail_sends.extend([draining()]));
    for _ in 0..5 {
        send(&client).await.expect("sent elsewhere");
    }
    // Only the refused one: the client avoids it for a while.
    assert_eq!((sends(draining_one), sends(other)), (2, 5));
    let key_of =
        |coordinator: &Coordinator, i: usize| coordinator.with(|state| state.sends[i].0.idempotency_key.clone());
    assert_eq!(key_of(draining_one, 1), key_of(other, 0));
}

#[tokio::test]
async fn a_draining_session_moves_and_calls_move_with_it() {
    let (a, b) = (Coordinator::start().await, Coordinator::start().await);
    let client = both(&a, &b);
    let mut subscription = client.subscribe(SubscribeOptions::default());
    opened(&mut subscription).await;
    let (first, second) = if a.with(|state| state.opened.len()) == 1 { (&a, &b) } else { (&b, &a) };
    first.close(CloseReason::Draining, "").await;
    opened(&mut subscription).await;
    send(&client).await.expect("sent");
    assert_eq!((first.with(|state| state.opened.len()), second.with(|state| state.opened.len())), (1, 1));
    assert_eq!((sends(first), sends(second)), (0, 1));
    // Both drain, one after the other. A draining coordinator is better than none.
    second.close(CloseReason::Draining, "").await;
    opened(&mut subscription).await;
    send(&client).await.expect("sent");
}

#[tokio::test]
async fn a_dead_coordinator_is_replaced_and_nothing_is_sent_twice() {
    // Each has its own runtime, whose end closes its connections.
    let start = || async {
        let runtime = Runtime::new().expect("a runtime");
        (runtime.spawn(Coordinator::start()).await.expect("no panic"), runtime)
    };
    let mut alive = [start().await, start().await];
    let client = both(&alive[0].0, &alive[1].0);
    let mut subscription = client.subscribe(SubscribeOptions::default());
    opened(&mut subscription).await;
    if alive[1].0.with(|state| state.opened.len()) == 1 {
        alive.swap(0, 1);
    }
    let [(first, dies), (second, lives)] = alive;
    dies.shutdown_background();
    for _ in 0..5 {
        send(&client).await.expect("sent");
    }
    opened(&mut subscription).await;
    assert_eq!((sends(&first), sends(&second)), (0, 5));
    lives.shutdown_background();
}

#[tokio::test]
async fn many_calls_at_once_share_one_connection() {
    let coordinator = Coordinator::start().await;
    let names = Names::of(vec![coordinator.address]);
    let client = named("http://coordinators.test", &names);
    let sent = futures::future::join_all((0..20).map(|_| send(&client))).await;
    assert!(sent.iter().all(Result::is_ok));
    assert_eq!(names.asked.load(Ordering::Relaxed), 1);
    let ids: HashSet<_> = coordinator.with(|s| s.sends.iter().map(|(r, _)| r.idempotency_key.clone()).collect());
    assert_eq!(ids.len(), 20);
}
