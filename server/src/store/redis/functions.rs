//! The functions that carry out transactions inside Redis.

use redis::Cmd;

/// What they do.
const BODY: &str = include_str!("commit.lua");

/// One of the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// Carries out a transaction.
    Commit,
    /// The same, also while memory is full: for what only frees.
    Free,
    /// Counts a loss.
    CountLoss,
    /// Leaves a mark in the log of changes.
    Mark,
}

/// The functions, under a name that changes with their text, so that coordinators of different versions that share a
/// server do not replace each other's.
#[derive(Debug)]
pub(super) struct FunctionLibrary {
    name: String,
}

impl FunctionLibrary {
    pub(super) fn new() -> Self {
        Self { name: format!("teamwire_{}", &blake3::hash(BODY.as_bytes()).to_hex()[..16]) }
    }

    /// Returns the name by which a server knows a function.
    pub(super) fn name_of(&self, function: Function) -> String {
        let suffix = match function {
            Function::Commit => "commit",
            Function::Free => "free",
            Function::CountLoss => "lost",
            Function::Mark => "mark",
        };
        format!("{}_{suffix}", self.name)
    }

    /// Returns whether a server's words name one of the functions.
    pub(super) fn is_named_in(&self, text: &str) -> bool {
        text.contains(&self.name)
    }

    /// Returns the command that makes them known to a server.
    pub(super) fn load(&self) -> Cmd {
        let name = &self.name;
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg("REPLACE").arg(format!("#!lua name={name}\nlocal NAME = '{name}'\n{BODY}"));
        load
    }
}
