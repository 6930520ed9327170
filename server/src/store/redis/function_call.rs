//! Encodes transactions as arguments of the functions in `commit.lua`, and decodes the replies.
//!
//! Arguments follow each other without lengths: each operation takes a fixed number. `key` is the position of a key
//! among the function's keys; 1 is the meta hash. If there are several transactions, they share the keys, and each is
//! preceded by the number of its arguments.
//!
//! | operation | arguments |
//! |---|---|
//! | `v` check a version | key, id, version or nothing |
//! | `u` check that an idempotency key is unused | idempotency key |
//! | `l` check a lease | key, name, `1` (alive) or `0` (not) |
//! | `P` put | key, version field, data field, data |
//! | `D` delete | key, version field, data field |
//! | `A` append | key, data, weight, maximum entries or nothing, maximum weight or nothing, `1` (refuse) or `0` (skip) |
//! | `R` remove | key, first sequence, last sequence |
//! | `S` raise a stream's next sequence | key, sequence |
//! | `V` raise the version and the clock | version |
//! | `M` remember a reply | idempotency key, data |
//! | `L` set a lease | key, name, milliseconds |
//! | `E` end a lease | key, name |
//! | `H` notify | message |
//! | `X` drop the namespace | |

use std::{collections::HashMap, fmt};

use redis::{Arg, Cmd, RedisWrite as _, Value};

use super::keys::Keys;
use crate::store::{Check, Commit, Durability, Failed, Namespace, Outcome, Record, StoreError, Txn, WhenFull, Write};

/// The limit of exact integers in Lua's floating point. No count ever reaches it.
const EXACT_MAX: u64 = 1 << 53;

/// The maximum weight of an entry, so that thousands of the heaviest still sum up exactly.
const WEIGHT_MAX: u64 = 1 << 40;

/// The maximum number of entries per removal, because the function reads what it removes.
const RUN_MAX: u64 = 64;

/// Returns whether a transaction only frees memory: it neither appends nor remembers a reply, and it either removes or
/// ends something or puts nothing. Such a transaction does not wait for replicas.
pub(super) fn only_frees_memory(txn: &Txn) -> bool {
    let grows = |write: &Write| {
        matches!(write, Write::Append { .. } | Write::SkipTo { .. } | Write::Raise { .. } | Write::RememberReply { .. })
    };
    let puts = |write: &Write| matches!(write, Write::Put { .. });
    let frees = |write: &Write| {
        matches!(write, Write::Remove { .. } | Write::Delete { .. } | Write::EndLease { .. } | Write::DropNamespace)
    };
    !txn.writes.iter().any(grows) && (txn.writes.iter().any(frees) || !txn.writes.iter().any(puts))
}

/// Returns whether a transaction with this write is never sent together with others.
fn goes_alone(names: &Keys, write: &Write) -> bool {
    match write {
        Write::Raise { .. } => true,
        // It may empty a key, which then vanishes. While the slot migrates, a later transaction of the call could no
        // longer write it.
        Write::Delete { .. } | Write::EndLease { .. } | Write::DropNamespace => names.are_in_cluster(),
        _ => false,
    }
}

/// A transaction, encoded.
pub(super) struct EncodedTxn {
    /// The meta hash, then the keys that the transaction names.
    keys: Vec<String>,
    args: Cmd,
    /// How many arguments there are.
    count: usize,
    /// Which arguments are positions of keys, and of which keys.
    positions: Vec<(usize, usize)>,
    /// Whether it is never sent together with others.
    pub(super) goes_alone: bool,
}

