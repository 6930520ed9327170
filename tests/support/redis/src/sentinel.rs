//! A Sentinel as a process.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    process::{Child, Command},
    time::Duration,
};

use tempfile::TempDir;

use super::server::{Flavor, TestRedis, connect, eventually, free_port, spawn_until};

/// A Sentinel that decides alone, within a second or two. Killed when dropped.
#[derive(Debug)]
pub struct TestSentinel {
    port: u16,
    process: Child,
    _directory: TempDir,
}

impl TestSentinel {
    /// The name of the service that it watches.
    pub const SERVICE: &str = "main";

    /// Starts a Sentinel over a primary. Returns once it knows the primary's replicas.
    pub async fn start(primary: &TestRedis, replicas: usize) -> Option<Self> {
        let binary = Flavor::Redis.binary()?;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sentinel.conf");
        let started = (0..10).find_map(|_| {
            let (port, service) = (free_port(), Self::SERVICE);
            let settings = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {service} 127.0.0.1 {} 1\n\
                 sentinel down-after-milliseconds {service} 500\nsentinel failover-timeout {service} 3000\n",
                directory.path().display(),
                primary.port()
            );
            fs::write(&file, settings).unwrap();
            let mut command = Command::new(&binary);
            command.arg(&file).arg("--sentinel");
            Some((port, spawn_until(command, "Sentinel ID is", &directory.path().join("log"))?))
        });
        let (port, process) = started.expect("no Sentinel came up");
        let sentinel = Self { port, process, _directory: directory };
        eventually("the Sentinel knows the replicas", async || sentinel.replicas().await == replicas).await;
        Some(sentinel)
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets after how long a silent server counts as gone, 500 ms at first. On a busy machine a server may well be
    /// silent for as long as that, and what it answers while another one is made the primary is lost.
    pub async fn set_down_after(&self, silence: Duration) {
        let silence = silence.as_millis().to_string();
        self.ask(&["SET", Self::SERVICE, "down-after-milliseconds", &silence]).await.unwrap();
    }

    /// Has it make the replica the primary, which runs on. `false` if it cannot do so yet.
    pub async fn fail_over(&self) -> bool {
        self.ask(&["FAILOVER", Self::SERVICE]).await.is_ok()
    }

    /// Has it carry out a command of Sentinels.
    pub async fn ask(&self, command: &[&str]) -> redis::RedisResult<redis::Value> {
        let mut connection = connect(&format!("redis://127.0.0.1:{}", self.port)).await?;
        redis::cmd("SENTINEL").arg(command).query_async(&mut connection).await
    }

    /// Returns the port of the server that it takes for the primary.
    pub async fn primary(&self) -> redis::RedisResult<u16> {
        let (_, port): (String, u16) =
            redis::from_redis_value(self.ask(&["GET-MASTER-ADDR-BY-NAME", Self::SERVICE]).await?)?;
        Ok(port)
    }

    async fn replicas(&self) -> usize {
        match self.ask(&["REPLICAS", Self::SERVICE]).await {
            Ok(redis::Value::Array(replicas)) => replicas.len(),
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for TestSentinel {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
