//! Alerts: what people are notified of, when, how often, and what an alert says.

use std::time::Duration;

use serde_json::Value;
use teamwire_proto::{
    id::{REQUEST_ID_CHARS, RequestId},
    v1::{self, RequestKind},
};
use teamwire_server::domain::{
    alerts::{self, AlertKind, AlertRule, AlertRules, ClaimedAlert, DueAlerts},
    records::{ActivityRecord, AlertsRecord, Failed, Life, Pending, PresenceRecord},
};

use crate::world::*;

const AFTER_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

fn rule(kinds: &[&str]) -> AlertRule {
    AlertRule::new(&["https://example.com/"], kinds.iter().map(|kind| AlertKind::named(kind).unwrap()).collect())
}

fn rules(kinds: &[&str]) -> AlertRules {
    AlertRules { rules: vec![rule(kinds)], console: None }
}

/// Does what is due now.
fn look(world: &mut World, rules: &AlertRules) -> DueAlerts {
    world.pass(0);
    let (due, txn) = world.run(|tx| alerts::carry_out_due(tx, rules)).unwrap();
    world.apply(&txn);
    due
}

/// Does what is due now, and returns the one alert that must be sent.
fn claim(world: &mut World, rules: &AlertRules) -> ClaimedAlert {
    let mut due = look(world, rules);
    assert_eq!((due.claimed.len(), due.given_up.len()), (1, 0), "{due:?}");
    due.claimed.remove(0)
}

fn settle(world: &mut World, alert: &ClaimedAlert, error: Option<&str>) {
    let (_, txn) = world.run(|tx| alerts::settle(tx, alert, error)).unwrap();
    world.apply(&txn);
}

fn said(alert: &ClaimedAlert) -> Value {
    serde_json::from_str(&alert.body).unwrap()
}

fn text(alert: &ClaimedAlert) -> String {
    said(alert)["data"]["text"].as_str().unwrap().to_owned()
}

fn id(number: u8) -> RequestId {
    RequestId::from_random([number; REQUEST_ID_CHARS])
}

/// Has a member ask for permission now.
fn ask(world: World, member: &str, number: u8) -> World {
    let pending = Pending::new(id(number), world.ctx.now_ms, DAY_MS * 3);
    let request = v1::Request {
        id: pending.id.to_string(),
        kind: RequestKind::Permission.into(),
        member: member.to_owned(),
        tool: "Bash".to_owned(),
        content: "rm -r target\u{202e}".to_owned(),
        ..Default::default()
    };
    let world = world.record(pending.id.as_str(), &request);
    world.member(member, |member| member.pending_permissions.push(pending))
}

fn answer(world: World, member: &str, number: u8) -> World {
    world.member(member, |member| member.remove_pending(id(number).as_str()))
}

fn slots(world: &World) -> usize {
    let (record, _) = world.run(|tx| tx.read::<AlertsRecord>("")).unwrap();
    record.map_or(0, |record| record.slots.len())
}

#[test]
fn request_that_no_one_answers_is_announced_once() {
    let (mut world, rules) = (ask(World::with(&["lead", "ann"]), "ann", 1), rules(&["permission"]));
    assert_eq!(look(&mut world, &rules), DueAlerts { next_ms: Some(AFTER_MS), ..Default::default() });
    assert_eq!(slots(&world), 0, "nothing is written before");
    world.pass(AFTER_MS - 1);
    assert_eq!(look(&mut world, &rules).next_ms, Some(1));
    world.pass(1);
    let alert = claim(&mut world, &rules);
    assert_eq!(text(&alert), "ann's permission request waits for an answer in team alpha.");
    let said = said(&alert);
    assert_eq!((&said["type"], &said["data"]["request_id"]), (&"permission".into(), &id(1).as_str().into()));
    assert_eq!((&said["id"], &said["data"]["count"]), (&alerts::message_id(alert.id).into(), &1.into()));
    settle(&mut world, &alert, None);
    for _ in 0..3 {
        world.pass(AFTER_MS);
        assert_eq!(look(&mut world, &rules), DueAlerts::default());
    }
    let mut world = answer(world, "ann", 1);
    look(&mut world, &rules);
    assert_eq!(slots(&world), 0, "what is over is forgotten");
}

#[test]
fn request_that_was_answered_or_has_expired_in_time_is_not_announced() {
    let rules = rules(&["permission"]);
    let mut world = ask(World::with(&["lead", "ann"]), "ann", 1);
    look(&mut world, &rules);
    world.pass(AFTER_MS - 1);
    let mut answered = answer(world, "ann", 1);
    answered.pass(AFTER_MS);
    assert_eq!(look(&mut answered, &rules), DueAlerts::default());
    let mut world = ask(World::with(&["lead", "ann"]), "ann", 1);
    world.pass(DAY_MS * 3);
    assert_eq!(look(&mut world, &rules), DueAlerts::default());
}

