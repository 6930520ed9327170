//! Which identity a command uses, and what it says when none fits.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _, time::Instant};

use serde_json::Value;

use crate::{
    agents,
    world::{LEAD, TEAMWIRE, World, eventually},
};

const REFUSED: i32 = 1;
const USAGE: i32 = 64;
const UNREACHABLE: i32 = 69;
const NOT_PERMITTED: i32 = 77;

scenarios! {
    a_command_that_names_a_team_uses_the_identity_of_that_team,
    without_an_identity_the_teams_and_what_to_do_are_named,
    a_runner_keeps_its_identity_apart_from_its_users,
    within_a_runner_no_other_identity_is_used,
    a_lead_is_asked_before_it_leaves_and_may_hand_over,
    a_runner_takes_over_its_users_identity_only_if_confirmed_and_says_how_to_undo_it,
}

fn a_command_that_names_a_team_uses_the_identity_of_that_team(world: World) {
    world.create_team("blue");
    world.create_team("acme");
    world.cli(LEAD, &["use", "lead@acme"]).succeeds();
    let shown = world.cli(LEAD, &["team", "show", "blue"]).succeeds();
    assert!(shown.stdout.contains("you are lead"), "{}", shown.stdout);
    // As the operator, it would be refused because of blue's lead, which is the same person.
    world.cli(LEAD, &["team", "delete", "blue", "--yes"]).succeeds();
    assert!(world.cli(LEAD, &["whoami"]).succeeds().stdout.starts_with("lead@acme"));

    // Of several identities in the team, the lead's.
    let pasted = world.invite("ann");
    world.cli(LEAD, &["join", &pasted]).succeeds();
    world.create_team("green");
    world.cli(LEAD, &["--team", "acme", "status"]).exits(USAGE).complains_of("ann@acme, lead@acme");
    let several = world.cli(LEAD, &["--team", "acme", "status"]);
    assert!(!several.stderr.contains("green"), "{}", several.stderr);
    world.cli(LEAD, &["use", "ann@acme"]).succeeds();
    world.cli(LEAD, &["invite", "ben"]).exits(NOT_PERMITTED).complains_of("--as lead@acme");
    world.cli(LEAD, &["leave"]).succeeds();
    world.cli(LEAD, &["team", "delete", "acme", "--yes"]).succeeds();

    // The only saved identity is of another team.
    let pasted = world.cli(LEAD, &["--team", "green", "invite", "zoe"]).succeeds().stdout.trim().to_owned();
    world.cli("zoe", &["join", &pasted]).succeeds();
    let other = world.cli("zoe", &["--team", "acme", "status"]).exits(NOT_PERMITTED);
    other.complains_of("no identity in team acme").complains_of("zoe@green");
}

fn without_an_identity_the_teams_and_what_to_do_are_named(world: World) {
    world
        .cli(LEAD, &["status"])
        .exits(REFUSED)
        .complains_of("There is no team yet. Create one: teamwire team create NAME");
    let run = ["run", "backend", "--echo"];
    world.cli(LEAD, &run).exits(REFUSED).complains_of("There is no team yet. Create one: teamwire team create NAME");
    let of_members: [&[&str]; 4] = [&["inbox"], &["leave"], &["notices"], &["task", "next"]];
    for typed in of_members {
        world
            .cli(LEAD, typed)
            .exits(REFUSED)
            .complains_of("There is no team yet. Create one: teamwire team create NAME");
    }
    world.create_team("acme");
    world.create_team("blue");
    world.cli(LEAD, &["team", "delete", "--yes"]).succeeds();
    for typed in of_members {
        let refused = world.cli(LEAD, typed).exits(USAGE).complains_of("Only a member can do this");
        refused.complains_of("The teams are: acme").complains_of("teamwire use lead@acme");
    }
    let left = world.cli(LEAD, &["status"]).exits(REFUSED);
    left.complains_of("The teams are: acme").complains_of("--team acme").complains_of("teamwire use lead@acme");
    world.cli(LEAD, &["use", "lead@acme"]).succeeds();
    world.cli(LEAD, &["leave", "--yes"]).succeeds();
    world.cli(LEAD, &["task", "list"]).exits(REFUSED).complains_of("teamwire --team acme status");
    world.cli(LEAD, &run).exits(REFUSED).complains_of("The teams are: acme");
    let unknown = world.cli(LEAD, &["--as", "operator", "team", "delete", "nosuch"]).exits(REFUSED);
    let unknown = unknown.complains_of("There is no team \"nosuch\"").complains_of("teamwire team list");
    assert!(!unknown.stderr.contains("You act as the operator"), "{}", unknown.stderr);
    world.cli(LEAD, &["--team", "acme", "status"]).succeeds();
}

