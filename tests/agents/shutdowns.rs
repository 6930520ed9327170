//! Shutdowns: refused by the model, then approved.

use crate::{
    setup::{Setup, approval, assert_gone, family, refusal},
    world::{LEAD, is_alive},
};

scenarios! {
    a_shutdown_is_refused_with_a_reason_and_when_approved_leaves_nothing,
}

fn a_shutdown_is_refused_with_a_reason_and_when_approved_leaves_nothing(setup: Setup) {
    setup.model.add(refusal());
    setup.model.add(approval());
    let backend = setup.backend(&[]);
    let family = family(&backend);
    // The input that the text shows has "why" as its reason.
    let refused = setup.world.cli(LEAD, &["shutdown", "backend", "are you done?", "--wait"]).exits(3);
    refused.complains_of("why");
    assert!(is_alive(backend.program()), "a refused shutdown has ended the program");

    let ended = setup.world.cli(LEAD, &["shutdown", "backend", "and now?", "--wait"]).succeeds();
    let (how, action) = match setup.program.ends_with_its_input {
        true => ("approved its shutdown and ended with code 0", "none"),
        false => ("approved its shutdown; its runner ended it with SIGTERM (exit code 0)", "sigterm"),
    };
    assert!(ended.stdout.contains(&format!("backend exited: {how}")), "{}", ended.stdout);
    assert_gone(&family);
    let exit = &setup.world.member("backend")["exit"];
    assert_eq!((&exit["code"], &exit["runner_action"]), (&0.into(), &action.into()), "{exit}");
    let history = setup.world.history(LEAD);
    let is_notified = history.iter().any(|entry| {
        entry["message"]["notice"]["kind"] == "member_exited"
            && entry["message"]["content"] == format!("backend {how}.")
    });
    assert!(is_notified, "the lead has no notice of the exit");
    assert_eq!(backend.exit(), 0);
}
