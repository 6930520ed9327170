//! The transaction that a rule builds, and the snapshot of records that it reads.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use teamwire_proto::{
    Reason, Refusal,
    id::{MessageId, REQUEST_ID_CHARS, RequestId},
    name::Name,
};
use uuid::Uuid;

use super::{
    Context,
    quota::Spender,
    records::{DueNoticesRecord, HostRecord, PresenceRecord, RecordType, TeamRecord},
    topics::Topic,
};
use crate::store::{Bound, Check, Key, Record, Txn, Write};

/// After how many milliseconds a worker tries again what a full store did not take.
pub const FULL_RETRY_MS: u64 = 20_000;

/// Why a rule was not carried out.
#[derive(Debug)]
pub enum RuleError {
    /// These records are not in the snapshot. Load them and run the rule again.
    NeedsRecords(Vec<Key>),
    /// The entries of this member's inbox are not in the snapshot. Load them and run the rule again.
    NeedsInbox(Name),
    /// The rule refuses the call.
    Refused(Refusal),
    /// A record cannot be decoded.
    Corrupt(String),
}

impl From<Refusal> for RuleError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A record in a snapshot, decoded at most once however many calls share it.
pub struct CachedRecord {
    record: Option<Record>,
    decoded: OnceLock<Result<Arc<dyn Any + Send + Sync>, String>>,
}

impl CachedRecord {
    /// Wraps a record as read. `None` if it does not exist.
    pub fn new(record: Option<Record>) -> Arc<Self> {
        Arc::new(Self { record, decoded: OnceLock::new() })
    }

    /// Returns the version. `None` if the record does not exist.
    pub fn version(&self) -> Option<u64> {
        self.record.as_ref().map(|record| record.version)
    }

    /// Decodes the record.
    pub fn get<T: RecordType>(&self) -> Result<Option<Arc<T>>, RuleError> {
        let Some(record) = &self.record else { return Ok(None) };
        let decoded = self.decoded.get_or_init(|| {
            T::decode(&record.data).map(|value| Arc::new(value) as _).map_err(|error| format!("{}: {error}", T::KIND))
        });
        let value = decoded.clone().map_err(RuleError::Corrupt)?;
        value.downcast().map(Some).map_err(|_| RuleError::Corrupt(format!("{} was decoded as another kind", T::KIND)))
    }
}

impl fmt::Debug for CachedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachedRecord({:?})", self.version())
    }
}

/// What is known about a namespace when a rule runs.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The records that are loaded.
    pub records: HashMap<Key, Arc<CachedRecord>>,
    /// The replies recorded under idempotency keys that were looked up. `None` if the key is unused.
    pub replies: HashMap<String, Option<Bytes>>,
    /// The sequences of the messages in an inbox, by the folded name of its owner and the id of the message.
    pub inboxes: HashMap<String, HashMap<MessageId, u64>>,
    /// How much more fits into a stream than its bound says; see [`inbox::allowance`](super::inbox::allowance).
    pub allowances: HashMap<String, Allowance>,
}

/// How much more fits into a stream than its bound says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// How many entries.
    pub entries: u64,
    /// How much weight.
    pub weight: u64,
}

/// A transaction that a rule is building.
#[derive(Debug)]
pub struct Tx<'a> {
    /// The clock, the bounds and the seed.
    pub ctx: &'a Context,
    snapshot: &'a Snapshot,
    read: BTreeMap<Key, Option<u64>>,
    idempotency_keys: Vec<String>,
    leases: Vec<Check>,
    writes: Vec<Write>,
    notifications: Vec<Write>,
    /// Records that this transaction has put or deleted, for its later reads.
    written: HashMap<Key, Arc<CachedRecord>>,
    ends_something: bool,
    spender: Spender,
    needs_no_room: bool,
    writes_are_forbidden: bool,
    drawn: u64,
}

