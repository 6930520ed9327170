//! The audit log: what entries become in a chain, who called, and how many entries a caller can cause.

use prost::Message as _;
use teamwire_proto::{
    audit_chain,
    credential::Credential,
    v1::{self, AuditCallerKind as Kind},
};
use teamwire_server::{
    domain::{
        audit::{
            caller::{account, describe, stranger},
            chain::{Chain, Oldest, StoredEntry, Subject, append_batch, note_operator, trim},
            tally::{OK, Tally},
        },
        identity::CallerCredentials,
        records::{ActsFor, ChainRecord, ConsoleRecord, OperatorMarkRecord, SignInPurpose},
        secret::SecretHash,
        time::timestamp,
    },
    store::{Entry, Txn, Write},
};

use crate::world::*;

fn chain() -> Chain {
    Chain::new(Subject::Access, Some(&name("Alpha")))
}

fn entry(method: &str, outcome: &str) -> v1::AuditEntry {
    v1::AuditEntry {
        at: Some(timestamp(NOW_MS)),
        method: method.to_owned(),
        outcome: outcome.to_owned(),
        calls: 1,
        ..v1::AuditEntry::default()
    }
}

/// Returns what a transaction appends, with the sequences that a chain's stream gives after `last`.
fn entries(txn: &Txn, last: u64) -> Vec<Entry> {
    let data = txn.writes.iter().filter_map(|write| match write {
        Write::Append { stream, data, .. } => {
            assert_eq!(stream, "audit/access/alpha");
            Some(data.clone())
        }
        _ => None,
    });
    (last + 1..).zip(data).map(|(sequence, data)| Entry { sequence, data }).collect()
}

/// Shows a chain to the function with which readers verify it.
fn verified(txn: &Txn, entries: &[Entry]) -> Result<(), audit_chain::Break> {
    let record: ChainRecord = put(txn, "access/alpha").unwrap();
    let shown = v1::AuditChain {
        name: chain().to_string(),
        first_sequence: record.first_sequence,
        last_sequence: record.last_sequence,
        hash: hex::decode(&record.hash).unwrap(),
        ..v1::AuditChain::default()
    };
    let records: Vec<v1::AuditRecord> = entries
        .iter()
        .map(|entry| {
            let stored = StoredEntry::of(entry);
            let (encoded, hash) = (stored.encoded.to_vec(), stored.hash.to_vec());
            v1::AuditRecord { sequence: entry.sequence, entry: stored.entry, encoded, hash, ..Default::default() }
        })
        .collect();
    assert_eq!(record.bytes, entries.iter().map(|entry| entry.data.len() as u64).sum::<u64>());
    audit_chain::verify(&shown, &records)
}

#[test]
fn a_chain_parses_back_from_its_name() {
    for name in ["access", "privileged", "access/alpha", "privileged/a.b"] {
        assert_eq!(Chain::parse(name).unwrap().to_string(), name);
    }
    assert_eq!(Chain::parse("access/Alpha"), Some(chain()));
    for name in ["", "access/", "other/alpha", "access/a/b", "access/~x"] {
        assert_eq!(Chain::parse(name), None, "{name}");
    }
}

#[test]
fn entries_continue_the_chain_and_a_batch_is_added_once() {
    let mut world = World::with(&["lead"]);
    let (_, first) = world.run(|tx| append_batch(tx, &chain(), "b1", &[entry("a", OK), entry("b", OK)])).unwrap();
    world.apply(&first);
    let mut all = entries(&first, 0);
    assert_eq!(verified(&first, &all), Ok(()));

    let (again, nothing) = world.run(|tx| append_batch(tx, &chain(), "b1", &[entry("a", OK)])).unwrap();
    assert!(again.is_none() && nothing.writes.is_empty());

    let (_, second) = world.run(|tx| append_batch(tx, &chain(), "b2", &[entry("c", OK)])).unwrap();
    let checks_the_head = second.checks.iter().any(|check| format!("{check:?}").contains("chain"));
    assert!(checks_the_head, "another coordinator's entry must make the commit fail: {:?}", second.checks);
    all.extend(entries(&second, 2));
    assert_eq!(verified(&second, &all), Ok(()));
    let mut damaged = all[1].data.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    all[1].data = damaged.into();
    assert_eq!(verified(&second, &all), Err(audit_chain::Break::Hash(2)));
}

