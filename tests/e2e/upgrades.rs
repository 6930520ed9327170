//! Stores that other versions wrote: those of every release open, and newer ones are refused.
//!
//! `tests/fixtures/stores` has a folder for each release, which `cargo xtask fixture` makes: a file of the embedded
//! store, a backup of a Redis, and what the commands printed about them.

use std::{
    env,
    fs::{self, File},
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use flate2::{Compression, bufread::GzDecoder, write::GzEncoder};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::world::{LEAD, TestRedis, World};

/// The release directory to write a fixture to, instead of only checking it.
const WRITE_TO: &str = "TEAMWIRE_FIXTURE";

/// The most bytes of a file of a fixture.
const BYTES_MAX: u64 = 200_000;

/// Keeps what is old: fixtures age.
const KEEP: &str = "[limits]\nhistory_ttl = \"87600h\"\n";

/// The commands whose output a fixture records, and who runs them.
const LOOKS: [(&str, &[&str]); 4] = [
    (LEAD, &["history", "--all", "--json"]),
    (LEAD, &["task", "list", "--json"]),
    ("bob", &["inbox", "--json"]),
    ("bob", &["whoami", "--json"]),
];

/// Fills a store with some of everything that lasts.
fn fill(world: &World) {
    world.create_team("acme");
    world.join("bob");
    world.join("eve");
    for content in ["one", "two \u{202e}", "drei: grün"] {
        world.cli(LEAD, &["send", "bob", content]).succeeds();
    }
    let first = world.cli("bob", &["inbox", "--json"]).succeeds().lines()[0]["message"]["id"].clone();
    world.cli("bob", &["inbox", "ack", first.as_str().unwrap()]).succeeds();
    world.cli("eve", &["send", "--broadcast", "to all"]).succeeds();
    world.cli(LEAD, &["task", "create", "Dig", "--owner", "eve"]).succeeds();
    world.cli(LEAD, &["task", "create", "Fill", "--blocked-by", "1"]).succeeds();
    world.cli("eve", &["plan", "submit", "a plan"]).succeeds();
    world.cli(LEAD, &["reject", "last", "--reason", "not yet"]).succeeds();
}

/// Returns what the commands print now, and the credentials that they use.
fn look(world: &World) -> Value {
    let looks: Vec<Value> = LOOKS
        .iter()
        .map(|(who, typed)| json!({ "who": who, "typed": typed, "printed": world.cli(who, typed).succeeds().lines() }))
        .collect();
    let of = |who: &&str| ((*who).to_owned(), world.credential(who).into());
    let credentials: Map<String, Value> = [LEAD, "bob", "eve"].iter().map(of).collect();
    json!({ "credentials": credentials, "looks": looks })
}

/// Checks that the store of a world has what a fixture recorded, and that its members work on.
fn check(world: &World, expected: &Value, what: &str) {
    let address = world.coordinator.address();
    let run = |who: &str, typed: &[&str]| {
        let credential = expected["credentials"][who].as_str().unwrap();
        world.cli_in(who, typed, &[("TEAMWIRE_CREDENTIAL", credential), ("TEAMWIRE_ADDRESS", &address)])
    };
    for look in expected["looks"].as_array().unwrap() {
        let typed: Vec<&str> = look["typed"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let printed = run(look["who"].as_str().unwrap(), &typed).succeeds().lines();
        // Time adds lines at the end, for example when a request expires.
        for (at, line) in look["printed"].as_array().unwrap().iter().enumerate() {
            let found = printed.get(at).unwrap_or(&Value::Null);
            assert!(has(found, line), "{what}: {typed:?} printed {found}, which is not {line}");
        }
    }
    run("bob", &["inbox", "--ack"]).succeeds();
    run("bob", &["send", "eve", "after the upgrade"]).succeeds();
    let last = run("eve", &["inbox", "--json"]).succeeds().lines().pop().unwrap();
    assert_eq!(last["message"]["content"], "after the upgrade", "{what}");
    for typed in [["task", "claim", "1"], ["task", "complete", "1"], ["task", "claim", "2"]] {
        run("eve", &typed).succeeds();
    }
    run(LEAD, &["team", "show"]).succeeds();
}

/// Returns whether a value has everything that an older version printed. The address of the coordinator is another one.
fn has(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => expected
            .iter()
            .all(|(name, expected)| name == "address" || found.get(name).is_some_and(|found| has(found, expected))),
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(found, expected)| has(found, expected))
        }
        (found, expected) => found == expected,
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stores")
}

