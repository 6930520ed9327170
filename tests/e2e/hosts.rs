//! Hosts: members that the lead orders, and what happens to them when a host, a runner or a coordinator dies.

use std::{fs, process::Command};

use nix::sys::signal::Signal;
#[cfg(target_os = "linux")]
use nix::unistd::geteuid;
use serde_json::Value;
use teamwire_client::v1::{self, RequestState};

use crate::{
    agents,
    world::{HostProcess, LEAD, Orderer, World, eventually, is_alive, kill_process, processes_with, signal},
};

scenarios! {
    an_ordered_member_starts_with_its_prompt_and_leaves_nothing_behind,
    a_killed_runner_is_reported_by_its_host,
    a_host_prints_two_lines_about_an_outage_of_the_coordinator,
}

store_scenarios! {
    members_outlive_a_killed_host_which_goes_on_with_them,
    an_order_taken_by_a_killed_host_is_carried_out_once_by_its_successor,
}

/// Starts a host `gpu-1` with the profile `agent`.
fn host(world: &World, lead: &Orderer, script: &str, more: &str) -> HostProcess {
    world.host_file("gpu-1", "slots = 2", script, more);
    HostProcess::start(world, "gpu-1", &["--name", "gpu-1", "--join", &lead.invite_host("")])
}

fn state_of(world: &World, member: &str) -> String {
    world.member(member)["state"].as_str().unwrap_or_default().to_owned()
}

#[track_caller]
fn await_state(world: &World, member: &str, state: &str) {
    eventually(&format!("{member} is {state}"), || (state_of(world, member) == state).then_some(()));
}

fn an_ordered_member_starts_with_its_prompt_and_leaves_nothing_behind(world: World) {
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let gpu = host(&world, &lead, agents::WILLING, "");
    assert_eq!(lead.host("gpu-1").offer.unwrap().slots, 2);
    let order = lead.start("backend");
    gpu.await_said("started backend");
    let prompt = eventually("the prompt", || gpu.heard("backend").into_iter().find(|line| line["type"] == "message"));
    assert_eq!(prompt["content"], "You own the API.");
    assert_eq!(prompt["from"], LEAD);
    assert_eq!(lead.host("gpu-1").slots_used, 1);
    assert_eq!(world.member("backend")["spawned_on"], "gpu-1");
    let answered = world.cli(LEAD, &["send", "backend", "ping", "--wait-reply", "60", "--json"]).succeeds();
    assert_eq!(answered.json()["reply"]["content"], "pong");

    let runner = world.runner_on("gpu-1", &order);
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    eventually("the slot is free", || (lead.host("gpu-1").slots_used == 0).then_some(()));
    gpu.await_said("backend has ended");
    eventually("the runner is gone", || (!is_alive(runner)).then_some(()));
    let orders = world.host_state("gpu-1").join("orders");
    eventually("the order's record is gone", || fs::read_dir(&orders).unwrap().next().is_none().then_some(()));
    // The name is free for another order.
    lead.start("backend");
}

fn a_killed_runner_is_reported_by_its_host(world: World) {
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let _gpu = host(&world, &lead, agents::WILLING, "");
    let order = lead.start("backend");
    kill_process(world.runner_on("gpu-1", &order));
    // Long before its lease has run out and it would count as lost.
    await_state(&world, "backend", "exited");
    assert_eq!(world.member("backend")["exit"]["signal"], 9);
    eventually("the slot is free", || (lead.host("gpu-1").slots_used == 0).then_some(()));
}

fn members_outlive_a_killed_host_which_goes_on_with_them(world: World) {
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let gpu = host(&world, &lead, agents::WILLING, "");
    let (backend, frontend) = (lead.start("backend"), lead.start("frontend"));
    let runners = [&backend, &frontend].map(|order| world.runner_on("gpu-1", order));
    gpu.kill();
    assert!(runners.iter().all(|runner| is_alive(*runner)));
    world.cli(LEAD, &["send", "backend", "ping", "--wait-reply", "60"]).succeeds();
    // One of them dies while no host watches it.
    kill_process(runners[1]);

    let gpu = HostProcess::start(&world, "gpu-1", &[]);
    await_state(&world, "frontend", "exited");
    assert!(is_alive(runners[0]));
    assert_eq!(lead.host("gpu-1").slots_used, 1);
    kill_process(runners[0]);
    await_state(&world, "backend", "exited");
    let output = gpu.terminate().succeeds();
    assert!(output.stdout.contains("backend has ended"), "{}", output.stdout);
}

