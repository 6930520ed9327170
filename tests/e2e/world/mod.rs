//! Everything that a test owns: a coordinator with its store, users at the command line, and programs that run as
//! members.

mod collector;
mod coordinator;
mod fresh;
mod host;
mod network;
mod output;
mod receiver;
mod repository;
mod runner;
mod scripted_host;
#[cfg(target_os = "linux")]
mod terminal;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    env, fs,
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};

pub(crate) use collector::Collector;
pub(crate) use coordinator::Coordinator;
pub(crate) use fresh::FreshMachine;
pub(crate) use host::{HostProcess, Orderer, kill as kill_process};
pub(crate) use network::{Machine, Network};
pub(crate) use output::Output;
pub(crate) use receiver::{Received, Receiver};
pub(crate) use repository::Repository;
pub(crate) use runner::Runner;
pub(crate) use scripted_host::{ScriptedHost, offer};
pub(crate) use teamwire_test_redis::{Flavor, TestCluster, TestRedis, TestSentinel};
#[cfg(target_os = "linux")]
pub(crate) use terminal::Terminal;

use crate::agents;

/// The longest wait for an expected event. Never reached unless something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The password in the URL of a world's Redis.
pub(crate) const SECRET: &str = "secret-of-the-store";

/// The user that created the team, on the coordinator's machine.
pub(crate) const LEAD: &str = "lead";

/// The environment variable that marks every process of a world, so that it can end the last of them.
pub(crate) const MARK: &str = "END_TO_END_WORLD";

/// The binary under test.
pub(crate) const TEAMWIRE: &str = env!("CARGO_BIN_EXE_teamwire");

/// Runs a scenario on one store, chosen by the scenario's name, or on both if `TEAMWIRE_TEST_STORES` is `both`. That
/// the stores behave alike is shown by the store's conformance suite, the differential test and the stories.
pub(crate) fn on_one_store(name: &str, scenario: fn(World)) {
    let on_both = env::var_os("TEAMWIRE_TEST_STORES").is_some_and(|stores| stores == "both");
    let on_redis = name.bytes().fold(0, |sum: u8, byte| sum.wrapping_add(byte)) % 2 == 1;
    if on_both || !on_redis {
        eprintln!("on the embedded store");
        scenario(World::embedded());
    }
    if (on_both || on_redis)
        && let Some(world) = World::redis()
    {
        eprintln!("on Redis");
        scenario(world);
    }
}

/// A coordinator, its store and its users. Dropping it ends everything it started.
pub(crate) struct World {
    /// The coordinators' Redis. `None` means the embedded store.
    redis: RefCell<Option<TestRedis>>,
    /// The URL of the store that all coordinators share. `None` means the embedded store.
    store: Option<String>,
    configuration: String,
    /// Additional environment variables of everything started from now on.
    pub environment: RefCell<Vec<(String, String)>>,
    /// The users on machines of a network. All others use this machine.
    machines: RefCell<HashMap<String, Machine>>,
    /// The first coordinator. Others may join it on the same store.
    pub coordinator: Coordinator,
    /// How many others joined it.
    others: Cell<usize>,
    /// Dropped last.
    directory: TempDir,
}

impl World {
    /// Starts a coordinator on the embedded store.
    pub(crate) fn embedded() -> Self {
        Self::configured("")
    }

    /// Starts a coordinator on the embedded store with a configuration: the text of its file.
    pub(crate) fn configured(configuration: &str) -> Self {
        Self::start(None, None, configuration)
    }

    /// Starts a coordinator on the embedded store that serves TLS, with a certificate of a new authority.
    pub(crate) fn with_tls() -> Self {
        let mut world = Self::embedded();
        world.cli(LEAD, &["certs"]).succeeds();
        let file = |name: &str| world.home(LEAD).join("certs").join(name).display().to_string();
        let (cert, key) = (file("server.crt"), file("server.key"));
        world.coordinator.restart_with(&[("TEAMWIRE_TLS_CERT", &cert), ("TEAMWIRE_TLS_KEY", &key)]);
        world
    }

