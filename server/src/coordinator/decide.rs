//! The loop that carries out a rule.
//!
//! A rule may be decided on cached records: if they have changed, its commit fails, and the rule runs again on the
//! current ones. A refusal commits nothing, so a stale cache would go unnoticed; therefore a rule that refuses, or that
//! only reads, runs again on records read for this call before its answer is given. For the same reason the store is
//! asked for the call's idempotency key before that answer: a repeated call must get the reply of the first one,
//! whatever has changed since.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use teamwire_proto::{Reason, Refusal, failpoint};
use tracing::Instrument as _;

use super::{
    Coordinator,
    keys::{board_keys, team_key, usual_keys},
    messages::WHOLE_INBOX,
    store_errors::{corrupt, unavailable},
    turns::{Turn, Whose},
};
use crate::{
    domain::{
        Context,
        identity::{CallerCredentials, namespace_of},
        inbox::{self, InboxEntry},
        post, quota,
        records::TeamRecord,
        streams,
        tx::{CachedRecord, RuleError, Snapshot, Tx},
    },
    notify::PendingCommit,
    store::{Check, Commit, Durability, Failed, Key, Namespace, Outcome, StoreError, Txn, Write},
    telemetry::step,
};

/// How many times a commit may fail before the coordinator gives up. Each failure means that another commit has
/// succeeded.
const ATTEMPTS_MAX: u32 = 100;

/// How many times a commit may fail before the call lines up with others of which the same is true.
const ATTEMPTS_BEFORE_TURN: u32 = 3;

/// What a call's rule touches. Decides which records are loaded with the first read, and whether the call waits for its
/// turn among those that change the team's task board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touches {
    /// The team and its roster.
    Team,
    /// The life of a member. Its end gives claims back, so the call takes its turn on the board.
    Life,
    /// The board and this task, which it only reads.
    Task(u64),
    /// The board, and this task if it is known. The call takes its turn.
    Board(Option<u64>),
}

/// The result of a rule that was carried out.
#[derive(Debug)]
pub struct Done<T> {
    /// What the rule returned.
    pub value: T,
    /// How durable its change is; if it changed nothing, what the store last answered.
    pub durability: Durability,
}

