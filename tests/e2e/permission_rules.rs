//! Permission rules: a person adds them, runners answer by them, the history has each use, and a revocation counts at once.

use std::fs;

use serde_json::Value;

use crate::{
    agents,
    world::{LEAD, Runner, World, eventually},
};

scenarios! {
    a_runner_answers_by_a_rule_until_it_is_revoked,
    always_stores_the_rule_that_was_shown,
    an_agent_adds_no_rule,
    a_rule_that_says_too_little_is_refused,
    a_team_files_rules_are_confirmed_before_they_are_stored,
}

/// Starts an agent program as backend.
fn backend(world: &World) -> Runner {
    let join_string = world.invite("backend");
    world.run_program("backend", &["--join", &join_string, "--via", "acp"], agents::ACP).ready()
}

/// Has backend's program ask for a command.
fn has_it_ask(world: &World, command: &str) {
    world.cli(LEAD, &["send", "backend", &format!("Use Bash: [[{command}]]")]).succeeds();
}

/// Waits for an answer that the program got.
fn await_answers(world: &World, expected: &[&str]) {
    let answers = || fs::read_to_string(world.home("backend").join("answers")).unwrap_or_default();
    eventually(&format!("the answers {expected:?}, not {:?}", answers()), || {
        (answers().lines().collect::<Vec<_>>() == expected).then_some(())
    });
}

fn await_request(world: &World, command: &str) -> String {
    let is_it = |message: &Value| message["type"] == "permission_request" && message.to_string().contains(command);
    world.await_inbox(LEAD, command, is_it)["request_id"].as_str().unwrap().to_owned()
}

/// Returns what the history says about rules: what happened, and for what.
fn events(world: &World) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |entry: Value| Some((text(&entry.get("permission")?["kind"]), text(&entry["permission"]["detail"])));
    world.history(LEAD).into_iter().filter_map(of).collect()
}

fn a_runner_answers_by_a_rule_until_it_is_revoked(world: World) {
    world.create_team("acme");
    let backend = backend(&world);
    let allow = ["permission", "allow", "--tool", "execute", "--command", "cargo  test *", "--member", "backend"];
    let added = world.cli(LEAD, &allow).succeeds();
    added.complains_of("Any further words include options");
    let rules = world.cli("backend", &["permission", "rules", "--json"]).succeeds().lines();
    assert_eq!((&rules[0]["command"], &rules[0]["added_by"]["name"]), (&"cargo test *".into(), &LEAD.into()));
    let id = rules[0]["id"].to_string();

    has_it_ask(&world, "cargo test --all");
    await_answers(&world, &["yes"]);
    backend.await_log("permitted by rule 1: execute to run `cargo test` with any further words");
    let used = [("added", ""), ("used", "cargo test --all")].map(|(kind, what)| (kind.to_owned(), what.to_owned()));
    assert_eq!(events(&world), used);
    let history = world.cli(LEAD, &["history"]).succeeds().stdout;
    assert!(history.contains("permission rule 1 permitted backend to use execute: cargo test --all"), "{history}");
    assert!(!history.contains("(permission_request)"), "no one was asked: {history}");

    // A rule matches nothing else.
    has_it_ask(&world, "cargo test; rm -rf /");
    let request = await_request(&world, "rm -rf /");
    world.cli(LEAD, &["reject", &request, "--yes"]).succeeds();
    await_answers(&world, &["yes", "no"]);

    let revoked = world.cli(LEAD, &["permission", "revoke", &id]).succeeds().stdout;
    assert!(revoked.contains("Revoked rule 1: backend may use execute to run `cargo test`"), "{revoked}");
    has_it_ask(&world, "cargo test --all");
    let request = await_request(&world, "cargo test --all");
    world.cli(LEAD, &["approve", &request, "--yes"]).succeeds();
    await_answers(&world, &["yes", "no", "yes"]);
    assert_eq!(events(&world).iter().filter(|(kind, _)| kind == "used").count(), 1);
    world.cli(LEAD, &["permission", "revoke", &id]).exits(1).complains_of("There is no permission rule 1.");
    drop(backend);
}

fn always_stores_the_rule_that_was_shown(world: World) {
    world.create_team("acme");
    let backend = backend(&world);
    has_it_ask(&world, "make a b");
    let request = await_request(&world, "make a b");
    let approved = world.cli(LEAD, &["approve", &request, "--always"]).succeeds();
    approved.complains_of("backend may use execute to run exactly `make a b`.");
    await_answers(&world, &["yes"]);
    has_it_ask(&world, "make a b");
    await_answers(&world, &["yes", "yes"]);

    // In the walk, one more key stores it, for the member or the team, and any other key goes back.
    has_it_ask(&world, "make c");
    await_request(&world, "make c");
    let mut terminal = world.at_terminal(LEAD, &["approve"]);
    terminal.shows("[q]uit: ");
    terminal.presses("w");
    let shown = terminal.shows("goes back: ");
    assert!(shown.contains("backend may use execute to run exactly `make c`."), "{shown}");
    terminal.presses("x");
    terminal.shows("not stored");
    terminal.shows("[q]uit: ");
    assert_eq!(world.cli(LEAD, &["permission", "rules", "--json"]).succeeds().lines().len(), 1);
    terminal.presses("w");
    terminal.shows("goes back: ");
    terminal.presses("t");
    terminal.shows("Added rule 2: Every member may use execute to run exactly `make c`.");
    terminal.shows("Nothing else waits");
    assert_eq!(terminal.ends().0, Some(0));
    await_answers(&world, &["yes", "yes", "yes"]);
    let listed = world.cli(LEAD, &["permission", "rules"]).succeeds().stdout;
    assert!(listed.contains("to run exactly `make a b`") && listed.contains("(every member)"), "{listed}");

    has_it_ask(&world, "make d | sh");
    let request = await_request(&world, "make d | sh");
    world.cli(LEAD, &["approve", &request, "--always"]).exits(64).complains_of("it contains `|`");
    assert_eq!(world.cli(LEAD, &["requests", &request, "--json"]).succeeds().json()["state"], "pending");
    world.cli(LEAD, &["reject", &request, "--yes"]).succeeds();
    drop(backend);
}

