//! The worker that carries out what is due, on a store of which a part cannot be read.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use teamwire_proto::{
    name::Name,
    v1::{self, NoticeKind, RequestState},
};
use teamwire_server::{
    delivery::{AlertWorker, Heartbeats, Targets, due_worker},
    store::{Leases, Namespace, Store, StoreError, StoreLayer, embedded::EmbeddedStore},
};
use tokio_util::sync::CancellationToken;

use crate::team::*;

/// A store that cannot read the leases of one namespace.
#[derive(Debug)]
struct Unreadable {
    store: Arc<dyn Store>,
    namespace: OnceLock<Namespace>,
}

impl StoreLayer for Unreadable {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError> {
        if self.namespace.get() == Some(namespace) {
            return Err(StoreError::Unavailable("its slot is moving".to_owned()));
        }
        self.store.leases(namespace).await
    }
}

#[tokio::test]
async fn an_unreadable_team_does_not_stop_the_due_work_of_others() {
    let store = Arc::new(Unreadable { store: EmbeddedStore::in_memory().unwrap(), namespace: OnceLock::new() });
    let t = Team::on(store.clone(), |limits| limits.shutdown_deadline = Duration::ZERO).await;
    t.join("bob").await;
    t.coordinator.create_team(&operator(), &create("beta")).await.unwrap();
    store.namespace.set(Namespace::team(&Name::parse("beta", "name").unwrap())).unwrap();
    let request_id = t.ask(&t.lead, shutdown("bob")).await;

    let stop = CancellationToken::new();
    let heartbeats = Arc::new(Heartbeats::default());
    let (alerts, _) = AlertWorker::new(Targets::default());
    let worker = tokio::spawn(due_worker::run(t.coordinator.clone(), heartbeats, alerts, stop.clone()));
    let timeout = Some(prost_types::Duration { seconds: 20, nanos: 0 });
    let wait = v1::WaitForDecisionRequest { request_id, timeout, ..Default::default() };
    let decided = t.coordinator.wait_for_decision(&t.lead.who, &wait).await.unwrap();
    assert_eq!(decided.state(), RequestState::Expired);
    assert_eq!(t.notices(&t.lead, NoticeKind::RequestExpired).await.len(), 1);
    stop.cancel();
    worker.await.unwrap();
}
