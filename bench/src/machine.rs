//! What is measured on, as far as the figures depend on it.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{Result, process::find};

/// How many flushes are timed.
const FLUSHES: usize = 200;

/// The machine, and the programs of others that are measured on it.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    processor: String,
    processors: usize,
    memory_gib: f64,
    kernel: String,
    /// What runs besides, when it begins: the average of one minute.
    load: String,
    /// How long it takes to append 4 KiB to a file and flush them, where the stores are: the median.
    flush_us: f64,
    redis: String,
    nats: String,
}

impl Machine {
    /// Looks at it. `directory`: where the stores are.
    pub(crate) fn look(directory: &Path) -> Result<Self> {
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
            redis: version("redis-server"),
            nats: version("nats-server"),
        })
    }

    /// Describes it in a paragraph.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} × {}, {} GiB, Linux {}; a flush (fdatasync) of 4 KiB takes {:.0} µs. {}; {}. Load before: {}.",
            self.processors,
            self.processor,
            self.memory_gib,
            self.kernel,
            self.flush_us,
            self.redis,
            self.nats,
            self.load
        )
    }
}

/// Returns the system's load of the last minute.
pub(crate) fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or_default().to_owned()
}

fn version(program: &str) -> String {
    let said = find(program).and_then(|path| Command::new(path).arg("--version").output().ok());
    let said = said.and_then(|output| String::from_utf8(output.stdout).ok());
    said.map_or_else(|| format!("no {program}"), |text| text.lines().next().unwrap_or_default().trim().to_owned())
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
