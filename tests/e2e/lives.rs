//! How programs live as members: taken over, run for each batch, ended by the runner or by force; plans.

use crate::{
    agents,
    world::{LEAD, World, eventually, is_alive},
};

scenarios! {
    a_program_run_per_batch_answers_with_its_output,
    a_runner_may_approve_a_shutdown_for_its_program,
    a_forced_shutdown_kills_a_stubborn_program_and_its_descendants_at_once,
    a_plan_is_revised_until_the_lead_approves_it,
}

store_scenarios! {
    the_newer_of_two_processes_with_one_name_wins_and_the_older_stays_down,
}

fn the_newer_of_two_processes_with_one_name_wins_and_the_older_stays_down(world: World) {
    world.create_team("acme");
    let older = world.run("twin", &[], agents::WILLING).ready();
    let of_older = older.program();
    let newer = world.run_again("twin", &[], agents::WILLING).ready();
    older.await_log("another process holds the inbox now");
    assert_eq!(older.exit(), 77);
    assert!(!is_alive(of_older));
    world.await_inbox(LEAD, "the notice of the takeover", |message| {
        message["notice"]["kind"] == "session_superseded" && message["notice"]["member"] == "twin"
    });

    let answered = world.cli(LEAD, &["send", "twin", "ping", "--wait-reply", "60", "--json"]).succeeds();
    assert_eq!(answered.json()["reply"]["content"], "pong");
    let member = world.member("twin");
    assert_eq!((&member["incarnation"], &member["connected"]), (&2.into(), &true.into()), "{member}");
    assert!(is_alive(newer.program()));
    assert!(!newer.log().contains("connection lost"), "the two have fought");
}

fn a_program_run_per_batch_answers_with_its_output(world: World) {
    world.create_team("acme");
    let counter = world.run("counter", &["--via", "exec", "--batch", "1"], "hear; echo \"I heard $(field content)\"");
    counter.await_log("connected");
    for word in ["one", "two"] {
        let answered = world.cli(LEAD, &["send", "counter", word, "--wait-reply", "60", "--json"]).succeeds();
        let answer = answered.json()["reply"].clone();
        assert_eq!((&answer["from"], &answer["content"]), (&"counter".into(), &format!("I heard {word}").into()));
    }
    assert_eq!(counter.pids().len(), 2, "each batch has its own program");
    eventually("all is processed", || world.member("counter")["inbox_depth"].is_null().then_some(()));
}

fn a_runner_may_approve_a_shutdown_for_its_program(world: World) {
    world.create_team("acme");
    let quiet = world.run("quiet", &["--on-shutdown", "approve", "--grace", "1"], agents::SILENT).ready();
    let program = quiet.program();
    world.cli(LEAD, &["shutdown", "quiet", "--wait"]).succeeds();
    assert!(!is_alive(program));
    assert!(quiet.heard().iter().all(|line| line["type"] != "shutdown_request"));
    assert_eq!(quiet.exit(), 0);
}

fn a_forced_shutdown_kills_a_stubborn_program_and_its_descendants_at_once(world: World) {
    world.create_team("acme");
    // So long a grace would outlast the patience of this test.
    let backend = world.run("backend", &["--grace", "600"], agents::STUBBORN).ready();
    let pids = eventually("all descendants run", || Some(backend.pids()).filter(|pids| pids.len() == 5));
    world.cli("backend", &["shutdown", "backend", "--force"]).exits(77).complains_of("LEAD_ONLY");
    world.cli(LEAD, &["shutdown", "backend", "out of hand", "--force", "--wait"]).succeeds();
    let left: Vec<_> = pids.iter().filter(|pid| is_alive(**pid)).collect();
    assert!(left.is_empty(), "{left:?} live on");
    assert_eq!(backend.exit(), 77);
    let member = world.member("backend");
    assert_eq!((&member["state"], &member["exit"]["signal"]), (&"exited".into(), &9.into()), "{member}");
    let forced = world.history(LEAD).into_iter().find(|entry| entry["member"]["forced_by"]["name"] == LEAD);
    assert_eq!(forced.expect("an entry in the history")["member"]["member"], "backend");
    world.cli("backend", &["send", "team-lead", "I am still here"]).exits(77).complains_of("MEMBER_STOPPED");
}

fn a_plan_is_revised_until_the_lead_approves_it(world: World) {
    world.create_team("acme");
    world.join("ann");
    let submit = |plan| world.spawn("ann", &["plan", "submit", plan, "--wait"], "");
    let await_plan = |plan: &str| {
        let arrived = world.await_inbox(LEAD, plan, |message| message["content"] == plan);
        assert_eq!((&arrived["type"], &arrived["from"]), (&"plan_approval_request".into(), &"ann".into()));
        arrived["request_id"].as_str().unwrap().to_owned()
    };
    let first = submit("1. drop the table");
    let request = await_plan("1. drop the table");
    world.cli("ann", &["plan", "approve", &request]).exits(77).complains_of("LEAD_ONLY");
    world.cli(LEAD, &["plan", "reject", &request, "-r", "keep a copy first"]).succeeds();
    first.output().exits(3).complains_of("keep a copy first");

    let second = submit("1. copy the table 2. drop it");
    let request = await_plan("1. copy the table 2. drop it");
    world.cli(LEAD, &["plan", "approve", &request, "-m", "go ahead"]).succeeds();
    second.output().exits(0);
    world.cli(LEAD, &["plan", "approve", &request, "-m", "go ahead"]).succeeds();
    world.cli(LEAD, &["plan", "reject", &request, "-r", "or rather not"]).exits(1).complains_of("ALREADY_DECIDED");
    let states = world.cli("ann", &["requests", "--json"]).succeeds().lines();
    let states: Vec<_> = states.iter().map(|request| request["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["approved", "rejected"]);
}
