//! Tags and event subscriptions, as people and programs use them.

use crate::{
    agents,
    world::{LEAD, World, eventually},
};

scenarios! {
    a_message_to_a_tag_reaches_those_that_have_it,
}

store_scenarios! {
    a_subscription_outlives_the_coordinator,
}

fn a_message_to_a_tag_reaches_those_that_have_it(world: World) {
    world.create_team("acme");
    for name in ["ann", "bob", "eve"] {
        world.join(name);
    }
    let set = world.cli(LEAD, &["tag", "ann", "api", "@db"]).succeeds();
    assert_eq!(set.stdout.trim(), "ann has: api, db.");
    world.cli(LEAD, &["tag", "bob", "api"]).succeeds();
    world.cli("bob", &["tag", "bob", "db"]).exits(77).complains_of("LEAD_ONLY");
    world.cli("eve", &["send", "@api", "The schema has changed"]).succeeds().says("Sent to ann, bob");
    world.cli("bob", &["send", "@api", "I know"]).succeeds().says("Sent to ann");
    world.cli("eve", &["send", "@any:db", "Take this"]).succeeds().says("Sent to ann");
    for (member, count) in [("ann", 3), ("bob", 1), ("eve", 0)] {
        assert_eq!(world.take_inbox(member).len(), count, "{member}");
    }
    world.cli(LEAD, &["tag", "ann", "--remove", "db"]).succeeds().says("ann has: api.");
    world.cli("eve", &["send", "@db", "?"]).exits(1).complains_of("Its tags are: api.");
    world.cli(LEAD, &["send", "@any", "?"]).exits(64).complains_of("INVALID_NAME");
    world.cli(LEAD, &["status"]).succeeds().says("@api");

    let token = world.cli(LEAD, &["invite", "zoe", "--tag", "api", "--json"]).succeeds().json();
    let token = token["join_string"].as_str().unwrap().to_owned();
    world.cli_with_input("zoe", &["join", "-"], &token).succeeds();
    assert_eq!(world.cli(LEAD, &["tag", "zoe"]).succeeds().stdout.trim(), "zoe has: api.");
}

fn a_subscription_outlives_the_coordinator(mut world: World) {
    world.create_team("acme");
    world.join("ann");
    world.cli(LEAD, &["task", "create", "Write the migration"]).succeeds();
    let backend = world.run("backend", &["--on-shutdown", "approve"], agents::WILLING).ready();
    for wait in [["exit", "backend"], ["task", "1"], ["file", "src/*.rs"]] {
        world.cli("ann", &[&["subscribe"][..], &wait].concat()).succeeds().says("You get a notice when");
    }
    world.coordinator.kill();
    world.coordinator.restart();
    let listed = world.cli("ann", &["subscribe", "list", "--json"]).succeeds().lines();
    let ids: Vec<&str> = listed.iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["exit/backend", "task/1", "file/src/*.rs"]);
    world.cli("ann", &["subscribe", "cancel", "file/src/*.rs"]).succeeds();
    world.cli(LEAD, &["task", "delete", "1"]).succeeds();
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    assert_eq!(backend.exit(), 0);
    let told = eventually("two notices", || {
        let inbox = world.cli("ann", &["inbox", "--json"]).succeeds().lines();
        let told: Vec<_> = inbox.iter().map(|delivery| delivery["message"]["content"].to_string()).collect();
        (told.len() == 2).then_some(told)
    });
    assert!(told[0].contains("Task 1 was deleted by lead: Write the migration"), "{told:?}");
    assert!(told[1].contains("backend"), "{told:?}");
    assert_eq!(world.cli("ann", &["subscribe", "list"]).succeeds().stdout.trim(), "You have no subscriptions.");
    let again = world.cli("ann", &["subscribe", "exit", "backend"]).succeeds();
    again.says("It has happened already");
}
