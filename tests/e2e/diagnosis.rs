//! Finding out why a team does not work: each class of trouble by one command.

use std::fs;

use serde_json::Value;

use crate::{
    agents,
    world::{LEAD, World, eventually},
};

scenarios! {
    a_message_that_cannot_be_queued_is_explained_before_it_is_sent,
    the_doctor_distinguishes_unread_messages_from_unacknowledged_ones,
    the_doctor_names_a_member_that_does_not_exit_and_the_remedy,
    the_doctor_names_the_members_that_block_a_teams_deletion,
    the_doctor_reports_a_persons_unread_messages_in_one_note,
    the_doctor_does_not_report_members_that_ended_as_requested,
    the_advice_about_a_failed_program_fits_the_reader,
    a_member_whose_turns_fail_is_shown_as_failing_until_one_succeeds,
    a_program_that_fails_at_every_batch_is_shown_as_failing,
}

store_scenarios! {
    a_message_tells_its_whole_life,
}

/// Returns what the doctor finds with the shortest patience.
fn findings(world: &World, arguments: &[&str]) -> (i32, Vec<Value>) {
    let arguments = [&["doctor", "--patience", "0", "--json"], arguments].concat();
    let output = world.cli(LEAD, &arguments);
    (output.code, output.lines())
}

fn find(findings: &[Value], class: &str) -> Value {
    let found = findings.iter().find(|finding| finding["class"] == class);
    found.unwrap_or_else(|| panic!("no {class} in {findings:?}")).clone()
}

fn a_message_that_cannot_be_queued_is_explained_before_it_is_sent(world: World) {
    world.create_team("acme");
    let (code, found) = findings(&world, &["nobody"]);
    assert_eq!(code, 1);
    let finding = find(&found, "not_queued");
    assert!(finding["text"].as_str().unwrap().contains("There is no member \"nobody\""), "{finding}");

    world.join("ann");
    assert_eq!(findings(&world, &["ann"]).0, 0);
    // That it is gone is an answer, not a problem.
    world.cli("ann", &["leave"]).succeeds();
    let (code, found) = findings(&world, &["ann"]);
    let finding = find(&found, "not_queued");
    assert_eq!((code, &finding["severity"], &finding["member"]), (0, &"note".into(), &"ann".into()));
    assert!(finding["text"].as_str().unwrap().contains("ann has exited"), "{finding}");
    assert!(finding["next"].as_str().unwrap().contains("teamwire invite ann"), "{finding}");
}

fn the_doctor_distinguishes_unread_messages_from_unacknowledged_ones(world: World) {
    world.create_team("acme");
    world.join("ann");
    let sent = world.cli(LEAD, &["send", "ann", "hello", "--json"]).succeeds().json();
    // A person reads when it likes.
    let (code, found) = findings(&world, &[]);
    let finding = find(&found, "unread");
    assert_eq!((code, &finding["severity"]), (0, &"note".into()));
    assert_eq!((&finding["member"], &finding["message_id"]), (&"ann".into(), &sent["message_id"]));

    // The coordinator has not noticed yet that cyd's process is gone for good.
    let cyd = world.run("cyd", &[], agents::SILENT).ready();
    cyd.kill();
    let sent = world.cli(LEAD, &["send", "cyd", "hello", "--json"]).succeeds().json();
    let finding = eventually("cyd's session has ended", || {
        findings(&world, &[]).1.into_iter().find(|finding| finding["class"] == "not_delivered")
    });
    assert_eq!((&finding["member"], &finding["message_id"]), (&"cyd".into(), &sent["message_id"]));
    assert!(finding["text"].as_str().unwrap().contains("no process reads cyd's inbox"), "{finding}");

    let bob = world.run("bob", &[], agents::SILENT).ready();
    let sent = world.cli(LEAD, &["send", "bob", "do it", "--json"]).succeeds().json();
    bob.await_text("do it");
    let finding = eventually("the message counts as delivered", || {
        let (_, found) = findings(&world, &["bob"]);
        found.into_iter().find(|finding| finding["class"] == "not_acknowledged")
    });
    assert_eq!((&finding["member"], &finding["message_id"]), (&"bob".into(), &sent["message_id"]));
    // With the default patience there is nothing to find yet.
    world.cli(LEAD, &["doctor", "bob", "--patience", "3600"]).succeeds();
    // Others may not look into bob's inbox.
    world.cli("ann", &["inbox", "--of", "bob"]).exits(77).complains_of("LEAD_ONLY");
    world.cli("ann", &["doctor", "bob", "--patience", "0"]).succeeds();
}

