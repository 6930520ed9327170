//! Shutdowns, from the question to the end of the last process.

use crate::{
    agents,
    world::{LEAD, World, eventually, is_alive},
};

scenarios! {
    a_shutdown_is_rejected_with_a_reason_and_when_approved_ends_every_process,
}

fn a_shutdown_is_rejected_with_a_reason_and_when_approved_ends_every_process(world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &["--grace", "1"], agents::STUBBORN).ready();
    let pids = eventually("all descendants run", || Some(backend.pids()).filter(|pids| pids.len() == 5));
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");

    world.cli(LEAD, &["shutdown", "backend", "are you done?", "--wait"]).exits(3).complains_of("three tests still run");
    let rejected = world.await_inbox(LEAD, "the rejection", |message| message["type"] == "shutdown_response");
    assert_eq!((&rejected["approve"], &rejected["content"]), (&false.into(), &"three tests still run".into()));
    assert!(pids.iter().all(|pid| is_alive(*pid)), "a question has ended a process");
    world.cli(LEAD, &["team", "delete"]).exits(1).complains_of("backend").complains_of("TEAM_HAS_ACTIVE_MEMBERS");

    world.cli(LEAD, &["shutdown", "backend", "and now?", "--wait"]).succeeds();
    let left: Vec<_> = pids.iter().filter(|pid| is_alive(**pid)).collect();
    assert!(left.is_empty(), "{left:?} live on");
    let member = world.member("backend");
    assert_eq!((&member["state"], &member["exit"]["signal"]), (&"MEMBER_STATE_EXITED".into(), &9.into()), "{member}");
    world.await_inbox(LEAD, "the notice of the exit", |message| {
        message["notice"]["kind"] == "member_exited" && message["notice"]["member"] == "backend"
    });
    assert_eq!(backend.exit(), 0);
    world.cli(LEAD, &["send", "backend", "still there?"]).exits(1).complains_of("AGENT_EXITED");

    world.cli(LEAD, &["team", "delete"]).succeeds();
    assert!(world.cli(LEAD, &["team", "list", "--json"]).succeeds().lines().is_empty());
    world.create_team("acme");
    assert!(world.member("backend").is_null());
    assert!(world.take_inbox(LEAD).is_empty());
    assert!(world.history(LEAD).iter().all(|entry| entry["message"].is_null()), "the old team's history is left");
    assert!(world.cli(LEAD, &["requests", "--json"]).succeeds().lines().is_empty());
}