/// What a reply says besides the outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplyFlags {
    /// The version of the commit that created the namespace.
    pub(super) born: u64,
    /// The namespace now has the commit's version.
    pub(super) is_kept: bool,
    /// The notifications were published. `false` if there were none, or no other store listens.
    pub(super) is_published: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyName<'t> {
    Records(&'static str),
    Stream(&'t str),
    Leases,
}

/// Returns the command that executes a transaction with `function`, on a server with this history.
pub(super) fn command(names: &Keys, txn: &EncodedTxn, function: &str, history: &str) -> Cmd {
    let mut command = start(names, function, history, &txn.keys, txn.count, txn.bytes());
    txn.args().for_each(|arg| command.write_arg(arg));
    command
}

/// Returns the command that executes transactions of one namespace with `function`, on a server with this history.
pub(super) fn command_for_all(names: &Keys, txns: &[&EncodedTxn], function: &str, history: &str) -> Cmd {
    let (mut keys, mut known) = (Vec::new(), HashMap::new());
    let mut place = |key| {
        *known.entry(key).or_insert_with(|| {
            keys.push(key);
            keys.len()
        })
    };
    let places: Vec<Vec<usize>> =
        txns.iter().map(|txn| txn.keys.iter().map(|key| place(key.as_str())).collect()).collect();
    let count = txns.iter().map(|txn| txn.count + 1).sum();
    let bytes = txns.iter().map(|txn| txn.bytes()).sum();
    let mut command = start(names, function, history, &keys, count, bytes);
    for (txn, places) in txns.iter().zip(places) {
        command.arg(txn.count);
        let mut positions = txn.positions.iter();
        let mut next = positions.next();
        for (at, arg) in txn.args().enumerate() {
            match next {
                Some((position, key)) if *position == at => {
                    command.arg(places.get(*key).copied().unwrap_or_default());
                    next = positions.next();
                }
                _ => command.write_arg(arg),
            }
        }
    }
    command
}

/// Starts a command of which `count` arguments with so many bytes are to follow.
fn start(
    names: &Keys,
    function: &str,
    history: &str,
    keys: &[impl redis::ToRedisArgs + AsRef<str>],
    count: usize,
    bytes: usize,
) -> Cmd {
    let in_keys: usize = keys.iter().map(|key| key.as_ref().len()).sum();
    let mut command = Cmd::with_capacity(keys.len() + count + 6, in_keys + bytes + 256);
    command.arg("FCALL").arg(function).arg(keys.len()).arg(keys);
    for place in 0..2 {
        command.arg(names.channels().get(place).map_or("", String::as_str));
    }
    command.arg(history);
    command
}

impl EncodedTxn {
    /// Returns how many bytes its arguments have.
    pub(super) fn bytes(&self) -> usize {
        self.args().map(<[u8]>::len).sum()
    }

    fn args(&self) -> impl Iterator<Item = &[u8]> + Clone {
        // Only cursors make other kinds of arguments.
        self.args.args_iter().filter_map(|arg| if let Arg::Simple(arg) = arg { Some(arg) } else { None })
    }
}

/// Encodes a transaction.
pub(super) fn encode(names: &Keys, namespace: &Namespace, txn: &Txn) -> EncodedTxn {
    let encoded = EncodedTxn {
        keys: vec![names.meta(namespace)],
        args: Cmd::new(),
        count: 0,
        positions: Vec::new(),
        goes_alone: txn.writes.iter().any(|write| goes_alone(names, write)),
    };
    let mut encoder = Encoder { names, namespace, named: Vec::new(), encoded };
    encoder.number(txn.checks.len() as u64);
    match txn.bytes_max {
        Some(bytes) => encoder.number(bytes),
        None => encoder.op(""),
    }
    for check in &txn.checks {
        encoder.check(check);
    }
    for write in &txn.writes {
        encoder.write(write);
    }
    encoder.encoded
}

/// Decodes the answer to a transaction.
pub(super) fn outcome(txn: &Txn, answer: Value, durability: Durability) -> Result<(Outcome, ReplyFlags), StoreError> {
    let unreadable = || StoreError::Corrupt("the function's reply cannot be parsed".to_owned());
    let Value::Array(answer) = answer else { return Err(unreadable()) };
    let mut answer = answer.into_iter();
    let outcome = match answer.next() {
        Some(Value::Int(1)) => {
            committed(txn, &mut answer, durability).map(|(commit, flags)| (Outcome::Committed(commit), flags))
        }
        Some(Value::Int(0)) => {
            refused(txn, &mut answer).map(|failed| (Outcome::Refused(failed), ReplyFlags::default()))
        }
        _ => None,
    };
    outcome.ok_or_else(unreadable)
}

fn refused(txn: &Txn, answer: &mut impl Iterator<Item = Value>) -> Option<Failed> {
    let what = bytes(answer.next()?)?;
    let about = answer.next()?;
    match &what[..] {
        b"u" => Some(Failed::KeyUsed { data: bytes(about)?.into() }),
        b"q" => Some(Failed::OverQuota { held: int(about)? }),
        b"f" => Some(Failed::Full { stream: String::from_utf8(bytes(about)?).ok()? }),
        b"v" | b"l" => match txn.checks.get(usize::try_from(int(about)?).ok()?)? {
            Check::Version { key, .. } => {
                let version = bytes(answer.next()?)?;
                let current = match version.is_empty() {
                    true => None,
                    false => {
                        let version = std::str::from_utf8(&version).ok()?.parse().ok()?;
                        Some(Record { version, data: bytes(answer.next()?)?.into() })
                    }
                };
                Some(Failed::Version { key: key.clone(), current })
            }
            Check::Lease { name, .. } => Some(Failed::Lease { name: name.clone() }),
            Check::KeyUnused { .. } => None,
        },
        _ => None,
    }
}

/// Encodes a transaction of a namespace.
struct Encoder<'t> {
    names: &'t Keys,
    namespace: &'t Namespace,
    /// What the keys after the meta hash are.
    named: Vec<KeyName<'t>>,
    encoded: EncodedTxn,
}