fn a_runner_keeps_its_identity_apart_from_its_users(world: World) {
    world.create_team("acme");
    let program = agents::script(agents::WILLING);
    let runner = world.spawn(LEAD, &["run", "backend", "--", "sh", "-c", &program], "");
    eventually("the teammate runs", || world.member("backend")["connected"].as_bool().filter(|is| *is));
    let context = fs::read_to_string(world.home(LEAD).join("context.json")).unwrap();
    assert!(!context.contains("backend"), "the person's file holds only the person's identities");
    let listed = || world.cli(LEAD, &["identities", "--json"]).succeeds().lines();
    let named = |name: &str| listed().into_iter().find(|identity| identity["member"] == name).unwrap_or(Value::Null);
    assert_eq!((&named("lead")["current"], &named("lead")["runner"]), (&true.into(), &false.into()));
    assert_eq!((&named("backend")["runner"], &named("backend")["team"]), (&true.into(), &"acme".into()));
    // Only a command that says so acts as the runner's member.
    world.cli(LEAD, &["--team", "acme", "status"]).succeeds();
    assert!(world.cli(LEAD, &["--as", "backend", "whoami"]).succeeds().stdout.starts_with("backend@acme"));
    world.cli(LEAD, &["use", "backend"]).exits(USAGE).complains_of("--as backend@acme");

    runner.terminate().exits(143);
    assert_eq!(named("backend")["state"], "exited", "it may come back");
    let again = world.spawn(LEAD, &["run", "backend", "--", "sh", "-c", &program], "");
    eventually("it is back", || (world.member("backend")["connected"] == true).then_some(()));
    assert_eq!(world.member("backend")["incarnation"], 2);
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    again.output().succeeds();
    assert_eq!(named("backend")["state"], "ended");
    world.cli(LEAD, &["identities", "--prune"]).succeeds();
    assert_eq!(named("backend"), Value::Null);
    assert_eq!(named("lead")["member"], "lead");
}

fn within_a_runner_no_other_identity_is_used(world: World) {
    world.create_team("acme");
    let home = world.home(LEAD);
    let lead = world.credential(LEAD);
    let command = |name: &str, line: &str| format!("{line} >{0}/{name} 2>&1; echo $? >>{0}/{name}; ", home.display());
    let script = [
        command("own", &format!("{TEAMWIRE} whoami")),
        command("bare", &format!("env -u TEAMWIRE_CREDENTIAL {TEAMWIRE} whoami")),
        command("as", &format!("{TEAMWIRE} --as lead whoami")),
        command("flag", &format!("{TEAMWIRE} --credential {lead} whoami")),
        command("swapped", &format!("TEAMWIRE_CREDENTIAL={lead} {TEAMWIRE} whoami")),
        command("use", &format!("{TEAMWIRE} use lead@acme")),
        "echo >done; cat >/dev/null".to_owned(),
    ]
    .concat();
    let runner = world.spawn(LEAD, &["run", "backend", "--", "sh", "-c", &script], "");
    eventually("the program has tried them all", || home.join("done").exists().then_some(()));
    let said = |name: &str| fs::read_to_string(home.join(name)).unwrap();
    assert!(said("own").starts_with("backend@acme") && said("own").ends_with("\n0\n"), "{}", said("own"));
    for other in ["bare", "as", "flag", "swapped", "use"] {
        let said = said(other);
        assert!(said.contains("runs under `teamwire run`") && said.ends_with("\n77\n"), "{other}: {said}");
        assert!(!said.contains("lead@acme at"), "{other}: {said}");
    }
    world.cli(LEAD, &["shutdown", "backend", "--force"]).succeeds();
    runner.output().exits(NOT_PERMITTED);
}

