//! A team as literal records, and the rules run over it.

use std::sync::Arc;

use teamwire_proto::{
    Refusal,
    credential::Credential,
    id::{REQUEST_ID_CHARS, RequestId},
    name::Name,
    v1,
};
use teamwire_server::{
    domain::{
        Context, Limits,
        identity::CallerCredentials,
        inbox::message_id_of,
        records::{EndCause, Life, MemberRecord, RecordType, RecordedLives, TeamRecord},
        secret::SecretHash,
        send, streams,
        task::board::{BlockedTask, BoardRecord, Place, Status, TaskRecord, WaitingRecord},
        tx::{CachedRecord, RuleError, Snapshot, Tx},
    },
    store::{Key, Record, Txn, Write},
};
use uuid::Uuid;

/// The clock of every test, in milliseconds since 1970.
pub(crate) const NOW_MS: u64 = 1_800_000_000_000;

const OPERATOR_SECRET: &str = "operator-secret";

/// Returns the id of the one request of a test.
pub(crate) fn request_id() -> RequestId {
    RequestId::from_random([0; REQUEST_ID_CHARS])
}

/// Returns the state of a member that is about to exit.
pub(crate) fn stopping(cause: EndCause) -> Life {
    Life::Stopping { cause, alarmed: false }
}

/// Returns the state of a member that was stopped by force.
pub(crate) fn forced() -> Life {
    stopping(EndCause::Forced { by: "lead".to_owned() })
}

/// Everything that is stored for team `alpha`. A record that is not here does not exist.
pub(crate) struct World {
    pub(crate) team: TeamRecord,
    pub(crate) snapshot: Snapshot,
    pub(crate) ctx: Context,
    /// How many entries inboxes have got.
    arrivals: u64,
}

impl World {
    /// Makes a team of live members. The first one leads.
    pub(crate) fn with(members: &[&str]) -> Self {
        let team = TeamRecord {
            name: name("alpha"),
            id: Uuid::from_u128(1),
            description: String::new(),
            created_ms: NOW_MS,
            lead: name(members[0]),
            members: members.iter().map(|member| live(member)).collect(),
        };
        let ctx = Context {
            now_ms: NOW_MS,
            seed: [7; 32],
            limits: Arc::new(Limits::default()),
            operator: SecretHash::of(OPERATOR_SECRET).into(),
            by: 1,
            store_is_full: false,
        };
        Self { team, snapshot: Snapshot::default(), ctx, arrivals: 0 }
    }

    /// Changes a member.
    pub(crate) fn member(mut self, member: &str, change: impl FnOnce(&mut MemberRecord)) -> Self {
        change(self.team.member_mut(&name(member)).unwrap());
        self
    }

    /// Changes a member's life.
    pub(crate) fn life(self, member: &str, life: Life) -> Self {
        self.member(member, |record| record.life = life)
    }

    /// Adds a record.
    pub(crate) fn record<T: RecordType>(mut self, id: &str, value: &T) -> Self {
        self.put(Key::new(T::KIND, id), value.encode());
        self
    }

    /// Adds a board with pending tasks, each with the ids of the tasks it depends on.
    pub(crate) fn tasks(mut self, tasks: &[(u64, &[u64])]) -> Self {
        let (mut board, mut waiting) = (BoardRecord::default(), WaitingRecord::default());
        for (id, blocked_by) in tasks {
            board.last_id = board.last_id.max(*id);
            board.place(*id, if blocked_by.is_empty() { Place::Ready } else { Place::Blocked });
            let on = blocked_by.iter().copied().collect();
            if !blocked_by.is_empty() {
                waiting.waiting.insert(*id, BlockedTask { on, owner: None });
            }
            let blocks = tasks.iter().filter(|(_, by)| by.contains(id)).map(|(id, _)| *id).collect();
            let task = TaskRecord { blocked_by: blocked_by.iter().copied().collect(), blocks, ..pending(*id) };
            self = self.record(&id.to_string(), &task);
        }
        self.record("", &board).record("", &waiting)
    }

    /// Runs a rule. Returns its value and its transaction, or its refusal.
    pub(crate) fn run<T>(&self, rule: impl Fn(&mut Tx<'_>) -> Result<T, RuleError>) -> Result<(T, Txn), Refusal> {
        let mut snapshot = self.snapshot.clone();
        snapshot.records.insert(Key::new(TeamRecord::KIND, ""), stored(self.team.encode()));
        loop {
            let mut tx = Tx::new(&self.ctx, &snapshot);
            match rule(&mut tx) {
                Ok(value) => return Ok((value, tx.into_txn())),
                Err(RuleError::Refused(refusal)) => return Err(refusal),
                Err(RuleError::NeedsRecords(keys)) => {
                    snapshot.records.extend(keys.into_iter().map(|key| (key, CachedRecord::new(None))));
                }
                Err(RuleError::NeedsInbox(member)) => {
                    snapshot.inboxes.insert(member.folded().to_owned(), Default::default());
                }
                Err(RuleError::Corrupt(what)) => panic!("{what}"),
            }
        }
    }

    /// Lets time pass. Later rules draw other ids.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.ctx.now_ms += ms;
        self.ctx.seed = *blake3::hash(&self.ctx.now_ms.to_le_bytes()).as_bytes();
    }