impl<'t> Encoder<'t> {
    fn check(&mut self, check: &'t Check) {
        match check {
            Check::Version { key, version } => {
                self.op("v");
                self.key(KeyName::Records(key.kind));
                self.data(key.id.as_bytes());
                match version {
                    Some(version) => self.text(*version),
                    None => self.op(""),
                }
            }
            Check::KeyUnused { key } => {
                self.op("u");
                self.data(key.as_bytes());
            }
            Check::Lease { name, alive } => {
                self.op("l");
                self.key(KeyName::Leases);
                self.data(name.as_bytes());
                self.op(if *alive { "1" } else { "0" });
            }
        }
    }

    fn write(&mut self, write: &'t Write) {
        match write {
            Write::Put { key, data } => {
                self.op("P");
                self.key(KeyName::Records(key.kind));
                self.text(Keys::version_field(&key.id));
                self.text(Keys::data_field(&key.id));
                self.data(data);
            }
            Write::Delete { key } => {
                self.op("D");
                self.key(KeyName::Records(key.kind));
                self.text(Keys::version_field(&key.id));
                self.text(Keys::data_field(&key.id));
            }
            Write::Append { stream, data, weight, bound } => {
                self.op("A");
                self.key(KeyName::Stream(stream));
                self.data(data);
                self.number((*weight).min(WEIGHT_MAX));
                match bound {
                    Some(bound) => {
                        self.number(bound.entries_max);
                        self.number(bound.weight_max);
                        self.op(if bound.when_full == WhenFull::Refuse { "1" } else { "0" });
                    }
                    None => ["", "", "0"].into_iter().for_each(|none| self.op(none)),
                }
            }
            Write::Remove { stream, sequences } => {
                for (first, last) in runs(sequences) {
                    self.op("R");
                    self.key(KeyName::Stream(stream));
                    self.number(first);
                    self.number(last);
                }
            }
            Write::SkipTo { stream, next } => {
                self.op("S");
                self.key(KeyName::Stream(stream));
                self.number(*next);
            }
            Write::Raise { version, clock_ms } => {
                self.op("V");
                // The version is also the clock, in microseconds.
                self.number((*version).max(clock_ms.saturating_mul(1_000)));
            }
            Write::RememberReply { key, data } => {
                self.op("M");
                self.data(key.as_bytes());
                self.data(data);
            }
            Write::Lease { name, ttl } => {
                self.op("L");
                self.key(KeyName::Leases);
                self.data(name.as_bytes());
                // The sum of two of these is still exact.
                self.number(u64::try_from(ttl.as_millis()).unwrap_or(EXACT_MAX).min(EXACT_MAX / 2));
            }
            Write::EndLease { name } => {
                self.op("E");
                self.key(KeyName::Leases);
                self.data(name.as_bytes());
            }
            Write::Notify { topic, by } => {
                self.op("H");
                self.text(Keys::message(self.namespace, topic, *by));
            }
            Write::DropNamespace => self.op("X"),
        }
    }