fn a_host_prints_two_lines_about_an_outage_of_the_coordinator(mut world: World) {
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let gpu = host(&world, &lead, agents::WILLING, "");
    world.coordinator.kill();
    let listener = world.coordinator.stand_in();
    for _ in 0..4 {
        eventually("the host tries to reconnect", || listener.accept().ok());
    }
    drop(listener);
    world.coordinator.restart();
    gpu.await_said("connected again");
    world.cli(LEAD, &["spawn", "backend", "--profile", "agent"]).succeeds();
    let said = gpu.terminate().succeeds().stdout;
    let count = |text: &str| said.lines().filter(|line| line.contains(text)).count();
    assert_eq!((count("disconnected: "), count("connected again")), (1, 1), "{said}");
}

fn an_order_taken_by_a_killed_host_is_carried_out_once_by_its_successor(world: World) {
    world.create_team("acme");
    let lead = Orderer::new(&world);
    // Git waits, so that the host has written its record and taken the order, and has not started the runner.
    let home = world.home("gpu-1");
    let bin = home.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let git = bin.join("git");
    fs::write(&git, format!("#!/bin/sh\necho $$ > '{0}/git.pid'\nexec cat '{0}/gate'\n", home.display())).unwrap();
    make_executable(&git);
    assert!(Command::new("mkfifo").arg(home.join("gate")).status().unwrap().success());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    world.environment.borrow_mut().push(("PATH".to_owned(), path.clone()));
    let gpu = host(&world, &lead, agents::WILLING, &format!("worktree = \"{}\"", home.join("app").display()));
    let order = lead.spawn("backend", |request| request.ttl = Some(prost_types::Duration { seconds: 120, nanos: 0 }));
    let git_runs = || fs::read_to_string(home.join("git.pid")).ok()?.trim().parse::<u32>().ok();
    let git_pid = eventually("git is asked for a worktree", git_runs);
    gpu.kill();
    signal(git_pid, Signal::SIGKILL);

    // The successor gets the order again. Now git works.
    fs::remove_file(&git).unwrap();
    make_repository(&home.join("app"));
    let gpu = HostProcess::start(&world, "gpu-1", &[]);
    assert_eq!(lead.decision(&order).state(), RequestState::Approved);
    gpu.await_said("started backend");
    assert_eq!(world.member("backend")["incarnation"], 1);
    let work = home.join("work/backend");
    let runners = processes_with(
        "TEAMWIRE_CONTEXT",
        &world.host_state("gpu-1").join("orders").join(&order.id).join("context.json"),
    );
    // The runner, its watchdog and its program.
    assert!((1..=4).contains(&runners.len()), "{runners:?}");
    let programs = eventually("its program has started", || {
        fs::read_to_string(work.join("pids")).ok().filter(|pids| !pids.is_empty())
    });
    assert_eq!(programs.lines().count(), 1, "one program");
}

#[test]
fn a_full_host_refuses_and_another_takes_the_order() {
    let world = World::configured(
        "[delivery]\nheartbeat_interval = \"2s\"\n[limits]\nlease_ttl = \"10s\"\nlost_grace = \"0s\"",
    );
    world.create_team("acme");
    let lead = Orderer::new(&world);
    for name in ["gpu-1", "gpu-2"] {
        world.host_file(name, "", agents::WILLING, "");
    }
    let _first = HostProcess::start(&world, "gpu-1", &["--join", &lead.invite_host("gpu-1"), "--slots", "1"]);
    let order = lead.start("backend");
    // The coordinator counts the slot as free, but what ran in it cannot end.
    let runner = world.runner_on("gpu-1", &order);
    signal(runner, Signal::SIGSTOP);
    world.cli(LEAD, &["shutdown", "backend", "--force"]).succeeds();
    eventually("the slot counts as free", || (lead.host("gpu-1").slots_used == 0).then_some(()));
    let second = HostProcess::start(&world, "gpu-2", &["--join", &lead.invite_host("gpu-2"), "--slots", "1"]);

    let order = lead.spawn("frontend", |_| {});
    assert_eq!(order.approver, "gpu-1", "it is the first by name");
    let decided = lead.decision(&order);
    assert_eq!(decided.state(), RequestState::Approved, "{decided:?}");
    assert_eq!(decided.approver, "gpu-2");
    assert_eq!(decided.spawn.unwrap().refused_by, ["gpu-1"]);
    second.await_said("started frontend");
    signal(runner, Signal::SIGCONT);
}

