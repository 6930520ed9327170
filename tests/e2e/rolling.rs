//! Coordinators that are replaced one after the other under members that work, and applications that do not notice.

use std::sync::Arc;

use nix::sys::signal::Signal;
use parking_lot::Mutex;

use teamwire_client::{Client, Event, SubscribeOptions, message, v1::message::Body};
use teamwire_proto::v1::{self, message_service_client::MessageServiceClient, stream_response::Frame};
use tokio::{runtime::Runtime, sync::watch, time::timeout};
use tonic::{Request, Streaming, transport::Channel};

use crate::{
    raw::Raw,
    world::{Coordinator, LEAD, PATIENCE, World, eventually},
};

redis_scenarios! {
    a_rolling_restart_under_load_loses_nothing_and_no_application_notices,
    a_stopping_coordinator_records_exactly_what_it_delivered_for_the_next_one,
}

/// How many messages each member takes between two restarts.
const MESSAGES_BETWEEN: usize = 100;

/// An application: sends to a partner as fast as it is answered, and takes what comes.
struct Application {
    client: Client,
    partner: &'static str,
    took: Arc<Mutex<Vec<(usize, u32)>>>,
}

impl Application {
    fn new(address: &str, credential: &str, partner: &'static str) -> Self {
        let client = Client::connect(address).unwrap().with_credential(credential).unwrap();
        Self { client, partner, took: Arc::default() }
    }

    /// Sends one message after the other until stopped. Returns how many were stored.
    async fn send(client: Client, partner: &'static str, stop: watch::Receiver<bool>) -> usize {
        let mut sent = 0;
        while !*stop.borrow() {
            client.send(message::direct(partner, "a number", sent.to_string())).await.expect("no error ever");
            sent += 1;
        }
        sent
    }

    async fn take(client: Client, took: Arc<Mutex<Vec<(usize, u32)>>>) {
        let mut inbox = client.subscribe(SubscribeOptions::default());
        while let Some(event) = inbox.next().await {
            match event.expect("no error ever") {
                Event::Delivery(delivery) => {
                    if let Some(Body::Message(text)) = &delivery.message.body {
                        took.lock().push((text.content.parse().unwrap(), delivery.delivery_count));
                    }
                    delivery.ack();
                }
                Event::Opened(_) | Event::Lost { .. } => {}
                other => panic!("an end: {other:?}"),
            }
        }
    }

    fn taken(&self) -> usize {
        self.took.lock().len()
    }
}

fn a_rolling_restart_under_load_loses_nothing_and_no_application_notices(mut world: World) {
    world.create_team("acme");
    let mut others = [world.another_coordinator(), world.another_coordinator()];
    let address = [world.coordinator.address(), others[0].address(), others[1].address()].join(",");
    let applications =
        [("ann", "bob"), ("bob", "ann")].map(|(name, partner)| Application::new(&address, &world.join(name), partner));

    let runtime = Runtime::new().unwrap();
    let (stop, stopped) = watch::channel(false);
    let running = applications.each_ref().map(|application| {
        let taking = runtime.spawn(Application::take(application.client.clone(), application.took.clone()));
        let sending = Application::send(application.client.clone(), application.partner, stopped.clone());
        (runtime.spawn(sending), taking)
    });
    let go_on = |what: &str| {
        let enough = applications.each_ref().map(|application| application.taken() + MESSAGES_BETWEEN);
        eventually(what, || {
            let is_enough = |(application, enough): (&Application, usize)| application.taken() >= enough;
            let over = running.iter().find(|(sending, taking)| sending.is_finished() || taking.is_finished());
            assert!(over.is_none(), "an application has ended");
            applications.iter().zip(enough).all(is_enough).then_some(())
        });
    };
    go_on("messages flow");
    let mut restart = |coordinator: &mut Coordinator| {
        coordinator.end();
        go_on("messages flow while one is away");
        coordinator.restart();
        go_on("messages flow when it is back");
    };
    restart(&mut world.coordinator);
    others.iter_mut().for_each(&mut restart);

    stop.send(true).unwrap();
    let sent = running.map(|(sending, _)| runtime.block_on(sending).expect("no error ever"));
    for (application, sent_by_partner) in applications.iter().zip([sent[1], sent[0]]) {
        eventually("everything is taken", || (application.taken() >= sent_by_partner).then_some(()));
        let took = application.took.lock();
        let numbers: Vec<_> = took.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (0..sent_by_partner).collect::<Vec<_>>(), "all, once, in order");
    }
    runtime.shutdown_background();
}

fn a_stopping_coordinator_records_exactly_what_it_delivered_for_the_next_one(world: World) {
    world.create_team("acme");
    let ann = world.join("ann");
    let other = world.another_coordinator();
    let addresses = [world.coordinator.address(), other.address()];
    let runtime = Runtime::new().unwrap();
    let [here, there] = addresses.map(|address| {
        let _inside = runtime.enter();
        MessageServiceClient::new(Raw::at(&address, "").channel)
    });
    let open = |mut service: MessageServiceClient<Channel>| {
        let mut request = Request::new(v1::StreamRequest::default());
        request.metadata_mut().insert("authorization", format!("Bearer {ann}").parse().unwrap());
        runtime.block_on(async { service.stream(request).await.unwrap().into_inner() })
    };
    let delivered = |stream: &mut Streaming<v1::StreamResponse>| loop {
        let next = runtime.block_on(async { timeout(PATIENCE, stream.message()).await }).unwrap().unwrap();
        match next.and_then(|response| response.frame) {
            Some(Frame::Delivery(delivery)) => return Some(delivery.delivery_count),
            Some(Frame::Closing(_)) => return None,
            _ => {}
        }
    };
    world.cli(LEAD, &["send", "ann", "before"]).succeeds();
    let mut stream = open(here);
    assert_eq!(delivered(&mut stream), Some(1));
    world.coordinator.signal(Signal::SIGTERM);
    assert_eq!(delivered(&mut stream), None);
    let mut stream = open(there);
    assert_eq!(delivered(&mut stream), Some(2), "it has not been acknowledged");
    world.cli(LEAD, &["--address", &other.address(), "send", "ann", "after"]).succeeds();
    assert_eq!(delivered(&mut stream), Some(1));
}