#[test]
fn what_waits_makes_one_alert_that_names_the_oldest() {
    let rules = rules(&["plan", "permission"]);
    let mut world = ask(World::with(&["lead", "ann", "bob"]), "bob", 1);
    world.pass(10);
    let mut world = ask(ask(world, "ann", 2), "ann", 3);
    world.pass(AFTER_MS - 10);
    let alert = claim(&mut world, &rules);
    assert_eq!(text(&alert), "3 permission requests wait for an answer in team alpha. The first is bob's.");
    settle(&mut world, &alert, None);
    // Those that are younger were announced with it.
    world.pass(AFTER_MS);
    assert_eq!(look(&mut world, &rules), DueAlerts::default());
    let mut world = ask(world, "ann", 4);
    world.pass(AFTER_MS);
    let alert = claim(&mut world, &rules);
    assert_eq!(said(&alert)["data"]["request_id"], id(4).as_str());
    assert_eq!(said(&alert)["data"]["count"], 4, "three others still wait");
}

#[test]
fn claimed_alert_is_claimed_again_only_after_the_claim() {
    let rules = rules(&["permission"]);
    let mut world = ask(World::with(&["lead", "ann"]), "ann", 1);
    world.pass(AFTER_MS);
    let first = claim(&mut world, &rules);
    // Another coordinator looks.
    let due = look(&mut world, &rules);
    assert_eq!(due.claimed, []);
    world.pass(due.next_ms.unwrap());
    let second = claim(&mut world, &rules);
    assert_eq!((first.id, &first.body, 2), (second.id, &second.body, second.attempt), "a receiver can drop it");
    // The first one reports late that it has failed; the second is still under way.
    settle(&mut world, &first, Some("late"));
    assert_eq!(look(&mut world, &rules).claimed, []);
    settle(&mut world, &second, None);
    assert_eq!(look(&mut world, &rules), DueAlerts::default());
}

#[test]
fn failed_alert_is_tried_again_ever_more_slowly_for_a_day() {
    let rules = rules(&["permission"]);
    let mut world = ask(World::with(&["lead", "ann"]), "ann", 1);
    world.pass(AFTER_MS);
    let (began_ms, mut pauses) = (world.ctx.now_ms, Vec::new());
    let first = claim(&mut world, &rules);
    let mut alert = first.clone();
    let (given_up, error) = loop {
        settle(&mut world, &alert, Some("the server answered 500"));
        let pause = look(&mut world, &rules).next_ms.unwrap();
        world.pass(pause);
        let mut due = look(&mut world, &rules);
        if let Some(given_up) = due.given_up.pop() {
            break given_up;
        }
        alert = due.claimed.remove(0);
        assert_eq!((alert.id, &alert.body), (first.id, &first.body));
        pauses.push(pause / 1_000);
    };
    assert_eq!(pauses[..4], [5, 10, 20, 40]);
    assert_eq!(pauses.last(), Some(&1_800));
    assert_eq!((given_up.id, error.as_str()), (first.id, "the server answered 500"));
    assert!(world.ctx.now_ms >= began_ms + DAY_MS && world.ctx.now_ms < began_ms + DAY_MS + 1_800_000);
    world.pass(AFTER_MS);
    assert_eq!(look(&mut world, &rules), DueAlerts::default(), "it is not announced again");
    // What comes later is.
    let mut world = ask(world, "ann", 2);
    world.pass(AFTER_MS);
    claim(&mut world, &rules);
}

#[test]
fn what_begins_to_wait_during_the_attempts_is_announced_after_them() {
    let rules = rules(&["permission"]);
    let mut world = ask(World::with(&["lead", "ann"]), "ann", 1);
    world.pass(AFTER_MS);
    let first = claim(&mut world, &rules);
    settle(&mut world, &first, Some("refused"));
    let mut world = ask(world, "ann", 2);
    world.pass(AFTER_MS);
    let again = claim(&mut world, &rules);
    assert_eq!((again.id, &again.body), (first.id, &first.body), "its receiver may have it already");
    settle(&mut world, &again, None);
    let second = claim(&mut world, &rules);
    assert_ne!(second.id, first.id);
    assert_eq!(said(&second)["data"]["count"], 2);
}

