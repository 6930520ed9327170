//! The Redis function library that executes transactions.

use redis::Cmd;

/// The library's source.
const BODY: &str = include_str!("commit.lua");

/// A function of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// Executes a transaction.
    Commit,
    /// Executes a transaction even while memory is full.
    CommitWhenFull,
    /// Creates the store's marker.
    MarkStore,
    /// Counts a loss.
    CountLoss,
    /// Adds a mark to the replication log.
    Mark,
}

/// The library. Its name contains a hash of its source, so that coordinators of different versions can share a server without
/// replacing each other's library.
#[derive(Debug)]
pub(super) struct FunctionLibrary {
    name: String,
}

impl FunctionLibrary {
    pub(super) fn new() -> Self {
        Self { name: format!("teamwire_{}", &blake3::hash(BODY.as_bytes()).to_hex()[..16]) }
    }

    /// Returns a function's name on the server.
    pub(super) fn name_of(&self, function: Function) -> String {
        let suffix = match function {
            Function::Commit => "commit",
            Function::CommitWhenFull => "commit_when_full",
            Function::MarkStore => "mark_store",
            Function::CountLoss => "count_loss",
            Function::Mark => "mark",
        };
        format!("{}_{suffix}", self.name)
    }

    /// Returns whether a server's error text names one of the functions.
    pub(super) fn is_named_in(&self, text: &str) -> bool {
        text.contains(&self.name)
    }

    /// Returns the command that loads the library into a server.
    pub(super) fn load(&self) -> Cmd {
        let name = &self.name;
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg("REPLACE").arg(format!("#!lua name={name}\nlocal NAME = '{name}'\n{BODY}"));
        load
    }
}
