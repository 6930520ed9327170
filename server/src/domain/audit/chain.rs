//! The chains of the audit log: adding entries, and removing the oldest.
//!
//! The record of a chain has its newest hash. Each commit that adds entries checks that record, so two coordinators
//! cannot add different entries at the same place.

use std::fmt;

use bytes::Bytes;
use prost::Message as _;
use teamwire_proto::{
    audit_chain::{self, Hash},
    name::Name,
    v1,
};

use crate::{
    domain::{
        records::{ChainRecord, OperatorMarkRecord},
        time::timestamp,
        tx::{RuleError, Tx},
    },
    store::Entry,
};

/// How many bytes a stored entry has before its encoding: its hash.
const HASH_BYTES: usize = size_of::<Hash>();

/// What a chain is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// What callers that are not the lead or the operator can cause: joins, sign-ins, refused calls.
    Access,
    /// What the lead and the operator did with their powers. No other caller can cause an entry.
    Privileged,
}

/// A chain of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chain {
    subject: Subject,
    /// In lower case. `None` means the coordinator itself.
    team: Option<String>,
}

impl Chain {
    /// Returns the chain of a team, or of the coordinator itself.
    pub fn new(subject: Subject, team: Option<&Name>) -> Self {
        Self { subject, team: team.map(|team| team.folded().to_owned()) }
    }

    /// Reads the name of a chain.
    pub fn parse(name: &str) -> Option<Self> {
        let (subject, team) = name.split_once('/').map_or((name, None), |(subject, team)| (subject, Some(team)));
        let subject = match subject {
            "privileged" => Subject::Privileged,
            "access" => Subject::Access,
            _ => return None,
        };
        let team = team.map(|team| Name::parse(team, "chain")).transpose().ok()?;
        Some(Self::new(subject, team.as_ref()))
    }

    /// Returns the name of its team, in lower case. `None` if it is the coordinator's.
    pub fn team(&self) -> Option<&str> {
        self.team.as_deref()
    }

    /// Returns the stream of its entries.
    pub fn stream(&self) -> String {
        format!("audit/{self}")
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.subject {
            Subject::Access => "access",
            Subject::Privileged => "privileged",
        })?;
        self.team.iter().try_for_each(|team| write!(f, "/{team}"))
    }
}

/// Adds a batch of entries to a chain, unless the batch with this id was added before. Returns the chain's record.
/// `None` if it was.
pub fn append_batch(
    tx: &mut Tx<'_>,
    chain: &Chain,
    id: &str,
    entries: &[v1::AuditEntry],
) -> Result<Option<ChainRecord>, RuleError> {
    if tx.recorded_reply(id).is_some() {
        return Ok(None);
    }
    tx.record_reply(id, Bytes::new());
    append(tx, chain, entries).map(Some)
}

fn append(tx: &mut Tx<'_>, chain: &Chain, entries: &[v1::AuditEntry]) -> Result<ChainRecord, RuleError> {
    let name = chain.to_string();
    let mut record = match tx.read::<ChainRecord>(&name)? {
        Some(record) => ChainRecord::clone(&record),
        None => {
            let hash = hex::encode(audit_chain::start(&name));
            ChainRecord { first_sequence: 1, last_sequence: 0, hash, bytes: 0 }
        }
    };
    let mut hash = hash_of(&record)?;
    for entry in entries {
        let encoded = entry.encode_to_vec();
        record.last_sequence += 1;
        hash = audit_chain::link(&hash, record.last_sequence, &encoded);
        let data: Bytes = [&hash[..], &encoded].concat().into();
        record.bytes += data.len() as u64;
        tx.append(chain.stream(), data, 0, None);
    }
    record.hash = hex::encode(hash);
    tx.put(&name, &record);
    Ok(record)
}

fn hash_of(record: &ChainRecord) -> Result<Hash, RuleError> {
    let mut hash = Hash::default();
    hex::decode_to_slice(&record.hash, &mut hash).map_err(|error| RuleError::Corrupt(format!("chain: {error}")))?;
    Ok(hash)
}

/// The oldest entries of a chain, which are to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// The sequence of the last of them.
    pub through: u64,
    /// Its hash.
    pub hash: Vec<u8>,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// How many bytes all of them take.
    pub bytes: u64,
    /// Whether they are removed because the chain has reached its bound in bytes.
    pub because_full: bool,
}