fn an_agent_adds_no_rule(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.join("bob");
    let sent =
        world.cli("ann", &["permission", "request", "--tool", "Bash", "--summary", "x", "--approver", "bob", "--json"]);
    let id = sent.succeeds().json()["request_id"].as_str().unwrap().to_owned();
    let allow = ["permission", "allow", "--tool", "Bash", "--command", "ls"];
    world.cli("ann", &allow).exits(77).complains_of("Only the team's lead may add permission rules");
    world.cli("ann", &["permission", "revoke", "1"]).exits(77).complains_of("LEAD_ONLY");
    let within = [("TEAMWIRE_RUN", "x"), ("TEAMWIRE_MEMBER", LEAD)];
    for command in [&allow[..], &["approve", &id, "--always"]] {
        let refused = world.cli_in(LEAD, command, &within);
        assert_eq!(refused.code, 77, "{}{}", refused.stdout, refused.stderr);
    }
    assert!(world.cli(LEAD, &["permission", "rules", "--json"]).succeeds().lines().is_empty());
}

fn a_rule_that_says_too_little_is_refused(world: World) {
    world.create_team("acme");
    let refused = |extent: &[&str], why: &str| {
        let allow = [&["permission", "allow", "--tool", "Bash"], extent].concat();
        world.cli(LEAD, &allow).exits(64).complains_of(why);
    };
    refused(&[], "Say what the rule permits");
    refused(&["--command", "*"], "would permit every command");
    refused(&["--command", "sudo *"], "sudo can run any command");
    refused(&["--command", "git *"], "Write at least the next word");
    refused(&["--command", "make; ls"], "it contains `;`");
    refused(&["--path", "../x"], "without `.`, `..`");
    refused(&["--command", "ls", "--any"], "cannot be used with");
    let added = world.cli(LEAD, &["permission", "allow", "--tool", "Bash", "--command", "ls", "--member", "zed"]);
    added.succeeds().complains_of("The team has no member zed.");
}

fn a_team_files_rules_are_confirmed_before_they_are_stored(world: World) {
    let file = world.home(LEAD).join("team.toml");
    let write = |rules: &str| fs::write(&file, format!("name = \"acme\"\n\n[permissions]\n{rules}\n")).unwrap();
    let path = file.to_str().unwrap();
    let up = |options: &[&str]| world.cli(LEAD, &[&["up", path, "--no-open"], options].concat());
    write("rules = [{ tool = \"Bash\", command = \"git *\" }]");
    up(&["--accept-permissions"])
        .exits(64)
        .complains_of("team.toml:4: permissions.rules.command: `git` with any further");
    write("rules = [{ tool = \"Bash\", command = \"git status *\" }, { tool = \"Edit\", path = \"docs/\" }]");
    let refused = up(&[]).exits(64).complains_of("--accept-permissions");
    refused.complains_of("Every member may use Bash to run `git status` with any further words.");
    assert!(!world.cli(LEAD, &["status", "--team", "acme"]).stdout.contains("acme"), "nothing was done");
    let planned = up(&["--dry-run"]).succeeds().stdout;
    assert!(planned.contains("Would add a permission rule: Every member may use Edit on every file in `docs/`."));
    let added = up(&["--accept-permissions"]).succeeds().stdout;
    assert!(added.contains("Added permission rule 2: Every member may use Edit"), "{added}");
    // The same rules need no confirmation, whatever else changes in the file.
    write("rules = [{ tool = \"Bash\", command = \"git  status *\" }, { tool = \"Edit\", path = \"docs/\" }]");
    let again = up(&[]).succeeds().stdout;
    assert!(again.contains("There is permission rule 1."), "{again}");
    // An agent merges one more.
    write("rules = [{ tool = \"Bash\", command = \"git status *\" }, { tool = \"Edit\", path = \"./\" }]");
    up(&[]).exits(64).complains_of("on every file in its working directory");
    let mut terminal = world.at_terminal(LEAD, &["up", path, "--no-open"]);
    terminal.shows("Confirm these rules? [y/N]");
    terminal.types("n\n");
    assert_eq!(terminal.ends().0, Some(1));
    let mut terminal = world.at_terminal(LEAD, &["up", path, "--no-open"]);
    terminal.shows("Confirm these rules? [y/N]");
    terminal.types("y\n");
    terminal.shows("Added permission rule 3");
    assert_eq!(terminal.ends().0, Some(0));
    up(&[]).succeeds();
    world.cli(LEAD, &["down"]).succeeds();
}