    /// Starts a coordinator on a new Redis, which flushes every write before it answers. `None`, with a notice,
    /// where none is installed.
    pub(crate) fn redis() -> Option<Self> {
        let redis = TestRedis::start_durable()?;
        // The server accepts any password; the coordinator must not reveal it.
        let url = redis.url().replace("redis://", &format!("redis://default:{SECRET}@"));
        Some(Self::start(Some(redis), Some(url), ""))
    }

    /// Starts a coordinator on a Redis.
    pub(crate) fn on_redis(redis: TestRedis) -> Self {
        Self::on_redis_with(redis, "")
    }

    /// Starts a coordinator on a Redis with a configuration.
    pub(crate) fn on_redis_with(redis: TestRedis, configuration: &str) -> Self {
        let url = redis.url();
        Self::start(Some(redis), Some(url), configuration)
    }

    /// Starts a coordinator with a configuration on servers that the test itself has started.
    pub(crate) fn on(store: &str, configuration: &str) -> Self {
        Self::start(None, Some(store.to_owned()), configuration)
    }

    fn start(redis: Option<TestRedis>, store: Option<String>, configuration: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("teamwire-").tempdir().unwrap();
        let coordinator = Coordinator::start(directory.path(), "coordinator", store.as_deref(), configuration);
        Self {
            directory,
            redis: RefCell::new(redis),
            store,
            configuration: configuration.to_owned(),
            environment: RefCell::default(),
            machines: RefCell::default(),
            coordinator,
            others: Cell::new(0),
        }
    }

    /// Moves a user to a machine of a network.
    pub(crate) fn place(&self, identity: &str, machine: &Machine) {
        self.machines.borrow_mut().insert(identity.to_owned(), machine.clone());
    }

    /// Starts another coordinator on the same store, with the same configuration.
    pub(crate) fn another_coordinator(&self) -> Coordinator {
        let url = self.store.as_deref().expect("a store that two can share");
        let others = self.others.get() + 1;
        self.others.set(others);
        let name = format!("coordinator-{}", others + 1);
        Coordinator::start(self.directory.path(), &name, Some(url), &self.configuration)
    }

    /// Starts another coordinator on the same store, with another configuration and environment.
    pub(crate) fn another_configured(&self, configuration: &str, environment: &[(&str, &str)]) -> Coordinator {
        let mut other = self.another_coordinator();
        other.configure(configuration);
        other.restart_with(environment);
        other
    }

    /// Starts a coordinator on another store.
    pub(crate) fn coordinator_on(&self, name: &str, store: &str) -> Coordinator {
        Coordinator::start(self.directory.path(), name, Some(store), &self.configuration)
    }

    /// Returns the URL of the first coordinator's store.
    pub(crate) fn store_url(&self) -> String {
        let file = self.coordinator.state_directory().join("teamwire.redb");
        self.store.clone().unwrap_or_else(|| format!("embedded:{}", file.display()))
    }

    /// Acts on the Redis.
    pub(crate) fn with_redis<T>(&self, act: impl FnOnce(&mut TestRedis) -> T) -> T {
        act(self.redis.borrow_mut().as_mut().expect("a world on Redis"))
    }

    /// Creates a team, led by [`LEAD`].
    pub(crate) fn create_team(&self, name: &str) {
        self.cli(LEAD, &["team", "create", name]).succeeds();
    }

    /// Has the lead invite a member. Returns the join string.
    pub(crate) fn invite(&self, name: &str) -> String {
        self.cli(LEAD, &["invite", name]).succeeds().stdout.trim().to_owned()
    }

    /// Joins a user, who then uses the command line from a separate directory and environment. Returns
    /// the credential.
    pub(crate) fn join(&self, name: &str) -> String {
        let joined = self.cli(name, &["join", &self.invite(name), "--json"]).succeeds();
        joined.json()["credential"].as_str().unwrap().to_owned()
    }

