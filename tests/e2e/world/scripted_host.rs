//! A host that a test plays: it takes orders with the Rust client, and starts real runners.

use teamwire_client::{Client, Delivery, Event, SubscribeOptions, Subscription, v1};
use teamwire_proto::v1::message::Body;
use tokio::{runtime::Runtime, time::timeout};

use super::{LEAD, PATIENCE, Runner, World};

/// A host that does with an order what the test says.
pub(crate) struct ScriptedHost {
    runtime: Runtime,
    pub client: Client,
    inbox: Subscription,
}

/// An order that a host has received, and not acknowledged yet.
pub(crate) struct Order {
    delivery: Box<Delivery>,
    /// The request.
    pub id: String,
    /// The member to start.
    pub member: String,
    pub terms: v1::SpawnTerms,
}

/// Returns an offer of the profiles, with the labels, such as `gpu=a100`.
pub(crate) fn offer(profiles: &[&str], labels: &[(&str, &str)], slots: u32) -> v1::HostOffer {
    let profile = |name: &&str| v1::HostProfile { name: (*name).to_owned(), ..v1::HostProfile::default() };
    let label = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    v1::HostOffer {
        labels: labels.iter().map(label).collect(),
        profiles: profiles.iter().map(profile).collect(),
        slots,
        platform: "linux/test".to_owned(),
    }
}

impl ScriptedHost {
    /// Joins with what `teamwire invite --host` prints, says what it offers, and waits for orders.
    pub(crate) fn join(world: &World, name: &str, offer: v1::HostOffer) -> Self {
        let invited = world.cli(LEAD, &["invite", name, "--host"]).succeeds();
        let runtime = Runtime::new().unwrap();
        let (client, inbox) = runtime.block_on(async {
            let client = teamwire_client::join_host(invited.stdout.trim(), name).await.unwrap();
            let mut inbox = client.subscribe(SubscribeOptions::default());
            let opened = timeout(PATIENCE, inbox.next()).await.expect("the session opens");
            assert!(matches!(opened, Some(Ok(Event::Opened(_)))), "{opened:?}");
            client.update_host(v1::UpdateHostRequest { offer: Some(offer) }).await.unwrap();
            (client, inbox)
        });
        Self { runtime, client, inbox }
    }

    /// Waits for the next order.
    #[track_caller]
    pub(crate) fn next_order(&mut self) -> Order {
        let delivery = self.runtime.block_on(async {
            loop {
                match timeout(PATIENCE, self.inbox.next()).await.expect("an order").unwrap().unwrap() {
                    Event::Delivery(delivery) => break delivery,
                    Event::Opened(_) | Event::Lost { .. } => {}
                    other => panic!("no order: {other:?}"),
                }
            }
        });
        let Some(Body::SpawnOrder(order)) = &delivery.message.body else { panic!("no order: {delivery:?}") };
        let (id, member) = (delivery.message.request_id.clone(), order.member.clone());
        let terms = order.terms.clone().unwrap();
        Order { delivery, id, member, terms }
    }

    /// Takes an order. Returns the join token, or why the coordinator refuses.
    pub(crate) fn take(&self, order: &Order) -> Result<String, teamwire_client::Error> {
        let request = v1::TakeOrderRequest { request_id: order.id.clone() };
        Ok(self.runtime.block_on(self.client.take_order(request))?.join_token)
    }

    /// Carries out an order: starts a script as the member, by `teamwire run` in the member's directory.
    #[track_caller]
    pub(crate) fn start(&self, world: &World, order: &Order, script: &str) -> Runner {
        let join_string = format!("{}@{}", self.take(order).unwrap(), world.coordinator.local_address());
        let runner = world.run_again(&order.member, &["--join", &join_string], script);
        order.delivery.ack();
        runner
    }

    /// Refuses an order.
    #[track_caller]
    pub(crate) fn refuse(&self, order: &Order, reason: &str) {
        let request =
            v1::RefuseOrderRequest { request_id: order.id.clone(), reason: reason.to_owned(), try_another_host: false };
        self.runtime.block_on(self.client.refuse_order(request)).unwrap();
        order.delivery.ack();
    }

    /// Leaves the team.
    pub(crate) fn leave(self) {
        self.runtime.block_on(self.client.leave(v1::LeaveRequest::default())).unwrap();
    }
}
