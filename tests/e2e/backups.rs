//! Backups of a store that is in use, and what a restored one is like.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, lchown, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use flate2::{Compression, bufread::MultiGzDecoder, write::GzEncoder};
use nix::unistd::geteuid;
use serde_json::Value;
use teamwire_client::{Client, message};
use tokio::{runtime::Runtime, sync::watch, task::JoinHandle};

use crate::world::{Coordinator, LEAD, Output, StartedCommand, TestRedis, World, eventually};

store_scenarios! {
    a_backup_under_load_has_everything_acknowledged_before_it_and_nothing_that_was_not_sent,
    a_restored_team_goes_on_where_it_was,
    an_exported_history_is_complete_and_continues,
    a_backup_is_a_private_file_that_only_the_operator_can_make,
}

/// How many clients send.
const SENDERS: usize = 4;

/// How many messages of each are stored before the backup begins.
const EACH_BEFORE: usize = 25;

/// Room for all of them.
const ROOMY: &str = "[limits]\ninbox_entries_max = 100000\n";

/// Where a backup is restored: a store and the coordinator on it.
struct Restored {
    coordinator: Coordinator,
    url: String,
    _redis: Option<TestRedis>,
}

impl Restored {
    /// Restores a backup into each kind of store.
    fn each(world: &World, backup: &Path, name: &str) -> Vec<Self> {
        let home = world.home(LEAD);
        let file = format!("embedded:{}", home.join(name).join("restored.redb").display());
        let redis = TestRedis::start();
        let mut stores = vec![(file, None)];
        stores.extend(redis.map(|redis| (redis.url(), Some(redis))));
        let restore = |(at, (url, _redis)): (usize, (String, Option<TestRedis>))| {
            restore(world, backup, &url).succeeds();
            Self { coordinator: world.coordinator_on(&format!("{name}-{at}"), &url), url, _redis }
        };
        stores.into_iter().enumerate().map(restore).collect()
    }

    /// Runs a command as a user, at this coordinator.
    #[track_caller]
    fn cli(&self, world: &World, who: &str, typed: &[&str]) -> Output {
        world.cli_in(who, typed, &[("TEAMWIRE_ADDRESS", &self.coordinator.address())])
    }
}

fn back_up(world: &World, name: &str) -> PathBuf {
    let file = world.home(LEAD).join(name);
    world.cli(LEAD, &["backup", &file.display().to_string()]).succeeds();
    file
}

#[track_caller]
fn restore(world: &World, backup: &Path, url: &str) -> Output {
    world.cli(LEAD, &["restore", &backup.display().to_string(), "--store", url])
}

/// Sends numbers to `sink`, each once the one before is stored.
async fn send(client: Client, stored: Arc<AtomicUsize>, stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        let number = stored.load(Ordering::SeqCst).to_string();
        client.send(message::direct("sink", "a number", number)).await.expect("no error ever");
        stored.fetch_add(1, Ordering::SeqCst);
    }
}

