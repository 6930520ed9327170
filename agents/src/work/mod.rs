//! What members change in git repositories: keeps it, compares it, carries it to other machines, and merges it.
//!
//! | module | what it does | depends on |
//! |---|---|---|
//! | `report` | writes work in the form of the protocol | `place` |
//! | `restore` | brings a kept working state back | `salvage` |
//! | `salvage` | keeps working states as commits | `exact`, `lost`, `state` |
//! | `lost` | finds commits that only logs hold | `place` |
//! | `exact` | keeps the exact bytes of files that git converts | `state` |
//! | `state` | turns the working state into a tree | `trees` |
//! | `trees` | compares trees | `place` |
//! | `place` | finds a working tree and its repository | `git` |
//! | `names` | names of members as parts of refs | |
//! | `lock` | locks a repository | |
//! | `git` | runs git | |

mod exact;
mod git;
mod lock;
mod lost;
mod names;
mod place;
mod report;
mod restore;
mod salvage;
mod state;
mod trees;

pub(crate) use self::{
    git::{Git, Registration},
    lock::lock,
};
pub use self::{
    names::as_branch,
    place::Place,
    report::here,
    restore::restore,
    salvage::{FILE_BYTES_MAX, KEPT_FOR, KEPT_MAX, KEPT_MIN, LEFT_OUT_MAX, Salvage, list, prune, purge, salvage},
};

#[cfg(test)]
mod tests;
