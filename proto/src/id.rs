//! Ids that the coordinator creates, checked when a client returns them.

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

/// Checks a message's id: a UUID in its usual form.
pub fn message_id(text: &str, field: &str) -> Result<Uuid, Refusal> {
    Uuid::try_parse(text).map_err(|_| {
        Refusal::new(
            Reason::InvalidMessageId,
            format!("{field} is not a message's id. Give the UUID that the message came with."),
        )
        .field(field)
    })
}

/// Returns when an id that sorts by time was made, in milliseconds since 1970. None: it does not say.
pub fn made_ms(id: Uuid) -> Option<u64> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    Some(seconds * 1_000 + u64::from(nanos) / 1_000_000)
}

/// Checks the form of a request's id.
pub fn request_id(text: &str, field: &str) -> Result<(), Refusal> {
    let hint = "Copy the request_id out of the request, or list the open ones with `teamwire requests`.";
    if text.is_empty() {
        return Err(Refusal::new(Reason::InvalidRequestId, format!("request_id is required. {hint}")).field(field));
    }
    let well_formed = text
        .strip_prefix(REQUEST_ID_PREFIX)
        .is_some_and(|rest| rest.len() == REQUEST_ID_CHARS && rest.bytes().all(|b| REQUEST_ID_ALPHABET.contains(&b)));
    if !well_formed {
        return Err(Refusal::new(Reason::InvalidRequestId, format!("request_id is malformed. {hint}")).field(field));
    }
    Ok(())
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
