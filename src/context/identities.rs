//! Saved identities.
//!
//! The context file holds those of a person: `team create` and `join` save them there, and one of them is current. The
//! identities of runners are in a second file beside it, so that commands never act as a teammate by accident. Only
//! their owner can read these files, because they hold credentials, and a file that another user could have written is
//! not read.

use std::{
    fs,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use teamwire_agents::hooks::forget_sessions;
use teamwire_client::{Client, ContextFile, KeptIdentity};
use teamwire_proto::credential::Credential;

use super::{Caller, ContextArgs, home_not_set, make_private_directory, refuse_shared, write_private};
use crate::failure::Failure;

/// The extension of the file with the identities of runners, which replaces that of the context file.
const RUNS_EXTENSION: &str = "runs.json";

/// Creates the identity to save, with the address and TLS options that the client used.
pub(crate) fn identity(team: &str, member: &str, credential: &str, client: &Client) -> KeptIdentity {
    KeptIdentity {
        team: team.to_owned(),
        member: member.to_owned(),
        address: client.address().to_owned(),
        credential: credential.to_owned(),
        tls: client.tls(),
    }
}

impl ContextArgs {
    /// Returns a person's saved identity, if there is one.
    pub(crate) fn saved_identity(&self, member: &str, team: Option<&str>) -> Result<Option<KeptIdentity>, Failure> {
        Ok(self.load()?.find(member, team).cloned())
    }

    /// Returns the caller's identity if it is one of the person's own, and not that of a runner.
    pub(crate) fn own_identity(&self, caller: &Caller) -> Result<Option<KeptIdentity>, Failure> {
        let known = self.load()?.identities;
        Ok(known.into_iter().find(|known| known.credential == caller.credential))
    }

    /// Says why the caller is the operator although the person has not chosen that. `None` if the person has, or the
    /// caller is someone else.
    pub(crate) fn why_operator(&self, caller: &Caller) -> Result<Option<&'static str>, Failure> {
        let is_chosen = self.credential.is_some() || self.who.is_some();
        if is_chosen || !matches!(Credential::parse(&caller.credential), Ok(Credential::Operator { .. })) {
            return Ok(None);
        }
        let (own, of_runners) = (self.load()?.identities, self.load_runs()?.identities);
        Ok(Some(match (own.is_empty(), of_runners.is_empty()) {
            (false, _) => "You have not chosen an identity: `teamwire use WHO` does, or --as WHO.",
            (true, false) => {
                "The identities that are saved here belong to runners, and a command uses one only with --as WHO; `teamwire \
                 identities` lists them."
            }
            (true, true) => "No identity is saved here: `teamwire join` saves one.",
        }))
    }

    /// Returns the identity that an earlier run of a member saved, or else the person's of that name.
    pub(crate) fn identity_to_run(&self, member: &str, team: Option<&str>) -> Result<Option<KeptIdentity>, Failure> {
        match self.load_runs()?.find(member, team) {
            Some(found) => Ok(Some(found.clone())),
            None => self.saved_identity(member, team),
        }
    }

    /// Reads the context file. A missing file counts as empty.
    pub(crate) fn load(&self) -> Result<ContextFile, Failure> {
        read(&self.path()?)
    }

    /// Reads the identities of runners.
    pub(crate) fn load_runs(&self) -> Result<ContextFile, Failure> {
        read(&self.runs_path()?)
    }

    /// Returns the path of the context file. `None` if the environment does not say where it is.
    pub(crate) fn context_path(&self) -> Option<PathBuf> {
        self.path().ok()
    }

    fn path(&self) -> Result<PathBuf, Failure> {
        self.context.clone().or_else(ContextFile::path).ok_or_else(home_not_set)
    }

    fn runs_path(&self) -> Result<PathBuf, Failure> {
        Ok(self.path()?.with_extension(RUNS_EXTENSION))
    }

    /// Saves a person's identity and makes it the current one.
    pub(crate) fn save_identity(&self, identity: KeptIdentity) -> Result<(), Failure> {
        self.update(|file| {
            file.current = Some(identity.name());
            put(file, identity);
        })
    }

    /// Saves a runner's identity. If the person has this identity, its credential is replaced there instead: joining
    /// for a new life has ended the old one.
    pub(crate) fn save_run_identity(&self, identity: KeptIdentity) -> Result<(), Failure> {
        if self.load()?.identities.iter().any(|known| is_same_member(known, &identity)) {
            return self.update(|file| put(file, identity));
        }
        update_file(&self.runs_path()?, |file| put(file, identity))
    }

    /// Removes the identities of a team at an address, or only that of one member.
    pub(crate) fn remove_identities(&self, address: &str, team: &str, member: Option<&str>) -> Result<(), Failure> {
        let is_meant = |identity: &KeptIdentity| {
            identity.address == address
                && identity.team.eq_ignore_ascii_case(team)
                && member.is_none_or(|member| identity.member.eq_ignore_ascii_case(member))
        };
        self.remove_if(is_meant)
    }

    /// Removes exactly these identities.
    pub(crate) fn forget(&self, ended: &[KeptIdentity]) -> Result<(), Failure> {
        self.remove_if(|identity| ended.contains(identity))
    }

    /// Removes identities, and what the hooks of their sessions have kept.
    fn remove_if(&self, is_meant: impl Fn(&KeptIdentity) -> bool) -> Result<(), Failure> {
        if let Ok(hooks) = self.hooks_directory() {
            for identity in self.load()?.identities.iter().filter(|identity| is_meant(identity)) {
                forget_sessions(&hooks, &identity.member, &identity.team);
            }
        }
        if self.load_runs()?.identities.iter().any(&is_meant) {
            update_file(&self.runs_path()?, |file| file.identities.retain(|identity| !is_meant(identity)))?;
        }
        self.update(|file| {
            file.identities.retain(|identity| !is_meant(identity));
            let current = file.current.take();
            file.current = current.filter(|current| file.identities.iter().any(|identity| identity.name() == *current));
        })
    }

    /// Checks that the context file is writable. Call this before creating a credential, which would otherwise be lost.
    pub(crate) fn ensure_writable(&self) -> Result<(), Failure> {
        self.update(|_| {})
    }

    /// Updates the context file under a lock that excludes other processes.
    pub(crate) fn update(&self, change: impl FnOnce(&mut ContextFile)) -> Result<(), Failure> {
        update_file(&self.path()?, change)
    }
}

/// Returns whether two identities are the same member. The same name at another coordinator is a different member.
fn is_same_member(one: &KeptIdentity, other: &KeptIdentity) -> bool {
    one.is(&other.member, Some(&other.team)) && one.address == other.address
}

/// Puts an identity first, in place of an earlier one of the same member.
fn put(file: &mut ContextFile, identity: KeptIdentity) {
    file.identities.retain(|known| !is_same_member(known, &identity));
    file.identities.insert(0, identity);
}

/// Reads a file of identities, unless other users could have written it.
fn read(path: &Path) -> Result<ContextFile, Failure> {
    refuse_shared(path)?;
    Ok(ContextFile::load_checked(path)?)
}

fn update_file(path: &Path, change: impl FnOnce(&mut ContextFile)) -> Result<(), Failure> {
    let directory = path.parent().unwrap_or(Path::new("."));
    make_private_directory(directory)?;
    refuse_shared(path)?;
    let lock = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path.with_extension("lock"))?;
    lock.lock()?;
    let mut file = ContextFile::load_checked(path)?;
    change(&mut file);
    let text =
        serde_json::to_vec_pretty(&file).map_err(|error| Failure::local("Cannot write the context file", error))?;
    write_private(path, &text)
}
