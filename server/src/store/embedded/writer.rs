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
    file::{StoreFile, is_full},
    plan::plan,
    reserve::Reserve,
    tables::{CLOCK_MS, COUNTED, DAY_MS, Result, Tables, VERSION},
    versions::Versions,
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

/// The answer to a transaction.
type Answer = std::result::Result<Outcome, StoreError>;

/// A request to the writer.
#[derive(Debug)]
pub(super) enum Job {
    Commit {
        namespace: Namespace,
        txn: Txn,
        answer: oneshot::Sender<Answer>,
    },
    /// Find out whether the store takes writes.
    CheckWritable {
        answer: oneshot::Sender<std::result::Result<(), StoreError>>,
    },
    /// Use the file: a reader found that it fails.
    CheckFile,
    /// Close the file, for good.
    Close {
        closed: oneshot::Sender<()>,
    },
}

/// The state of the writer thread.
pub(super) struct Writer {
    pub(super) file: Arc<StoreFile>,
    pub(super) clock: Arc<Clock>,
    pub(super) versions: Arc<Versions>,
    pub(super) queue: mpsc::Receiver<Job>,
    pub(super) notifications: broadcast::Sender<Notification>,
    pub(super) durability: Durability,
    /// The last version given to a record.
    pub(super) version: u64,
    /// The start of the day on which the last expired idempotency key was purged.
    pub(super) purged_ms: u64,
    /// When and how the last write failed.
    pub(super) last_failure: Option<(Instant, StoreError)>,
    /// Space to give up when the disk is full. `None` if the store is not on a disk.
    pub(super) reserve: Option<Reserve>,
    /// While the disk is full: when that was last found, and the error.
    pub(super) full: Option<(Instant, StoreError)>,
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
    pub(super) fn start(mut self) -> io::Result<thread::JoinHandle<()>> {
        self.take_reserve();
        thread::Builder::new().name("store-writer".to_owned()).spawn(move || self.run())
    }

    fn run(mut self) {
        let mut jobs = Vec::with_capacity(BATCH_MAX);
        while self.queue.blocking_recv_many(&mut jobs, BATCH_MAX) > 0 {
            let (mut requests, mut answers, mut checks, mut closing) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for job in jobs.drain(..) {
                match job {
                    Job::Commit { namespace, txn, answer } => {
                        requests.push((namespace, txn));
                        answers.push(answer);
                    }
                    Job::CheckWritable { answer } => checks.push(answer),
                    Job::CheckFile => {}
                    Job::Close { closed } => closing.push(closed),
                }
            }
            let requests: Vec<Request<'_>> = requests.iter().map(|(namespace, txn)| (namespace, txn)).collect();
            for ((request, answer), outcome) in requests.iter().zip(answers).zip(self.carry_out_all(&requests)) {
                if let Ok(Outcome::Committed(commit)) = &outcome {
                    self.versions.note(request.0, request.1, commit.version);
                    self.publish(request);
                }
                // The caller may be gone.
                let _ = answer.send(outcome);
            }
            for answer in checks {
                let _ = answer.send(self.check_writable());
            }
            for closed in closing {
                self.file.close();
                let _ = closed.send(());
            }
        }
    }

    fn publish(&self, (namespace, txn): &Request<'_>) {
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

    /// Carries out requests together. If the file is lost, refuses all of them. If the disk is full, refuses those that
    /// a full store does not apply.
    fn carry_out_all(&mut self, requests: &[Request<'_>]) -> Vec<Answer> {
        if let Err(lost) = self.file.check_place() {
            return each(Err(lost), requests.len());
        }
        self.look_for_room();
        if self.full.is_none() {
            match self.carry_out(requests) {
                Err(StoreError::Full(reason)) => self.set_full(StoreError::Full(reason)),
                outcomes => return each(outcomes, requests.len()),
            }
        }
        let fits = |(_, txn): &&Request<'_>| txn.applies_when_full();
        let fitting: Vec<Request<'_>> = requests.iter().filter(fits).copied().collect();
        let outcomes = self.carry_out(&fitting);
        let mut outcomes = each(outcomes, fitting.len()).into_iter();
        let refused = || Err(self.full.as_ref().map_or_else(closed, |(_, error)| error.clone()));
        let answer = |request| if fits(&request) { outcomes.next() } else { None }.unwrap_or_else(refused);
        requests.iter().map(answer).collect()
    }

    /// Finds out whether the store takes writes, by a commit that changes nothing if the last one failed.
    fn check_writable(&mut self) -> std::result::Result<(), StoreError> {
        self.file.check_place()?;
        self.look_for_room();
        match (&self.full, &self.last_failure) {
            (Some((_, error)), _) => Err(error.clone()),
            (None, None) => Ok(()),
            (None, Some(_)) => self.carry_out(&[(&Namespace::directory(), &Txn::default())]).map(drop),
        }
    }

    /// Gives up the reserve, for the transactions that a full store applies.
    fn set_full(&mut self, error: StoreError) {
        self.full = Some((Instant::now(), error));
        self.last_failure = None;
        if let Some(reserve) = &self.reserve {
            reserve.give_up();
        }
    }

    /// Once a second while the disk is full, finds out whether there is room again.
    fn look_for_room(&mut self) {
        if self.full.as_ref().is_some_and(|(at, _)| at.elapsed() >= RETRY_PAUSE) {
            self.take_reserve();
        }
    }

    /// Takes up the reserve again. If the disk has no room for it, the store is full.
    fn take_reserve(&mut self) {
        self.full = match self.reserve.as_ref().map_or(Ok(()), Reserve::take) {
            Err(error) if is_full(&error) => Some((Instant::now(), self.file.explain(redb::Error::Io(error)))),
            Err(error) => {
                tracing::warn!(%error, "the store has no reserve: if the disk fills up, members cannot acknowledge messages");
                None
            }
            Ok(()) => None,
        };
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
                    None => return Err(closed()),
                }
            }
        };
        let before = self.version;
        let failed = match txn.map_err(BatchError::Before).and_then(|txn| self.write(txn, requests)) {
            Ok(outcomes) => {
                if self.version != before {
                    self.last_failure = None;
                }
                return Ok(outcomes);
            }
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
        tables.facts.insert(COUNTED, self.version)?;
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
        let version = self.version;
        apply(tables, namespace, txn, &plan, version, now_ms)?;
        for write in &txn.writes {
            if let Write::Raise { version, clock_ms } = write {
                self.version = self.version.max(*version);
                self.clock.raise(*clock_ms);
            }
        }
        Ok(Outcome::Committed(Commit {
            version,
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
            BatchError::Committing(redb::Error::Io(error)) if is_full(&error) => {
                (self.file.explain(redb::Error::Io(error)), true)
            }
            BatchError::Committing(error) => {
                // After a failed flush, the kernel may consider pages written that never reached the disk. Reading them
                // back proves nothing.
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
        if undone { refusing(error) } else { StoreError::Unavailable(error.to_string()) }
    }

    fn reopen(&mut self) -> std::result::Result<(), StoreError> {
        match self.file.reopen() {
            Ok(facts) => {
                self.version = facts.version;
                self.versions.restart_at(facts.version);
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

fn closed() -> StoreError {
    StoreError::Refusing("the file is closed".to_owned())
}

/// Gives each request its outcome, or the error of all.
fn each(outcomes: std::result::Result<Vec<Outcome>, StoreError>, requests: usize) -> Vec<Answer> {
    match outcomes {
        Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error); requests],
    }
}