impl<'a> Tx<'a> {
    /// Starts a transaction over a snapshot.
    pub fn new(ctx: &'a Context, snapshot: &'a Snapshot) -> Self {
        Self {
            ctx,
            snapshot,
            read: BTreeMap::new(),
            idempotency_keys: Vec::new(),
            leases: Vec::new(),
            writes: Vec::new(),
            notifications: Vec::new(),
            written: HashMap::new(),
            ends_something: false,
            spender: Spender::Coordinator,
            needs_no_room: false,
            writes_are_forbidden: false,
            drawn: 0,
        }
    }

    /// Returns the record `id` of the kind of `T`, as this transaction has put it or as it was loaded. The commit
    /// checks that a loaded record is unchanged.
    pub fn read<T: RecordType>(&mut self, id: &str) -> Result<Option<Arc<T>>, RuleError> {
        let key = Key::new(T::KIND, id);
        if let Some(written) = self.written.get(&key) {
            return written.get();
        }
        let loaded = self.snapshot.records.get(&key).ok_or_else(|| RuleError::NeedsRecords(vec![key.clone()]))?;
        let value = loaded.get()?;
        self.read.insert(key, loaded.version());
        Ok(value)
    }

    /// Returns the sequence of a message in a member's inbox. `None` if it is not there. The commit does not check
    /// this: a sequence never names another message, and an entry that is gone is not removed twice.
    pub fn place_in_inbox(&self, member: &Name, message_id: MessageId) -> Result<Option<u64>, RuleError> {
        let inbox = self.snapshot.inboxes.get(member.folded()).ok_or_else(|| RuleError::NeedsInbox(member.clone()))?;
        Ok(inbox.get(&message_id).copied())
    }

    /// Returns the length of a record's data, as this transaction has put it or as it was loaded; 0 if it is neither.
    pub fn stored_bytes<T: RecordType>(&self, id: &str) -> u64 {
        let key = Key::new(T::KIND, id);
        let found = self.written.get(&key).or_else(|| self.snapshot.records.get(&key));
        found.and_then(|found| found.record.as_ref()).map_or(0, |record| record.data.len() as u64)
    }

    /// Requires records that the rule is about to read one by one, so that they are loaded all at once.
    pub fn want<T: RecordType>(&self, ids: impl IntoIterator<Item = String>) -> Result<(), RuleError> {
        self.want_keys(ids.into_iter().map(|id| Key::new(T::KIND, id)))
    }

    /// Requires records of two types, as [`want`](Self::want) does.
    pub fn want_both<A: RecordType, B: RecordType>(
        &self,
        ids: impl IntoIterator<Item = String>,
        others: impl IntoIterator<Item = String>,
    ) -> Result<(), RuleError> {
        let ids = ids.into_iter().map(|id| Key::new(A::KIND, id));
        self.want_keys(ids.chain(others.into_iter().map(|id| Key::new(B::KIND, id))))
    }

    fn want_keys(&self, keys: impl Iterator<Item = Key>) -> Result<(), RuleError> {
        let missing: Vec<Key> = keys.filter(|key| !self.snapshot.records.contains_key(key)).collect();
        if missing.is_empty() { Ok(()) } else { Err(RuleError::NeedsRecords(missing)) }
    }

    /// Returns the record without checking it at the commit: for uses where a slightly old record will do.
    pub fn peek<T: RecordType>(&self, id: &str) -> Result<Option<Arc<T>>, RuleError> {
        let key = Key::new(T::KIND, id);
        let loaded = self.snapshot.records.get(&key).ok_or_else(|| RuleError::NeedsRecords(vec![key]))?;
        loaded.get()
    }

    /// Returns the reply recorded under an idempotency key, by this transaction or before. If this returns `None`, the
    /// commit checks that the key is unused.
    pub fn recorded_reply(&mut self, key: &str) -> Option<Bytes> {
        let own = self.writes.iter().find_map(|write| match write {
            Write::RememberReply { key: own, data } if own == key => Some(data.clone()),
            _ => None,
        });
        let recorded = own.or_else(|| self.snapshot.replies.get(key).cloned().flatten());
        if recorded.is_none() && !self.idempotency_keys.iter().any(|known| known == key) {
            self.idempotency_keys.push(key.to_owned());
        }
        recorded
    }

