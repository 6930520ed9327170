//! Heartbeats: a member that calls, or has a session open, keeps its lease. Heartbeats are gathered for a moment and
//! written in batches, one transaction per team. Whenever a team's batch is written, the members with an open session
//! join it unless they have a recent heartbeat. So a team costs a transaction every few seconds, however many sessions
//! it has.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
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

/// How many teams' batches are written at once.
const AT_ONCE: usize = 32;

/// How many members' latest heartbeats are kept. Beyond it, those that no longer matter are dropped; if those are less
/// than half, all are, at the cost of a few writes.
const REMEMBERED_MAX: usize = 262_144;

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

impl Gathered {
    /// Returns whether a heartbeat of the member is to be written. If so, it counts as written.
    fn begin(&mut self, namespace: &Namespace, member: &Name, good_for: Duration) -> bool {
        let place = (namespace.clone(), member.clone());
        if self.written.get(&place).is_some_and(|at| at.elapsed() < good_for) {
            return false;
        }
        if self.written.len() >= REMEMBERED_MAX {
            self.written.retain(|_, at| at.elapsed() < good_for);
            if self.written.len() > REMEMBERED_MAX / 2 {
                self.written.clear();
            }
        }
        self.written.insert(place, Instant::now());
        true
    }
}

impl Heartbeats {
    /// Makes a store of heartbeats that renew leases of this length.
    pub fn for_leases_of(lease_ttl: Duration) -> Self {
        Self { gathered: Mutex::default(), good_for: GOOD_FOR.min(lease_ttl / 6) }
    }

    /// Awaits something for a caller that is authenticated, and records its heartbeats until then: a caller that waits
    /// is alive.
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
        if gathered.begin(namespace, member, self.good_for) {
            gathered.pending.entry(namespace.clone()).or_default().insert(member.clone());
        }
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

    /// Writes the gathered heartbeats, and with those of a team those of its open sessions.
    pub async fn write(&self, coordinator: &Coordinator) {
        let pending = std::mem::take(&mut self.gathered.lock().pending);
        stream::iter(pending)
            .for_each_concurrent(AT_ONCE, |(namespace, members)| self.write_team(coordinator, namespace, members))
            .await;
    }

    async fn write_team(&self, coordinator: &Coordinator, namespace: Namespace, mut members: BTreeSet<Name>) {
        let open = coordinator.notifier().members_with_sessions(&namespace);
        {
            let mut gathered = self.gathered.lock();
            members.extend(open.into_iter().filter(|member| gathered.begin(&namespace, member, self.good_for)));
        }
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

    /// Writes periodically until cancelled.
    pub async fn run(self: Arc<Self>, coordinator: Arc<Coordinator>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(WRITE_INTERVAL)).await.is_some() {
            self.write(&coordinator).await;
        }
    }
}
