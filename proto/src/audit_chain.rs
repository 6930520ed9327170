//! The chains of the audit log: how the hash of an entry covers the one before it, and how a reader verifies a chain.
//!
//! Architecture invariant: verification works on the entries as they are stored. It does not encode anything again.

use crate::v1;

/// The hash of an entry.
pub type Hash = [u8; 32];

/// Returns the hash before the first entry of a chain.
pub fn start(chain: &str) -> Hash {
    blake3::derive_key("teamwire 2026-11 audit chain", chain.as_bytes())
}

/// Returns the hash of an entry. `before`: that of the entry before it. `encoded`: the entry as it is stored.
pub fn link(before: &Hash, sequence: u64, encoded: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new_derive_key("teamwire 2026-11 audit entry");
    hasher.update(before).update(&sequence.to_le_bytes()).update(encoded);
    *hasher.finalize().as_bytes()
}

/// Where a chain breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    /// Entries are missing: these, from the first to the last.
    #[error("entries {0} to {1} are missing")]
    Missing(u64, u64),
    /// Older entries are missing, and no checkpoint says that they were removed.
    #[error("entries up to {0} are missing, and no checkpoint says that they were removed")]
    NoCheckpoint(u64),
    /// This entry does not match its hash: it, its hash or an earlier entry was changed.
    #[error("entry {0} does not match its hash: the entry or one before it was changed")]
    Hash(u64),
    /// The chain's head is not the hash of this entry, the last one.
    #[error("entry {0} is the last one, but the head of the chain has another hash")]
    Head(u64),
}

/// Verifies a chain. `records`: all of its entries, in order, read after `chain`; those that were added since are
/// ignored.
pub fn verify(chain: &v1::AuditChain, records: &[v1::AuditRecord]) -> Result<(), Break> {
    let known = records.iter().position(|record| record.sequence > chain.last_sequence).unwrap_or(records.len());
    let Some(first) = records[..known].first() else {
        return match chain.last_sequence {
            0 => Ok(()),
            last => Err(Break::Missing(chain.first_sequence, last)),
        };
    };
    // While the chain was being read, older entries may have been removed: a checkpoint after its head then says so.
    let mut before = before(&chain.name, first.sequence, records)?;
    let mut expected = first.sequence;
    for record in &records[..known] {
        if record.sequence != expected {
            return Err(Break::Missing(expected, record.sequence.saturating_sub(1)));
        }
        before = link(&before, record.sequence, &record.encoded);
        if before[..] != record.hash[..] {
            return Err(Break::Hash(record.sequence));
        }
        expected += 1;
    }
    if expected <= chain.last_sequence {
        return Err(Break::Missing(expected, chain.last_sequence));
    }
    if before[..] == chain.hash[..] { Ok(()) } else { Err(Break::Head(chain.last_sequence)) }
}