    /// Runs a send.
    pub(crate) fn send(
        &self,
        who: &CallerCredentials,
        request: &v1::SendRequest,
    ) -> Result<(v1::SendResponse, Txn), Refusal> {
        self.run(|tx| send::send(tx, who, request, &send::Facts::new()))
    }

    /// Applies the records, the inboxes and the replies of a transaction.
    pub(crate) fn apply(&mut self, txn: &Txn) {
        for write in &txn.writes {
            match write {
                Write::Put { key, data } if key.kind == TeamRecord::KIND => {
                    self.team = TeamRecord::decode(data).unwrap();
                }
                Write::Put { key, data } => self.put(key.clone(), data.clone()),
                Write::Delete { key } => {
                    self.snapshot.records.remove(key);
                }
                Write::Append { stream, data, .. } => {
                    if let (Some(owner), Some(id)) = (streams::inbox_owner(stream), message_id_of(data)) {
                        self.arrivals += 1;
                        self.snapshot.inboxes.entry(owner.to_owned()).or_default().insert(id, self.arrivals);
                    }
                }
                Write::Remove { stream, sequences } => {
                    let inbox = streams::inbox_owner(stream).and_then(|owner| self.snapshot.inboxes.get_mut(owner));
                    inbox.into_iter().for_each(|inbox| inbox.retain(|_, sequence| !sequences.contains(sequence)));
                }
                Write::RememberReply { key, data } => {
                    self.snapshot.replies.insert(key.clone(), Some(data.clone()));
                }
                _ => {}
            }
        }
    }

    fn put(&mut self, key: Key, data: bytes::Bytes) {
        self.snapshot.records.insert(key, stored(data));
    }
}

fn stored(data: bytes::Bytes) -> Arc<CachedRecord> {
    CachedRecord::new(Some(Record { version: 1, data }))
}

fn live(member: &str) -> MemberRecord {
    MemberRecord {
        name: name(member),
        incarnation: 1,
        life: Life::Live,
        detached: false,
        joined_ms: NOW_MS,
        since_ms: NOW_MS,
        credential: SecretHash::of(member),
        revoked: false,
        former_credentials: Vec::new(),
        attributes: Default::default(),
        plan_mode_required: false,
        plan_approved: false,
        pending_shutdown: None,
        pending_plan: None,
        pending_permissions: Vec::new(),
        pending_reviews: Vec::new(),
        is_host: false,
        ordered: None,
        pending_order: None,
        notice_level: Default::default(),
        crashes_ms: Vec::new(),
        last_crash: None,
        lives: RecordedLives::default(),
        tags: Default::default(),
    }
}

/// Makes a pending task that depends on nothing.
pub(crate) fn pending(id: u64) -> TaskRecord {
    TaskRecord {
        id,
        subject: format!("task {id}"),
        description: String::new(),
        active_form: String::new(),
        status: Status::Pending,
        owner: None,
        blocked_by: Default::default(),
        blocks: Default::default(),
        metadata: Default::default(),
        version: 1,
        attempts: 0,
        result: String::new(),
        created_by: None,
        created_ms: NOW_MS,
        updated_ms: NOW_MS,
        claimed_ms: None,
        closed_ms: None,
        claim: None,
        released: None,
        paths: Default::default(),
        reviewer: None,
        merge_on_approval: false,
        review: None,
        commit: String::new(),
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::parse(text, "name").unwrap()
}

/// Returns a member's credentials. Its secret is its name.
pub(crate) fn caller(member: &str) -> CallerCredentials {
    let credential = Credential::Member { team: name("alpha"), member: name(member), secret: member.to_owned() };
    CallerCredentials::new(credential, None)
}

pub(crate) fn operator() -> CallerCredentials {
    CallerCredentials::new(Credential::Operator { secret: OPERATOR_SECRET.to_owned() }, None)
}

/// Returns the record that a transaction puts.
pub(crate) fn put<T: RecordType>(txn: &Txn, id: &str) -> Option<T> {
    let wanted = Key::new(T::KIND, id);
    txn.writes.iter().find_map(|write| match write {
        Write::Put { key, data } if *key == wanted => Some(T::decode(data).unwrap()),
        _ => None,
    })
}

/// Returns the streams that a transaction appends to, in order.
pub(crate) fn appended(txn: &Txn) -> Vec<&str> {
    let mut streams = Vec::new();
    for write in &txn.writes {
        if let Write::Append { stream, .. } = write {
            streams.push(stream.as_str());
        }
    }
    streams
}