    /// Returns the credential that a member's context file holds, or that its runner has saved.
    pub(crate) fn credential(&self, name: &str) -> String {
        let read = |file: &str| fs::read_to_string(self.home(name).join(file));
        let context = read("context.json").or_else(|_| read("context.runs.json")).unwrap();
        let context: Value = serde_json::from_str(&context).unwrap();
        context["identities"][0]["credential"].as_str().unwrap().to_owned()
    }

    /// Returns the credential of the operator.
    pub(crate) fn operator(&self) -> String {
        fs::read_to_string(self.coordinator.state_directory().join("operator.credential")).unwrap().trim().to_owned()
    }

    /// Returns a user's directory.
    pub(crate) fn home(&self, identity: &str) -> PathBuf {
        let home = self.directory.path().join("people").join(identity);
        fs::create_dir_all(&home).unwrap();
        home
    }

    /// Runs a command as a user to its end.
    #[track_caller]
    pub(crate) fn cli(&self, identity: &str, arguments: &[&str]) -> Output {
        self.cli_with_input(identity, arguments, "")
    }

    /// Runs a command as a user to its end, with additional environment variables.
    #[track_caller]
    pub(crate) fn cli_in(&self, identity: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        self.spawn_in(identity, arguments, environment).output()
    }

    /// Runs a command as a user in a directory to its end.
    #[track_caller]
    pub(crate) fn cli_at(&self, identity: &str, directory: &Path, arguments: &[&str]) -> Output {
        let mut command = self.command(identity);
        command.current_dir(directory);
        Self::start_command(command, self.directory.path(), identity, arguments, "").output()
    }

    /// Starts a command as a user, with additional environment variables.
    pub(crate) fn spawn_in(&self, identity: &str, arguments: &[&str], environment: &[(&str, &str)]) -> StartedCommand {
        let mut command = self.command(identity);
        command.envs(environment.iter().copied());
        Self::start_command(command, self.directory.path(), identity, arguments, "")
    }

    /// Runs a command as a user, with a text at its standard input.
    #[track_caller]
    pub(crate) fn cli_with_input(&self, identity: &str, arguments: &[&str], input: &str) -> Output {
        self.spawn(identity, arguments, input).output()
    }

    /// Starts a shell command as a user; `$0` is teamwire.
    pub(crate) fn spawn_shell(&self, identity: &str, script: &str) -> StartedCommand {
        let command = self.program(identity, Path::new("sh"));
        Self::start_command(command, self.directory.path(), identity, &["-c", script, TEAMWIRE], "")
    }

    /// Starts a command as a user.
    pub(crate) fn spawn(&self, identity: &str, arguments: &[&str], input: &str) -> StartedCommand {
        Self::start_command(self.command(identity), self.directory.path(), identity, arguments, input)
    }

    /// Starts a command in whose name `identity` acts. `directory`: for the file with its output.
    pub(crate) fn start_command(
        mut command: Command,
        directory: &Path,
        identity: &str,
        arguments: &[&str],
        input: &str,
    ) -> StartedCommand {
        let said = NamedTempFile::new_in(directory).unwrap();
        command.args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.stdout(said.reopen().unwrap()).spawn().unwrap();
        // Some commands never read their input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        StartedCommand { child, said, what: format!("{identity}: teamwire {}", arguments.join(" ")) }
    }

    /// Starts a command as a user at a new terminal, from which it also gets signals.
    #[cfg(target_os = "linux")]
    pub(crate) fn at_terminal(&self, identity: &str, arguments: &[&str]) -> Terminal {
        self.at_terminal_in(identity, arguments, &[])
    }

    /// Starts a command at a new terminal with additional environment variables.
    #[cfg(target_os = "linux")]
    pub(crate) fn at_terminal_in(&self, identity: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
        let mut command = self.program(identity, Path::new("setsid"));
        command.args(["--ctty", "--wait", TEAMWIRE]).args(arguments).envs(environment.iter().copied());
        Terminal::start(command)
    }

