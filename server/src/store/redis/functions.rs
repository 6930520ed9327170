//! The Redis function library that executes transactions.

use redis::{Arg, Cmd};

/// The library's source.
const BODY: &str = concat!(include_str!("commit.lua"), include_str!("snapshot.lua"));

/// Makes the library's source a script: collects the functions instead of registering them, for the line after it to
/// call one.
const AS_SCRIPT: &str = "local functions = {}
local redis = setmetatable({register_function = function(name, callback)
  if type(name) == 'table' then name, callback = name.function_name, name.callback end
  functions[name] = callback
end}, {__index = redis})";

/// A function of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// Executes a transaction.
    Commit,
    /// Executes a transaction even while memory is full.
    CommitWhenFull,
    /// Executes several transactions.
    CommitAll,
    /// Executes several transactions even while memory is full.
    CommitAllWhenFull,
    /// Creates the store's marker.
    MarkStore,
    /// Counts what a namespace of an earlier version holds.
    CountUsage,
    /// Counts a loss.
    CountLoss,
    /// Adds a mark to the replication log.
    Mark,
    /// Copies a namespace.
    Snapshot,
}

impl Function {
    /// Returns whether the function runs while memory is full.
    pub(super) fn runs_when_full(self) -> bool {
        matches!(self, Self::CommitWhenFull | Self::CommitAllWhenFull | Self::CountUsage | Self::MarkStore | Self::Mark)
    }
}

/// The library. Its name contains a hash of its source, so that coordinators of different versions can share a server
/// without replacing each other's library.
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
            Function::CommitAll => "commit_all",
            Function::CommitAllWhenFull => "commit_all_when_full",
            Function::CountUsage => "count_usage",
            Function::MarkStore => "mark_store",
            Function::CountLoss => "count_loss",
            Function::Mark => "mark",
            Function::Snapshot => "snapshot",
        };
        format!("{}_{suffix}", self.name)
    }

    /// Returns whether a server's error text names one of the functions, or the script that
    /// [`FunctionLibrary::as_script`] sends.
    pub(super) fn is_named_in(&self, text: &str) -> bool {
        text.contains(&self.name) || text.contains("user_script")
    }

    /// Rewrites a call to a function that runs when memory is full, for a server that lacks the library. A full server
    /// loads no library, but runs scripts with the flag `allow-oom`.
    pub(super) fn as_script(&self, call: &Cmd, function: Function) -> Cmd {
        let (library, name) = (&self.name, self.name_of(function));
        let mut script = redis::cmd("EVAL");
        script.arg(format!(
            "#!lua flags=allow-oom\nlocal NAME = '{library}'\n{AS_SCRIPT}\n{BODY}\nreturn functions['{name}'](KEYS, ARGV)"
        ));
        // FCALL and the function's name come first.
        for argument in call.args_iter().skip(2) {
            if let Arg::Simple(argument) = argument {
                script.arg(argument);
            }
        }
        script
    }

    /// Returns the command that loads the library into a server.
    pub(super) fn load(&self) -> Cmd {
        let name = &self.name;
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg("REPLACE").arg(format!("#!lua name={name}\nlocal NAME = '{name}'\n{BODY}"));
        load
    }
}
