//! Turns: on one coordinator, the calls that change one team's board run one after the other, including those that end
//! lives, which release claims. Any two such changes conflict, so without turns the calls of many members that claim at
//! once would mostly make each other's commits fail. With turns, only calls on different coordinators conflict.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::store::Namespace;

/// Beyond this many teams, those without waiting calls are dropped.
const TEAMS_KEPT: usize = 1_024;

/// The turns of every team.
#[derive(Default)]
pub(super) struct Turns {
    teams: Mutex<HashMap<Namespace, Weak<tokio::sync::Mutex<Seen>>>>,
}

/// What the call with the last turn has found out.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// No task was ready for every member when the count of changes was this.
    pub(super) nothing_at: Option<u64>,
}

/// A turn. It ends when it is dropped.
pub(super) type Turn = OwnedMutexGuard<Seen>;

impl Turns {
    /// Waits for a turn, in order of arrival.
    pub(super) async fn take(&self, namespace: &Namespace) -> Turn {
        self.team(namespace).lock_owned().await
    }

    /// Takes a turn if no call has it or waits for it.
    pub(super) fn try_take(&self, namespace: &Namespace) -> Option<Turn> {
        self.team(namespace).try_lock_owned().ok()
    }

    fn team(&self, namespace: &Namespace) -> Arc<tokio::sync::Mutex<Seen>> {
        let mut teams = self.teams.lock();
        if teams.len() > TEAMS_KEPT {
            teams.retain(|_, team| team.strong_count() > 0);
        }
        if let Some(team) = teams.get(namespace).and_then(Weak::upgrade) {
            return team;
        }
        let team = Arc::default();
        teams.insert(namespace.clone(), Arc::downgrade(&team));
        team
    }
}
