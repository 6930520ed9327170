//! A lead orders teammates from hosts at the command line.

use crate::{
    agents,
    world::{HostProcess, LEAD, ScriptedHost, World, eventually, offer},
};

scenarios! {
    a_lead_spawns_a_teammate_which_works_on_its_prompt,
    a_reply_answers_the_question_and_not_the_prompt_before_it,
    a_host_that_cannot_start_a_teammate_says_why,
    ctrl_c_leaves_the_order_and_says_how_to_wait_or_cancel,
    a_forced_shutdown_cancels_an_order,
    the_doctor_finds_unanswered_orders_and_hosts_without_profiles,
    the_list_of_hosts_says_what_each_offers,
    a_host_is_one_paste_and_starts_what_the_lead_spawns,
}

store_scenarios! {
    an_order_that_no_host_carries_out_expires,
}

fn a_lead_spawns_a_teammate_which_works_on_its_prompt(world: World) {
    world.create_team("acme");
    let mut host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[("gpu", "a100")], 2));
    let spawning = world.spawn(
        LEAD,
        &["spawn", "backend", "--profile", "claude", "--label", "gpu=a100", "--plan", "--dir", "api", "--prompt", "-"],
        "You own the API.",
    );
    let order = host.next_order();
    let terms = &order.terms;
    assert_eq!((order.member.as_str(), terms.profile.as_str(), terms.dir.as_str()), ("backend", "claude", "api"));
    assert!(terms.plan_mode_required);
    let member = world.member("backend");
    assert_eq!((&member["state"], &member["spawned_on"]), (&"spawning".into(), &"gpu-1".into()));
    let status = world.cli(LEAD, &["status"]).succeeds().stdout;
    assert!(status.contains("has not started yet (req_") && status.contains("1 host, 1 of 2 slots taken"), "{status}");
    let requests = world.cli(LEAD, &["requests", "--state", "pending"]).succeeds().stdout;
    assert!(requests.contains("not started yet: gpu-1 has the order"), "{requests}");
    world.cli(LEAD, &["logs", "backend"]).succeeds().complains_of("ordered from gpu-1, and has not started yet");
    let sent = world.cli(LEAD, &["send", "backend", "Welcome."]).succeeds();
    sent.complains_of("backend has not started yet. The message waits in its inbox.");

    let runner = host.start(&world, &order, agents::WILLING).ready();
    let spawned = spawning.output().succeeds().stdout;
    assert!(spawned.contains("Ordered backend from gpu-1 req_"), "{spawned}");
    assert!(spawned.ends_with("backend has started on gpu-1.\n"), "{spawned}");
    assert_eq!(runner.await_text("You own the API.")["from"], LEAD);
    runner.await_text("Welcome.");
    let inbox = world.cli(LEAD, &["inbox"]).succeeds().stdout;
    assert!(!inbox.contains("has started"), "the command has shown it: {inbox}");
    let requests = world.cli(LEAD, &["requests"]).succeeds().stdout;
    assert!(requests.contains("spawn") && requests.contains("started on gpu-1"), "{requests}");
    let history = world.cli(LEAD, &["history", "--all"]).succeeds().stdout;
    assert!(history.contains("backend has started on gpu-1"), "{history}");
    world.cli("backend", &["spawn", "other", "--profile", "claude"]).exits(77).complains_of("LEAD_ONLY");
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    assert_eq!(runner.exit(), 0);
}