#[test]
fn removing_the_oldest_entries_leaves_a_checkpoint_from_which_the_chain_verifies() {
    let mut world = World::with(&["lead"]);
    let batch = [entry("a", OK), entry("b", OK), entry("c", OK)];
    let (_, added) = world.run(|tx| append_batch(tx, &chain(), "b1", &batch)).unwrap();
    world.apply(&added);
    let mut all = entries(&added, 0);
    let excess = all[0].data.len() as u64 + 1;
    assert_eq!(Oldest::choose(&all, 0, NOW_MS), None, "nothing is old");
    let oldest = Oldest::choose(&all, excess, 0).unwrap();
    assert_eq!((oldest.through, oldest.because_full), (2, true));

    world.pass(1_000);
    let ((), trimmed) = world.run(|tx| trim(tx, &chain(), &oldest)).unwrap();
    assert!(trimmed.ends_something, "a full store must trim, too");
    world.apply(&trimmed);
    all.drain(..2);
    all.extend(entries(&trimmed, 3));
    assert_eq!(verified(&trimmed, &all), Ok(()));
    let checkpoint = StoredEntry::of(all.last().unwrap()).entry.unwrap().checkpoint.unwrap();
    assert_eq!((checkpoint.through_sequence, checkpoint.entries, checkpoint.because_full), (2, 2, true));
    let ((), nothing) = world.run(|tx| trim(tx, &chain(), &oldest)).unwrap();
    assert!(nothing.writes.is_empty(), "another coordinator has trimmed already: {nothing:?}");

    // All that is left is old: the entry goes, and of two checkpoints the last one stays.
    let oldest = Oldest::choose(&all, 0, NOW_MS + 500).unwrap();
    assert_eq!((oldest.through, oldest.because_full), (3, false));
    let ((), trimmed) = world.run(|tx| trim(tx, &chain(), &oldest)).unwrap();
    all.drain(..1);
    all.extend(entries(&trimmed, 4));
    assert_eq!(verified(&trimmed, &all), Ok(()));
    assert_eq!(Oldest::choose(&all, 0, u64::MAX), None, "only checkpoints are left");
}

#[test]
fn a_new_credential_of_the_operator_is_noted_once() {
    let mut world = World::with(&["lead"]);
    let (old, new) = (SecretHash::of("old"), SecretHash::of("new"));
    let ((), first) = world.run(|tx| note_operator(tx, old.fingerprint())).unwrap();
    assert!(appended(&first).is_empty(), "it is the first one");
    assert!(!put::<OperatorMarkRecord>(&first, "").unwrap().fingerprint.contains(&String::from(old)[..16]));
    world.apply(&first);
    let ((), same) = world.run(|tx| note_operator(tx, old.fingerprint())).unwrap();
    assert!(same.writes.is_empty());
    let ((), changed) = world.run(|tx| note_operator(tx, new.fingerprint())).unwrap();
    assert_eq!(appended(&changed), ["audit/privileged"]);
    world.apply(&changed);
    let ((), same) = world.run(|tx| note_operator(tx, new.fingerprint())).unwrap();
    assert!(same.writes.is_empty());
}

#[test]
fn a_caller_is_named_by_its_credential_even_after_it_has_ended() {
    let world = World::with(&["lead", "ann"]).member("ann", |ann| {
        ann.incarnation = 2;
        ann.former_credentials = vec![SecretHash::of("before")];
    });
    let of = |who: &CallerCredentials| world.run(|tx| describe(tx, who)).unwrap().0;
    let lead = of(&caller("lead"));
    assert_eq!((lead.kind(), lead.member.as_str(), lead.incarnation, lead.is_lead), (Kind::Member, "lead", 1, true));
    let ann = of(&caller("ann"));
    assert_eq!((ann.kind(), ann.incarnation, ann.is_lead), (Kind::Member, 2, false));
    let with = |secret: &str| {
        let credential = Credential::Member { team: name("alpha"), member: name("ann"), secret: secret.to_owned() };
        CallerCredentials::new(credential, None)
    };
    let before = of(&with("before"));
    assert_eq!((before.kind(), before.member.as_str(), before.incarnation), (Kind::Member, "ann", 0));
    let guessed = of(&with("guessed"));
    assert_eq!((guessed.kind(), guessed.claim.as_str()), (Kind::Stranger, "member ann@alpha"));
    assert_eq!(of(&operator()).kind(), Kind::Operator);
    let other = CallerCredentials::new(Credential::Operator { secret: "other".to_owned() }, None);
    assert_eq!(of(&other).kind(), Kind::Stranger);
}

#[test]
fn all_sign_ins_of_a_member_are_one_account() {
    let console = ConsoleRecord {
        secret: SecretHash::of("console"),
        acts_for: ActsFor::Member(name("ann")),
        proof: SecretHash::of("ann"),
        read_only: true,
        created_ms: NOW_MS,
        expires_ms: Some(NOW_MS - 1),
        purpose: SignInPurpose::Console,
        last_used_ms: None,
        revoked: true,
    };
    let world = World::with(&["lead", "ann"]).record("c1", &console);
    let credential =
        Credential::Console { team: Some(name("alpha")), id: "c1".to_owned(), secret: "console".to_owned() };
    let described = world.run(|tx| describe(tx, &CallerCredentials::new(credential.clone(), None))).unwrap().0;
    assert_eq!((described.member.as_str(), described.credential_id.as_str()), ("ann", "c1"), "though it was revoked");
    let ann = world.run(|tx| describe(tx, &caller("ann"))).unwrap().0;
    assert_eq!(account(&described, "10.0.0.1"), account(&ann, "10.0.0.2"));
    let unknown = stranger(Some(&credential));
    assert_ne!(account(&unknown, "10.0.0.1"), account(&unknown, "10.0.0.2"));
}

