//! Heartbeats: a member that calls, or has a session open, keeps its lease. Heartbeats are gathered for a moment and
//! written in batches, one transaction per team.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use teamwire_proto::{credential::Credential, name::Name};
use tokio_util::sync::CancellationToken;

use crate::{
    coordinator::Coordinator,
    domain::{Limits, identity::CallerCredentials},
    store::Namespace,
};

/// How often gathered heartbeats are written.
const WRITE_INTERVAL: Duration = Duration::from_millis(500);

/// How long a member's heartbeat lasts: another within this time is not written. At most a sixth of the lease.
const GOOD_FOR: Duration = Duration::from_secs(5);

/// How many members' latest heartbeats are kept; beyond it all are dropped, at the cost of a few writes.
const REMEMBERED_MAX: usize = 65_536;

/// Gathers heartbeats.
#[derive(Debug)]
pub struct Heartbeats {
    gathered: Mutex<Gathered>,
    good_for: Duration,
}

impl Default for Heartbeats {
    fn default() -> Self {
        Self::for_leases_of(Limits::default().lease_ttl)
    }
}

#[derive(Debug, Default)]
struct Gathered {
    pending: HashMap<Namespace, BTreeSet<Name>>,
    written: HashMap<(Namespace, Name), Instant>,
}

impl Heartbeats {
    /// Makes a store of heartbeats that renew leases of this length.
    pub fn for_leases_of(lease_ttl: Duration) -> Self {
        Self { gathered: Mutex::default(), good_for: GOOD_FOR.min(lease_ttl / 6) }
    }

    /// Awaits something for a caller that is authenticated, and records its heartbeats until then: a caller that waits is
    /// alive.
    pub async fn while_waiting<T>(&self, who: &CallerCredentials, waited: impl Future<Output = T>) -> T {
        let beats = async {
            loop {
                self.record_caller(who);
                tokio::time::sleep(self.good_for / 2).await;
            }
        };
        tokio::select! {
            biased;
            value = waited => value,
            never = beats => never,
        }
    }

    /// Records a heartbeat of a member.
    pub fn record(&self, namespace: &Namespace, member: &Name) {
        let mut gathered = self.gathered.lock();
        let place = (namespace.clone(), member.clone());
        if gathered.written.get(&place).is_some_and(|at| at.elapsed() < self.good_for) {
            return;
        }
        if gathered.written.len() >= REMEMBERED_MAX {
            gathered.written.clear();
        }
        gathered.written.insert(place, Instant::now());
        gathered.pending.entry(namespace.clone()).or_default().insert(member.clone());
    }

    /// Records a heartbeat of the member that calls, if it is one.
    pub fn record_caller(&self, who: &CallerCredentials) {
        if let Credential::Member { team, member, .. } = &who.credential {
            self.record(&Namespace::team(team), member);
        }
    }

    /// Records a heartbeat for every open session, however recently the last one was written.
    pub fn record_open_sessions(&self, coordinator: &Coordinator) {
        self.gathered.lock().written.clear();
        for session in coordinator.notifier().sessions() {
            self.record(&session.namespace, &session.member);
        }
    }

    /// Writes the gathered heartbeats.
    pub async fn write(&self, coordinator: &Coordinator) {
        let pending = std::mem::take(&mut self.gathered.lock().pending);
        for (namespace, members) in pending {
            let names: Vec<Name> = members.into_iter().collect();
            if let Err(refusal) = coordinator.renew(&namespace, &names).await {
                tracing::debug!(?namespace, %refusal, "leases could not be renewed");
                let mut gathered = self.gathered.lock();
                for name in &names {
                    gathered.written.remove(&(namespace.clone(), name.clone()));
                }
                gathered.pending.entry(namespace).or_default().extend(names);
            }
        }
    }

    /// Writes periodically until cancelled.
    pub async fn run(self: Arc<Self>, coordinator: Arc<Coordinator>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(WRITE_INTERVAL)).await.is_some() {
            self.write(&coordinator).await;
        }
    }
}