fn a_reply_answers_the_question_and_not_the_prompt_before_it(world: World) {
    world.create_team("acme");
    let mut host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[], 2));
    let mut spawn = |name: &str| {
        let spawn = ["spawn", name, "--profile", "claude", "--prompt", "You own the API.", "--no-wait"];
        world.cli(LEAD, &spawn).succeeds();
        host.next_order()
    };
    let (backend, reviewer) = (spawn("backend"), spawn("reviewer"));
    let asking = world.spawn(LEAD, &["send", "backend", "How many tests?", "--wait-reply", "60", "--json"], "");
    eventually("the question waits behind the prompt", || (world.member("backend")["inbox_depth"] == 2).then_some(()));
    // It has both in hand when it answers.
    let answers = r#"
        while hear; do case "$line" in
            *'"content":"How many tests?"'*) printf '{"to":"lead","message":"Forty-two.","summary":"the number"}\n' ;;
        esac; done
    "#;
    let runner = host.start(&world, &backend, answers).ready();
    let reply = &asking.output().succeeds().json()["reply"];
    let (prompt, question) = (runner.await_text("You own the API."), runner.await_text("How many tests?"));
    assert_eq!((&reply["content"], &reply["in_reply_to"]), (&"Forty-two.".into(), &question["id"]));
    assert_eq!((&prompt["prompt"], question.get("prompt")), (&true.into(), None));

    let _runner = host.start(&world, &reviewer, agents::PLAIN).ready();
    let report =
        world.await_inbox(LEAD, "the report", |message| message["from"] == "reviewer" && message["type"] == "message");
    assert_eq!((&report["content"], report.get("in_reply_to")), (&"plainly".into(), None));
}

fn a_host_that_cannot_start_a_teammate_says_why(world: World) {
    world.create_team("acme");
    let mut host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[], 1));
    let spawn = ["spawn", "backend", "--profile", "claude", "--on", "gpu-1"];
    let spawning = world.spawn(LEAD, &spawn, "");
    let order = host.next_order();
    host.refuse(&order, "the program claude ended with code 1\nwarning: no key\nerror: not logged in");
    let refused = spawning.output().exits(3);
    let says = "backend was not started: gpu-1 says: the program claude ended with code 1\n    warning: no key\n    \
                error: not logged in\n";
    refused.complains_of(says);
    let shown = world.cli(LEAD, &["requests", &order.id]).succeeds().stdout;
    assert!(shown.contains("gpu-1 says: the program claude ended with code 1\n    warning: no key\n"), "{shown}");
    world
        .cli(LEAD, &["logs", "backend"])
        .succeeds()
        .complains_of("It exited: gpu-1 did not start it: the program claude");
    world.cli(LEAD, &["requests", &order.id, "--wait"]).exits(3).complains_of("    error: not logged in");

    // The name is free again. Programs read the same as JSON.
    let spawning = world.spawn(LEAD, &[&spawn[..], &["--json"]].concat(), "");
    let order = host.next_order();
    host.refuse(&order, "no disk");
    let refused = spawning.output().exits(3);
    let request = refused.json();
    assert_eq!((&request["state"], &request["reason"]), (&"rejected".into(), &"no disk".into()));
    assert_eq!(refused.error()["exit_code"], 3);
    let inbox = world.cli(LEAD, &["inbox"]).succeeds().stdout;
    assert!(!inbox.contains("not started"), "the commands have shown it: {inbox}");
}

fn an_order_that_no_host_carries_out_expires(world: World) {
    world.create_team("acme");
    let spawn = ["spawn", "backend", "--profile", "claude", "--deadline", "1s"];
    world.cli(LEAD, &spawn).exits(1).complains_of("teamwire invite --host");
    let _host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[], 1));
    world.cli(LEAD, &[&spawn[..], &["--on", "gpu-2"]].concat()).exits(1).complains_of("There is no host \"gpu-2\"");
    world.cli(LEAD, &spawn).exits(4).complains_of("backend was not started: gpu-1 did not start it in time");
    let unreadable = [&spawn[..], &["--prompt-file", "nowhere.md"]].concat();
    world.cli(LEAD, &unreadable).exits(64).complains_of("nowhere.md");
}

