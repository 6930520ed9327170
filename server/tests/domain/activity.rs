//! Reports of activity: what is kept of them, and what they leave alone.

use teamwire_proto::{Reason, v1};
use teamwire_server::{
    domain::{
        activity::{self, LINES_MAX},
        records::{ActivityRecord, EndCause, Failed, Program, ToolCall},
        topics::Topic,
    },
    store::{Extent, Txn, Write},
};

use crate::world::*;

const NONE: Extent = Extent { next: 1, entries: 0, weight: 0 };

fn lines(texts: &[&str]) -> v1::ReportActivityRequest {
    let line = |text: &&str| v1::ReportedLine { text: (*text).to_owned(), age: None };
    v1::ReportActivityRequest { lines: texts.iter().map(line).collect(), ..Default::default() }
}

fn usage(turns: u64, cost_usd_micros: u64) -> v1::ReportActivityRequest {
    let usage = Some(v1::Usage { turns, cost_usd_micros, ..Default::default() });
    v1::ReportActivityRequest { usage, ..Default::default() }
}

fn report(world: &World, who: &str, request: &v1::ReportActivityRequest, kept: Extent) -> (v1::Usage, Txn) {
    let ((used, _), txn) = world.run(|tx| activity::report(tx, &caller(who), request, kept)).unwrap();
    (used, txn)
}

fn removed(txn: &Txn) -> Vec<u64> {
    let sequences = |write: &Write| match write {
        Write::Remove { sequences, .. } => sequences.clone(),
        _ => Vec::new(),
    };
    txn.writes.iter().flat_map(sequences).collect()
}

#[test]
fn a_report_changes_only_the_activity_of_its_member() {
    let world = World::with(&["lead", "ann"]);
    let (_, txn) = report(&world, "ann", &lines(&["one", " ", "two"]), NONE);
    assert_eq!(appended(&txn), ["activity/ann", "activity/ann"]);
    let notified = Write::Notify { topic: Topic::Activity("ann").to_string(), by: world.ctx.by };
    let others: Vec<_> = txn.writes.iter().filter(|write| !matches!(write, Write::Append { .. })).collect();
    assert_eq!(others, [&notified], "no usage was reported, so there is no record of any");
    assert!(!txn.applies_when_full(), "a full store has no room for it");
}

#[test]
fn the_commit_that_adds_lines_removes_those_that_are_too_many() {
    let world = World::with(&["lead", "ann"]);
    let full = Extent { next: 301, entries: LINES_MAX, weight: 0 };
    let (_, txn) = report(&world, "ann", &lines(&["a", "b", "c"]), full);
    assert_eq!(removed(&txn), [101, 102, 103]);
    let (_, txn) = report(&world, "ann", &lines(&["x"; 250]), full);
    assert_eq!((appended(&txn).len(), removed(&txn)), (200, (101..301).collect()));
    let (_, txn) = report(&world, "ann", &lines(&["x"; 250]), NONE);
    assert_eq!((appended(&txn).len(), removed(&txn)), (200, vec![]));
}

#[test]
fn a_line_is_cut_and_dated_by_its_age() {
    let world = World::with(&["lead", "ann"]);
    let age = Some(prost_types::Duration { seconds: 2, nanos: 0 });
    let line = v1::ReportedLine { text: "ü".repeat(501), age };
    let request = v1::ReportActivityRequest { lines: vec![line], ..Default::default() };
    let (_, txn) = report(&world, "ann", &request, NONE);
    let data = txn.writes.iter().find_map(|write| match write {
        Write::Append { data, .. } => Some(data.clone()),
        _ => None,
    });
    let line = <v1::ActivityLine as prost::Message>::decode(data.unwrap()).unwrap();
    assert_eq!((line.text.chars().count(), line.incarnation), (500, 1));
    assert_eq!(line.at.unwrap().seconds, i64::try_from(NOW_MS / 1_000).unwrap() - 2);
}

#[test]
fn counters_only_grow_and_are_summed_over_lives() {
    let mut world = World::with(&["lead", "ann"]);
    for (request, grown) in [(usage(2, 500), 2), (usage(1, 400), 0), (usage(3, 500), 1)] {
        let (used, txn) = report(&world, "ann", &request, NONE);
        assert_eq!(used.turns, grown);
        world.apply(&txn);
    }
    let mut world = world.member("ann", |ann| ann.incarnation = 2);
    let (used, txn) = report(&world, "ann", &usage(1, 100), NONE);
    assert_eq!((used.turns, used.cost_usd_micros), (1, 100), "a new life counts from zero");
    world.apply(&txn);
    let record: ActivityRecord = put(&txn, "ann").unwrap();
    assert_eq!((record.life.turns, record.total().turns, record.total().cost_usd_micros), (1, 4, 600));
    let (_, txn) = report(&world, "ann", &usage(u64::MAX, u64::MAX), NONE);
    assert_eq!(put::<ActivityRecord>(&txn, "ann").unwrap().total().turns, u64::MAX);
}

#[test]
fn a_repeated_report_changes_nothing() {
    let mut world = World::with(&["lead", "ann"]);
    let keyed = |key: &str, request| v1::ReportActivityRequest { idempotency_key: key.to_owned(), ..request };
    let first = keyed("first", lines(&["a"]));
    let (_, txn) = report(&world, "ann", &first, NONE);
    world.apply(&txn);
    let (_, txn) = report(&world, "ann", &first, Extent { next: 2, entries: 1, weight: 0 });
    assert_eq!(txn.writes, []);
    let (_, txn) = report(&world, "ann", &keyed("second", lines(&["a"])), NONE);
    assert_eq!(appended(&txn).len(), 1);
    // The key of an earlier life is another key.
    let world = world.member("ann", |ann| ann.incarnation = 2);
    let (_, txn) = report(&world, "ann", &first, NONE);
    assert_eq!(appended(&txn).len(), 1);
    let wrong = keyed("two words", lines(&["a"]));
    let refusal = world.run(|tx| activity::report(tx, &caller("ann"), &wrong, NONE)).unwrap_err();
    assert_eq!(refusal.reason, Reason::InvalidIdempotencyKey);
}

