//! Recording how far a session has gotten: at the cost of one store call, and even in a full store.

use std::sync::Arc;

use teamwire_proto::{Reason, name::Name, v1};
use teamwire_server::{
    coordinator::Coordinator,
    domain::{
        Limits,
        records::{CursorRecord, RecordType as _, SessionRecord},
        session::Opened,
    },
    store::{Key, Namespace, Store, embedded::EmbeddedStore},
};

use crate::{
    calls::RuleCalls as _,
    counting::{Counting, counted},
    fillable::Fillable,
    team::*,
};

/// A session of `bob` in the team `alpha`, and a sender.
struct World {
    coordinator: Arc<Coordinator>,
    namespace: Namespace,
    lead: Member,
    bob: Name,
    session: SessionRecord,
}

impl World {
    async fn on(store: Arc<dyn Store>) -> Self {
        let coordinator = coordinator(store, Limits::default()).await;
        let lead = coordinator.create_team(&operator(), &create("alpha")).await.unwrap();
        let lead = Member::new("lead", &lead.credential);
        let invite = v1::InviteRequest { member: "bob".to_owned(), ..Default::default() };
        let token = coordinator.invite(&lead.who, &invite).await.unwrap().join_token;
        let joined = coordinator.join(&presented(&token), &v1::JoinRequest::default()).await.unwrap();
        let bob = presented(&joined.credential);
        let opened = coordinator.open_session(&bob, &v1::StreamRequest::default()).await.unwrap();
        let Opened::Session { member, record, .. } = opened.opened else { panic!("{opened:?}") };
        Self { coordinator, namespace: opened.namespace, lead, bob: member, session: record }
    }

    /// Records that the session has delivered everything up to a sequence.
    async fn advance_to(&self, delivered: u64) {
        let cursor = CursorRecord { epoch: self.session.epoch, delivered, reserved: delivered, ..Default::default() };
        let session_id = &self.session.session_id;
        self.coordinator.advance(&self.namespace, &self.bob, session_id, &cursor).await.unwrap();
    }

    async fn close_at(&self, delivered: u64) {
        let cursor = CursorRecord { epoch: self.session.epoch, delivered, reserved: delivered, ..Default::default() };
        let session_id = &self.session.session_id;
        self.coordinator.close_session(&self.namespace, &self.bob, session_id, &cursor).await.unwrap();
    }

    /// Returns how far the session has gotten, as the store has it.
    async fn delivered(&self) -> u64 {
        let key = Key::new(CursorRecord::KIND, self.bob.folded());
        let record = self.coordinator.store().read(&self.namespace, &[key]).await.unwrap().remove(0).unwrap();
        CursorRecord::decode(&record.data).unwrap().delivered
    }
}

#[tokio::test]
async fn a_send_and_the_record_of_its_delivery_cost_one_store_call_each() {
    let w = World::on(Arc::new(Counting(EmbeddedStore::in_memory().unwrap()))).await;
    for n in 1..=3 {
        let (sent, calls) = counted(w.coordinator.send(&w.lead.who, &message("bob", "x"))).await;
        assert_eq!((sent.unwrap().recipients.len(), calls), (1, 1), "send {n}");
        let ((), calls) = counted(w.advance_to(n)).await;
        assert_eq!((w.delivered().await, calls), (n, 1), "delivery {n}");
    }
}

#[tokio::test]
async fn a_session_records_its_progress_even_in_a_full_store() {
    let full = Fillable::new();
    let w = World::on(full.clone()).await;
    full.fill();
    let refused = w.coordinator.send(&w.lead.who, &message("bob", "x")).await.unwrap_err();
    assert_eq!(refused.reason, Reason::StoreFull, "{refused}");
    w.advance_to(5).await;
    assert_eq!(w.delivered().await, 5);
    w.close_at(7).await;
    assert_eq!(w.delivered().await, 7);
}
