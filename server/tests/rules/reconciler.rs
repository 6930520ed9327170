//! The worker that checks whether sessions have missed something.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use teamwire_server::{
    delivery::reconciler,
    store::{Store, StoreError, StoreLayer, model::ModelStore},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::team::*;

/// A store that counts how many times the worker asks for a team's version, and for the extents of its inboxes.
#[derive(Debug)]
struct CountingStore {
    store: Arc<dyn Store>,
    versions: watch::Sender<usize>,
    extents: AtomicUsize,
}

impl StoreLayer for CountingStore {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        match operation {
            "version" => self.versions.send_modify(|versions| *versions += 1),
            "extents" => drop(self.extents.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
        call.await
    }
}

#[tokio::test(start_paused = true)]
async fn the_reconciler_reads_only_the_version_of_a_team_until_it_changes() {
    let store = Arc::new(CountingStore {
        store: ModelStore::new(),
        versions: watch::Sender::new(0),
        extents: AtomicUsize::new(0),
    });
    let t = Team::on(store.clone(), |_| ()).await;
    let bob = t.join("bob").await;
    let mut session = t.open(&bob).await;
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let opened = store.extents.load(Ordering::Relaxed);
    tokio::spawn(reconciler::run(Arc::clone(&t.coordinator), stop));
    let mut versions = store.versions.subscribe();

    versions.wait_for(|versions| *versions == 3).await.unwrap();
    let looked = store.extents.load(Ordering::Relaxed);
    assert!((opened + 1..=opened + 2).contains(&looked), "{opened} {looked}");
    versions.wait_for(|versions| *versions == 10).await.unwrap();
    assert_eq!(store.extents.load(Ordering::Relaxed), looked);

    // What happens at another coordinator makes it look again, although no notification says so.
    let other = t.another_coordinator().await;
    other.send(&t.lead.who, &message("bob", "hello")).await.unwrap();
    session.delivery().await;
    assert!(store.extents.load(Ordering::Relaxed) > looked);
}
