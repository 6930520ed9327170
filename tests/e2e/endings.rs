//! How programs of every bad sort end: asked to, and when their runner is killed.
//!
//! `TEAMWIRE_BAD_PROGRAMS` sets how many programs each test runs at the same time; by default, one of each sort.

use std::{env, fs, time::Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    agents,
    world::{LEAD, Runner, World, eventually, is_alive, signal},
};

/// A way in which a program makes it hard to end it, and how it ends after its shutdown was approved.
struct Sort {
    name: &'static str,
    script: &'static str,
    /// How many processes it makes known.
    processes: usize,
    code: Option<i64>,
    signal: Option<i64>,
    action: &'static str,
    text: &'static str,
}

const TERMINATED: Sort = Sort {
    name: "",
    script: "",
    processes: 1,
    code: None,
    signal: Some(15),
    action: "sigterm",
    text: "approved its shutdown; its runner ended it with SIGTERM",
};

const ENDED: Sort = Sort {
    code: Some(0),
    signal: None,
    action: "none",
    text: "approved its shutdown and ended with code 0",
    ..TERMINATED
};

const SORTS: [Sort; 8] = [
    Sort { name: "reads-nothing", script: "exec sleep 1000", ..TERMINATED },
    Sort { name: "floods", script: "while :; do echo flood; done", ..TERMINATED },
    // Detached twice, ignores SIGTERM, and has a detached child; the program itself ends with its input.
    Sort {
        name: "double-forks",
        script: r#"
            (setsid sh -c 'trap "" TERM; echo $$ >> pids; (sh -c "echo \$\$ >> pids; exec sleep 1000" &); sleep 1000' &)
            while hear; do :; done"#,
        processes: 3,
        ..ENDED
    },
    Sort {
        name: "setsid",
        script: "setsid sh -c 'echo $$ >> pids; exec sleep 1000' & wait",
        processes: 2,
        ..TERMINATED
    },
    // Leaves nothing to recognize it by but its parent. It is known once the watchdog has looked.
    Sort {
        name: "hides",
        script: "env -i PATH=\"$PATH\" setsid sh -c 'sleep 4; echo $$ >> pids; exec sleep 1000' & wait",
        processes: 2,
        ..TERMINATED
    },
    Sort {
        name: "ignores-sigterm",
        script: "trap '' TERM; while :; do sleep 1; done",
        signal: Some(9),
        action: "sigkill",
        text: "approved its shutdown; its runner ended it with SIGKILL",
        ..TERMINATED
    },
    Sort { name: "closes-its-pipes", script: "exec <&- >&-; exec sleep 1000", ..TERMINATED },
    Sort {
        name: "dies-in-mid-message",
        script: r#"while hear; do :; done; printf '{"type":"message","recip'; exit 9"#,
        code: Some(9),
        text: "approved its shutdown and ended with code 9",
        ..ENDED
    },
];

/// A running program of a bad sort.
struct Bad {
    sort: &'static Sort,
    name: String,
    runner: Runner,
    pids: Vec<u32>,
}

/// Starts as many programs as are wanted. `None`, with a notice, if no cgroup can be created here.
fn start(world: &World, containment: &str) -> Option<Vec<Bad>> {
    world.create_team("acme");
    let options = ["--on-shutdown", "approve", "--wrap-up", "1", "--grace", "1", "--containment", containment];
    if containment == "cgroup" && world.run("probe", &options, "exit 0").exit() == 64 {
        eprintln!("skipped: no cgroup can be created here");
        return None;
    }
    let wanted = env::var("TEAMWIRE_BAD_PROGRAMS").map_or(SORTS.len(), |number| number.parse().expect("a number"));
    let sorts = SORTS.iter().cycle().take(wanted).enumerate();
    let started: Vec<_> = sorts
        .map(|(number, sort)| {
            let name = format!("{}-{number}", sort.name);
            let runner = world.run(&name, &options, sort.script);
            (sort, name, runner)
        })
        .collect();
    let ready = |(sort, name, runner): (&'static Sort, String, Runner)| {
        let runner = runner.ready();
        let what = format!("the processes of {name}");
        let pids = eventually(&what, || Some(runner.pids()).filter(|pids| pids.len() == sort.processes));
        let cgroup = fs::read_to_string(format!("/proc/{}/cgroup", pids[0])).unwrap();
        assert_eq!(cgroup.contains("teamwire-"), containment == "cgroup", "{cgroup}");
        Bad { sort, name, runner, pids }
    };
    Some(started.into_iter().map(ready).collect())
}

