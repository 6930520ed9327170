//! What a credential has used of its budget.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use teamwire_proto::{Reason, Refusal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    bounds::Class,
    bucket::{Bucket, Rate},
    generations::{CredentialGenerations, Generation},
    open_connection::OpenConnection,
    shared::{SharedBudget, semaphore},
};

/// What a read costs at least, in bytes: looking the caller up and finding nothing takes time, too.
const READ_BYTES_MIN: u64 = 4 * 1024;

/// How long a client waits before it repeats a call that others of its calls keep out.
const OTHERS_END: Duration = Duration::from_secs(1);

/// The longest wait for the answer to a refused call.
const REFUSAL_WAIT_MAX: Duration = Duration::from_secs(1);

/// The account of a credential.
#[derive(Debug)]
pub struct Account {
    pub(super) shared: Arc<SharedBudget>,
    sends: Bucket,
    broadcasts: Bucket,
    writes: Bucket,
    lookups: Bucket,
    sessions: Bucket,
    read_bytes: Bucket,
    refusals: Bucket,
    connections: Mutex<CredentialGenerations>,
    streams: Arc<Semaphore>,
    pub(super) reading: Arc<Semaphore>,
    pub(super) reply_bytes: Arc<Semaphore>,
    pub(super) request_bytes: Arc<Semaphore>,
    /// Whether it is that of an address, whose clients have shown no valid credential.
    pub(super) is_of_strangers: bool,
    leads: AtomicBool,
}

/// A stream or a waiting call, which counts as open until it is dropped.
#[derive(Debug)]
pub struct OpenStream {
    _place: OwnedSemaphorePermit,
}

/// A connection, which counts as open until it is dropped.
#[derive(Debug)]
pub struct ConnectionGuard {
    account: Arc<Account>,
    generation: Generation,
    number: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.account.connections.lock().remove(self.generation, self.number);
    }
}

impl ConnectionGuard {
    /// Returns whether the connection counts for this account.
    pub fn is_of(&self, account: &Arc<Account>) -> bool {
        Arc::ptr_eq(&self.account, account)
    }

    /// Has the connection count for a generation that has just presented its credential over it, or refuses that.
    pub fn renew(&mut self, generation: Generation, connection: OpenConnection) -> Result<(), Refusal> {
        if generation == self.generation {
            self.account.note(generation);
            return Ok(());
        }
        let max = self.account.shared.shares.connections_per_credential_max;
        let renewed =
            self.account.connections.lock().renew((self.generation, self.number), generation, connection, max);
        self.account.count_closed(renewed.ok_or_else(|| self.account.too_many_connections())?);
        self.generation = generation;
        Ok(())
    }

    /// Returns the account for which the connection counts.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }
}

impl Account {
    pub(super) fn new(shared: Arc<SharedBudget>, is_of_strangers: bool) -> Self {
        let shares = shared.shares;
        Self {
            shared,
            sends: Bucket::default(),
            broadcasts: Bucket::default(),
            writes: Bucket::default(),
            lookups: Bucket::default(),
            sessions: Bucket::default(),
            read_bytes: Bucket::default(),
            refusals: Bucket::default(),
            connections: Mutex::default(),
            streams: semaphore(shares.streams_per_credential_max),
            reading: semaphore(shares.reads_per_credential_max),
            reply_bytes: semaphore(shares.reply_bytes_per_credential_max),
            request_bytes: semaphore(shares.request_bytes_per_credential_max),
            is_of_strangers,
            leads: AtomicBool::new(false),
        }
    }

