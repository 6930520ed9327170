//! A Redis server as a process.

#![allow(clippy::unwrap_used)]

use std::{
    env,
    fs::{self, File},
    future::Future,
    io::{self, BufRead, BufReader, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Settings with which a server keeps nothing on disk, and makes no replica wait.
pub(crate) const IN_MEMORY: [&str; 6] = ["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"];

/// Which program is tested against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// The one that `TEAMWIRE_REDIS_SERVER` names, or `redis-server`.
    Redis,
    /// The one that `TEAMWIRE_TEST_VALKEY` names, or `valkey-server`.
    Valkey,
}

impl Flavor {
    /// Returns the program. `None`, with a notice, if it is not installed.
    pub(crate) fn binary(self) -> Option<PathBuf> {
        let (variable, name) = match self {
            Self::Redis => ("TEAMWIRE_REDIS_SERVER", "redis-server"),
            Self::Valkey => ("TEAMWIRE_TEST_VALKEY", "valkey-server"),
        };
        if let Some(path) = env::var_os(variable).filter(|path| !path.is_empty()) {
            return Some(path.into());
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file());
        if found.is_none() {
            assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "no {name}, and CI must test with one");
            eprintln!("skipped: no {name} in {variable} or PATH");
        }
        found
    }
}

/// How long a connection of the tests waits: the 500 ms of the client's own default are less than a busy machine takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connects with [`PATIENCE`].
pub(crate) async fn connect(url: &str) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
    let patient =
        redis::AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await
}

/// A running server. Killed when dropped.
#[derive(Debug)]
pub struct TestRedis {
    binary: PathBuf,
    port: u16,
    settings: Vec<String>,
    directory: PathBuf,
    /// What goes with it, unless the directory is the test's own.
    _temporary: Option<TempDir>,
    process: Child,
}

impl TestRedis {
    /// Starts a server that keeps nothing on disk. `None`, with a notice, where none is installed.
    pub fn start() -> Option<Self> {
        Self::start_of(Flavor::Redis)
    }

    /// The same of another program.
    pub fn start_of(flavor: Flavor) -> Option<Self> {
        Self::with_all(flavor, || IN_MEMORY.map(str::to_owned).to_vec())
    }

    /// Starts a server that flushes every write to its log before it answers.
    pub fn start_durable() -> Option<Self> {
        Self::with(&["--save", "", "--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts a server that keeps nothing on disk and copies another one. Returns once it has all that the other has.
    pub async fn start_replica_of(primary: &Self) -> Option<Self> {
        let port = primary.port.to_string();
        let replica = Self::with(&[&IN_MEMORY[..], &["--replicaof", "127.0.0.1", &port]].concat())?;
        eventually("the replica follows", async || primary.has_replica().await).await;
        Some(replica)
    }

    /// Starts a server with settings as on its command line.
    pub fn with(settings: &[&str]) -> Option<Self> {
        Self::with_all(Flavor::Redis, || settings.iter().map(|&setting| setting.to_owned()).collect())
    }

    /// Starts a server in a directory of the test's own, which is made, and which its files and its log outlive it in.
    pub fn within(directory: &Path, settings: &[&str]) -> Option<Self> {
        fs::create_dir_all(directory).unwrap();
        let settings = || settings.iter().map(|&setting| setting.to_owned()).collect();
        Self::started(Flavor::Redis, directory.to_owned(), None, settings)
    }

    /// Starts a server with settings that are computed for every attempt, since they name a port.
    pub fn with_all(flavor: Flavor, settings: impl Fn() -> Vec<String>) -> Option<Self> {
        let temporary = tempfile::tempdir().unwrap();
        Self::started(flavor, temporary.path().to_owned(), Some(temporary), settings)
    }

    fn started(
        flavor: Flavor,
        directory: PathBuf,
        temporary: Option<TempDir>,
        settings: impl Fn() -> Vec<String>,
    ) -> Option<Self> {
        let binary = flavor.binary()?;
        // Another process may take a free port before the server does.
        let started = (0..10).find_map(|_| {
            let (port, settings) = (free_port(), settings());
            let process = spawn(&binary, port, &directory, &settings)?;
            Some((port, settings, process))
        });
        let (port, settings, process) = started.unwrap_or_else(|| panic!("no {flavor:?} server came up"));
        Some(Self { binary, port, settings, directory, _temporary: temporary, process })
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the directory that it runs in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns what follows a setting.
    pub(crate) fn setting(&self, name: &str) -> String {
        let at = self.settings.iter().position(|setting| setting == name).unwrap();
        self.settings[at + 1].clone()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), signal).unwrap();
    }

    /// Ends it on the spot, as a power failure would, and waits until it is gone.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again with the same port, settings and files, after [`TestRedis::kill`].
    pub fn restart(&mut self) {
        let started = spawn(&self.binary, self.port, &self.directory, &self.settings);
        self.process = started.expect("the port was its own a moment ago");
    }

    /// Makes a connection apart from any store's.
    pub async fn connection(&self) -> redis::aio::MultiplexedConnection {
        connect(&self.url()).await.unwrap()
    }

    /// Has it carry out a command.
    pub async fn tell(&self, command: &[&str]) -> redis::Value {
        self.ask(command).await.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Asks it to carry out a command, which it may refuse.
    pub async fn ask(&self, command: &[&str]) -> redis::RedisResult<redis::Value> {
        let mut connection = connect(&self.url()).await?;
        redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await
    }

    /// Returns whether a replica has all that was written by now.
    pub async fn has_replica(&self) -> bool {
        let mut ask = redis::pipe();
        // It waits for what this very connection has written.
        ask.cmd("SET").arg("{a}").arg("").cmd("DEL").arg("{a}").cmd("WAIT").arg(1).arg(200);
        let (_, _, replicas): (redis::Value, redis::Value, u32) =
            ask.query_async(&mut self.connection().await).await.unwrap();
        replicas == 1
    }

    /// Returns what it says about itself.
    pub async fn info(&self, section: &str) -> String {
        redis::from_redis_value(self.tell(&["INFO", section]).await).unwrap()
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a port that nobody listens on just now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until something holds; fails after 20 s.
pub async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < Duration::from_secs(20), "in vain: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the server once it takes connections; `None` where it ended before, as it does when the port is taken.
fn spawn(binary: &Path, port: u16, directory: &Path, settings: &[String]) -> Option<Child> {
    let mut command = Command::new(binary);
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--logfile", "", "--daemonize", "no", "--dir"])
        .arg(directory)
        .args(settings);
    spawn_until(command, "Ready to accept connections", &directory.join("log"))
}

/// Returns the process once it has logged the words; `None` where it ended before. All that it logs goes into a file.
pub(crate) fn spawn_until(mut command: Command, words: &str, into: &Path) -> Option<Child> {
    let mut kept = File::options().create(true).append(true).open(into).unwrap();
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut log = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while log.read_line(&mut line).unwrap() > 0 {
        kept.write_all(line.as_bytes()).unwrap();
        if line.contains(words) {
            thread::spawn(move || io::copy(&mut log, &mut kept));
            return Some(process);
        }
        line.clear();
    }
    process.wait().unwrap();
    None
}
