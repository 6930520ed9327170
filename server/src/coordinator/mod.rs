//! Runs the rules against the store: read, decide, commit, and again when something changed in between.
//!
//! - [`decide`]: the loop that carries out a rule. [`cache`]: records that are likely still current. [`clock`]: the
//!   store's clock, without asking it. [`turns`]: keeps changes to one task board from colliding. [`claims`]: carries
//!   out together the claims that wait in [`claim_queues`].
//! - [`messages`], [`sessions`], [`members`], [`teams`], [`requests`], [`history`], [`hosts`],
//!   [`tasks`], [`activity`], [`runner_query`], [`alerts`], [`diagnosis`], [`access`], [`audit`], [`backup`]: the
//!   calls that do more than carry out one rule. [`retention`]: finds what may be deleted.
//!   [`revoked`]: the revoked credentials, whose waiting calls and streams must end.
//! - [`team_reader`]: reads what has changed in a team, for those who watch it.
//! - [`keys`]: where records are. [`records`]: reads records that are only shown; [`batch`]: how many at once.
//!   [`store_errors`]: what callers learn when the store fails.
//!
//! Architecture invariant: no rule is in here, nothing here knows sessions' loops or the protocol's transport, and
//! nothing is decided by a clock other than the store's. (Calls that wait for something use this machine's clock to end
//! in time.)

mod access;
mod activity;
mod alerts;
mod audit;
mod backup;
pub mod batch;
mod cache;
mod claim_queues;
mod claims;
pub mod clock;
pub mod decide;
mod diagnosis;
pub mod history;
mod hosts;
pub mod keys;
mod members;
mod messages;
mod records;
mod requests;
mod retention;
mod revoked;
mod runner_query;
pub mod sessions;
mod store_errors;
mod tasks;
pub mod team_reader;
pub mod teams;
mod turns;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU8},
};

use crate::{
    domain::{Limits, alerts::AlertRules, secret::OperatorSecrets},
    notify::Notifier,
    store::{Store, StoreError},
    telemetry::Metrics,
};
use cache::Cache;
use claim_queues::ClaimQueues;
use clock::Clock;
use revoked::RevokedMembers;
use tokio::sync::watch;
use turns::Turns;

/// Decides calls. Keeps nothing that it cannot lose; any number of coordinators may share a store.
pub struct Coordinator {
    store: Arc<dyn Store>,
    limits: Arc<Limits>,
    operator: watch::Receiver<OperatorSecrets>,
    revoked: RevokedMembers,
    cache: Cache,
    clock: Clock,
    notifier: Arc<Notifier>,
    /// The turns of the calls that change a team's board.
    turns: Turns,
    /// The turns of other calls whose commits keep failing.
    contended: Turns,
    claims: ClaimQueues,
    /// The durability of the latest commit that recorded a reply.
    durability: AtomicU8,
    metrics: Arc<Metrics>,
    /// Held by the backup that is under way.
    backup: Arc<tokio::sync::Mutex<()>>,
    /// What people are notified of.
    alerts: AlertRules,
    /// Since when no other coordinator has served the store, in milliseconds since 1970. `None` if others may.
    alone_since_ms: Option<u64>,
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Coordinator {
    /// Makes a coordinator over a store, which accepts these secrets of the operator; they may change. Fails if the
    /// store does not answer.
    pub async fn new(
        store: Arc<dyn Store>,
        limits: Limits,
        operator: watch::Receiver<OperatorSecrets>,
    ) -> Result<Self, StoreError> {
        let now_ms = store.now_ms().await?;
        Ok(Self {
            store,
            limits: Arc::new(limits),
            operator,
            revoked: RevokedMembers::new(),
            cache: Cache::new(),
            clock: Clock::starting_at(now_ms),
            notifier: Arc::new(Notifier::new()),
            turns: Turns::default(),
            contended: Turns::default(),
            claims: ClaimQueues::default(),
            durability: AtomicU8::new(0),
            metrics: Arc::default(),
            backup: Arc::default(),
            alerts: AlertRules::default(),
            alone_since_ms: None,
        })
    }

    /// Declares that no other coordinator serves the store from now on: sessions that this one has not opened are over.
    pub fn alone(self) -> Self {
        Self { alone_since_ms: Some(self.clock.now_ms()), ..self }
    }

    /// Counts into `metrics` from now on.
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Returns the metrics that this coordinator counts into.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the bounds in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the notifier, which knows the open sessions of this coordinator.
    pub fn notifier(&self) -> &Arc<Notifier> {
        &self.notifier
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns what the store's clock should say now, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }
}
