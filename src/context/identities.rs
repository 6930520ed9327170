//! The context file: the identities that `team create`, `join` and `run` saved, and which of them is current.
//!
//! Only its owner can read it, because it holds credentials.

use std::{
    fs,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use teamwire_client::{Client, ContextFile, KeptIdentity};

use super::{ContextArgs, home_not_set, make_private_directory, write_private};
use crate::failure::Failure;

/// Creates the identity to save, with the address and TLS options that the client used.
pub fn identity(team: &str, member: &str, credential: &str, client: &Client) -> KeptIdentity {
    KeptIdentity {
        team: team.to_owned(),
        member: member.to_owned(),
        address: client.address().to_owned(),
        credential: credential.to_owned(),
        tls: client.tls(),
    }
}

impl ContextArgs {
    /// Returns a member's saved identity, if there is one.
    pub fn saved_identity(&self, member: &str, team: Option<&str>) -> Result<Option<KeptIdentity>, Failure> {
        Ok(self.load()?.find(member, team).cloned())
    }

    /// Reads the context file. A missing file counts as empty.
    pub fn load(&self) -> Result<ContextFile, Failure> {
        Ok(ContextFile::load(&self.path()?)?)
    }

    fn path(&self) -> Result<PathBuf, Failure> {
        self.context.clone().or_else(ContextFile::path).ok_or_else(home_not_set)
    }

    /// Saves an identity, and makes it the current one if `make_current` is set.
    pub fn save_identity(&self, identity: KeptIdentity, make_current: bool) -> Result<(), Failure> {
        self.update(|file| {
            let name = identity.name();
            // The same name at another coordinator is a different member.
            file.identities
                .retain(|known| !known.is(&identity.member, Some(&identity.team)) || known.address != identity.address);
            file.identities.insert(0, identity);
            if make_current {
                file.current = Some(name);
            }
        })
    }

    /// Removes the identities of a team at an address, or only that of one member.
    pub fn remove_identities(&self, address: &str, team: &str, member: Option<&str>) -> Result<(), Failure> {
        self.update(|file| {
            file.identities.retain(|identity| {
                identity.address != address
                    || !identity.team.eq_ignore_ascii_case(team)
                    || member.is_some_and(|member| !identity.member.eq_ignore_ascii_case(member))
            });
            let current = file.current.take();
            file.current = current.filter(|current| file.identities.iter().any(|identity| identity.name() == *current));
        })
    }

    /// Checks that the context file is writable. Call this before creating a credential, which would otherwise be lost.
    pub fn ensure_writable(&self) -> Result<(), Failure> {
        self.update(|_| {})
    }

    /// Updates the context file under a lock that excludes other processes.
    pub fn update(&self, change: impl FnOnce(&mut ContextFile)) -> Result<(), Failure> {
        let path = self.path()?;
        let directory = path.parent().unwrap_or(Path::new("."));
        make_private_directory(directory)?;
        let lock = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path.with_extension("lock"))?;
        lock.lock()?;
        let mut file = self.load()?;
        change(&mut file);
        let text =
            serde_json::to_vec_pretty(&file).map_err(|error| Failure::local("Cannot write the context file", error))?;
        write_private(&path, &text)
    }
}
