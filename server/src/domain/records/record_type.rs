//! What a kind of record is: its name in the store, and its encoding there.

use bytes::Bytes;
use prost::Message as _;
use serde::{Serialize, de::DeserializeOwned};
use teamwire_proto::v1;

/// A kind of record. Implemented beside the struct that it stores.
pub trait RecordType: Sized + Send + Sync + 'static {
    /// The kind's name in the store.
    const KIND: &'static str;

    /// Returns the record as it is stored.
    fn encode(&self) -> Bytes;

    /// Reads a stored record.
    fn decode(data: &[u8]) -> Result<Self, String>;
}

/// Stores a struct as JSON, under the name of its kind.
macro_rules! stored_as_json {
    ($record:ty, $kind:literal) => {
        impl $crate::domain::records::record_type::RecordType for $record {
            const KIND: &'static str = $kind;

            fn encode(&self) -> bytes::Bytes {
                $crate::domain::records::record_type::to_json(self)
            }

            fn decode(data: &[u8]) -> Result<Self, String> {
                $crate::domain::records::record_type::from_json(data)
            }
        }
    };
}
pub(in crate::domain) use stored_as_json;

macro_rules! stored_as_protobuf {
    ($record:ty, $kind:literal) => {
        impl RecordType for $record {
            const KIND: &'static str = $kind;

            fn encode(&self) -> Bytes {
                self.encode_to_vec().into()
            }

            fn decode(data: &[u8]) -> Result<Self, String> {
                prost::Message::decode(data).map_err(|error| error.to_string())
            }
        }
    };
}

stored_as_protobuf!(v1::Message, "message");
stored_as_protobuf!(v1::Request, "request");
stored_as_protobuf!(v1::RunnerQuery, "runner-question");
stored_as_protobuf!(v1::AnswerQueryRequest, "runner-answer");

pub(in crate::domain) fn to_json<T: Serialize>(value: &T) -> Bytes {
    serde_json::to_vec(value).expect("records have string keys and no failing serializers").into()
}

pub(in crate::domain) fn from_json<T: DeserializeOwned>(data: &[u8]) -> Result<T, String> {
    serde_json::from_slice(data).map_err(|error| error.to_string())
}