fn all_end_when_asked_to(containment: &str) {
    let world = World::embedded();
    let Some(programs) = start(&world, containment) else { return };
    let (began, count) = (Instant::now(), programs.len());
    let waiting: Vec<_> =
        programs.iter().map(|bad| world.spawn(LEAD, &["shutdown", &bad.name, "--wait"], "")).collect();
    for (bad, waiting) in programs.iter().zip(waiting) {
        let output = waiting.output().succeeds();
        let expected = format!("{} exited: {}", bad.name, bad.sort.text);
        assert!(output.stdout.contains(&expected), "{}", output.stdout);
        let left: Vec<_> = bad.pids.iter().filter(|pid| is_alive(**pid)).collect();
        assert!(left.is_empty(), "{left:?} of {} live on", bad.name);
        let member = world.member(&bad.name);
        let exit = &member["exit"];
        let how = (exit["code"].as_i64(), exit["signal"].as_i64(), exit["runner_action"].as_str());
        assert_eq!(how, (bad.sort.code, bad.sort.signal, Some(bad.sort.action)), "{member}");
        assert!(exit["approved_request_id"].as_str().is_some_and(|id| id.starts_with("req_")), "{member}");
    }
    eprintln!("{count} programs have ended {:.1} s after they were asked to", began.elapsed().as_secs_f64());
    let history = world.history(LEAD);
    // The commands that waited have acknowledged the notices that say the same.
    let told: Vec<_> = history.iter().filter_map(|entry| entry["message"]["content"].as_str()).collect();
    for bad in programs {
        let detail = history.iter().find_map(|entry| {
            let event = &entry["member"];
            (event["member"] == bad.name.as_str() && event["state"] == "exited").then(|| &event["detail"])
        });
        assert_eq!(detail.and_then(|detail| detail.as_str()), Some(bad.sort.text));
        let text = format!("{} {}.", bad.name, bad.sort.text);
        assert!(told.contains(&text.as_str()), "{text}: {told:?}");
        let last = format!("The member {}.", bad.sort.text);
        bad.runner.await_log(&last);
        assert_eq!(bad.runner.exit(), 0);
    }
}

fn nothing_survives_a_killed_runner(containment: &str) {
    let world = World::embedded();
    let Some(programs) = start(&world, containment) else { return };
    let began = Instant::now();
    for bad in &programs {
        bad.runner.signal(Signal::SIGKILL);
    }
    for bad in programs {
        let what = format!("nothing of {} is left", bad.name);
        eventually(&what, || (!bad.pids.iter().any(|pid| is_alive(*pid))).then_some(()));
        assert_eq!(bad.runner.exit(), -1);
    }
    eprintln!("nothing is left {:.1} s after the runners were killed", began.elapsed().as_secs_f64());
}

#[test]
fn all_kinds_of_misbehaving_programs_end_when_asked_to_in_cgroups() {
    all_end_when_asked_to("cgroup");
}

#[test]
fn all_kinds_of_misbehaving_programs_end_when_asked_to_without_cgroups() {
    all_end_when_asked_to("watchdog");
}

#[test]
fn all_kinds_of_misbehaving_programs_end_with_their_killed_runner_in_cgroups() {
    nothing_survives_a_killed_runner("cgroup");
}

#[test]
fn all_kinds_of_misbehaving_programs_end_with_their_killed_runner_without_cgroups() {
    nothing_survives_a_killed_runner("watchdog");
}

scenarios! {
    a_killed_watchdog_is_replaced,
    two_quick_signals_kill_the_program_and_its_exit_is_reported,
    two_quick_signals_end_a_runner_without_a_coordinator,
    a_program_that_leaves_may_finish_and_its_exit_is_reported_once,
    a_program_that_leaves_but_keeps_running_is_ended,
    a_shutdown_of_a_program_run_per_batch_waits_for_the_current_batch,
    a_failing_program_is_reported_with_its_last_words,
    the_exit_of_a_member_stopped_by_force_says_who_stopped_it,
    a_crash_is_reported_with_its_exit_code,
    no_member_joins_for_a_program_that_cannot_be_found,
    a_failed_batch_and_a_failed_task_are_reported_to_the_lead,
}

