//! A Redis server as a process.

use std::{
    env,
    io::{self, BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::signal;

/// The password in the URL.
pub const SECRET: &str = "secret-of-the-store";

/// A Redis server that flushes every write to its log before it answers. Killed when dropped.
pub struct Redis {
    binary: PathBuf,
    port: u16,
    directory: TempDir,
    process: Child,
}

impl Redis {
    /// Starts a server. `None`, with a notice, where none is installed.
    pub(super) fn start() -> Option<Self> {
        let Some(binary) = binary() else {
            assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "no redis-server, and CI must test with one");
            eprintln!("skipped: no redis-server in TEAMWIRE_REDIS_SERVER or PATH");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        // Another process may take a free port before the server does.
        let started = (0..10).find_map(|_| {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            Some((port, spawn(&binary, port, directory.path())?))
        });
        let (port, process) = started.expect("no redis-server came up");
        Some(Self { binary, port, directory, process })
    }

    /// Returns its URL, with a password. The server takes any; the coordinator must not tell it.
    pub fn url(&self) -> String {
        format!("redis://default:{SECRET}@127.0.0.1:{}", self.port)
    }

    /// Sends it a signal.
    pub fn signal(&self, which: Signal) {
        signal(self.process.id(), which);
    }

    /// Ends it on the spot, as a power failure would, and waits until it is gone.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again with the same port and files, after [`Redis::kill`].
    pub fn restart(&mut self) {
        let started = spawn(&self.binary, self.port, self.directory.path());
        self.process = started.expect("the port was its own a moment ago");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the server once it takes connections; `None` where it ended before, as it does when the port is taken.
fn spawn(binary: &Path, port: u16, directory: &Path) -> Option<Child> {
    let mut process = Command::new(binary)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--logfile", "", "--daemonize", "no"])
        .args(["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir"])
        .arg(directory)
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
