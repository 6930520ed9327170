//! Which members' credentials were revoked, for callers that wait or have a stream open.

use std::{num::NonZeroUsize, sync::Arc};

use lru::LruCache;
use parking_lot::Mutex;

use crate::{domain::secret::SecretHash, store::Namespace};

/// For how many teams what was read is kept.
const TEAMS_MAX: NonZeroUsize = NonZeroUsize::new(4_096).expect("not zero");

/// The revoked credentials of members, as last read. All waiting callers of a team share one read.
pub(super) struct RevokedMembers {
    teams: Mutex<LruCache<Namespace, Arc<tokio::sync::Mutex<Revoked>>>>,
}

/// The revoked credentials of a team's members.
#[derive(Default)]
pub(super) struct Revoked {
    /// When they were read, in milliseconds since 1970.
    pub(super) read_ms: u64,
    pub(super) credentials: Vec<SecretHash>,
}

impl RevokedMembers {
    pub(super) fn new() -> Self {
        Self { teams: Mutex::new(LruCache::new(TEAMS_MAX)) }
    }

    /// Returns what was last read of a team.
    pub(super) fn of(&self, namespace: &Namespace) -> Arc<tokio::sync::Mutex<Revoked>> {
        Arc::clone(self.teams.lock().get_or_insert(namespace.clone(), Arc::default))
    }
}
