//! What members change in git repositories: keeps it, compares it, carries it to other machines, and merges it.
//!
//! | module | what it does | depends on |
//! |---|---|---|
//! | `merge_member` | merges a member's work, wherever it is | `member`, [`merge`] |
//! | `member` | reads a member's work, wherever it is | `report`, [`bundle`] |
//! | `answer` | answers those who read a member's work | `report`, [`bundle`] |
//! | `report` | writes work in the form of the protocol | [`survey`], [`salvage`] |
//! | [`merge`] | merges a member's work into a branch | `check`, `survey`, `lock` |
//! | `check` | runs a command on a commit, in a working tree that is thrown away | `place` |
//! | [`bundle`] | carries commits to the repository of another machine | [`survey`] |
//! | `survey` | says what a member has changed, and whether it can be merged | `commits`, `state` |
//! | [`diff`] | writes what a member has changed into files | `place` |
//! | `restore` | brings a kept working state back | [`salvage`] |
//! | `salvage` | keeps working states as commits | `exact`, `lost`, `state` |
//! | `lost` | finds commits that only logs hold | `place` |
//! | `exact` | keeps the exact bytes of files that git converts | `state` |
//! | `state` | turns the working state into a tree | `trees` |
//! | `commits` | makes commits, and changes refs | `place` |
//! | `trees` | compares trees | `place` |
//! | `place` | finds a working tree and its repository | `git` |
//! | `names` | names of members as parts of refs | |
//! | `lock` | locks a repository | |
//! | `git` | runs git | |

mod answer;
pub mod bundle;
mod check;
mod commits;
pub mod diff;
mod exact;
mod git;
mod lock;
mod lost;
mod member;
pub mod merge;
mod merge_member;
mod names;
mod place;
mod report;
mod restore;
pub mod salvage;
mod state;
pub mod survey;
mod trees;

pub(crate) use self::{
    answer::Answers,
    git::{Git, Registration},
    lock::lock,
    report::bounded,
    state::Picture,
};
pub use self::{
    check::OUTPUT_TAIL_BYTES,
    member::{Left, MemberWork, What, WorkError},
    merge_member::{MergeOptions, MergeReport, Step},
    names::as_branch,
    place::Place,
    report::{salvage_of, to_review, work_of},
    restore::restore,
};

#[cfg(test)]
mod tests;