/// A machine that is frozen stands for one that is cut off: it comes back after its member was ordered elsewhere.
#[test]
fn a_member_of_a_lost_machine_is_ordered_again_elsewhere_and_ends_there_when_it_comes_back() {
    let world = World::configured(
        "[delivery]\nheartbeat_interval = \"2s\"\n[limits]\nlease_ttl = \"10s\"\nlost_grace = \"0s\"",
    );
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let [one, two] = ["gpu-1", "gpu-2"].map(|name| {
        world.host_file(name, "", agents::WILLING, "");
        HostProcess::start(&world, name, &["--join", &lead.invite_host(name)])
    });
    let order = lead.spawn("backend", |request| request.reschedule = true);
    assert_eq!(lead.decision(&order).state(), RequestState::Approved);
    let runner = world.runner_on("gpu-1", &order);
    for pid in [one.id(), runner] {
        signal(pid, Signal::SIGSTOP);
    }
    let prompt = eventually("the prompt", || two.heard("backend").into_iter().find(|line| line["type"] == "message"));
    assert_eq!(prompt["content"], "You own the API.");
    let answered = world.cli(LEAD, &["send", "backend", "ping", "--wait-reply", "60", "--json"]).succeeds();
    assert_eq!(answered.json()["reply"]["content"], "pong");
    for pid in [one.id(), runner] {
        signal(pid, Signal::SIGCONT);
    }
    eventually("the first runner has ended", || (!is_alive(runner)).then_some(()));
    assert_eq!(world.member("backend")["spawned_on"], "gpu-2");
    let answered = world.cli(LEAD, &["send", "backend", "ping", "--wait-reply", "60", "--json"]).succeeds();
    assert_eq!(answered.json()["reply"]["content"], "pong");
}

#[cfg(target_os = "linux")]
#[test]
fn the_join_token_of_a_member_is_in_no_process_list() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let secret = "TEAMWIRE_SECRET_OF_THE_HOST";
    world.environment.borrow_mut().push((secret.to_owned(), "leaked".to_owned()));
    world.environment.borrow_mut().push(("OTHER_SECRET".to_owned(), "leaked".to_owned()));
    world.environment.borrow_mut().push(("GIVEN".to_owned(), "given".to_owned()));
    world.host_file("gpu-1", "", agents::WILLING, "env = { GREETING = \"hello\" }");
    let file = world.home("gpu-1").join("host.toml");
    let text = fs::read_to_string(&file).unwrap().replace("pass_env = [", "pass_env = [\"GIVEN\", ");
    fs::write(&file, text).unwrap();
    let _gpu = HostProcess::start(&world, "gpu-1", &["--join", &lead.invite_host("gpu-1")]);
    let order = lead.start("backend");
    let runner = world.runner_on("gpu-1", &order);
    let read =
        |file: &str| String::from_utf8_lossy(&fs::read(format!("/proc/{runner}/{file}")).unwrap()).replace('\0', "\n");
    let (arguments, environment) = (read("cmdline"), read("environ"));
    assert!(!arguments.contains("twj:") && !environment.contains("twj:"), "{arguments}\n{environment}");
    assert!(!environment.contains("leaked"), "{environment}");
    for expected in ["GIVEN=given", "GREETING=hello", "HOME=", "PATH="] {
        assert!(environment.contains(expected), "{expected}: {environment}");
    }
    let teamwire = environment.lines().filter(|line| line.starts_with("TEAMWIRE_"));
    let mut names: Vec<&str> = teamwire.filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["TEAMWIRE_CONTEXT", "TEAMWIRE_STATE_DIR"]);
    // Its files are private.
    let record = world.host_state("gpu-1").join("orders").join(&order.id).join("order.json");
    assert!(!fs::read_to_string(&record).unwrap().contains("twj:"));
    for private in [record, world.host_state("gpu-1").join("identity.json")] {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o077, 0, "{}", private.display());
    }
}

