//! Tests of budgets, on paused time.

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;
use teamwire_proto::{Reason, Refusal, name::Name};
use tokio::time::{advance, timeout};
use tokio_util::sync::CancellationToken;

use super::{accounts::ACCOUNTS_MAX, *};
use crate::domain::{records::ActsFor, secret::SecretHash};

fn budgets(rates: Rates, shares: Shares) -> Budgets {
    Budgets::new(rates, shares, Refusals::default())
}

fn of(budgets: &Budgets, name: &str) -> Arc<Account> {
    budgets.account(AccountKey::Credential(SecretHash::of(name)), false)
}

fn member(name: &str) -> AccountKey {
    let [team, member] = ["acme", name].map(|name| Name::parse(name, "name").unwrap());
    AccountKey::Member { team, member }
}

/// Asserts that a refusal names its budget. Returns how long to wait.
fn names(refusal: &Refusal, class: Class, size: &str) -> Duration {
    assert_eq!(refusal.reason, Reason::RateLimited);
    assert_eq!(refusal.metadata["budget"], class.name());
    assert_eq!(refusal.metadata["key"], class.key());
    assert_eq!(refusal.metadata["size"], size);
    assert!(refusal.message.contains(class.key()) && refusal.message.contains(size), "{refusal}");
    refusal.retry_after.unwrap()
}

