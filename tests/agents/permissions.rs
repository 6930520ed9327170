//! Permissions: asked of the lead, refused, granted.

use serde_json::Value;
use teamwire_scripted_model::Rule;

use crate::{setup::Setup, world::LEAD};

scenarios! {
    a_command_runs_only_once_the_lead_has_permitted_it,
    a_runner_that_permits_everything_lets_commands_write_and_asks_no_one,
}

fn a_command_runs_only_once_the_lead_has_permitted_it(setup: Setup) {
    for (message, command) in [("try it", "touch forbidden"), ("try again", "touch permitted")] {
        let (tool, input) = setup.program.shell_that_asks(command);
        setup.model.add(Rule::when(message).calls(tool, input));
    }
    let backend = setup.backend(&["--permissions", "ask"]);
    let asked = |command: &str| -> String {
        let is_it = |message: &Value| message["type"] == "permission_request" && message.to_string().contains(command);
        let asked = setup.world.await_inbox(LEAD, command, is_it);
        asked["request_id"].as_str().unwrap().to_owned()
    };
    setup.send("try it");
    let request = asked("touch forbidden");
    setup.world.cli(LEAD, &["reject", &request, "--reason", "Not in this directory."]).succeeds();
    setup.await_receipt("try it", "processed");
    let refused = setup.model.requests().into_iter().any(|request| request.new.contains("Not in this directory."));
    assert!(refused, "the model does not know why");
    assert!(!setup.file("forbidden").exists(), "the command ran although the lead refused it");

    setup.send("try again");
    let request = asked("touch permitted");
    assert!(!setup.file("permitted").exists(), "the command ran before the lead permitted it");
    setup.world.cli(LEAD, &["approve", &request]).succeeds();
    setup.await_receipt("try again", "processed");
    assert!(setup.file("permitted").exists(), "the command did not run");
    setup.shut_down(backend);
}

fn a_runner_that_permits_everything_lets_commands_write_and_asks_no_one(setup: Setup) {
    setup.on_shell("write it", "echo written > here");
    let backend = setup.backend(&["--permissions", "allow"]);
    setup.send("write it");
    setup.await_receipt("write it", "processed");
    assert_eq!(std::fs::read_to_string(setup.file("here")).unwrap_or_default(), "written\n");
    let asked = setup.world.history(LEAD).into_iter().find(|entry| entry["message"]["type"] == "permission_request");
    assert_eq!(asked, None);
    setup.shut_down(backend);
}
