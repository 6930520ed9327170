//! What members change in git repositories.
//!
//! | module | what it does |
//! |---|---|
//! | `git` | runs git |

mod git;

pub(crate) use self::git::{Git, Registration};
