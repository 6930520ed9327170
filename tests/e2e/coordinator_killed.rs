//! A coordinator that is killed while members work, and comes back.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::{
    agents,
    failures_under_load::{THREE_TIMES, under_load},
    world::{LEAD, World, eventually, is_alive},
};

scenarios! {
    a_runner_that_waits_for_its_coordinator_says_so_and_gives_up_at_a_signal,
    a_wait_for_a_reply_ends_when_the_coordinator_stays_away,
    a_follower_says_so_each_time_that_the_coordinator_is_away,
}

store_scenarios! {
    a_coordinator_that_comes_back_finds_the_same_programs_at_work,
    a_program_keeps_its_current_message_through_any_number_of_coordinator_restarts,
    a_coordinator_killed_under_load_loses_nothing_and_repeats_nothing,
}

fn a_coordinator_that_comes_back_finds_the_same_programs_at_work(mut world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &[], agents::WILLING).ready();
    let program = backend.program();
    world.cli(LEAD, &["send", "backend", "before"]).succeeds();
    backend.await_text("before");

    world.coordinator.kill();
    backend.await_log("connection lost");
    world.coordinator.restart();
    let answered = world.cli(LEAD, &["send", "backend", "ping", "--wait-reply", "60", "--json"]).succeeds();
    assert_eq!(answered.json()["reply"]["content"], "pong");
    assert_eq!((backend.program(), is_alive(program)), (program, true));
    assert_eq!(backend.pids(), [program]);
    assert_eq!(backend.heard().iter().filter(|line| line["content"] == "before").count(), 1);
    assert_eq!(world.member("backend")["incarnation"], 1);
    let log = backend.log();
    assert_eq!((log.matches("connection lost").count(), log.matches("connected again after").count()), (1, 1), "{log}");

    // One that is asked to end drains first; its clients come back to the next.
    world.coordinator.end();
    world.coordinator.restart();
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    assert_eq!(backend.exit(), 0);
}

/// No other process can have opened the file of the store, so nothing that comes later was delivered before.
#[test]
fn a_message_sent_after_a_crash_does_not_count_as_delivered_before() {
    let mut world = World::embedded();
    world.create_team("acme");
    let backend = world.run("backend", &[], agents::WILLING).ready();
    world.cli(LEAD, &["send", "backend", "before"]).succeeds();
    backend.await_text("before");
    backend.signal(Signal::SIGSTOP);
    world.coordinator.kill();
    world.coordinator.restart();
    world.cli(LEAD, &["send", "backend", "sent while it is away"]).succeeds();
    backend.signal(Signal::SIGCONT);
    let sent = world.cli(LEAD, &["send", "backend", "ping", "--wait-reply", "60", "--json"]).succeeds();
    assert_eq!(sent.json()["reply"]["content"], "pong");
    for content in ["sent while it is away", "ping"] {
        let heard = backend.heard().into_iter().find(|line| line["content"] == content).unwrap();
        assert_eq!(heard["delivery_count"], 1, "{heard}");
    }
}

fn a_program_keeps_its_current_message_through_any_number_of_coordinator_restarts(mut world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &[], agents::SILENT).ready();
    world.cli(LEAD, &["send", "backend", "an hour of work"]).succeeds();
    backend.await_text("an hour of work");
    for restart in 1..=6 {
        world.coordinator.kill();
        world.coordinator.restart();
        let connected = || (backend.log().matches(": connected").count() > restart).then_some(());
        eventually("the runner is connected again", connected);
    }
    let inbox = world.cli(LEAD, &["inbox", "--of", "backend", "--json"]).succeeds();
    assert!(inbox.stdout.contains("an hour of work"), "{}", inbox.stdout);
    assert_eq!(backend.heard().iter().filter(|line| line["content"] == "an hour of work").count(), 1);
}

fn a_runner_that_waits_for_its_coordinator_says_so_and_gives_up_at_a_signal(mut world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &[], agents::WILLING).ready();
    let program = backend.program();
    world.coordinator.kill();
    backend.await_log("connection lost");
    backend.signal(Signal::SIGTERM);
    backend.await_log("trying for up to 60 s more to report how the program ended");
    assert!(!is_alive(program));
    let told_at = Instant::now();
    backend.signal(Signal::SIGTERM);
    assert_eq!(backend.exit(), 75);
    assert!(told_at.elapsed() < Duration::from_secs(30), "the runner has not given up");
    world.coordinator.restart();
}

fn a_wait_for_a_reply_ends_when_the_coordinator_stays_away(mut world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &[], agents::SILENT).ready();
    let waiting = world.spawn(LEAD, &["send", "backend", "ping", "--wait-reply", "600", "--timeout", "2"], "");
    backend.await_text("ping");
    world.coordinator.kill();
    let gave_up = waiting.output().exits(69);
    assert!(!gave_up.stderr.contains("No reply"), "{}", gave_up.stderr);
    world.coordinator.restart();
}

fn a_follower_says_so_each_time_that_the_coordinator_is_away(mut world: World) {
    world.create_team("acme");
    let said = world.home(LEAD).join("said");
    let script = format!("exec \"$0\" history --follow 2>'{}'", said.display());
    let follower = world.spawn_shell(LEAD, &script);
    follower.await_said("lead");
    for times in 1..=2 {
        world.coordinator.kill();
        eventually("the follower says that it waits", || {
            let said = std::fs::read_to_string(&said).unwrap_or_default();
            (said.matches("Waiting for the coordinator").count() == times).then_some(())
        });
        world.coordinator.restart();
        let task = format!("task {times}");
        world.cli(LEAD, &["task", "create", &task]).succeeds();
        follower.await_said(&task);
    }
    follower.kill();
}

fn a_coordinator_killed_under_load_loses_nothing_and_repeats_nothing(mut world: World) {
    under_load(&mut world, THREE_TIMES, |world| {
        world.coordinator.kill();
        world.coordinator.restart();
    });
}
