//! Taking credentials back: those of members, and the operator's.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::LazyLock};

use nix::sys::signal::Signal;
use serde_json::Value;
use teamwire_proto::v1::{self, history_service_client::HistoryServiceClient};
use tokio::{runtime::Runtime, time::timeout};
use tonic::{Code, Streaming};

use crate::{
    agents,
    raw::{Raw, end_of, refused},
    world::{LEAD, PATIENCE, World, eventually, is_alive},
};

scenarios! {
    revoking_a_members_credential_ends_its_streams_and_its_runner,
    a_lead_replaces_its_own_credential,
}

store_scenarios! {
    the_operators_credential_is_replaced_without_a_restart,
}

redis_scenarios! {
    a_credential_that_one_coordinator_revokes_ends_at_the_others,
    coordinators_that_share_a_credential_replace_it_one_after_the_other,
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

fn raw(address: &str, credential: &str) -> Raw {
    let _entered = RUNTIME.enter();
    Raw::at(address, credential)
}

async fn following(raw: &Raw, team: &str) -> Streaming<v1::FollowHistoryResponse> {
    let request = v1::FollowHistoryRequest { team: team.to_owned(), ..Default::default() };
    let mut frames =
        HistoryServiceClient::new(raw.channel.clone()).follow_history(raw.request(request)).await.unwrap().into_inner();
    frames.message().await.unwrap().unwrap();
    frames
}

async fn subscribed(raw: &Raw) -> Streaming<v1::StreamResponse> {
    let request = raw.request(v1::StreamRequest::default());
    let mut frames = raw.messages().stream(request).await.unwrap().into_inner();
    frames.message().await.unwrap().unwrap();
    frames
}

/// Returns the listed credential of a member, as JSON.
fn listed(world: &World, member: &str) -> Option<Value> {
    let listed = world.cli(LEAD, &["access", "list", "--json"]).succeeds().lines();
    listed.into_iter().find(|found| found["kind"] == "member" && found["member"] == member)
}

fn revoking_a_members_credential_ends_its_streams_and_its_runner(world: World) {
    world.create_team("acme");
    let bob = world.run("bob", &[], agents::WILLING).ready();
    let program = bob.program();
    let stolen = world.credential("bob");
    let found = listed(&world, "bob").expect("it is listed");
    assert!(found["last_used_at"].is_string() && found["acts_for"] == "member", "{found}");
    let table = world.cli(LEAD, &["access", "list"]).succeeds().stdout;
    assert!(table.contains(found["id"].as_str().unwrap()) && table.contains("LAST USED"), "{table}");
    assert!(!table.contains(&stolen), "no secret is shown");
    let address = world.coordinator.address();
    let thief = raw(&address, &stolen);
    let frames = RUNTIME.block_on(following(&thief, ""));

    let revoked = world.cli(LEAD, &["access", "revoke", "bob"]).succeeds().stdout;
    assert!(revoked.contains("teamwire invite bob"), "{revoked}");
    RUNTIME.block_on(async {
        refused(Err(end_of(frames).await), Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
        let later = thief.teams().get_team(thief.request(v1::GetTeamRequest::default())).await.map(drop);
        refused(later, Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
    });
    let log = eventually("the runner says why", || Some(bob.log()).filter(|log| log.contains("was revoked")));
    assert!(log.contains("teamwire invite bob"), "{log}");
    assert_eq!(bob.exit(), 77);
    eventually("the program is gone", || (!is_alive(program)).then_some(()));
    assert_eq!(listed(&world, "bob"), None);
    let history = world.cli(LEAD, &["history"]).succeeds().stdout;
    assert!(history.contains("lead revoked the credential of bob"), "{history}");

    // What was saved cannot come back; the lead's invitation can, at once, and finds the inbox.
    world.cli(LEAD, &["send", "bob", "ping", "-s", "for the next life"]).succeeds();
    assert_ne!(world.cli("bob", &["run", "bob", "--", "true"]).code, 0);
    let again = world.run("bob", &[], agents::WILLING).ready();
    again.await_text("ping");
    world.await_inbox(LEAD, "the answer", |message| message["content"] == "pong");
    world.cli(LEAD, &["access", "revoke", "nobody"]).exits(1).complains_of("`teamwire access list`");
    world.cli(LEAD, &["access", "revoke", LEAD]).exits(77).complains_of("--new-credential");
}

fn a_lead_replaces_its_own_credential(world: World) {
    world.create_team("acme");
    let old = world.credential(LEAD);
    world.cli(LEAD, &["join"]).exits(64).complains_of("already");
    world.cli(LEAD, &["join", "--new-credential"]).succeeds();
    assert_ne!(world.credential(LEAD), old);
    world.cli(LEAD, &["invite", "ann"]).succeeds();
    let address = world.coordinator.address();
    world.cli("eve", &["status", "--credential", &old, "--address", &address]).exits(77);
}

fn a_credential_that_one_coordinator_revokes_ends_at_the_others(world: World) {
    world.create_team("acme");
    let stolen = world.join("bob");
    let other = world.another_coordinator();
    let at_other = raw(&other.address(), &stolen);
    let (inbox, history) = RUNTIME.block_on(async {
        let waits = raw(&other.address(), &stolen);
        (subscribed(&at_other).await, following(&waits, "").await)
    });
    let waiting = raw(&other.address(), &stolen);
    let claim = RUNTIME.spawn(async move {
        let wait = Some(prost_types::Duration { seconds: 60, nanos: 0 });
        let request = v1::ClaimNextTaskRequest { wait, ..Default::default() };
        let mut tasks = waiting.tasks();
        tasks.claim_next_task(waiting.request(request)).await.map(drop)
    });
    let id = listed(&world, "bob").unwrap()["id"].as_str().unwrap().to_owned();
    world.cli(LEAD, &["access", "revoke", &id[..6]]).succeeds();
    RUNTIME.block_on(async {
        refused(Err(end_of(inbox).await), Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
        refused(Err(end_of(history).await), Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
        let claimed = timeout(PATIENCE, claim).await.expect("it does not wait any longer").unwrap();
        refused(claimed, Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
        let later = at_other.teams().get_team(at_other.request(v1::GetTeamRequest::default())).await.map(drop);
        refused(later, Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
    });
    world.join("bob");
}

fn works(world: &World, address: &str, credential: &str) -> bool {
    let file = world.home("eve").join("credential");
    write_private(&file, credential);
    let file = file.display().to_string();
    world.cli("eve", &["team", "list", "--address", address, "--credential-file", &file]).code == 0
}

fn the_operators_credential_is_replaced_without_a_restart(world: World) {
    world.create_team("acme");
    let (address, first) = (world.coordinator.address(), world.operator());
    let said = world.cli(LEAD, &["operator", "rotate"]).succeeds().stdout;
    assert!(said.contains("accepts the new credential") && said.contains("600 s"), "{said}");
    let second = world.operator();
    assert_ne!(first, second);
    assert!(works(&world, &address, &first) && works(&world, &address, &second), "both, for the grace");
    let frames = RUNTIME.block_on(following(&raw(&address, &second), "acme"));

    // One that leaked ends at once, with its streams; the one before keeps its grace, even over a restart.
    let rotated = world.cli(LEAD, &["operator", "rotate", "--grace", "0", "--json"]).succeeds().json();
    assert_eq!((&rotated["accepted"], &rotated["grace_seconds"]), (&Value::Bool(true), &Value::from(0)));
    let third = world.operator();
    RUNTIME.block_on(async {
        refused(Err(end_of(frames).await), Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
    });
    let accepted = |world: &World| [&first, &second, &third].map(|one| works(world, &address, one));
    assert_eq!(accepted(&world), [true, false, true]);
    let mut world = world;
    world.coordinator.end();
    world.coordinator.restart();
    assert_eq!(accepted(&world), [true, false, true]);
    world.cli(LEAD, &["--as", "operator", "team", "list"]).succeeds();

    let state = world.coordinator.state_directory();
    for file in ["operator.credential", "operator.former"] {
        let mode = fs::metadata(state.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let former = fs::read_to_string(state.join("operator.former")).unwrap();
    for secret in [&first, &second, &third] {
        assert!(!former.contains(secret.trim_start_matches("two:")), "only hashes are kept");
    }
    // Without a coordinator, the next start takes it.
    world.coordinator.end();
    let said = world.cli(LEAD, &["operator", "rotate", "--grace", "0"]).succeeds().stdout;
    assert!(said.contains("the next start reads it"), "{said}");
    let fourth = world.operator();
    world.coordinator.restart();
    assert!(works(&world, &address, &fourth) && !works(&world, &address, &third));
}

#[test]
fn another_identity_neither_replaces_the_operators_credential_nor_makes_a_backup() {
    let world = World::embedded();
    world.create_team("acme");
    let (operator, lead) = (world.operator(), world.credential(LEAD));
    let rotate = |environment: &[(&str, &str)]| world.cli_in(LEAD, &["operator", "rotate"], environment);
    rotate(&[("TEAMWIRE_AS", LEAD)]).exits(77).complains_of("--as operator");
    rotate(&[("TEAMWIRE_CREDENTIAL", &lead)]).exits(77).complains_of("not the operator's");
    world.cli(LEAD, &["operator", "rotate", "--as", LEAD]).exits(77).complains_of("--as operator");
    assert_eq!(world.operator(), operator);
    assert!(!world.coordinator.state_directory().join("operator.former").exists());

    let backup = |who: &str| world.cli(LEAD, &["backup", "whole.jsonl.gz", "--as", who]);
    backup(LEAD).exits(77).complains_of("operator");
    backup("ann").exits(64).complains_of("ann");
    assert!(!world.home(LEAD).join("whole.jsonl.gz").exists());
    backup("operator").succeeds();
    let listed = |who: &str| world.cli(LEAD, &["team", "list", "--json", "--as", who]).succeeds().lines().len();
    world.cli(LEAD, &["team", "create", "other"]).succeeds();
    assert_eq!((listed("lead@acme"), listed("operator")), (1, 2));
    world.cli(LEAD, &["operator", "rotate", "--as", "operator"]).succeeds();
    assert_ne!(world.operator(), operator);
}

fn write_private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// The steps of `docs/operations.md`.
fn coordinators_that_share_a_credential_replace_it_one_after_the_other(world: World) {
    let mut world = world;
    let file = world.home("shared").join("operator");
    let (old, new) = ("two:old0123456789abcdef", "two:new0123456789abcdef");
    write_private(&file, &format!("{old}\n"));
    let path = file.display().to_string();
    let variables = [
        ("TEAMWIRE_OPERATOR_CREDENTIAL", path.as_str()),
        ("TEAMWIRE_OPERATOR_GRACE", "0s"),
        ("TEAMWIRE_TLS_RELOAD_INTERVAL", "24h"),
    ];
    world.coordinator.restart_with(&variables);
    let mut other = world.another_coordinator();
    other.restart_with(&variables);
    let addresses = [world.coordinator.address(), other.address()];
    world.create_team("acme");
    let with = |credential: &str| addresses.each_ref().map(|address| works(&world, address, credential));
    assert_eq!((with(old), with(new)), ([true, true], [false, false]));

    // Both accept both, before a client uses the new one.
    write_private(&file, &format!("{old}\n{new}\n"));
    for coordinator in [&world.coordinator, &other] {
        coordinator.signal(Signal::SIGHUP);
    }
    eventually("both accept the new one", || (with(new) == [true, true]).then_some(()));
    assert_eq!(with(old), [true, true]);
    let frames = RUNTIME.block_on(following(&raw(&addresses[1], old), "acme"));

    // The new one alone. Its absence from the file ends the old one, without a grace.
    write_private(&file, &format!("{new}\n"));
    for coordinator in [&world.coordinator, &other] {
        coordinator.signal(Signal::SIGHUP);
    }
    RUNTIME.block_on(async {
        refused(Err(end_of(frames).await), Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
    });
    eventually("both refuse the old one", || (with(old) == [false, false]).then_some(()));
    assert_eq!(with(new), [true, true]);
    assert_eq!(world.operator(), new, "left for the command line here");

    // A file that cannot be used changes nothing, and is reported.
    world.coordinator.may_complain_of("cannot be reloaded");
    write_private(&file, "not a credential\n");
    world.coordinator.signal(Signal::SIGHUP);
    world.coordinator.await_log("cannot be reloaded", 1);
    assert!(works(&world, &addresses[0], new));
}
