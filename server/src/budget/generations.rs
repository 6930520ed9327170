//! The credentials of a member, one after the other, which share an account, and their connections.
//!
//! A member that joins again begins a generation with another credential. Each of these generations may have as many
//! connections as any credential, so a former one doesn't keep its successor out. But only two generations have
//! connections: as soon as a third one makes a call, those of the first one are closed. So a member can't multiply its
//! connections by joining again and again.

use std::{collections::HashMap, mem};

use super::open_connection::OpenConnection;
use crate::domain::secret::SecretHash;

/// Which of the credentials that share an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    /// The member's credential with this hash.
    With(SecretHash),
    /// The account has only one.
    #[default]
    None,
}

/// The newest generation, and the one before it.
#[derive(Debug, Default)]
pub(super) struct CredentialGenerations {
    newest: Connections,
    former: Connections,
    added: u64,
}

#[derive(Debug, Default)]
struct Connections {
    generation: Generation,
    open: HashMap<u64, OpenConnection>,
}

impl Connections {
    /// Closes the connection that has been idle for longest. `None` if none is idle.
    fn close_longest_idle(&mut self) -> Option<()> {
        let idle = self.open.iter().filter_map(|(number, connection)| Some((connection.calls.idle_since()?, *number)));
        let (_, number) = idle.min()?;
        self.open.remove(&number)?.evict.cancel();
        Some(())
    }
}

impl CredentialGenerations {
    /// Notes that a generation has just presented its valid credential. If it is new, closes the connections of all
    /// generations but the one before it, and returns how many these are.
    ///
    /// A member has only one valid credential. So a generation that presents one is never older than the one that did
    /// before, unless they did so at the same moment.
    pub(super) fn note(&mut self, generation: Generation) -> usize {
        if self.newest.generation == generation {
            return 0;
        }
        mem::swap(&mut self.newest, &mut self.former);
        if self.newest.generation == generation {
            return 0;
        }
        let over = mem::replace(&mut self.newest, Connections { generation, ..Connections::default() }).open;
        over.values().for_each(|connection| connection.evict.cancel());
        over.len()
    }

    /// Adds a connection of the newest generation. If that has too many, closes the one that has been idle for longest.
    /// Returns the new one's number. `None` if none is idle.
    pub(super) fn add(&mut self, connection: OpenConnection, max: usize) -> Option<u64> {
        if self.newest.open.len() >= max {
            self.newest.close_longest_idle()?;
        }
        self.added += 1;
        self.newest.open.insert(self.added, connection);
        Some(self.added)
    }

    /// Moves a connection to a generation that has just presented its credential over it. Returns how many others this
    /// closes, as [`note`](Self::note) does. `None` if the generation has too many.
    pub(super) fn renew(
        &mut self,
        (from, number): (Generation, u64),
        to: Generation,
        connection: OpenConnection,
        max: usize,
    ) -> Option<usize> {
        if self.is_newest(to) && self.newest.open.len() >= max {
            self.newest.close_longest_idle()?;
        }
        // First, so that it isn't closed itself.
        self.remove(from, number);
        let over = self.note(to);
        self.newest.open.insert(number, connection);
        Some(over)
    }

    /// Removes a connection that was added, unless it had to be closed.
    pub(super) fn remove(&mut self, generation: Generation, number: u64) {
        for connections in [&mut self.newest, &mut self.former] {
            if connections.generation == generation {
                connections.open.remove(&number);
            }
        }
    }

    /// Returns whether no newer generation has presented its credential.
    pub(super) fn is_newest(&self, generation: Generation) -> bool {
        self.newest.generation == generation
    }
}