fn the_doctor_names_a_member_that_does_not_exit_and_the_remedy(world: World) {
    world.create_team("acme");
    let bob = world.run("bob", &[], agents::SILENT).ready();
    world.cli(LEAD, &["shutdown", "bob"]).succeeds();
    bob.await_heard("the request", |line| line["type"] == "shutdown_request");
    let (code, found) = findings(&world, &["bob"]);
    let finding = find(&found, "not_exited");
    assert_eq!((code, &finding["member"]), (1, &"bob".into()));
    assert!(finding["next"].as_str().unwrap().contains("teamwire shutdown bob --force"), "{finding}");

    // A process that is stopped by force, but whose runner cannot end it.
    bob.signal(nix::sys::signal::Signal::SIGSTOP);
    world.cli(LEAD, &["shutdown", "bob", "--force"]).succeeds();
    let (_, found) = findings(&world, &[]);
    let finding = find(&found, "not_exited");
    assert!(finding["text"].as_str().unwrap().contains("its exit was not reported"), "{finding}");
    bob.signal(nix::sys::signal::Signal::SIGCONT);
    bob.exit();
}

fn the_doctor_names_the_members_that_block_a_teams_deletion(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.join("ben");
    let (code, found) = findings(&world, &[]);
    let finding = find(&found, "delete_blocked");
    assert_eq!((code, &finding["severity"]), (0, &"note".into()), "a team at work is not a problem");
    assert!(finding["text"].as_str().unwrap().contains("ann (active), ben (active)"), "{finding}");
    for name in ["ann", "ben"] {
        world.cli(name, &["leave"]).succeeds();
    }
    let (_, found) = findings(&world, &[]);
    assert!(found.iter().all(|finding| finding["class"] != "delete_blocked"), "{found:?}");
    world.cli(LEAD, &["team", "delete", "--yes"]).succeeds();
}

fn the_doctor_reports_a_persons_unread_messages_in_one_note(world: World) {
    world.create_team("acme");
    world.join("ann");
    for text in ["one", "two", "three"] {
        world.cli("ann", &["send", "lead", text]).succeeds();
        world.cli(LEAD, &["send", "ann", text]).succeeds();
    }
    // Neither the lead's own messages nor those of another person are a problem.
    let (code, found) = findings(&world, &[]);
    let unread = find(&found, "unread");
    assert_eq!((&unread["severity"], &unread["text"]), (&"note".into(), &"You have 3 unread messages.".into()));
    assert!(unread["next"].as_str().unwrap().contains("teamwire inbox"), "{unread}");
    assert!(found.iter().all(|finding| !finding["next"].as_str().unwrap().contains("teamwire run lead")), "{found:?}");
    let of_ann: Vec<_> = found.iter().filter(|finding| finding["member"] == "ann").collect();
    assert_eq!((code, of_ann.len()), (0, 1), "{of_ann:?}");
    assert!(of_ann[0]["text"].as_str().unwrap().contains("The same holds for 2 more messages."), "{of_ann:?}");
    world.take_inbox("ann");
    world.cli(LEAD, &["doctor", "--patience", "0"]).succeeds();
}

