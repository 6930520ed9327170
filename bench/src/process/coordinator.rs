//! Coordinators.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};

use super::{POLL_INTERVAL, Process, Usage, free_port};
use crate::Result;

/// The configuration of a coordinator. It raises rates and limits, which are made for agents and not for load.
/// Everything that affects the cost of a message has its default.
const CONFIGURATION: &str = "\
[network]
connections_max = 20000
strangers_per_address_max = 20000
[rates]
sends_per_second = 1000000
sends_burst = 1000000
broadcasts_per_second = 1000000
broadcasts_burst = 1000000
writes_per_second = 1000000
writes_burst = 1000000
read_bytes_per_second = \"16GiB\"
read_bytes_burst = \"16GiB\"
[shares]
connections_per_credential_max = 20000
streams_per_credential_max = 20000
[limits]
inbox_entries_max = 1000000
inbox_bytes_max = \"1GiB\"
members_max = 1000
";

/// A coordinator.
#[derive(Debug)]
pub(crate) struct Coordinator {
    process: Process,
    binary: PathBuf,
    directory: PathBuf,
    arguments: Vec<OsString>,
    address: String,
    starts: usize,
}

impl Coordinator {
    /// Starts one on the store of a URL, and waits until it serves.
    pub(crate) async fn start(binary: &Path, directory: &Path, store: &str) -> Result<Self> {
        let file = directory.join("teamwire.toml");
        fs::write(&file, CONFIGURATION)?;
        let port = free_port()?;
        let mut arguments = vec![OsString::from("serve"), "--config".into(), file.into()];
        arguments.extend(["--store", store, "--metrics", "127.0.0.1:0"].map(OsString::from));
        arguments.extend(["--listen".into(), format!("127.0.0.1:{port}").into()]);
        let mut started = Self {
            process: Self::spawn(binary, directory, &arguments)?,
            binary: binary.to_owned(),
            directory: directory.to_owned(),
            arguments,
            address: format!("http://127.0.0.1:{port}"),
            starts: 1,
        };
        started.await_serving().await?;
        Ok(started)
    }

    /// Restarts it after it was killed. Does not wait until it serves.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.process = Self::spawn(&self.binary, &self.directory, &self.arguments)?;
        self.starts += 1;
        Ok(())
    }

    /// Waits until it serves.
    pub(crate) async fn await_serving(&mut self) -> Result<()> {
        loop {
            self.process.await_line(" serving").await?;
            let log = fs::read_to_string(&self.process.log)?;
            if log.lines().filter(|line| line.contains(" serving")).count() >= self.starts {
                return Ok(());
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns its address, as a client takes it.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the operator's credential.
    pub(crate) fn operator(&self) -> Result<String> {
        Ok(fs::read_to_string(self.directory.join("state/operator.credential"))?.trim().to_owned())
    }

    /// Returns its process' current use of resources.
    pub(crate) fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }

    /// Returns its process.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Returns how many times it called its store with an operation.
    pub(crate) async fn store_calls(&mut self, operation: &str) -> Result<f64> {
        self.metric(&format!("teamwire_store_seconds_count{{operation=\"{operation}\"}}")).await
    }

    /// Returns the value of a series of its metrics. 0 if it has none.
    pub(crate) async fn metric(&mut self, series: &str) -> Result<f64> {
        let line = self.process.await_line("metrics are served").await?;
        let address = line.split("address").nth(1).unwrap_or_default();
        let address = address.trim_matches(|c: char| !c.is_ascii_digit());
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n").await?;
        let mut metrics = String::new();
        stream.read_to_string(&mut metrics).await?;
        let value = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
        Ok(metrics.lines().find_map(value).unwrap_or(0.0))
    }

    fn spawn(binary: &Path, directory: &Path, arguments: &[OsString]) -> Result<Process> {
        let mut command = Command::new(binary);
        for (variable, _) in env::vars_os() {
            // The environment must not configure it.
            if ["TEAMWIRE_", "OTEL_"].iter().any(|prefix| variable.to_string_lossy().starts_with(prefix)) {
                command.env_remove(variable);
            }
        }
        command.args(arguments).env("TEAMWIRE_STATE_DIR", directory.join("state"));
        Process::start(command, directory, "teamwire")
    }
}
