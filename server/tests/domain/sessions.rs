//! Sessions: how many times each message counts as delivered once a session is over.

use teamwire_proto::v1;
use teamwire_server::domain::{
    records::{CursorRecord, SessionRecord},
    secret::SessionId,
    session::{self, Earlier, Opened},
};

use crate::world::*;

/// Opens a session after one that came as far as `cursor` says. Returns its record.
fn after(before: &SessionRecord, cursor: CursorRecord) -> SessionRecord {
    opened(before, cursor, 0, &Earlier::Elsewhere)
}

fn opened(before: &SessionRecord, cursor: CursorRecord, tail: u64, earlier: &Earlier) -> SessionRecord {
    let world = World::with(&["lead", "ann"]).record("ann", before).record("ann", &cursor);
    let request = v1::StreamRequest::default();
    match world.run(|tx| session::open(tx, &caller("ann"), &request, tail, earlier)).unwrap().0 {
        Opened::Session { record, .. } => record,
        other => panic!("{other:?}"),
    }
}

fn first() -> SessionRecord {
    SessionRecord {
        epoch: 1,
        session_id: SessionId::presented("1-x").unwrap(),
        incarnation: 1,
        ..SessionRecord::default()
    }
}

/// The cursor of a session that has delivered up to 2, and the message 9 ahead of its turn.
fn cursor(epoch: u64, reserved: u64) -> CursorRecord {
    let unacked = vec![(1, NOW_MS), (2, NOW_MS), (9, NOW_MS)];
    CursorRecord { epoch, reserved, delivered: 2, overtook: vec![9], unacked }
}

/// Returns how many times messages were certainly and possibly delivered.
fn counts(session: &SessionRecord, sequences: [u64; 3]) -> [(u32, u32); 3] {
    sequences.map(|sequence| (session.surely_seen(sequence), session.maybe_seen(sequence)))
}

#[test]
fn session_that_is_certainly_over_has_delivered_nothing_that_came_later() {
    let seen = |earlier: &Earlier| counts(&opened(&first(), cursor(1, 130), 12, earlier), [2, 10, 11]);
    assert_eq!(seen(&Earlier::Over(10)), [(1, 1), (0, 1), (0, 0)]);
    assert_eq!(seen(&Earlier::Elsewhere), [(1, 1), (0, 1), (0, 1)]);
}

#[test]
fn closed_session_counts_overtaking_deliveries_but_not_the_overtaken_ones() {
    let second = after(&first(), cursor(1, 2));
    assert_eq!(counts(&second, [2, 3, 9]), [(1, 1), (0, 0), (1, 1)]);
    let third = after(&second, cursor(2, 2));
    assert_eq!(counts(&third, [2, 3, 9]), [(2, 2), (0, 0), (2, 2)]);
}

#[test]
fn crashed_session_may_have_delivered_all_that_it_had_reserved_but_counts_once() {
    let second = after(&first(), cursor(1, 100));
    assert_eq!(counts(&second, [2, 3, 9]), [(1, 1), (0, 1), (1, 1)]);
}

#[test]
fn messages_that_have_left_the_inbox_are_forgotten() {
    // It was acknowledged in the session that delivered it.
    let acked = CursorRecord { unacked: vec![(1, NOW_MS)], ..cursor(1, 2) };
    assert!(after(&first(), acked).surely_overtook.is_empty());
    // It was acknowledged in a later session.
    let second = after(&first(), cursor(1, 2));
    let passed =
        CursorRecord { epoch: 2, reserved: 20, delivered: 20, overtook: Vec::new(), unacked: vec![(20, NOW_MS)] };
    let third = after(&second, passed);
    assert_eq!((third.maybe_overtook, third.surely_overtook), (vec![], vec![]));
}

/// Opens the next session of a process that has failed on some messages of the last one.
fn after_failing(before: &SessionRecord, cursor: CursorRecord, failed: &[u64], instance: &str) -> SessionRecord {
    let world = World::with(&["lead", "ann"]).record("ann", before).record("ann", &cursor);
    let request = v1::StreamRequest {
        instance_id: instance.to_owned(),
        failed_sequences: failed.to_vec(),
        ..v1::StreamRequest::default()
    };
    match world.run(|tx| session::open(tx, &caller("ann"), &request, 0, &Earlier::Elsewhere)).unwrap().0 {
        Opened::Session { record, .. } => record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_failed_deliveries_count_against_a_process_that_reconnects() {
    let first = SessionRecord { instance: "p1".to_owned(), ..first() };
    // 3 was never delivered, and 8 was acknowledged.
    let second = after_failing(&first, cursor(1, 9), &[1, 3, 8, 9], "p1");
    assert_eq!([1, 2, 3, 8, 9].map(|sequence| second.surely_seen(sequence)), [1, 0, 0, 0, 1]);
    let third = after_failing(&second, cursor(2, 9), &[1], "p1");
    assert_eq!([1, 2, 9].map(|sequence| third.surely_seen(sequence)), [2, 0, 1]);
    // The same call again, because its reply was lost: this session has delivered nothing yet.
    let unread = CursorRecord { epoch: 3, ..CursorRecord::default() };
    let fourth = after_failing(&third, unread, &[1], "p1");
    assert_eq!([1, 2].map(|sequence| fourth.surely_seen(sequence)), [2, 0]);
    // The deliveries to another process count by themselves.
    let other = after_failing(&fourth, cursor(4, 9), &[1, 2], "p2");
    assert_eq!([1, 2].map(|sequence| other.surely_seen(sequence)), [3, 1]);
}

#[test]
fn failures_on_messages_that_have_left_the_inbox_are_forgotten() {
    let first = SessionRecord { instance: "p1".to_owned(), ..first() };
    let second = after_failing(&first, cursor(1, 9), &[1, 2], "p1");
    let acked = CursorRecord { unacked: vec![(2, NOW_MS)], ..cursor(2, 9) };
    assert_eq!(after_failing(&second, acked, &[], "p1").failures, [(2, 1)]);
}

#[test]
fn deliveries_ahead_of_their_turn_are_bounded_and_never_lose_their_mark() {
    let overtook: Vec<u64> = (10..200).collect();
    let unacked = overtook.iter().map(|sequence| (*sequence, NOW_MS)).collect();
    let many = after(&first(), CursorRecord { epoch: 1, reserved: 2, delivered: 2, overtook, unacked });
    assert!(many.maybe_overtook.len() <= 64 && many.surely_overtook.len() <= 64);
    assert!((10..200).all(|sequence| many.maybe_seen(sequence) > 0));
    assert_eq!(many.maybe_seen(200), 0);
}