/// Returns the hash before the first entry that is left.
fn before(chain: &str, first: u64, records: &[v1::AuditRecord]) -> Result<Hash, Break> {
    if first == 1 {
        return Ok(start(chain));
    }
    let mut checkpoints = records.iter().filter_map(|record| record.entry.as_ref()?.checkpoint.as_ref());
    let of_the_first = checkpoints.rfind(|checkpoint| checkpoint.through_sequence + 1 == first);
    let hash = of_the_first.and_then(|checkpoint| Hash::try_from(checkpoint.hash.as_slice()).ok());
    hash.ok_or(Break::NoCheckpoint(first - 1))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    const CHAIN: &str = "access/acme";

    fn chained(entries: Vec<v1::AuditEntry>) -> (v1::AuditChain, Vec<v1::AuditRecord>) {
        let mut hash = start(CHAIN);
        let mut records = Vec::new();
        for (sequence, entry) in (1..).zip(entries) {
            let encoded = entry.encode_to_vec();
            hash = link(&hash, sequence, &encoded);
            let chain = CHAIN.to_owned();
            records.push(v1::AuditRecord { chain, sequence, entry: Some(entry), encoded, hash: hash.to_vec() });
        }
        (head(&records), records)
    }

    fn head(records: &[v1::AuditRecord]) -> v1::AuditChain {
        let (first, last) = (records.first().expect("an entry"), records.last().expect("an entry"));
        v1::AuditChain {
            name: CHAIN.to_owned(),
            first_sequence: first.sequence,
            last_sequence: last.sequence,
            hash: last.hash.clone(),
            ..v1::AuditChain::default()
        }
    }

    fn of(method: &str) -> v1::AuditEntry {
        v1::AuditEntry { method: method.to_owned(), outcome: "OK".to_owned(), ..v1::AuditEntry::default() }
    }

    #[test]
    fn an_unmodified_chain_verifies_even_while_it_grows() {
        let (chain, records) = chained(vec![of("a"), of("b"), of("c")]);
        assert_eq!(verify(&chain, &records), Ok(()));
        assert_eq!(verify(&head(&records[..2]), &records), Ok(()), "an entry was added while the chain was read");
        assert_eq!(verify(&v1::AuditChain { name: CHAIN.to_owned(), ..v1::AuditChain::default() }, &[]), Ok(()));
    }

    #[test]
    fn each_change_breaks_the_chain_where_it_was_made() {
        let (chain, records) = chained(vec![of("a"), of("b"), of("c")]);
        for at in 0..records[1].encoded.len() {
            let mut flipped = records.clone();
            flipped[1].encoded[at] ^= 1;
            assert_eq!(verify(&chain, &flipped), Err(Break::Hash(2)), "byte {at}");
        }
        let mut rehashed = records.clone();
        rehashed[1].encoded = of("x").encode_to_vec();
        rehashed[1].hash = link(&start(CHAIN), 2, &rehashed[1].encoded).to_vec();
        assert_eq!(verify(&chain, &rehashed), Err(Break::Hash(2)));

        let without = |at: usize| [&records[..at], &records[at + 1..]].concat();
        assert_eq!(verify(&chain, &without(0)), Err(Break::NoCheckpoint(1)));
        assert_eq!(verify(&chain, &without(1)), Err(Break::Missing(2, 2)));
        assert_eq!(verify(&chain, &without(2)), Err(Break::Missing(3, 3)));
        assert_eq!(verify(&chain, &[]), Err(Break::Missing(1, 3)));
        let (_, other) = chained(vec![of("a"), of("b"), of("x")]);
        assert_eq!(verify(&chain, &other), Err(Break::Head(3)), "all of it was rewritten, but not the head");
        let elsewhere = v1::AuditChain { name: "access/other".to_owned(), ..chain };
        assert_eq!(verify(&elsewhere, &records), Err(Break::Hash(1)), "it was moved to another chain");
    }

    #[test]
    fn a_chain_without_its_oldest_entries_verifies_from_its_checkpoint() {
        let (_, begun) = chained(vec![of("a"), of("b")]);
        let checkpoint = |hash: &[u8]| v1::AuditEntry {
            checkpoint: Some(v1::AuditCheckpoint {
                through_sequence: 1,
                hash: hash.to_vec(),
                ..v1::AuditCheckpoint::default()
            }),
            ..v1::AuditEntry::default()
        };
        let (chain, records) = chained(vec![of("a"), of("b"), checkpoint(&begun[0].hash)]);
        assert_eq!(verify(&chain, &records[1..]), Ok(()));
        assert_eq!(verify(&head(&records[..2]), &records[1..]), Ok(()), "it was trimmed while it was read");
        assert_eq!(verify(&chain, &records[2..]), Err(Break::NoCheckpoint(2)));
        let (chain, records) = chained(vec![of("a"), of("b"), checkpoint(&begun[1].hash)]);
        assert_eq!(verify(&chain, &records[1..]), Err(Break::Hash(2)), "the checkpoint names another entry");
    }
}
