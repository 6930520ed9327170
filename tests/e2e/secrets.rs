//! No secret is in the arguments of a process, where every user of the machine can read it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    agents,
    world::{LEAD, MARK, Runner, SECRET, World, eventually},
};

store_scenarios! {
    no_secret_is_an_argument_of_any_process,
}

/// What the credentials of teamwire begin with.
const PREFIXES: [&str; 6] = ["two:", "twm:", "twj:", "twv:", "twk:", "twc:"];

/// Collects the arguments of all processes of a world and of their descendants, until it is dropped.
struct Arguments {
    stop: Arc<AtomicBool>,
    watcher: Option<thread::JoinHandle<BTreeSet<String>>>,
}

impl Arguments {
    fn watch(world: &World) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let directory = world.home(LEAD).ancestors().nth(2).unwrap().display().to_string();
        let (is_over, mark) = (Arc::clone(&stop), format!("{MARK}={directory}"));
        let watcher = thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) {
                seen.extend(arguments(&mark));
                thread::sleep(Duration::from_millis(2));
            }
            seen
        });
        Self { stop, watcher: Some(watcher) }
    }

    fn end(mut self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.watcher.take().unwrap().join().unwrap()
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Returns the command line of each process that has the mark in its environment or descends from one that has.
fn arguments(mark: &str) -> Vec<String> {
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        let is_marked = read("environ").split(|byte| *byte == 0).any(|one| one == mark.as_bytes());
        let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        processes.insert(pid, (parent.unwrap_or_default(), is_marked, line));
    }
    let is_own = |mut pid: u32| {
        while let Some((parent, is_marked, _)) = processes.get(&pid) {
            if *is_marked {
                return true;
            }
            pid = *parent;
        }
        false
    };
    let own = processes.iter().filter(|(pid, _)| is_own(**pid));
    own.map(|(_, (_, _, line))| line.clone()).filter(|line| !line.is_empty()).collect()
}

/// Writes a join string for a name to a file in the directory of that user.
fn string_file(world: &World, name: &str, more: &[&str]) -> PathBuf {
    let invited = world.cli(LEAD, &[&["invite", name], more].concat()).succeeds();
    let file = world.home(name).join("join-string");
    fs::write(&file, invited.stdout).unwrap();
    file
}

fn run_from_file(world: &World, name: &str, options: &[&str], program: &[&str]) -> Runner {
    let file = string_file(world, name, &[]).display().to_string();
    world.run_program(name, &[&["--join-file", file.as_str()], options].concat(), program)
}

fn no_secret_is_an_argument_of_any_process(world: World) {
    let watched = Arguments::watch(&world);
    world.create_team("acme");
    // Join strings come by standard input, a file or the environment.
    let invited = world.cli(LEAD, &["invite", "ann"]).succeeds();
    assert!(!invited.stderr.contains(invited.stdout.trim()), "the hint shows it as an argument: {}", invited.stderr);
    let join_string = invited.complains_of("teamwire join -").stdout;
    world.cli_with_input("ann", &["join", "-"], &join_string).succeeds();
    let willing = agents::script(agents::WILLING);
    let filed = run_from_file(&world, "filed", &[], &["sh", "-c", &willing]).ready();
    let of_ben = world.invite("ben");
    world.environment.borrow_mut().push(("TEAMWIRE_JOIN".to_owned(), of_ben));
    let ben = world.run_again("ben", &["--via", "exec"], "hear; echo heard");
    ben.await_log("connected");
    world.environment.borrow_mut().clear();
    let acp = run_from_file(&world, "acp", &["--via", "acp"], agents::ACP).ready();
    // A host starts a runner, which starts a program.
    let file = string_file(&world, "rack", &["--host"]).display().to_string();
    let profile = "[profiles.echo]\ncommand = [\"sh\", \"-c\", \"while read -r line; do :; done\"]\n";
    fs::write(world.home("rack").join("host.toml"), profile).unwrap();
    let host = world.spawn("rack", &["host", "--config", "host.toml", "--join-file", &file], "");
    eventually("the host offers its profile", || {
        let hosts = world.cli(LEAD, &["hosts"]).succeeds().stdout;
        (hosts.contains("rack") && hosts.contains("echo")).then_some(())
    });
    world.cli(LEAD, &["spawn", "worker", "--profile", "echo"]).succeeds();

    world.cli(LEAD, &["send", "--broadcast", "hello", "-s", "to all"]).succeeds();
    world.await_inbox(LEAD, "a batch's reply", |message| message["from"] == "ben");
    world.cli(LEAD, &["console", "--no-open"]).succeeds();
    world.cli(LEAD, &["operator", "rotate"]).succeeds();
    world.cli(LEAD, &["access", "list"]).succeeds();
    fs::write(world.home("eve").join("credential"), world.operator()).unwrap();
    let address = world.coordinator.address();
    world.cli("eve", &["team", "list", "--address", &address, "--credential-file", "credential"]).succeeds();
    // Both end when their input does.
    world.cli_with_input("ann", &["mcp"], "");
    world.cli_with_input(LEAD, &["hook", "claude"], "{}");
    let credentials = [LEAD, "ann", "filed", "ben", "acp"].map(|name| world.credential(name));
    let secrets: Vec<&str> = credentials.iter().filter_map(|credential| credential.rsplit(':').next()).collect();
    world.cli(LEAD, &["shutdown", "worker", "--force"]).succeeds();
    drop((filed, ben, acp));
    host.terminate();

    let seen = watched.end();
    for word in ["run worker --join -", "--join-file", "tw-watchdog", " host ", " serve "] {
        assert!(seen.iter().any(|line| line.contains(word)), "the test saw no {word}: {seen:#?}");
    }
    for line in &seen {
        let leaked = PREFIXES.iter().chain(&secrets).find(|secret| line.contains(**secret));
        assert_eq!(leaked, None, "{line}");
        // The world itself gives its coordinator the store's URL as an argument.
        assert!(!line.contains(SECRET) || line.contains("--store redis"), "{line}");
    }
}
