//! The context file holds the identities that `team create`, `join` and `run` were given, and which of them is current.
//! It is readable by its owner only.

use std::{
    fs,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use teamwire_client::{Client, ContextFile, KeptIdentity};

use super::{ContextArgs, homeless, make_private_directory, write_private};
use crate::failure::Failure;

/// Makes the identity to keep out of what a member was given, and of what the client has learned of the coordinator.
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
    /// Returns the identity that the file keeps of a member.
    pub fn kept(&self, member: &str, team: Option<&str>) -> Result<Option<KeptIdentity>, Failure> {
        Ok(self.load()?.find(member, team).cloned())
    }

    /// Reads the context file; none is an empty one.
    pub fn load(&self) -> Result<ContextFile, Failure> {
        Ok(ContextFile::load(&self.path()?)?)
    }

    fn path(&self) -> Result<PathBuf, Failure> {
        self.context.clone().or_else(ContextFile::path).ok_or_else(homeless)
    }

    /// Keeps an identity. `make_current`: it is the one to use from now on.
    pub fn keep(&self, identity: KeptIdentity, make_current: bool) -> Result<(), Failure> {
        self.change(|file| {
            let name = identity.name();
            // The same name at another coordinator is another member.
            file.identities
                .retain(|known| !known.is(&identity.member, Some(&identity.team)) || known.address != identity.address);
            file.identities.insert(0, identity);
            if make_current {
                file.current = Some(name);
            }
        })
    }

    /// Forgets the identities of a team that is no more at that address, or of one member of it.
    pub fn forget(&self, address: &str, team: &str, member: Option<&str>) -> Result<(), Failure> {
        self.change(|file| {
            file.identities.retain(|identity| {
                identity.address != address
                    || !identity.team.eq_ignore_ascii_case(team)
                    || member.is_some_and(|member| !identity.member.eq_ignore_ascii_case(member))
            });
            let current = file.current.take();
            file.current = current.filter(|current| file.identities.iter().any(|identity| identity.name() == *current));
        })
    }

    /// Makes sure that an identity can be kept, before one is made that would otherwise be lost.
    pub fn prepare_to_keep(&self) -> Result<(), Failure> {
        self.change(|_| {})
    }

    /// Changes the context file, alone among all processes that do.
    pub fn change(&self, change: impl FnOnce(&mut ContextFile)) -> Result<(), Failure> {
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
        let text = serde_json::to_vec_pretty(&file).map_err(|error| Failure::local("the context", error))?;
        write_private(&path, &text)
    }
}
