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
use procfs::{CpuInfo, Current as _, Meminfo};
use serde::{Deserialize, Serialize};

use crate::{Result, fetch::Program};

/// The number of flushes to time.
const FLUSHES: usize = 200;

/// The machine, and the servers that are measured on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
    /// The versions of the servers.
    pub(crate) servers: Vec<String>,
}

impl Machine {
    /// Inspects this machine.
    pub(crate) fn inspect() -> Result<Self> {
        Ok(Self {
            processor: CpuInfo::current()?.model_name(0).unwrap_or_default().to_owned(),
            processors: thread::available_parallelism()?.get(),
            memory_gib: (Meminfo::current()?.mem_total as f64 / 1024.0 / 1024.0 / 1024.0).round(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            servers: [Program::Redis, Program::Nats].into_iter().filter_map(version).collect(),
        })
    }

    /// Describes it in words.
    pub(crate) fn describe(&self) -> String {
        let Self { processor, processors, memory_gib, kernel, servers } = self;
        let servers: String = servers.iter().map(|server| format!("; {server}")).collect();
        format!("{processors} × {processor}, {memory_gib} GiB, Linux {kernel}{servers}")
    }
}

/// Returns the date.
pub(crate) fn today() -> String {
    Zoned::now().strftime("%Y-%m-%d").to_string()
}

fn version(program: Program) -> Option<String> {
    let said = Command::new(program.find().ok()?).arg("--version").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    // Without the details of Redis' build.
    Some(said.split_whitespace().take_while(|word| !word.starts_with("sha=")).collect::<Vec<_>>().join(" "))
}

/// Returns the median time to append 4 KiB to a file in a directory and flush them.
pub(crate) fn flush(directory: &Path) -> Result<Duration> {
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
