//! Stores that are full, read-only, emptied, lost, or too new.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use nix::sys::signal::Signal;
use teamwire_proto::v1::{self, send_request::Body};
use tokio::runtime::Runtime;
use tonic::Code;

use crate::{
    agents,
    raw::{Raw, refused},
    world::{Flavor, LEAD, Output, Runner, TestRedis, World, eventually},
};

redis_scenarios! {
    an_emptied_redis_is_reported_as_a_loss,
    with_a_hanging_store_only_the_outcome_of_changes_is_unknown,
    a_coordinator_warns_when_its_redis_begins_to_evict_keys,
}

fn a_coordinator_warns_when_its_redis_begins_to_evict_keys(world: World) {
    assert!(!world.coordinator.log().contains("evicts keys"));
    world.coordinator.may_complain_of("the server evicts keys");
    for times in 1..=2 {
        tell(&world, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        world.coordinator.await_log("the server evicts keys", times);
        tell(&world, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        world.coordinator.await_log("the server no longer evicts keys", times);
    }
}

fn with_a_hanging_store_only_the_outcome_of_changes_is_unknown(world: World) {
    world.create_team("acme");
    world.with_redis(|redis| redis.signal(Signal::SIGSTOP));
    let run = |typed: &[&str]| world.cli(LEAD, &[typed, &["--timeout", "1"]].concat());
    let is_certain = |read: Output| {
        let read = read.exits(69).complains_of("The store cannot be used now");
        assert!(!read.stderr.contains("may or may not") && !read.stderr.contains("idempotency key"), "{}", read.stderr);
    };
    is_certain(run(&["status"]));
    is_certain(run(&["doctor"]));
    // An attempt that could not even read its records has changed nothing, but the reason does not say so.
    let created = run(&["task", "create", "Dig"]).exits(75);
    let told =
        created.complains_of("It is not known whether CreateTask was carried out").complains_of("teamwire task list");
    assert!(!told.stderr.contains("idempotency key") && !told.stderr.contains(".."), "{}", told.stderr);
    world.cli(LEAD, &["send", "lead", "x", "--timeout", "1"]).exits(75).complains_of("--idempotency-key");
    world.with_redis(|redis| redis.signal(Signal::SIGCONT));
}

/// Has the world's Redis carry out a command.
fn tell(world: &World, command: &[&str]) {
    world.with_redis(|redis| Runtime::new().unwrap().block_on(redis.tell(command)));
}

/// Calls as a member, without retries.
fn raw(world: &World, member: &str) -> Raw {
    Raw::at(&format!("http://{}", world.coordinator.socket()), &world.credential(member))
}

/// A message from the lead to bob, under an idempotency key.
fn keyed_send(key: &str) -> v1::SendRequest {
    let content = "x".repeat(8 * 1024);
    let message = v1::DirectMessage { recipient: "bob".to_owned(), summary: "more".to_owned(), content };
    v1::SendRequest {
        body: Some(Body::Message(message)),
        idempotency_key: key.to_owned(),
        ..v1::SendRequest::default()
    }
}

/// Asserts that the lead's send is refused because the store is full, and that a repeated send gets its reply.
fn send_is_refused(runtime: &Runtime, world: &World) {
    let send = |key| runtime.block_on(async { raw(world, LEAD).send_all(keyed_send(key)).await });
    let status = refused(send("after"), Code::ResourceExhausted, "STORE_FULL", "");
    assert!(
        status.message().contains("the store is full") && status.message().contains("Nothing was changed"),
        "{status}"
    );
    send("before").unwrap();
    let told = world.cli(LEAD, &["send", "bob", "-s", "more", "more", "--timeout", "1"]).exits(1);
    let told = told.complains_of("Nothing was changed").complains_of("raise maxmemory");
    assert!(!told.stderr.contains("not known") && !told.stderr.contains(".."), "{}", told.stderr);
}

/// Does what members must be able to do on a full store, and what the lead must, to make room.
fn drain(runtime: &Runtime, world: &World, team: Team) {
    let health = ["health", "--json", "--address", &format!("http://{}", world.coordinator.socket())];
    eventually("health reports it", || (world.cli(LEAD, &health).succeeds().json()["writable"] == false).then_some(()));
    assert_eq!(world.coordinator.metric("teamwire_store_writable"), 0.0);
    send_is_refused(runtime, world);

    let listed = world.cli("bob", &["inbox", "--json"]).succeeds().lines();
    assert_eq!(listed.len(), 2);
    world.cli(LEAD, &["status"]).succeeds();
    world.cli(LEAD, &["task", "list"]).succeeds();
    world.cli(LEAD, &["history"]).succeeds();
    // A session opens, delivers, acknowledges and closes.
    let followed = world.spawn("bob", &["inbox", "--follow", "--ack"], "");
    followed.await_said("to all");
    eventually("all is acknowledged", || world.member("bob")["inbox_depth"].is_null().then_some(()));
    followed.interrupt();
    for activity in [v1::Activity::Active, v1::Activity::Idle] {
        let beat =
            v1::HeartbeatRequest { activity: activity.into(), summary: "waiting".to_owned(), ..Default::default() };
        let beat = async {
            let bob = raw(world, "bob");
            bob.teams().heartbeat(bob.request(beat)).await
        };
        runtime.block_on(beat).unwrap();
    }
    world.cli("amy", &["approve", &team.request_id]).succeeds();
    // Nobody reports the exit of a person.
    eventually("amy counts as exited", || (world.member("amy")["state"] == "exited").then_some(()));
    world.cli(LEAD, &["shutdown", "max", "--force"]).succeeds();
    assert_eq!(team.max.exit(), 77);
    assert_eq!(world.member("max")["state"], "exited");
    for member in ["bob", "eve"] {
        world.cli(member, &["leave"]).succeeds();
        assert_eq!(world.member(member)["state"], "exited");
    }
}

/// What goes on in a team as its store fills up.
struct Team {
    /// A member that must be stopped by force.
    max: Runner,
    /// The pending request that amy exit.
    request_id: String,
}

/// Fills a team with records of many kinds.
fn fill_team(runtime: &Runtime, world: &World) -> Team {
    world.create_team("acme");
    let max = world.run("max", &[], agents::SILENT).ready();
    world.join("bob");
    world.join("eve");
    world.join("amy");
    let asked = world.cli(LEAD, &["shutdown", "amy", "--json"]).succeeds().json();
    let request_id = asked["request_id"].as_str().unwrap().to_owned();
    world.cli(LEAD, &["task", "create", "a task"]).succeeds();
    world.cli("bob", &["task", "claim", "1"]).succeeds();
    world.cli("eve", &["plan", "submit", "a plan"]).succeeds();
    world.cli(LEAD, &["send", "--broadcast", "to all"]).succeeds();
    runtime.block_on(async { raw(world, LEAD).send_all(keyed_send("before")).await }).unwrap();
    Team { max, request_id }
}

#[test]
fn a_full_redis_can_be_read_and_drained() {
    let runtime = Runtime::new().unwrap();
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let Some(redis) = TestRedis::start_of(flavor) else { continue };
        let mut world = World::on_redis(redis);
        let team = fill_team(&runtime, &world);
        tell(&world, &["CONFIG", "SET", "maxmemory", "1mb"]);
        world.coordinator.await_log("the store refuses writes", 1);
        // It also starts like this, even as another version, whose functions the server has never seen.
        world.coordinator.end();
        if flavor == Flavor::Valkey {
            tell(&world, &["FUNCTION", "FLUSH"]);
        }
        world.coordinator.restart();
        drain(&runtime, &world, team);
        world.cli(LEAD, &["team", "delete", "--yes"]).succeeds();
        tell(&world, &["CONFIG", "SET", "maxmemory", "0"]);
        world.coordinator.await_log("the store takes writes again", 1);
        world.create_team("acme");
    }
}

#[test]
fn a_read_only_replica_is_reported_at_the_start_and_in_health() {
    let runtime = Runtime::new().unwrap();
    let Some(primary) = TestRedis::start() else { return };
    let Some(replica) = runtime.block_on(TestRedis::start_replica_of(&primary)) else { return };
    let world = World::on_redis(replica);
    world.coordinator.await_log("the store refuses writes", 1);
    assert!(world.coordinator.log().contains("read only replica"), "{}", world.coordinator.log());
    let health = world.cli(LEAD, &["health"]).succeeds();
    assert!(health.stdout.contains("refuses writes"), "{}", health.stdout);
    world.cli(LEAD, &["health", "--writable"]).exits(1).complains_of("refuses writes");
    assert_eq!(world.coordinator.metric("teamwire_store_writable"), 0.0);
    assert_eq!(world.coordinator.metric("teamwire_store_up"), 1.0);
    world.cli(LEAD, &["team", "list"]).succeeds();

    tell(&world, &["REPLICAOF", "NO", "ONE"]);
    world.coordinator.await_log("the store takes writes again", 1);
    eventually("health reports it", || {
        (world.cli(LEAD, &["health", "--json"]).succeeds().json()["writable"] == true).then_some(())
    });
    world.cli(LEAD, &["health", "--writable"]).succeeds();
    world.create_team("acme");
}

#[test]
fn missing_rights_to_the_keys_are_reported_at_the_start() {
    let Some(redis) = TestRedis::start() else { return };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(redis.tell(&["ACL", "SETUSER", "other", "on", ">secret", "~other:*", "&*", "+@all"]));
    let url = redis.url().replace("redis://", "redis://other:secret@");
    let world = World::embedded();
    let refused = world.cli(LEAD, &["serve", "--listen", "127.0.0.1:0", "--store", &url]).exits(64);
    refused.complains_of("lacks a right that teamwire needs");
}

fn an_emptied_redis_is_reported_as_a_loss(world: World) {
    for complaint in ["the store was emptied", "the store lost commits"] {
        world.coordinator.may_complain_of(complaint);
    }
    world.create_team("acme");
    world.join("bob");
    let quiet = world.run("quiet", &[], agents::SILENT).ready();
    let busy = world.run("busy", &[], agents::SILENT).ready();
    world.cli(LEAD, &["send", "busy", "something to keep"]).succeeds();
    busy.await_text("something to keep");
    tell(&world, &["FLUSHALL"]);
    world.coordinator.await_log("the store was emptied", 1);
    world.coordinator.await_log("the store lost commits", 1);
    eventually("it is counted", || (world.coordinator.metric("teamwire_lost_writes_total") >= 1.0).then_some(()));
    for runner in [quiet, busy] {
        runner.await_log("store lost the team");
        assert!(!runner.log().contains("was deleted"), "{}", runner.log());
        assert_eq!(runner.exit(), 77);
    }
    // Nothing else is wrong.
    world.cli(LEAD, &["health"]).succeeds();
    world.create_team("acme");
}

#[test]
fn a_store_file_that_is_gone_is_not_replaced_by_an_empty_one() {
    let mut world = World::embedded();
    world.create_team("acme");
    world.coordinator.end();
    let file = world.coordinator.state_directory().join("teamwire.redb");
    let reserve = world.coordinator.state_directory().join("teamwire.redb.reserve");
    let log = world.coordinator.state_directory().join("teamwire.redb.wal");
    let whole = fs::read(&file).unwrap();
    for state in ["is missing", "is empty"] {
        match state {
            "is missing" => fs::remove_file(&file).unwrap(),
            _ => fs::write(&file, "").unwrap(),
        }
        let refused = world.cli(LEAD, &["serve", "--listen", "127.0.0.1:0"]).exits(69);
        refused.complains_of(state).complains_of("restore").complains_of("delete");
        assert!(fs::metadata(&file).is_ok_and(|found| found.len() == 0) == (state == "is empty"), "it was replaced");
    }
    fs::write(&file, whole).unwrap();
    world.coordinator.restart();
    world.cli(LEAD, &["team", "show"]).succeeds();
    // Consent to an empty store.
    world.coordinator.end();
    for file in [&file, &reserve, &log] {
        fs::remove_file(file).unwrap();
    }
    world.coordinator.restart();
    world.create_team("acme");
}

#[cfg(target_os = "linux")]
#[test]
fn a_coordinator_whose_store_file_was_deleted_confirms_nothing_and_can_be_rescued() {
    let mut world = World::embedded();
    world.coordinator.may_complain_of("the store's file is lost");
    world.create_team("acme");
    world.join("bob");
    world.cli(LEAD, &["send", "bob", "confirmed"]).succeeds();
    let file = world.coordinator.state_directory().join("teamwire.redb");
    fs::remove_file(&file).unwrap();

    let refused = world.cli(LEAD, &["send", "bob", "refused", "--timeout", "1"]).exits(69);
    refused.complains_of("teamwire.redb was deleted").complains_of("ask its operator");
    world.coordinator.await_log("the store refuses writes", 1);
    let health = ["health", "--address", &format!("http://{}", world.coordinator.socket())];
    let health = world.cli(LEAD, &[&health[..], &["--writable"]].concat()).exits(1);
    health.complains_of("refuses writes");
    assert_eq!(world.coordinator.metric("teamwire_store_writable"), 0.0);
    let inbox = |world: &World| world.cli("bob", &["inbox", "--json"]).succeeds().lines();
    let kept = inbox(&world);
    assert_eq!(kept.len(), 1, "{kept:?}");

    // The log names the open file, which has everything.
    let log = world.coordinator.log();
    let reports: Vec<&str> = log.lines().filter(|line| line.contains("the store's file is lost")).collect();
    assert_eq!(reports.len(), 1, "{log}");
    let open = &reports[0][reports[0].find("/proc/").unwrap()..];
    let open = &open[..open.find(':').unwrap()];
    fs::copy(open, &file).unwrap();
    world.coordinator.end();
    world.coordinator.restart();
    assert_eq!(inbox(&world), kept);
    world.cli(LEAD, &["send", "bob", "confirmed again"]).succeeds();
    assert_eq!(inbox(&world).len(), 2);
}

/// A small disk in memory that takes the place of a directory, and its contents.
struct Disk(PathBuf);

impl Disk {
    /// Mounts it. `None`, with a notice, if this user may not.
    fn mount_at(directory: &Path) -> Option<Self> {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            eprintln!("skipped: only root can mount a small disk");
            return None;
        }
        let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = files.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=96m,mode=700", "tmpfs"]).arg(directory).status();
        assert!(mounted.unwrap().success());
        for (path, contents) in files {
            fs::write(&path, contents).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        Some(Self(directory.to_owned()))
    }

    /// Fills the remaining space.
    fn fill(&self) {
        let mut pages = 0;
        while fs::write(self.0.join(format!("ballast-{pages}")), [1; 4096]).is_ok() {
            pages += 1;
        }
        assert!(pages > 0);
    }

    /// Frees the space.
    fn free(&self) {
        for entry in fs::read_dir(&self.0).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("ballast-") {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A file that is still open disappears with its process.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_coordinator_starts_on_a_full_disk_and_its_store_can_be_drained() {
    let runtime = Runtime::new().unwrap();
    let mut world = World::embedded();
    for complaint in ["the store could not write", "could not be written"] {
        world.coordinator.may_complain_of(complaint);
    }
    let team = fill_team(&runtime, &world);
    world.coordinator.end();
    let Some(disk) = Disk::mount_at(&world.coordinator.state_directory()) else { return };
    world.coordinator.restart();
    disk.fill();
    eventually("the disk is found full", || {
        let content = "x".repeat(60 * 1024);
        let message = v1::DirectMessage { recipient: "eve".to_owned(), summary: "much".to_owned(), content };
        runtime.block_on(async { raw(&world, LEAD).send(Some(Body::Message(message))).await }).err()
    });
    world.coordinator.await_log("the store refuses writes", 1);
    drain(&runtime, &world, team);

    // Other programs take what the reserve gave up: nothing can be written any more, not even the file for clients.
    world.coordinator.end();
    let file = world.coordinator.state_directory().join("address");
    let address = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    disk.fill();
    world.coordinator.restart();
    let wanted = format!("pass them --address {}", String::from_utf8_lossy(&address).trim());
    world.coordinator.await_log(&wanted, 1);
    world.coordinator.await_log("the store refuses writes", 2);
    world.cli(LEAD, &["status", "--address", String::from_utf8(address.clone()).unwrap().trim()]).succeeds();

    disk.free();
    world.coordinator.await_log("the store takes writes again", 1);
    fs::write(&file, address).unwrap();
    world.join("bob");
    world.cli(LEAD, &["send", "bob", "there is room again"]).succeeds();
}