#[test]
fn a_host_starts_a_program_that_takes_one_prompt() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let profile = "via = \"exec\"\nprompt_as = \"argument\"\n\
                   [profiles.mistaken]\ncommand = [\"cat\"]\nprompt_as = \"stdin\"\n\
                   pass_env = [\"END_TO_END_WORLD\"]";
    world.host_file("gpu-1", "", "echo \"I was asked: $1\"", profile);
    let file = world.home("gpu-1").join("host.toml");
    let text = fs::read_to_string(&file).unwrap().replace("''']", "''', \"agent\"]");
    fs::write(&file, text).unwrap();
    let _gpu = HostProcess::start(&world, "gpu-1", &["--join", &lead.invite_host("gpu-1")]);
    lead.start("docs");
    world.cli(LEAD, &["send", "docs", "the color", "-s", "a question"]).succeeds();
    let is_from = |message: &Value| message["from"] == "docs";
    let answer = world.await_inbox(LEAD, "the answer", is_from)["content"].as_str().unwrap().to_owned();
    assert!(answer.starts_with("I was asked: You are docs, a teammate of team acme."), "{answer}");

    let decided = lead.decision(&lead.spawn("notes", |request| request.profile = "mistaken".to_owned()));
    assert!(decided.reason.contains("add --via exec"), "{decided:?}");
}

#[test]
fn a_host_and_its_members_trust_the_authority_of_the_join_string() {
    let world = World::with_tls();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let _gpu = host(&world, &lead, agents::WILLING, "");
    lead.start("backend");
    world.cli(LEAD, &["send", "backend", "ping", "--wait-reply", "60"]).succeeds();
}

#[test]
fn a_host_refuses_an_order_it_cannot_start_with_an_explanation() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    world.host_file("gpu-1", "", agents::WILLING, "");
    let mark = "pass_env = [\"END_TO_END_WORLD\"]";
    let more = format!(
        "[profiles.missing]\ncommand = [\"nosuchprogram\"]\n{mark}\n\
         [profiles.nowhere]\ncommand = [\"cat\"]\nworktree = \"/nowhere/app\"\n{mark}\n"
    );
    let file = world.home("gpu-1").join("host.toml");
    fs::write(&file, fs::read_to_string(&file).unwrap() + &more).unwrap();
    let gpu = HostProcess::start(&world, "gpu-1", &["--join", &lead.invite_host("gpu-1")]);
    let refused = |profile: &str| {
        let decided = lead.decision(&lead.spawn("backend", |request| request.profile = profile.to_owned()));
        assert_eq!(decided.state(), RequestState::Rejected, "{decided:?}");
        assert!(decided.reason.len() <= 4096);
        decided.reason
    };
    let missing = refused("missing");
    assert!(missing.contains("no program nosuchprogram on the PATH"), "{missing}");
    let nowhere = refused("nowhere");
    assert!(nowhere.starts_with("git cannot make a worktree of /nowhere/app.\n"), "{nowhere}");
    gpu.await_said("did not start backend: git cannot");
    // The name is free after each.
    lead.start("backend");
}

#[test]
fn a_runner_that_ends_before_it_connects_is_refused_with_its_last_words() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    // The program's path is relative to the member's directory, which only the runner knows.
    world.host_file("gpu-1", "", agents::WILLING, "");
    let file = world.home("gpu-1").join("host.toml");
    let more = "[profiles.relative]\ncommand = [\"./agent\"]\npass_env = [\"END_TO_END_WORLD\"]\n";
    fs::write(&file, fs::read_to_string(&file).unwrap() + more).unwrap();
    let _gpu = HostProcess::start(&world, "gpu-1", &["--join", &lead.invite_host("gpu-1")]);
    let decided = lead.decision(&lead.spawn("backend", |request| request.profile = "relative".to_owned()));
    assert_eq!(decided.state(), RequestState::Rejected, "{decided:?}");
    let first = decided.reason.lines().next().unwrap_or_default();
    assert!(first.starts_with("Its runner ended with exit code 127 before it had connected: "), "{first}");
    assert!(first.contains("There is no program ./agent"), "{first}");
    eventually("the slot is free", || (lead.host("gpu-1").slots_used == 0).then_some(()));
}

