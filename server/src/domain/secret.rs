//! Secrets: how they are derived, and the only form in which they are kept.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

/// The hash of a secret. Compared in constant time.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Hashes a secret. Secrets are random and at least 128 bits long, so a plain fast hash is enough.
    pub fn of(secret: &str) -> Self {
        Self(*blake3::hash(secret.as_bytes()).as_bytes())
    }
}

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretHash {}

impl Hash for SecretHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

impl From<SecretHash> for String {
    fn from(hash: SecretHash) -> Self {
        hex::encode(hash.0)
    }
}

impl TryFrom<String> for SecretHash {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut hash = [0; 32];
        hex::decode_to_slice(text, &mut hash)?;
        Ok(Self(hash))
    }
}

/// Derives the secret of a new credential from the secret that the caller presented and its idempotency key, so that a
/// repeated call gets the same credential although the coordinator keeps only its hash. 160 bits.
pub fn derive(presented: &str, idempotency_key: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("teamwire 2026-11 credential from credential and idempotency key");
    hasher.update(&(presented.len() as u64).to_le_bytes());
    hasher.update(presented.as_bytes());
    hasher.update(idempotency_key.as_bytes());
    hex::encode(&hasher.finalize().as_bytes()[..20])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_differs_with_either_part() {
        let secret = derive("ab", "c");
        assert_eq!(secret.len(), 40);
        assert_eq!(secret, derive("ab", "c"));
        assert_ne!(secret, derive("a", "bc"));
        assert_ne!(secret, derive("ab", "d"));
    }
}
