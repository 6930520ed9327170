//! The one thread that writes: it takes what has queued up, evaluates it in order, and makes all of it durable at once.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::sync::{broadcast, mpsc, oneshot};

use super::{
    apply::{apply, forget},
    clock::Clock,
    file::Vault,
    plan::plan,
    tables::{CLOCK_MS, Result, Tables, VERSION},
};
use crate::store::{Commit, Durability, Namespace, Notification, Outcome, StoreError, Txn, Write};

/// How many transactions may wait for the writer. Whoever comes later waits for room.
pub(super) const QUEUE_MAX: usize = 1024;

/// How many transactions share a commit at most.
const BATCH_MAX: usize = 512;

/// The ledger's keys of past days that one commit removes at most, so that no commit takes long for them.
const FORGET_MAX: usize = 256;

/// How long nothing is written after a fault: opening the file again may mean reading all of it.
const FAULT_PAUSE: Duration = Duration::from_secs(1);

/// What the writer is asked for.
#[derive(Debug)]
pub(super) enum Job {
    Commit {
        namespace: Namespace,
        txn: Txn,
        answer: oneshot::Sender<std::result::Result<Outcome, StoreError>>,
    },
    /// A reader found the file failing.
    LookAtFile,
}

/// The writer's own things.
pub(super) struct Writer {
    pub(super) vault: Arc<Vault>,
    pub(super) clock: Arc<Clock>,
    pub(super) queue: mpsc::Receiver<Job>,
    pub(super) notifications: broadcast::Sender<Notification>,
    pub(super) durability: Durability,
    /// The last version given to a record.
    pub(super) version: u64,
    /// The clock when the last of the ledger's past keys was removed.
    pub(super) forgotten_ms: u64,
    /// When it failed last, and how.
    pub(super) fault: Option<(Instant, StoreError)>,
}

/// Why a batch was given up.
enum Fault {
    /// Before anything could have reached the file.
    Before(redb::Error),
    /// While it was being made durable.
    Committing(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Before(error.into())
    }
}

type Request<'b> = (&'b Namespace, &'b Txn);

