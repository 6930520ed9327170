//! What a host that no longer runs has left on this machine.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use teamwire_agents::host::{HostFile, Processes};

use super::{
    identity::{HOSTS, IDENTITY, lock},
    this_program,
};
use crate::{
    context::{ContextArgs, refuse_shared},
    failure::Failure,
};

/// Ends the members that the host of a team has started here, and removes its records about them. What members have
/// written stays, and so does the host's identity. Returns a sentence about each worktree that stays.
pub(in crate::command) async fn clear(context: &ContextArgs, team: &str) -> Result<Vec<String>, Failure> {
    let directory = directory(context, team)?;
    if !directory.exists() {
        return Ok(Vec::new());
    }
    refuse_shared(&directory)?;
    // Otherwise, another host runs there, and does this itself.
    let Ok(_lock) = lock(&directory) else { return Ok(Vec::new()) };
    let teamwire = this_program().ok_or_else(|| Failure::usage("Cannot find the teamwire binary."))?;
    let cannot = |error: io::Error| Failure::local("Cannot remove what the local host has left", error);
    let opening = Processes::open(teamwire.into(), directory, context.state_dir()?, HostFile::default());
    let processes = opening.await.map_err(cannot)?;
    processes.clear().await.map_err(cannot)
}

/// Removes the state directory of the host of a team that was deleted, except the directories in which members have
/// written.
pub(in crate::command) fn remove(context: &ContextArgs, team: &str) -> Result<(), Failure> {
    let directory = directory(context, team)?;
    let Ok(_lock) = lock(&directory) else { return Ok(()) };
    for part in [IDENTITY, "lock"] {
        let _ = fs::remove_file(directory.join(part));
    }
    for part in ["kept", "logs", "orders"] {
        let _ = fs::remove_dir_all(directory.join(part));
    }
    // These are removed only if they are empty.
    let all = [directory.join("work"), directory.clone()].into_iter().chain(directory.parent().map(Path::to_owned));
    all.for_each(|directory| drop(fs::remove_dir(directory)));
    Ok(())
}

fn directory(context: &ContextArgs, team: &str) -> Result<PathBuf, Failure> {
    Ok(context.state_dir()?.join(HOSTS).join(team.to_ascii_lowercase()))
}
