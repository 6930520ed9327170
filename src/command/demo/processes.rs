//! The demo's coordinator and teammate processes.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use clap::ValueEnum as _;
use teamwire_agents::Pid;
use teamwire_client::Client;
use tokio::process::{Child, Command};

use super::{failed, in_time, script::Language};
use crate::{
    context::{ADDRESS_FILE, OPERATOR_FILE},
    failure::Failure,
};

/// The running coordinator, and what is needed to start teammates.
pub(super) struct Processes {
    program: PathBuf,
    directory: PathBuf,
    pub(super) address: String,
    pub(super) operator: Client,
    coordinator: Child,
}

impl Processes {
    /// Starts a coordinator with its data in `directory` and waits until it has written its address there.
    pub(super) async fn start(directory: &Path) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let mut coordinator = Self::command(&program, directory)
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "warn"])
            .spawn()
            .map_err(|error| Failure::local("Cannot start the coordinator", error))?;
        let address_file = directory.join("state").join(ADDRESS_FILE);
        let address = async {
            loop {
                if let Ok(address) = std::fs::read_to_string(&address_file) {
                    return Ok(address.trim().to_owned());
                }
                if let Some(status) = coordinator.try_wait()? {
                    return Err(failed(format!("the coordinator exited immediately: {status}")));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let address = in_time("the coordinator's start", address).await?;
        let credential = std::fs::read_to_string(directory.join("state").join(OPERATOR_FILE))?;
        let operator = Client::connect(&address)?.with_credential(credential.trim())?;
        Ok(Self { program, directory: directory.to_owned(), address, operator, coordinator })
    }

    /// Returns a command that runs this program isolated from the user's own teams and settings.
    fn command(program: &Path, directory: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TEAMWIRE_")) {
            command.env_remove(name);
        }
        command
            .env("TEAMWIRE_STATE_DIR", directory.join("state"))
            .env("TEAMWIRE_CONTEXT", directory.join("context.json"))
            // Without a terminal as its input, `serve` does not print what to type next.
            .stdin(Stdio::null())
            // Ctrl+C at the terminal is for the demo, which then ends them.
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// Starts a teammate under `teamwire run`, with the program's own scripted agent as its program.
    pub(super) fn spawn_teammate(&self, name: &str, language: Language, join_token: &str) -> Result<Child, Failure> {
        Self::command(&self.program, &self.directory)
            .args(["--address", &self.address, "run", name, "--quiet"])
            .env("TEAMWIRE_JOIN", join_token)
            .arg("--")
            .arg(&self.program)
            .args(["demo-teammate", name, "--lang"])
            .arg(language.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default())
            .spawn()
            .map_err(|error| Failure::local("Cannot start a teammate", error))
    }

    /// Stops the coordinator. Kills it if it has not exited after 10 s.
    pub(super) async fn stop(mut self) {
        if let Some(process) = self.coordinator.id().and_then(|id| Pid::of(id.try_into().ok()?)) {
            process.end(Duration::from_secs(10)).await;
        }
        let _ = self.coordinator.wait().await;
    }
}