fn ctrl_c_leaves_the_order_and_says_how_to_wait_or_cancel(world: World) {
    world.create_team("acme");
    let mut host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[], 1));
    let spawning = world.spawn(LEAD, &["spawn", "backend", "--profile", "claude"], "");
    let order = host.next_order();
    spawning.await_said("Ordered backend");
    let interrupted = spawning.interrupt().exits(130);
    let interrupted = interrupted.complains_of(&format!("teamwire requests {} --wait", order.id));
    interrupted.complains_of("teamwire shutdown backend --force");
    let waiting = world.spawn(LEAD, &["requests", &order.id, "--wait"], "");
    let _runner = host.start(&world, &order, agents::WILLING).ready();
    waiting.output().succeeds();
}

fn a_forced_shutdown_cancels_an_order(world: World) {
    world.create_team("acme");
    let mut host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[], 1));
    let spawn = ["spawn", "backend", "--profile", "claude", "--no-wait"];
    let ordered = world.cli(LEAD, &[&spawn[..], &["--json"]].concat()).succeeds().json();
    assert_eq!(ordered["member"]["state"], "spawning");
    let id = ordered["request"]["id"].as_str().unwrap();
    let order = host.next_order();
    for answer in ["approve", "reject"] {
        let refused = world.cli(LEAD, &[answer, id]).exits(1).complains_of("which its host answers");
        refused.complains_of("`teamwire shutdown backend --force`");
        world.cli(LEAD, &[answer, "last"]).exits(1).complains_of("Nothing waits for your answer.");
    }
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).exits(1).complains_of("teamwire shutdown backend --force");
    let waiting = world.spawn(LEAD, &["requests", id, "--wait"], "");
    let cancelled = world.cli(LEAD, &["shutdown", "backend", "--force", "--wait"]).succeeds().stdout;
    assert_eq!(cancelled, "Cancelled the order of backend, which had not started.\n");
    waiting.output().exits(4).complains_of("backend was not started: the order was cancelled");
    assert!(host.take(&order).unwrap_err().to_string().contains("do not start the member"));
    world.cli(LEAD, &spawn).succeeds();
    world.cli(LEAD, &["shutdown", "gpu-1", "--wait"]).exits(1).complains_of("teamwire shutdown gpu-1 --force");
    let stopped = world.cli(LEAD, &["shutdown", "gpu-1", "--force", "--wait"]).succeeds().stdout;
    assert!(stopped.contains("Stopped the host gpu-1"), "{stopped}");
}

fn the_doctor_finds_unanswered_orders_and_hosts_without_profiles(world: World) {
    world.create_team("acme");
    let mut host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[], 1));
    let _useless = ScriptedHost::join(&world, "laptop", offer(&[], &[], 1));
    world.cli(LEAD, &["spawn", "backend", "--profile", "claude", "--prompt", "Go.", "--no-wait"]).succeeds();
    host.next_order();
    let told = world.cli(LEAD, &["doctor", "--patience", "0"]).exits(1).stdout;
    assert!(told.contains("problem, not started: backend was ordered ") && told.contains(" ago from gpu-1"), "{told}");
    assert!(told.contains("which has the order and has not started it.") && told.contains("--force"), "{told}");
    assert!(!told.contains("not delivered"), "the prompt waits for the start: {told}");
    assert!(told.contains("note, no profile: The host laptop offers no profile"), "{told}");
    let told = world.cli(LEAD, &["doctor", "laptop"]).succeeds().stdout;
    assert!(told.contains("no profile") && !told.contains("There is no member"), "{told}");
    world.join("ann");
    // A teammate sees no orders of others, and can do nothing about a host.
    let told = world.cli("ann", &["doctor", "--patience", "0"]).succeeds().stdout;
    assert!(told.contains("The host laptop offers no profile") && told.contains("Tell the lead"), "{told}");
}