fn a_backup_under_load_has_everything_acknowledged_before_it_and_nothing_that_was_not_sent(mut world: World) {
    let state = world.coordinator.state_directory();
    fs::write(state.parent().unwrap().join("teamwire.toml"), ROOMY).unwrap();
    world.coordinator.end();
    world.coordinator.restart();
    world.create_team("acme");
    world.join("sink");
    let runtime = Runtime::new().unwrap();
    let (stop, stopped) = watch::channel(false);
    let stored: Vec<Arc<AtomicUsize>> = (0..SENDERS).map(|_| Arc::default()).collect();
    let count = || stored.iter().map(|stored| stored.load(Ordering::SeqCst)).collect::<Vec<_>>();
    let sending: Vec<JoinHandle<()>> = (0..SENDERS)
        .map(|number| {
            let credential = world.join(&format!("sender-{number}"));
            let _inside = runtime.enter();
            let client = Client::connect(&world.coordinator.address()).unwrap().with_credential(&credential).unwrap();
            runtime.spawn(send(client, Arc::clone(&stored[number]), stopped.clone()))
        })
        .collect();
    eventually("all send", || count().iter().all(|stored| *stored >= EACH_BEFORE).then_some(()));
    let before = count();
    let backup = back_up(&world, "under-load.jsonl.gz");
    let during = count();
    eventually("all go on", || count().iter().zip(&during).all(|(now, then)| now > then).then_some(()));
    stop.send_replace(true);
    for sending in sending {
        runtime.block_on(sending).unwrap();
    }
    assert!(during.iter().zip(&before).any(|(during, before)| during > before), "nothing was sent during the backup");
    let (after, history) = (count(), world.history(LEAD));

    for restored in Restored::each(&world, &backup, "under-load") {
        let inbox = restored.cli(&world, "sink", &["inbox", "--json", "--limit", "100000"]).succeeds().lines();
        let mut of_each: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, delivery) in inbox.iter().enumerate() {
            assert_eq!(delivery["sequence"], at + 1, "the inbox has a gap");
            let message = &delivery["message"];
            let (from, content) = (message["from"].as_str().unwrap(), message["content"].as_str().unwrap());
            of_each.entry(from.to_owned()).or_default().push(content.parse().unwrap());
        }
        for number in 0..SENDERS {
            let numbers = &of_each[&format!("sender-{number}")];
            assert_eq!(*numbers, (0..numbers.len()).collect::<Vec<_>>(), "missing, doubled or disordered");
            assert!(numbers.len() >= before[number], "{} of {} are there", numbers.len(), before[number]);
            assert!(numbers.len() <= after[number]);
        }
        // Nothing has read the inbox, so no receipt has changed.
        let kept = restored.cli(&world, LEAD, &["history", "--all", "--json"]).succeeds().lines();
        assert_eq!(kept[..], history[..kept.len()]);
        assert!(kept.len() >= inbox.len());
    }
}

