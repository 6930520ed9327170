//! Coming from another machine: one paste, and certificates of one's own.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::{
    agents,
    world::{LEAD, World},
};

scenarios! {
    one_paste_joins_and_runs_from_another_machine,
    a_taken_name_can_be_joined_again_once_freed_and_no_program_sees_the_join_string,
    flags_override_the_pasted_join_string_which_overrides_the_environment,
    certs_creates_renews_and_explains_certificates,
    a_join_prints_the_next_steps_for_its_role,
}

fn a_join_prints_the_next_steps_for_its_role(world: World) {
    world.create_team("acme");
    let credential = world.credential(LEAD);
    let lead = world.cli(LEAD, &["join", &credential]).succeeds().stdout;
    assert!(lead.contains("the lead of team acme") && lead.contains("teamwire status"), "{lead}");
    assert!(!lead.contains("teamwire send team-lead"), "{lead}");
    let ann = world.cli("ann", &["join", &world.invite("ann")]).succeeds().stdout;
    assert!(ann.contains("led by lead") && ann.contains("teamwire send team-lead"), "{ann}");

    let unbound = world.cli(LEAD, &["invite"]).succeeds().stdout.trim().to_owned();
    world.cli("bob", &["join", &unbound]).exits(64).complains_of("--name NAME");
    let run = world.cli("bob", &["run", "--join", &unbound, "--echo"]);
    assert_ne!(run.code, 0);
    run.complains_of("teamwire run NAME");
    world.cli("bob", &["join", &unbound, "--name", "bob"]).succeeds();
}

fn one_paste_joins_and_runs_from_another_machine(world: World) {
    world.create_team("acme");
    let invited = world.cli(LEAD, &["invite", "ann"]).succeeds();
    // The coordinator of a test listens on this machine only.
    let invited = invited.complains_of("this machine only").complains_of("your user only").complains_of("--advertise");
    let pasted = invited.stdout.trim().to_owned();
    assert!(
        pasted.starts_with("twj:acme:") && pasted.ends_with(&format!("@{}", world.coordinator.local_address())),
        "{pasted}"
    );
    world.cli("ann", &["join", &pasted]).succeeds();
    world.cli("ann", &["send", "lead", "here I am"]).succeeds();
    world.await_inbox(LEAD, "ann's message", |message| message["content"] == "here I am");
    let who = world.cli("ann", &["whoami", "--json"]).succeeds().json();
    assert_eq!(who["address"], world.coordinator.local_address());

    // A program, and the command line inside of it.
    let backend = world.run("backend", &[], agents::WILLING).ready();
    let inside = world.cli(LEAD, &["invite", "inside", "--json"]).succeeds().json();
    assert_eq!(
        inside["join_string"],
        format!("{}@{}", inside["token"].as_str().unwrap(), world.coordinator.local_address())
    );
    let script = format!("{} send lead 'from inside' >&2; cat >/dev/null", env!("CARGO_BIN_EXE_teamwire"));
    let program = world.run("inside", &[], &script);
    world.await_inbox(LEAD, "a message from inside", |message| {
        message["content"] == "from inside" && message["from"] == "inside"
    });
    world.cli(LEAD, &["shutdown", "inside", "--force"]).succeeds();
    assert_eq!(program.exit(), 77);
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    assert_eq!(backend.exit(), 0);
}

fn a_taken_name_can_be_joined_again_once_freed_and_no_program_sees_the_join_string(world: World) {
    world.create_team("acme");
    let invited = world.cli(LEAD, &["invite", "ann", "--uses", "2"]).succeeds().stdout.trim().to_owned();
    let program = "test -z \"$TEAMWIRE_JOIN\" && teamwire send lead hello >&2 && cat >/dev/null";
    let program = program.replace("teamwire", env!("CARGO_BIN_EXE_teamwire"));
    let run =
        |name: &str| world.spawn_in(name, &["run", "ann", "--", "sh", "-c", &program], &[("TEAMWIRE_JOIN", &invited)]);
    let first = run("one-machine");
    world.await_inbox(LEAD, "hello", |message| message["content"] == "hello");
    run("another-machine").output().exits(75).complains_of("is taken");
    world.cli(LEAD, &["shutdown", "ann", "--force"]).succeeds();
    first.output().exits(77);
    let again = run("another-machine");
    world.await_inbox(LEAD, "hello again", |message| message["content"] == "hello");
    again.terminate().exits(143);
    // It has ended by itself, and was not dismissed: its own credential is good for another life, the token is not
    // needed.
    let used_up = run("another-machine");
    world.await_inbox(LEAD, "hello once more", |message| message["content"] == "hello");
    assert_eq!(world.member("ann")["incarnation"], 3);
    used_up.terminate().exits(143);
}

fn flags_override_the_pasted_join_string_which_overrides_the_environment(world: World) {
    world.create_team("acme");
    let pasted = world.invite("ann");
    let nobody = "http://127.0.0.1:9";
    let misled = [("TEAMWIRE_ADDRESS", nobody), ("TEAMWIRE_TIMEOUT", "0")];
    world.cli_in("ann", &["join", &pasted, "--address", nobody], &misled).exits(69).complains_of(nobody);
    world.cli_in("ann", &["join", &pasted], &misled).succeeds();
    // From now on the environment counts, as it does inside of a program that is run as a member.
    world.cli_in("ann", &["inbox"], &misled).exits(69);
    world.cli("ann", &["inbox"]).succeeds();
    world.cli("bob", &["join", &format!("{pasted}+sha256:00")]).exits(77).complains_of("malformed");
}

fn certs_creates_renews_and_explains_certificates(world: World) {
    let first = world.cli("ann", &["certs", "--dir", "c", "--host", "coord.example", "--client", "bob", "--json"]);
    let first = first.succeeds().json();
    assert_eq!(first["server"]["hosts"], serde_json::json!(["coord.example", "localhost", "127.0.0.1", "::1"]));
    assert_eq!(first["ca"]["is_new"], true);
    let directory = world.home("ann").join("c");
    for key in ["ca.key", "server.key", "client-bob.key"] {
        let mode = fs::metadata(directory.join(key)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
    let chain = fs::read_to_string(directory.join("server.crt")).unwrap();
    assert!(chain.ends_with(&fs::read_to_string(directory.join("ca.crt")).unwrap()));

    let again = world.cli("ann", &["certs", "--dir", "c"]).succeeds();
    assert!(again.stdout.contains(first["ca"]["fingerprint"].as_str().unwrap()), "{}", again.stdout);
    assert!(again.stdout.contains("teamwire serve") && again.stdout.contains("--tls-cert c/server.crt"));
    assert_ne!(fs::read_to_string(directory.join("server.crt")).unwrap(), chain);

    world.cli("ann", &["certs", "--dir", "d", "--client", "../eve"]).exits(64).complains_of("not a name");
    world.cli("ann", &["certs", "--dir", "d", "--host", "https://coord:7420"]).exits(64).complains_of("is not a host");
    assert!(!world.home("ann").join("d").exists());
}
