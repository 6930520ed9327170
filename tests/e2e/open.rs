//! `stop`, `restart` and `open`: the coordinator that `up` started goes away, comes back, and admits other machines.

use std::{fs, net::TcpListener};

use serde_json::Value;

use crate::world::{FreshMachine, Network, eventually};

const TEAM: &str = r#"
    name = "acme"

    [[members]]
    name = "backend"
    profile = "echo"

    [hosts.local.profiles.echo]
    command = ["teamwire", "echo-teammate"]
"#;

fn with_team(machine: FreshMachine) -> FreshMachine {
    fs::write(machine.path().join("team.toml"), TEAM).unwrap();
    machine.run(&["up"]).succeeds();
    machine
}

/// Sends a question, and asserts that the member answers it.
#[track_caller]
fn ask(machine: &FreshMachine, name: &str, question: &str) {
    let answer = machine.run(&["send", name, question, "--wait-reply"]).succeeds().stdout;
    assert!(answer.contains(&format!("You said: {question}")), "{answer}");
}

#[test]
fn a_coordinator_that_was_stopped_comes_back_with_its_team() {
    let machine = with_team(FreshMachine::new());
    assert_eq!(machine.run(&["stop", "--json"]).succeeds().json()["outcome"], "done");
    assert_eq!(machine.run(&["stop", "--json"]).succeeds().json()["outcome"], "kept", "it has stopped already");
    machine.run(&["--timeout", "1", "status"]).exits(69);
    // It waits for the coordinator.
    let waiting = machine.start(&["send", "backend", "While it was away", "--wait-reply"], "");
    let started = machine.run(&["restart"]).succeeds().stdout;
    assert!(started.starts_with("Started the coordinator at "), "{started}");
    assert!(waiting.output().succeeds().stdout.contains("You said: While it was away"));
    let restarted = machine.run(&["restart"]).succeeds().stdout;
    assert!(restarted.starts_with("Restarted the coordinator at "), "{restarted}");
    ask(&machine, "backend", "And now?");
    assert_eq!(machine.member("backend")["incarnation"], 1, "it is the same process");

    machine.run(&["stop"]).succeeds();
    let up = machine.run(&["up"]).succeeds().stdout;
    assert!(up.starts_with("Started a coordinator at "), "{up}");
    ask(&machine, "backend", "Once more?");
    machine.run(&["down"]).succeeds();
    // Another team of the same name and the same minute has its own archive.
    machine.run(&["up"]).succeeds();
    machine.run(&["down"]).succeeds();
    assert_eq!(fs::read_dir(machine.state().join("archive")).unwrap().count(), 2);
    machine.assert_nothing_is_left();
    machine.run(&["stop"]).exits(1).complains_of("`teamwire up` has started no coordinator here");
    machine.run(&["open"]).exits(1).complains_of("`teamwire up` has started no coordinator here");
}

#[test]
fn a_coordinator_that_cannot_be_opened_goes_on_as_before() {
    let machine = with_team(FreshMachine::new());
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let refused = ["open", "--host", "192.0.2.7", "--listen", &listen];
    machine.run(&refused).exits(1).complains_of("It is as it was before. If another program has the port");
    ask(&machine, "backend", "Are you there?");
    machine.run(&["open", "--host", "a host"]).exits(64).complains_of("is not a host");
    machine.run(&["down"]).succeeds();
}

#[test]
fn another_machine_joins_an_opened_coordinator_and_every_member_outlives_its_restarts() {
    let Some(network) = Network::of_two() else { return };
    let [here, there] = network.machines();
    let machine = with_team(FreshMachine::at(here));
    let other = FreshMachine::at(there);
    machine.run(&["open"]).exits(64).complains_of("no default route");
    let opened = machine.run(&["open", "--host", here.ip, "--json"]).succeeds().json();
    assert_eq!(opened["name"], format!("https://{}:7420", here.ip));
    let invited = machine.run(&["invite", "tester", "--json"]).succeeds().json();
    let join_string = invited["join_string"].as_str().unwrap();
    let tester = other.start(&["run", "--join", "-", "tester", "--", "teamwire", "echo-teammate"], join_string);
    let is_connected = |name: &str, expected: bool| {
        eventually("the coordinator notices the member", || {
            (machine.member(name)["connected"] == expected).then_some(())
        });
    };
    is_connected("tester", true);
    ask(&machine, "tester", "From which machine?");

    machine.run(&["stop"]).succeeds();
    let waiting = machine.start(&["send", "tester", "While it was away", "--wait-reply"], "");
    // As after a restart of the machine.
    machine.run(&["up"]).succeeds();
    assert!(waiting.output().succeeds().stdout.contains("You said: While it was away"));
    machine.run(&["restart"]).succeeds();
    for member in ["backend", "tester"] {
        ask(&machine, member, "And now?");
        assert_eq!(machine.member(member)["incarnation"], 1, "{member} is the same process");
    }

    // What is sent while it cannot come arrives once it can.
    machine.run(&["restart", "--local"]).succeeds();
    ask(&machine, "backend", "Are we alone?");
    machine.run(&["send", "tester", "While it was shut out"]).succeeds();
    assert_eq!(machine.member("tester")["inbox_depth"], 1);
    machine.run(&["open", "--host", here.ip]).succeeds();
    eventually("the message arrives", || {
        let sent = machine.run(&["history", "--json"]).succeeds().lines();
        let is_answer = |entry: &Value| entry.to_string().contains("You said: While it was shut out");
        sent.iter().any(is_answer).then_some(())
    });
    assert_eq!(machine.member("tester")["incarnation"], 1, "it is the same process");
    // A local host joins over the socket, whatever the address of the machine is.
    machine.run(&["down"]).succeeds();
    assert_eq!(tester.output().succeeds().stdout, "");
    machine.run(&["up"]).succeeds();
    machine.run(&["invite", "later"]).succeeds().complains_of("this machine only");
    machine.run(&["down"]).succeeds();
}
