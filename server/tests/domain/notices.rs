//! Notices: which ones a member gets, which replace each other, and which wait.

use teamwire_proto::{
    Reason,
    id::MessageId,
    v1::{self, DeadLetterCause, NoticeKind, message::Body},
};
use teamwire_server::{
    domain::{
        actor::Actor,
        membership::set_notice_level,
        notices::{notify, send_due},
        records::{DueNoticesRecord, NoticeLevel, ReceiptRecord, RecordType, TeamRecord, receipt_id},
    },
    store::{Check, Key, Txn, Write},
};

use crate::world::*;

/// Longer than a notice stays before a newer one replaces it.
const LATER_MS: u64 = 11_000;

fn idle(member: &str, text: &str) -> v1::Notice {
    notice(NoticeKind::Idle, member, text)
}

fn notice(kind: NoticeKind, member: &str, text: &str) -> v1::Notice {
    v1::Notice { kind: kind.into(), member: member.to_owned(), text: text.to_owned(), ..Default::default() }
}

/// Tells the lead.
fn tell(world: &mut World, notice: v1::Notice) -> Txn {
    world.pass(1);
    let (team, lead) = (world.team.clone(), Actor::Member(name("lead")));
    let (_, txn) = world.run(|tx| notify(tx, &team, &[&lead], notice.clone())).unwrap();
    world.apply(&txn);
    txn
}

/// Sends what is due. Returns when the next notice is due.
fn send_what_is_due(world: &mut World) -> Option<u64> {
    world.pass(1);
    let team = world.team.clone();
    let (next, txn) = world.run(|tx| send_due(tx, &team)).unwrap();
    world.apply(&txn);
    next
}

fn leads_at(level: NoticeLevel) -> World {
    World::with(&["lead", "ann", "bob"]).member("lead", |lead| lead.notice_level = level)
}

/// Returns the notices in the lead's inbox, in order, each with the id of its message.
fn inbox(world: &World) -> Vec<(MessageId, v1::Notice)> {
    let mut entries: Vec<_> = world.snapshot.inboxes.get("lead").into_iter().flatten().collect();
    entries.sort_by_key(|(_, sequence)| **sequence);
    let read = |id: &MessageId| {
        let record = &world.snapshot.records[&Key::new(v1::Message::KIND, id.to_string())];
        match record.get::<v1::Message>().unwrap().unwrap().body.clone() {
            Some(Body::Notice(notice)) => (*id, notice),
            other => panic!("{other:?}"),
        }
    };
    entries.into_iter().map(|(id, _)| read(id)).collect()
}

fn texts(world: &World) -> Vec<(u32, String)> {
    inbox(world).into_iter().map(|(_, notice)| (notice.count, notice.text)).collect()
}

/// Marks the only message of the lead's inbox as processed.
fn process(world: &mut World) {
    let (id, _) = inbox(world).pop().unwrap();
    world.snapshot.inboxes.clear();
    let receipt =
        ReceiptRecord { sequence: 1, delivered_ms: None, finished_ms: NOW_MS, delivery_count: 1, dead_letter: None };
    let record = World::with(&["lead"]).record(&receipt_id(id, &name("lead")), &receipt);
    world.snapshot.records.extend(record.snapshot.records);
}

#[test]
fn unprocessed_notice_is_replaced_by_a_newer_one_about_the_same_member() {
    let mut world = leads_at(NoticeLevel::All);
    tell(&mut world, idle("ann", "first"));
    let (first, before) = inbox(&world).pop().unwrap();
    world.pass(LATER_MS);
    let txn = tell(&mut world, idle("ann", "second"));
    assert_eq!(texts(&world), [(2, "second".to_owned())]);
    let (second, after) = inbox(&world).pop().unwrap();
    assert_ne!(first, second, "an acknowledgement of the first one must not remove the second");
    assert_eq!(after.first_at, before.first_at);
    let receipt: ReceiptRecord = put(&txn, &receipt_id(first, &name("lead"))).unwrap();
    assert_eq!((receipt.dead_letter, receipt.sequence), (Some(DeadLetterCause::Replaced), 1));
}