/// Returns what the team consists of, without what time changes.
fn seen(run: impl Fn(&str, &[&str]) -> Output) -> Vec<Value> {
    let mut seen = Vec::new();
    for (who, typed) in [
        (LEAD, &["history", "--all", "--json"][..]),
        (LEAD, &["inbox", "--json"]),
        ("bob", &["inbox", "--json"]),
        ("eve", &["inbox", "--json"]),
        (LEAD, &["requests", "--json"]),
        (LEAD, &["task", "list", "--json"]),
    ] {
        seen.extend(run(who, typed).succeeds().lines());
    }
    let status = run(LEAD, &["status", "--json"]).succeeds().json();
    for member in status["members"].as_array().unwrap() {
        let kept = ["name", "role", "incarnation", "inbox_depth", "joined_at", "notice_level"];
        seen.push(
            kept.iter()
                .map(|field| ((*field).to_owned(), member[*field].clone()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        );
    }
    seen
}

fn a_restored_team_goes_on_where_it_was(world: World) {
    world.create_team("acme");
    for member in ["bob", "eve"] {
        world.join(member);
    }
    for content in ["one", "two", "three"] {
        world.cli(LEAD, &["send", "bob", content]).succeeds();
    }
    // The first is processed. The others are delivered once, and remain.
    let taken = world.spawn("bob", &["inbox", "--follow"], "");
    taken.await_said("three");
    taken.interrupt();
    let first = world.cli("bob", &["inbox", "--json"]).succeeds().lines()[0]["message"]["id"].clone();
    let first = first.as_str().unwrap();
    world.cli("bob", &["inbox", "ack", first]).succeeds();
    let keyed = ["send", "eve", "once", "--idempotency-key", "a-key-that-is-repeated", "--json"];
    let sent = world.cli(LEAD, &keyed).succeeds().json();
    world.cli(LEAD, &["task", "create", "Dig"]).succeeds();
    world.cli(LEAD, &["task", "create", "Fill", "--blocked-by", "1"]).succeeds();
    world.cli("bob", &["task", "claim", "1"]).succeeds();
    world.cli("eve", &["plan", "submit", "a plan"]).succeeds();

    let before = seen(|who, typed| world.cli(who, typed));
    let backup = back_up(&world, "quiet.jsonl.gz");
    for (at, restored) in Restored::each(&world, &backup, "quiet").into_iter().enumerate() {
        assert_eq!(
            seen(|who, typed| restored.cli(&world, who, typed)),
            before,
            "after a restore into {}",
            restored.url
        );
        // There and back again: from this kind of store into both.
        let again = world.home(LEAD).join(format!("again-{at}.jsonl.gz"));
        let state = restored.coordinator.state_directory().display().to_string();
        let typed = ["backup", &again.display().to_string(), "--state-dir", &state];
        restored.cli(&world, LEAD, &typed).succeeds();
        for again in Restored::each(&world, &again, &format!("again-{at}")) {
            assert_eq!(
                seen(|who, typed| again.cli(&world, who, typed)),
                before,
                "after two restores, in {}",
                again.url
            );
        }

        let repeated = restored.cli(&world, LEAD, &keyed).succeeds().json();
        assert_eq!((&repeated["message_id"], &repeated["replayed"]), (&sent["message_id"], &true.into()));
        let follow = world.spawn_in(
            "bob",
            &["inbox", "--follow", "--ack", "--json"],
            &[("TEAMWIRE_ADDRESS", &restored.coordinator.address())],
        );
        follow.await_said("\"three\"");
        restored.cli(&world, LEAD, &["send", "bob", "four"]).succeeds();
        follow.await_said("\"four\"");
        let delivered = follow.interrupt().lines();
        let counts: Vec<_> = delivered
            .iter()
            .map(|one| (one["sequence"].as_u64().unwrap(), one["delivery_count"].as_u64().unwrap()))
            .collect();
        assert_eq!(counts, [(2, 2), (3, 2), (4, 1)]);
        restored.cli(&world, "bob", &["task", "complete", "1"]).succeeds();
        restored.cli(&world, "eve", &["task", "claim", "2"]).succeeds();
        restored.cli(&world, LEAD, &["approve", "last"]).succeeds();
        let teams = restored.cli(&world, LEAD, &["team", "list", "--as", "operator", "--state-dir", &state, "--json"]);
        assert_eq!(teams.succeeds().json()["name"], "acme");
    }
}

fn an_exported_history_is_complete_and_continues(world: World) {
    world.create_team("acme");
    world.join("bob");
    let text = "x".repeat(60_000);
    for _ in 0..30 {
        // Together more than one page holds.
        world.cli_with_input(LEAD, &["send", "bob", "-", "-s", "much"], &text).succeeds();
    }
    let file = world.home(LEAD).join("history.jsonl");
    let export = |more: &[&str]| {
        let typed = [&["history", "--export", file.to_str().unwrap()], more].concat();
        world.cli(LEAD, &typed)
    };
    let lines = || -> Vec<Value> {
        fs::read_to_string(&file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    export(&[]).succeeds();
    assert_eq!(lines(), world.history(LEAD));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    export(&[]).exits(64).complains_of("--resume");

    // It was cut short in the middle of a line.
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    world.cli(LEAD, &["send", "bob", "one more"]).succeeds();
    export(&["--resume"]).succeeds();
    assert_eq!(lines(), world.history(LEAD));
    let nothing = export(&["--resume", "--json"]).succeeds().json();
    assert_eq!(
        (&nothing["entries"], &nothing["last_sequence"]),
        (&0.into(), &world.history(LEAD).last().unwrap()["sequence"])
    );

    fs::write(&file, "something else\n").unwrap();
    export(&["--resume"]).exits(64).complains_of("no exported history");
    assert_eq!(fs::read_to_string(&file).unwrap(), "something else\n");
    export(&["--force"]).succeeds();
    assert_eq!(lines(), world.history(LEAD));
}

fn a_backup_is_a_private_file_that_only_the_operator_can_make(mut world: World) {
    world.create_team("acme");
    world.join("bob");
    world.cli(LEAD, &["send", "bob", "a secret message"]).succeeds();
    let backup = back_up(&world, "one.jsonl.gz");
    let name = backup.display().to_string();
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    world.cli(LEAD, &["backup", &name]).exits(64).complains_of("--force");
    world.cli(LEAD, &["backup", &name, "--force"]).succeeds();
    if geteuid().is_root() {
        let link = backup.with_file_name("link");
        symlink(&backup, &link).unwrap();
        lchown(&link, Some(12_345), None).unwrap();
        let link = link.display().to_string();
        world.cli(LEAD, &["backup", &link, "--force"]).exits(64).complains_of("is a link of another user");
    }
    let to_stdout = world.spawn_shell(LEAD, "\"$0\" backup - > two.jsonl.gz").output();
    assert_eq!(to_stdout.succeeds().stdout, "");
    let checked = world.cli(LEAD, &["restore", "two.jsonl.gz", "--check", "--json"]).succeeds().json();
    // The directory, the team and the audit log.
    assert_eq!(checked["namespaces"], 3);

    // The contents are in it, and no credential.
    let text = unpacked(&backup);
    assert!(text.contains("\"kind\":\"team\""));
    for secret in [world.credential("bob"), world.credential(LEAD), world.operator()] {
        let secret = secret.rsplit(':').next().unwrap();
        assert!(!text.contains(secret), "the backup holds a credential");
    }
    // Neither a member nor someone who signed in as the operator may make one.
    for who in ["bob", LEAD] {
        let credential = world.credential(who);
        let refused = world.cli_in(LEAD, &["backup", "three.jsonl.gz"], &[("TEAMWIRE_CREDENTIAL", &credential)]);
        refused.exits(77).complains_of("operator");
    }
    let home = world.home(LEAD);
    let names = fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.contains("backup") || name.contains("three")).collect();
    assert!(left.is_empty(), "{left:?}");

    // Without a coordinator, from the store itself.
    let store = world.store_url();
    if store.starts_with("embedded:") {
        world.cli(LEAD, &["backup", "four.jsonl.gz", "--store", &store]).exits(69).complains_of("open");
    }
    world.coordinator.end();
    world.cli(LEAD, &["backup", "four.jsonl.gz", "--store", &store]).succeeds();
    world
        .cli(LEAD, &["backup", "five.jsonl.gz", "--store", "embedded:missing.redb"])
        .exits(64)
        .complains_of("no store");
    world.cli(LEAD, &["backup", "five.jsonl.gz", "--store", "memory:"]).exits(64).complains_of("--address");
    assert!(!home.join("missing.redb").exists() && !home.join("five.jsonl.gz").exists());
    assert_eq!(teams_in(&home.join("four.jsonl.gz")), teams_in(&backup));
    restore(&world, &backup, &store).exits(1).complains_of("not empty").complains_of("acme");
    world.coordinator.restart();
    world.cli("bob", &["inbox"]).succeeds();
}

fn unpacked(backup: &Path) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(std::io::BufReader::new(fs::File::open(backup).unwrap())).read_to_string(&mut text).unwrap();
    text
}

fn pack(path: &Path, text: &str) {
    let mut out = GzEncoder::new(fs::File::create(path).unwrap(), Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap();
}

fn teams_in(backup: &Path) -> Vec<String> {
    let text = unpacked(backup);
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| Some(line["namespace"]["name"].as_str()?.to_owned())).collect()
}

/// Writes a backup with changed lines, and a last line that fits them.
fn pack_changed(path: &Path, text: &str, change: impl Fn(&str) -> String) {
    let lines: Vec<&str> = text.lines().collect();
    let (end, before) = lines.split_last().unwrap();
    let changed: String = before.iter().map(|line| change(line) + "\n").collect();
    let mut end: Value = serde_json::from_str(end).unwrap();
    end["end"]["blake3"] = blake3::hash(changed.as_bytes()).to_hex().to_string().into();
    pack(path, &format!("{changed}{end}\n"));
}

#[test]
fn an_unusable_backup_is_refused_with_an_explanation_and_changes_nothing() {
    let world = World::embedded();
    world.create_team("acme");
    world.join("bob");
    let (backup, home) = (back_up(&world, "whole.jsonl.gz"), world.home(LEAD));
    let (text, bytes) = (unpacked(&backup), fs::read(&backup).unwrap());
    let (other, target) = (home.join("other.jsonl.gz"), home.join("target").join("store.redb"));
    let url = format!("embedded:{}", target.display());
    let refused = |complaint: &str| {
        restore(&world, &other, &url).exits(1).complains_of(complaint);
        world.cli(LEAD, &["restore", "other.jsonl.gz", "--check"]).exits(1).complains_of(complaint);
        assert!(!target.exists(), "a store was created");
    };
    for length in [bytes.len() - 1, bytes.len() / 2, 20] {
        fs::write(&other, &bytes[..length]).unwrap();
        refused("cut short");
    }
    for more in [b"\n".as_slice(), &[0; 512]] {
        fs::write(&other, [&bytes, more].concat()).unwrap();
        refused("follow its end");
    }
    fs::write(&other, [&*bytes, &*bytes].concat()).unwrap();
    refused("something follows the end");
    pack(&other, &text.lines().take(5).map(|line| format!("{line}\n")).collect::<String>());
    refused("cut short");
    pack(&other, &text.replacen("acme", "acne", 1));
    refused("checksum");
    fs::write(&other, "no backup\n").unwrap();
    refused("no backup");
    pack_changed(&other, &text, |line| line.replacen("\"teamwire_backup\":1", "\"teamwire_backup\":9", 1));
    refused("backup format 9");
    pack_changed(&other, &text, |line| line.replacen("\"store_format\":1", "\"store_format\":9", 1));
    refused("store format 9");
    restore(&world, &home.join("missing.jsonl.gz"), &url).exits(64).complains_of("missing.jsonl.gz");
    restore(&world, &backup, "memory:").exits(64).complains_of("embedded:PATH");
    world.cli(LEAD, &["restore", &backup.display().to_string()]).exits(64).complains_of("--store");
}

#[test]
fn a_backup_is_restored_from_standard_input() {
    let world = World::embedded();
    world.create_team("acme");
    world.join("bob");
    world.cli(LEAD, &["send", "bob", "hello"]).succeeds();
    let backup = back_up(&world, "whole.jsonl.gz");
    let shell = |script: &str| world.spawn_shell(LEAD, script).output();
    let cut = shell("head -c 200 whole.jsonl.gz | \"$0\" restore - --store embedded:piped.redb");
    cut.exits(1).complains_of("cut short");
    assert!(!world.home(LEAD).join("piped.redb").exists());
    shell("cat whole.jsonl.gz | \"$0\" restore - --store embedded:piped.redb").succeeds();
    let checked = shell("cat whole.jsonl.gz | \"$0\" restore - --check").succeeds().stdout;
    assert!(checked.contains("is complete"), "{checked}");
    let url = format!("embedded:{}", world.home(LEAD).join("piped.redb").display());
    let restored = world.coordinator_on("piped", &url);
    let inbox = world.cli_in("bob", &["inbox"], &[("TEAMWIRE_ADDRESS", &restored.address())]).succeeds().stdout;
    assert!(inbox.contains("hello"), "{inbox}");
    assert!(backup.exists());
}

#[test]
fn an_interrupted_backup_leaves_nothing_behind() {
    let world = World::embedded();
    // A coordinator that accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let files = || -> Vec<String> {
        let names = fs::read_dir(world.home(LEAD)).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).filter(|name| name.contains("backup")).collect()
    };
    for end in [StartedCommand::interrupt, StartedCommand::terminate] {
        let backup = world.spawn_in(LEAD, &["backup", "new-backup"], &[("TEAMWIRE_ADDRESS", &address)]);
        eventually("the backup begins", || (!files().is_empty()).then_some(()));
        end(backup).exits(130).complains_of("no backup was written");
        assert_eq!(files(), Vec::<String>::new());
    }
}

