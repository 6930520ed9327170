//! What a host keeps on disk about each order, so that its next process knows which members run.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use super::workspace::Workspace;
use crate::process::Pid;

/// The name of an order's record in its directory.
const FILE: &str = "order.json";

/// The name of the context file of an order's runner, in the order's directory.
const CONTEXT: &str = "context.json";

/// The file beside the context file in which the runner saves its identity as soon as it has joined.
const IDENTITY: &str = "context.runs.json";

/// An order that the host has begun to carry out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) request_id: String,
    pub(super) member: String,
    pub(super) profile: String,
    /// When the order expires.
    pub(super) expires_at: SystemTime,
    /// Where the program runs.
    pub(super) workspace: Workspace,
    /// The length of the member's log before the start.
    pub(super) log_begins_at: u64,
    /// The cgroup that limits the member.
    pub(super) cgroup: Option<PathBuf>,
    pub(super) phase: Phase,
}

/// How far the start of a member has progressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// The runner is about to be started.
    Starting,
    /// The runner waits for its join token. If this process dies, the runner never gets the token, and exits.
    Waiting(Pid),
    /// The runner has its join token.
    Started(Pid),
}

/// A worktree that stays.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The worktree.
    pub(super) root: PathBuf,
    /// Where it is and why it stays, in a sentence.
    pub(super) says: String,
}

/// The directories of all orders, below the host's state directory.
#[derive(Clone, Debug)]
pub(super) struct Records {
    root: PathBuf,
    /// The sentences about worktrees that stay, one file for each member.
    kept: PathBuf,
}

impl Records {
    /// Creates the directory, which only its owner can access.
    pub(super) fn open(state: &Path) -> io::Result<Self> {
        let root = state.join("orders");
        DirBuilder::new().recursive(true).mode(0o700).create(&root)?;
        Ok(Self { root, kept: state.join("kept") })
    }

    /// Reads all records. Skips unreadable ones, which no process has finished writing.
    pub(super) fn load(&self) -> io::Result<Vec<Record>> {
        let directories = fs::read_dir(&self.root)?.collect::<io::Result<Vec<_>>>()?;
        Ok(directories.into_iter().filter_map(|directory| read(&directory.path())).collect())
    }

    /// Reads the record of an order. `None` if there is none.
    pub(super) fn read(&self, request_id: &str) -> Option<Record> {
        read(&self.directory(request_id))
    }

    /// Writes a record. It replaces the earlier one as a whole.
    pub(super) fn save(&self, record: &Record) -> io::Result<()> {
        let directory = self.directory(&record.request_id);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let (path, next) = (directory.join(FILE), directory.join(format!("{FILE}.new")));
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&next)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_data()?;
        fs::rename(next, path)
    }

    /// Removes everything about an order.
    pub(super) fn remove(&self, request_id: &str) {
        match fs::remove_dir_all(self.directory(request_id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, request_id, "the record of an order cannot be removed");
            }
            _ => {}
        }
    }

    /// Notes why a member's worktree stays, or that none does any more.
    pub(super) fn note_kept(&self, member: &str, why: Option<&Kept>) {
        let file = self.kept.join(member.to_ascii_lowercase());
        let noted = match why {
            Some(why) => DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.kept)
                .and_then(|()| fs::write(&file, serde_json::to_vec(why)?)),
            None => fs::remove_file(&file).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }),
        };
        if let Err(error) = noted {
            tracing::warn!(%error, member, "a worktree that stays cannot be noted");
        }
    }

    /// Returns the sentences about the worktrees that stay, and that no one has removed since.
    pub(super) fn kept(&self) -> Vec<String> {
        let files = fs::read_dir(&self.kept).into_iter().flatten().flatten();
        let read = |file: fs::DirEntry| serde_json::from_slice::<Kept>(&fs::read(file.path()).ok()?).ok();
        let there = files.filter_map(read).filter(|kept| kept.root.exists());
        let mut kept: Vec<String> = there.map(|kept| kept.says).collect();
        kept.sort();
        kept
    }

    /// Returns the path of the context file of an order's runner.
    pub(super) fn context(&self, request_id: &str) -> PathBuf {
        self.directory(request_id).join(CONTEXT)
    }

    /// Returns whether the runner of an order has joined.
    pub(super) fn has_joined(&self, request_id: &str) -> bool {
        self.directory(request_id).join(IDENTITY).exists()
    }

    /// Returns the directory of an order. The coordinator makes ids of these characters only.
    fn directory(&self, request_id: &str) -> PathBuf {
        let plain: String =
            request_id.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect();
        self.root.join(plain)
    }
}

fn read(directory: &Path) -> Option<Record> {
    let text = fs::read(directory.join(FILE)).ok()?;
    serde_json::from_slice(&text).inspect_err(|error| tracing::error!(%error, "the record of an order is damaged")).ok()
}