    /// Returns the idempotency keys that the rule asked for and that were not looked up in the store yet.
    pub fn unchecked_idempotency_keys(&self) -> Vec<String> {
        self.idempotency_keys.iter().filter(|key| !self.snapshot.replies.contains_key(*key)).cloned().collect()
    }

    /// Returns the records that the rule has read.
    pub fn read_keys(&self) -> impl Iterator<Item = &Key> {
        self.read.keys()
    }

    /// Puts a record.
    pub fn put<T: RecordType>(&mut self, id: &str, value: &T) {
        let (key, data) = (Key::new(T::KIND, id), value.encode());
        let record = Record { version: 0, data: data.clone() };
        if self.written.insert(key.clone(), CachedRecord::new(Some(record))).is_some() {
            self.writes.retain(|write| !matches!(write, Write::Put { key: before, .. } if *before == key));
        }
        self.writes.push(Write::Put { key, data });
    }

    /// Deletes a record.
    pub fn delete<T: RecordType>(&mut self, id: &str) {
        let key = Key::new(T::KIND, id);
        self.written.insert(key.clone(), CachedRecord::new(None));
        self.writes.push(Write::Delete { key });
    }

    /// Appends to a stream. If an earlier commit found the stream full, the bound is raised by the stream's
    /// [allowance](Snapshot::allowances).
    pub fn append(&mut self, stream: impl Into<String>, data: Bytes, weight: u64, bound: Option<Bound>) {
        let stream = stream.into();
        let allowance = self.snapshot.allowances.get(&stream).copied().unwrap_or_default();
        let bound = bound.map(|bound| Bound {
            entries_max: bound.entries_max.saturating_add(allowance.entries),
            weight_max: bound.weight_max.saturating_add(allowance.weight),
            ..bound
        });
        self.writes.push(Write::Append { stream, data, weight, bound });
    }

    /// Removes entries of a stream.
    pub fn remove(&mut self, stream: impl Into<String>, sequences: Vec<u64>) {
        if !sequences.is_empty() {
            self.writes.push(Write::Remove { stream: stream.into(), sequences });
        }
    }

    /// Records a reply under an idempotency key.
    pub fn record_reply(&mut self, key: &str, data: Bytes) {
        self.writes.push(Write::RememberReply { key: key.to_owned(), data });
    }

    /// Renews a lease.
    pub fn lease(&mut self, name: &str, ttl: Duration) {
        self.writes.push(Write::Lease { name: name.to_owned(), ttl });
    }

    /// Ends a lease.
    pub fn end_lease(&mut self, name: &str) {
        self.writes.push(Write::EndLease { name: name.to_owned() });
    }

    /// Has a full store apply the transaction, too: it ends something that cannot end twice, such as a life's work.
    pub fn ends_something(&mut self) {
        self.ends_something = true;
    }

    /// Says who adds what the transaction writes, which decides how full the team may be afterwards. By default, the
    /// coordinator.
    pub fn spends_as(&mut self, spender: Spender) {
        self.spender = spender;
    }

    /// Lets the commit ignore the team's quota: the rule ends or frees something, or another limit bounds what it
    /// writes.
    pub fn needs_no_room(&mut self) {
        self.needs_no_room = true;
    }

    /// Returns who adds what the transaction writes; the coordinator, if it ignores the quota.
    pub fn spender(&self) -> Spender {
        if self.needs_no_room || self.ends_something { Spender::Coordinator } else { self.spender }
    }

    /// Makes the commit fail if the lease is alive.
    pub fn check_lease_gone(&mut self, name: &str) {
        self.leases.push(Check::Lease { name: name.to_owned(), alive: false });
    }

