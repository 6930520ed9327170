//! Idempotency: a repeated call gets the reply of the first one.
//!
//! The store keeps each reply under the call's key for 24 to 48 h, with a fingerprint of the call's payload, so that a
//! key that is used again with another payload is noticed.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use teamwire_proto::{
    Reason, Refusal,
    id::{self, MessageId},
    v1,
};
use uuid::Uuid;

use super::{
    actor::Actor,
    tx::{RuleError, Tx},
};

/// How old an idempotency key may be to determine a message's id; see [`derived_message_id`].
const DERIVED_WITHIN_MS: u64 = 60 * 60 * 1_000;

/// Distinguishes the payloads of calls.
pub(super) type Fingerprint = [u8; 16];

/// A call with the idempotency key that its caller gave, if any.
pub(super) struct KeyedCall {
    key: Option<String>,
    fingerprint: Fingerprint,
}

impl KeyedCall {
    /// Checks the key of a call. `scope`: the method and the caller, within which keys are unique.
    pub(super) fn new(scope: &str, key: &str, fingerprint: Fingerprint) -> Result<Self, Refusal> {
        let key = id::idempotency_key(key)?.map(|key| format!("{scope}/{key}"));
        Ok(Self { key, fingerprint })
    }

    /// Returns the reply of an earlier call with this key. Refuses a key that was used with another payload.
    pub(super) fn recorded_reply<T: prost::Message + Default>(&self, tx: &mut Tx<'_>) -> Result<Option<T>, RuleError> {
        let Some(key) = &self.key else { return Ok(None) };
        let Some(data) = tx.recorded_reply(key) else { return Ok(None) };
        let Some((before, reply)) = data.split_at_checked(self.fingerprint.len()) else {
            return Err(RuleError::Corrupt(format!("the reply recorded under {key} is cut short")));
        };
        if before != self.fingerprint {
            return Err(Refusal::new(
                Reason::IdempotencyKeyReused,
                "The idempotency key was used with another payload. Use a new key for a new call.",
            )
            .field("idempotency_key")
            .into());
        }
        T::decode(reply)
            .map(Some)
            .map_err(|error| RuleError::Corrupt(format!("the reply recorded under {key}: {error}")))
    }

    /// Records the reply for later calls with this key.
    pub(super) fn record_reply(&self, tx: &mut Tx<'_>, reply: &impl prost::Message) {
        if let Some(key) = &self.key {
            let data: Bytes = [self.fingerprint.as_slice(), &reply.encode_to_vec()].concat().into();
            tx.record_reply(key, data);
        }
    }
}

/// Returns the fingerprint of a payload. `attributes`: the member attributes in it. Their labels are a map, whose order
/// in an encoding is not defined, so the payload must come [without](without_labels) them; they are sorted here.
pub(super) fn fingerprint(payload: &impl prost::Message, attributes: Option<&v1::MemberAttributes>) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&payload.encode_length_delimited_to_vec());
    let labels = attributes.map(|attributes| attributes.labels.iter().collect::<BTreeMap<_, _>>());
    for (key, value) in labels.unwrap_or_default() {
        for text in [key, value] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
    }
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    short
}

/// Returns attributes without their labels.
pub(super) fn without_labels(attributes: Option<&v1::MemberAttributes>) -> Option<v1::MemberAttributes> {
    attributes.map(|attributes| v1::MemberAttributes { labels: HashMap::new(), ..attributes.clone() })
}

/// Returns the id of a message that is sent under a UUIDv7 key: the same whenever the same send is repeated. A store
/// that fails over may lose a send that a recipient has already seen; when the send is repeated, the recipient
/// recognizes the message by its id. `None` for any other key, and for one made more than an hour ago: the store may
/// have dropped an older key, and then it stands for another message.
pub(super) fn derived_message_id(
    team: Uuid,
    sender: &Actor,
    key: &str,
    fingerprint: &Fingerprint,
    now_ms: u64,
) -> Option<MessageId> {
    let key = Uuid::try_parse(key).ok().filter(|key| key.get_version_num() == 7)?;
    let made_ms = id::made_ms(key)?;
    if made_ms.abs_diff(now_ms) > DERIVED_WITHIN_MS {
        return None;
    }
    let mut hasher = blake3::Hasher::new_derive_key("teamwire 2026-11 message id from team, sender, key and payload");
    hasher.update(team.as_bytes()).update(key.as_bytes()).update(fingerprint);
    hasher.update(v1::Sender::from(sender).name.to_lowercase().as_bytes());
    let mut random = [0; 10];
    random.copy_from_slice(&hasher.finalize().as_bytes()[..10]);
    Some(uuid::Builder::from_unix_timestamp_millis(made_ms, &random).into_uuid().into())
}

#[cfg(test)]
mod tests {
    use teamwire_proto::name::Name;

    use super::*;

    #[test]
    fn a_repeated_send_has_the_same_id_whatever_the_store_has_forgotten() {
        let now_ms = 1_700_000_000_000;
        let key = |ms: u64| uuid::Builder::from_unix_timestamp_millis(ms, &[7; 10]).into_uuid().to_string();
        let send = |key: String, content: &str| {
            let body = v1::DirectMessage { content: content.to_owned(), ..v1::DirectMessage::default() };
            (key, fingerprint(&body, None))
        };
        let derived_id = |team, sender: &Actor, (key, fingerprint): &(String, Fingerprint), now_ms| {
            derived_message_id(team, sender, key, fingerprint, now_ms)
        };
        let (team, ann) = (Uuid::from_u128(1), Actor::Member(Name::parse("Ann", "name").unwrap()));
        let sent = send(key(now_ms), "x");
        let id = derived_id(team, &ann, &sent, now_ms + 5).unwrap();
        assert_eq!(Uuid::from(id).get_version_num(), 7);
        assert_eq!(derived_id(team, &ann, &sent, now_ms + 60_000), Some(id));
        let others = [
            derived_id(Uuid::from_u128(2), &ann, &sent, now_ms),
            derived_id(team, &Actor::Operator, &sent, now_ms),
            derived_id(team, &ann, &send(key(now_ms), "y"), now_ms),
            derived_id(team, &ann, &send(key(now_ms + 1), "x"), now_ms),
        ];
        assert!(others.iter().all(|other| other.is_some() && *other != Some(id)), "{others:?}");
        for key in [key(now_ms - 3_600_001), key(now_ms + 3_600_001), Uuid::from_u128(4).to_string(), "k".to_owned()] {
            assert_eq!(derived_id(team, &ann, &send(key, "x"), now_ms), None);
        }
    }
}