    /// Starts a script as a member, by `teamwire run` with a join string, from a separate directory and environment.
    /// `options` stand before the command.
    pub(crate) fn run(&self, name: &str, options: &[&str], script: &str) -> Runner {
        let join_string = self.invite(name);
        self.run_again(name, &[&["--join", join_string.as_str()], options].concat(), script)
    }

    /// Starts a script as a member that its directory knows from an earlier run.
    pub(crate) fn run_again(&self, name: &str, options: &[&str], script: &str) -> Runner {
        self.run_program(name, options, &["sh", "-c", &agents::script(script)])
    }

    /// Starts a program as a member that its directory knows from an earlier run, or for which the options have a join
    /// string.
    pub(crate) fn run_program(&self, name: &str, options: &[&str], program: &[&str]) -> Runner {
        let mut command = self.command(name);
        command.args(["run", name]).args(options).arg("--").args(program);
        Runner::start(command, name, self.home(name))
    }

    /// Returns and acknowledges the messages in a user's inbox.
    pub(crate) fn take_inbox(&self, identity: &str) -> Vec<Value> {
        let listed = self.cli(identity, &["inbox", "--ack", "--json"]).succeeds().lines();
        listed.into_iter().map(|delivery| delivery["message"].clone()).collect()
    }

    /// Waits for a message in a user's inbox, and acknowledges the whole inbox.
    #[track_caller]
    pub(crate) fn await_inbox(&self, identity: &str, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || self.take_inbox(identity).into_iter().find(|message| is_it(message)))
    }

    /// Returns the whole history as a user sees it.
    pub(crate) fn history(&self, identity: &str) -> Vec<Value> {
        self.cli(identity, &["history", "--all", "--json"]).succeeds().lines()
    }

    /// Returns a member as the lead sees it.
    pub(crate) fn member(&self, name: &str) -> Value {
        let status = self.cli(LEAD, &["status", "--json"]).succeeds().json();
        let members = status["members"].as_array().unwrap();
        members.iter().find(|member| member["name"] == name).cloned().unwrap_or(Value::Null)
    }

    /// Returns a command for a program other than teamwire.
    pub(crate) fn program(&self, identity: &str, program: &Path) -> Command {
        let command = match self.machines.borrow().get(identity) {
            Some(machine) => machine.command(&program.display().to_string()),
            None => Command::new(program),
        };
        self.prepared(identity, bare(command))
    }

    fn command(&self, identity: &str) -> Command {
        let command = match self.machines.borrow().get(identity) {
            Some(machine) => bare(machine.command(TEAMWIRE)),
            None => bare_command(),
        };
        self.prepared(identity, command)
    }

    /// Prepares a user's command: without the variables of the tests' environment that teamwire reads, and with a
    /// separate directory and context file. Only [`LEAD`] works on the coordinator's machine.
    fn prepared(&self, identity: &str, mut command: Command) -> Command {
        let home = self.home(identity);
        command.envs(self.environment.borrow().iter().cloned());
        command.env("HOME", &home).env("TEAMWIRE_CONTEXT", home.join("context.json")).env("TEAMWIRE_TIMEOUT", "60");
        let state = if identity == LEAD { self.coordinator.state_directory() } else { home.join("state") };
        command.env("TEAMWIRE_STATE_DIR", state).env(MARK, self.directory.path()).current_dir(home);
        command
    }
}

impl Drop for World {
    fn drop(&mut self) {
        end_all(self.directory.path());
    }
}

/// A running command.
pub(crate) struct StartedCommand {
    child: Child,
    /// Its standard output.
    said: NamedTempFile,
    what: String,
}

impl StartedCommand {
    /// Returns its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until its standard output contains a text.
    #[track_caller]
    pub(crate) fn await_said(&self, text: &str) {
        let said = || fs::read_to_string(self.said.path()).unwrap();
        eventually(&format!("{} says \"{text}\"", self.what), || said().contains(text).then_some(()));
    }

    /// Interrupts it as Ctrl+C does, and waits for its end.
    #[track_caller]
    pub(crate) fn interrupt(self) -> Output {
        signal(self.child.id(), Signal::SIGINT);
        self.output()
    }