#[test]
fn commit_of_a_replacement_checks_that_the_earlier_notice_is_unprocessed() {
    let mut world = leads_at(NoticeLevel::All);
    tell(&mut world, idle("ann", "first"));
    let (first, _) = inbox(&world).pop().unwrap();
    world.pass(LATER_MS);
    let txn = tell(&mut world, idle("ann", "second"));
    let receipt = Key::new(ReceiptRecord::KIND, receipt_id(first, &name("lead")));
    assert!(txn.checks.contains(&Check::Version { key: receipt, version: None }), "{:?}", txn.checks);
}

#[test]
fn notices_of_other_kinds_and_about_other_members_stay() {
    let mut world = leads_at(NoticeLevel::All);
    for sent in [idle("ann", "1"), idle("bob", "2"), notice(NoticeKind::MemberLost, "ann", "3")] {
        tell(&mut world, sent);
        world.pass(LATER_MS);
    }
    assert_eq!(texts(&world).len(), 3);
}

#[test]
fn processed_notice_is_not_counted_again() {
    let mut world = leads_at(NoticeLevel::All);
    tell(&mut world, idle("ann", "first"));
    process(&mut world);
    tell(&mut world, idle("ann", "second"));
    assert_eq!(texts(&world), [(1, "second".to_owned())]);
}

#[test]
fn notices_in_quick_succession_wait_and_come_as_one() {
    let mut world = leads_at(NoticeLevel::All);
    tell(&mut world, idle("ann", "0"));
    for round in 1..=500 {
        let txn = tell(&mut world, idle("ann", &round.to_string()));
        assert_eq!(appended(&txn), [""; 0], "neither the inbox nor the history grows");
    }
    assert_eq!(texts(&world), [(1, "0".to_owned())]);
    let next = send_what_is_due(&mut world);
    assert_eq!(next, Some(NOW_MS + 1 + 10_000));
    assert_eq!(texts(&world).len(), 1, "it is not due yet");
    world.pass(LATER_MS);
    assert_eq!(send_what_is_due(&mut world), None);
    assert_eq!(texts(&world), [(501, "500".to_owned())]);
}

#[test]
fn unimportant_notices_do_not_reach_a_member_that_wants_important_ones() {
    let mut world = leads_at(NoticeLevel::Important);
    let txn = tell(&mut world, idle("ann", "idle"));
    assert_eq!(txn.writes, []);
    tell(&mut world, notice(NoticeKind::MemberLost, "ann", "lost"));
    tell(&mut world, v1::Notice { important: true, ..notice(NoticeKind::MemberExited, "bob", "crashed") });
    tell(&mut world, notice(NoticeKind::MemberExited, "ann", "exited normally"));
    assert_eq!(texts(&world), [(1, "lost".to_owned()), (1, "crashed".to_owned())]);
}

#[test]
fn digest_gathers_unimportant_notices_and_lets_important_ones_through() {
    let mut world = leads_at(NoticeLevel::Digest);
    tell(&mut world, idle("ann", "ann is idle"));
    tell(&mut world, idle("ann", "ann is idle again"));
    tell(&mut world, notice(NoticeKind::MemberLost, "bob", "bob is lost"));
    tell(&mut world, notice(NoticeKind::MemberExited, "bob", "bob has exited"));
    assert_eq!(texts(&world), [(1, "bob is lost".to_owned())]);
    world.pass(5 * 60 * 1_000);
    assert_eq!(send_what_is_due(&mut world), None);
    let (_, digest) = inbox(&world).pop().unwrap();
    assert_eq!((digest.kind(), digest.count, digest.important), (NoticeKind::Digest, 3, false));
    assert_eq!(digest.text, "ann is idle again (2 times)\nbob has exited");
    let gathered: Vec<_> = digest.gathered.iter().map(|notice| (notice.kind(), notice.count)).collect();
    assert_eq!(gathered, [(NoticeKind::Idle, 2), (NoticeKind::MemberExited, 1)]);
}