#[test]
fn an_agent_program_that_fails_at_its_start_fails_its_order() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    world.host_file("gpu-1", "", agents::WILLING, "");
    let file = world.home("gpu-1").join("host.toml");
    let more = "[profiles.broken]\nvia = \"acp\"\nrestart = \"always\"\ncommand = [\"sh\", \"-c\", \"echo no such model >&2; exit 3\"]\n";
    fs::write(&file, fs::read_to_string(&file).unwrap() + more).unwrap();
    let _gpu = HostProcess::start(&world, "gpu-1", &["--join", &lead.invite_host("gpu-1")]);
    let decided = lead.decision(&lead.spawn("backend", |request| request.profile = "broken".to_owned()));
    assert_eq!(decided.state(), RequestState::Rejected, "{decided:?}");
    let first = decided.reason.lines().next().unwrap_or_default();
    assert!(first.starts_with("Its runner ended with exit code 3 before it had connected: "), "{first}");
    assert!(first.ends_with("The program ended before it was ready: no such model"), "{first}");
    let notice = world.await_inbox(LEAD, "the notice", |message| message["notice"]["kind"] == "spawn_failed");
    let text = notice["content"].as_str().unwrap();
    assert!(text.contains(" Its last output: ") && text.contains("no such model"), "{text}");
    assert!(!text.contains('`'), "{text}");
    eventually("the slot is free", || (lead.host("gpu-1").slots_used == 0).then_some(()));
}

#[test]
fn a_host_says_how_its_members_ended_even_after_a_restart() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let gpu = host(&world, &lead, agents::WILLING, "");
    let end = |member: &str, gpu: &HostProcess| {
        world.cli(LEAD, &["shutdown", member, "--wait"]).succeeds();
        gpu.await_said(&format!("{member} has ended: approved its shutdown and ended with code 0"));
    };
    lead.start("backend");
    lead.start("frontend");
    end("backend", &gpu);
    gpu.kill();
    let gpu = HostProcess::start(&world, "gpu-1", &[]);
    end("frontend", &gpu);
}

#[test]
fn a_worktree_goes_when_it_is_clean_and_stays_with_changes() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let app = world.home("gpu-1").join("app");
    make_repository(&app);
    // The script's own files would be changes.
    let script = "rm -f pids\nhear() { IFS= read -r line; }\n".to_owned() + agents::WILLING;
    let gpu = host(&world, &lead, &script, &format!("worktree = \"{}\"", app.display()));
    let worktree = world.home("gpu-1").join("work/backend");
    lead.start("backend");
    assert!(worktree.join("README").exists());
    let branch = git(&worktree, &["branch", "--show-current"]);
    assert_eq!(branch.trim(), "teamwire/backend");
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    eventually("the clean worktree is gone", || (!worktree.exists()).then_some(()));
    gpu.await_said("backend has ended");

    let again = lead.start("backend");
    fs::write(worktree.join("new"), "work").unwrap();
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    let record = world.host_state("gpu-1").join("orders").join(&again.id);
    eventually("the order is forgotten", || (!record.exists()).then_some(()));
    assert_eq!(fs::read_to_string(worktree.join("new")).unwrap(), "work");
    // The next member of the name continues there.
    lead.start("backend");
    assert!(worktree.join("new").exists());
}

#[test]
fn hidden_work_in_a_worktree_survives_every_way_to_end() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let app = world.home("gpu-1").join("app");
    make_repository(&app);
    git(&app, &["config", "status.showUntrackedFiles", "no"]);
    let script = "rm -f pids\nhear() { IFS= read -r line; }\n".to_owned() + agents::WILLING;
    let mut gpu = host(&world, &lead, &script, &format!("worktree = \"{}\"", app.display()));
    let (worktree, orders) = (world.home("gpu-1").join("work/backend"), world.host_state("gpu-1").join("orders"));
    for end in ["approved", "forced", "runner killed", "host killed"] {
        let order = lead.start("backend");
        fs::write(worktree.join("new"), end).unwrap();
        match end {
            "approved" => drop(world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds()),
            "forced" => drop(world.cli(LEAD, &["shutdown", "backend", "--force"]).succeeds()),
            "runner killed" => kill_process(world.runner_on("gpu-1", &order)),
            _ => {
                gpu.kill();
                world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
                gpu = HostProcess::start(&world, "gpu-1", &[]);
            }
        }
        eventually("the order is forgotten", || (!orders.join(&order.id).exists()).then_some(()));
        assert_eq!(fs::read_to_string(worktree.join("new")).unwrap_or_default(), end);
        gpu.await_said(&format!(
            "The worktree of backend stays in {}, on branch teamwire/backend: it has the new file new.",
            worktree.display()
        ));
    }
}