#[tokio::test(start_paused = true)]
async fn refusals_are_answered_at_once_until_there_are_too_many() {
    let budgets = budgets(Rates { refusals_per_second: 10, refusals_burst: 2, ..Rates::default() }, Shares::default());
    let (ann, bob) = (of(&budgets, "ann"), of(&budgets, "bob"));
    let waits = |account: &Account, times: usize| (0..times).map(|_| account.refused().as_millis()).collect::<Vec<_>>();
    assert_eq!(waits(&ann, 4), [0, 0, 100, 200]);
    assert_eq!(waits(&ann, 20).last(), Some(&1_000), "none waits longer");
    assert_eq!(waits(&bob, 1), [0]);
    advance(Duration::from_secs(2)).await;
    assert_eq!(waits(&ann, 1), [0]);
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_call_has_its_rate_and_each_credential_its_budget() {
    let rates = Rates {
        sends_per_second: 10,
        sends_burst: 3,
        broadcasts_per_second: 1,
        broadcasts_burst: 2,
        ..Rates::default()
    };
    let rates = Rates { writes_per_second: 5, writes_burst: 4, sessions_per_second: 2, sessions_burst: 1, ..rates };
    let budgets = budgets(rates, Shares::default());
    let (ann, bob) = (of(&budgets, "ann"), of(&budgets, "bob"));
    ann.send(true).unwrap();
    ann.send(true).unwrap();
    let wait = names(&ann.send(true).unwrap_err(), Class::Broadcasts, "1");
    assert!(wait <= Duration::from_millis(1_001), "{wait:?}");
    ann.send(false).unwrap();
    let wait = names(&ann.send(false).unwrap_err(), Class::Sends, "10");
    bob.send(false).unwrap();
    advance(wait).await;
    ann.send(false).unwrap();
    for _ in 0..4 {
        ann.write().unwrap();
    }
    names(&ann.write().unwrap_err(), Class::Writes, "5");
    bob.write().unwrap();
    ann.begin_session().unwrap();
    names(&ann.begin_session().unwrap_err(), Class::Sessions, "2");
    bob.begin_session().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_read_is_charged_afterwards_by_its_bytes() {
    let rates = Rates { read_bytes_per_second: 1 << 20, read_bytes_burst: 2 << 20, ..Rates::default() };
    let budgets = budgets(rates, Shares::default());
    let ann = of(&budgets, "ann");
    ann.read().unwrap();
    ann.charge_read(3 << 20);
    let wait = names(&ann.read().unwrap_err(), Class::ReadBytes, "1048576");
    assert!(wait > Duration::from_secs(1), "{wait:?}");
    assert!(ann.read_wait().is_some());
    advance(wait).await;
    ann.read().unwrap();
    // Finding nothing costs something, too.
    for _ in 0..2 * (2 << 20) / 4_096 {
        ann.charge_read(0);
    }
    names(&ann.read().unwrap_err(), Class::ReadBytes, "1048576");
}

#[tokio::test]
async fn streams_and_connections_are_bounded_per_credential_and_closing_one_makes_room() {
    let shares = Shares { streams_per_credential_max: 2, connections_per_credential_max: 1, ..Shares::default() };
    let budgets = budgets(Rates::default(), shares);
    let ann = of(&budgets, "ann");
    let (one, _two) = (ann.stream().unwrap(), ann.stream().unwrap());
    names(&ann.stream().unwrap_err(), Class::Streams, "2");
    drop(one);
    ann.stream().unwrap();
    let connect = |account: &Arc<Account>| account.connection(Generation::None, OpenConnection::default());
    let connection = connect(&ann).unwrap();
    names(&connect(&ann).unwrap_err(), Class::Connections, "1");
    drop(connect(&of(&budgets, "bob")).unwrap());
    drop(connection);
    drop(connect(&ann).unwrap());
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_life_of_a_member_and_the_one_before_it_have_connections() {
    let shares = Shares { connections_per_credential_max: 2, ..Shares::default() };
    let budgets = budgets(Rates::default(), shares);
    let generation = |credential: &str| Generation::With(SecretHash::of(credential));
    let ann = |credential: &str| {
        let ann = budgets.account(member("ann"), false);
        ann.note(generation(credential));
        ann
    };
    let connect = |credential: &str| {
        let connection = OpenConnection::default();
        let evict = connection.evict.clone();
        ann(credential).connection(generation(credential), connection).map(|guard| (guard, evict))
    };
    let is_closed = |(_, evict): &(ConnectionGuard, CancellationToken)| evict.is_cancelled();
    let known = ShownCredentials::default();
    known.put(SecretHash::of("first"), ann("first"), generation("first"));
    assert!(known.get(&SecretHash::of("first")).is_some());
    let first = [connect("first").unwrap(), connect("first").unwrap()];
    names(&connect("first").unwrap_err(), Class::Connections, "2");

    let second = [connect("second").unwrap(), connect("second").unwrap()];
    assert!(known.get(&SecretHash::of("first")).is_none(), "its former credential must be looked up again");
    names(&connect("second").unwrap_err(), Class::Connections, "2");
    // Two calls of both lives at the same moment close nothing.
    ann("first");
    ann("second");
    assert!(!first.iter().chain(&second).any(is_closed));

    ann("third");
    assert!(first.iter().all(is_closed));
    assert!(!second.iter().any(is_closed));
    drop(first);
    drop(second);
    // What is closed no longer counts.
    drop([connect("third").unwrap(), connect("third").unwrap()]);
    drop([connect("third").unwrap(), connect("third").unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_blocks_only_itself() {
    let shares = Shares { reply_bytes_per_credential_max: 100, reply_bytes_max: 1_000, ..Shares::default() };
    let budgets = budgets(Rates::default(), shares);
    let (ann, bob) = (of(&budgets, "ann"), of(&budgets, "bob"));
    let (slot, mut lease) = ann.begin_read(80).await.unwrap();
    drop(slot);
    names(&ann.begin_read(80).await.unwrap_err(), Class::ReplyBytes, "100");
    drop(bob.begin_read(80).await.unwrap());
    lease.shrink_to(20);
    assert_eq!(lease.bytes(), 20);
    drop(ann.begin_read(80).await.unwrap());
    drop(lease);
    assert_eq!(ann.lease(1 << 30).await.bytes(), 100, "a larger reply gets all that there is");
}

#[tokio::test(start_paused = true)]
async fn concurrent_reads_are_bounded_but_others_never_block_the_lead() {
    let shares = Shares { reads_per_credential_max: 1, reads_max: 2, ..Shares::default() };
    let budgets = budgets(Rates::default(), shares);
    let [ann, bob, eve] = ["ann", "bob", "eve"].map(|name| of(&budgets, name));
    let first = ann.begin_read(1).await.unwrap();
    names(&ann.begin_read(1).await.unwrap_err(), Class::Reads, "1");
    let waiting = tokio::spawn({
        let ann = Arc::clone(&ann);
        async move { ann.begin_read(1).await.map(drop) }
    });
    tokio::task::yield_now().await;
    drop(first);
    waiting.await.unwrap().expect("it was its turn");
    let _held = (ann.begin_read(1).await.unwrap(), bob.begin_read(1).await.unwrap());
    let refusal = eve.begin_read(1).await.unwrap_err();
    assert_eq!(refusal.metadata["budget"], Class::AllReads.name());
    let lead = budgets.account(AccountKey::Credential(SecretHash::of("lead")), true);
    timeout(Duration::from_secs(1), lead.begin_read(1)).await.expect("others do not keep it waiting").unwrap();
    // It may have become the lead while it waited in vain.
    budgets.account(AccountKey::Credential(SecretHash::of("eve")), true);
    eve.begin_read(1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn large_requests_are_bounded_per_credential_and_address_and_strangers_cannot_use_members_room() {
    let shares = Shares { request_bytes_per_credential_max: 100, request_bytes_max: 200, ..Shares::default() };
    let budgets = budgets(Rates::default(), shares);
    let stranger = |address: [u8; 4]| budgets.account(AccountKey::Strangers(address.into()), false);
    let (ann, bob, eve) = (of(&budgets, "ann"), of(&budgets, "bob"), of(&budgets, "eve"));
    let ask = |account: &Arc<Account>, bytes| Arc::clone(account).lease_for_request(bytes);

    let mut held = vec![ask(&ann, 60).await.unwrap()];
    names(&ask(&ann, 60).await.unwrap_err(), Class::RequestBytes, "100");
    held.push(ask(&bob, 100).await.unwrap());
    names(&ask(&eve, 60).await.unwrap_err(), Class::AllRequests, "200");
    let lead = budgets.account(AccountKey::Credential(SecretHash::of("lead")), true);
    drop(ask(&lead, 20).await.expect("it has a lane"));
    // Strangers of all addresses have 50.
    let one = ask(&stranger([192, 0, 2, 1]), 30).await.unwrap();
    names(&ask(&stranger([192, 0, 2, 2]), 30).await.unwrap_err(), Class::AllRequests, "50");
    drop(one);
    let whole = ask(&stranger([192, 0, 2, 1]), 1_000).await.expect("a larger one gets all there is");
    names(&ask(&stranger([192, 0, 2, 1]), 1).await.unwrap_err(), Class::RequestBytes, "100");
    drop(whole);
    let waits = tokio::spawn(ask(&ann, 60));
    held.clear();
    waits.await.unwrap().expect("it was its turn");
}

#[test]
fn an_identitys_consoles_share_one_account_apart_from_its_own() {
    let budgets = budgets(Rates::default(), Shares::default());
    let [team, ann] = ["acme", "ann"].map(|name| Name::parse(name, "name").unwrap());
    let identity = ActsFor::Member(ann.clone());
    let consoles =
        || budgets.account(AccountKey::ConsolesOf { team: Some(team.clone()), identity: identity.clone() }, false);
    assert!(Arc::ptr_eq(&consoles(), &consoles()));
    assert!(!Arc::ptr_eq(&consoles(), &budgets.account(member("ann"), false)));
}

#[test]
fn an_account_that_nothing_uses_is_dropped() {
    let budgets = budgets(Rates { sends_per_second: 1, ..Rates::default() }, Shares::default());
    let (busy, open) = (of(&budgets, "busy"), of(&budgets, "open"));
    busy.send(false).unwrap();
    drop(busy);
    for number in 0..ACCOUNTS_MAX * 2 {
        drop(of(&budgets, &number.to_string()));
    }
    assert!(budgets.len() <= ACCOUNTS_MAX);
    assert!(Arc::ptr_eq(&open, &of(&budgets, "open")));
    assert!(of(&budgets, "busy").send(false).is_ok());
}

#[test]
fn every_class_has_its_name_and_key() {
    let mut names: Vec<&str> = Class::ALL.iter().map(|class| class.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Class::ALL.len());
}

proptest! {
    /// However the calls are spread, no more pass than the burst and what time has brought.
    #[test]
    fn no_more_calls_pass_than_the_rate_allows(pauses in prop::collection::vec(0_u64..300, 1..200)) {
        let (rate, bucket) = (bucket::Rate::new(10_u64, 5_u64), bucket::Bucket::default());
        let (mut now, mut passed) = (0_u64, 0_u64);
        for pause in pauses {
            now += pause * 1_000_000;
            passed += u64::from(bucket.take(rate, now, 1).is_ok());
        }
        prop_assert!(passed <= 5 + now / 100_000_000, "{passed} in {now} ns");
    }
}
