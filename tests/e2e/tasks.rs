//! The task board: at the command line, and worked off by programs that die.

use std::{collections::BTreeMap, fs};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    agents,
    world::{LEAD, Runner, World, eventually, signal},
};

scenarios! {
    tasks_are_added_claimed_and_completed_at_the_command_line,
    a_refusal_of_the_board_has_a_reason_and_an_exit_code,
    a_followed_board_shows_every_change,
    a_followed_board_shows_only_the_tasks_of_the_named_owner,
    a_follower_outlives_a_coordinator_and_ends_with_its_team,
    a_member_that_must_plan_works_once_the_lead_approves,
}

store_scenarios! {
    a_waiting_claim_gets_a_released_task,
    a_claim_returns_when_the_process_of_its_owner_is_killed,
    a_dead_machines_claim_goes_to_a_waiting_member,
    every_task_is_completed_exactly_once_although_programs_are_killed,
}

/// Exit codes.
const REFUSED: i32 = 1;
const NOT_IN_TIME: i32 = 5;
const USAGE: i32 = 64;
const NOT_PERMITTED: i32 = 77;

impl World {
    /// Runs a task command as a member, and returns its JSON output.
    #[track_caller]
    fn on_task(&self, identity: &str, arguments: &[&str]) -> Value {
        self.cli(identity, &[&["task"], arguments, &["--json"]].concat()).succeeds().json()
    }

    /// Returns the tasks that a list has.
    fn tasks(&self, options: &[&str]) -> Vec<Value> {
        self.cli(LEAD, &[&["task", "list", "--json"], options].concat()).succeeds().lines()
    }

    /// Returns who holds which task.
    fn held(&self) -> BTreeMap<String, u64> {
        let held = self.tasks(&["--status", "in-progress"]);
        held.iter().map(|task| (task["owner"].as_str().unwrap().to_owned(), task["id"].as_u64().unwrap())).collect()
    }

    /// Returns the numbers of the tasks to which a thing has happened, in the order in which it did.
    fn happened(&self, kind: &str) -> Vec<u64> {
        let events = self.history(LEAD).into_iter().map(|entry| entry["task"].clone());
        events.filter(|event| event["kind"] == kind).map(|event| event["task_id"].as_u64().unwrap()).collect()
    }
}

fn numbers(tasks: &[Value]) -> Vec<u64> {
    tasks.iter().map(|task| task["id"].as_u64().unwrap()).collect()
}

fn tasks_are_added_claimed_and_completed_at_the_command_line(world: World) {
    world.create_team("acme");
    world.join("ann");
    let said = world.cli(LEAD, &["task", "create", "Write it", "-d", "all of it", "--meta", "k=v"]).succeeds();
    assert_eq!(said.stdout.trim(), "Created task 1: Write it");
    let from_input =
        world.cli_with_input(LEAD, &["task", "create", "Test it", "-b", "1", "-d", "-", "--json"], "line\n");
    assert_eq!(from_input.succeeds().json()["blocked_by"], json!([1]));
    let given = world.on_task(LEAD, &["create", "Ship it", "--owner", "ann", "--active-form", "Shipping it"]);
    assert_eq!((&given["owner"], &given["status"]), (&"ann".into(), &"pending".into()));
    world.await_inbox("ann", "the notice", |message| {
        message["notice"]["kind"] == "task_assignment" && message["notice"]["task"]["id"] == 3
    });
    assert_eq!(numbers(&world.tasks(&["--ready"])), [1, 3]);
    assert_eq!(numbers(&world.tasks(&["--owner", "ann"])), [3]);

    assert_eq!(world.on_task("ann", &["next"])["task"]["id"], 3, "first her own");
    let claim = world.on_task("ann", &["next"]);
    assert_eq!((&claim["task"]["id"], &claim["task"]["metadata"]["k"]), (&1.into(), &"v".into()));
    assert_eq!(world.on_task("ann", &["show", "1"])["claim_token"], claim["token"]);
    assert!(world.on_task(LEAD, &["show", "1"])["claim_token"].is_null());
    world.cli("ann", &["task", "next"]).exits(NOT_IN_TIME).complains_of("No task is ready");
    // With the token of the claim that she holds, or with the one that is given.
    let done = world.on_task("ann", &["complete", "1", "-r", "written"]);
    assert_eq!((&done["unblocked"], &done["task"]["result"]), (&json!([2]), &"written".into()));
    let token = world.on_task("ann", &["claim", "2"])["token"].as_str().unwrap().to_owned();
    let back = world.on_task("ann", &["release", "2", "--token", &token, "-r", "too hard"]);
    assert_eq!((&back["released_because"], &back["owner"]), (&"too hard".into(), &Value::Null));
    world.on_task(LEAD, &["update", "2", "--owner", "ann", "--not-blocked-by", "1", "--no-meta", "none"]);
    assert_eq!(world.on_task(LEAD, &["show", "2"])["task"]["blocked_by"], Value::Null);
    assert_eq!(world.on_task(LEAD, &["delete", "2"]), json!({"deleted": 2, "unblocked": []}));
    assert_eq!(numbers(&world.tasks(&[])), [1, 3]);
    assert_eq!(numbers(&world.tasks(&["--status", "deleted"])), [2]);
    let shown = world.cli("ann", &["task", "list"]).succeeds().stdout;
    assert!(shown.contains("in progress") && shown.contains("Ship it"), "{shown}");
}

