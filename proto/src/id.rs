//! Ids that the coordinator creates, checked when a client returns them.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Reason, Refusal};

/// How every request's id begins.
pub const REQUEST_ID_PREFIX: &str = "req_";

/// The characters of a request's id after its prefix: 26 of 32 possible ones, that is 130 bits.
pub const REQUEST_ID_CHARS: usize = 26;

/// The alphabet of request ids: no letter that can be taken for a digit.
pub const REQUEST_ID_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The most characters that an idempotency key may have.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 64;

/// A message's id: a UUID, which sorts by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(Uuid);

impl MessageId {
    /// Reads an id that a caller gave in this field of a request.
    pub fn parse(text: &str, field: &str) -> Result<Self, Refusal> {
        Self::known(text).ok_or_else(|| {
            Refusal::new(
                Reason::InvalidMessageId,
                format!("{field} is not a message's id. Give the UUID that the message came with."),
            )
            .field(field)
        })
    }

    /// Reads an id that the coordinator wrote. `None` if it is malformed.
    pub fn known(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }
}

impl From<Uuid> for MessageId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl From<MessageId> for Uuid {
    fn from(id: MessageId) -> Self {
        id.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A request's id: [`REQUEST_ID_PREFIX`], then [`REQUEST_ID_CHARS`] characters of [`REQUEST_ID_ALPHABET`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestId(String);

impl RequestId {
    /// Makes an id from random bytes.
    pub fn from_random(random: [u8; REQUEST_ID_CHARS]) -> Self {
        let chars = random.iter().map(|byte| char::from(REQUEST_ID_ALPHABET[usize::from(byte % 32)]));
        Self(REQUEST_ID_PREFIX.chars().chain(chars).collect())
    }

    /// Reads an id that a caller gave in this field of a request.
    pub fn parse(text: &str, field: &str) -> Result<Self, Refusal> {
        let hint = "Copy the request_id out of the request, or list the open ones with `teamwire requests`.";
        if text.is_empty() {
            return Err(Refusal::new(Reason::InvalidRequestId, format!("request_id is required. {hint}")).field(field));
        }
        Self::known(text).ok_or_else(|| {
            Refusal::new(Reason::InvalidRequestId, format!("request_id is malformed. {hint}")).field(field)
        })
    }

    /// Reads an id that the coordinator wrote. `None` if it is malformed.
    pub fn known(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(REQUEST_ID_PREFIX)?;
        let is_well_formed = rest.len() == REQUEST_ID_CHARS && rest.bytes().all(|b| REQUEST_ID_ALPHABET.contains(&b));
        is_well_formed.then(|| Self(text.to_owned()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RequestId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::known(&text).ok_or_else(|| format!("`{text}` is not a request's id"))
    }
}

impl From<RequestId> for String {
    fn from(id: RequestId) -> Self {
        id.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns when an id that sorts by time was made, in milliseconds since 1970. `None` if it does not say.
pub fn made_ms(id: Uuid) -> Option<u64> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    Some(seconds * 1_000 + u64::from(nanos) / 1_000_000)
}

/// Checks an idempotency key; empty means that there is none.
pub fn idempotency_key(text: &str) -> Result<Option<&str>, Refusal> {
    if text.len() > IDEMPOTENCY_KEY_CHARS_MAX || !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Refusal::new(
            Reason::InvalidIdempotencyKey,
            format!("idempotency_key must be up to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters; a UUID fits."),
        )
        .field("idempotency_key"));
    }
    Ok((!text.is_empty()).then_some(text))
}
