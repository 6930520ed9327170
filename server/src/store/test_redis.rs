//! Redis servers of a test's own: real processes that end with the test.

#![allow(clippy::unwrap_used)]

use std::{
    env,
    io::{self, BufRead, BufReader},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

/// A running server. Killed when dropped.
pub(crate) struct TestRedis {
    binary: PathBuf,
    port: u16,
    settings: Vec<String>,
    directory: TempDir,
    process: Child,
}

impl TestRedis {
    /// Starts a server that keeps nothing on disk. `None`, with a notice, where none is installed.
    pub(crate) fn start() -> Option<Self> {
        Self::with(&["--save", "", "--appendonly", "no"])
    }

    /// Starts a server that flushes every write to its log before it answers.
    pub(crate) fn start_durable() -> Option<Self> {
        Self::with(&["--save", "", "--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts a server with settings as on its command line.
    pub(crate) fn with(settings: &[&str]) -> Option<Self> {
        let Some(binary) = binary() else {
            assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "no redis-server, and CI must test with one");
            eprintln!("skipped: no redis-server in TEAMWIRE_REDIS_SERVER or PATH");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        // Another process may take a free port before the server does.
        (0..10)
            .find_map(|_| {
                let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
                let process = spawn(&binary, port, &directory, &settings)?;
                Some((port, process))
            })
            .map(|(port, process)| Self { binary, port, settings, directory, process })
            .or_else(|| panic!("no redis-server came up"))
    }

    /// Returns its URL.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), signal).unwrap();
    }

    /// Ends it on the spot, as a power failure would, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again with the same port, settings and files, after [`TestRedis::kill`].
    pub(crate) fn restart(&mut self) {
        let started = spawn(&self.binary, self.port, &self.directory, &self.settings);
        self.process = started.expect("the port was its own a moment ago");
    }

    /// Makes a connection apart from any store's.
    pub(crate) async fn connection(&self) -> redis::aio::MultiplexedConnection {
        redis::Client::open(self.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the server once it takes connections; `None` where it ended before, as it does when the port is taken.
fn spawn(binary: &PathBuf, port: u16, directory: &TempDir, settings: &[String]) -> Option<Child> {
    let mut process = Command::new(binary)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--logfile", "", "--daemonize", "no", "--dir"])
        .arg(directory.path())
        .args(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while log.read_line(&mut line).unwrap() > 0 {
        if line.contains("Ready to accept connections") {
            // Or it would stop at a full pipe.
            thread::spawn(move || io::copy(&mut log, &mut io::sink()));
            return Some(process);
        }
        line.clear();
    }
    process.wait().unwrap();
    None
}

fn binary() -> Option<PathBuf> {
    if let Some(path) = env::var_os("TEAMWIRE_REDIS_SERVER").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join("redis-server")).find(|path| path.is_file())
}
