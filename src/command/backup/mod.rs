//! `teamwire backup`: writes everything in a store to a file. `teamwire restore`: writes such a file into an empty
//! store.

mod file;
mod restore;
mod source;
mod store;

use std::path::Path;

use clap::Args;
use teamwire_server::store::{
    StoreError,
    backup::{self, BackupError, Counts, Header},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::{file::BackupFile, store::StoreArgs};
use super::{Output, stop_on_signal::cancel_on_signal};
use crate::{
    context::{ContextArgs, Who},
    failure::{Failure, INTERRUPTED, REFUSED},
    show,
};

pub(super) use self::restore::Restore;

/// How many pieces of a backup wait to be written.
const PIECES_MAX: usize = 4;

/// Back up everything in the store to a file
///
/// The backup contains all teams with their members, messages, tasks and history. It shows each team as it was at one
/// instant. The coordinator continues to serve. The file contains the contents of all messages, and no credential: the
/// store keeps only hashes. `teamwire restore` writes the backup into an empty store of any kind.
///
/// Only the operator can do this. If no coordinator is running, name the store with --store.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire backup teamwire.jsonl.gz\n    teamwire backup --store embedded:/var/lib/teamwire/teamwire.redb teamwire.jsonl.gz\n    teamwire backup - | ssh HOST 'cat > teamwire.jsonl.gz'"
)]
pub(super) struct Backup {
    /// The file to write, which only you can read; `-` for standard output
    ///
    /// It holds JSON lines, compressed with gzip. It does not get its final name until it is complete.
    #[arg(value_name = "FILE")]
    file: String,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    pub output: Output,
}

impl Backup {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        if self.file == "-" && self.output.json {
            return Err(Failure::usage("--json writes to standard output, and so would the backup: name a file."));
        }
        // Before the file exists, so that no signal leaves it behind. Standard output leaves nothing to remove.
        let stop = if self.file == "-" { CancellationToken::new() } else { cancel_on_signal()? };
        let mut file = BackupFile::create(&self.file, self.force, !self.output.json)?;
        match self.store.url()? {
            Some(url) => from_store(&url, &mut file, &stop).await?,
            None => until(&stop, from_coordinator(context, &mut file)).await?,
        }
        let (header, counts, bytes) = file.finish()?;
        if self.output.json {
            show::line(&json(&header, &counts, Some((&self.file, bytes))));
        } else if self.file != "-" {
            anstream::println!("{} is a backup of {}: {}.", self.file, summary(&counts), show::size(bytes));
        }
        Ok(())
    }
}

/// Does a part of the backup, until a signal stops it.
async fn until<T>(stop: &CancellationToken, part: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let interrupted = || Failure::with_code(INTERRUPTED, "Interrupted: no backup was written.");
    stop.run_until_cancelled(part).await.unwrap_or_else(|| Err(interrupted()))
}

/// Backs up the store of a coordinator.
async fn from_coordinator(context: &ContextArgs, file: &mut BackupFile) -> Result<(), Failure> {
    let mut frames = context.caller(Who::NamedOrOperator)?.client.backup().await?;
    while let Some(lines) = frames.next().await? {
        file.push(&lines)?;
    }
    Ok(())
}

/// Backs a store up that no coordinator needs to serve.
async fn from_store(url: &str, file: &mut BackupFile, stop: &CancellationToken) -> Result<(), Failure> {
    if url == "memory:" {
        return Err(Failure::usage(
            "A store in memory exists only in its coordinator. To back that one up, leave out --store and --store-file, and name \
             the coordinator with --address.",
        ));
    }
    if let Some(path) = url.strip_prefix("embedded:")
        && !Path::new(path).exists()
    {
        return Err(Failure::usage(format!("There is no store at {path}.")));
    }
    let store = until(stop, store::open(url)).await?;
    if backup::is_unfinished(&*store).await.map_err(BackupError::from).map_err(failed)? {
        return Err(Failure::with_code(
            REFUSED,
            "This store holds an unfinished restore: run `teamwire restore` again.",
        ));
    }
    let (to, mut pieces) = mpsc::channel(PIECES_MAX);
    let reading = backup::write(&*store, to);
    // Dropping the receiver ends the export.
    let writing = until(stop, async move {
        while let Some(piece) = pieces.recv().await {
            file.push(&piece)?;
        }
        Ok(())
    });
    let (read, written) = tokio::join!(reading, writing);
    store.close().await;
    written?;
    read.map_err(BackupError::from).map_err(failed)?;
    Ok(())
}

/// Returns what a backup holds, for a person.
fn summary(counts: &Counts) -> String {
    format!("{} and {}", show::count(counts.records, "record"), show::count(counts.entries, "entry"))
}

/// Returns what a backup is, for a program.
fn json(header: &Header, counts: &Counts, file: Option<(&str, u64)>) -> serde_json::Value {
    let mut json = serde_json::json!({
        "release": header.release,
        "store": header.store,
        "at": header.at,
        "namespaces": counts.namespaces,
        "records": counts.records,
        "streams": counts.streams,
        "entries": counts.entries,
        "leases": counts.leases,
        "idempotency_keys": counts.replies,
    });
    if let Some((file, bytes)) = file {
        json["file"] = file.into();
        json["bytes"] = bytes.into();
    }
    json
}

/// Says to a person why a backup failed.
fn failed(error: BackupError) -> Failure {
    let text = error.to_string();
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let next = match error {
        BackupError::Store(StoreError::Refusing(_)) => {
            " Only a store that takes writes can be backed up: of Redis, name the primary."
        }
        _ => "",
    };
    Failure::with_code(REFUSED, format!("{first}{}.{next}", letters.as_str().trim_end_matches('.')))
}