fn unpack(from: &Path, to: &Path) {
    let mut packed = GzDecoder::new(BufReader::new(File::open(from).unwrap()));
    io::copy(&mut packed, &mut File::create(to).unwrap()).unwrap();
}

fn pack(from: &Path, to: &Path) {
    let mut packed = GzEncoder::new(File::create(to).unwrap(), Compression::best());
    io::copy(&mut File::open(from).unwrap(), &mut packed).unwrap();
    packed.finish().unwrap();
}

/// Opens both stores of a fixture, and checks them.
fn open(release: &Path) {
    let expected = |kind: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(release.join(format!("{kind}.json"))).unwrap()).unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("teamwire.redb");
    unpack(&release.join("embedded.redb.gz"), &file);
    let world = World::on(&format!("embedded:{}", file.display()), KEEP);
    check(&world, &expected("embedded"), &format!("{} embedded", release.display()));
    let Some(redis) = TestRedis::start() else { return };
    let backup = release.join("redis.jsonl.gz").display().to_string();
    world.cli(LEAD, &["restore", &backup, "--store", &redis.url()]).succeeds();
    check(&World::on_redis_with(redis, KEEP), &expected("redis"), &format!("{} redis", release.display()));
}

#[test]
fn the_stores_of_every_release_open_and_have_all_their_contents() {
    let releases: Vec<PathBuf> = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(releases.iter().any(|release| release.ends_with(env!("CARGO_PKG_VERSION"))), "run `cargo xtask fixture`");
    for release in releases {
        open(&release);
    }
}

/// Also makes the fixture of this release: see [`WRITE_TO`].
#[test]
fn the_stores_of_this_version_open_and_have_all_their_contents() {
    let directory = tempfile::tempdir().unwrap();
    let release = env::var_os(WRITE_TO).map_or_else(|| directory.path().to_owned(), PathBuf::from);
    fs::create_dir_all(&release).unwrap();
    let write = |kind: &str, seen: &Value| {
        fs::write(release.join(format!("{kind}.json")), format!("{seen:#}\n")).unwrap();
    };
    let mut world = World::configured(KEEP);
    fill(&world);
    write("embedded", &look(&world));
    world.coordinator.end();
    pack(&world.coordinator.state_directory().join("teamwire.redb"), &release.join("embedded.redb.gz"));
    let Some(world) = World::redis() else { return };
    fill(&world);
    write("redis", &look(&world));
    let backup = release.join("redis.jsonl.gz").display().to_string();
    world.cli(LEAD, &["backup", &backup, "--force"]).succeeds();
    for entry in fs::read_dir(&release).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.metadata().unwrap().len() < BYTES_MAX, "{:?} is too large to be kept", entry.path());
    }
    open(&release);
}

/// Returns what a table of the embedded store holds.
fn contents(file: &Path, name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let read = Database::open(file).unwrap().begin_read().unwrap();
    let table = read.open_table(TableDefinition::<&[u8], &[u8]>::new(name)).unwrap();
    let all = table.iter().unwrap().map(|found| {
        let (key, value) = found.unwrap();
        (key.value().to_vec(), value.value().to_vec())
    });
    all.collect()
}

#[test]
fn an_embedded_store_of_a_newer_format_is_refused_and_not_changed() {
    let mut world = World::embedded();
    fill(&world);
    world.coordinator.end();
    let file = world.coordinator.state_directory().join("teamwire.redb");
    let set_format = |format: u64| {
        let write = Database::open(&file).unwrap().begin_write().unwrap();
        write.open_table(TableDefinition::<&str, u64>::new("facts")).unwrap().insert("format", format).unwrap();
        write.commit().unwrap();
    };
    let tables = ["records", "streams", "entries", "leases", "replies"];
    let everything = || tables.map(|table| contents(&file, table));
    set_format(99);
    let before = everything();
    let url = format!("embedded:{}", file.display());
    for typed in [&["serve", "--listen", "127.0.0.1:0"][..], &["backup", "x.jsonl.gz", "--store", &url]] {
        let refused = world.cli(LEAD, typed).exits(69);
        refused.complains_of("in format 99").complains_of("Upgrade teamwire");
    }
    assert_eq!(everything(), before, "a refused store was changed");
    set_format(1);
    world.coordinator.restart();
    world.cli("bob", &["inbox"]).succeeds();
}

