//! Runners that take tasks for their programs, and programs that must have a plan approved first.

use serde_json::Value;

use crate::{
    agents,
    world::{LEAD, World, eventually, signal},
};
use nix::sys::signal::Signal;

scenarios! {
    a_runner_takes_one_task_after_the_other_for_a_program_that_reads_lines,
    a_task_of_a_program_that_dies_is_taken_again_by_its_successor,
    a_program_run_per_task_completes_the_task_by_exiting_with_0_and_releases_it_by_failing,
    a_program_that_must_plan_first_learns_so_and_gets_no_task_before_its_plan_is_approved,
}

fn task(world: &World, id: u64) -> Value {
    world.cli(LEAD, &["task", "show", &id.to_string(), "--json"]).succeeds().json()["task"].clone()
}

fn await_completed(world: &World, id: u64) -> Value {
    eventually(&format!("task {id} is completed"), || {
        Some(task(world, id)).filter(|task| task["status"] == "completed")
    })
}

fn a_runner_takes_one_task_after_the_other_for_a_program_that_reads_lines(world: World) {
    world.create_team("acme");
    world.cli(LEAD, &["task", "create", "dig", "-d", "a < b"]).succeeds();
    world.cli(LEAD, &["task", "create", "fill", "--blocked-by", "1"]).succeeds();
    let worker = world.run("worker", &["--claim"], agents::WORKER).ready();
    // It has nothing else in hand, waits for tasks, and is given one that comes later.
    assert_eq!(await_completed(&world, 2)["result"], "did fill");
    world.cli(LEAD, &["task", "create", "rake"]).succeeds();
    assert_eq!(await_completed(&world, 3)["owner"], "worker");
    let told: Vec<_> = worker.heard().into_iter().filter(|line| line["type"] == "task").collect();
    assert_eq!(told.iter().map(|line| line["task_id"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(told[0]["text"].as_str().unwrap().contains("a &lt; b"), "{}", told[0]);
    worker.await_heard("that its task is completed", |line| line["type"] == "completed" && line["task_id"] == 3);
    world.cli(LEAD, &["shutdown", "worker", "--wait"]).succeeds();
    assert_eq!(worker.exit(), 0);
}

fn a_task_of_a_program_that_dies_is_taken_again_by_its_successor(world: World) {
    world.create_team("acme");
    let worker = world.run("worker", &["--claim", "--restart", "on-failure"], agents::WORKER).ready();
    world.cli(LEAD, &["task", "create", "wait here"]).succeeds();
    let first = worker.await_heard("the task", |line| line["type"] == "task");
    assert_eq!(first["attempt"], 1);
    signal(worker.program(), Signal::SIGKILL);
    let second = worker.await_heard("the task again", |line| line["attempt"] == 2);
    assert_eq!(second["task_id"], first["task_id"]);
    assert_ne!(second["claim_token"], first["claim_token"]);
    // What the dead program would have said is refused.
    let token = first["claim_token"].as_str().unwrap();
    world.cli(LEAD, &["task", "complete", "1", "--token", token]).exits(1).complains_of("STALE_CLAIM");
    assert_eq!(task(&world, 1)["owner"], "worker");

    // Nobody comes after it: the task goes back to the board.
    worker.kill();
    let again = world.run_again("worker", &[], agents::WILLING).ready();
    assert_eq!(task(&world, 1)["status"], "pending");
    world.cli(LEAD, &["task", "next"]).succeeds();
    drop(again);
}

fn a_program_run_per_task_completes_the_task_by_exiting_with_0_and_releases_it_by_failing(world: World) {
    world.create_team("acme");
    let script = "cat >> heard; [ -e fixed ] || exit 7; echo mended";
    let fixed = world.home("smith").join("fixed");
    let smith = world.run("smith", &["--claim", "--via", "exec", "--on-shutdown", "approve"], script);
    world.cli(LEAD, &["task", "create", "mend"]).succeeds();
    smith.await_log("gave task 1 back: the program ended with code 7");
    std::fs::write(fixed, "").unwrap();
    let done = await_completed(&world, 1);
    assert_eq!(
        (&done["result"], &done["released_because"]),
        (&"mended".into(), &"the program ended with code 7".into())
    );
    assert!(done["attempts"].as_u64().unwrap() >= 2);
    world.cli(LEAD, &["shutdown", "smith", "--wait"]).succeeds();
    assert_eq!(smith.exit(), 0);
}

fn a_program_that_must_plan_first_learns_so_and_gets_no_task_before_its_plan_is_approved(world: World) {
    world.create_team("acme");
    world.cli(LEAD, &["task", "create", "build"]).succeeds();
    let planner = world.run("planner", &["--claim", "--plan-mode"], agents::WORKER).ready();
    let welcome = planner.await_heard("the welcome", |line| line["type"] == "welcome");
    assert_eq!(welcome["plan_required"], true);
    assert!(welcome["text"].as_str().unwrap().contains("teamwire plan submit"), "{welcome}");
    planner.await_log("no task: planner must have a plan approved");

    let submit = |plan: &str| {
        let sent = world.cli("planner", &["plan", "submit", plan, "--json"]).succeeds();
        sent.json()["request_id"].as_str().unwrap().to_owned()
    };
    let first = submit("hammer it");
    world.cli(LEAD, &["plan", "reject", &first, "--reason", "use screws"]).succeeds();
    let rejected = planner.await_heard("the rejection", |line| line["type"] == "plan_approval_response");
    assert_eq!((&rejected["approve"], &rejected["content"]), (&false.into(), &"use screws".into()));
    assert_eq!(task(&world, 1)["status"], "pending");
    world.cli("planner", &["task", "next"]).exits(1).complains_of("PLAN_REQUIRED");

    let second = submit("screw it");
    world.cli(LEAD, &["plan", "approve", &second]).succeeds();
    assert_eq!(await_completed(&world, 1)["result"], "did build");
    assert_eq!(world.member("planner")["plan_required"], Value::Null);
    world.cli(LEAD, &["shutdown", "planner", "--wait"]).succeeds();
    assert_eq!(planner.exit(), 0);
}
