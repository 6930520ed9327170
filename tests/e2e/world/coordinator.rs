//! A coordinator as a process.

use std::{
    cell::RefCell,
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
};

use nix::sys::signal::Signal;

use super::{MARK, bare_command, eventually, signal};

/// The warnings that every coordinator may log: tests make the store fail.
const EXPECTED_WARNINGS: [&str; 3] =
    ["notifications from the store stopped", "the store does not answer", "the store refuses writes"];

/// The name of its configuration file.
const CONFIGURATION: &str = "teamwire.toml";

/// A coordinator. Dropping it kills it, and fails the test if it logged an unexpected warning or error.
pub(crate) struct Coordinator {
    /// The directory of its world.
    world: PathBuf,
    /// The directory of its state and log.
    directory: PathBuf,
    store: Option<String>,
    address: SocketAddr,
    process: Child,
    starts: usize,
    /// The warnings and errors it may log.
    expected: RefCell<Vec<&'static str>>,
    /// Additional environment variables.
    environment: Vec<(String, String)>,
}

impl Coordinator {
    pub(super) fn start(world: &Path, name: &str, store: Option<&str>, configuration: &str) -> Self {
        let directory = world.join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(CONFIGURATION), configuration).unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let process = spawn(world, &directory, store, any, &[]);
        let mut started = Self {
            world: world.to_owned(),
            directory,
            store: store.map(ToOwned::to_owned),
            address: any,
            process,
            starts: 1,
            expected: RefCell::new(EXPECTED_WARNINGS.to_vec()),
            environment: Vec::new(),
        };
        started.await_serving();
        let log = started.log();
        let listens = log.split("listen=").nth(1).or_else(|| log.split("\"listen\":\"").nth(1)).unwrap();
        let end = |c: char| c.is_whitespace() || c == '"';
        started.address = listens.split(end).next().unwrap().parse().unwrap();
        started
    }

    /// Returns its address on the network as a client takes it.
    pub(crate) fn address(&self) -> String {
        let scheme = if self.local_address().starts_with("https:") { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the address that it has left for clients on this machine: that of its Unix socket, unless it has TLS.
    pub(crate) fn local_address(&self) -> String {
        fs::read_to_string(self.state_directory().join("address")).unwrap().trim().to_owned()
    }

    /// Listens on the Unix socket in place of the coordinator, which was killed. Does not block.
    pub(crate) fn stand_in(&self) -> UnixListener {
        let path = self.local_address().replace("unix://", "");
        fs::remove_file(&path).unwrap();
        let listener = UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }

    /// Returns the id of its process.
    #[cfg(target_os = "linux")]
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the address and port that it listens on.
    pub(crate) fn socket(&self) -> SocketAddr {
        self.address
    }

    /// Returns where it keeps its state.
    pub(crate) fn state_directory(&self) -> PathBuf {
        self.directory.join("state")
    }

    /// Allows a warning or error in the log.
    pub(crate) fn may_complain_of(&self, text: &'static str) {
        self.expected.borrow_mut().push(text);
    }

    /// Waits until it logged a text so many times.
    #[track_caller]
    pub(crate) fn await_log(&self, text: &str, times: usize) {
        let is_there = || self.log().lines().filter(|line| line.contains(text)).count() >= times;
        eventually(&format!("the coordinator logs \"{text}\""), || is_there().then_some(()));
    }

    /// Returns what it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, which: Signal) {
        signal(self.process.id(), which);
    }

    /// Ends it on the spot, as a power failure would, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Asks it to end, as a service manager does, and waits until it has.
    pub(crate) fn end(&mut self) {
        self.signal(Signal::SIGTERM);
        let status = eventually("the coordinator ends", || self.process.try_wait().unwrap());
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Starts it again at the same address, after [`Coordinator::kill`] or [`Coordinator::end`].
    pub(crate) fn restart(&mut self) {
        let store = self.store.as_deref();
        self.process = spawn(&self.world, &self.directory, store, self.address, &self.environment);
        self.starts += 1;
        self.await_serving();
    }

    /// Replaces its configuration, which it reads when it starts.
    pub(crate) fn configure(&self, configuration: &str) {
        fs::write(self.directory.join(CONFIGURATION), configuration).unwrap();
    }

    /// Ends it and starts it again with more in its environment.
    pub(crate) fn restart_with(&mut self, variables: &[(&str, &str)]) {
        self.environment.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self.end();
        self.restart();
    }

    /// Returns the numbers that it shows, as OpenMetrics text.
    pub(crate) fn metrics(&self) -> String {
        let address = self.metrics_address();
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text"), "{head}");
        body.to_owned()
    }

    /// Returns where it serves metrics, as HOST:PORT.
    pub(crate) fn metrics_address(&self) -> String {
        self.logged_address("metrics are served")
    }

    /// Returns where it answers health checks besides, as HOST:PORT.
    pub(crate) fn health_address(&self) -> String {
        self.logged_address("health checks are answered")
    }

    fn logged_address(&self, what: &str) -> String {
        let log = self.log();
        let line = log.lines().rev().find(|line| line.contains(what)).unwrap();
        let address = line.split("address").nth(1).unwrap();
        address.trim_matches(|c: char| !c.is_ascii_digit()).split('"').next().unwrap().to_owned()
    }

    /// Returns a metric by its name and labels as exposed. 0 if it is missing.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let metrics = self.metrics();
        let found = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        found.map_or(0.0, |value| value.parse().unwrap())
    }

    fn await_serving(&mut self) {
        let (starts, directory) = (self.starts, self.directory.clone());
        eventually("the coordinator serves", || {
            let log = fs::read_to_string(directory.join("log")).unwrap();
            if let Some(status) = self.process.try_wait().unwrap() {
                panic!("the coordinator ended with {status}: {log}");
            }
            (log.lines().filter(|line| line.contains("serving")).count() >= starts).then_some(())
        });
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let log = self.log();
        if thread::panicking() {
            eprintln!("--- log of {} ---\n{log}", self.directory.display());
            return;
        }
        let expected = self.expected.borrow();
        let is_bad = |line: &&str| {
            let is_complaint = line.contains(" WARN ") || line.contains(" ERROR ");
            (is_complaint && !expected.iter().any(|text| line.contains(text))) || line.contains("panicked at")
        };
        let bad = log.lines().find(is_bad);
        assert!(bad.is_none(), "an unexpected line in the coordinator's log: {log}");
    }
}

fn spawn(world: &Path, directory: &Path, store: Option<&str>, listen: SocketAddr, with: &[(String, String)]) -> Child {
    let log = File::options().create(true).append(true).open(directory.join("log")).unwrap();
    let mut command = bare_command();
    command
        .args(["serve", "--config", CONFIGURATION, "--listen", &listen.to_string(), "--metrics", "127.0.0.1:0"])
        .env("TEAMWIRE_STATE_DIR", directory.join("state"));
    if let Some(store) = store {
        command.args(["--store", store]);
    }
    command.envs(with.iter().cloned());
    command.env(MARK, world).env("HOME", directory).current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}
