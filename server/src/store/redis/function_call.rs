//! Encodes a transaction as arguments of the function in `commit.lua`, and decodes the reply.
//!
//! Arguments follow each other without lengths: each operation takes a fixed number. `key` is the position of a key among the
//! function's keys; 1 is the meta hash.
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

use std::collections::HashMap;

use redis::{Arg, Cmd, RedisWrite as _, Value};

use super::keys::Keys;
use crate::store::{Check, Commit, Durability, Failed, Namespace, Outcome, Record, StoreError, Txn, WhenFull, Write};

/// The limit of exact integers in Lua's floating point. No count ever reaches it.
const EXACT_MAX: u64 = 1 << 53;

/// The maximum weight of an entry, so that thousands of the heaviest still sum up exactly.
const WEIGHT_MAX: u64 = 1 << 40;

/// The maximum number of entries per removal, because the function reads what it removes.
const RUN_MAX: u64 = 64;

/// Returns whether a transaction only frees memory: it neither appends nor remembers a reply, and it either removes or ends
/// something or puts nothing. Such a transaction does not wait for replicas.
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

/// A transaction, encoded.
pub(super) struct FunctionCall<'t> {
    channels: &'t [String],
    keys: Vec<String>,
    places: HashMap<KeyName<'t>, usize>,
    args: Cmd,
}