#[test]
fn failed_turns_are_kept_until_one_has_not_failed_or_a_new_life_begins() {
    let mut world = World::with(&["lead", "ann"]);
    let failed = |count, error: &str| v1::ReportActivityRequest {
        failed_turns: Some(v1::FailedTurns { count, error: error.to_owned(), since: None }),
        ..Default::default()
    };
    let kept = |txn: &Txn| put::<ActivityRecord>(txn, "ann").unwrap().failed;
    let first_ms = world.ctx.now_ms;
    let (_, txn) = report(&world, "ann", &failed(1, "down"), NONE);
    assert_eq!(kept(&txn), Some(Failed { count: 1, error: "down".to_owned(), since_ms: first_ms }));
    world.apply(&txn);
    world.ctx.now_ms += 1_000;
    let (_, txn) = report(&world, "ann", &failed(2, &"x".repeat(501)), NONE);
    assert_eq!(kept(&txn), Some(Failed { count: 2, error: "x".repeat(500), since_ms: first_ms }));
    world.apply(&txn);
    let (_, txn) = report(&world, "ann", &usage(1, 0), NONE);
    assert_eq!(kept(&txn).unwrap().count, 2, "a report about something else");
    let (_, txn) = report(&world, "ann", &failed(0, ""), NONE);
    assert_eq!(kept(&txn), None);
    let world = world.member("ann", |ann| ann.incarnation = 2);
    let (_, txn) = report(&world, "ann", &usage(1, 0), NONE);
    assert_eq!(kept(&txn), None, "another life");
}

#[test]
fn what_a_program_does_is_kept_with_when_it_began_until_a_new_life_begins() {
    let mut world = World::with(&["lead", "ann"]);
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let doing = |turn_age, tool: &str, tool_age| v1::ReportActivityRequest {
        program: Some(v1::ReportedProgram { turn_age, tool: tool.to_owned(), tool_age, ..Default::default() }),
        ..Default::default()
    };
    let kept = |txn: &Txn| put::<ActivityRecord>(txn, "ann").unwrap().program.unwrap();
    let began_ms = world.ctx.now_ms;
    world.ctx.now_ms += 5_000;
    let (_, txn) = report(&world, "ann", &doing(seconds(5), "Bash: make", seconds(1)), NONE);
    let making = Program {
        turn_since_ms: Some(began_ms),
        tool: Some(ToolCall { text: "Bash: make".to_owned(), since_ms: Some(began_ms + 4_000) }),
        ..Program::default()
    };
    assert_eq!(kept(&txn), making);
    world.apply(&txn);
    world.ctx.now_ms += 1_000;
    // The ages are rounded, but the turn and the tool call are the same ones.
    let (_, txn) = report(&world, "ann", &doing(seconds(5), "Bash: make", seconds(3)), NONE);
    assert!(put::<ActivityRecord>(&txn, "ann").is_none(), "nothing has changed");
    let (_, txn) = report(&world, "ann", &doing(seconds(6), "Bash: test", seconds(0)), NONE);
    assert_eq!(kept(&txn).tool.unwrap().since_ms, Some(began_ms + 6_000));
    let (_, txn) = report(&world, "ann", &doing(None, "", None), NONE);
    assert_eq!(kept(&txn), Program::default());
    let world = world.member("ann", |ann| ann.incarnation = 2);
    let (_, txn) = report(&world, "ann", &usage(1, 0), NONE);
    assert_eq!(put::<ActivityRecord>(&txn, "ann").unwrap().program, None, "another life");
}

#[test]
fn a_full_store_drops_a_report_without_a_refusal() {
    let mut world = World::with(&["lead", "ann"]);
    world.ctx.store_is_full = true;
    let request = v1::ReportActivityRequest { usage: usage(1, 1).usage, ..lines(&["a"]) };
    let (used, txn) = report(&world, "ann", &request, NONE);
    assert_eq!((used, txn.writes), (v1::Usage::default(), vec![]));
}

#[test]
fn only_a_live_member_reports_activity_and_every_member_reads_it() {
    let world = World::with(&["lead", "ann", "bob"]);
    let refusal = world.run(|tx| activity::report(tx, &operator(), &lines(&["a"]), NONE)).unwrap_err();
    assert_eq!(refusal.reason, Reason::NotPermitted);
    for who in [caller("ann"), caller("lead"), operator()] {
        let (found, _) = world.run(|tx| activity::subject(tx, &who, "alpha", "BOB")).unwrap();
        assert_eq!(found, name("bob"));
    }
    let refusal = world.run(|tx| activity::subject(tx, &caller("stranger"), "", "bob")).unwrap_err();
    assert_eq!(refusal.reason, Reason::CredentialInvalid);
    let refusal = world.run(|tx| activity::subject(tx, &caller("ann"), "", "bobby")).unwrap_err();
    assert_eq!(refusal.reason, Reason::AgentNotFound);

    let approved = crate::world::stopping(EndCause::Approved(request_id()));
    let stopping = world.life("ann", approved);
    assert_eq!(appended(&report(&stopping, "ann", &lines(&["goodbye"]), NONE).1).len(), 1, "its last words count");
    let stopped = stopping.life("ann", forced());
    let refusal = stopped.run(|tx| activity::report(tx, &caller("ann"), &lines(&["a"]), NONE)).unwrap_err();
    assert_eq!(refusal.reason, Reason::MemberStopped);
}