impl Coordinator {
    /// Carries out a rule on the caller's team, or on the team that the operator names. Returns the rule's reply.
    pub async fn rule<T>(
        &self,
        who: &CallerCredentials,
        named: &str,
        touches: Touches,
        rule: impl Fn(&mut Tx<'_>) -> Result<T, RuleError>,
    ) -> Result<T, Refusal> {
        let namespace = namespace_of(who, named)?;
        let whose = Whose::of(who);
        let turn = self.turns.take(&namespace, &whose);
        let (_turn, keys) = match touches {
            Touches::Team => (None, usual_keys(who)),
            Touches::Life => (Some(turn.await), usual_keys(who)),
            Touches::Task(task) => (None, board_keys(who, Some(task))),
            Touches::Board(task) => (Some(turn.await), board_keys(who, task)),
        };
        Ok(self.decide_for(who, &namespace, &keys, rule).await?.value)
    }

    /// Runs a rule until it is carried out or refused. `preload`: records that the rule will want, to be read at once.
    pub async fn decide<T>(
        &self,
        namespace: &Namespace,
        preload: &[Key],
        rule: impl Fn(&mut Tx<'_>) -> Result<T, RuleError>,
    ) -> Result<Done<T>, Refusal> {
        self.decide_as(None, namespace, preload, rule).await
    }

    /// Runs a rule of a caller until it is carried out or refused.
    pub(super) async fn decide_for<T>(
        &self,
        who: &CallerCredentials,
        namespace: &Namespace,
        preload: &[Key],
        rule: impl Fn(&mut Tx<'_>) -> Result<T, RuleError>,
    ) -> Result<Done<T>, Refusal> {
        self.decide_as(Some(Whose::of(who)), namespace, preload, rule).await
    }

    /// `whose`: whose turns the call takes if its commits keep failing. `None`: it takes none.
    async fn decide_as<T>(
        &self,
        whose: Option<Whose>,
        namespace: &Namespace,
        preload: &[Key],
        rule: impl Fn(&mut Tx<'_>) -> Result<T, RuleError>,
    ) -> Result<Done<T>, Refusal> {
        // While a call of the caller lines up, others of it would only make the commits of others fail.
        let turn = match &whose {
            Some(whose) if self.contended.involve(namespace, whose) => {
                Some(self.contended.take(namespace, whose).await)
            }
            _ => None,
        };
        Decision::new(self, namespace, preload, whose, turn).run(rule).instrument(step!("decide")).await
    }

    fn context(&self) -> Context {
        Context {
            now_ms: self.clock.now_ms(),
            seed: rand::random(),
            limits: Arc::clone(&self.limits),
            operator: self.operator.borrow().clone(),
            by: self.notifier.by(),
            store_is_full: false,
        }
    }

    /// Applies what a transaction has changed to the cache, and passes it to the notifier.
    fn committed(&self, namespace: &Namespace, txn: &Txn, commit: &Commit) {
        self.clock.observe(commit.at_ms);
        // Only these commits tell how durable the store is. It need not make others as durable as it could.
        if txn.writes.iter().any(|write| matches!(write, Write::RememberReply { .. })) {
            self.durability.store(commit.durability as u8, Ordering::Relaxed);
        }
        self.cache.apply(namespace, txn, commit.version);
        self.count_decisions(txn);
        self.notifier.committed(namespace, txn, commit);
    }

    fn last_durability(&self) -> Durability {
        match self.durability.load(Ordering::Relaxed) {
            0 => Durability::Applied,
            1 => Durability::Fsynced,
            _ => Durability::Replicated,
        }
    }
}

/// A rule that is being carried out.
struct Decision<'c> {
    coordinator: &'c Coordinator,
    namespace: &'c Namespace,
    preload: &'c [Key],
    ctx: Context,
    snapshot: Snapshot,
    /// Some records of the snapshot are cached, and may be stale.
    from_cache: bool,
    /// Records may still be taken from the cache.
    cache_allowed: bool,
    whose: Option<Whose>,
    /// Its turn among the calls whose commits keep failing.
    turn: Option<Turn>,
}

impl<'c> Decision<'c> {
    fn new(
        coordinator: &'c Coordinator,
        namespace: &'c Namespace,
        preload: &'c [Key],
        whose: Option<Whose>,
        turn: Option<Turn>,
    ) -> Self {
        let mut snapshot = Snapshot::default();
        let from_cache = coordinator.cache.fill(namespace, preload, &mut snapshot);
        let ctx = coordinator.context();
        Self { coordinator, namespace, preload, ctx, snapshot, from_cache, cache_allowed: true, whose, turn }
    }

    async fn run<T>(mut self, rule: impl Fn(&mut Tx<'_>) -> Result<T, RuleError>) -> Result<Done<T>, Refusal> {
        let mut attempts = 0;
        // Between two attempts a rule runs once for each record that it misses; there are only so many.
        while attempts < ATTEMPTS_MAX {
            let mut tx = Tx::new(&self.ctx, &self.snapshot);
            // A caller that can only read is refused here, whatever its rule would write.
            let checked = rule(&mut tx).and_then(|value| tx.check_writes().map(|()| value));
            let answer = match checked {
                Err(RuleError::NeedsRecords(keys)) => {
                    self.supply(keys).await?;
                    continue;
                }
                Err(RuleError::NeedsInbox(member)) => {
                    let entries = self.coordinator.inbox_entries(self.namespace, &member, WHOLE_INBOX).await?;
                    let places = entries.into_iter().map(|(sequence, id)| (id, sequence)).collect();
                    self.snapshot.inboxes.insert(member.folded().to_owned(), places);
                    continue;
                }
                // A cached record may be older than another record that was read.
                Err(RuleError::Corrupt(_)) if self.from_cache => {
                    self.reload_uncached().await?;
                    continue;
                }
                Err(RuleError::Corrupt(what)) => return Err(corrupt(self.namespace, &what)),
                Err(RuleError::Refused(refusal)) => Err(refusal),
                Ok(value) if tx.is_read_only() => Ok(value),
                Ok(value) => {
                    if let Some(durability) = self.commit(&tx.into_txn()).await? {
                        return Ok(Done { value, durability });
                    }
                    if self.line_up(attempts).await || back_off(attempts).await {
                        // By now, what the failed check returned is stale. Running the rule on it would only cause the
                        // next conflict.
                        self.reload().await?;
                    }
                    attempts += 1;
                    continue;
                }
            };
            // There is nothing to commit, so no failing check would tell that the key was used or the cache is stale.
            let unchecked = tx.unchecked_idempotency_keys();
            if !unchecked.is_empty() {
                self.look_up(unchecked).await?;
            } else if self.from_cache {
                self.reload_uncached().await?;
            } else {
                return answer.map(|value| Done { value, durability: self.coordinator.last_durability() });
            }
        }
        Err(Refusal::new(
            Reason::StoreUnavailable,
            "Too many callers are changing the same thing at once. Try again with the same idempotency key.",
        ))
    }

    /// Takes a turn if its commits keep failing. Returns whether it has waited.
    async fn line_up(&mut self, attempts: u32) -> bool {
        let Some(whose) = self.whose.as_ref().filter(|_| attempts + 1 >= ATTEMPTS_BEFORE_TURN && self.turn.is_none())
        else {
            return false;
        };
        self.turn = Some(self.coordinator.contended.take(self.namespace, whose).await);
        true
    }

    /// Adds records that the rule has missed, and with them those of the preload that are not there yet.
    async fn supply(&mut self, mut keys: Vec<Key>) -> Result<(), Refusal> {
        if self.cache_allowed && self.coordinator.cache.fill(self.namespace, &keys, &mut self.snapshot) {
            self.from_cache = true;
            return Ok(());
        }
        self.coordinator.metrics.rerun("missing");
        let is_missing = |key: &&Key| !self.snapshot.records.contains_key(key) && !keys.contains(key);
        let rest: Vec<Key> = self.preload.iter().filter(is_missing).cloned().collect();
        keys.extend(rest);
        self.load(keys).await
    }

    /// Reads every record of the snapshot from the store, and takes no more from the cache.
    async fn reload_uncached(&mut self) -> Result<(), Refusal> {
        (self.from_cache, self.cache_allowed) = (false, false);
        self.reload().await
    }

    /// Reads every record of the snapshot again.
    async fn reload(&mut self) -> Result<(), Refusal> {
        self.coordinator.metrics.rerun("stale");
        let keys = self.snapshot.records.keys().cloned().collect();
        self.load(keys).await
    }

    async fn load(&mut self, keys: Vec<Key>) -> Result<(), Refusal> {
        let records = self.coordinator.store.read(self.namespace, &keys).await.map_err(unavailable)?;
        for (key, record) in keys.into_iter().zip(records) {
            self.keep(key, CachedRecord::new(record));
        }
        Ok(())
    }

    fn keep(&mut self, key: Key, record: Arc<CachedRecord>) {
        self.coordinator.cache.put(self.namespace, &key, &record);
        self.snapshot.records.insert(key, record);
    }

    /// Asks the store for replies recorded under idempotency keys, by transactions that check and write nothing.
    async fn look_up(&mut self, keys: Vec<String>) -> Result<(), Refusal> {
        for key in keys {
            let txn = Txn { checks: vec![Check::KeyUnused { key: key.clone() }], ..Txn::default() };
            let outcome = self.coordinator.store.commit(self.namespace, &txn).await.map_err(unavailable)?;
            let recorded = match outcome {
                Outcome::Refused(Failed::KeyUsed { data }) => Some(data),
                _ => None,
            };
            self.snapshot.replies.insert(key, recorded);
        }
        Ok(())
    }

    /// Commits a transaction. Returns how durable it is. `None` if a check failed or the store is full, and the rule
    /// must run again.
    async fn commit(&mut self, txn: &Txn) -> Result<Option<Durability>, Refusal> {
        let coordinator = self.coordinator;
        let mut pending = PendingCommit::new(&coordinator.notifier, self.namespace, txn);
        failpoint::reach("before-commit");
        let committed = coordinator.store.commit(self.namespace, txn).instrument(step!("commit")).await;
        failpoint::reach("after-commit");
        if committed.is_ok() {
            pending.is_known();
        }
        match committed {
            Err(StoreError::Full(_)) if !self.ctx.store_is_full => {
                // Without its notices, the rule's commit may fit.
                self.ctx.store_is_full = true;
                Ok(None)
            }
            Err(error @ StoreError::Full(_)) => {
                // A full store checks nothing, not even whether an earlier attempt has used the key.
                let unknown = |key: &String| !self.snapshot.replies.contains_key(key);
                let keys: Vec<String> = idempotency_keys(txn).filter(|key| unknown(key)).collect();
                if keys.is_empty() {
                    return Err(unavailable(error));
                }
                self.look_up(keys).await?;
                Ok(None)
            }
            Err(error) => Err(unavailable(error)),
            Ok(Outcome::Committed(commit)) => {
                coordinator.committed(self.namespace, txn, &commit);
                Ok(Some(commit.durability))
            }
            Ok(Outcome::Refused(failed)) => {
                coordinator.metrics.conflict(&failed);
                // Boxed, so that the futures of most calls need no room for it.
                Box::pin(self.learn(txn, failed)).await?;
                coordinator.metrics.rerun("conflict");
                Ok(None)
            }
        }
    }

    /// Adopts the current state that a failed check returned, or refuses the call if running the rule again would not
    /// help.
    async fn learn(&mut self, txn: &Txn, failed: Failed) -> Result<(), Refusal> {
        match failed {
            Failed::Version { key, current } => {
                self.keep(key, CachedRecord::new(current));
                // The record may name a message that has arrived since.
                self.snapshot.inboxes.clear();
                Ok(())
            }
            Failed::KeyUsed { data } => {
                let mut keys: Vec<String> = idempotency_keys(txn).collect();
                if keys.len() > 1 {
                    // The answer does not say which of them was used.
                    return self.look_up(keys).await;
                }
                self.snapshot.replies.extend(keys.pop().map(|key| (key, Some(data))));
                Ok(())
            }
            Failed::Lease { name } => {
                Err(Refusal::new(Reason::StoreUnavailable, format!("{name} has just called. Try again.")))
            }
            Failed::OverQuota { held } => Err(quota::team_full(held, txn.bytes_max, &self.coordinator.limits)),
            Failed::Full { stream } if stream == streams::HISTORY => {
                Err(quota::task_changes_full(weight_max(txn, &stream), &self.coordinator.limits))
            }
            Failed::Full { stream } => {
                if streams::inbox_owner(&stream).is_some() && !self.snapshot.allowances.contains_key(&stream) {
                    self.learn_allowances(txn).await?;
                    if self.snapshot.allowances.get(&stream).is_some_and(|allowance| allowance.entries > 0) {
                        return Ok(());
                    }
                }
                Err(post::inbox_full(self.team().as_deref(), &stream, &self.coordinator.limits))
            }
        }
    }
}

impl Decision<'_> {
    /// Returns the team as far as the rule has read it.
    fn team(&self) -> Option<Arc<TeamRecord>> {
        self.snapshot.records.get(&team_key()).and_then(|team| team.get::<TeamRecord>().ok().flatten())
    }

    /// Finds out how much more than its bound each inbox takes that a transaction finds full.
    async fn learn_allowances(&mut self, txn: &Txn) -> Result<(), Refusal> {
        let appended: Vec<_> = txn
            .writes
            .iter()
            .filter_map(|write| match write {
                Write::Append { stream, data, weight, bound: Some(bound) }
                    if streams::inbox_owner(stream).is_some() =>
                {
                    Some((stream, InboxEntry::decode(data)?, weight, bound))
                }
                _ => None,
            })
            .collect();
        let team = self.team();
        let inboxes: Vec<String> = appended.iter().map(|(stream, ..)| (*stream).clone()).collect();
        let extents = self.coordinator.store.extents(self.namespace, &inboxes).await.map_err(unavailable)?;
        for ((stream, entry, weight, bound), extent) in appended.into_iter().zip(extents) {
            let is_full = extent.entries >= bound.entries_max || extent.weight + weight > bound.weight_max;
            if is_full && !self.snapshot.allowances.contains_key(stream) {
                let inbox = self.coordinator.whole_inbox(self.namespace, stream).await?;
                let allowance = inbox::allowance(&inbox, &entry, team.as_deref(), &self.coordinator.limits);
                self.snapshot.allowances.insert(stream.clone(), allowance);
            }
        }
        Ok(())
    }
}

/// Returns the idempotency keys that a transaction uses.
fn idempotency_keys(txn: &Txn) -> impl Iterator<Item = String> {
    txn.checks.iter().filter_map(|check| match check {
        Check::KeyUnused { key } => Some(key.clone()),
        _ => None,
    })
}

/// Returns how much weight a stream may have after a transaction's append. `None` means any.
fn weight_max(txn: &Txn, to: &str) -> Option<u64> {
    txn.writes.iter().find_map(|write| match write {
        Write::Append { stream, bound: Some(bound), .. } if stream == to => Some(bound.weight_max),
        _ => None,
    })
}

/// Waits a little before a rule runs for the fifth time or later, longer each time. Returns whether it has waited.
async fn back_off(attempt: u32) -> bool {
    if attempt < 3 {
        return false;
    }
    let up_to = Duration::from_millis(u64::from(attempt.min(25)));
    tokio::time::sleep(up_to.mul_f64(rand::random())).await;
    true
}