fn a_killed_watchdog_is_replaced(world: World) {
    world.create_team("acme");
    let script = "setsid sh -c 'echo $$ >> pids; exec sleep 1000' & wait";
    let backend = world.run("backend", &["--containment", "watchdog"], script).ready();
    let pids = eventually("both processes", || Some(backend.pids()).filter(|pids| pids.len() == 2));
    let watchdog = eventually("its watchdog", || backend.watchdog());
    signal(watchdog, Signal::SIGKILL);
    backend.await_log(&format!("the watchdog, process {watchdog}, has ended; process "));
    eventually("its successor", || backend.watchdog().filter(|successor| *successor != watchdog));
    backend.signal(Signal::SIGKILL);
    eventually("nothing is left", || (!pids.iter().any(|pid| is_alive(*pid))).then_some(()));
}

fn two_quick_signals_kill_the_program_and_its_exit_is_reported(world: World) {
    world.create_team("acme");
    let script = "trap '' TERM; : > trapped; while :; do sleep 1; done";
    let backend = world.run("backend", &["--grace", "1000"], script).ready();
    let trapped = world.home("backend").join("trapped");
    eventually("the program ignores SIGTERM", || trapped.exists().then_some(()));
    backend.signal(Signal::SIGTERM);
    backend.signal(Signal::SIGINT);
    backend.await_log("The runner was asked to stop.");
    assert_eq!(world.member("backend")["state"], "exited");
    let history = world.history(LEAD);
    let exits: Vec<_> = history.iter().filter(|entry| entry["member"]["state"] == "exited").collect();
    let details: Vec<_> = exits.iter().map(|entry| entry["member"]["detail"].as_str()).collect();
    assert_eq!(details, [Some("its runner ended it with SIGKILL")]);
    assert_eq!(backend.exit(), 137);
}

fn two_quick_signals_end_a_runner_without_a_coordinator(mut world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &["--grace", "1000"], "exec sleep 1000").ready();
    world.coordinator.kill();
    backend.signal(Signal::SIGTERM);
    backend.signal(Signal::SIGINT);
    backend.await_log("The exit could not be reported to the coordinator.");
    assert_eq!(backend.exit(), 75);
}

/// Runs a program that leaves, to its end. Returns how its life ended, as the history tells it.
fn leave(world: &World, script: &str) -> Vec<String> {
    world.create_team("acme");
    let backend = world.run("backend", &["--wrap-up", "2"], script);
    backend.await_log("The member has left: ");
    assert!(world.home("backend").join("finished").exists(), "{}", backend.log());
    assert_eq!(backend.exit(), 0);
    let history = world.history(LEAD);
    let events = history.iter().map(|entry| &entry["member"]).filter(|event| event["member"] == "backend");
    let ends = events.filter(|event| event["state"] == "stopping" || event["state"] == "exited");
    ends.map(|event| format!("{}: {}", event["state"].as_str().unwrap(), event["detail"].as_str().unwrap())).collect()
}