impl Oldest {
    /// Chooses what to remove from a chain whose oldest entries these are: so much that `excess` bytes become free, or
    /// else the entries written before an instant. A checkpoint is never removed alone, so that a chain to which
    /// nothing is added eventually keeps its last checkpoint, rather than replacing it again and again.
    pub fn choose(oldest: &[Entry], excess: u64, before_ms: u64) -> Option<Self> {
        let (mut bytes, mut is_worth_it, mut chosen) = (0, false, None);
        for entry in oldest {
            let stored = StoredEntry::of(entry);
            let at_ms = stored.at_ms();
            if bytes >= excess && at_ms >= before_ms {
                break;
            }
            bytes += entry.data.len() as u64;
            is_worth_it |= stored.entry.as_ref().is_none_or(|entry| entry.checkpoint.is_none());
            let hash = stored.hash.to_vec();
            chosen = Some(Self { through: entry.sequence, hash, at_ms, bytes, because_full: excess > 0 });
        }
        chosen.filter(|_| is_worth_it)
    }
}

/// Removes the oldest entries of a chain, unless that was already done, and adds the checkpoint that says so.
pub fn trim(tx: &mut Tx<'_>, chain: &Chain, oldest: &Oldest) -> Result<(), RuleError> {
    let name = chain.to_string();
    let Some(record) = tx.read::<ChainRecord>(&name)? else { return Ok(()) };
    let removed = record.first_sequence..=oldest.through;
    if removed.is_empty() || oldest.through > record.last_sequence {
        return Ok(());
    }
    let checkpoint = v1::AuditCheckpoint {
        through_sequence: oldest.through,
        hash: oldest.hash.clone(),
        entries: oldest.through - record.first_sequence + 1,
        through_at: Some(timestamp(oldest.at_ms)),
        because_full: oldest.because_full,
    };
    let trimmed = ChainRecord {
        first_sequence: oldest.through + 1,
        bytes: record.bytes.saturating_sub(oldest.bytes),
        ..ChainRecord::clone(&record)
    };
    tx.put(&name, &trimmed);
    tx.remove(chain.stream(), removed.collect());
    let at = Some(timestamp(tx.ctx.now_ms));
    append(tx, chain, &[v1::AuditEntry { at, checkpoint: Some(checkpoint), ..v1::AuditEntry::default() }])?;
    // It frees more than it takes.
    tx.ends_something();
    Ok(())
}

/// An entry as it is stored.
#[derive(Clone, Debug)]
pub struct StoredEntry {
    /// Its hash. Shorter if the entry is damaged.
    pub hash: Bytes,
    /// Its encoding.
    pub encoded: Bytes,
    /// The entry. `None` if it cannot be decoded.
    pub entry: Option<v1::AuditEntry>,
}

impl StoredEntry {
    /// Takes an entry of a chain's stream apart.
    pub fn of(entry: &Entry) -> Self {
        let mut encoded = entry.data.clone();
        let hash = encoded.split_to(HASH_BYTES.min(encoded.len()));
        let entry = v1::AuditEntry::decode(encoded.clone()).ok();
        Self { hash, encoded, entry }
    }

    /// Returns when the last call ended that it is about, in milliseconds since 1970; 0 if it cannot be decoded.
    pub fn at_ms(&self) -> u64 {
        let at = self.entry.as_ref().and_then(|entry| entry.last_at.as_ref().or(entry.at.as_ref()));
        at.map_or(0, crate::domain::time::milliseconds)
    }
}

/// Notes the fingerprint of the operator's credential, and writes an entry if it was another one before.
pub fn note_operator(tx: &mut Tx<'_>, fingerprint: String) -> Result<(), RuleError> {
    let before = tx.read::<OperatorMarkRecord>("")?;
    if before.as_ref().is_some_and(|before| before.fingerprint == fingerprint) {
        return Ok(());
    }
    tx.put("", &OperatorMarkRecord { fingerprint });
    if before.is_some() {
        let kind = v1::AuditCallerKind::Administrator.into();
        let entry = v1::AuditEntry {
            at: Some(timestamp(tx.ctx.now_ms)),
            caller: Some(v1::AuditCaller { kind, ..v1::AuditCaller::default() }),
            method: "operator credential".to_owned(),
            outcome: "OK".to_owned(),
            calls: 1,
            ..v1::AuditEntry::default()
        };
        append(tx, &Chain::new(Subject::Privileged, None), &[entry])?;
    }
    Ok(())
}
