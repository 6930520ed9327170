//! The writer thread: it takes all queued transactions, carries them out in order, and makes them durable together.

use std::{sync::Arc, thread, time::Instant};

use tokio::sync::{broadcast, mpsc, oneshot};

use super::{
    apply::apply,
    changes::{Changes, Facts},
    checkpoint::{self, Checkpoint, Checkpointer, RETRY_PAUSE},
    clock::Clock,
    draft::Draft,
    file::{Found, StoreFile, is_full, refusing},
    log_file::LogFile,
    place::Place,
    plan::plan,
    reserve::Reserve,
    tables::Result,
    versions::Versions,
    view::{Recent, View},
    wal::{AppendError, Wal},
};
use crate::store::{Commit, Durability, Namespace, Notification, Outcome, StoreError, Txn, Write};

/// The maximum number of transactions queued for the writer. Further callers wait for room.
pub(super) const QUEUE_MAX: usize = 1024;

/// The maximum number of transactions in one commit.
const BATCH_MAX: usize = 512;

/// About how much a commit may add to the log. A single transaction may add more.
const BATCH_BYTES_MAX: usize = 512 * 1024;

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
    pub(super) recent: Arc<Recent>,
    pub(super) checkpointer: Checkpointer,
    pub(super) log_file: LogFile,
    /// The open log. `None` until one was begun.
    pub(super) log: Option<Log>,
    /// The id of the log that this writer begins. The same one if it tries again, because the first attempt may have told
    /// the file.
    pub(super) log_id: u64,
    pub(super) clock: Arc<Clock>,
    pub(super) versions: Arc<Versions>,
    pub(super) queue: mpsc::Receiver<Job>,
    pub(super) notifications: broadcast::Sender<Notification>,
    pub(super) durability: Durability,
    /// What the last commit left.
    pub(super) facts: Facts,
    /// When and how the last write failed.
    pub(super) last_failure: Option<(Instant, StoreError)>,
    /// Space to give up when the disk is full. `None` if the store is not on a disk.
    pub(super) reserve: Option<Reserve>,
    /// While the disk is full: when that was last found, and the error.
    pub(super) full: Option<(Instant, StoreError)>,
}

/// An open write-ahead log.
pub(super) struct Log {
    pub(super) wal: Wal,
    pub(super) id: u64,
    pub(super) place: Option<Place>,
}

type Request<'b> = (&'b Namespace, &'b Txn);

