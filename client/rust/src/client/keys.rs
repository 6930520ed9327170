//! The idempotency keys of requests that have none.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ring::digest::{Context, SHA256};
use uuid::{Builder, Uuid};

use super::Client;

/// Derives the keys of one piece of work from the key that its caller has given.
pub(crate) struct DerivedKeys {
    given: String,
    /// How many were derived.
    count: AtomicU64,
}

impl Client {
    /// Returns a client for one piece of work that may be repeated: each request without an idempotency key gets one that
    /// is derived from `key`, this client's credential and how many requests came before it.
    ///
    /// If the work is repeated with the same key and makes the same requests in the same order, the coordinator carries
    /// out each of them once.
    pub fn with_idempotency_key(&self, key: &str) -> Self {
        let keys = DerivedKeys { given: key.to_owned(), count: AtomicU64::new(0) };
        Self { keys: Some(Arc::new(keys)), ..self.clone() }
    }

    /// Fills in the idempotency key of a request that has none. Returns the request's key.
    pub(crate) fn key(&self, key: &mut String) -> String {
        if key.is_empty() {
            // Version 7 sorts by time, which costs a coordinator the least to store.
            *key = self.derived_key().unwrap_or_else(Uuid::now_v7).to_string();
        }
        key.clone()
    }

    /// Does the same with a key that cannot be guessed: repeating the call with it returns a credential again.
    pub(crate) fn unguessable_key(&self, key: &mut String) -> String {
        if key.is_empty() {
            *key = self.derived_key().unwrap_or_else(Uuid::new_v4).to_string();
        }
        key.clone()
    }

    /// Returns the next key, which cannot be guessed without the credential. `None` if keys are not derived.
    fn derived_key(&self) -> Option<Uuid> {
        let keys = self.keys.as_ref()?;
        let count = keys.count.fetch_add(1, Ordering::Relaxed);
        let mut digest = Context::new(&SHA256);
        // Neither of them contains a zero byte, so no two inputs are alike.
        for part in [self.credential().as_bytes(), keys.given.as_bytes(), &count.to_be_bytes()] {
            digest.update(part);
            digest.update(&[0]);
        }
        let bytes: [u8; 16] = digest.finish().as_ref().first_chunk().copied()?;
        Some(Builder::from_random_bytes(bytes).into_uuid())
    }
}

impl fmt::Debug for DerivedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DerivedKeys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_keys_repeat_with_the_work_and_differ_otherwise() {
        let client =
            Client::connect("http://127.0.0.1:1").unwrap().with_credential("twm:a:b:0123456789abcdef").unwrap();
        let other = client.with_credential("twm:a:c:0123456789abcdef").unwrap();
        let keys = |client: &Client, key| {
            let client = client.with_idempotency_key(key);
            [client.key(&mut String::new()), client.unguessable_key(&mut String::new())]
        };
        let first = keys(&client, "k");
        assert_eq!(first, keys(&client, "k"));
        assert_ne!(first[0], first[1]);
        for others in [keys(&client, "k2"), keys(&other, "k")] {
            assert!(first.iter().all(|key| !others.contains(key)), "{others:?}");
        }
        assert_eq!(client.with_idempotency_key("k").key(&mut "given".to_owned()), "given");
        assert_ne!(client.key(&mut String::new()), client.key(&mut String::new()));
    }
}