fn the_list_of_hosts_says_what_each_offers(world: World) {
    world.create_team("acme");
    let none = world.cli(LEAD, &["hosts"]).succeeds().stdout;
    assert!(none.contains("The team has no host.") && none.contains("teamwire invite --host"), "{none}");
    let invited = world.cli(LEAD, &["invite", "--host"]).succeeds();
    let join_string = invited.stdout.trim().to_owned();
    let hint = invited.complains_of("teamwire host --join -").stderr;
    assert!(!hint.contains(&join_string), "an argument would be visible to other users: {hint}");
    let old = ScriptedHost::join(&world, "a-host", offer(&["codex"], &[], 1));
    let _new = ScriptedHost::join(&world, "b-host", offer(&["claude", "codex"], &[("gpu", "a100")], 4));
    world.join("ann");
    old.leave();
    let listed = eventually("the host that left has exited", || {
        let listed = world.cli("ann", &["hosts"]).succeeds().stdout;
        listed.contains("exited").then_some(listed)
    });
    let lines: Vec<&str> = listed.lines().collect();
    let words: Vec<&str> = lines[1].split_whitespace().take(7).collect();
    assert_eq!(words, ["b-host", "ready", "linux/test", "gpu=a100", "claude,", "codex", "0/4"]);
    assert!(lines[2].starts_with("a-host  exited"), "{listed}");
    let first = &world.cli("ann", &["hosts", "--json"]).succeeds().lines()[0];
    assert_eq!((&first["name"], &first["offer"]["slots"]), (&"b-host".into(), &4.into()));
    world.cli("ann", &["send", "b-host", "hello"]).exits(1).complains_of("is a host, not a member");
}

/// The commands alone: invite, paste, spawn, shut down.
fn a_host_is_one_paste_and_starts_what_the_lead_spawns(world: World) {
    world.create_team("acme");
    world.host_file("gpu-1", "slots = 2", agents::WILLING, "\n[profiles.missing]\ncommand = [\"no-such-program\"]");
    let invited = world.cli(LEAD, &["invite", "--host"]).succeeds().stdout;
    let host = HostProcess::start(&world, "gpu-1", &["--name", "gpu-1", "--join", invited.trim()]);
    let spawn = ["spawn", "backend", "--profile", "agent", "--prompt", "You own the API."];
    let spawned = world.cli(LEAD, &spawn).succeeds().stdout;
    assert!(spawned.ends_with("backend has started on gpu-1.\n"), "{spawned}");
    let prompt = eventually("the prompt", || host.heard("backend").into_iter().find(|line| line["type"] == "message"));
    assert_eq!(prompt["content"], "You own the API.");
    world.cli(LEAD, &["spawn", "other", "--profile", "missing"]).exits(3).complains_of("no-such-program");
    let status = world.cli(LEAD, &["status"]).succeeds().stdout;
    assert!(status.contains("1 host, 1 of 2 slots taken"), "{status}");
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    host.terminate().succeeds();
}

/// A host that is gone takes 10 s to count as lost, so this runs on one store.
#[test]
fn the_doctor_finds_a_lost_host_with_its_members() {
    let world = World::configured(
        "[limits]\nlease_ttl = \"10s\"\nlost_grace = \"0s\"\n[delivery]\nheartbeat_interval = \"5s\"\n",
    );
    world.create_team("acme");
    let mut host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[], 1));
    let spawning = world.spawn(LEAD, &["spawn", "backend", "--profile", "claude"], "");
    let order = host.next_order();
    let _runner = host.start(&world, &order, agents::WILLING).ready();
    spawning.output().succeeds();
    drop(host);
    let told = eventually("the host is lost", || {
        let told = world.cli(LEAD, &["doctor"]).stdout;
        told.contains("host lost").then_some(told)
    });
    assert!(told.contains("problem, host lost: The host gpu-1 has been lost for "), "{told}");
    assert!(
        told.contains("is responsible for backend") && told.contains("it finds the members that it started"),
        "{told}"
    );
    let status = world.cli(LEAD, &["status"]).succeeds().stdout;
    assert!(status.contains("1 host not answering"), "{status}");
}