#[test]
fn alert_is_dropped_once_nothing_that_it_announces_waits() {
    let rules = rules(&["permission"]);
    let mut world = ask(World::with(&["lead", "ann"]), "ann", 1);
    world.pass(AFTER_MS);
    let alert = claim(&mut world, &rules);
    settle(&mut world, &alert, Some("refused"));
    let mut world = answer(world, "ann", 1);
    world.pass(AFTER_MS);
    assert_eq!(look(&mut world, &rules), DueAlerts::default());
    assert_eq!(slots(&world), 0);
    settle(&mut world, &alert, Some("late"));
    assert_eq!(slots(&world), 0, "an alert that is over stays over");
}

#[test]
fn only_a_rule_that_wants_it_gets_what_members_wrote() {
    let mut world = ask(World::with(&["lead", "ann"]), "ann", 1);
    world.pass(AFTER_MS);
    let with = |content| AlertRules {
        rules: vec![AlertRule { content, ..rule(&["permission"]) }],
        console: Some("https://console.example:7420/".to_owned()),
    };
    let alert = claim(&mut world, &with(false));
    assert!(!alert.body.contains("rm -r") && !alert.body.contains("Bash"), "{}", alert.body);
    let link = format!("https://console.example:7420/#/approvals?team=alpha&id={}", id(1));
    assert_eq!(said(&alert)["data"]["link"], link);
    let mut other = with(true);
    other.rules[0].id = "other".to_owned();
    let alert = claim(&mut world, &other);
    assert_eq!(said(&alert)["data"]["content"], "Bash: rm -r target\\u{202e}", "what is hidden is shown");
}

#[test]
fn members_that_fail_are_lost_or_idle_are_announced_when_that_has_lasted() {
    let rules = rules(&["failing", "lost", "idle_team"]);
    let began_ms = NOW_MS;
    let idle = |incarnation, idle| PresenceRecord {
        incarnation,
        idle,
        since_ms: began_ms,
        summary: String::new(),
        summary_ms: 0,
    };
    let failed = Failed { count: 2, error: "the model refused".to_owned(), since_ms: began_ms };
    let world = || {
        let mut world = World::with(&["lead", "ann", "bob"])
            .member("lead", |lead| lead.detached = true)
            .record("ann", &idle(1, true))
            .record("bob", &idle(1, true));
        world.pass(AFTER_MS);
        world
    };
    let due = |world: World| {
        let mut world = world;
        let due = look(&mut world, &rules);
        assert!(due.next_ms.unwrap() <= 4_000, "it can begin again at any time");
        due.claimed.iter().map(|alert| (alert.kind, text(alert))).collect::<Vec<_>>()
    };
    let all_idle = ("idle_team", "Every agent of team alpha is idle.".to_owned());
    assert_eq!(due(world()), [all_idle]);
    assert_eq!(due(world().record("bob", &idle(1, false))), []);
    assert_eq!(due(world().record("bob", &idle(7, true))), [], "that was another life");
    assert_eq!(due(world().life("bob", Life::Spawning)), []);
    let busy = || world().record("bob", &idle(1, false));
    let fails = ActivityRecord { incarnation: 1, failed: Some(failed.clone()), ..Default::default() };
    assert_eq!(
        due(busy().record("ann", &fails)),
        [("failing", "ann's program keeps failing in team alpha.".to_owned())]
    );
    assert_eq!(due(busy().record("ann", &ActivityRecord { incarnation: 2, ..fails })), []);
    let lost = busy().life("ann", Life::Lost).life("bob", Life::Lost);
    assert_eq!(due(lost), [("lost", "2 members are lost in team alpha. The first is ann.".to_owned())]);
}

#[test]
fn nothing_is_sent_that_cannot_be_recorded() {
    let mut world = ask(World::with(&["lead", "ann"]), "ann", 1);
    world.pass(AFTER_MS);
    world.ctx.store_is_full = true;
    let (due, txn) = world.run(|tx| alerts::carry_out_due(tx, &rules(&["permission"]))).unwrap();
    let look_again = DueAlerts { next_ms: Some(20_000), ..DueAlerts::default() };
    assert_eq!((due, txn.writes), (look_again, vec![]));
}

#[test]
fn what_another_rule_has_announced_stays_announced() {
    let mut world = ask(World::with(&["lead", "ann"]), "ann", 1);
    world.pass(AFTER_MS);
    let here = rules(&["permission"]);
    let alert = claim(&mut world, &here);
    settle(&mut world, &alert, None);
    // A coordinator with another configuration.
    let other = AlertRule { after: Duration::ZERO, ..AlertRule::new(&["notify-send"], here.rules[0].kinds.clone()) };
    let there = AlertRules { rules: vec![other], console: None };
    let alert = claim(&mut world, &there);
    settle(&mut world, &alert, None);
    assert_eq!(look(&mut world, &here), DueAlerts::default());
    assert_eq!(slots(&world), 2);
}
