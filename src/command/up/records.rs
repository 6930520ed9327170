//! Records of what `up` started on this machine, so that `down` stops those processes and no others.
//!
//! The records are in the directory `up` of the state directory: the coordinator's, and a directory for each team.

use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use teamwire_agents::Pid;

use crate::{
    context::{ContextArgs, make_private_directory, refuse_shared, remove_file, try_lock, write_private},
    failure::{Failure, REFUSED},
};

/// The record of a team, in its directory.
const TEAM_RECORD: &str = "team.json";

/// The directory with what a person has confirmed.
const CONFIRMED: &str = "confirmed-rules";

/// The records of this machine.
#[derive(Debug)]
pub(in crate::command) struct Records {
    directory: PathBuf,
}

/// A coordinator that `up` started.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::command) struct CoordinatorRecord {
    pub(in crate::command) process: Pid,
    /// Empty until it serves.
    pub(in crate::command) address: String,
    pub(in crate::command) listens: Listens,
}

/// Where a coordinator listens besides its socket.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::command) struct Listens {
    /// The address for clients of this machine. `None` means a port of its choice.
    pub(in crate::command) local: Option<String>,
    /// How other machines reach it instead, with TLS.
    pub(in crate::command) network: Option<Network>,
}

/// How other machines reach a coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::command) struct Network {
    pub(in crate::command) listen: SocketAddr,
    /// The URLs that join strings contain.
    pub(in crate::command) addresses: Vec<String>,
    pub(in crate::command) certificate: PathBuf,
    pub(in crate::command) key: PathBuf,
}

/// What `up` has done for a team.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::command) struct TeamRecord {
    /// `true` if `up` has created the team.
    pub(in crate::command) created: bool,
    /// The idempotency key of the call that creates the team, until its outcome is recorded.
    pub(in crate::command) creating: Option<String>,
    /// The local host.
    pub(in crate::command) host: Option<Pid>,
}

impl Records {
    /// Returns the records, which may be empty. Does not create the directory.
    pub(in crate::command) fn of(context: &ContextArgs) -> Result<Self, Failure> {
        Ok(Self { directory: context.state_dir()?.join("up") })
    }

    /// Returns records in this directory.
    #[cfg(test)]
    pub(in crate::command) fn in_directory(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Returns a hash of the permission rules of a team file that this person has confirmed last. `file`: a hash of its
    /// path. `None` if they have confirmed none.
    pub(in crate::command) fn confirmed_rules(&self, file: &str) -> Result<Option<String>, Failure> {
        read(&self.directory.join(CONFIRMED).join(file))
    }

    pub(in crate::command) fn put_confirmed_rules(&self, file: &str, rules: &str) -> Result<(), Failure> {
        let directory = self.directory.join(CONFIRMED);
        make_private_directory(&directory)?;
        write(&directory.join(file), &rules)
    }

    /// Excludes other runs of `up` and `down` until the file is dropped.
    pub(in crate::command) fn lock(&self) -> Result<File, Failure> {
        if let Some(state_directory) = self.directory.parent() {
            make_private_directory(state_directory)?;
            refuse_shared(state_directory)?;
        }
        make_private_directory(&self.directory)?;
        refuse_shared(&self.directory)?;
        try_lock(&self.directory.join("lock"))?.ok_or_else(|| {
            let text =
                "Another command that starts or ends a team is running on this machine. Wait until it has finished.";
            Failure::with_code(REFUSED, text)
        })
    }

    /// Returns the directory of a team: its record, and the configuration and the log of its local host.
    pub(in crate::command) fn team_directory(&self, team: &str) -> PathBuf {
        self.directory.join("teams").join(team.to_ascii_lowercase())
    }

    /// Returns the coordinator that `up` started, if it is still running.
    pub(in crate::command) fn coordinator(&self) -> Result<Option<CoordinatorRecord>, Failure> {
        Ok(self.last_coordinator()?.filter(|record| record.process.is_alive()))
    }

    /// Returns the coordinator that `up` started last, whether it is running or not.
    pub(in crate::command) fn last_coordinator(&self) -> Result<Option<CoordinatorRecord>, Failure> {
        read(&self.coordinator_path())
    }

    pub(in crate::command) fn put_coordinator(&self, record: &CoordinatorRecord) -> Result<(), Failure> {
        write(&self.coordinator_path(), record)
    }

    pub(in crate::command) fn remove_coordinator(&self) {
        let _ = remove_file(&self.coordinator_path());
    }

    fn coordinator_path(&self) -> PathBuf {
        self.directory.join("coordinator.json")
    }

    /// Returns the record of a team. `None` if `up` has done nothing for it.
    pub(in crate::command) fn team(&self, team: &str) -> Result<Option<TeamRecord>, Failure> {
        read(&self.team_directory(team).join(TEAM_RECORD))
    }

    pub(in crate::command) fn put_team(&self, team: &str, record: &TeamRecord) -> Result<(), Failure> {
        let directory = self.team_directory(team);
        make_private_directory(&directory)?;
        write(&directory.join(TEAM_RECORD), record)
    }

    /// Removes the record of a team, with the configuration and the log of its local host.
    pub(in crate::command) fn remove_team(&self, team: &str) {
        let _ = fs::remove_dir_all(self.team_directory(team));
        // Unless it has other teams.
        let _ = fs::remove_dir(self.directory.join("teams"));
    }

    /// Returns the names of the teams that have a record, in lower case.
    pub(in crate::command) fn teams(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.join("teams")).into_iter().flatten().flatten();
        let recorded = entries.filter(|entry| entry.path().join(TEAM_RECORD).exists());
        recorded.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    // A user who can write there could make `down` kill another process.
    refuse_shared(path)?;
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| Failure::local(&format!("{} is not valid; move it away", path.display()), error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::local(&format!("Cannot read {}", path.display()), error)),
    }
}

fn write(path: &Path, record: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_vec_pretty(record).map_err(|error| Failure::local("Cannot write a record", error))?;
    write_private(path, &text)
}