    fn key(&mut self, named: KeyName<'t>) {
        let at = self.named.iter().position(|other| *other == named).unwrap_or_else(|| {
            self.encoded.keys.push(match named {
                KeyName::Records(kind) => self.names.records(self.namespace, kind),
                KeyName::Stream(stream) => self.names.stream(self.namespace, stream),
                KeyName::Leases => self.names.leases(self.namespace),
            });
            self.named.push(named);
            self.named.len() - 1
        });
        self.encoded.positions.push((self.encoded.count, at + 1));
        self.number(at as u64 + 2);
    }

    fn op(&mut self, op: &'static str) {
        self.data(op.as_bytes());
    }

    fn number(&mut self, number: u64) {
        self.encoded.count += 1;
        self.encoded.args.arg(number.min(EXACT_MAX));
    }

    fn text(&mut self, text: impl fmt::Display) {
        self.encoded.count += 1;
        self.encoded.args.write_arg_fmt(text);
    }

    fn data(&mut self, data: &[u8]) {
        self.encoded.count += 1;
        self.encoded.args.write_arg(data);
    }
}

fn committed(
    txn: &Txn,
    answer: &mut impl Iterator<Item = Value>,
    durability: Durability,
) -> Option<(Commit, ReplyFlags)> {
    let versions = bytes(answer.next()?)?;
    let (version, born) = std::str::from_utf8(&versions).ok()?.split_once(' ')?;
    let (version, born) = (version.parse().ok()?, born.parse().ok()?);
    let at_ms = int(answer.next()?)?;
    let removed = int(answer.next()?)?;
    let is_kept = int(answer.next()?)? == 1;
    let is_published = int(answer.next()?)? == 1;
    let appends = txn.writes.iter().filter(|write| matches!(write, Write::Append { .. })).count();
    let appended: Option<Vec<_>> =
        answer.map(|sequence| int(sequence).map(|number| (number > 0).then_some(number))).collect();
    let appended = appended.filter(|appended| appended.len() == appends)?;
    Some((Commit { version, at_ms, durability, appended, removed }, ReplyFlags { born, is_kept, is_published }))
}

/// Splits sequences into contiguous runs, each as its first and last sequence.
fn runs(sequences: &[u64]) -> Vec<(u64, u64)> {
    let mut sorted: Vec<u64> = sequences.iter().copied().filter(|sequence| (1..EXACT_MAX).contains(sequence)).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for sequence in sorted {
        match runs.last_mut() {
            Some((first, last)) if *last + 1 == sequence && sequence - *first < RUN_MAX => *last = sequence,
            _ => runs.push((sequence, sequence)),
        }
    }
    runs
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

fn int(value: Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Key;
    use crate::store::conformance::{append, delete, put, remember, remove};

    #[test]
    fn sequences_are_grouped_into_contiguous_runs() {
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[0, u64::MAX]), []);
        assert_eq!(runs(&[3, 1, 2, 2, 9]), [(1, 3), (9, 9)]);
        assert_eq!(runs(&(1..=130).collect::<Vec<_>>()), [(1, 64), (65, 128), (129, 130)]);
    }

    #[test]
    fn only_transactions_that_free_memory_skip_the_wait_for_replicas() {
        let key = Key::new("member", "x");
        let frees = |writes| only_frees_memory(&Txn { checks: vec![], writes, ..Txn::default() });
        assert!(frees(vec![remove("s", &[1])]));
        assert!(frees(vec![remove("s", &[1]), put(&key, "cursor")]));
        assert!(frees(vec![delete(&key)]));
        assert!(frees(vec![Write::DropNamespace]));
        assert!(frees(vec![Write::Lease { name: "l".to_owned(), ttl: std::time::Duration::ZERO }]));
        assert!(!frees(vec![put(&key, "")]));
        assert!(!frees(vec![remove("s", &[1]), append("s", "")]));
        assert!(!frees(vec![remove("s", &[1]), remember("k", "")]));
    }
}