#[test]
fn only_one_host_can_have_a_name_and_only_one_process_its_identity() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let first = host(&world, &lead, agents::WILLING, "");
    world.host_file("other", "", agents::WILLING, "");
    let second = HostProcess::begin(&world, "other", &["--name", "gpu-1", "--join", &lead.invite_host("")]).output();
    assert!(second.exits(1).stderr.contains("gpu-1"));
    // The same directory.
    let locked = HostProcess::begin(&world, "gpu-1", &[]).output();
    assert!(locked.exits(1).stderr.contains("Another `teamwire host`"));

    // The same identity elsewhere takes over, and the first says so.
    let order = lead.start("backend");
    let runner = world.runner_on("gpu-1", &order);
    let state = world.host_state("other");
    fs::create_dir_all(&state).unwrap();
    fs::copy(world.host_state("gpu-1").join("identity.json"), state.join("identity.json")).unwrap();
    make_private(&world.home("other").join("state/hosts"));
    make_private(&state);
    let _taker = HostProcess::start(&world, "other", &[]);
    let superseded = first.output().exits(77);
    assert!(superseded.stderr.contains("Another process uses this host's identity"), "{}", superseded.stderr);
    assert!(is_alive(runner), "its members keep running");
}

#[test]
fn a_hosts_join_string_and_credential_fail_for_members_and_still_work_for_the_host() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let join = lead.invite_host("gpu-1");
    for command in [&["join", &join][..], &["run", "gpu-1", "--join", &join, "--echo"]] {
        world.cli("ann", command).exits(64).complains_of("teamwire host --join");
    }
    world.host_file("gpu-1", "", agents::WILLING, "");
    let gpu = HostProcess::start(&world, "gpu-1", &["--join", &join]);

    let saved = fs::read(world.host_state("gpu-1").join("identity.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_slice(&saved).unwrap();
    let credential = saved["identity"]["credential"].as_str().unwrap();
    let address = world.coordinator.address();
    for command in [&["join", credential][..], &["run", "gpu-1", "--join", credential, "--echo"]] {
        world.cli("ann", &[command, &["--address", &address]].concat()).exits(64).complains_of("gpu-1 is a host");
    }
    let stolen = [("TEAMWIRE_CREDENTIAL", credential), ("TEAMWIRE_ADDRESS", &address)];
    world.cli_in("ann", &["mcp"], &stolen).exits(77).complains_of("gpu-1 is a host");
    world.host_file("other", "", agents::WILLING, "");
    let late = HostProcess::begin(&world, "other", &["--join", &join]).output().exits(77);
    assert!(late.stderr.contains("teamwire invite --host"), "{}", late.stderr);

    assert_eq!(lead.runtime.block_on(lead.client.all_hosts()).unwrap()[0].incarnation, 1, "no one has taken over");
    lead.start("backend");
    gpu.terminate().succeeds();
}

#[test]
fn a_host_ends_with_its_team() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let gpu = host(&world, &lead, agents::WILLING, "");
    lead.start("backend");
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    world.cli(LEAD, &["team", "delete", "--yes"]).succeeds();
    let ended = gpu.output().succeeds();
    assert!(ended.stderr.contains("The team was deleted"), "{}", ended.stderr);
    // Its identity is gone with the team.
    let without = HostProcess::begin(&world, "gpu-1", &[]).output().exits(64);
    assert!(without.stderr.contains("invite --host"), "{}", without.stderr);
}

#[test]
fn a_host_that_is_stopped_by_force_says_so() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let gpu = host(&world, &lead, agents::WILLING, "");
    world.cli(LEAD, &["shutdown", "gpu-1", "--force"]).succeeds();
    let ended = gpu.output().exits(77);
    assert!(ended.stderr.contains("the member was stopped"), "{}", ended.stderr);
    HostProcess::begin(&world, "gpu-1", &[]).output().exits(77);
    // Its name is free at once.
    let again = HostProcess::start(&world, "gpu-1", &["--join", &lead.invite_host("gpu-1")]);
    lead.start("backend");
    again.terminate().succeeds();
}

#[test]
fn an_order_names_a_profile_in_any_letter_case() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let _gpu = host(&world, &lead, agents::WILLING, "");
    let decided = lead.decision(&lead.spawn("backend", |request| "Agent".clone_into(&mut request.profile)));
    assert_eq!(decided.state(), RequestState::Approved, "{decided:?}");
    world
        .cli(LEAD, &["spawn", "other", "--profile", "agent", "--deadline", "0s"])
        .exits(64)
        .complains_of("--deadline must");
}