    /// Sends a notification.
    pub fn notify(&mut self, topic: Topic<'_>) {
        let notification = Write::Notify { topic: topic.to_string(), by: self.ctx.by };
        if !self.notifications.contains(&notification) {
            self.notifications.push(notification);
        }
    }

    /// Removes the whole namespace.
    pub fn drop_namespace(&mut self) {
        self.writes.push(Write::DropNamespace);
    }

    /// Draws a message's id: a UUID of version 7.
    pub fn new_message_id(&mut self) -> MessageId {
        self.new_uuid().into()
    }

    /// Draws a UUID of version 7.
    pub fn new_uuid(&mut self) -> Uuid {
        let random = self.draw();
        let mut bytes = [0; 10];
        bytes.copy_from_slice(&random[..10]);
        uuid::Builder::from_unix_timestamp_millis(self.ctx.now_ms, &bytes).into_uuid()
    }

    /// Draws a request's id.
    pub fn new_request_id(&mut self) -> RequestId {
        let mut random = [0; REQUEST_ID_CHARS];
        random.copy_from_slice(&self.draw()[..REQUEST_ID_CHARS]);
        RequestId::from_random(random)
    }

    /// Draws 160 random bits as hexadecimal digits.
    pub fn new_secret(&mut self) -> String {
        hex::encode(&self.draw()[..20])
    }

    fn draw(&mut self) -> [u8; 32] {
        self.drawn += 1;
        *blake3::keyed_hash(&self.ctx.seed, &self.drawn.to_le_bytes()).as_bytes()
    }

    /// Notifies other coordinators if what is shown of a member or a host changes, or when something is due, unless
    /// another notification makes them look anyway.
    fn notify_watchers(&mut self) {
        let puts =
            |kind: &str| self.writes.iter().any(|write| matches!(write, Write::Put { key, .. } if key.kind == kind));
        let is_shown = puts(PresenceRecord::KIND) || puts(HostRecord::KIND);
        let is_due = puts(TeamRecord::KIND) || puts(DueNoticesRecord::KIND);
        if is_shown || (is_due && self.notifications.is_empty()) {
            self.notify(Topic::Roster);
        }
    }

    /// Declares that the caller can only read: if the rule writes something, it is refused.
    pub fn forbid_writes(&mut self) {
        self.writes_are_forbidden = true;
    }

    /// Refuses a caller that can only read.
    pub fn check_may_write(&self) -> Result<(), RuleError> {
        if !self.writes_are_forbidden {
            return Ok(());
        }
        let text = "This sign-in can only read. To change something, sign in again without --read-only.";
        Err(Refusal::new(Reason::NotPermitted, text).into())
    }

    /// Refuses a caller that can only read if the rule has written something.
    pub fn check_writes(&self) -> Result<(), RuleError> {
        if self.is_read_only() { Ok(()) } else { self.check_may_write() }
    }

    /// Returns how much the transaction changes so far, to notice whether a part of the rule has added something.
    pub fn change_count(&self) -> usize {
        self.writes.len() + self.notifications.len()
    }

    /// Returns whether the rule changes nothing.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty() && self.notifications.is_empty()
    }

    /// Returns the finished transaction. It checks idempotency keys first, so that a repeated call is recognized
    /// whatever else has changed since.
    pub fn into_txn(mut self) -> Txn {
        self.notify_watchers();
        let bytes_max = self.spender().team_bytes_max(&self.ctx.limits);
        let seen = self.idempotency_keys.into_iter().map(|key| Check::KeyUnused { key });
        let versions = self.read.into_iter().map(|(key, version)| Check::Version { key, version });
        // Notifications go last, also after the removal of a namespace.
        self.writes.append(&mut self.notifications);
        Txn {
            checks: seen.chain(versions).chain(self.leases).collect(),
            writes: self.writes,
            ends_something: self.ends_something,
            bytes_max,
        }
    }
}
