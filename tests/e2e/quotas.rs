//! Teams that use up their quota: what callers learn, what still works, and that other teams notice nothing.

use serde_json::Value;
use teamwire_client::{Client, Reason, message, v1};
use tokio::runtime::Runtime;

use crate::world::{LEAD, World, eventually};

store_scenarios! {
    a_full_team_is_reported_and_its_lead_still_acts,
    a_teammate_that_churns_tasks_erases_nothing_and_blocks_no_message,
    deleting_a_team_frees_its_space,
}

fn with_small_quota(world: &mut World) {
    let quota = [("TEAMWIRE_LIMITS_TEAM_BYTES_MAX", "256KiB"), ("TEAMWIRE_LIMITS_RETENTION_INTERVAL", "1s")];
    world.coordinator.restart_with(&quota);
    // The alarm.
    world.coordinator.may_complain_of("% of its quota");
}

/// Has a member send messages until one is refused. Returns how many were accepted.
fn fill(world: &World, from: &str, to: &str, length: usize) -> usize {
    let content = "x".repeat(length);
    for sent in 0..500 {
        let output = world.cli(from, &["send", to, &content, "-s", "long"]);
        if output.code != 0 {
            output.complains_of("QUOTA_EXCEEDED").complains_of("limits.team_bytes_max");
            return sent;
        }
    }
    panic!("everything fits");
}

/// Returns how many messages of a length the history has.
fn recorded(world: &World, length: usize) -> usize {
    let has = |entry: &&Value| entry["message"]["content"].as_str().is_some_and(|content| content.len() == length);
    world.history(LEAD).iter().filter(has).count()
}

fn a_full_team_is_reported_and_its_lead_still_acts(mut world: World) {
    with_small_quota(&mut world);
    world.create_team("acme");
    world.join("ann");
    world.join("bob");
    assert!(!world.cli(LEAD, &["status"]).succeeds().stdout.contains("quota"));
    let sent = fill(&world, "ann", "bob", 40_000);
    assert!((4..7).contains(&sent), "{sent}");
    let more = fill(&world, "ann", "bob", 1_000);
    assert_eq!((recorded(&world, 40_000), recorded(&world, 1_000)), (sent, more));
    world.await_inbox(LEAD, "the alarm", |message| message["notice"]["kind"] == "quota");
    world.coordinator.await_log("% of its quota", 1);
    eventually("the metrics show it", || {
        (world.coordinator.metric("teamwire_teams_by_quota{level=\"full\"}") > 0.0).then_some(())
    });
    let doctor = world.cli(LEAD, &["doctor", "--json"]).exits(1);
    assert!(doctor.lines().iter().any(|finding| finding["class"] == "quota_exceeded"), "{}", doctor.stdout);
    let status = world.cli("ann", &["status"]).succeeds().stdout;
    assert!(status.contains("% of its quota: 25") && status.contains("KiB of 256 KiB"), "{status}");
    let status = world.cli("ann", &["status", "--json"]).succeeds().json();
    assert_eq!(status["team"]["storage"]["bytes_max"], 256 << 10);
    // Each reader gets advice that still works.
    let found = world.cli("ann", &["doctor", "--json"]).exits(1).lines();
    let finding = found.iter().find(|finding| finding["class"] == "quota_exceeded").unwrap();
    assert!(finding["text"].as_str().unwrap().contains("KiB of 256 KiB"), "{finding}");
    assert!(found.iter().all(|finding| !finding["next"].as_str().unwrap().contains("teamwire send")), "{found:?}");

    // Another team has room.
    let (address, operator) = (world.coordinator.address(), world.operator());
    Runtime::new().unwrap().block_on(async {
        let operator = Client::connect(&address).unwrap().with_credential(&operator).unwrap();
        let create = v1::CreateTeamRequest { name: "other".to_owned(), ..Default::default() };
        operator.create_team_with(create).await.unwrap();
        let content = "x".repeat(40_000);
        let hello = v1::SendRequest { team: "other".to_owned(), ..message::direct("lead", "s", &content) };
        operator.send(hello).await.unwrap();
    });

    // What ends something works, and the lead has a reserve.
    world.cli("bob", &["inbox", "--json"]).succeeds();
    world.cli(LEAD, &["send", "ann", "Stop sending.", "-s", "stop"]).succeeds();
    fill(&world, LEAD, "bob", 1_000);
    let refused = world.cli(LEAD, &["send", "bob", &"x".repeat(1_000), "-s", "long"]);
    refused.exits(1).complains_of("The tenth more").complains_of("deleted");
    world.cli("bob", &["leave"]).succeeds();
    world.cli(LEAD, &["shutdown", "ann", "--force"]).succeeds();
    assert_ne!(world.cli("ann", &["send", "team-lead", "more", "-s", "more"]).code, 0, "ann was stopped");
    assert_eq!(recorded(&world, 40_000), sent, "what was said is still there");
}

fn a_teammate_that_churns_tasks_erases_nothing_and_blocks_no_message(mut world: World) {
    with_small_quota(&mut world);
    world.create_team("acme");
    let ann = world.join("ann");
    world.cli(LEAD, &["send", "ann", "said before", "-s", "before"]).succeeds();
    let address = world.coordinator.address();
    let refused = Runtime::new().unwrap().block_on(async {
        let ann = Client::connect(&address).unwrap().with_credential(&ann).unwrap();
        // Longer than what the changes write, so that it never fits where they do not.
        let create = v1::CreateTaskRequest { subject: "churning".to_owned(), ..Default::default() };
        ann.create_task(create.clone()).await.unwrap();
        let change = v1::UpdateTaskRequest { task_id: 1, subject: Some("churned".to_owned()), ..Default::default() };
        for _ in 0..1_000 {
            if let Err(error) = ann.update_task(change.clone()).await {
                let reasons = [ann.create_task(create.clone()).await.unwrap_err().reason(), error.reason()];
                ann.delete_task(v1::DeleteTaskRequest { task_id: 1, ..Default::default() }).await.unwrap();
                return reasons;
            }
        }
        panic!("a thousand changes fit");
    });
    assert_eq!(refused, [Some(Reason::QuotaExceeded); 2]);
    world.cli("ann", &["send", "team-lead", "said after", "-s", "after"]).succeeds();
    let history = world.history(LEAD);
    let said = |content: &str| history.iter().filter(|entry| entry["message"]["content"] == content).count();
    assert_eq!((said("said before"), said("said after")), (1, 1));
}

fn deleting_a_team_frees_its_space(mut world: World) {
    with_small_quota(&mut world);
    world.create_team("acme");
    world.join("ann");
    let sent = fill(&world, "ann", LEAD, 40_000);
    world.cli(LEAD, &["inbox", "--json"]).succeeds();
    assert_eq!(recorded(&world, 40_000), sent);
    // Deleting the team frees everything, and the next one of its name starts empty.
    world.cli("ann", &["leave"]).succeeds();
    world.cli(LEAD, &["team", "delete", "acme", "--yes"]).succeeds();
    world.create_team("acme");
    world.join("bob");
    assert_eq!(fill(&world, "bob", LEAD, 40_000), sent);
}