fn a_runner_takes_over_its_users_identity_only_if_confirmed_and_says_how_to_undo_it(world: World) {
    world.create_team("acme");
    let taken = world.cli(LEAD, &["run", "LEAD", "--", "true"]).exits(USAGE);
    taken.complains_of("lead@acme is your own identity").complains_of("--yes").complains_of("teamwire join");
    assert_eq!(world.member("lead")["incarnation"], 1);
    // Another identity of the same person.
    world.cli(LEAD, &["join", &world.invite("ann")]).succeeds();
    let taken = world.cli(LEAD, &["run", "lead", "--", "true"]).exits(USAGE);
    taken.complains_of("teamwire --as lead@acme join");
    world.cli(LEAD, &["use", "lead"]).succeeds();
    world.cli(LEAD, &["join"]).exits(USAGE).complains_of("You are lead@acme already");

    let program = agents::script(agents::WILLING);
    let runner = world.spawn(LEAD, &["run", "lead", "--yes", "--", "sh", "-c", &program], "");
    // While the runner takes the identity over, its last credential is refused.
    let is_connected = || {
        let status = world.cli(LEAD, &["--as", "ann", "status", "--json"]).succeeds().json();
        let members = status["members"].as_array().unwrap();
        members.iter().any(|member| member["name"] == "lead" && member["connected"] == true).then_some(())
    };
    eventually("the runner is connected", is_connected);
    world.cli(LEAD, &["join"]).exits(REFUSED).complains_of("End it before you join again");
    runner.terminate().exits(143).complains_of("To continue as lead@acme at the command line: teamwire join");
    world
        .cli(LEAD, &["status"])
        .exits(NOT_PERMITTED)
        .complains_of("To continue as lead@acme at the command line: teamwire join");
    world.cli(LEAD, &["--as", "ann", "status"]).succeeds();

    world.cli(LEAD, &["join"]).succeeds();
    let lead = world.member("lead");
    assert_eq!(
        (&lead["incarnation"], &lead["role"], &lead["liveness"]),
        (&3.into(), &"lead".into(), &"detached".into())
    );
    // A runner that was asked to end cannot come back by itself.
    let runner = world.spawn(LEAD, &["run", "ann", "--yes", "--", "sh", "-c", &program], "");
    eventually("ann is connected", || (world.member("ann")["connected"] == true).then_some(()));
    world.cli(LEAD, &["shutdown", "ann", "--wait"]).succeeds();
    runner.output().succeeds().complains_of("ann@acme was removed from your identities");
    world.cli(LEAD, &["--as", "ann", "whoami"]).exits(USAGE);
}

#[test]
fn a_new_lead_that_may_be_unable_to_lead_must_be_confirmed() {
    // A lease is short, so that a member is soon lost.
    let world = World::configured(
        "[limits]\nlease_ttl = \"10s\"\nlost_grace = \"0s\"\n[delivery]\nheartbeat_interval = \"5s\"\n",
    );
    world.create_team("acme");
    let asked = world.run("asked", &[], agents::SLOW).ready();
    world.cli(LEAD, &["shutdown", "asked"]).succeeds();
    let lost = world.run("lost", &[], agents::WILLING).ready();
    lost.kill();
    world.join("gone");
    world.cli("gone", &["leave"]).succeeds();
    eventually("the member is lost", || (world.member("lost")["state"] == "lost").then_some(()));
    for hand_over in [&["leave", "--hand-over-to"][..], &["team", "lead"]] {
        let to = |who: &str| world.cli(LEAD, &[hand_over, &[who]].concat());
        to("asked").exits(USAGE).complains_of("asked has been asked to shut down").complains_of("--yes");
        to("Lost@acme").exits(USAGE).complains_of("lost has been lost since").complains_of("--yes");
        let gone = world.cli(LEAD, &[hand_over, &["gone", "--yes"]].concat()).exits(REFUSED);
        gone.complains_of("gone has exited. Name another member");
    }
    assert_eq!(world.member("lead")["role"], "lead");
    world.cli(LEAD, &["leave", "--hand-over-to", "lost", "--yes"]).succeeds();
    let status = world.cli(LEAD, &["--as", "operator", "--team", "acme", "status", "--json"]).succeeds().json();
    assert_eq!(status["team"]["lead"], "lost");
    drop(asked);
}

fn a_lead_is_asked_before_it_leaves_and_may_hand_over(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.cli(LEAD, &["leave"]).exits(USAGE).complains_of("--hand-over-to").complains_of("--yes");
    assert_eq!(world.member("lead")["role"], "lead");
    // Handing over to oneself would leave the team without a lead.
    for itself in ["lead", "LEAD", "team-lead"] {
        world.cli(LEAD, &["leave", "--hand-over-to", itself]).exits(USAGE).complains_of("another member");
    }
    assert_eq!(world.member("lead")["role"], "lead");
    world.cli(LEAD, &["leave", "--hand-over-to", "ann"]).succeeds();
    let status = world.cli("ann", &["status", "--json"]).succeeds().json();
    assert_eq!(status["team"]["lead"], "ann");
    // Without a terminal, no one can answer.
    world.cli("ann", &["team", "delete"]).exits(USAGE).complains_of("--yes");
    world.cli("ann", &["team", "show"]).succeeds();
    world.cli("ann", &["team", "delete", "--yes"]).succeeds();
}