fn by(member: &str, method: &str, outcome: &str) -> v1::AuditEntry {
    let caller = v1::AuditCaller { kind: Kind::Member.into(), member: member.to_owned(), ..Default::default() };
    v1::AuditEntry { caller: Some(caller), ..entry(method, outcome) }
}

#[test]
fn a_refusal_is_written_at_once_and_its_repetitions_as_one_entry() {
    let mut tally = Tally::default();
    let add = |tally: &mut Tally, at_ms: u64| {
        let call = v1::AuditEntry { at: Some(timestamp(at_ms)), ..by("ann", "ForceStop", "LEAD_ONLY") };
        tally.add(&chain(), "member/ann", call)
    };
    assert!(add(&mut tally, NOW_MS).is_some());
    for second in 1..=100 {
        assert_eq!(add(&mut tally, NOW_MS + second), None);
    }
    let closed = tally.close();
    let [(of, counted)] = closed.as_slice() else { panic!("{closed:?}") };
    assert_eq!((of, counted.calls), (&chain(), 100));
    let (first, last) = (timestamp(NOW_MS + 1), timestamp(NOW_MS + 100));
    assert_eq!((counted.at, counted.last_at), (Some(first), Some(last)));

    assert_eq!(add(&mut tally, NOW_MS + 200), None, "it goes on, so an entry for each interval is enough");
    assert_eq!(tally.close().len(), 1);
    assert!(tally.close().is_empty());
    assert!(add(&mut tally, NOW_MS + 300).is_some(), "it had ended");
}

#[test]
fn audit_entries_are_bounded_per_caller_and_in_total_but_every_call_is_counted() {
    let mut tally = Tally::default();
    let mut written = 0;
    for method in 0..1_000 {
        written += u32::from(tally.add(&chain(), "member/ann", by("ann", &method.to_string(), "LEAD_ONLY")).is_some());
    }
    assert_eq!(written, 8);
    assert!(
        tally.add(&chain(), "member/bob", by("bob", "Send", "NOT_PERMITTED")).is_some(),
        "ann takes no other's room"
    );
    let other = Chain::new(Subject::Access, Some(&name("beta")));
    assert!(tally.add(&other, "member/ann", by("ann", "Send", "NOT_PERMITTED")).is_some());
    let closed = tally.close();
    let [(_, counted)] = closed.as_slice() else { panic!("{closed:?}") };
    assert_eq!((counted.calls, counted.method.as_str(), counted.outcome.as_str()), (992, "", ""));
    assert_eq!(counted.caller.as_ref().unwrap().member, "ann");

    let mut written = 0;
    for member in 0..1_000 {
        let (member, account) = (format!("m{member}"), format!("member/m{member}"));
        written += u32::from(tally.add(&chain(), &account, by(&member, "Send", "NOT_PERMITTED")).is_some());
    }
    assert!((1..=64).contains(&written), "{written}");
    let others = tally.close();
    let calls: u64 = others.iter().map(|(_, entry)| entry.calls).sum();
    assert_eq!(calls + u64::from(written), 1_000, "none is dropped silently");
    assert!(others.len() <= 65, "{}", others.len());
    let several = others.iter().find(|(_, entry)| entry.caller.as_ref().unwrap().kind() == Kind::Unspecified);
    assert!(several.is_some_and(|(_, entry)| entry.address.is_empty() && entry.calls > 900), "{several:?}");
}

#[test]
fn successful_calls_are_written_one_by_one_up_to_a_bound() {
    let mut tally = Tally::default();
    let written = (0..100).filter(|_| tally.add(&chain(), "member/ann", by("ann", "Join", OK)).is_some()).count();
    assert_eq!(written, 8);
    let closed = tally.close();
    assert_eq!((closed.len(), closed[0].1.calls), (1, 92));
    let by_token = |id: &str| {
        let caller = v1::AuditCaller { kind: Kind::JoinToken.into(), ..Default::default() };
        (format!("token/{id}"), v1::AuditEntry { caller: Some(caller), ..entry("Join", OK) })
    };
    let (account, joined) = by_token("x1");
    let written = (0..100).filter(|_| tally.add(&chain(), &account, joined.clone()).is_some()).count();
    assert_eq!(written, 32, "many members may join with a token");
    let mut written = written;
    for token in 0..1_000 {
        let (account, joined) = by_token(&token.to_string());
        written += usize::from(tally.add(&chain(), &account, joined).is_some());
    }
    assert_eq!(written, 128);
}

#[test]
fn a_damaged_audit_entry_is_split_without_a_panic() {
    let whole = Entry { sequence: 1, data: [&[7; 32][..], &entry("a", OK).encode_to_vec()].concat().into() };
    assert_eq!(StoredEntry::of(&whole).entry, Some(entry("a", OK)));
    for data in [&[7; 3][..], &[7; 33], &[]] {
        let stored = StoredEntry::of(&Entry { sequence: 1, data: data.to_vec().into() });
        assert_eq!(stored.hash.len(), data.len().min(32));
    }
}
