//! The help of commands, ids and what a terminal shows, as a newcomer meets them.

use crate::{
    agents,
    world::{LEAD, ScriptedHost, World, offer},
};

#[test]
fn an_id_may_be_short_or_last_and_names_complete_on_tab() {
    let world = World::embedded();
    world.create_team("acme");
    world.join("ann");
    world.cli("ann", &["plan", "submit", "Read, then write."]).succeeds();
    let request = world.cli(LEAD, &["requests", "--json"]).succeeds().json();
    let id = request["id"].as_str().unwrap();
    for typed in [id, &id[..10], &id[4..12], &id[id.len() - 6..], "last"] {
        let found = world.cli(LEAD, &["requests", typed, "--json"]).succeeds().json();
        assert_eq!(found["id"], id, "{typed}");
    }
    world.cli(LEAD, &["approve", "last"]).succeeds();
    let state = world.cli(LEAD, &["requests", "last", "--json"]).succeeds().json()["state"].clone();
    assert_eq!(state, "approved");
    let shown = world.cli("ann", &["message", "show", "last", "--json"]).succeeds().json();
    assert_eq!(shown["message"]["type"], "plan_approval_response", "{shown}");

    // What one has just sent is newer than what waits in the inbox; a reply answers what was received.
    world.cli("ann", &["send", "lead", "thanks"]).succeeds();
    let shown = world.cli("ann", &["message", "show", "last", "--json"]).succeeds().json();
    assert_eq!(shown["message"]["content"], "thanks", "{shown}");
    let answered_type = |from: &str, to: &str| {
        world.cli(from, &["send", to, "once more", "--in-reply-to", "last"]).succeeds();
        let shown = world.cli(from, &["message", "show", "last", "--json"]).succeeds().json();
        let answered = shown["message"]["in_reply_to"].as_str().unwrap();
        world.cli(from, &["message", "show", answered, "--json"]).succeeds().json()["message"]["type"].clone()
    };
    assert_eq!(answered_type("ann", "lead"), "plan_approval_response");
    world.cli("ann", &["inbox", "ack", "last"]).succeeds();
    assert_eq!(answered_type("ann", "lead"), "plan_approval_response", "with an empty inbox");
    world.join("bob");
    world.cli("bob", &["leave"]).succeeds();
    let newest = world.cli(LEAD, &["inbox", "--json"]).succeeds().stdout;
    assert!(newest.lines().last().unwrap().contains("member_exited"), "{newest}");
    assert_eq!(answered_type(LEAD, "ann"), "message", "nobody replies to a notice");

    let complete = |words: &[&str]| {
        let arguments = [&["--", "teamwire"], words].concat();
        world.cli_in(LEAD, &arguments, &[("TEAMWIRE_COMPLETE", "fish")]).succeeds().stdout
    };
    assert!(complete(&["shutdown", "a"]).starts_with("ann"), "members");
    assert!(complete(&["team", "delete", ""]).contains("acme"), "teams");
    assert!(complete(&["shut"]).contains("shutdown"), "commands");
    let _host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[], 1));
    assert!(complete(&["spawn", "bob", "--on", ""]).starts_with("gpu-1"), "hosts");
    assert!(complete(&["spawn", "bob", "--profile", "c"]).starts_with("claude"), "profiles");
}

