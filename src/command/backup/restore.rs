//! `teamwire restore`.

use std::path::{Path, PathBuf};

use clap::Args;
use teamwire_server::store::backup;

use super::{
    failed,
    file::{self, Progress},
    json, store, summary,
};
use crate::{command::Output, context::make_private_directory, failure::Failure, show};

/// Restore a backup into an empty store
///
/// The store may be of a different kind from the one that was backed up. Members keep their credentials. Inboxes keep their
/// sequence numbers and the record of what was delivered. First stop all coordinators of the store, and start them when the
/// restore is done. If a restore is interrupted, run it again.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire restore teamwire.jsonl.gz --check\n    teamwire restore teamwire.jsonl.gz --store embedded:/var/lib/teamwire/teamwire.redb\n    teamwire restore teamwire.jsonl.gz --store redis://HOST:6379"
)]
pub struct Restore {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The empty store to restore into, as in `teamwire serve --store`; required unless --store-file or --check is given
    ///
    /// Other users of this machine can see a password in the process list: prefer --store-file.
    #[arg(long, value_name = "URL", conflicts_with = "store_file")]
    store: Option<String>,
    /// The file with the store's URL
    #[arg(long, value_name = "FILE")]
    store_file: Option<PathBuf>,
    /// Only check that the backup is complete and undamaged
    #[arg(long, conflicts_with_all = ["store", "store_file"])]
    check: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Restore {
    pub async fn run(&self) -> Result<(), Failure> {
        let progress = Progress::new(!self.output.json);
        // A damaged backup must not leave half of its contents in the store.
        let mut checked = file::open(&self.file)?;
        while checked.next_item().map_err(failed)?.is_some() {
            progress.show("Checked", checked.counts());
        }
        let (header, counts) = checked.check().map_err(failed)?;
        if !self.check {
            let named = store::url(self.store.as_deref(), self.store_file.as_deref())?;
            let url = named.ok_or_else(|| {
                Failure::usage("Name the store with --store or --store-file, or only check the backup with --check.")
            })?;
            self.write_to(&url, &progress).await?;
        }
        drop(progress);
        if self.output.json {
            show::line(&json(&header, &counts, None));
            return Ok(());
        }
        let backup = format!("{} of {}, made by teamwire {}", summary(&counts), header.at, header.release);
        match self.check {
            true => anstream::println!("{} is complete: {backup}.", self.file.display()),
            false => anstream::println!("Restored {backup}. Now start a coordinator on this store."),
        }
        Ok(())
    }

    async fn write_to(&self, url: &str, progress: &Progress) -> Result<(), Failure> {
        if url == "memory:" {
            return Err(Failure::usage("A store in memory would be gone when this command ends: use embedded:PATH."));
        }
        if let Some(directory) = url.strip_prefix("embedded:").and_then(|path| Path::new(path).parent()) {
            make_private_directory(directory)?;
        }
        let store = store::open(url).await?;
        let backup = file::open(&self.file)?;
        let restored = backup::restore(&*store, backup, |counts| progress.show("Restored", counts)).await;
        store.close().await;
        restored.map(drop).map_err(failed)
    }
}