    /// Terminates it as a service manager does, and waits for its end.
    #[track_caller]
    pub(crate) fn terminate(self) -> Output {
        signal(self.child.id(), Signal::SIGTERM);
        self.output()
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn output(self) -> Output {
        let pid = self.child.id();
        let (sender, receiver) = mpsc::channel();
        let child = self.child;
        thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
        match receiver.recv_timeout(PATIENCE * 2) {
            Ok(output) => {
                let stdout = fs::read_to_string(self.said.path()).unwrap();
                Output::new(self.what, output.status, stdout, String::from_utf8(output.stderr).unwrap())
            }
            Err(_) => {
                signal(pid, Signal::SIGKILL);
                panic!("{} does not end", self.what);
            }
        }
    }
}

/// Polls until `look` finds something, for up to [`PATIENCE`].
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let (began, mut pause) = (Instant::now(), Duration::from_millis(20));
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "timed out: {what}");
        thread::sleep(pause);
        // Most looks start a process, so a long wait would otherwise keep a processor from the other tests.
        pause = (pause * 3 / 2).min(Duration::from_millis(250));
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, signal: Signal) {
    // The process may have exited already.
    let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal);
}

/// Returns whether a process runs.
#[cfg(target_os = "linux")]
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

/// Returns whether a process runs.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_alive(pid: u32) -> bool {
    let state = ps(&["-o", "stat=", "-p", &pid.to_string()]);
    !state.trim().is_empty() && !state.trim_start().starts_with('Z')
}

/// Returns what `ps` prints.
#[cfg(not(target_os = "linux"))]
fn ps(options: &[&str]) -> String {
    String::from_utf8_lossy(&Command::new("ps").args(options).output().unwrap().stdout).into_owned()
}

/// The beginnings of the names of variables that teamwire and agent programs read.
const READ_VARIABLES: [&str; 16] = [
    "ANTHROPIC_",
    "BROWSER",
    "CLAUDE",
    "CODEX_",
    "DISPLAY",
    "GEMINI_",
    "GOOGLE_",
    "OPENAI_",
    "OPENCODE",
    "OTEL_",
    "TEAMWIRE_",
    "TRACEPARENT",
    "WAYLAND_DISPLAY",
    "WSL_",
    "XDG_",
    "npm_",
];

/// Returns the binary as a command without the variables that teamwire reads.
pub(crate) fn bare_command() -> Command {
    bare(Command::new(TEAMWIRE))
}

fn bare(mut command: Command) -> Command {
    for (name, _) in env::vars_os() {
        if READ_VARIABLES.iter().any(|read| name.to_string_lossy().starts_with(read)) {
            command.env_remove(name);
        }
    }
    // Signals to the tests are not for it.
    command.process_group(0);
    command
}

/// Kills everything that bears the mark of a world: by its process id, one after the other, until nothing is left.
fn end_all(world: &Path) {
    let began = Instant::now();
    loop {
        let left: Vec<u32> = marked(world).into_iter().filter(|pid| is_alive(*pid)).collect();
        if left.is_empty() || began.elapsed() > PATIENCE {
            return;
        }
        for pid in left {
            signal(pid, Signal::SIGKILL);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn marked(world: &Path) -> Vec<u32> {
    processes_with(MARK, world)
}

/// Returns the processes that were started with an environment variable of this value. macOS hides the
/// environment of system programs, such as `sh`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn processes_with(name: &str, value: &Path) -> Vec<u32> {
    let variable = format!(" {name}={}", value.display());
    let bears_it = |line: &&str| format!("{line} ").contains(&format!("{variable} "));
    let listed = ps(&["-axEww", "-o", "pid=,command="]);
    listed.lines().filter(bears_it).filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

/// Returns the processes that were started with an environment variable of this value.
#[cfg(target_os = "linux")]
pub(crate) fn processes_with(name: &str, value: &Path) -> Vec<u32> {
    let variable = format!("{name}={}", value.display());
    let bears_it = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(bears_it).collect()
}
