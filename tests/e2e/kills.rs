//! A command that sets something up is killed at any moment, or a coordinator under load. The next one accepts what it has
//! left.
//!
//! `TEAMWIRE_TEST_KILLS` says how often each is killed, and `TEAMWIRE_TEST_QUEUED` how many messages wait in an inbox
//! meanwhile; `cargo xtask nightly` raises both.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    thread::sleep,
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use teamwire_client::{Client, Event as Received, Retry, SubscribeOptions, message, v1};
use teamwire_proto::v1::history_entry::Event;
use tokio::{runtime::Runtime, task::JoinSet};

use crate::world::{FreshMachine, World, bare_command, eventually};

const TEAM: &str = "name = \"acme\"\n[[members]]\nname = \"backend\"\nprofile = \"echo\"\n\
                    [hosts.local.profiles.echo]\ncommand = [\"teamwire\", \"echo-teammate\"]\n";

/// How often each command is killed if nothing says otherwise.
const KILLS: u32 = 8;

/// Runs a check for each of several random moments up to `longest`.
fn at_random_moments(longest: Duration, mut check: impl FnMut(Duration)) {
    let kills = env::var("TEAMWIRE_TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let seed = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    for kill in 0..kills {
        let moment = longest.mul_f64(random.random());
        eprintln!("seed {seed}, kill {kill} after {moment:?}");
        check(moment);
    }
}

/// Kills a command after a moment, unless it has ended. The kill must come at any time, so no event comes before it.
fn kill_after(machine: &FreshMachine, arguments: &[&str], moment: Duration) {
    let started = World::start_command(machine.command(), machine.path(), "a person", arguments, "");
    sleep(moment);
    started.kill();
}

#[test]
fn a_coordinator_starts_after_its_first_start_was_killed() {
    at_random_moments(Duration::from_millis(60), |moment| {
        let machine = FreshMachine::new();
        kill_after(&machine, &["serve"], moment);
        let again = World::start_command(machine.command(), machine.path(), "a person", &["serve"], "");
        let is_serving = || (machine.run(&["team", "list", "--json"]).code == 0).then_some(());
        eventually("the next coordinator serves", is_serving);
        again.kill();
    });
}

#[test]
fn a_team_starts_and_ends_after_its_first_start_was_killed() {
    at_random_moments(Duration::from_millis(800), |moment| {
        let machine = FreshMachine::new();
        fs::write(machine.path().join("team.toml"), TEAM).unwrap();
        kill_after(&machine, &["up"], moment);
        machine.run(&["up"]).succeeds();
        machine.run(&["down"]).succeeds();
        machine.assert_nothing_is_left();
    });
}

#[test]
fn a_backup_is_restored_after_a_restore_was_killed() {
    let origin = FreshMachine::new();
    fs::write(origin.path().join("team.toml"), TEAM).unwrap();
    origin.run(&["up"]).succeeds();
    let backup = origin.path().join("backup");
    let file = backup.to_str().unwrap();
    origin.run(&["backup", file]).succeeds();
    at_random_moments(Duration::from_millis(120), |moment| {
        let machine = FreshMachine::new();
        let store = format!("embedded:{}", machine.state().join("teamwire.redb").display());
        fs::create_dir_all(machine.state()).unwrap();
        fs::set_permissions(machine.state(), Permissions::from_mode(0o700)).unwrap();
        let restore = ["restore", file, "--store", &store];
        kill_after(&machine, &restore, moment);
        let again = machine.run(&restore);
        // If the first one was complete, there is nothing left to do.
        assert!(again.code == 0 || again.stderr.contains("not empty"), "{}", again.stderr);
        let serving = World::start_command(machine.command(), machine.path(), "a person", &["serve"], "");
        eventually("the coordinator serves the restored team", || {
            let listed = machine.run(&["team", "list", "--json"]);
            (listed.code == 0 && listed.stdout.contains("acme")).then_some(())
        });
        serving.kill();
    });
    origin.run(&["down"]).succeeds();
}

#[test]
fn certificates_are_issued_after_their_first_issue_was_killed() {
    at_random_moments(Duration::from_millis(30), |moment| {
        let machine = FreshMachine::new();
        kill_after(&machine, &["certs", "--client", "ann"], moment);
        machine.run(&["certs", "--client", "ann"]).succeeds();
        let file = |name: &str| machine.path().join("certs").join(name).display().to_string();
        let (cert, key) = (file("server.crt"), file("server.key"));
        let serving = World::start_command(
            machine.command(),
            machine.path(),
            "a person",
            &["serve", "--tls-cert", &cert, "--tls-key", &key],
            "",
        );
        let address = || fs::read_to_string(machine.state().join("address")).ok();
        let address = eventually("the coordinator uses the certificate", address);
        let mut command = bare_command();
        command.env("HOME", machine.path());
        machine.run_command(command, &["--address", address.trim(), "--ca", &file("ca.crt"), "health"]).succeeds();
        serving.kill();
    });
}

/// The number of concurrent callers, as many as share a flush to the disk under load.
const CALLERS: usize = 64;