#[cfg(target_os = "linux")]
#[test]
fn a_narrow_terminal_breaks_no_heading() {
    let world = World::embedded();
    world.create_team("acme");
    world.cli(LEAD, &["task", "create", "Read the plan of the new release and write down what is missing"]).succeeds();
    for (columns, commands) in
        [(40, ["status", "task list", "team list --as operator"]), (200, ["status", "task list", "whoami"])]
    {
        for typed in commands {
            let script = format!("script --quiet --command \"stty cols {columns}; '$0' {typed}\" /dev/null");
            let shown = world.spawn_shell(LEAD, &script).output().succeeds().stdout;
            let headings = match typed {
                "status" => ["MEMBER", "ROLE", "STATE", "SINCE", "INBOX", "LIFE"].as_slice(),
                "task list" => &["TASK", "STATUS", "UPDATED", "SUBJECT"],
                "team list --as operator" => &["TEAM", "LEAD", "MEMBERS", "CREATED"],
                _ => &[],
            };
            for heading in headings {
                assert!(shown.contains(heading), "{columns} columns, {heading}: {shown}");
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_shows_what_a_command_waits_for() {
    let world = World::embedded();
    world.create_team("acme");
    world.join("ann");
    let typed = "shutdown ann --wait --deadline 2";
    let waiting = world.spawn_shell(LEAD, &format!("TERM=xterm script --quiet --command \"$0 {typed}\" /dev/null"));
    waiting.await_said("ann has not read the shutdown request; 0:0");
    let output = waiting.output();
    assert!(output.stdout.contains("expired"), "{}", output.stdout);
    let output = world.cli(LEAD, &["requests", "last", "--wait", "1h", "--json"]);
    assert!(output.stderr.contains("expired") && !output.stderr.contains("left"), "{}", output.stderr);
}

#[test]
fn what_commands_print_as_json_follows_the_published_schema() {
    let schema = include_str!("../../docs/cli.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let world = World::embedded();
    let follows = |command: &str, lines: Vec<serde_json::Value>| {
        let mut of_command = schema["properties"][command].clone();
        assert!(of_command.is_object(), "the schema has `{command}`");
        of_command["$defs"] = schema["$defs"].clone();
        let validator = jsonschema::validator_for(&of_command).unwrap();
        assert!(!lines.is_empty(), "`{command}` prints something");
        for line in lines {
            let errors: Vec<String> = validator.iter_errors(&line).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "`{command}` printed {line}: {errors:?}");
        }
    };
    let check = |identity: &str, command: &str, arguments: &[&str]| {
        follows(command, world.cli(identity, &[arguments, &["--json"]].concat()).succeeds().lines());
    };
    check(LEAD, "team create", &["team", "create", "acme"]);
    check(LEAD, "invite", &["invite", "bob"]);
    world.join("ann");
    check(LEAD, "send", &["send", "ann", "Hello."]);
    check("ann", "inbox", &["inbox"]);
    check("ann", "message show", &["message", "show", "last"]);
    check("ann", "plan submit", &["plan", "submit", "Read, then write."]);
    check(LEAD, "requests", &["requests"]);
    check(LEAD, "approve", &["approve", "last"]);
    let ask = ["permission", "request", "--tool", "Bash", "--summary", "clean up"];
    check("ann", "permission request", &ask);
    check("ann", "permission withdraw", &["permission", "withdraw", "last"]);
    check("ann", "permission request", &ask);
    check(LEAD, "permission approve", &["permission", "approve", "last"]);
    check(LEAD, "permission allow", &["permission", "allow", "--tool", "Bash", "--command", "make test *"]);
    check("ann", "permission rules", &["permission", "rules"]);
    check(LEAD, "permission revoke", &["permission", "revoke", "1"]);
    check(LEAD, "history", &["history"]);
    check(LEAD, "task create", &["task", "create", "Write the migration"]);
    check("ann", "task next", &["task", "next"]);
    check("ann", "task show", &["task", "show", "1"]);
    check("ann", "task complete", &["task", "complete", "1"]);
    check(LEAD, "task list", &["task", "list"]);
    check(LEAD, "tag", &["tag", "ann", "api"]);
    check("ann", "subscribe task", &["subscribe", "task", "1"]);
    check("ann", "subscribe idle", &["subscribe", "idle", LEAD]);
    check("ann", "subscribe exit", &["subscribe", "exit", LEAD]);
    check("ann", "subscribe file", &["subscribe", "file", "src/*.rs", "--for", "1h"]);
    check("ann", "subscribe list", &["subscribe", "list"]);
    check("ann", "subscribe cancel", &["subscribe", "cancel", "exit/lead"]);
    check(LEAD, "invite", &["invite", "--host"]);
    let mut host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[("gpu", "a100")], 2));
    check(LEAD, "hosts", &["hosts"]);
    check(LEAD, "spawn --no-wait", &["spawn", "tester", "--profile", "claude", "--plan", "--no-wait"]);
    host.next_order();
    let spawning = world.spawn(LEAD, &["spawn", "backend", "--profile", "claude", "--json"], "");
    let order = host.next_order();
    let _backend = host.start(&world, &order, agents::WILLING);
    follows("spawn", spawning.output().succeeds().lines());
    check(LEAD, "requests", &["requests"]);
    check(LEAD, "status", &["status"]);
    check("ann", "whoami", &["whoami"]);
    check(LEAD, "shutdown --force", &["shutdown", "ann", "--force"]);
    check(LEAD, "history", &["history", "--all"]);
    check(LEAD, "health", &["health"]);
}
