//! The credentials that a connection has shown, so that not every call looks its credential up.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{account::Account, generations::Generation};
use crate::domain::secret::SecretHash;

/// How many credentials of a connection are remembered. Most connections have one; a proxy may have many.
const KNOWN_MAX: usize = 1_024;

/// For how long. Then the next call looks the credential up again: it may have become a lead's.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// The valid credentials that a connection has shown.
#[derive(Debug, Default)]
pub struct ShownCredentials(Mutex<HashMap<SecretHash, Shown>>);

#[derive(Debug)]
struct Shown {
    account: Arc<Account>,
    generation: Generation,
    until: Instant,
}

impl ShownCredentials {
    /// Returns the account of a credential that was valid a short time ago, unless a newer generation has presented its
    /// own since.
    pub fn get(&self, credential: &SecretHash) -> Option<Arc<Account>> {
        let known = self.0.lock();
        let shown = known.get(credential)?;
        (Instant::now() < shown.until && shown.account.is_newest(shown.generation)).then(|| Arc::clone(&shown.account))
    }

    /// Returns whether the credential was valid when the connection showed it, and no newer generation has presented
    /// its own since.
    pub fn has(&self, credential: &SecretHash) -> bool {
        self.0.lock().get(credential).is_some_and(|shown| shown.account.is_newest(shown.generation))
    }

    /// Forgets a credential that is no longer valid.
    pub fn forget(&self, credential: &SecretHash) {
        self.0.lock().remove(credential);
    }

    /// Remembers a valid credential. If there are too many, forgets the others.
    pub fn put(&self, credential: SecretHash, account: Arc<Account>, generation: Generation) {
        let mut known = self.0.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(credential, Shown { account, generation, until: Instant::now() + KNOWN_FOR });
    }
}