#[test]
fn digest_that_is_unprocessed_grows_but_is_bounded() {
    let mut world = leads_at(NoticeLevel::Digest);
    for round in 0..2 {
        for member in 0..20 {
            tell(&mut world, idle(&format!("m{round}-{member}"), "idle"));
        }
        world.pass(5 * 60 * 1_000);
        send_what_is_due(&mut world);
    }
    let (_, digest) = inbox(&world).pop().unwrap();
    assert_eq!((inbox(&world).len(), digest.count, digest.gathered.len()), (1, 40, 32));
    assert!(digest.text.ends_with("\nand 8 more"), "{}", digest.text);
}

#[test]
fn beyond_the_bound_unimportant_notices_leave_the_inbox_first() {
    let mut world = leads_at(NoticeLevel::All);
    let mut limits = (*world.ctx.limits).clone();
    limits.inbox_notices_max = 2;
    world.ctx.limits = limits.into();
    tell(&mut world, notice(NoticeKind::MemberLost, "ann", "ann lost"));
    tell(&mut world, idle("ann", "ann idle"));
    tell(&mut world, idle("bob", "bob idle"));
    assert_eq!(texts(&world), [(1, "ann lost".to_owned()), (1, "bob idle".to_owned())]);
    for (member, text) in [("bob", "bob lost"), ("cid", "cid lost")] {
        tell(&mut world, notice(NoticeKind::MemberLost, member, text));
    }
    assert_eq!(texts(&world), [(1, "bob lost".to_owned()), (1, "cid lost".to_owned())]);
}

#[test]
fn waiting_notice_that_is_dropped_leaves_nothing_behind() {
    let mut world = leads_at(NoticeLevel::All);
    let mut limits = (*world.ctx.limits).clone();
    limits.inbox_notices_max = 1;
    world.ctx.limits = limits.into();
    tell(&mut world, idle("ann", "1"));
    tell(&mut world, idle("ann", "2"));
    let txn = tell(&mut world, notice(NoticeKind::MemberLost, "bob", "lost"));
    assert_eq!(put::<DueNoticesRecord>(&txn, ""), Some(DueNoticesRecord::default()));
    let messages = |write: &Write| matches!(write, Write::Delete { key } if key.kind == v1::Message::KIND);
    assert_eq!(txn.writes.iter().filter(|write| messages(write)).count(), 1, "the message that waited");
    assert_eq!(texts(&world), [(1, "lost".to_owned())]);
}

fn level(member: &str, level: v1::NoticeLevel) -> v1::SetNoticeLevelRequest {
    v1::SetNoticeLevelRequest { member: member.to_owned(), level: level.into(), ..Default::default() }
}

#[test]
fn members_set_their_own_level_and_the_lead_sets_any() {
    let world = World::with(&["lead", "ann", "bob"]);
    let set = |who: &str, ask: v1::SetNoticeLevelRequest| world.run(|tx| set_notice_level(tx, &caller(who), &ask));
    let level_of = |txn: &Txn, member: &str| {
        let team: TeamRecord = put(txn, "").unwrap();
        team.member(&name(member)).unwrap().notice_level
    };
    let (member, txn) = set("ann", level("", v1::NoticeLevel::Digest)).unwrap();
    assert_eq!((member.notice_level(), level_of(&txn, "ann")), (v1::NoticeLevel::Digest, NoticeLevel::Digest));
    let (_, txn) = set("lead", level("bob", v1::NoticeLevel::Important)).unwrap();
    assert_eq!(level_of(&txn, "bob"), NoticeLevel::Important);
    let refused = |outcome: Result<_, teamwire_proto::Refusal>| outcome.map(drop).unwrap_err().reason;
    assert_eq!(refused(set("ann", level("bob", v1::NoticeLevel::All))), Reason::LeadOnly);
    assert_eq!(refused(set("ann", level("", v1::NoticeLevel::Unspecified))), Reason::InvalidField);
    let by_operator = world.run(|tx| set_notice_level(tx, &operator(), &level("", v1::NoticeLevel::All)));
    assert_eq!(refused(by_operator), Reason::NotPermitted);
}

#[test]
fn level_that_is_set_already_changes_nothing() {
    let world = World::with(&["lead", "ann"]);
    let (member, txn) = world.run(|tx| set_notice_level(tx, &caller("ann"), &level("", v1::NoticeLevel::All))).unwrap();
    assert_eq!((member.notice_level(), txn.writes), (v1::NoticeLevel::All, vec![]));
}