fn a_message_tells_its_whole_life(world: World) {
    world.create_team("acme");
    world.join("ann");
    let sent = world.cli(LEAD, &["send", "ann", "hello", "--json"]).succeeds().json();
    let id = sent["message_id"].as_str().unwrap();
    let receipt = || world.cli(LEAD, &["message", "show", id, "--json"]).succeeds().json()["receipts"][0].clone();
    let queued = receipt();
    assert_eq!((&queued["recipient"], &queued["state"]), (&"ann".into(), &"queued".into()));
    assert!(queued["queued_at"].is_string() && queued["finished_at"].is_null(), "{queued}");
    world.take_inbox("ann");
    let processed = receipt();
    assert_eq!(processed["state"], "processed");
    assert!(processed["finished_at"].is_string(), "{processed}");
    let text = world.cli("ann", &["message", "show", id]).succeeds().stdout;
    assert!(text.contains("hello") && text.contains("processed"), "{text}");
    world.join("ben");
    world.cli("ben", &["message", "show", id]).exits(1).complains_of("MESSAGE_NOT_FOUND");
}

fn the_doctor_does_not_report_members_that_ended_as_requested(world: World) {
    world.create_team("acme");
    let approves = world.run("ann", &["--on-shutdown", "approve"], agents::SILENT).ready();
    let forced = world.run("bob", &[], agents::SILENT).ready();
    for (name, runner) in [("ann", &approves), ("bob", &forced)] {
        world.cli(LEAD, &["send", name, "never processed"]).succeeds();
        runner.await_text("never processed");
    }
    world.cli(LEAD, &["shutdown", "ann", "--wait"]).succeeds();
    world.cli(LEAD, &["shutdown", "bob", "--force", "--wait"]).succeeds();
    let leaving = r#"while hear; do case "$line" in *'never processed'*) "$TW" leave; exit 3 ;; esac; done"#;
    let leaves = world.run("cyd", &[], leaving).ready();
    world.cli(LEAD, &["send", "cyd", "never processed"]).succeeds();
    assert_eq!(leaves.exit(), 0);
    world.take_inbox(LEAD);
    let (code, found) = findings(&world, &[]);
    assert_eq!((code, found.len()), (0, 0), "{found:?}");
    for name in ["ann", "bob", "cyd"] {
        let (code, found) = findings(&world, &[name]);
        let finding = find(&found, "not_queued");
        assert_eq!((code, found.len(), &finding["severity"]), (0, 1, &"note".into()), "{found:?}");
        assert!(finding["next"].as_str().unwrap().contains("teamwire run"), "{finding}");
    }
}

fn the_advice_about_a_failed_program_fits_the_reader(world: World) {
    world.create_team("acme");
    world.join("ann");
    let bob = world
        .run("bob", &[], "while hear; do case \"$line\" in *'\"content\":\"fail\"'*) exit 3 ;; esac; done")
        .ready();
    world.cli(LEAD, &["send", "bob", "fail"]).succeeds();
    assert_eq!(bob.exit(), 3);
    let next = |identity: &str, options: &[&str]| {
        let output = world.cli(identity, &[&["doctor", "bob", "--json"], options].concat()).exits(1);
        let found = output.lines();
        let finding = find(&found, "failed");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(finding["text"].as_str().unwrap().contains("bob failed (exit code 3"), "{finding}");
        assert!(finding["text"].as_str().unwrap().contains("has not processed 1 message"), "{finding}");
        finding["next"].as_str().unwrap().to_owned()
    };
    assert!(next(LEAD, &[]).contains("teamwire run bob"));
    assert!(next(LEAD, &["--as", "operator", "--team", "acme"]).contains("teamwire run bob"));
    let of_teammate = next("ann", &[]);
    assert!(of_teammate.contains("teamwire send team-lead") && !of_teammate.contains("teamwire run"), "{of_teammate}");
}

