//! Lives and identities: who a credential is, when a member is lost, and when a team may be deleted.

use std::collections::BTreeMap;

use teamwire_proto::{Reason, credential::Credential};
use teamwire_server::{
    domain::{
        due,
        identity::{self, Admit, CallerCredentials, Principal},
        records::{Life, SessionRecord, TeamRecord},
        secret::{SecretHash, SessionId},
        task::board::{BoardRecord, Place, Status, TaskRecord},
        team,
    },
    store::{Check, Leases, Write},
};

use crate::world::*;

/// Leases that ran out long before now.
fn expired() -> Leases {
    let until_ms: BTreeMap<_, _> = [("ann".to_owned(), NOW_MS - 600_000)].into();
    Leases { now_ms: NOW_MS, until_ms }
}

#[test]
fn wrong_secret_is_refused_like_an_unknown_member() {
    let world = World::with(&["lead", "ann"]);
    let forged = Credential::Member { team: name("alpha"), member: name("ann"), secret: "guess".to_owned() };
    for who in [CallerCredentials::new(forged, None), caller("nobody")] {
        let refusal = world.run(|tx| identity::call(tx, &who, "", Admit::Live)).unwrap_err();
        assert_eq!(refusal.reason, Reason::CredentialInvalid);
    }
    let ((_, principal), _) = world.run(|tx| identity::call(tx, &caller("ann"), "", Admit::Live)).unwrap();
    assert_eq!(principal, Principal::Member { name: name("ann"), lead: false });
}

#[test]
fn caller_of_an_older_session_is_superseded() {
    let id = |epoch| SessionId::new(&SecretHash::of("ann"), epoch, "0123456789abcdef0123456789abcdef");
    let session = SessionRecord { epoch: 2, session_id: id(2), ..Default::default() };
    let world = World::with(&["lead", "ann"]).record("ann", &session);
    for (presented, accepted) in [(id(1), false), (id(2), true)] {
        let who = CallerCredentials { session_id: Some(presented), ..caller("ann") };
        let outcome = world.run(|tx| identity::call(tx, &who, "", Admit::Live));
        assert_eq!(
            outcome.map(drop).map_err(|refusal| refusal.reason),
            match accepted {
                true => Ok(()),
                false => Err(Reason::SessionSuperseded),
            }
        );
    }
}

#[test]
fn member_without_a_lease_is_lost_and_its_claims_return_to_the_board() {
    let mut board = BoardRecord { last_id: 1, ..Default::default() };
    board.place(1, Place::Claimed(name("ann")));
    let task = TaskRecord { status: Status::InProgress, owner: Some(name("ann")), ..pending(1) };
    let world = World::with(&["lead", "ann"]).record("1", &task).record("", &board);
    let (_, txn) = world.run(|tx| due::carry_out_due(tx, &expired(), true)).unwrap();
    let team: TeamRecord = put(&txn, "").unwrap();
    assert_eq!(team.member(&name("ann")).unwrap().life, Life::Lost);
    assert_eq!(team.member(&name("lead")).unwrap().life, Life::Live);
    let board: BoardRecord = put(&txn, "").unwrap();
    assert_eq!(board.next_for(&name("lead")), Some(1));
    // A heartbeat in the meantime wins.
    assert!(txn.checks.contains(&Check::Lease { name: "ann".to_owned(), alive: false }));
}

#[test]
fn detached_member_without_a_lease_is_neither_lost_nor_due() {
    let world = World::with(&["lead", "ann"]).member("lead", |lead| lead.detached = true);
    let world = world.member("ann", |ann| ann.detached = true);
    let (due, txn) = world.run(|tx| due::carry_out_due(tx, &expired(), true)).unwrap();
    assert_eq!((due, txn.writes), (None, vec![]));
}

#[test]
fn detached_member_that_is_away_does_not_keep_its_team() {
    let world = World::with(&["lead", "ann"]).member("ann", |ann| ann.detached = true);
    let (_, txn) = world.run(|tx| team::delete(tx, &caller("lead"), "", &expired())).unwrap();
    // A call in the meantime wins.
    assert!(txn.checks.contains(&Check::Lease { name: "ann".to_owned(), alive: false }));
    let alive = Leases { until_ms: [("ann".to_owned(), NOW_MS + 1)].into(), now_ms: NOW_MS };
    let refusal = world.run(|tx| team::delete(tx, &caller("lead"), "", &alive)).unwrap_err();
    assert_eq!(refusal.metadata["ann"], "active");
}

#[test]
fn no_member_is_lost_while_the_coordinator_may_have_been_away() {
    let (_, txn) = World::with(&["lead", "ann"]).run(|tx| due::carry_out_due(tx, &expired(), false)).unwrap();
    assert_eq!(txn.writes, []);
}

#[test]
fn team_with_live_members_cannot_be_deleted() {
    let world = World::with(&["lead", "ann"]);
    let refusal = world.run(|tx| team::delete(tx, &operator(), "alpha", &expired())).unwrap_err();
    assert_eq!(refusal.reason, Reason::TeamHasActiveMembers);
    assert!(refusal.metadata.contains_key("ann") && refusal.metadata.contains_key("lead"));
    let world = world.life("ann", Life::Lost);
    let (_, txn) = world.run(|tx| team::delete(tx, &caller("lead"), "", &expired())).unwrap();
    assert!(txn.writes.contains(&Write::DropNamespace), "the lead itself does not count");
}
