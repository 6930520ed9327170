//! Scratch directories and the Redis servers in them.

use std::{path::Path, process::Command, time::Duration};

use tempfile::TempDir;

use super::{Process, free_port};
use crate::{Result, Store, fetch::Program};

/// A scratch directory, and a Redis server if the store is in one.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// The URL of the store.
    pub(crate) url: String,
    redis: Option<Process>,
    /// Dropped last.
    directory: TempDir,
}

impl Scratch {
    /// Creates it below a directory. `None` if no store is needed.
    pub(crate) async fn prepare(below: &Path, store: Option<Store>) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("bench-").tempdir_in(below)?;
        let Some(fsync) = store.and_then(Store::append_fsync) else {
            let url = format!("embedded:{}", directory.path().join("store.redb").display());
            return Ok(Self { url, redis: None, directory });
        };
        let port = free_port()?;
        let mut redis = Process::start(redis_server(port, fsync)?, directory.path(), "redis")?;
        redis.await_port(port).await?;
        Ok(Self { url: format!("redis://127.0.0.1:{port}"), redis: Some(redis), directory })
    }

    /// Returns the CPU time of Redis. `None` if it has none.
    pub(crate) fn cpu(&self) -> Result<Option<Duration>> {
        self.redis.as_ref().map(|redis| Ok(redis.usage()?.cpu)).transpose()
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// Returns the command that starts a Redis with an append-only file.
pub(super) fn redis_server(port: u16, fsync: &str) -> Result<Command> {
    let mut command = Command::new(Program::Redis.find()?);
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "yes"]);
    command.args(["--appendfsync", fsync, "--maxmemory-policy", "noeviction"]);
    Ok(command)
}