#[cfg(target_os = "linux")]
#[test]
fn a_takeover_is_confirmed_at_a_terminal() {
    let world = World::embedded();
    world.create_team("acme");
    let at_terminal = |answer: &str| {
        let run = format!("echo {answer} | script --quiet --return --command '{TEAMWIRE} run lead -- true' /dev/null");
        world.spawn_shell(LEAD, &run).output()
    };
    let kept = at_terminal("n").exits(REFUSED);
    assert!(kept.stdout.contains("lead@acme is your own identity") && kept.stdout.contains("[y/N]"), "{}", kept.stdout);
    assert_eq!(world.member("lead")["incarnation"], 1);
    at_terminal("y").succeeds();
    world.cli(LEAD, &["join"]).succeeds();
    assert_eq!(world.member("lead")["incarnation"], 3);
}

#[cfg(target_os = "linux")]
#[test]
fn deletion_is_confirmed_at_a_terminal() {
    let world = World::embedded();
    world.create_team("acme");
    let at_terminal = |answer: &str| {
        let delete = format!("echo {answer} | script --quiet --return --command '{TEAMWIRE} team delete' /dev/null");
        world.spawn_shell(LEAD, &delete).output()
    };
    let kept = at_terminal("n").exits(REFUSED);
    assert!(kept.stdout.contains("Team acme will be deleted") && kept.stdout.contains("[y/N]"), "{}", kept.stdout);
    world.cli(LEAD, &["team", "show"]).succeeds();
    at_terminal("y").succeeds();
    world.cli(LEAD, &["status"]).exits(REFUSED).complains_of("There is no team yet");
}