impl Writer {
    /// Starts the thread. It ends when the sender of its queue is dropped. Fails if the disk has no log and cannot be given
    /// one, unless it is full.
    pub(super) fn start(mut self) -> std::result::Result<thread::JoinHandle<()>, StoreError> {
        self.take_reserve();
        match self.begin_log() {
            Err(error @ StoreError::Full(_)) => self.set_full(error),
            begun => begun?,
        }
        let thread = thread::Builder::new().name("store-writer".to_owned());
        thread.spawn(move || self.run()).map_err(|error| StoreError::Unavailable(format!("no thread: {error}")))
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
                    Job::CheckFile => self.check_file(),
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
                self.close();
                let _ = closed.send(());
            }
        }
        self.close();
    }

    /// Completes the file, so that it needs no log, and closes it.
    fn close(&mut self) {
        if self.log.is_some()
            && !self.file.has_ended()
            && let Err(error) = self.checkpoint(0)
        {
            tracing::warn!(%error, "the store's file is not complete: its write-ahead log has the rest");
        }
        self.log = None;
        self.file.close();
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

    /// Carries out requests. If a file is lost, refuses all of them. If the disk is full, refuses those that a full store
    /// does not apply.
    fn carry_out_all(&mut self, requests: &[Request<'_>]) -> Vec<Answer> {
        if let Err(lost) = self.check_places() {
            return vec![Err(lost); requests.len()];
        }
        self.look_for_room();
        let mut answers = Vec::with_capacity(requests.len());
        if self.full.is_none() {
            match self.carry_out(requests, &mut answers) {
                Err(error @ StoreError::Full(_)) => self.set_full(error),
                Err(error) => answers.resize(requests.len(), Err(error)),
                Ok(()) => {}
            }
        }
        let rest = &requests[answers.len()..];
        let fits = |(_, txn): &&Request<'_>| txn.applies_when_full();
        let fitting: Vec<Request<'_>> = rest.iter().filter(fits).copied().collect();
        let mut outcomes = Vec::with_capacity(fitting.len());
        if let Err(error) = self.carry_out(&fitting, &mut outcomes) {
            outcomes.resize(fitting.len(), Err(error));
        }
        let mut outcomes = outcomes.into_iter();
        let refused = || Err(self.full.as_ref().map_or_else(closed, |(_, error)| error.clone()));
        let answer = |request| if fits(&request) { outcomes.next() } else { None }.unwrap_or_else(refused);
        answers.extend(rest.iter().map(answer));
        answers
    }

    fn check_places(&self) -> std::result::Result<(), StoreError> {
        // Check both, because each says what to do about it.
        let file = self.file.check_place();
        let log = self.log.as_ref().and_then(|log| log.place.as_ref()).map_or(Ok(()), Place::check);
        file.and(log)
    }

    /// Finds out whether the store takes writes, by a commit that changes nothing if the last one failed.
    fn check_writable(&mut self) -> std::result::Result<(), StoreError> {
        self.check_places()?;
        self.look_for_room();
        match (&self.full, &self.last_failure, self.checkpointer.failure()) {
            (Some((_, error)), ..) => Err(error.clone()),
            (None, None, None) => Ok(()),
            (None, None, Some(error)) => Err(error),
            (None, Some(_), _) => self.carry_out(&[(&Namespace::directory(), &Txn::default())], &mut Vec::new()),
        }
    }

    /// Gives up the reserve, for the transactions that a full store applies.
    fn set_full(&mut self, error: StoreError) {
        self.full = Some((Instant::now(), error));
        self.last_failure = None;
        if let Some(reserve) = &self.reserve {
            reserve.give_up();
        }
        self.checkpointer.retry();
    }

    /// Finds out whether the disk is full, and once a second while it is, whether there is room again.
    fn look_for_room(&mut self) {
        if self.full.is_none()
            && let Some(error @ StoreError::Full(_)) = self.checkpointer.failure()
        {
            self.set_full(error);
        }
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

    /// Uses the file, which a reader could not read, unless that failed a moment ago.
    fn check_file(&mut self) {
        if self.last_failure.as_ref().is_some_and(|(at, _)| at.elapsed() < RETRY_PAUSE) {
            return;
        }
        if let Err(error) = self.file.ensure_open().and_then(|()| self.file.check_usable())
            && !self.file.has_ended()
        {
            let error = self.reopen_after(error);
            self.last_failure = Some((Instant::now(), error));
        }
    }

    /// Opens the file again after it could not be read: redb stops using a file that failed once. Returns the error of the
    /// commit that needed it.
    fn reopen_after(&self, error: StoreError) -> StoreError {
        if let Err(error) = self.file.reopen() {
            tracing::error!(%error, "the store could not be opened again");
        }
        refusing(error)
    }

    /// Carries out requests, and adds their outcomes to `answers`, up to the first commit that fails.
    fn carry_out(
        &mut self,
        requests: &[Request<'_>],
        answers: &mut Vec<Answer>,
    ) -> std::result::Result<(), StoreError> {
        let mut rest = requests;
        while !rest.is_empty() {
            if let Some((at, error)) = &self.last_failure
                && at.elapsed() < RETRY_PAUSE
            {
                return Err(refusing(error.clone()));
            }
            let before = self.facts.version;
            let outcomes = match self.carry_out_some(rest) {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    if !self.file.has_ended() {
                        tracing::error!(%error, "the store could not write");
                        self.last_failure = Some((Instant::now(), error.clone()));
                    }
                    return Err(error);
                }
            };
            if self.facts.version != before {
                self.last_failure = None;
            }
            rest = &rest[outcomes.len()..];
            answers.extend(outcomes.into_iter().map(Ok));
        }
        Ok(())
    }

    /// Carries out as many requests as go into one commit, but at least one.
    fn carry_out_some(&mut self, requests: &[Request<'_>]) -> std::result::Result<Vec<Outcome>, StoreError> {
        self.file.ensure_open()?;
        let evaluated = {
            let (recent, file) = (self.recent.clone(), self.file.clone());
            let layers = recent.read();
            file.read(|txn| self.evaluate_some(&View::new(&layers, txn), requests))
        };
        let evaluated = evaluated.map_err(|error| self.reopen_after(error))?;
        let Evaluated { outcomes, changes, dropped, facts } = evaluated;
        if facts.version != self.facts.version {
            match dropped {
                Some(_) => self.write_directly(&changes, dropped, facts)?,
                None => self.log(changes, facts)?,
            }
            self.facts = Facts { logged: self.facts.logged, ..facts };
        }
        Ok(outcomes)
    }

    /// Evaluates requests until one drops a namespace, or their changes are large enough for a commit.
    fn evaluate_some<'r>(&self, view: &View<'_>, requests: &[Request<'r>]) -> Result<Evaluated<'r>> {
        let mut draft = Draft::on(view);
        let mut evaluated =
            Evaluated { outcomes: vec![], changes: Changes::default(), dropped: None, facts: self.facts };
        for (namespace, txn) in requests {
            let drops = txn.writes.contains(&Write::DropNamespace);
            if drops && !evaluated.outcomes.is_empty() {
                break;
            }
            let outcome = self.evaluate(&mut draft, namespace, txn, &mut evaluated.facts)?;
            evaluated.dropped = (drops && matches!(outcome, Outcome::Committed(_))).then_some(*namespace);
            evaluated.outcomes.push(outcome);
            if drops || draft.bytes() >= BATCH_BYTES_MAX {
                break;
            }
        }
        evaluated.changes = draft.finish();
        evaluated.facts.clock_ms = self.clock.now_ms();
        Ok(evaluated)
    }

    fn evaluate(&self, draft: &mut Draft<'_>, namespace: &Namespace, txn: &Txn, facts: &mut Facts) -> Result<Outcome> {
        let now_ms = self.clock.now_ms();
        let plan = match plan(draft, namespace, txn, now_ms)? {
            Ok(plan) => plan,
            Err(failed) => return Ok(Outcome::Refused(failed)),
        };
        facts.version += 1;
        let version = facts.version;
        apply(draft, namespace, txn, &plan, version, now_ms);
        for write in &txn.writes {
            if let Write::Raise { version, clock_ms } = write {
                facts.version = facts.version.max(*version);
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

    /// Makes a commit durable in the log, and shows it to readers. `facts`: those after it.
    fn log(&mut self, changes: Changes, facts: Facts) -> std::result::Result<(), StoreError> {
        let facts = Facts { logged: self.facts.logged + 1, ..facts };
        self.begin_log()?;
        let Some(log) = &mut self.log else { return Err(closed()) };
        let record = log.wal.record(&changes, facts);
        if !log.wal.can_hold(record.len()) {
            return self.write_directly(&changes, None, Facts { logged: self.facts.logged, ..facts });
        }
        if !log.wal.has_room(record.len()) {
            self.checkpointer.wait()?;
            self.recent.freeze();
            self.checkpointer.begin(Found { facts: self.facts, log: log.id });
            log.wal.switch();
        }
        match log.wal.append(&record) {
            Ok(()) => {}
            Err(AppendError::Writing(error)) => return Err(refusing(self.file.explain(redb::Error::Io(error)))),
            Err(AppendError::Flushing(error)) => {
                return Err(checkpoint::stop(&self.file, format!("{}.wal: {error}", self.file.name())));
            }
        }
        self.facts.logged = facts.logged;
        self.recent.publish(changes, facts.version);
        Ok(())
    }

    /// Writes everything that the log holds to the file, then `changes`, then drops a namespace.
    fn write_directly(
        &mut self,
        changes: &Changes,
        dropped: Option<&Namespace>,
        facts: Facts,
    ) -> std::result::Result<(), StoreError> {
        let log = self.log.as_ref().map_or(0, |log| log.id);
        self.checkpoint(log)?;
        self.recent.announce(facts.version);
        // Readers see no changes but those in the file now, so they see these all at once.
        let written = Checkpoint { changes, dropped, found: Found { facts, log } }.write(&self.file);
        match written {
            // Nothing shows whether the file has them.
            Err(error) if !self.file.is_open() => Err(checkpoint::stop(&self.file, error)),
            written => written,
        }
    }

    /// Writes everything that the log holds to the file. `log`: the id of the log that may continue the file.
    fn checkpoint(&mut self, log: u64) -> std::result::Result<(), StoreError> {
        self.checkpointer.wait()?;
        self.recent.freeze();
        self.checkpointer.begin(Found { facts: self.facts, log });
        self.checkpointer.wait()?;
        if let Some(log) = &mut self.log {
            log.wal.restart();
        }
        Ok(())
    }

    /// Begins a log unless one is open.
    fn begin_log(&mut self) -> std::result::Result<(), StoreError> {
        if self.log.is_some() {
            return Ok(());
        }
        let id = self.log_id;
        let begun = self.log_file.begin(id);
        let (wal, place) = begun.map_err(|error| refusing(self.file.explain(redb::Error::Io(error))))?;
        self.checkpoint(id)?;
        self.log = Some(Log { wal, id, place });
        Ok(())
    }
}

/// What a commit is going to do.
struct Evaluated<'r> {
    outcomes: Vec<Outcome>,
    changes: Changes,
    /// The namespace that it drops after that.
    dropped: Option<&'r Namespace>,
    /// The facts after it.
    facts: Facts,
}

fn closed() -> StoreError {
    StoreError::Refusing("the file is closed".to_owned())
}
