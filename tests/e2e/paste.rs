//! Joining by one paste over TLS: the other machine knows nothing before, and trusts only this authority afterwards.

use std::{fs, net::TcpListener};

use serde_json::Value;

use crate::world::{StartedCommand, World, eventually};

#[test]
fn a_pasted_join_string_trusts_only_the_coordinator_it_names() {
    let world = World::embedded();
    let made = world.cli("host", &["certs", "--json"]).succeeds().json();
    let fingerprint = made["ca"]["fingerprint"].as_str().unwrap();
    let (port, _runs_on) = serve(&world, &[]);
    world.cli("host", &["team", "create", "acme", "--ca", "certs/ca.crt"]).succeeds();

    let invited = world.cli("host", &["invite", "ann", "--json"]).succeeds().json();
    let token = invited["token"].as_str().unwrap();
    let pasted = invited["join_string"].as_str().unwrap();
    assert_eq!(pasted, format!("{token}@https://localhost:{port}+{fingerprint}"));

    let other = pasted.replace(fingerprint, &format!("sha256:{}", "0a".repeat(32)));
    world.cli("ann", &["join", &other]).exits(69).complains_of("does not present the certificate");
    let address = format!("https://localhost:{port}");
    world.cli("ann", &["join", token, "--address", &address]).exits(69).complains_of("--ca");
    let plain = format!("http://localhost:{port}");
    let briefly = [("TEAMWIRE_TIMEOUT", "1")];
    world.cli_in("ann", &["join", token, "--address", &plain], &briefly).exits(69).complains_of("https://");
    // None of them got as far as to use the token up.
    world.cli("ann", &["join", pasted]).succeeds();
    world.cli("ann", &["send", "lead", "over TLS"]).succeeds();
    await_message(&world, "ann", "over TLS");
    let context: Value =
        serde_json::from_str(&fs::read_to_string(world.home("ann").join("context.json")).unwrap()).unwrap();
    let ca = fs::read_to_string(world.home("host").join("certs/ca.crt")).unwrap();
    assert_eq!(context["identities"][0]["tls"]["ca"], ca, "the certificate itself is kept");

    // A program is handed what it needs to speak for itself.
    let pasted = world.cli("host", &["invite", "backend"]).succeeds().stdout.trim().to_owned();
    let script = format!("cd /; {} send lead 'from inside' >&2; cat >/dev/null", env!("CARGO_BIN_EXE_teamwire"));
    let _backend = world.run_again("backend", &["--join", &pasted], &script).ready();
    await_message(&world, "backend", "from inside");
}

#[test]
fn a_member_presents_the_client_certificate_it_joined_with_on_later_calls() {
    let world = World::embedded();
    world.cli("host", &["certs", "--client", "lead", "--client", "ann"]).succeeds();
    let _runs_on = serve(&world, &["--client-ca", "certs/ca.crt"]);
    let lead = ["--ca", "certs/ca.crt", "--cert", "certs/client-lead.crt", "--key", "certs/client-lead.key"];
    world.cli("host", &[&["team", "create", "acme"][..], &lead].concat()).succeeds();
    let pasted = world.cli("host", &["invite", "ann"]).succeeds().stdout.trim().to_owned();

    world.cli("ann", &["join", &pasted]).exits(69).complains_of("client certificate");
    for file in ["client-ann.crt", "client-ann.key"] {
        fs::copy(world.home("host").join("certs").join(file), world.home("ann").join(file)).unwrap();
    }
    world.cli("ann", &["join", &pasted, "--cert", "client-ann.crt", "--key", "client-ann.key"]).succeeds();
    world.cli("ann", &["send", "lead", "certified"]).succeeds();
    await_message(&world, "ann", "certified");
}

/// Starts a user's coordinator, which ends with the world. Returns its port and its output.
fn serve(world: &World, options: &[&str]) -> (u16, StartedCommand) {
    // What is advertised has to be known before it listens.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (listen, advertised) = (format!("127.0.0.1:{port}"), format!("https://localhost:{port}"));
    let tls = ["--tls-cert", "certs/server.crt", "--tls-key", "certs/server.key", "--advertise", &advertised];
    let runs = world.spawn("host", &[&["serve", "--listen", &listen][..], &tls, options].concat(), "");
    let address = world.home("host").join("state/address");
    eventually("the coordinator serves", || address.exists().then_some(()));
    (port, runs)
}

fn await_message(world: &World, from: &str, content: &str) {
    world.await_inbox("host", content, |message| message["from"] == from && message["content"] == content);
}
