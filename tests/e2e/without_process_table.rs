//! A machine that does not list its processes, as a sandbox without `/proc`: what must work, and must end, there too.

use std::fs;

use nix::sys::signal::Signal;

use crate::world::{FreshMachine, eventually, is_alive, signal};

/// A program that answers, and has started another one in its process group.
const TEAM: &str = r#"
    name = "acme"

    [[members]]
    name = "backend"
    profile = "echo"
    restart = "never"

    [[members]]
    name = "reviewer"
    profile = "echo"
    restart = "never"

    [hosts.local.profiles.echo]
    command = ["sh", "-c", "sleep 1000 & exec \"$0\" echo-teammate", "{teamwire}"]
"#;

impl FreshMachine {
    /// Returns the process of a member whose command line has these words, as the machine around this one sees it.
    fn process_of(&self, member: &str, words: &str) -> u32 {
        let is_it = |pid: &u32| {
            let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            let belongs = format!("TEAMWIRE_MEMBER={member}");
            line.contains(words)
                && (line.contains(&format!(" {member} "))
                    || read("environ").split(|byte| *byte == 0).any(|each| each == belongs.as_bytes()))
        };
        eventually(&format!("{words} of {member} runs"), || self.processes().into_iter().find(is_it))
    }

    fn id_in(&self, record: &str, of: &str) -> u32 {
        let text = fs::read(self.state().join("up").join(record)).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&text).unwrap();
        record[of]["id"].as_u64().unwrap().try_into().unwrap()
    }
}

#[track_caller]
fn end(what: &str, pids: &[u32]) {
    eventually(what, || (!pids.iter().any(|pid| is_alive(*pid))).then_some(()));
}

#[test]
fn without_a_process_table_a_team_starts_and_whatever_is_killed_nothing_is_left_of_it() {
    let Some(machine) = FreshMachine::without_process_table() else { return };
    fs::write(machine.path().join("team.toml"), TEAM.replace("{teamwire}", crate::world::TEAMWIRE)).unwrap();
    let ask = |member: &str| {
        let answer = machine.run(&["send", member, "Are you there?", "-s", "a question", "--wait-reply"]).succeeds();
        assert!(answer.stdout.contains("You said: Are you there?"), "{}", answer.stdout);
    };
    machine.run(&["up"]).succeeds();
    ask("backend");
    machine.run(&["spawn", "helper", "--profile", "echo", "--restart", "never"]).succeeds();
    ask("helper");
    let log = fs::read_to_string(machine.state().join("hosts/acme/logs/backend.log")).unwrap();
    assert!(log.contains("This system does not list its processes"), "{log}");
    let tree = |member: &str| ["echo-teammate", "sleep 1000"].map(|words| machine.process_of(member, words));

    // The program: its runner ends what it has started, and reports its end.
    let [program, sleep] = tree("backend");
    signal(program, Signal::SIGKILL);
    end("the program's tree ends", &[program, sleep]);
    eventually("the exit is reported", || (machine.member("backend")["state"] == "exited").then_some(()));

    // The runner: its watchdog ends the program's tree.
    let [program, sleep] = tree("reviewer");
    let runner = machine.process_of("reviewer", " run ");
    signal(runner, Signal::SIGKILL);
    end("the runner's tree ends", &[runner, program, sleep]);
    eventually("the runner's end is reported", || (machine.member("reviewer")["state"] == "exited").then_some(()));

    // The host: the next one takes over its members, and ends another of the same name first.
    let host = machine.id_in("teams/acme/team.json", "host");
    signal(host, Signal::SIGKILL);
    end("the host ends", &[host]);
    let again = machine.run(&["up"]).succeeds().stdout;
    assert!(machine.id_in("teams/acme/team.json", "host") != host, "{again}");
    ask("helper");
    ask("backend");
    machine.run(&["stop"]).succeeds();
    machine.run(&["restart"]).succeeds();
    ask("helper");

    // Without its host, `down` itself ends the members that do not end when they are asked.
    signal(machine.id_in("teams/acme/team.json", "host"), Signal::SIGKILL);
    let coordinator = machine.id_in("coordinator.json", "process");
    assert!(is_alive(coordinator));
    machine.run(&["down"]).succeeds();
    machine.assert_nothing_is_left();
}