#[test]
fn a_redis_of_a_newer_format_is_refused_and_not_changed() {
    let Some(mut world) = World::redis() else { return };
    fill(&world);
    world.coordinator.end();
    let runtime = Runtime::new().unwrap();
    let mut connection = world.with_redis(|redis| runtime.block_on(redis.connection()));
    let mut ask = |command: &[&str]| -> redis::Value {
        let mut query = redis::cmd(command[0]);
        query.arg(&command[1..]);
        runtime.block_on(query.query_async(&mut connection)).unwrap()
    };
    ask(&["HSET", "teamwire:{~store}:m", "format", "99", "release", "9.8.7"]);
    // Which of its keys there are, and a digest of what is in each.
    let mut everything = || {
        let redis::Value::Array(mut keys) = ask(&["KEYS", "*"]) else { panic!("no keys") };
        keys.sort_by_key(|key| format!("{key:?}"));
        let keys: Vec<String> = keys.into_iter().map(|key| redis::from_redis_value(key).unwrap()).collect();
        keys.into_iter().map(|key| (ask(&["DUMP", &key]), key)).collect::<Vec<_>>()
    };
    let before = everything();
    let url = world.store_url();
    for typed in
        [&["serve", "--listen", "127.0.0.1:0", "--store", &url][..], &["backup", "x.jsonl.gz", "--store", &url]]
    {
        let refused = world.cli(LEAD, typed).exits(69);
        refused.complains_of("teamwire 9.8.7 in format 99").complains_of("Upgrade teamwire");
    }
    assert!(everything() == before, "a refused store was changed");
    ask(&["HSET", "teamwire:{~store}:m", "format", "1"]);
    world.coordinator.restart();
    world.cli("bob", &["inbox"]).succeeds();
}

/// Two coordinators of which one has loaded another library of functions, as a newer version does.
#[test]
fn coordinators_with_different_function_libraries_share_a_redis() {
    let Some(world) = World::redis() else { return };
    world.create_team("acme");
    world.join("bob");
    let runtime = Runtime::new().unwrap();
    let mut connection = world.with_redis(|redis| runtime.block_on(redis.connection()));
    let libraries = redis::cmd("FUNCTION").arg("LIST").arg("WITHCODE").to_owned();
    let found: redis::Value = runtime.block_on(libraries.query_async(&mut connection)).unwrap();
    let shown = format!("{found:?}");
    let own = shown.split("teamwire_").nth(1).unwrap()[..16].to_owned();
    // Another version's library has another hash in its name, and functions of other names.
    let other = "teamwire_00000000deadbeef";
    let newer = format!(
        "#!lua name={other}\nredis.register_function('{other}_commit', function(keys, args) return redis.error_reply('of another version') end)"
    );
    let load = redis::cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(newer).to_owned();
    let _: redis::Value = runtime.block_on(load.query_async(&mut connection)).unwrap();
    let second = world.another_coordinator();
    for (at, address) in [world.coordinator.address(), second.address()].iter().enumerate() {
        let text = format!("number {at}");
        world.cli_in(LEAD, &["send", "bob", &text], &[("TEAMWIRE_ADDRESS", address)]).succeeds();
    }
    assert_eq!(world.take_inbox("bob").len(), 2);
    // Neither has replaced the other's.
    let found: redis::Value = runtime.block_on(libraries.query_async(&mut connection)).unwrap();
    let shown = format!("{found:?}");
    assert!(shown.contains(other) && shown.contains(&own), "{shown}");
    // One that starts after the library was lost loads only its own.
    world.with_redis(|redis| runtime.block_on(redis.tell(&["FUNCTION", "FLUSH"])));
    world.cli(LEAD, &["send", "bob", "after the flush"]).succeeds();
    assert_eq!(world.take_inbox("bob").len(), 1);
}