/// The default limits exist to prevent this.
const NO_LIMITS: &str = "[limits]\ninbox_entries_max = 1000000\ninbox_bytes_max = \"1GiB\"\n[rates]\n\
                         sends_per_second = 1000000\nsends_burst = 1000000\nwrites_per_second = 1000000\n\
                         writes_burst = 1000000\nread_bytes_per_second = \"16GiB\"\nread_bytes_burst = \"16GiB\"\n";

/// How often a coordinator is killed before the next begins with a new store, because each kill leaves more messages.
const KILLS_OF_A_STORE: u32 = 10;

#[test]
fn sends_that_were_confirmed_survive_kills_of_the_coordinator() {
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    let queued: usize = env::var("TEAMWIRE_TEST_QUEUED").map_or(0, |text| text.parse().unwrap());
    let (mut store, mut kills, mut starts) = (None::<LoadedStore>, 0, Vec::new());
    let check = |store: LoadedStore| {
        let kept = runtime.block_on(messages_after(&store.client, &mut 0)).len();
        assert!(queued < store.count && store.count <= kept, "{} of {kept}", store.count);
    };
    at_random_moments(Duration::from_millis(700), |moment| {
        let LoadedStore { world, client, sink, count, sequence } = match kills % KILLS_OF_A_STORE {
            0 => {
                store.take().map(check);
                store.insert(runtime.block_on(LoadedStore::new(queued)))
            }
            _ => store.as_mut().unwrap(),
        };
        kills += 1;
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            callers.spawn(send_until_refused(client.clone().with_retry(Retry::none())));
        }
        // The kill must come at any time, so no event comes before it.
        sleep(moment);
        world.coordinator.kill();
        let confirmed: BTreeSet<String> = runtime.block_on(callers.join_all()).into_iter().flatten().collect();
        *count += confirmed.len();
        let began = Instant::now();
        world.coordinator.restart();
        let serves = began.elapsed();
        runtime.block_on(first_delivery(sink));
        starts.push((began.elapsed(), serves));
        let kept = runtime.block_on(messages_after(client, sequence));
        let lost: Vec<_> = confirmed.difference(&kept).collect();
        assert!(lost.is_empty(), "{} of {} confirmed messages are lost: {lost:?}", lost.len(), confirmed.len());
        let waiting = &world.member("sink")["inbox_depth"];
        eprintln!("{} new messages were confirmed, and {waiting} wait", confirmed.len());
    });
    store.map(check);
    starts.sort_unstable();
    eprintln!(
        "From a restart to the first delivery, and of that until it served: median {:?}, at most {:?}",
        starts[starts.len() / 2],
        starts[starts.len() - 1]
    );
}

/// A coordinator whose store holds messages that nobody has received.
struct LoadedStore {
    world: World,
    client: Client,
    sink: Client,
    /// How many messages were confirmed.
    count: usize,
    /// The end of the history.
    sequence: u64,
}

impl LoadedStore {
    /// Starts one, and queues at least so many messages.
    async fn new(queued: usize) -> Self {
        let world = World::configured(NO_LIMITS);
        world.create_team("acme");
        let (sink, sender) = (world.join("sink"), world.join("sender"));
        let client = Client::connect(&world.coordinator.address()).unwrap().with_credential(&sender).unwrap();
        let sink = client.with_credential(&sink).unwrap();
        queue(&client, queued.max(CALLERS)).await;
        let mut sequence = 0;
        let count = messages_after(&client, &mut sequence).await.len();
        Self { world, client, sink, count, sequence }
    }
}

/// Queues at least so many messages.
async fn queue(client: &Client, count: usize) {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let client = client.clone();
        callers.spawn(async move {
            for _ in 0..count.div_ceil(CALLERS) {
                send(&client).await.unwrap();
            }
        });
    }
    callers.join_all().await;
}

/// Returns once the inbox's oldest message has come.
async fn first_delivery(sink: &Client) {
    let mut inbox = sink.subscribe(SubscribeOptions::default());
    loop {
        match inbox.next().await.unwrap().unwrap() {
            Received::Delivery(delivery) => return delivery.ack(),
            Received::Opened(_) | Received::Lost { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Sends a message. Returns its id.
async fn send(client: &Client) -> Result<String, teamwire_client::Error> {
    Ok(client.send(message::direct("sink", "one of many", "x".repeat(300))).await?.message_id)
}

/// Sends until a call fails. Returns the ids of the messages that were confirmed.
async fn send_until_refused(client: Client) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        match send(&client).await {
            Ok(id) => ids.push(id),
            Err(_) => return ids,
        }
    }
}

/// Returns the ids of the messages in the history after a sequence, and moves that to the end.
async fn messages_after(client: &Client, sequence: &mut u64) -> BTreeSet<String> {
    let mut request = v1::ListHistoryRequest { page_size: 1_000, after_sequence: *sequence, ..Default::default() };
    let mut found = BTreeSet::new();
    loop {
        let page = client.list_history(request.clone()).await.unwrap();
        *sequence = page.last_sequence;
        found.extend(page.entries.into_iter().filter_map(|entry| match entry.event {
            Some(Event::Message(message)) => Some(message.id),
            _ => None,
        }));
        if page.next_page_token.is_empty() {
            return found;
        }
        request.page_token = page.next_page_token;
    }
}
