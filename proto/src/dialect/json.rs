//! JSON in which every key counts.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Map, Number, Value};

use super::fields::shown;
use crate::{Reason, Refusal};

/// A JSON value, and the first key that one of its objects gives twice.
///
/// Most parsers silently keep the last of several equal keys, so that `"approve":false,"approve":true` approves.
#[derive(Clone, Debug, PartialEq)]
pub struct Json {
    /// The value. Of equal keys, the last one counts.
    pub value: Value,
    /// The path of the first repeated key, such as `message.approve` or `attachments[1].uri`. `None` if every key is
    /// unique.
    pub repeated: Option<String>,
}

impl Json {
    /// Parses one JSON value.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let mut walk = Walk { path: String::new(), repeated: None };
        let mut deserializer = Deserializer::from_str(text);
        let value = At(&mut walk).deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(Self { value, repeated: walk.repeated })
    }

    /// Returns the value, or refuses the repeated key with INVALID_JSON.
    pub fn into_unique(self) -> Result<Value, Refusal> {
        match self.repeated {
            None => Ok(self.value),
            Some(path) => Err(Self::refuse_repeated(&path)),
        }
    }

    /// Returns the refusal of a repeated key.
    pub fn refuse_repeated(path: &str) -> Refusal {
        let message = format!("\"{}\" is given more than once, so its value is ambiguous. Give it once.", shown(path));
        Refusal::new(Reason::InvalidJson, message).field(shown(path))
    }
}

/// How far the parser has got.
struct Walk {
    path: String,
    repeated: Option<String>,
}

/// Deserializes the value at the walk's path.
struct At<'a>(&'a mut Walk);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let Self(walk) = self;
        let (mut list, length) = (Vec::new(), walk.path.len());
        loop {
            walk.path.push_str(&format!("[{}]", list.len()));
            let item = items.next_element_seed(At(walk))?;
            walk.path.truncate(length);
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let Self(walk) = self;
        let (mut map, length) = (Map::new(), walk.path.len());
        while let Some(key) = entries.next_key::<String>()? {
            if length > 0 {
                walk.path.push('.');
            }
            walk.path.push_str(&key);
            let value = entries.next_value_seed(At(walk))?;
            if map.contains_key(&key) {
                walk.repeated.get_or_insert_with(|| walk.path.clone());
            }
            walk.path.truncate(length);
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_repeated_key_is_named_with_its_path() {
        for (text, path) in [
            (r#"{"approve":false,"approve":true}"#, "approve"),
            (r#"{"approve":true,"\u0061pprove":true}"#, "approve"),
            (r#"{"message":{"a":1,"a":null},"message":2}"#, "message.a"),
            (r#"{"attachments":[{},{"uri":"a","uri":"a"}]}"#, "attachments[1].uri"),
        ] {
            assert_eq!(Json::parse(text).expect(text).repeated.as_deref(), Some(path), "{text}");
        }
        let unique = r#"{"a":{"b":1},"b":[{"b":2},{"b":3}]}"#;
        assert_eq!(Json::parse(unique).expect(unique).repeated, None);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9_f64).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_value_with_unique_keys_is_read_as_serde_reads_it(value in values()) {
            let text = value.to_string();
            let read = Json::parse(&text).expect("JSON");
            prop_assert_eq!(&read.value, &serde_json::from_str::<Value>(&text).expect("JSON"));
            prop_assert_eq!(read.repeated, None);
        }

        #[test]
        fn the_parser_accepts_exactly_the_json_that_serde_accepts(text in r#"[\[\]{}",:a0-9e.\\ -]{0,30}"#) {
            prop_assert_eq!(Json::parse(&text).is_ok(), serde_json::from_str::<Value>(&text).is_ok());
        }
    }
}
