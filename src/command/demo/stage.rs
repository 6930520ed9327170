//! The processes of the demo.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use teamwire_client::Client;
use tokio::process::{Child, Command};

use super::{failed, in_time};
use crate::{
    context::{ADDRESS_FILE, OPERATOR_FILE},
    failure::Failure,
};

/// The coordinator of the demo, and what starts teammates.
pub(super) struct Stage {
    program: PathBuf,
    directory: PathBuf,
    pub(super) address: String,
    pub(super) operator: Client,
    coordinator: Child,
}

impl Stage {
    pub(super) async fn set_up(directory: &Path) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let mut coordinator = Self::command(&program, directory)
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "warn"])
            .spawn()
            .map_err(|error| Failure::local("the coordinator cannot be started", error))?;
        let address_file = directory.join("state").join(ADDRESS_FILE);
        let address = async {
            loop {
                if let Ok(address) = std::fs::read_to_string(&address_file) {
                    return Ok(address.trim().to_owned());
                }
                if let Some(status) = coordinator.try_wait()? {
                    return Err(failed(format!("the coordinator ended at once: {status}")));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let address = in_time("the coordinator's start", address).await?;
        let credential = std::fs::read_to_string(directory.join("state").join(OPERATOR_FILE))?;
        let operator = Client::connect(&address)?.with_credential(credential.trim())?;
        Ok(Self { program, directory: directory.to_owned(), address, operator, coordinator })
    }

    /// A process of this program that knows nothing of the user's own teams.
    fn command(program: &Path, directory: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TEAMWIRE_")) {
            command.env_remove(name);
        }
        command
            .env("TEAMWIRE_STATE_DIR", directory.join("state"))
            .env("TEAMWIRE_CONTEXT", directory.join("context.json"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    pub(super) fn teammate(&self, name: &str, join_token: &str) -> Result<Child, Failure> {
        Self::command(&self.program, &self.directory)
            .args(["--address", &self.address, "run", name, "--quiet"])
            .env("TEAMWIRE_JOIN", join_token)
            .arg("--")
            .arg(&self.program)
            .args(["demo-teammate", name])
            .spawn()
            .map_err(|error| Failure::local("a teammate cannot be started", error))
    }

    pub(super) async fn tear_down(mut self) {
        if let Some(id) = self.coordinator.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        let _ = tokio::time::timeout(Duration::from_secs(10), self.coordinator.wait()).await;
    }
}