fn a_refusal_of_the_board_has_a_reason_and_an_exit_code(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.join("bob");
    for subject in ["one", "two"] {
        world.on_task(LEAD, &["create", subject]);
    }
    world.on_task(LEAD, &["create", "three", "-b", "1,2"]);
    world.on_task("ann", &["claim", "1"]);
    let fails = |who: &str, arguments: &[&str], code: i32, reason: &str| {
        let before = world.tasks(&[]);
        let error = world.cli(who, &[&["task"], arguments, &["--json"]].concat()).exits(code).error();
        assert_eq!(error["reason"], reason, "{error}");
        world.cli(who, &[&["task"], arguments].concat()).exits(code).complains_of(reason);
        assert_eq!(world.tasks(&[]), before, "{arguments:?} has changed something");
        error
    };
    let refused = |who: &str, arguments: &[&str], reason: &str| fails(who, arguments, REFUSED, reason);
    refused("bob", &["claim", "1"], "TASK_CLAIMED");
    refused("bob", &["claim", "3"], "TASK_BLOCKED");
    refused("bob", &["claim", "9"], "TASK_NOT_FOUND");
    refused("bob", &["complete", "1"], "TASK_CLAIMED");
    refused("bob", &["complete", "2"], "STALE_CLAIM");
    refused("ann", &["complete", "1", "--token", "x"], "STALE_CLAIM");
    refused("ann", &["release", "2"], "STALE_CLAIM");
    refused("bob", &["delete", "1"], "TASK_CLAIMED");
    refused("bob", &["create", "four", "--owner", "nobody"], "AGENT_NOT_FOUND");
    refused("bob", &["update", "2", "--subject", "x", "--if-version", "99"], "TASK_CHANGED");
    let error = fails("bob", &["update", "2", "-b", "3"], USAGE, "TASK_CYCLE");
    assert_eq!(error["metadata"]["cycle"], "2 -> 3 -> 2");
    world.cli("ann", &["task", "complete", "1"]).succeeds();
    refused("ann", &["complete", "1"], "TASK_CLOSED");
    world.cli("bob", &["task", "update", "2"]).exits(USAGE).complains_of("Nothing to change");
    world.cli("bob", &["task", "create", "x", "--meta", "no pair"]).exits(USAGE);
    let operator = world.operator();
    let as_operator = |arguments: &[&str]| {
        let address = world.coordinator.address();
        let who = ["--address", &address, "--credential", &operator, "--team", "acme"];
        world.cli("op", &[arguments, &who].concat())
    };
    as_operator(&["task", "next"]).exits(NOT_PERMITTED).complains_of("NOT_PERMITTED");
    as_operator(&["task", "complete", "2"]).succeeds();
}

