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
    world::{Machine, Network, Runner, StartedCommand, World, eventually},
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

/// Places these identities on machines, and `host`, which serves a coordinator with TLS and leads a team there.
/// Returns the coordinator, and the certificates.
pub(crate) fn serve(world: &World, on: &Machine, others: &[(&str, &Machine)]) -> (StartedCommand, Value) {
    world.place("host", on);
    for (identity, machine) in others {
        world.place(identity, machine);
    }
    let made = world.cli("host", &["certs", "--host", on.ip, "--json"]).succeeds().json();
    let coordinator = start(world, on);
    let address = world.home("host").join("state/address");
    eventually("the coordinator serves", || address.exists().then_some(()));
    world.cli("host", &["team", "create", "acme", "--ca", "certs/ca.crt"]).succeeds();
    (coordinator, made)
}

/// Starts the coordinator of [`serve`], again if it has ended.
pub(crate) fn start(world: &World, on: &Machine) -> StartedCommand {
    let advertised = format!("https://{}:7420", on.ip);
    let listen = ["serve", "--listen", "0.0.0.0:7420", "--advertise", &advertised];
    let tls = ["--tls-cert", "certs/server.crt", "--tls-key", "certs/server.key"];
    world.spawn("host", &[&listen[..], &tls].concat(), "")
}

/// The budget of a team covers what its members use on all machines.
#[test]
fn a_teams_budget_covers_two_machines() {
    let Some(network) = Network::of_two() else { return };
    let [here, there] = network.machines();
    let world = World::embedded();
    let (coordinator, _) = serve(&world, here, &[("ann", here), ("bob", there)]);
    let run =
        |name: &str| world.run_program(name, &["--join", &invite(&world, name), "--via", "acp"], agents::ACP).ready();
    let runners = [run("ann"), run("bob")];
    world.cli("host", &["budget", "--whole-team", "--set", "100 tokens"]).succeeds();
    let send = |to: &str, text: &str| world.cli("host", &["send", to, text, "--json"]).succeeds().json();
    let trouble = |name: &str| {
        let status = world.cli("host", &["status", "--json"]).succeeds().json();
        let members = status["members"].as_array().unwrap();
        let member = members.iter().find(|member| member["name"] == name).unwrap();
        member["program"]["trouble"].as_str().unwrap_or_default().to_owned()
    };
    let asked = || {
        let pending = world.cli("host", &["requests", "--state", "pending", "--json"]).succeeds().lines();
        pending.into_iter().filter(|request| request["tool"] == "budget").collect::<Vec<_>>()
    };
    send("ann", "uses 60");
    let used = || world.cli("host", &["budget", "--json"]).succeeds().stdout;
    eventually("60 tokens are counted", || used().contains("60").then_some(()));
    assert_eq!(trouble("ann"), "");
    send("bob", "uses 60");
    eventually("bob is paused", || trouble("bob").starts_with("paused: 120 tokens used of the team's").then_some(()));
    // Ann's runner learns of it with what ann uses next.
    send("ann", "uses 1");
    eventually("ann is paused", || trouble("ann").starts_with("paused: 121 tokens used of the team's").then_some(()));
    let waiting = send("ann", "and later");
    let first = eventually("each asks once", || Some(asked()).filter(|asked| asked.len() == 2)).remove(0);
    world.cli("host", &["approve", first["id"].as_str().unwrap(), "--add", "1k tokens"]).succeeds();
    eventually("both go on", || (trouble("ann").is_empty() && trouble("bob").is_empty()).then_some(()));
    let id = waiting["message_id"].as_str().unwrap();
    eventually("what waited is processed", || {
        let entries = world.history("host");
        let entry = entries.iter().find(|entry| entry["message"]["id"] == id)?;
        (entry["receipts"][0]["state"] == "processed").then_some(())
    });
    eventually("more is not asked for when there is more", || asked().is_empty().then_some(()));
    for runner in runners {
        runner.signal(nix::sys::signal::Signal::SIGTERM);
        runner.exit();
    }
    coordinator.interrupt().succeeds();
}

fn a_network_that_is_cut_costs_no_message(network: &Network, cut: &Machine) {
    let [coordinators, teammates] = network.machines();
    let world = World::embedded();
    let others = [("counting", coordinators), ("echo", teammates), ("deceived", teammates)];
    let (coordinator, made) = serve(&world, coordinators, &others);

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