fn a_program_that_leaves_may_finish_and_its_exit_is_reported_once(world: World) {
    let ends = leave(&world, r#"hear; "$TW" leave --reason 'all done'; while hear; do :; done; : > finished; exit 4"#);
    assert_eq!(ends, ["stopping: all done", "exited: exit code 4"]);
}

fn a_program_that_leaves_but_keeps_running_is_ended(world: World) {
    let ends = leave(&world, r#""$TW" leave; : > finished; exec sleep 1000"#);
    assert_eq!(ends, ["stopping: left", "exited: its runner ended it with SIGTERM"]);
}

fn a_shutdown_of_a_program_run_per_batch_waits_for_the_current_batch(world: World) {
    world.create_team("acme");
    let script = "hear; until [ -e go ]; do sleep 0.05; done; echo 'It is done'";
    let worker = world.run("worker", &["--via", "exec"], script);
    worker.await_log("connected");
    world.cli(LEAD, &["send", "worker", "begin"]).succeeds();
    worker.await_text("begin");
    let waiting = world.spawn(LEAD, &["shutdown", "worker", "--wait"], "");
    worker.await_log("asked to shut down");
    assert!(is_alive(worker.program()), "the request has ended a batch");
    fs::write(world.home("worker").join("go"), "").unwrap();
    let output = waiting.output().succeeds();
    assert!(output.stdout.contains("worker exited: approved its shutdown and ended with code 0"), "{}", output.stdout);
    world.await_inbox(LEAD, "the batch's result", |message| message["content"] == "It is done");
    assert!(worker.heard().iter().all(|line| line["type"] != "shutdown_request"));
    assert_eq!(worker.exit(), 0);
}

fn a_crash_is_reported_with_its_exit_code(world: World) {
    world.create_team("acme");
    let script = format!("[ -e crashed ] || {{ : > crashed; exit 3; }}\n{}", agents::WILLING);
    let backend = world.run("backend", &["--restart", "on-failure"], &script);
    let notice = world.await_inbox(LEAD, "the notice of the crash", |message| {
        message["notice"]["kind"] == "member_restarted" && message["notice"]["member"] == "backend"
    });
    assert_eq!(notice["content"], "backend crashed (exit code 3) and was restarted.");
    assert_eq!(notice["notice"]["exit"]["code"], 3);
    let history = world.cli(LEAD, &["history", "--all"]).succeeds().stdout;
    assert!(history.contains("backend exited: exit code 3"), "{history}");
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    assert_eq!(backend.exit(), 0);
}

fn a_failing_program_is_reported_with_its_last_words(world: World) {
    world.create_team("acme");
    let says = "printf 'starting\\n\\033[31merror:\\033[0m unknown option --bogus-flag\\n' >&2";
    let backend = world.run("backend", &["--restart", "on-failure"], &format!("{says}; exit 1"));
    let reason = "exit code 1: starting / error: unknown option --bogus-flag";
    let notice = world.await_inbox(LEAD, "the notice of the crash", |message| {
        message["notice"]["kind"] == "member_restarted" && message["notice"]["member"] == "backend"
    });
    assert_eq!(notice["content"], format!("backend crashed ({reason}) and was restarted."));
    backend.await_log("error:");
    let finding = eventually("doctor names it", || {
        let found = world.cli(LEAD, &["doctor", "--json"]).lines();
        found.into_iter().find(|finding| finding["class"] == "crashing")
    });
    assert_eq!((&finding["severity"], &finding["member"]), (&"problem".into(), &"backend".into()));
    let text = finding["text"].as_str().unwrap();
    assert!(text.starts_with("backend's program has crashed ") && text.contains("unknown option"), "{text}");
    eventually("status names it", || {
        let status = world.cli(LEAD, &["status"]).succeeds().stdout;
        let line = status.lines().find(|line| line.starts_with("backend's program has crashed "))?;
        line.contains("unknown option").then_some(())
    });
    let history = world.cli(LEAD, &["history", "--all"]).succeeds().stdout;
    assert!(history.contains(&format!("backend exited: {reason}")), "{history}");

    backend.signal(Signal::SIGTERM);
    backend.exit();
    let last = world.run("last", &[], &format!("{says}; exit 1"));
    assert_eq!(last.exit(), 1);
    let status = world.cli(LEAD, &["status"]).succeeds().stdout;
    let line = status.lines().find(|line| line.contains("last")).unwrap();
    assert!(line.contains("exit code 1") && line.contains("unknown option --bogus-flag"), "{status}");
}

fn the_exit_of_a_member_stopped_by_force_says_who_stopped_it(world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &[], agents::WILLING).ready();
    let stopped = world.cli(LEAD, &["shutdown", "backend", "--force"]).succeeds();
    assert_eq!(backend.exit(), 77);
    let exit = eventually("its exit is reported", || {
        let member = world.member("backend");
        (member["state"] == "exited" && !member["exit"]["signal"].is_null()).then(|| member["exit"].clone())
    });
    assert_eq!(exit["detail"], "stopped by force by lead", "{}", stopped.stdout);
    let status = world.cli(LEAD, &["status"]).succeeds().stdout;
    assert!(status.contains("stopped by force by lead"), "{status}");
    let notice =
        world.await_inbox(LEAD, "the notice of the exit", |message| message["notice"]["kind"] == "member_exited");
    let text = notice["content"].as_str().unwrap();
    assert!(text.starts_with("backend has exited: ") && text.contains("stopped by force by lead"), "{text}");
}

fn no_member_joins_for_a_program_that_cannot_be_found(world: World) {
    world.create_team("acme");
    let run = |program: &str| world.cli(LEAD, &["run", "backend", "--", program]);
    run("nosuchprogram").exits(127).complains_of("There is no program nosuchprogram on the PATH");
    run("./nosuchprogram").exits(127).complains_of("Check the path");
    run("/etc/passwd").exits(126).complains_of("is not executable");
    assert!(world.member("backend").is_null(), "it has joined");
    assert!(world.history(LEAD).iter().all(|entry| entry["team"]["kind"] != "invited"));
}

fn a_failed_batch_and_a_failed_task_are_reported_to_the_lead(world: World) {
    world.create_team("acme");
    let worker = world.run("worker", &["--via", "exec", "--claim"], "cat > /dev/null; exit 3");
    worker.await_log("connected");
    let sent = world.cli(LEAD, &["send", "worker", "begin", "--json"]).succeeds().json();
    let is_failure = |message: &Value| message["notice"]["kind"] == "work_failed";
    let notice = world.await_inbox(LEAD, "the notice of the failed batch", is_failure);
    let facts = &notice["notice"];
    assert_eq!((&facts["member"], &facts["exit"]["code"]), (&"worker".into(), &3.into()));
    assert_eq!(facts["message_id"], sent["message_id"]);
    let text = notice["content"].as_str().unwrap();
    assert!(text.starts_with("worker's program failed on message") && text.contains("(exit code 3)"), "{text}");
    // The runner tries again. The lead does not process the next notice, so that one counts.
    eventually("a notice of several failures", || {
        let is_of_several = |entry: &Value| {
            is_failure(&entry["message"]) && entry["message"]["notice"]["count"].as_u64().is_some_and(|count| count > 1)
        };
        world.history(LEAD).iter().any(is_of_several).then_some(())
    });
    worker.signal(Signal::SIGTERM);
    worker.exit();

    let second = world.run("second", &["--via", "exec", "--claim"], "cat > /dev/null; exit 4");
    world.cli(LEAD, &["task", "create", "hard"]).succeeds();
    let notice = world.await_inbox(LEAD, "the notice of the failed task", |message| {
        is_failure(message) && message["notice"]["member"] == "second"
    });
    assert_eq!((&notice["notice"]["exit"]["code"], &notice["notice"]["task"]["subject"]), (&4.into(), &"hard".into()));
    let released = eventually("the task is back on the board", || {
        let task = world.cli(LEAD, &["task", "show", "1", "--json"]).succeeds().json()["task"].clone();
        task["released_because"].as_str().is_some_and(|why| why.contains("ended with code 4")).then_some(task)
    });
    assert!(released["attempts"].as_u64().is_some_and(|attempts| attempts > 0), "{released}");
    let history = world.cli(LEAD, &["history", "--all"]).succeeds().stdout;
    for part in ["failed on message", "failed on task 1", "released task 1 (hard): the program ended with code 4"] {
        assert!(history.contains(part), "{part}: {history}");
    }
    second.signal(Signal::SIGTERM);
    second.exit();
}

#[test]
fn a_runner_whose_log_may_not_grow_goes_on() {
    let world = World::embedded();
    world.create_team("acme");
    let join = world.invite("bob");
    let program = "i=0; while [ $i -lt 500 ]; do echo a line that fills the log >&2 || break; i=$((i+1)); done; : >full; exec cat";
    let run = format!("ulimit -f 16; exec \"$0\" run bob --join '{join}' -- sh -c '{program}'");
    let running = world.spawn_shell("bob", &run);
    eventually("the log is full", || world.home("bob").join("full").exists().then_some(()));
    running.terminate();
    // A runner that a signal ended could not have reported it.
    eventually("the exit is reported", || (world.member("bob")["state"] == "exited").then_some(()));
}
