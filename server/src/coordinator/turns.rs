//! Turns: what changes the board of one team is done one after the other on one coordinator, ends of lives included, which
//! give claims back. Each change would conflict with every other, and a crowd of members that claim at once would mostly
//! run into each other; so only coordinators do.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::store::Namespace;

/// Beyond this many teams, those that nobody waits for are cleared away.
const TEAMS_KEPT: usize = 1_024;

/// Who is to have a turn, by team.
#[derive(Default)]
pub(super) struct Turns {
    teams: Mutex<HashMap<Namespace, Weak<tokio::sync::Mutex<Seen>>>>,
}

/// What whoever had the last turn has found out.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// There was no task for everybody when the count of changes stood here.
    pub(super) nothing_at: Option<u64>,
}

/// A turn. It ends when this is dropped.
pub(super) type Turn = OwnedMutexGuard<Seen>;

impl Turns {
    /// Waits for a turn; whoever came first is first.
    pub(super) async fn take(&self, namespace: &Namespace) -> Turn {
        let team = {
            let mut teams = self.teams.lock();
            if teams.len() > TEAMS_KEPT {
                teams.retain(|_, team| team.strong_count() > 0);
            }
            match teams.get(namespace).and_then(Weak::upgrade) {
                Some(team) => team,
                None => {
                    let team = Arc::default();
                    teams.insert(namespace.clone(), Arc::downgrade(&team));
                    team
                }
            }
        };
        team.lock_owned().await
    }
}
