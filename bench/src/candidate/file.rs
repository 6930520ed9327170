//! Inboxes as teams without a server have them: JSON files that writers rewrite under a lock, and readers poll.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::{task::spawn_blocking, time::sleep};

use super::{Mail, inbox_name};
use crate::{Result, measure::Arrivals, process::Scratch};

/// How often a reader polls.
pub(crate) const POLL: Duration = Duration::from_millis(500);

/// The inboxes of a team.
#[derive(Debug)]
pub(crate) struct Files(Scratch);

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    from: String,
    text: String,
    read: bool,
}

impl Files {
    /// Creates them in a directory.
    pub(crate) fn open(scratch: Scratch) -> Self {
        Self(scratch)
    }

    fn path(&self, inbox: usize) -> PathBuf {
        self.0.directory().join(format!("{}.json", inbox_name(inbox)))
    }
}

/// Reads, changes and rewrites an inbox under its lock.
fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<Line>)) -> Result<()> {
    let lock = File::create(path.with_extension("lock"))?;
    lock.lock()?;
    let mut lines = match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    change(&mut lines);
    let new = path.with_extension("new");
    fs::write(&new, serde_json::to_vec(&lines)?)?;
    Ok(fs::rename(new, path)?)
}

#[tonic::async_trait]
impl Mail for Files {
    async fn send(&self, caller: usize, inbox: usize, text: String) -> Result<()> {
        let (path, from) = (self.path(inbox), format!("sender-{caller}"));
        spawn_blocking(move || rewrite(&path, |lines| lines.push(Line { from, text, read: false }))).await?
    }

    fn receive(&self, inbox: usize, until: u64, arrivals: Arc<Arrivals>) -> BoxFuture<'static, Result<()>> {
        let path = self.path(inbox);
        Box::pin(async move {
            let mut taken = 0;
            loop {
                let (path, mut new) = (path.clone(), Vec::new());
                let read = move || {
                    let unread = |line: &&mut Line| !line.read;
                    rewrite(&path, |lines| {
                        for line in lines.iter_mut().filter(unread) {
                            line.read = true;
                            new.push(line.text.clone());
                        }
                    })?;
                    Result::Ok(new)
                };
                for text in spawn_blocking(read).await?? {
                    arrivals.record(&text)?;
                    taken += 1;
                }
                if taken >= until {
                    return Ok(());
                }
                sleep(POLL).await;
            }
        })
    }
}
