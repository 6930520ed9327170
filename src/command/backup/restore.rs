//! `teamwire restore`.

use std::path::{Path, PathBuf};

use clap::Args;
use teamwire_server::store::backup;

use super::{failed, file::Progress, json, source::Source, store, summary};
use crate::{command::Output, context::make_private_directory, failure::Failure, show};

/// Restore a backup into an empty store
///
/// The empty store may be of a different kind from the one that was backed up. Members keep their credentials. Inboxes
/// keep their sequence numbers and the record of what was delivered. First stop all coordinators that use the empty
/// store, and start them when the restore is done. If a restore is interrupted, run it again.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire restore teamwire.jsonl.gz --check\n    teamwire restore teamwire.jsonl.gz --store embedded:/var/lib/teamwire/teamwire.redb\n    teamwire restore teamwire.jsonl.gz --store redis://HOST:6379\n    ssh HOST 'cat teamwire.jsonl.gz' | teamwire restore - --check"
)]
pub(crate) struct Restore {
    /// The backup; `-` for standard input
    ///
    /// The command reads a backup twice: once to check all of it, and once to restore it. So it copies standard input
    /// to a temporary file without a name, in the directory TMPDIR.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The empty store to restore into, as in `teamwire serve --store`; required unless --store-file or --check is
    /// given
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
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let target = self.target()?;
        let progress = Progress::new(!self.output.json);
        // A damaged backup must not leave half of its contents in the store.
        let source = Source::open(&self.file)?;
        let mut checked = source.read()?;
        while checked.next_item().map_err(failed)?.is_some() {
            progress.show("Checked", checked.counts());
        }
        let (header, counts) = checked.check().map_err(failed)?;
        if let Some(url) = &target {
            write(&source, url, &progress).await?;
        }
        drop(progress);
        if self.output.json {
            show::line(&json(&header, &counts, None));
            return Ok(());
        }
        let backup = format!("{} of {}, made by teamwire {}", summary(&counts), header.at, header.release);
        match self.check {
            true if self.file == Path::new("-") => anstream::println!("The backup is complete: {backup}."),
            true => anstream::println!("{} is complete: {backup}.", self.file.display()),
            false => anstream::println!("Restored {backup}. Now start a coordinator on this store."),
        }
        Ok(())
    }

    /// Returns the URL of the store to restore into. `None` if the backup is only checked.
    fn target(&self) -> Result<Option<String>, Failure> {
        if self.check {
            return Ok(None);
        }
        match store::url(self.store.as_deref(), self.store_file.as_deref())?.as_deref() {
            None => Err(Failure::usage(
                "Name the store with --store or --store-file, or only check the backup with --check.",
            )),
            Some("memory:") => {
                Err(Failure::usage("A store in memory would be gone when this command ends: use embedded:PATH."))
            }
            Some(url) => Ok(Some(url.to_owned())),
        }
    }
}

/// Writes a backup into a store.
async fn write(source: &Source, url: &str, progress: &Progress) -> Result<(), Failure> {
    if let Some(directory) = url.strip_prefix("embedded:").and_then(|path| Path::new(path).parent()) {
        make_private_directory(directory)?;
    }
    let store = store::open(url).await?;
    let restored = backup::restore(&*store, source.read()?, |counts| progress.show("Restored", counts)).await;
    store.close().await;
    restored.map(drop).map_err(failed)
}