/// What a reply says besides the outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplyFlags {
    /// The version of the commit that created the namespace.
    pub(super) born: u64,
    /// The namespace now has the commit's version.
    pub(super) is_kept: bool,
    /// The notifications were published. `false`: there were none, or no other store listens.
    pub(super) is_published: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum KeyName<'t> {
    Records(&'static str),
    Stream(&'t str),
    Leases,
}

impl<'t> FunctionCall<'t> {
    /// Encodes a transaction.
    pub(super) fn new(names: &'t Keys, namespace: &Namespace, txn: &'t Txn) -> Self {
        let keys = vec![names.meta(namespace)];
        let mut call = Self { channels: names.channels(), keys, places: HashMap::new(), args: Cmd::new() };
        call.args.arg(txn.checks.len());
        match txn.bytes_max {
            Some(bytes) => call.number(bytes),
            None => call.op(""),
        }
        for check in &txn.checks {
            call.check(names, namespace, check);
        }
        for write in &txn.writes {
            call.write(names, namespace, write);
        }
        call
    }

    /// Returns the command that calls `function` on a server with this history.
    pub(super) fn command(&self, function: &str, history: &str) -> Cmd {
        // Only cursors make other kinds of arguments.
        let simple = |arg| if let Arg::Simple(arg) = arg { Some(arg) } else { None };
        let args = self.args.args_iter().filter_map(simple);
        let bytes: usize = self.keys.iter().map(String::len).chain(args.clone().map(<[u8]>::len)).sum();
        let mut command = Cmd::with_capacity(self.keys.len() + args.clone().count() + 6, bytes + 256);
        command.arg("FCALL").arg(function).arg(self.keys.len()).arg(&self.keys);
        for place in 0..2 {
            command.arg(self.channels.get(place).map_or("", String::as_str));
        }
        command.arg(history);
        args.for_each(|arg| command.write_arg(arg));
        command
    }

    /// Decodes the reply to a transaction.
    pub(super) fn outcome(
        &self,
        txn: &Txn,
        answer: &Value,
        durability: Durability,
    ) -> Result<(Outcome, ReplyFlags), StoreError> {
        let unreadable = || StoreError::Corrupt("the function's reply cannot be parsed".to_owned());
        let Value::Array(answer) = answer else { return Err(unreadable()) };
        let mut answer = answer.iter().cloned();
        let outcome = match answer.next() {
            Some(Value::Int(1)) => {
                committed(txn, &mut answer, durability).map(|(commit, flags)| (Outcome::Committed(commit), flags))
            }
            Some(Value::Int(0)) => {
                self.refused(txn, &mut answer).map(|failed| (Outcome::Refused(failed), ReplyFlags::default()))
            }
            _ => None,
        };
        outcome.ok_or_else(unreadable)
    }

    fn refused(&self, txn: &Txn, answer: &mut impl Iterator<Item = Value>) -> Option<Failed> {
        let what = bytes(answer.next()?)?;
        if what == b"u" {
            return Some(Failed::KeyUsed { data: bytes(answer.next()?)?.into() });
        }
        if what == b"q" {
            return Some(Failed::OverQuota { held: int(answer.next()?)? });
        }
        let place = usize::try_from(int(answer.next()?)?).ok()?;
        match (&what[..], txn.checks.get(place)) {
            (b"v", Some(Check::Version { key, .. })) => {
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
            (b"l", Some(Check::Lease { name, .. })) => Some(Failed::Lease { name: name.clone() }),
            (b"f", _) => {
                let full = self.places.iter().find_map(|(named, at)| match named {
                    KeyName::Stream(stream) if *at == place => Some((*stream).to_owned()),
                    _ => None,
                });
                Some(Failed::Full { stream: full? })
            }
            _ => None,
        }
    }

    fn check(&mut self, names: &Keys, namespace: &Namespace, check: &'t Check) {
        match check {
            Check::Version { key, version } => {
                self.op("v");
                self.key(names, namespace, KeyName::Records(key.kind));
                self.args.arg(&key.id);
                match version {
                    Some(version) => self.args.arg(*version),
                    None => self.args.arg(""),
                };
            }
            Check::KeyUnused { key } => {
                self.op("u");
                self.args.arg(key);
            }
            Check::Lease { name, alive } => {
                self.op("l");
                self.key(names, namespace, KeyName::Leases);
                self.args.arg(name);
                self.op(if *alive { "1" } else { "0" });
            }
        }
    }

    fn write(&mut self, names: &Keys, namespace: &Namespace, write: &'t Write) {
        match write {
            Write::Put { key, data } => {
                self.op("P");
                self.key(names, namespace, KeyName::Records(key.kind));
                self.args.write_arg_fmt(Keys::version_field(&key.id));
                self.args.write_arg_fmt(Keys::data_field(&key.id));
                self.args.write_arg(data);
            }
            Write::Delete { key } => {
                self.op("D");
                self.key(names, namespace, KeyName::Records(key.kind));
                self.args.write_arg_fmt(Keys::version_field(&key.id));
                self.args.write_arg_fmt(Keys::data_field(&key.id));
            }
            Write::Append { stream, data, weight, bound } => {
                self.op("A");
                self.key(names, namespace, KeyName::Stream(stream));
                self.args.write_arg(data);
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
                    self.key(names, namespace, KeyName::Stream(stream));
                    self.number(first);
                    self.number(last);
                }
            }
            Write::SkipTo { stream, next } => {
                self.op("S");
                self.key(names, namespace, KeyName::Stream(stream));
                self.number(*next);
            }
            Write::Raise { version, clock_ms } => {
                self.op("V");
                // The version is also the clock, in microseconds.
                self.number((*version).max(clock_ms.saturating_mul(1_000)));
            }
            Write::RememberReply { key, data } => {
                self.op("M");
                self.args.arg(key);
                self.args.write_arg(data);
            }
            Write::Lease { name, ttl } => {
                self.op("L");
                self.key(names, namespace, KeyName::Leases);
                self.args.arg(name);
                // The sum of two of these is still exact.
                self.number(u64::try_from(ttl.as_millis()).unwrap_or(EXACT_MAX).min(EXACT_MAX / 2));
            }
            Write::EndLease { name } => {
                self.op("E");
                self.key(names, namespace, KeyName::Leases);
                self.args.arg(name);
            }
            Write::Notify { topic, by } => {
                self.op("H");
                self.args.write_arg_fmt(Keys::message(namespace, topic, *by));
            }
            Write::DropNamespace => self.op("X"),
        }
    }

    fn key(&mut self, names: &Keys, namespace: &Namespace, named: KeyName<'t>) {
        let keys = &mut self.keys;
        let place = *self.places.entry(named).or_insert_with(|| {
            keys.push(match named {
                KeyName::Records(kind) => names.records(namespace, kind),
                KeyName::Stream(stream) => names.stream(namespace, stream),
                KeyName::Leases => names.leases(namespace),
            });
            keys.len()
        });
        self.args.arg(place);
    }

    fn op(&mut self, op: &'static str) {
        self.args.arg(op);
    }

    fn number(&mut self, number: u64) {
        self.args.arg(number.min(EXACT_MAX));
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
    #![allow(clippy::unwrap_used)]

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
