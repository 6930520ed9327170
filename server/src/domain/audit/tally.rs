//! How many entries one caller, and all callers, can cause in a chain within one interval.
//!
//! The first refused call of each kind is written at once; its repetitions are counted, and written as one entry at the
//! end of the interval. Calls that succeeded are written one by one, up to a bound. Each caller has a bound, and so
//! have all callers together. What exceeds a bound is counted in less detail.

use std::collections::{BTreeMap, HashMap};

use teamwire_proto::v1::{AuditCaller, AuditCallerKind, AuditEntry};

use super::chain::Chain;

/// The outcome of calls that were carried out.
pub const OK: &str = "OK";

/// How many successful calls of one account are written one by one.
const SINGLES_MAX: usize = 8;

/// The same for a join token, with which many members may join.
const SINGLES_OF_TOKEN_MAX: usize = 32;

/// How many successful calls in a chain are written one by one.
const SINGLES_IN_CHAIN_MAX: usize = 128;

/// How many kinds of calls (method and outcome) of one account are counted separately.
const KINDS_MAX: usize = 8;

/// How many counts a chain has, besides the one of what fits into no other.
const COUNTS_MAX: usize = 64;

/// The counts of all chains.
#[derive(Debug, Default)]
pub struct Tally {
    chains: BTreeMap<Chain, Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    counts: HashMap<Of, Option<AuditEntry>>,
    /// How many calls of each account were written one by one.
    singles: HashMap<String, usize>,
    singles_in_chain: usize,
}

/// What a count is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Of {
    /// The calls of an account, to a method and with an outcome.
    Kind { account: String, method: String, outcome: String },
    /// Other calls of an account.
    Account(String),
    /// Calls of all other accounts.
    Others,
}

impl Tally {
    /// Adds a call. Returns the entry if it is to be written now; otherwise the call is counted until [`Tally::close`].
    pub fn add(&mut self, chain: &Chain, account: &str, call: AuditEntry) -> Option<AuditEntry> {
        let counts = self.chains.entry(chain.clone()).or_default();
        let is_ok = call.outcome == OK;
        if is_ok && counts.takes_single(account, &call) {
            return Some(call);
        }
        let account = account.to_owned();
        let of = Of::Kind { account: account.clone(), method: call.method.clone(), outcome: call.outcome.clone() };
        if counts.counts.contains_key(&of) {
            counts.count(of, call);
            return None;
        }
        let has_room = counts.counts.len() < COUNTS_MAX;
        if has_room && counts.kinds_of(&account) < KINDS_MAX {
            if is_ok {
                counts.count(of, call);
                return None;
            }
            counts.counts.insert(of, None);
            return Some(call);
        }
        let of = Of::Account(account);
        if has_room || counts.counts.contains_key(&of) {
            counts.count(of, without_kind(call));
        } else {
            counts.count(Of::Others, without_caller(without_kind(call)));
        }
        None
    }

    /// Ends the interval: returns an entry for each count, in order of their first calls.
    pub fn close(&mut self) -> Vec<(Chain, AuditEntry)> {
        let mut closed = Vec::new();
        self.chains.retain(|chain, counts| {
            (counts.singles, counts.singles_in_chain) = (HashMap::new(), 0);
            // A count that goes on writes no entry for its next call: one entry for each interval is enough.
            counts.counts.retain(|_, counted| match counted.take() {
                Some(entry) => {
                    closed.push((chain.clone(), entry));
                    true
                }
                None => false,
            });
            !counts.counts.is_empty()
        });
        closed.sort_by_key(|(_, entry)| entry.at.map(|at| (at.seconds, at.nanos)));
        closed
    }
}

impl Counts {
    fn takes_single(&mut self, account: &str, call: &AuditEntry) -> bool {
        let is_token = call.caller.as_ref().is_some_and(|caller| caller.kind() == AuditCallerKind::JoinToken);
        let max = if is_token { SINGLES_OF_TOKEN_MAX } else { SINGLES_MAX };
        let written = self.singles.get(account).copied().unwrap_or_default();
        let takes = written < max && self.singles_in_chain < SINGLES_IN_CHAIN_MAX;
        if takes {
            self.singles.insert(account.to_owned(), written + 1);
            self.singles_in_chain += 1;
        }
        takes
    }

    fn kinds_of(&self, wanted: &str) -> usize {
        self.counts.keys().filter(|of| matches!(of, Of::Kind { account, .. } if account == wanted)).count()
    }

    fn count(&mut self, of: Of, call: AuditEntry) {
        match self.counts.entry(of).or_default() {
            Some(counted) => {
                counted.calls += call.calls;
                counted.last_at = call.at;
            }
            empty => *empty = Some(call),
        }
    }
}

fn without_kind(call: AuditEntry) -> AuditEntry {
    AuditEntry { method: String::new(), outcome: String::new(), object: String::new(), ..call }
}

fn without_caller(call: AuditEntry) -> AuditEntry {
    AuditEntry { caller: Some(AuditCaller::default()), address: String::new(), team: String::new(), ..call }
}
