//! The machine, as far as the figures depend on it.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use jiff::Zoned;
use serde::Serialize;

use crate::{Result, fetch::Program};

/// The number of flushes to time.
const FLUSHES: usize = 200;

/// The machine, and the servers that are measured on it.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    processor: String,
    processors: usize,
    memory_gib: f64,
    kernel: String,
    /// The load average of the last minute, at the start.
    load: String,
    /// The median time to append 4 KiB to a file and flush them, in the directory of the stores.
    flush_us: f64,
    /// The versions of the servers.
    servers: Vec<String>,
}

impl Machine {
    /// Inspects this machine. `directory`: that of the stores.
    pub(crate) fn inspect(directory: &Path) -> Result<Self> {
        let after = |file: &str, key: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim_start_matches([' ', '\t', ':']).to_owned()))
        };
        let memory = after("/proc/meminfo", "MemTotal").unwrap_or_default();
        let kib: f64 = memory.trim_end_matches(" kB").parse().unwrap_or(0.0);
        Ok(Self {
            processor: after("/proc/cpuinfo", "model name").unwrap_or_default(),
            processors: thread::available_parallelism()?.get(),
            memory_gib: (kib / 1024.0 / 1024.0).round(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            load: load(),
            flush_us: flush(directory)?.as_secs_f64() * 1e6,
            servers: [Program::Redis, Program::Nats].into_iter().filter_map(version).collect(),
        })
    }

    /// Returns a line that describes it.
    pub(crate) fn describe(&self) -> String {
        let Self { processor, processors, memory_gib, kernel, flush_us, servers, .. } = self;
        let servers = servers.join("; ");
        format!(
            "{processors} × {processor}, {memory_gib} GiB, Linux {kernel}; a flush (fdatasync) of 4 KiB takes {flush_us:.0} µs. \
             {servers}."
        )
    }
}

/// Returns the date, followed by a colon.
pub(crate) fn today() -> String {
    Zoned::now().strftime("%Y-%m-%d:").to_string()
}

/// Returns the load average of the last minute.
pub(crate) fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or_default().to_owned()
}

fn version(program: Program) -> Option<String> {
    let said = Command::new(program.find().ok()?).arg("--version").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    // Without the details of Redis' build.
    Some(said.split_whitespace().take_while(|word| !word.starts_with("sha=")).collect::<Vec<_>>().join(" "))
}

fn flush(directory: &Path) -> Result<Duration> {
    let mut file = tempfile::tempfile_in(directory)?;
    let mut took = Vec::new();
    for _ in 0..FLUSHES {
        let began = Instant::now();
        file.write_all(&[0; 4096])?;
        File::sync_data(&file)?;
        took.push(began.elapsed());
    }
    took.sort_unstable();
    Ok(took[took.len() / 2])
}