#[test]
fn a_full_inbox_is_explained_to_its_owner_and_to_others() {
    let world = World::configured("[limits]\ninbox_entries_max = 16\n");
    world.create_team("acme");
    world.join("ann");
    world.join("bob");
    let is_full = (0..=16).any(|_| world.cli(LEAD, &["send", "ann", "again"]).code != 0);
    assert!(is_full, "the inbox takes more than its limit");
    let next = |identity: &str| {
        let found = world.cli(identity, &["doctor", "ann", "--json"]).exits(1).lines();
        find(&found, "not_queued")["next"].as_str().unwrap().to_owned()
    };
    assert_eq!(next("ann"), "Read and acknowledge: `teamwire inbox --ack`.");
    assert_eq!(next(LEAD), "ann makes room with `teamwire inbox --ack`.");
    assert!(next("bob").contains("teamwire send team-lead"));
    let told = world.cli(LEAD, &["doctor"]).exits(1);
    assert!(told.stdout.contains("problem, not queued: ann's inbox is full"), "{}", told.stdout);
    // Once ann is gone, it is not a problem anymore.
    world.cli("ann", &["leave"]).succeeds();
    world.cli(LEAD, &["doctor"]).succeeds();
}

fn a_member_whose_turns_fail_is_shown_as_failing_until_one_succeeds(world: World) {
    world.create_team("acme");
    let join_string = world.invite("backend");
    let backend = world.run_program("backend", &["--join", &join_string, "--via", "acp"], agents::ACP).ready();
    fs::write(world.home("backend").join("down"), "").unwrap();
    world.cli(LEAD, &["send", "backend", "hello"]).succeeds();
    let failing = eventually("two turns have failed", || {
        let failed = world.member("backend")["failed_turns"].clone();
        failed["count"].as_u64().is_some_and(|count| count >= 2).then_some(failed)
    });
    assert!(failing["error"].as_str().unwrap().contains("the model is overloaded"), "{failing}");
    let status = world.cli(LEAD, &["status"]).succeeds().stdout;
    let line = status.lines().find(|line| line.contains("backend")).unwrap();
    assert!(line.contains("active") && line.contains("failing since "), "{status}");
    assert!(line.contains("turns in a row, last: ") && line.contains("the model is overloaded"), "{status}");

    let (code, found) = findings(&world, &[]);
    let finding = find(&found, "failing");
    assert_eq!((code, &finding["member"]), (1, &"backend".into()));
    assert!(finding["text"].as_str().unwrap().contains("the model is overloaded"), "{finding}");
    assert!(finding["next"].as_str().unwrap().contains("teamwire logs backend"), "{finding}");
    let patient = world.cli(LEAD, &["doctor", "--patience", "3600", "--json"]).lines();
    assert!(patient.iter().all(|finding| finding["class"] != "failing"), "{patient:?}");

    fs::remove_file(world.home("backend").join("down")).unwrap();
    eventually("it no longer fails", || world.member("backend")["failed_turns"].is_null().then_some(()));
    eventually("its message is processed", || world.member("backend")["inbox_depth"].is_null().then_some(()));
    assert!(!world.cli(LEAD, &["status"]).succeeds().stdout.contains("failing"));
    assert_eq!(backend.log().matches("started process").count(), 1, "the same process kept running");
}

fn a_program_that_fails_at_every_batch_is_shown_as_failing(world: World) {
    world.create_team("acme");
    let join_string = world.invite("checker");
    let script = ["sh", "-c", "cat > heard; test -e ok || exit 3"];
    let checker = world.run_program("checker", &["--join", &join_string, "--via", "exec"], &script);
    checker.await_log("connected");
    world.cli(LEAD, &["send", "checker", "hello"]).succeeds();
    let failing = eventually("two batches have failed", || {
        let failed = world.member("checker")["failed_turns"].clone();
        failed["count"].as_u64().is_some_and(|count| count >= 2).then_some(failed)
    });
    assert_eq!(failing["error"], "the program ended with code 3");
    fs::write(world.home("checker").join("ok"), "").unwrap();
    eventually("it no longer fails", || world.member("checker")["failed_turns"].is_null().then_some(()));
}