    /// Returns whether the credential is a lead's or the operator's.
    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }

    pub(super) fn set_leads(&self, leads: bool) {
        self.leads.store(leads, Ordering::Relaxed);
    }

    /// Returns whether nothing of the rates is used up.
    pub(super) fn is_whole(&self, now: u64) -> bool {
        [&self.sends, &self.broadcasts, &self.writes, &self.lookups, &self.sessions, &self.read_bytes, &self.refusals]
            .iter()
            .all(|bucket| bucket.is_full(now))
    }

    /// Counts a send, or refuses it.
    pub fn send(&self, is_broadcast: bool) -> Result<(), Refusal> {
        if is_broadcast {
            self.take(Class::Broadcasts, &self.broadcasts, "sending", "broadcasts")?;
        }
        self.take(Class::Sends, &self.sends, "sending", "messages")
    }

    /// Counts a call that may change something, or refuses it.
    pub fn write(&self) -> Result<(), Refusal> {
        self.take(Class::Writes, &self.writes, "making", "changes")
    }

    /// Counts a look-up of another credential over a connection of this one, or refuses it.
    pub fn look_up(&self) -> Result<(), Refusal> {
        self.take(Class::Writes, &self.lookups, "making", "changes")
    }

    /// Counts the begin of a life or a session, or refuses it.
    pub fn begin_session(&self) -> Result<(), Refusal> {
        self.take(Class::Sessions, &self.sessions, "beginning", "lives and sessions")
    }

    fn take(&self, class: Class, bucket: &Bucket, doing: &str, what: &str) -> Result<(), Refusal> {
        let rate = self.shared.rates.of(class);
        bucket.take(rate, self.shared.now(), 1).map_err(|wait| {
            self.too_fast(class, rate, wait, &format!("{doing} more than {} {what}", rate.per_second()))
        })
    }

    /// Refuses a read if earlier ones have used up the budget.
    pub fn read(&self) -> Result<(), Refusal> {
        let rate = self.shared.rates.of(Class::ReadBytes);
        match self.read_bytes.debt(rate, self.shared.now()) {
            None => Ok(()),
            Some(wait) => {
                let doing = format!("reading more than {} bytes", rate.per_second());
                Err(self.too_fast(Class::ReadBytes, rate, wait, &doing))
            }
        }
    }

    /// Returns how long the next read of a stream has to wait. `None` if it may be made.
    pub fn read_wait(&self) -> Option<Duration> {
        self.read_bytes.debt(self.shared.rates.of(Class::ReadBytes), self.shared.now())
    }

    /// Charges what a read has returned, or examined.
    pub fn charge_read(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(READ_BYTES_MIN);
        self.charge_stream(bytes);
    }

    /// Charges what a stream has returned, or examined.
    pub fn charge_stream(&self, bytes: u64) {
        self.read_bytes.charge(self.shared.rates.of(Class::ReadBytes), self.shared.now(), bytes);
    }

    /// Counts a refused call, and returns how long its answer waits. A client that repeats refused calls without a
    /// pause is slowed.
    pub fn refused(&self) -> Duration {
        self.refusals.line_up(self.shared.rates.refusals(), self.shared.now(), REFUSAL_WAIT_MAX)
    }

    /// Counts a stream, or a waiting call, or refuses it.
    pub fn stream(&self) -> Result<OpenStream, Refusal> {
        let place = Arc::clone(&self.streams).try_acquire_owned();
        place.map(|place| OpenStream { _place: place }).map_err(|_| {
            let size = self.shared.shares.streams_per_credential_max;
            self.too_many(Class::Streams, size, "streams and waiting calls open", "End some of them")
        })
    }

    /// Counts a connection of a generation that has just presented its credential, or refuses it. It must be closed
    /// when two newer lives have presented theirs, or when it is idle and another one needs its place.
    pub fn connection(
        self: &Arc<Self>,
        generation: Generation,
        connection: OpenConnection,
    ) -> Result<ConnectionGuard, Refusal> {
        let mut generations = self.connections.lock();
        self.count_closed(generations.note(generation));
        let number = generations.add(connection, self.shared.shares.connections_per_credential_max);
        drop(generations);
        let number = number.ok_or_else(|| self.too_many_connections())?;
        Ok(ConnectionGuard { account: Arc::clone(self), generation, number })
    }

    /// Notes that a generation has just presented its valid credential.
    pub fn note(&self, generation: Generation) {
        self.count_closed(self.connections.lock().note(generation));
    }

    fn count_closed(&self, connections: usize) {
        for _ in 0..connections {
            self.shared.count(Class::Connections);
        }
    }

    fn too_many_connections(&self) -> Refusal {
        let size = self.shared.shares.connections_per_credential_max;
        let todo = "Each process that uses the credential has its own: agent sessions, their `teamwire mcp`, commands, scripts. End \
                    those that you do not need";
        self.too_many(Class::Connections, size, "connections open", todo)
    }

    /// Returns whether no newer generation has presented its credential.
    pub fn is_newest(&self, generation: Generation) -> bool {
        self.connections.lock().is_newest(generation)
    }

    /// Refuses a connection because all places are taken.
    pub fn no_place(&self, size: usize) -> Refusal {
        self.shared.count(Class::AllConnections);
        let key = Class::AllConnections.key();
        let text = format!(
            "All {size} connections to this coordinator are taken; the remaining ones are for leads and the operator ({key}). \
             Try again, or use another coordinator."
        );
        explain(Class::AllConnections, size, text, Duration::from_secs(5))
    }

    fn too_fast(&self, class: Class, rate: Rate, wait: Duration, doing: &str) -> Refusal {
        self.shared.count(class);
        // A retry at exactly that instant could be too early, because clocks are coarse.
        let wait = wait + Duration::from_millis(1);
        let key = class.key();
        let text = format!(
            "You are {doing} a second with this credential ({key}). Repeat this call, with the same idempotency key if it has \
             one, in {} ms.",
            wait.as_millis()
        );
        explain(class, rate.per_second(), text, wait)
    }

    pub(super) fn too_many(&self, class: Class, size: usize, what: &str, todo: &str) -> Refusal {
        self.shared.count(class);
        let key = class.key();
        let text =
            format!("This credential already has {size} {what}, which is the maximum ({key}). {todo}, and try again.");
        explain(class, size, text, OTHERS_END)
    }

    /// Refuses a request because of others that are under way.
    pub(super) fn too_many_request_bytes(&self) -> Refusal {
        let (size, key) = (self.shared.shares.request_bytes_per_credential_max, Class::RequestBytes.key());
        if !self.is_of_strangers {
            return self.too_many(Class::RequestBytes, size, "bytes of requests under way", "Send fewer at once");
        }
        self.shared.count(Class::RequestBytes);
        let text = format!(
            "Clients of your address that have shown no valid credential have {size} bytes of requests under way, which is the \
             maximum ({key}). Try again."
        );
        explain(Class::RequestBytes, size, text, OTHERS_END)
    }

    /// Refuses to look up a credential because those of other clients of the address are waiting.
    pub(super) fn too_many_guesses(&self) -> Refusal {
        self.shared.count(Class::Reads);
        let (size, key) = (self.shared.shares.reads_per_credential_max, Class::Reads.key());
        let text = format!(
            "Too many clients of your address that have shown no valid credential are waiting: {size} are looked up at once \
             ({key}). Try again."
        );
        explain(Class::Reads, size, text, OTHERS_END)
    }

    /// Refuses a request because others use up these bytes that all share.
    pub(super) fn too_many_requests(&self, size: usize) -> Refusal {
        self.shared.count(Class::AllRequests);
        let whose = if self.is_of_strangers { " of clients without a valid credential" } else { "" };
        let key = Class::AllRequests.key();
        let text = format!(
            "This coordinator has {size} bytes of requests{whose} under way, which is the maximum ({key}). Try again, or use another \
             coordinator."
        );
        explain(Class::AllRequests, size, text, OTHERS_END)
    }

    /// Refuses a read because others use up what all share.
    pub(super) fn too_busy(&self) -> Refusal {
        self.shared.count(Class::AllReads);
        let shares = &self.shared.shares;
        let (reads, bytes) = (shares.reads_max, shares.reply_bytes_max);
        let text = format!(
            "This coordinator is busy with {reads} reads (shares.reads_max), or has {bytes} bytes of replies that clients do not \
             read (shares.reply_bytes_max). Try again, or use another coordinator."
        );
        explain(Class::AllReads, bytes, text, OTHERS_END)
    }
}

/// Refuses a call, with facts for a program.
fn explain(class: Class, size: impl ToString, text: String, wait: Duration) -> Refusal {
    let refusal = Refusal::new(Reason::RateLimited, text).retry_after(wait);
    refusal.with("budget", class.name()).with("size", size.to_string()).with("key", class.key())
}
