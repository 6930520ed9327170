//! Two machines: TLS, one paste, and a network that is cut for a while.
//!
//! The machines are network namespaces. Where these cannot be made, the tests say so and are left out: it takes root,
//! and `ip`. With `CI=true`, root that cannot make them is a failure.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    agents,
    world::{Machine, Network, Runner, World, eventually},
};

/// How long the network is cut: most of a lease, so that a wrong count would declare a member lost.
const CUT: Duration = Duration::from_secs(20);

#[test]
fn a_network_that_is_cut_at_the_teammate_costs_no_message() {
    let Some(network) = Network::of_two() else { return };
    let [_, teammates] = network.machines();
    a_network_that_is_cut_costs_no_message(&network, teammates);
}

#[test]
fn a_network_that_is_cut_at_the_coordinator_costs_no_message() {
    let Some(network) = Network::of_two() else { return };
    let [coordinators, _] = network.machines();
    a_network_that_is_cut_costs_no_message(&network, coordinators);
}

fn a_network_that_is_cut_costs_no_message(network: &Network, cut: &Machine) {
    let [coordinators, teammates] = network.machines();
    let world = World::embedded();
    for (identity, machine) in
        [("host", coordinators), ("counting", coordinators), ("echo", teammates), ("deceived", teammates)]
    {
        world.place(identity, machine);
    }
    let made = world.cli("host", &["certs", "--host", coordinators.ip, "--json"]).succeeds().json();
    let advertised = format!("https://{}:7420", coordinators.ip);
    let listen = ["serve", "--listen", "0.0.0.0:7420", "--advertise", &advertised];
    let tls = ["--tls-cert", "certs/server.crt", "--tls-key", "certs/server.key"];
    let coordinator = world.spawn("host", &[&listen[..], &tls].concat(), "");
    let address = world.home("host").join("state/address");
    eventually("the coordinator serves", || address.exists().then_some(()));
    world.cli("host", &["team", "create", "acme", "--ca", "certs/ca.crt"]).succeeds();

    let fingerprint = made["ca"]["fingerprint"].as_str().unwrap();
    let pasted = invite(&world, "echo");
    let other = pasted.replace(fingerprint, &format!("sha256:{}", "0a".repeat(32)));
    let deceived = world.cli("deceived", &["run", "--join", &other, "echo", "--", "true"]);
    deceived.exits(69).complains_of("does not present the certificate");

    let echo = world.run_again("echo", &["--join", &pasted], agents::ECHO).ready();
    let counting = world.run_again("counting", &["--join", &invite(&world, "counting")], agents::COUNTING).ready();
    await_number(&counting, 5);

    cut.disconnect();
    let began = Instant::now();
    while began.elapsed() < CUT {
        assert_not_lost(&world);
        thread::sleep(Duration::from_secs(1));
    }
    let echoed = numbers(&counting).len() as u64;
    cut.connect();
    eventually("a number that was sent after the cut comes back, and echo counts as connected", || {
        let member = assert_not_lost(&world);
        // Five a second, for as long as the cut.
        let is_past_the_cut = numbers(&counting).last().is_some_and(|last| *last > echoed + 5 * CUT.as_secs());
        (is_past_the_cut && member["connected"] == true).then_some(())
    });
    assert_eq!(member(&world)["incarnation"], 1, "it is the same life");

    fs::write(world.home("counting").join("stop"), "").unwrap();
    let sent: u64 = eventually("counting ends", || {
        fs::read_to_string(world.home("counting").join("sent")).ok()?.trim().parse().ok()
    });
    await_number(&counting, sent);
    let all: Vec<u64> = (1..=sent).collect();
    assert_eq!(numbers(&echo), all, "echo read every number once and in order");
    assert_eq!(numbers(&counting), all, "what came back: all of it, once, in order");

    world.cli("host", &["shutdown", "echo", "Well done.", "--wait"]).succeeds();
    assert_eq!(echo.exit(), 0);
    assert_eq!(member(&world)["state"], "exited");
    counting.kill();
    let log = coordinator.interrupt().succeeds().stderr;
    assert!(!log.contains(" WARN ") && !log.contains(" ERROR "), "{log}");
}

fn invite(world: &World, name: &str) -> String {
    world.cli("host", &["invite", name]).succeeds().stdout.trim().to_owned()
}

/// Returns the teammate as the lead sees it.
fn member(world: &World) -> Value {
    let status = world.cli("host", &["status", "--json"]).succeeds().json();
    let members = status["members"].as_array().unwrap();
    members.iter().find(|member| member["name"] == "echo").cloned().unwrap()
}

#[track_caller]
fn assert_not_lost(world: &World) -> Value {
    let member = member(world);
    let state = &member["state"];
    assert!(state == "active" || state == "idle", "{member}");
    member
}

/// Returns the numbers that a program read or echoed, in order.
fn numbers(runner: &Runner) -> Vec<u64> {
    let number = |line: Value| {
        let content = line["content"].as_str().filter(|_| line["type"] == "message")?;
        content.trim_start_matches("You said: ").parse().ok()
    };
    runner.heard().into_iter().filter_map(number).collect()
}

#[track_caller]
fn await_number(runner: &Runner, number: u64) {
    eventually(&format!("number {number} comes"), || numbers(runner).contains(&number).then_some(()));
}
