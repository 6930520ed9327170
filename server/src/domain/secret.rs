//! Secrets: how they are derived, and the only form in which they are kept.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
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

impl SecretHash {
    /// Returns what distinguishes it from other hashes. Neither the secret nor the hash follows from it.
    pub fn fingerprint(&self) -> String {
        let fingerprint = blake3::derive_key("teamwire 2026-11 fingerprint of a secret's hash", &self.0);
        hex::encode(&fingerprint[..8])
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

/// The hashes of the operator's secrets: the present one and, each until some time, those that it has replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorSecrets(Arc<[(SecretHash, u64)]>);

impl OperatorSecrets {
    /// Takes secrets that have no end, and former ones, each with its end in milliseconds since 1970.
    pub fn new(
        present: impl IntoIterator<Item = SecretHash>,
        former: impl IntoIterator<Item = (SecretHash, u64)>,
    ) -> Self {
        Self(present.into_iter().map(|hash| (hash, u64::MAX)).chain(former).collect())
    }

    /// Returns a text that tells the secrets that have no end from any others, and does not reveal them.
    pub fn fingerprint(&self) -> String {
        let present = self.0.iter().filter(|(_, until_ms)| *until_ms == u64::MAX);
        let mut fingerprints: Vec<String> = present.map(|(hash, _)| hash.fingerprint()).collect();
        fingerprints.sort_unstable();
        fingerprints.join("+")
    }

    /// Returns whether a secret with this hash is valid. Takes equally long for each.
    pub fn accept(&self, hash: &SecretHash, now_ms: u64) -> bool {
        self.0.iter().fold(false, |found, (known, until_ms)| found | (known == hash && now_ms < *until_ms))
    }
}

impl From<SecretHash> for OperatorSecrets {
    fn from(hash: SecretHash) -> Self {
        Self::new([hash], [])
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

/// The length of a session's nonce and of its tag, in hexadecimal digits.
const SESSION_PART: usize = 16;

/// The id of a session: its epoch, a nonce, and a tag by which [`SessionId::is_of`] recognizes it later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(String);

impl SessionId {
    /// Makes the id of a new session. `random`: hexadecimal digits.
    pub fn new(life: &SecretHash, epoch: u64, random: &str) -> Self {
        let nonce = &random[..SESSION_PART];
        Self(format!("{epoch}-{nonce}{}", session_tag(life, epoch, nonce)))
    }

    /// Takes what a client presents. `None` if it is empty.
    pub fn presented(text: impl Into<String>) -> Option<Self> {
        Some(text.into()).filter(|text| !text.is_empty()).map(Self)
    }

    /// Returns whether a coordinator issued it to one of these lives. Old sessions are not stored, so the id itself must
    /// show it.
    pub fn is_of<'a>(&self, lives: impl IntoIterator<Item = &'a SecretHash>) -> bool {
        let Some((epoch, (nonce, tag))) = self.parts() else { return false };
        lives.into_iter().any(|life| session_tag(life, epoch, nonce) == tag)
    }

    /// Returns the epoch of its session, or 0 if it is malformed.
    pub fn epoch(&self) -> u64 {
        self.0.split_once('-').and_then(|(epoch, _)| epoch.parse().ok()).unwrap_or(0)
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns its epoch, its nonce and its tag.
    fn parts(&self) -> Option<(u64, (&str, &str))> {
        let (epoch, rest) = self.0.split_once('-')?;
        Some((epoch.parse().ok()?, rest.split_at_checked(SESSION_PART)?))
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

/// The token of a task's claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimToken(String);

impl ClaimToken {
    /// Takes a new secret, or what a client presents. `None` if it is empty.
    pub fn presented(text: impl Into<String>) -> Option<Self> {
        Some(text.into()).filter(|text| !text.is_empty()).map(Self)
    }
}

impl From<ClaimToken> for String {
    fn from(token: ClaimToken) -> Self {
        token.0
    }
}

fn session_tag(life: &SecretHash, epoch: u64, nonce: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("teamwire 2026-11 session tag from life, epoch and nonce");
    hasher.update(&life.0).update(&epoch.to_le_bytes()).update(nonce.as_bytes());
    hex::encode(&hasher.finalize().as_bytes()[..SESSION_PART / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_id_is_recognized_only_for_the_life_that_got_it() {
        let (life, other) = (SecretHash::of("life"), SecretHash::of("other"));
        let id = SessionId::new(&life, 12, &"0123456789abcdef".repeat(2));
        assert!(id.is_of([&other, &life]));
        assert!(!id.is_of([&other]));
        let id = id.as_str();
        for forged in
            [id.replacen("12", "13", 1), format!("{id}0"), "12".to_owned(), "12-".to_owned(), "x-é".to_owned()]
        {
            assert!(!SessionId(forged.clone()).is_of([&life]), "{forged}");
        }
    }

    #[test]
    fn a_former_secret_of_the_operator_is_valid_until_its_end() {
        let [present, former, other] = ["present", "former", "other"].map(SecretHash::of);
        let secrets = OperatorSecrets::new([present], [(former, 10)]);
        assert!(secrets.accept(&present, 9) && secrets.accept(&former, 9) && !secrets.accept(&other, 9));
        assert!(secrets.accept(&present, 10) && !secrets.accept(&former, 10));
        assert!(OperatorSecrets::from(present).accept(&present, u64::MAX - 1));
    }

    #[test]
    fn a_derived_secret_depends_on_both_parts() {
        let secret = derive("ab", "c");
        assert_eq!(secret.len(), 40);
        assert_eq!(secret, derive("ab", "c"));
        assert_ne!(secret, derive("a", "bc"));
        assert_ne!(secret, derive("ab", "d"));
    }
}
