//! The writer thread: it takes all queued transactions, evaluates them in order, and makes them durable together.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::sync::{broadcast, mpsc, oneshot};

use super::{
    apply::{apply, purge_replies},
    clock::Clock,
    file::StoreFile,
    plan::plan,
    tables::{CLOCK_MS, DAY_MS, Result, Tables, VERSION},
};
use crate::store::{Commit, Durability, Namespace, Notification, Outcome, StoreError, Txn, Write};

/// The maximum number of transactions queued for the writer. Further callers wait for room.
pub(super) const QUEUE_MAX: usize = 1024;

/// The maximum number of transactions in one commit.
const BATCH_MAX: usize = 512;

/// The maximum number of expired idempotency keys that one commit purges, so that purging never makes a commit slow.
const PURGE_MAX: usize = 256;

/// How long the writer pauses after a failure. Reopening the file can mean reading all of it.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A request to the writer.
#[derive(Debug)]
pub(super) enum Job {
    Commit {
        namespace: Namespace,
        txn: Txn,
        answer: oneshot::Sender<std::result::Result<Outcome, StoreError>>,
    },
    /// Use the file: a reader found that it fails.
    CheckFile,
}

/// The state of the writer thread.
pub(super) struct Writer {
    pub(super) file: Arc<StoreFile>,
    pub(super) clock: Arc<Clock>,
    pub(super) queue: mpsc::Receiver<Job>,
    pub(super) notifications: broadcast::Sender<Notification>,
    pub(super) durability: Durability,
    /// The last version given to a record.
    pub(super) version: u64,
    /// The start of the day on which the last expired idempotency key was purged.
    pub(super) purged_ms: u64,
    /// When and how the last write failed.
    pub(super) last_failure: Option<(Instant, StoreError)>,
}

/// Why a batch failed.
enum BatchError {
    /// Nothing can have reached the file.
    Before(redb::Error),
    /// The flush failed: the batch may or may not be durable.
    Committing(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for BatchError {
    fn from(error: E) -> Self {
        Self::Before(error.into())
    }
}

type Request<'b> = (&'b Namespace, &'b Txn);

impl Writer {
    /// Starts the thread. It ends when the sender of its queue is dropped.
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
                        // The caller may be gone.
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
                    // There may be no receivers.
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
        if let Some((at, error)) = &self.last_failure
            && at.elapsed() < RETRY_PAUSE
        {
            return Err(refusing(error.clone()));
        }
        let txn = match self.file.begin_write()? {
            Some(txn) => txn,
            None => {
                self.reopen().map_err(refusing)?;
                match self.file.begin_write()? {
                    Some(txn) => txn,
                    None => return Err(StoreError::Refusing("the file is closed".to_owned())),
                }
            }
        };
        let before = self.version;
        let failed = match txn.map_err(BatchError::Before).and_then(|txn| self.write(txn, requests)) {
            Ok(outcomes) => return Ok(outcomes),
            Err(failed) => failed,
        };
        self.version = before;
        Err(self.recover(failed))
    }

    fn write(
        &mut self,
        txn: redb::WriteTransaction,
        requests: &[Request<'_>],
    ) -> std::result::Result<Vec<Outcome>, BatchError> {
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
        if DAY_MS <= now_ms.saturating_sub(self.purged_ms)
            && purge_replies(&mut tables.replies, now_ms, PURGE_MAX)?.is_break()
        {
            self.purged_ms = now_ms / DAY_MS * DAY_MS;
        }
        tables.flush()?;
        tables.facts.insert(VERSION, self.version)?;
        tables.facts.insert(CLOCK_MS, now_ms)?;
        drop(tables);
        txn.commit().map_err(|error| BatchError::Committing(error.into()))?;
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

    /// Reopens the file after a failure, and returns the error for the batch.
    fn recover(&mut self, failed: BatchError) -> StoreError {
        let before = self.version;
        let (error, may_be_durable) = match failed {
            BatchError::Before(error) => (self.file.explain(error), false),
            BatchError::Committing(error) if is_full(&error) => (self.file.explain(error), true),
            BatchError::Committing(error) => {
                // After a failed flush, the kernel may consider pages written that never reached the disk. Reading them back
                // proves nothing.
                let reason = self.file.explain(error);
                let error = StoreError::Unavailable(format!(
                    "{reason}; after a failed flush the coordinator does not use the file until it is restarted"
                ));
                tracing::error!(%error, "the store has stopped");
                self.file.end(error.clone());
                return error;
            }
        };
        tracing::error!(%error, "the store could not write");
        self.last_failure = Some((Instant::now(), error.clone()));
        let reopened = self.reopen();
        // The reopened file is the final word on whether the batch is in it.
        let undone = !may_be_durable || (reopened.is_ok() && self.version == before);
        if undone { refusing(error) } else { error }
    }

    fn reopen(&mut self) -> std::result::Result<(), StoreError> {
        match self.file.reopen() {
            Ok(facts) => {
                self.version = facts.version;
                Ok(())
            }
            Err(error) => {
                self.last_failure = Some((Instant::now(), error.clone()));
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