#[test]
fn an_interrupted_restore_is_not_served_and_starts_over() {
    let world = World::embedded();
    world.create_team("acme");
    world.join("bob");
    let (backup, home) = (back_up(&world, "whole.jsonl.gz"), world.home(LEAD));
    // A backup that is complete, but ends the restore half-way.
    let broken = home.join("broken.jsonl.gz");
    pack_changed(&broken, &unpacked(&backup), |line| line.replacen("\"kind\":\"listed\"", "\"kind\":\"LISTED\"", 1));
    let mut stores = vec![(format!("embedded:{}", home.join("target.redb").display()), None)];
    stores.extend(TestRedis::start().map(|redis| (redis.url(), Some(redis))));
    for (at, (url, _redis)) in stores.into_iter().enumerate() {
        restore(&world, &broken, &url).exits(1).complains_of("LISTED");
        let serve = ["serve", "--store", &url, "--listen", "127.0.0.1:0", "--state-dir", "elsewhere"];
        world.cli(LEAD, &serve).exits(69).complains_of("unfinished restore");
        world.cli(LEAD, &["backup", "x.jsonl.gz", "--store", &url]).exits(1).complains_of("unfinished restore");
        restore(&world, &backup, &url).succeeds();
        let restored = world.coordinator_on(&format!("restored-{at}"), &url);
        world.cli_in("bob", &["inbox"], &[("TEAMWIRE_ADDRESS", &restored.address())]).succeeds();
    }
}