#[test]
fn empty_variables_are_unset() {
    let world = World::embedded();
    world.create_team("acme");
    for name in
        ["AS", "TEAM", "CREDENTIAL", "TIMEOUT", "ADDRESS", "CA", "CERT", "KEY", "JOIN", "RUN", "STORE", "CONFIG"]
    {
        let name = format!("TEAMWIRE_{name}");
        let shown = world.cli_in(LEAD, &["status", "--json"], &[(&name, "")]).succeeds().json();
        assert_eq!(shown["team"]["name"], "acme", "{name}");
    }
    // These have defaults below HOME.
    let home = world.home(LEAD);
    let state = home.join(".local/state/teamwire");
    fs::create_dir_all(state.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(world.coordinator.state_directory(), &state).unwrap();
    let empty = [("TEAMWIRE_CONTEXT", ""), ("TEAMWIRE_STATE_DIR", "")];
    world.cli_in(LEAD, &["team", "list"], &empty).succeeds();
    let run = ["run", "ann", "--", "true"];
    world.cli_in(LEAD, &run, &[("TEAMWIRE_JOIN", "")]).succeeds();
}

#[test]
fn a_missing_local_coordinator_is_reported_at_once_unless_a_timeout_is_set() {
    let world = World::embedded();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nowhere = format!("http://127.0.0.1:{port}");
    let credential = world.operator();
    let absent = ["status", "--address", &nowhere, "--credential", &credential, "--team", "acme"];
    let began = Instant::now();
    let unset = [("TEAMWIRE_TIMEOUT", "")];
    let failed = world.cli_in("eve", &absent, &unset).exits(UNREACHABLE);
    let took = began.elapsed();
    let failed = failed.complains_of("Nothing listens at").complains_of("`teamwire up` starts a team");
    assert!(!failed.stderr.contains("Waiting"), "{}", failed.stderr);
    // Without this rule, it takes at least 10 s.
    assert!(took.as_secs() < 8, "{took:?}");
    let follow = [&["history", "--follow"][..], &absent[1..]].concat();
    world.cli_in("eve", &follow, &unset).exits(UNREACHABLE).complains_of("teamwire serve");

    // With a timeout, a command waits, and says for what.
    let patient = [("TEAMWIRE_TIMEOUT", "6")];
    let waited = world.cli_in("eve", &absent, &patient).exits(UNREACHABLE);
    waited.complains_of(&format!("Waiting for the coordinator at {nowhere} (connection refused); giving up in "));
    let json = [&absent[..], &["--json"]].concat();
    let error = world.cli_in("eve", &json, &[("TEAMWIRE_TIMEOUT", "1")]).exits(UNREACHABLE).error();
    assert!(error["message"].as_str().unwrap().contains("teamwire serve"), "{error}");
}

#[test]
fn a_state_directory_or_credential_file_open_to_other_users_is_not_trusted() {
    let world = World::embedded();
    let state = world.coordinator.state_directory();
    let set = |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let file = state.join("operator.credential");
    for (path, open, private) in [(&state, 0o777, 0o700), (&file, 0o644, 0o600)] {
        set(path, open);
        let refused = world.cli(LEAD, &["team", "list"]).exits(NOT_PERMITTED);
        refused.complains_of(&format!("chmod {private:o} {}", path.display()));
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        world.cli(LEAD, &serve).exits(NOT_PERMITTED).complains_of("not trusted");
        set(path, private);
    }
    world.cli(LEAD, &["team", "list"]).succeeds();
}

#[test]
fn an_identity_that_other_users_could_have_modified_is_not_used() {
    let world = World::embedded();
    world.create_team("acme");
    let home = world.home(LEAD);
    let set = |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let directory = home.join("shared");
    fs::create_dir(&directory).unwrap();
    let file = directory.join("context.json");
    fs::rename(home.join("context.json"), &file).unwrap();
    let link = home.join("link.json");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    set(&directory, 0o700);
    let with = |context: &std::path::Path, arguments: &[&str]| {
        world.cli_in(LEAD, arguments, &[("TEAMWIRE_CONTEXT", context.to_str().unwrap())])
    };
    for (path, open, private, mend) in [(&file, 0o622, 0o600, "chmod 600"), (&directory, 0o777, 0o700, "chmod go-w")] {
        set(path, open);
        for context in [&file, &link] {
            // One that only reads the file, and one that writes it.
            for arguments in [&["status"][..], &["use", "lead"]] {
                let refused = with(context, arguments).exits(NOT_PERMITTED).complains_of("not trusted");
                refused.complains_of(&format!("(mode {open:o})")).complains_of(&format!("{mend} {}", path.display()));
            }
        }
        set(path, private);
    }
    let invited = with(&link, &["invite", "ann"]).succeeds().stdout;
    // No file yet: others could replace the one that would be written.
    set(&directory, 0o777);
    let new = directory.join("new.json");
    with(&new, &["join", invited.trim()]).exits(NOT_PERMITTED).complains_of("chmod go-w");
    set(&directory, 0o700);
    with(&new, &["join", invited.trim()]).succeeds();
}

#[test]
fn a_credential_for_https_is_not_sent_over_http() {
    let world = World::with_tls();
    world.create_team("acme");
    let plain = world.coordinator.address().replace("https://", "http://");
    for environment in
        [("TEAMWIRE_ADDRESS", plain.as_str()), ("TEAMWIRE_ADDRESS", plain.strip_prefix("http://").unwrap())]
    {
        world.cli_in(LEAD, &["status"], &[environment]).exits(USAGE).complains_of("not sent over http");
        world.cli_in(LEAD, &["--as", "operator", "team", "list"], &[environment]).exits(USAGE);
    }
    world.cli(LEAD, &["status", "--address", &plain]).exits(USAGE).complains_of("https://");
    world.cli(LEAD, &["status"]).succeeds();
    let pasted = world.invite("ann");
    world.cli("ann", &["join", &pasted, "--address", &plain]).exits(USAGE).complains_of("not sent over http");
}

#[test]
fn a_join_string_need_not_be_on_the_command_line() {
    let world = World::embedded();
    world.create_team("acme");
    let refused = world.cli("ann", &["join", "garbage"]).exits(NOT_PERMITTED);
    let refused = refused.complains_of("The join string is malformed").complains_of("join token");
    assert!(!refused.stderr.contains("credential is malformed"), "{}", refused.stderr);
    world.cli("ann", &["join", &world.operator()]).exits(NOT_PERMITTED).complains_of("not a join token");

    world.cli_with_input("ann", &["join", "-"], &world.invite("ann")).succeeds();
    let file = world.home("ben").join("join");
    fs::write(&file, world.invite("ben")).unwrap();
    world.cli("ben", &["run", "--join-file", "join", "ben", "--", "true"]).succeeds();
    let pasted = format!("{}\n", world.invite("cyd"));
    world.cli_with_input("cyd", &["run", "--join", "-", "cyd", "--", "true"], &pasted).succeeds();
    for name in ["ann", "ben", "cyd"] {
        assert_eq!(world.member(name)["name"], name);
    }
    world.cli("dan", &["run", "--join-file", "none", "dan", "--", "true"]).exits(USAGE).complains_of("none");
}
