//! The configuration of a coordinator: where it comes from, what is said of mistakes, and that it holds.

use std::fs;

use crate::world::{LEAD, TestRedis, World};

const USAGE: i32 = 64;
const UNREACHABLE: i32 = 69;

#[test]
fn a_printed_configuration_reads_back_as_the_same_configuration() {
    let world = World::embedded();
    let file = world.home(LEAD).join("printed.toml");
    let path = file.to_str().unwrap();
    let flags =
        ["serve", "--print-config", "--listen", "127.0.0.1:0", "--advertise", "https://a:1,https://b:2", "--store"];
    let printed = world.cli(LEAD, &[&flags[..], &["redis://:s3cret@127.0.0.1/1"]].concat()).succeeds().stdout;
    assert!(printed.contains("listen = \"127.0.0.1:0\"") && !printed.contains("s3cret"), "{printed}");
    assert!(printed.contains("content_bytes_max = \"64KiB\""), "{printed}");
    fs::write(&file, &printed).unwrap();
    let again = world.cli(LEAD, &["serve", "--config", path, "--print-config"]).succeeds().stdout;
    assert_eq!(again, printed);
    // A flag overrides the file.
    let other = world.cli(LEAD, &["serve", "--config", path, "--print-config", "--listen", "127.0.0.1:1"]);
    assert_eq!(other.succeeds().stdout, printed.replace("127.0.0.1:0", "127.0.0.1:1"));
}

#[test]
fn configuration_mistakes_are_reported_with_their_place_and_a_suggestion() {
    let world = World::embedded();
    let file = world.home(LEAD).join("wrong.toml");
    let path = file.to_str().unwrap();
    for (text, complaint) in [
        (
            "[limits]\nmember_max = 3\n",
            "wrong.toml:2 has an unknown key, limits.member_max. Did you mean limits.members_max?",
        ),
        ("listen = \"here\"\n", "listen is \"here\""),
        (
            "\n\n[network]\nhandshake_timeout = \"0s\"\n",
            "wrong.toml:4: network.handshake_timeout is \"0s\"; it must be \"10ms\" to",
        ),
        ("operator_credential = \"wrong.toml\"\n", "wrong.toml does not hold an operator's credential"),
        ("listen = \"127.0.0.1:0\"\nhealth = \"here\"\n", "health is \"here\""),
        ("[tls]\ncert = \"c.pem\"\n", "tls.key"),
        ("[tls]\ncert = \"none.pem\"\nkey = \"none.pem\"\n", "none.pem cannot be read"),
        ("listen = \"0.0.0.0:0\"\n", "--tls-cert"),
        ("log = \"loud,\"\nlisten=\"127.0.0.1:0\"\nlog_format = \"xml\"\n", "\"text\" or \"json\""),
    ] {
        fs::write(&file, text).unwrap();
        world.cli(LEAD, &["serve", "--config", path]).exits(USAGE).complains_of(complaint);
    }
    world
        .cli(LEAD, &["serve", "--config", "nowhere.toml"])
        .exits(USAGE)
        .complains_of("Cannot read the configuration nowhere.toml");
    // With the option that permits this, it gets as far as the store.
    let insecure = ["serve", "--listen", "0.0.0.0:0", "--insecure-no-tls", "--store", "redis://127.0.0.1:1"];
    world.cli(LEAD, &insecure).exits(UNREACHABLE).complains_of("The store cannot be opened");
}

#[test]
fn a_configured_operator_credential_is_the_operators() {
    let given = tempfile::NamedTempFile::new().unwrap();
    fs::write(given.path(), "two:given0123456789abcdef\n").unwrap();
    let world = World::configured(&format!("operator_credential = \"{}\"\n", given.path().display()));
    assert_eq!(world.operator(), "two:given0123456789abcdef", "left for the command line here");
    world.create_team("acme");
    let address = world.coordinator.address();
    let list = ["team", "list", "--address", &address, "--credential"];
    world.cli("ann", &[&list[..], &["two:given0123456789abcdef"]].concat()).succeeds();
    world.cli("ann", &[&list[..], &["two:other0123456789abcdef"]].concat()).exits(77);
}

#[test]
fn configured_limits_are_enforced() {
    let world = World::configured("[limits]\nmembers_max = 2\ncontent_bytes_max = \"1KiB\"\n");
    world.create_team("acme");
    world.join("ann");
    let token = world.invite("bob");
    let error =
        world.cli("bob", &["join", &token, "--address", &world.coordinator.address(), "--json"]).exits_with_error();
    assert_eq!(error["reason"], "QUOTA_EXCEEDED");
    world.cli(LEAD, &["send", "ann", &"x".repeat(1_024), "-s", "fits"]).succeeds();
    let error = world.cli(LEAD, &["send", "ann", &"x".repeat(1_025), "-s", "not", "--json"]).exits_with_error();
    assert_eq!(error["reason"], "CONTENT_TOO_LARGE");
}

#[test]
fn a_store_url_that_cannot_work_says_what_to_correct() {
    let world = World::embedded();
    let refused = |url: &str, code: i32, complaint: &str| {
        let refused = world.cli(LEAD, &["serve", "--listen", "127.0.0.1:0", "--store", url]).exits(code);
        let refused = refused.complains_of(complaint);
        assert!(code == UNREACHABLE || !refused.stderr.contains("cannot be reached"), "{}", refused.stderr);
        assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    };
    refused("http://:hunter2@127.0.0.1:6379", USAGE, "redis://HOST");
    refused("redsi://127.0.0.1", USAGE, "redis://HOST");
    refused("redis://127.0.0.1/abc", USAGE, "the store URL is not valid");
    refused("redis://127.0.0.1:1", UNREACHABLE, "cannot be reached");
    let Some(redis) = TestRedis::start() else { return };
    let own = redis.url();
    refused(&format!("{own}/99"), USAGE, "does not have the database in the store URL");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(redis.tell(&["CONFIG", "SET", "requirepass", "hunter2"]));
    refused(&own, USAGE, "requires a password");
    refused(&own.replace("redis://", "redis://:hunter22@"), USAGE, "does not accept the user and password");
}

#[test]
fn the_store_url_may_be_in_a_file() {
    let world = World::embedded();
    fs::write(world.home(LEAD).join("store"), "redis://127.0.0.1:1\n").unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store-file", "store"];
    world.cli(LEAD, &serve).exits(UNREACHABLE).complains_of("127.0.0.1:1");
    world
        .cli_in(LEAD, &serve[..3], &[("TEAMWIRE_STORE_FILE", "none")])
        .exits(USAGE)
        .complains_of("Cannot read the store's URL from none");
    // A URL on the command line precedes the file.
    let both = [&serve[..], &["--store", "redsi://x"]].concat();
    world.cli(LEAD, &both).exits(USAGE).complains_of("the store URL is not valid");
}