#[test]
fn a_host_that_is_asked_to_end_takes_no_orders_and_may_end_its_members() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    let gpu = host(&world, &lead, agents::WILLING, "");
    let order = lead.start("backend");
    let runner = world.runner_on("gpu-1", &order);
    gpu.terminate().succeeds();
    assert!(is_alive(runner));
    let request = v1::SpawnRequest { name: "frontend".to_owned(), profile: "agent".to_owned(), ..Default::default() };
    let refused = lead.runtime.block_on(lead.client.spawn(request)).unwrap_err().to_string();
    assert!(refused.contains("gpu-1"), "{refused}");

    let gpu = HostProcess::begin(&world, "gpu-1", &["--stop-members", "--json"]);
    gpu.await_said("\"event\":\"ready\"");
    gpu.terminate().succeeds();
    assert!(!is_alive(runner));
    await_state(&world, "backend", "exited");
}

#[test]
fn a_host_says_what_is_wrong_with_its_file_or_its_join_string() {
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    world.host_file("gpu-1", "slot = 2", agents::WILLING, "");
    let join = lead.invite_host("gpu-1");
    let wrong = HostProcess::begin(&world, "gpu-1", &["--join", &join]).output().exits(64);
    assert!(wrong.stderr.contains("line 1") && wrong.stderr.contains("slot"), "{}", wrong.stderr);
    world.host_file("gpu-1", "", agents::WILLING, "");
    let member = world.invite("backend");
    let wrong = HostProcess::begin(&world, "gpu-1", &["--join", &member]).output().exits(64);
    assert!(wrong.stderr.contains("is for a member"), "{}", wrong.stderr);
    world.cli("backend", &["join", &member]).succeeds();
    let wrong = HostProcess::begin(&world, "gpu-1", &["--label", "=x", "--join", &join]).output().exits(64);
    assert!(wrong.stderr.contains("the label \"\" is empty"), "{}", wrong.stderr);
    assert!(lead.runtime.block_on(lead.client.all_hosts()).unwrap().is_empty(), "no host has joined");
    // It leaves nothing that would keep the host from joining.
    let gpu = HostProcess::start(&world, "gpu-1", &["--join", &join]);
    assert_eq!(lead.host("gpu-1").name, "gpu-1");
    gpu.terminate().succeeds();
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn make_private(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

fn git(directory: &std::path::Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn make_repository(path: &std::path::Path) {
    fs::create_dir_all(path).unwrap();
    git(path, &["init", "--quiet"]);
    fs::write(path.join("README"), "app").unwrap();
    git(path, &["add", "README"]);
    git(path, &["commit", "--quiet", "--message", "first"]);
}

/// Returns the children of a process that were not reaped.
#[cfg(target_os = "linux")]
fn children_of(parent: u32) -> Vec<u32> {
    let child = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // Its state, then its parent.
        let its_parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        (its_parent.parse() == Ok(parent)).then_some(pid)
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(child).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_host_that_is_the_first_process_of_a_container_reaps_what_its_members_leave() {
    if !geteuid().is_root() {
        return;
    }
    let world = World::embedded();
    world.create_team("acme");
    let lead = Orderer::new(&world);
    world.host_file("gpu-1", "", agents::WILLING, "");
    let config = world.home("gpu-1").join("host.toml");
    let join = lead.invite_host("gpu-1");
    let script = format!(
        "exec unshare --pid --fork --kill-child --mount-proc \"$0\" host --config '{}' --join '{join}'",
        config.display()
    );
    let host = world.spawn_shell("gpu-1", &script);
    host.await_said("is ready");
    let first = children_of(host.id())[0];
    lead.start("backend");
    // What a killed runner started has no parent any more.
    let is_runner = |pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains("run\0backend")
    };
    let [inner] = children_of(first)[..] else { panic!("{:?}", children_of(first)) };
    let runner = children_of(inner).into_iter().find(is_runner).expect("the runner");
    kill_process(runner);
    host.await_said("backend has ended");
    eventually("all are reaped", || (children_of(first).len() == 1).then_some(()));
    signal(first, Signal::SIGTERM);
    host.output().succeeds();
}
