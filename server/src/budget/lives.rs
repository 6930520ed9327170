//! The lives that share an account, and their connections.
//!
//! A member that joins again begins a life with another credential. Each life may have as many connections as any credential,
//! so a former life doesn't keep its successor out. But only two lives have connections: as soon as a third one
//! makes a call, those of the first one are closed. So a member can't multiply its connections by joining again and again.

use std::{collections::HashMap, mem};

use tokio_util::sync::CancellationToken;

use crate::domain::secret::SecretHash;

/// Which of the lives that share an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// The member's life with this credential.
    With(SecretHash),
    /// The account has no lives.
    #[default]
    None,
}

/// The newest life, and the one before it.
#[derive(Debug, Default)]
pub(super) struct Lives {
    newest: Connections,
    former: Connections,
    added: u64,
}

#[derive(Debug, Default)]
struct Connections {
    life: Life,
    /// What closes each of them.
    open: HashMap<u64, CancellationToken>,
}

impl Lives {
    /// Notes that a life has just presented its valid credential. If it is new, closes the connections of all lives but the one
    /// before it, and returns how many these are.
    ///
    /// A member has only one valid credential. So a life that presents one is never older than the one that did before,
    /// unless they did so at the same moment.
    pub(super) fn note(&mut self, life: Life) -> usize {
        if self.newest.life == life {
            return 0;
        }
        mem::swap(&mut self.newest, &mut self.former);
        if self.newest.life == life {
            return 0;
        }
        let over = mem::replace(&mut self.newest, Connections { life, ..Connections::default() }).open;
        over.values().for_each(CancellationToken::cancel);
        over.len()
    }

    /// Adds a connection of the newest life. Returns its number. `None`: the life has too many.
    pub(super) fn add(&mut self, evict: CancellationToken, max: usize) -> Option<u64> {
        if self.newest.open.len() >= max {
            return None;
        }
        self.added += 1;
        self.newest.open.insert(self.added, evict);
        Some(self.added)
    }

    /// Moves a connection to a life that has just presented its credential over it. Returns how many others this closes, as
    /// [`note`](Self::note) does. `None`: the life has too many.
    pub(super) fn renew(
        &mut self,
        (from, number): (Life, u64),
        to: Life,
        evict: CancellationToken,
        max: usize,
    ) -> Option<usize> {
        if self.is_newest(to) && self.newest.open.len() >= max {
            return None;
        }
        // First, so that it isn't closed itself.
        self.remove(from, number);
        let over = self.note(to);
        self.newest.open.insert(number, evict);
        Some(over)
    }

    /// Removes a connection that was added, unless it had to be closed.
    pub(super) fn remove(&mut self, life: Life, number: u64) {
        for connections in [&mut self.newest, &mut self.former] {
            if connections.life == life {
                connections.open.remove(&number);
            }
        }
    }

    /// Returns whether no newer life has presented its credential.
    pub(super) fn is_newest(&self, life: Life) -> bool {
        self.newest.life == life
    }
}
