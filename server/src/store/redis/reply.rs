//! Parses the replies of Redis.

use bytes::Bytes;
use redis::Value;

use crate::store::{Entry, Extent, Record, StoreError, usage::Usage};

/// Returns the error for contents that no coordinator wrote.
pub(super) fn unparsable() -> StoreError {
    StoreError::Corrupt("a key of the store holds contents that the coordinator never wrote".to_owned())
}

/// Parses an array.
pub(super) fn array(value: Value) -> Result<Vec<Value>, StoreError> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(unparsable()),
    }
}

/// Parses bytes.
pub(super) fn bytes_of(value: Value) -> Result<Vec<u8>, StoreError> {
    match value {
        Value::BulkString(data) => Ok(data),
        _ => Err(unparsable()),
    }
}

fn text(value: Value) -> Result<String, StoreError> {
    String::from_utf8(bytes_of(value)?).map_err(|_| unparsable())
}

/// Parses a number.
pub(super) fn number(value: Value) -> Result<u64, StoreError> {
    text(value)?.parse().map_err(|_| unparsable())
}

/// Parses alternating fields and values.
pub(super) fn pairs(value: Value) -> Result<Vec<(String, Value)>, StoreError> {
    let mut values = array(value)?.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    while let (Some(field), Some(value)) = (values.next(), values.next()) {
        pairs.push((text(field)?, value));
    }
    Ok(pairs)
}

/// Parses a record from its version and data. `None` if both are missing.
pub(super) fn record(version: Value, content: Value) -> Result<Option<Record>, StoreError> {
    match (version, content) {
        (Value::Nil, Value::Nil) => Ok(None),
        (version, content) => Ok(Some(Record { version: number(version)?, data: Bytes::from(bytes_of(content)?) })),
    }
}

/// Parses a stream entry.
pub(super) fn entry(value: Value) -> Result<Entry, StoreError> {
    let [id, fields]: [Value; 2] = array(value)?.try_into().map_err(|_| unparsable())?;
    let sequence = text(id)?.strip_suffix("-0").and_then(|sequence| sequence.parse().ok()).ok_or_else(unparsable)?;
    let (_, content) = pairs(fields)?.into_iter().find(|(field, _)| field == "d").ok_or_else(unparsable)?;
    Ok(Entry { sequence, data: Bytes::from(bytes_of(content)?) })
}

/// Parses the weight of a stream entry.
pub(super) fn weight_of(entry: &Value) -> Result<u64, StoreError> {
    let Value::Array(parts) = entry else { return Err(unparsable()) };
    let fields = pairs(parts.get(1).cloned().ok_or_else(unparsable)?)?;
    number(fields.into_iter().find(|(field, _)| field == "w").ok_or_else(unparsable)?.1)
}

/// Parses the extent of a stream from its counters and its length.
pub(super) fn extent(counters: Value, entries: Value) -> Result<Extent, StoreError> {
    let entries = match entries {
        Value::Int(entries) => u64::try_from(entries).map_err(|_| unparsable())?,
        _ => return Err(unparsable()),
    };
    if counters == Value::Nil && entries == 0 {
        return Ok(Extent { next: 1, entries, weight: 0 });
    }
    let counters = text(counters)?;
    let (next, weight) = counters.split_once(' ').ok_or_else(unparsable)?;
    let parse = |number: &str| number.parse().map_err(|_| unparsable());
    Ok(Extent { next: parse(next)?, entries, weight: parse(weight)? })
}

/// Parses the usage of a namespace.
pub(super) fn usage(value: Value) -> Result<Usage, StoreError> {
    let text = text(value)?;
    let numbers: Vec<u64> = text.split(' ').map_while(|number| number.parse().ok()).collect();
    let [kept, day, replies, replies_before] = numbers[..] else { return Err(unparsable()) };
    Ok(Usage { kept, day, replies, replies_before })
}

/// Parses the version of what a namespace holds apart from its leases, from its version, and its field `c` if it has
/// one.
pub(super) fn contents_version(version: Value, leases: Value) -> Result<u64, StoreError> {
    if version == Value::Nil {
        return Ok(0);
    }
    let version = number(version)?;
    if leases == Value::Nil {
        return Ok(version);
    }
    let leases = text(leases)?;
    let (at, contents) = leases.split_once(' ').ok_or_else(unparsable)?;
    let parse = |number: &str| number.parse::<u64>().map_err(|_| unparsable());
    Ok(if parse(at)? == version { parse(contents)? } else { version })
}

/// Parses the answer of `TIME`, in milliseconds since 1970.
pub(super) fn time_ms(value: Value) -> Result<u64, StoreError> {
    let [seconds, micros]: [Value; 2] = array(value)?.try_into().map_err(|_| unparsable())?;
    Ok(number(seconds)? * 1_000 + number(micros)? / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_do_not_count_unless_something_else_was_committed_after_them() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let version = |version: Value, leases: Value| contents_version(version, leases).ok();
        assert_eq!(version(Value::Nil, Value::Nil), Some(0));
        assert_eq!(version(bulk("12"), Value::Nil), Some(12));
        assert_eq!(version(bulk("12"), bulk("12 10")), Some(10));
        assert_eq!(version(bulk("13"), bulk("12 10")), Some(13), "a commit of an earlier release leaves the field");
        assert_eq!(version(bulk("13"), bulk("12")), None);
    }
}