fn a_followed_board_shows_every_change(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.on_task(LEAD, &["create", "before"]);
    let followed = world.spawn("ann", &["task", "list", "--follow", "--json"], "");
    let ready = world.spawn("ann", &["task", "list", "--follow", "--ready"], "");
    followed.await_said("before");
    ready.await_said("before");
    world.on_task(LEAD, &["create", "after it", "-b", "1"]);
    followed.await_said(r#""waiting_for":[1]"#);
    world.on_task("ann", &["next"]);
    followed.await_said("in_progress");
    world.on_task("ann", &["complete", "1"]);
    // What waited for it has changed with it.
    ready.await_said("after it");
    world.on_task(LEAD, &["delete", "2"]);
    followed.await_said("deleted");
    let seen = followed.interrupt().succeeds().lines();
    let of_first: Vec<_> = seen.iter().filter(|task| task["id"] == 1).map(|task| &task["status"]).collect();
    let of_first = of_first.iter().map(|status| status.as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!((of_first.first(), of_first.last()), (Some(&"pending"), Some(&"completed")));
    let ready = ready.interrupt().succeeds().stdout;
    assert!(!ready.contains("in progress") && !ready.contains("deleted"), "{ready}");
}

fn a_followed_board_shows_only_the_tasks_of_the_named_owner(world: World) {
    world.create_team("acme");
    world.join("ann");
    for owner in ["ann", "lead"] {
        world.on_task(LEAD, &["create", &format!("for {owner}"), "--owner", owner]);
    }
    // However an owner is named, it is the one that a list would have found.
    for (owner, other) in [("Ann@acme", "for lead"), ("team-lead", "for ann")] {
        let listed = world.tasks(&["--owner", owner]);
        let subject = listed[0]["subject"].as_str().unwrap();
        let followed = world.spawn("ann", &["task", "list", "--follow", "--owner", owner], "");
        followed.await_said(subject);
        assert!(!followed.interrupt().succeeds().stdout.contains(other));
    }
    for owner in ["nobody", "ann@beta"] {
        let code = world.cli("ann", &["task", "list", "--owner", owner]).code;
        world.cli("ann", &["task", "list", "--follow", "--owner", owner]).exits(code).complains_of("owner");
    }
}

fn a_follower_outlives_a_coordinator_and_ends_with_its_team(mut world: World) {
    world.create_team("acme");
    world.join("ann");
    world.on_task(LEAD, &["create", "before"]);
    let followed = world.spawn("ann", &["task", "list", "--follow"], "");
    followed.await_said("before");
    world.coordinator.end();
    world.coordinator.restart();
    world.on_task(LEAD, &["create", "after"]);
    followed.await_said("after");
    world.cli("ann", &["leave"]).succeeds();
    // An ended life's follower stops; another member's follower sees the end.
    followed.output().exits(NOT_PERMITTED).complains_of("MEMBER_STOPPED");
    let followed = world.spawn(LEAD, &["task", "list", "--follow"], "");
    followed.await_said("after");
    world.cli(LEAD, &["team", "delete", "--yes"]).succeeds();
    followed.output().exits(REFUSED).complains_of("TEAM_NOT_FOUND");
}

fn a_waiting_claim_gets_a_released_task(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.join("bob");
    world.on_task(LEAD, &["create", "one"]);
    world.on_task("ann", &["next"]);
    let waiting = world.spawn("bob", &["task", "next", "--wait", "100", "--json"], "");
    world.on_task("ann", &["release", "1"]);
    let claim = waiting.output().succeeds().json();
    assert_eq!((&claim["task"]["owner"], &claim["task"]["attempts"]), (&"bob".into(), &2.into()));
}

fn a_claim_returns_when_the_process_of_its_owner_is_killed(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.on_task(LEAD, &["create", "one"]);
    fs::write(world.home("backend").join("hold"), "").unwrap();
    let backend = world.run("backend", &[], agents::CLAIMER).ready();
    world.on_task(LEAD, &["create", "for it", "--owner", "backend", "-b", "1"]);
    eventually("the program has a task", || world.held().contains_key("backend").then_some(()));
    signal(backend.program(), Signal::SIGKILL);
    let told = world.await_inbox(LEAD, "the notice of the exit", |message| {
        message["notice"]["kind"] == "member_exited" && message["notice"]["member"] == "backend"
    });
    let text = told["content"].as_str().unwrap();
    assert!(text.contains("Its task 1 is back on the board."), "{text}");
    assert!(text.contains("Task 2 is still assigned to it: reassign it."), "{text}");
    assert_eq!(backend.exit(), 137);
    let task = &world.on_task("ann", &["next"])["task"];
    assert_eq!((&task["id"], &task["attempts"]), (&1.into(), &2.into()));
    assert_eq!(task["released_because"], "its owner has exited");
    assert_eq!(world.happened("lapsed"), [1]);
}

fn a_dead_machines_claim_goes_to_a_waiting_member(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.on_task(LEAD, &["create", "one"]);
    fs::write(world.home("backend").join("hold"), "").unwrap();
    let backend = world.run("backend", &[], agents::CLAIMER).ready();
    eventually("the program has a task", || world.held().contains_key("backend").then_some(()));
    let waiting = world.spawn("ann", &["task", "next", "--wait", "110", "--json"], "");
    // Nobody reports this end: only the lease tells of it.
    backend.kill();
    let claim = waiting.output().succeeds().json();
    assert_eq!(claim["task"]["released_because"], "its owner was lost");
    assert_eq!(world.member("backend")["state"], "lost");
}

fn a_member_that_must_plan_works_once_the_lead_approves(world: World) {
    world.create_team("acme");
    world.on_task(LEAD, &["create", "one"]);
    let token = world.cli(LEAD, &["invite", "ann", "--plan"]).succeeds().stdout.trim().to_owned();
    world.cli("ann", &["join", &token, "--address", &world.coordinator.local_address()]).succeeds();
    let is_refused = || {
        for arguments in [&["task", "next"][..], &["task", "claim", "1"], &["task", "complete", "1"]] {
            world.cli("ann", arguments).exits(REFUSED).complains_of("PLAN_REQUIRED");
        }
    };
    let submit = |plan: &str| {
        let reply = world.cli("ann", &["plan", "submit", plan, "--json"]).succeeds().json();
        reply["request_id"].as_str().unwrap().to_owned()
    };
    is_refused();
    let first = submit("drop the table");
    is_refused();
    world.cli(LEAD, &["plan", "reject", &first, "-r", "keep a copy first"]).succeeds();
    is_refused();
    let second = submit("copy the table, then drop it");
    world.cli(LEAD, &["plan", "approve", &second]).succeeds();
    assert_eq!(world.on_task("ann", &["next"])["task"]["id"], 1);
    world.cli("ann", &["task", "complete", "1"]).succeeds();
}

/// How many programs work off how many tasks.
const WORKERS: [&str; 4] = ["w0", "w1", "w2", "w3"];
const TASKS: u64 = 32;

fn every_task_is_completed_exactly_once_although_programs_are_killed(world: World) {
    world.create_team("acme");
    for id in 1..=TASKS {
        // Eight rows, each task after the one before it.
        let before = id.checked_sub(8).filter(|before| *before > 0).map(|before| before.to_string());
        let options: Vec<&str> = before.iter().flat_map(|before| ["-b", before.as_str()]).collect();
        world.on_task(LEAD, &[&["create", "work"][..], &options].concat());
    }
    let hold = |name: &str| world.home(name).join("hold");
    let mut runners: BTreeMap<&str, Runner> = BTreeMap::new();
    for name in WORKERS {
        fs::write(hold(name), "").unwrap();
        runners.insert(name, world.run(name, &[], agents::CLAIMER).ready());
    }
    let mut killed = Vec::new();
    for victims in [["w0", "w1", "w2"], ["w1", "w2", "w3"]] {
        let held = eventually("everybody has a task", || Some(world.held()).filter(|held| held.len() == WORKERS.len()));
        for (way, name) in victims.into_iter().enumerate() {
            let runner = runners.remove(name).unwrap();
            let successor = kill(&world, way, name, runner);
            runners.insert(name, successor.ready());
            killed.push(held[name]);
        }
    }
    for name in WORKERS {
        fs::remove_file(hold(name)).unwrap();
    }
    let all: Vec<u64> = (1..=TASKS).collect();
    eventually("everything is done", || (numbers(&world.tasks(&["--status", "completed"])) == all).then_some(()));

    let mut lapsed = world.happened("lapsed");
    lapsed.sort_unstable();
    killed.sort_unstable();
    assert_eq!(lapsed, killed, "what the killed held has come back");
    let mut completed = world.happened("completed");
    completed.sort_unstable();
    assert_eq!(completed, all);
    let counted = || {
        let of_each = WORKERS.map(|name| fs::read_to_string(world.home(name).join("completed")).unwrap_or_default());
        let mut counted: Vec<u64> =
            of_each.iter().flat_map(|lines| lines.lines()).map(|id| id.parse().unwrap()).collect();
        counted.sort_unstable();
        Some(counted).filter(|counted| counted.len() >= all.len())
    };
    assert_eq!(eventually("the programs have counted theirs", counted), all);
}

/// Kills a member in one of three ways, and starts its successor.
fn kill(world: &World, way: usize, name: &str, runner: Runner) -> Runner {
    match way {
        0 => runner.kill(),
        1 => {
            signal(runner.program(), Signal::SIGKILL);
            assert_eq!(runner.exit(), 137);
        }
        _ => {
            world.cli(LEAD, &["shutdown", name, "out of hand", "--force", "--wait"]).succeeds();
            assert_eq!(runner.exit(), NOT_PERMITTED);
            // One that was made to end comes back by invitation only.
            return world.run(name, &[], agents::CLAIMER);
        }
    }
    world.run_again(name, &[], agents::CLAIMER)
}