impl Writer {
    /// Starts the thread. It ends when the other end of its queue is gone.
    pub(super) fn start(self) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name("store-writer".to_owned()).spawn(move || self.run())
    }

    fn run(mut self) {
        let mut jobs = Vec::with_capacity(BATCH_MAX);
        while self.queue.blocking_recv_many(&mut jobs, BATCH_MAX) > 0 {
            let (mut requests, mut answers) = (Vec::new(), Vec::new());
            for job in jobs.drain(..) {
                if let Job::Commit { namespace, txn, answer } = job {
                    requests.push((namespace, txn));
                    answers.push(answer);
                }
            }
            let requests: Vec<Request<'_>> = requests.iter().map(|(namespace, txn)| (namespace, txn)).collect();
            match self.carry_out(&requests) {
                Ok(outcomes) => {
                    self.publish(&requests, &outcomes);
                    for (answer, outcome) in answers.into_iter().zip(outcomes) {
                        // Nobody waits for it any more.
                        let _ = answer.send(Ok(outcome));
                    }
                }
                Err(error) => {
                    for answer in answers {
                        let _ = answer.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    fn publish(&self, requests: &[Request<'_>], outcomes: &[Outcome]) {
        for ((namespace, txn), outcome) in requests.iter().zip(outcomes) {
            if matches!(outcome, Outcome::Refused(_)) {
                continue;
            }
            for write in &txn.writes {
                if let Write::Notify { topic, by } = write {
                    // Nobody listens.
                    let _ = self.notifications.send(Notification::Topic {
                        namespace: (*namespace).clone(),
                        topic: topic.clone(),
                        by: *by,
                    });
                }
            }
        }
    }

    fn carry_out(&mut self, requests: &[Request<'_>]) -> std::result::Result<Vec<Outcome>, StoreError> {
        if let Some((at, error)) = &self.fault
            && at.elapsed() < FAULT_PAUSE
        {
            return Err(refusing(error.clone()));
        }
        let txn = match self.vault.begin_write()? {
            Some(txn) => txn,
            None => {
                self.reopen().map_err(refusing)?;
                match self.vault.begin_write()? {
                    Some(txn) => txn,
                    None => return Err(StoreError::Refusing("the file is closed".to_owned())),
                }
            }
        };
        let before = self.version;
        let fault = match txn.map_err(Fault::Before).and_then(|txn| self.write(txn, requests)) {
            Ok(outcomes) => return Ok(outcomes),
            Err(fault) => fault,
        };
        self.version = before;
        Err(self.recover(fault))
    }

    fn write(
        &mut self,
        txn: redb::WriteTransaction,
        requests: &[Request<'_>],
    ) -> std::result::Result<Vec<Outcome>, Fault> {
        let before = self.version;
        let mut tables = Tables::open(&txn)?;
        let mut outcomes = Vec::with_capacity(requests.len());
        for (namespace, request) in requests {
            outcomes.push(self.evaluate(&mut tables, namespace, request)?);
        }
        if self.version == before {
            drop(tables);
            txn.abort()?;
            return Ok(outcomes);
        }
        let now_ms = self.clock.now_ms();
        if super::tables::DAY_MS <= now_ms.saturating_sub(self.forgotten_ms)
            && forget(&mut tables.ledger, now_ms, FORGET_MAX)?.is_break()
        {
            self.forgotten_ms = now_ms / super::tables::DAY_MS * super::tables::DAY_MS;
        }
        tables.flush()?;
        tables.facts.insert(VERSION, self.version)?;
        tables.facts.insert(CLOCK_MS, now_ms)?;
        drop(tables);
        txn.commit().map_err(|error| Fault::Committing(error.into()))?;
        Ok(outcomes)
    }

    fn evaluate(&mut self, tables: &mut Tables<'_>, namespace: &Namespace, txn: &Txn) -> Result<Outcome> {
        let now_ms = self.clock.now_ms();
        let plan = match plan(tables, namespace, txn, now_ms)? {
            Ok(plan) => plan,
            Err(failed) => return Ok(Outcome::Refused(failed)),
        };
        self.version += 1;
        apply(tables, namespace, txn, &plan, self.version, now_ms)?;
        Ok(Outcome::Committed(Commit {
            version: self.version,
            at_ms: now_ms,
            durability: self.durability,
            removed: plan.removed.iter().map(|entries| entries.len() as u64).sum(),
            appended: plan.appended,
        }))
    }

    /// Opens the file again after a fault, and says what to answer to the batch.
    fn recover(&mut self, fault: Fault) -> StoreError {
        let before = self.version;
        let (error, may_be_done) = match fault {
            Fault::Before(error) => (self.vault.explain(error), false),
            Fault::Committing(error) if is_full(&error) => (self.vault.explain(error), true),
            Fault::Committing(error) => {
                // After a flush failed, the system may take for written what the disk never got; what is read back
                // proves nothing.
                let reason = self.vault.explain(error);
                let error = StoreError::Unavailable(format!(
                    "{reason}; after a failed write the file is not trusted until the coordinator is restarted"
                ));
                tracing::error!(%error, "the store has stopped");
                self.vault.end(error.clone());
                return error;
            }
        };
        tracing::error!(%error, "the store could not write");
        self.fault = Some((Instant::now(), error.clone()));
        let reopened = self.reopen();
        // What the file says after it was opened again is what it will ever say of the batch.
        let undone = !may_be_done || (reopened.is_ok() && self.version == before);
        if undone { refusing(error) } else { error }
    }

    fn reopen(&mut self) -> std::result::Result<(), StoreError> {
        match self.vault.reopen() {
            Ok(facts) => {
                self.version = facts.version;
                Ok(())
            }
            Err(error) => {
                self.fault = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }
}

fn refusing(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(reason) => StoreError::Refusing(reason),
        error => error,
    }
}

fn is_full(error: &redb::Error) -> bool {
    matches!(error, redb::Error::Io(error)
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}
