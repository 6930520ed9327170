//! Quotas: up to what each caller may fill a team, and which rules need no room.

use teamwire_proto::v1::{self, message::Body};
use teamwire_server::{
    domain::{
        Limits,
        quota::HeldBytes,
        records::{QuotaRecord, RecordType as _},
        retention, session,
        task::edit,
    },
    store::{Bound, Txn, WhenFull, Write},
};

use crate::world::*;

const QUOTA: u64 = 1_000_000;

fn world() -> World {
    let mut world = World::with(&["lead", "ann", "bob"]).tasks(&[(1, &[])]);
    world.ctx.limits = std::sync::Arc::new(Limits { team_bytes_max: QUOTA, ..Limits::default() });
    world
}

fn hello() -> v1::SendRequest {
    let body = v1::DirectMessage { recipient: "bob".to_owned(), summary: "s".to_owned(), content: "c".to_owned() };
    v1::SendRequest {
        body: Some(v1::send_request::Body::Message(body)),
        team: "alpha".to_owned(),
        ..Default::default()
    }
}

#[test]
fn the_lead_and_the_operator_may_exceed_a_teams_quota_by_a_tenth_and_teammates_may_not() {
    for (who, bytes_max) in [(caller("ann"), QUOTA), (caller("lead"), QUOTA * 11 / 10), (operator(), QUOTA * 11 / 10)] {
        let (_, txn) = world().send(&who, &hello()).unwrap();
        assert_eq!(txn.bytes_max, Some(bytes_max), "{who:?}");
    }
}

#[test]
fn shutdowns_acknowledgements_and_deletions_are_exempt_from_the_quota() {
    let ask = v1::ShutdownRequest { recipient: "ann".to_owned(), ..Default::default() };
    let body = Some(v1::send_request::Body::ShutdownRequest(ask));
    let mut world = world();
    let (asked, txn) = world.send(&caller("lead"), &v1::SendRequest { body, ..Default::default() }).unwrap();
    assert_eq!(txn.bytes_max, None);
    world.apply(&txn);
    let answer = v1::ShutdownResponse { request_id: asked.request_id, approve: Some(true), ..Default::default() };
    let body = Some(v1::send_request::Body::ShutdownResponse(answer));
    let (_, txn) = world.send(&caller("ann"), &v1::SendRequest { body, ..Default::default() }).unwrap();
    assert_eq!(txn.bytes_max, None);
    let ids = vec!["01890000-0000-7000-8000-000000000000".to_owned()];
    let request = v1::AckRequest { message_ids: ids, ..Default::default() };
    let acknowledgement = session::Acknowledgement::check(&caller("bob"), None, &request).unwrap();
    let (_, txn) = world.run(|tx| session::acknowledge(tx, &acknowledgement, &[])).unwrap();
    assert_eq!(txn.bytes_max, None);
    let (_, txn) = world.run(|tx| edit::delete(tx, &caller("bob"), "", 1)).unwrap();
    assert_eq!(txn.bytes_max, None);
}

#[test]
fn changes_to_tasks_count_against_their_share_of_the_history() {
    let bound = |txn: &Txn| {
        let append = txn.writes.iter().find_map(|write| match write {
            Write::Append { stream, data, weight, bound } if stream == "history" => Some((data.len(), *weight, *bound)),
            _ => None,
        });
        append.unwrap()
    };
    let update = v1::UpdateTaskRequest { task_id: 1, subject: Some("y".to_owned()), ..Default::default() };
    for (who, share) in [("bob", QUOTA / 4), ("lead", QUOTA / 4 * 11 / 10)] {
        let (_, txn) = world().run(|tx| edit::update(tx, &caller(who), &update)).unwrap();
        let (length, weight, bound) = bound(&txn);
        let expected = Bound { entries_max: u64::MAX, weight_max: share, when_full: WhenFull::Refuse };
        assert_eq!(bound, Some(expected), "{who}");
        assert!(weight > length as u64);
    }
    let (_, txn) = world().run(|tx| edit::delete(tx, &caller("bob"), "", 1)).unwrap();
    let (length, weight, unbounded) = bound(&txn);
    assert!(unbounded.is_none() && weight > length as u64);
    let (_, txn) = world().send(&caller("ann"), &hello()).unwrap();
    assert_eq!((bound(&txn).1, bound(&txn).2), (0, None), "messages do not count there");
}

#[test]
fn alarm_is_raised_once_for_each_level_and_again_after_a_fall() {
    let mut world = world();
    let mut alarm = |team: u64| {
        world.pass(60_000);
        let id = world.team.id;
        let (text, txn) =
            world.run(|tx| retention::alarm_quota(tx, id, HeldBytes { team, ..HeldBytes::default() })).unwrap();
        world.apply(&txn);
        let told =
            txn.writes.iter().any(|write| matches!(write, Write::Append { stream, .. } if stream == "inbox/lead"));
        assert_eq!(text.is_some(), told, "{text:?}");
        (text, put::<QuotaRecord>(&txn, "").and_then(|record| record.percent))
    };
    assert_eq!(alarm(QUOTA * 79 / 100), (None, None));
    let (text, level) = alarm(QUOTA * 80 / 100);
    assert_eq!(level, Some(80));
    assert!(text.unwrap().starts_with("The team uses 80% of its quota: 781.2 KiB of 976.6 KiB."));
    for quiet in [80, 90, 98, 79, 71, 85] {
        assert_eq!(alarm(QUOTA * quiet / 100), (None, None), "{quiet}");
    }
    assert_eq!(alarm(QUOTA * 99 / 100).1, Some(99));
    assert_eq!(alarm(QUOTA * 95 / 100), (None, None));
    assert_eq!(alarm(QUOTA * 85 / 100), (None, Some(80)), "no longer full");
    assert_eq!(alarm(QUOTA * 60 / 100), (None, None));
    assert_eq!(alarm(QUOTA * 81 / 100).1, Some(80));
}

#[test]
fn alarm_names_the_share_that_is_full() {
    let world = world();
    let held = HeldBytes { team: 10, tasks: QUOTA / 5, task_changes: QUOTA / 4 };
    let (text, txn) = world.run(|tx| retention::alarm_quota(tx, world.team.id, held)).unwrap();
    let text = text.unwrap();
    assert!(text.starts_with("The team's tasks use 80% of their quota"), "{text}");
    assert!(text.contains("The history of the team's tasks uses") && text.contains("100%"), "{text}");
    assert_eq!(put::<QuotaRecord>(&txn, "").unwrap().percent, Some(99));
    assert_eq!(QuotaRecord::KIND, "quota");
    let notice = txn.writes.iter().find_map(|write| match write {
        Write::Put { key, data } if key.kind == v1::Message::KIND => v1::Message::decode(data).ok(),
        _ => None,
    });
    assert!(matches!(notice.unwrap().body, Some(Body::Notice(notice)) if notice.important));
    let other = uuid::Uuid::from_u128(9);
    assert!(
        world.run(|tx| retention::alarm_quota(tx, other, held)).unwrap().0.is_none(),
        "another team of the same name"
    );
}
