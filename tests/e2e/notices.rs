//! Notices as the lead sees them.

use serde_json::Value;
use teamwire_client::{Client, v1};
use tokio::runtime::Runtime;

use crate::{
    agents,
    world::{LEAD, World, eventually},
};

scenarios! {
    a_lead_chooses_which_notices_it_gets,
    a_reply_shown_by_wait_reply_is_acknowledged,
    a_notice_about_a_task_names_the_commands_of_a_person_and_the_tools_of_an_agent,
}

store_scenarios! {
    a_member_that_joins_in_a_loop_cannot_fill_the_leads_inbox,
}

fn a_member_that_joins_in_a_loop_cannot_fill_the_leads_inbox(world: World) {
    world.create_team("acme");
    let credential = world.join("ann");
    world.join("bob");
    Runtime::new().unwrap().block_on(async {
        let mut client = Client::connect(&world.coordinator.address()).unwrap().with_credential(&credential).unwrap();
        for _ in 0..300 {
            let joined = client.join(v1::JoinRequest::default()).await.unwrap();
            client = client.with_credential(&joined.credential).unwrap();
        }
    });
    let told = |message: &Value| message["notice"]["kind"] == "session_superseded";
    let inbox = world.cli(LEAD, &["inbox", "--json"]).succeeds().lines();
    let notices = inbox.iter().filter(|delivery| told(&delivery["message"])).count();
    assert_eq!(notices, 1, "{inbox:?}");
    world.cli("bob", &["send", "team-lead", "Still there?"]).succeeds();
    let recorded = world.history(LEAD).iter().filter(|entry| told(&entry["message"])).count();
    assert!(recorded < 30, "the history holds {recorded} notices of the loop");
    assert_eq!(world.member(LEAD)["notice_level"], "all");
}

fn a_lead_chooses_which_notices_it_gets(world: World) {
    world.create_team("acme");
    world.join("ann");
    assert_eq!(world.cli(LEAD, &["notices"]).succeeds().stdout.trim(), "lead gets all notices.");
    assert_eq!(
        world.cli(LEAD, &["notices", "important"]).succeeds().stdout.trim(),
        "lead gets only important notices."
    );
    assert_eq!(world.member(LEAD)["notice_level"], "important");
    world.cli("ann", &["notices", "digest", "--of", LEAD]).exits(77).complains_of("LEAD_ONLY");
    world.cli(LEAD, &["notices", "digest", "--of", "ann"]).succeeds();
    assert_eq!(
        world.cli("ann", &["notices"]).succeeds().stdout.trim(),
        "ann gets important notices at once and the others in a digest."
    );
    world.cli(LEAD, &["notices", "loud"]).exits(64);

    // It goes idle and leaves, which is not important.
    let backend = world.run("backend", &["--on-shutdown", "approve"], agents::WILLING).ready();
    world.cli(LEAD, &["send", "backend", "one thing to do"]).succeeds();
    eventually("it is idle", || (world.member("backend")["state"] == "idle").then_some(()));
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    assert_eq!(backend.exit(), 0);
    let unread = world.take_inbox(LEAD);
    assert!(unread.iter().all(|message| message["notice"].is_null()), "{unread:?}");

    // A crash is.
    let crashing = world.run("crashing", &[], "exit 3");
    crashing.exit();
    let notice = world.await_inbox(LEAD, "the crash", |message| message["notice"]["kind"] == "member_exited");
    assert_eq!((&notice["notice"]["member"], &notice["notice"]["important"]), (&"crashing".into(), &true.into()));
}

fn a_reply_shown_by_wait_reply_is_acknowledged(world: World) {
    world.create_team("acme");
    let _backend = world.run("backend", &[], agents::WILLING).ready();
    let answered = world.cli(LEAD, &["send", "backend", "ping", "--wait-reply", "60", "--json"]).succeeds();
    let answer = answered.json()["reply"].clone();
    assert_eq!(answer["content"], "pong");
    let unread = world.take_inbox(LEAD);
    assert!(unread.iter().all(|message| message["content"] != "pong"), "{unread:?}");
    let shown = world.cli(LEAD, &["message", "show", answer["id"].as_str().unwrap(), "--json"]).succeeds().json();
    assert_eq!(shown["receipts"][0]["state"], "processed", "{shown}");
}

fn a_notice_about_a_task_names_the_commands_of_a_person_and_the_tools_of_an_agent(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.cli(LEAD, &["task", "create", "Write the schema", "--owner", "ann"]).succeeds();
    let command = "Task 1 is assigned to you: Write the schema. Take it with `teamwire task claim 1`";
    let shown = world.cli("ann", &["inbox"]).succeeds().stdout;
    assert!(shown.contains(command), "{shown}");
    let neutral = world.cli("ann", &["inbox", "--json"]).succeeds().lines();
    assert_eq!(neutral[0]["message"]["content"], "Task 1 is assigned to you: Write the schema.");

    let join_string = world.invite("backend");
    let backend = world.run_program("backend", &["--join", &join_string, "--via", "acp"], agents::ACP).ready();
    world.cli(LEAD, &["task", "create", "Write the client", "--owner", "backend"]).succeeds();
    let prompted = eventually("the agent reads the notice", || {
        let read = std::fs::read_to_string(world.home("backend").join("prompts")).unwrap_or_default();
        read.contains("Task 2 is assigned to you").then_some(read)
    });
    assert!(prompted.contains("call TaskClaim") && !prompted.contains("teamwire task claim"), "{prompted}");
    backend.signal(nix::sys::signal::Signal::SIGTERM);
    backend.exit();
}
