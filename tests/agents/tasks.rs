//! Broadcasts, and work from the board.

use serde_json::json;
use teamwire_scripted_model::Rule;

use crate::{
    setup::{BACKEND, Setup},
    world::{LEAD, eventually},
};

scenarios! {
    a_broadcast_reaches_it_and_it_completes_a_task_that_it_claims,
}

fn a_broadcast_reaches_it_and_it_completes_a_task_that_it_claims(setup: Setup) {
    setup.model.add(Rule::when("Claim a task").calls("TaskClaim", json!({})));
    let done = json!({"taskId": "$1", "status": "completed", "result": "Written."});
    setup.model.add(Rule::when("#(\\d+) \\[in_progress\\] Write the docs").calls("TaskUpdate", done));
    let backend = setup.backend(&[]);
    setup.world.cli(LEAD, &["send", "--broadcast", "All hands: we begin."]).succeeds();
    let shown = setup.model.await_request("All hands: we begin").new;
    assert!(shown.contains("teammate_id=\"lead\""), "{shown}");
    setup.await_receipt("All hands: we begin.", "processed");

    setup.world.cli(LEAD, &["task", "create", "Write the docs"]).succeeds();
    setup.send("Claim a task.");
    let task = eventually("the task is completed", || {
        let tasks = setup.world.cli(LEAD, &["task", "list", "--json"]).succeeds().lines();
        tasks.into_iter().find(|task| task["status"] == "completed")
    });
    assert_eq!((&task["owner"], &task["result"]), (&BACKEND.into(), &"Written.".into()), "{task}");
    setup.await_receipt("Claim a task.", "processed");
    setup.shut_down(backend);
}
