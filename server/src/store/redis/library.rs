//! The functions that carry out transactions inside Redis.

use redis::Cmd;

/// What they do.
const BODY: &str = include_str!("commit.lua");

/// The functions, under a name that changes with their text, so that coordinators of different versions that share a
/// server do not replace each other's.
#[derive(Debug)]
pub(super) struct Library {
    name: String,
    /// Carries out a transaction.
    pub(super) commit: String,
    /// The same, also while memory is full: for what only frees.
    pub(super) free: String,
}

impl Library {
    pub(super) fn new() -> Self {
        let name = format!("teamwire_{}", &blake3::hash(BODY.as_bytes()).to_hex()[..16]);
        Self { commit: format!("{name}_commit"), free: format!("{name}_free"), name }
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
