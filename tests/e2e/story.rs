//! The story of a team, from its creation to its deletion: what SendMessage is for, played by three processes.

use serde_json::Value;

use crate::world::{LEAD, World, eventually};

scenarios! {
    a_team_asks_announces_plans_and_ends,
}

const TEAMMATES: [&str; 3] = ["knowledge-manager", "task-manager", "file-manager"];

/// Waits for a message in the history.
fn await_message(world: &World, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || {
        let messages = world.history(LEAD).into_iter().map(|entry| entry["message"].clone());
        messages.into_iter().find(|message| message.is_object() && is_it(message))
    })
}

/// Waits for a plan of the task manager with these words, and returns the id of its request.
fn await_plan(world: &World, text: &str) -> String {
    let plan = await_message(world, "a plan", |message| {
        message["type"] == "plan_approval_request" && message["content"] == text
    });
    plan["request_id"].as_str().unwrap().to_owned()
}

fn a_team_asks_announces_plans_and_ends(world: World) {
    world.create_team("acme");
    let runners = TEAMMATES.map(|name| {
        let join_string = world.invite(name);
        let program = ["python3", "-c", include_str!("story_teammate.py"), name];
        world.run_program(name, &["--join", &join_string], &program).ready()
    });
    let tell = |to: &str, summary: &str| world.cli(LEAD, &["send", to, summary, "-s", summary]).succeeds();

    // One teammate asks another, which answers that question.
    tell("knowledge-manager", "请整理今日任务");
    let answer = await_message(&world, "the answer", |message| message["summary"] == "今日任务");
    let question = await_message(&world, "the question", |message| message["summary"] == "列出今日任务");
    assert_eq!((&answer["from"], &answer["in_reply_to"]), (&"task-manager".into(), &question["id"]));

    // A broadcast reaches everyone else.
    tell("task-manager", "完成财务报表");
    let broadcast = await_message(&world, "the broadcast", |message| message["type"] == "broadcast");
    let shown = world.cli(LEAD, &["message", "show", broadcast["id"].as_str().unwrap(), "--json"]).succeeds().json();
    let mut to: Vec<&str> =
        shown["receipts"].as_array().unwrap().iter().map(|receipt| receipt["recipient"].as_str().unwrap()).collect();
    to.sort_unstable();
    assert_eq!(to, ["file-manager", "knowledge-manager", "lead"]);

    // A plan is rejected with a reason, a better one is approved, and a decision is final.
    tell("task-manager", "提交上线计划");
    let first = await_plan(&world, "第一版：直接上线");
    world.cli(LEAD, &["reject", &first, "--reason", "先备份"]).succeeds();
    let second = await_plan(&world, "第二版：先备份，再上线");
    world.cli(LEAD, &["approve", &second]).succeeds();
    world.cli(LEAD, &["reject", &second, "--reason", "no"]).exits(1).complains_of("ALREADY_DECIDED");

    // A team with live members is not deleted.
    let refused = world.cli(LEAD, &["team", "delete", "acme", "--yes"]).exits(1);
    for name in TEAMMATES {
        assert!(refused.stderr.contains(name), "{}", refused.stderr);
    }

    // A teammate with work left rejects its shutdown, and approves the next one.
    let shut_down = |name: &str| world.cli(LEAD, &["shutdown", name, "请退出", "--wait"]);
    shut_down("task-manager").exits(3).complains_of("还有一个任务没有完成");
    for (name, runner) in TEAMMATES.into_iter().zip(runners) {
        shut_down(name).succeeds();
        assert_eq!(runner.exit(), 0, "{name}");
    }

    // Every message was processed, but for those that ended their reader.
    for message in world.history(LEAD).iter().map(|entry| &entry["message"]).filter(|message| message.is_object()) {
        let id = message["id"].as_str().unwrap();
        let shown = world.cli(LEAD, &["message", "show", id, "--json"]).succeeds().json();
        for receipt in shown["receipts"].as_array().unwrap() {
            let is_done = receipt["state"] == "processed" || message["type"] == "shutdown_request";
            assert!(is_done || receipt["recipient"] == LEAD, "{message} {receipt}");
        }
    }
    world.cli(LEAD, &["team", "delete", "acme", "--yes"]).succeeds();
    assert!(world.cli(LEAD, &["team", "list", "--as", "operator", "--json"]).succeeds().lines().is_empty());
}
