//! The store that a command uses without a coordinator.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use teamwire_server::store::{self, Store};

use crate::{command::serve::cannot_open, failure::Failure};

/// Names a store.
#[derive(Args, Debug)]
pub(super) struct StoreArgs {
    /// The store, as in `teamwire serve --store`, to use without a coordinator
    ///
    /// Other users of this machine can see a password in the process list: prefer --store-file.
    #[arg(long, value_name = "URL", conflicts_with = "store_file")]
    store: Option<String>,
    /// The file with the store's URL
    #[arg(long, value_name = "FILE")]
    store_file: Option<PathBuf>,
}

impl StoreArgs {
    /// Returns the store's URL. `None` if none is named.
    pub(super) fn url(&self) -> Result<Option<String>, Failure> {
        url(self.store.as_deref(), self.store_file.as_deref())
    }
}

/// Returns a store's URL, or the one that a file contains. `None` if neither is named.
pub(super) fn url(store: Option<&str>, file: Option<&Path>) -> Result<Option<String>, Failure> {
    let Some(file) = file else { return Ok(store.map(str::to_owned)) };
    let url = fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("Cannot read the store's URL from {}: {error}.", file.display())))?;
    Ok(Some(url.trim().to_owned()))
}

/// Opens a store.
pub(super) async fn open(url: &str) -> Result<Arc<dyn Store>, Failure> {
    store::open(url).await.map_err(cannot_open)
}
