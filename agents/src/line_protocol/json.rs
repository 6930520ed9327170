//! Reads lines of JSON as programs really write them.

use std::str;

use serde_json::{Map, Value, json};

/// How many bytes of the beginning and of the end of a line are kept that cannot be read.
const KEPT_BYTES: usize = 4 * 1024;

/// The fields that say what a line is, and to what it wants an answer.
const FIELDS: [&str; 5] = ["id", "method", "type", "subtype", "request_id"];

/// JSON-RPC's code for a line that is not valid JSON.
const PARSE_ERROR: i32 = -32700;

/// Returns JSON-RPC's answer to a line that could not be read. `id`: the line's.
pub(crate) fn parse_error(id: &Value, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": PARSE_ERROR, "message": message } })
}

/// Reads a line. Half of a surrogate pair counts as U+FFFD: a program that cuts a text in the middle of an emoji writes
/// one.
pub(crate) fn read(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).ok().or_else(|| {
        let text = String::from_utf8_lossy(line);
        serde_json::from_str(&without_lone_halves(&text)).ok()
    })
}

/// Replaces escaped halves of surrogate pairs that stand alone.
fn without_lone_halves(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        whole.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => &rest[..12],
            (Some(0xD800..=0xDFFF), _) => {
                whole.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            (Some(_), _) => &rest[..6],
            // The character behind the backslash belongs to it.
            (None, _) => &rest[..1 + rest[1..].chars().next().map_or(0, char::len_utf8)],
        };
        whole.push_str(taken);
        rest = &rest[taken.len()..];
    }
    whole + rest
}

/// Returns the code unit of an escape that begins a text.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

/// What is known of a line that is too long or damaged: its beginning and its end.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    beginning: Vec<u8>,
    end: Vec<u8>,
}

impl Unreadable {
    /// Adds the next part of the line.
    pub(crate) fn add(&mut self, part: &[u8]) {
        let room = KEPT_BYTES - self.beginning.len();
        self.beginning.extend_from_slice(&part[..room.min(part.len())]);
        self.end.extend_from_slice(&part[part.len().saturating_sub(KEPT_BYTES)..]);
        self.end.drain(..self.end.len().saturating_sub(KEPT_BYTES));
    }

    /// Returns the fields of the line that say what it is and to what it wants an answer, as far as they are known.
    pub(crate) fn gist(&self) -> Value {
        let mut gist = first_fields(&String::from_utf8_lossy(&self.beginning));
        if !gist.contains_key("id")
            && let Some(id) = last_id(&String::from_utf8_lossy(&self.end))
        {
            gist.insert("id".to_owned(), id);
        }
        Value::Object(gist)
    }
}

/// Returns the known fields at the beginning of an object that hold a number or a short text.
fn first_fields(text: &str) -> Map<String, Value> {
    let mut found = Map::new();
    let Some(mut rest) = text.trim_start().strip_prefix('{') else { return found };
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        let Some((Value::String(key), after)) = value(rest) else { return found };
        let Some(after) = after.trim_start().strip_prefix(':') else { return found };
        let Some((value, after)) = value(after) else { return found };
        if FIELDS.contains(&key.as_str()) && (value.is_string() || value.is_number()) {
            found.insert(key, value);
        }
        rest = after;
    }
}

/// Reads one value at the beginning of a text, and returns what follows it.
fn value(text: &str) -> Option<(Value, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, &text[values.byte_offset()..]))
}

/// Returns the field `id` if it is the last one of an object.
fn last_id(text: &str) -> Option<Value> {
    let inner = text.trim_end().strip_suffix('}')?;
    let (_, id) = inner.rsplit_once("\"id\":")?;
    serde_json::from_str::<Value>(id).ok().filter(|id| id.is_string() || id.is_number())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_of_a_pair_is_replaced_and_everything_else_stays() {
        for (line, read_as) in [
            (r#"{"a":"x\ud83d"}"#, "x\u{fffd}"),
            (r#"{"a":"\udc00y"}"#, "\u{fffd}y"),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, "\u{fffd}\u{1f600}"),
            (r#"{"a":"\ud83d\\ud83d\ud83d"}"#, "\u{fffd}\\ud83d\u{fffd}"),
            (r#"{"a":"\ud83d\u0041\n"}"#, "\u{fffd}A\n"),
            (r#"{"a":"\u{ZZ"}"#, ""),
        ] {
            let read = read(line.as_bytes());
            assert_eq!(read.as_ref().map_or("", |value| value["a"].as_str().unwrap_or_default()), read_as, "{line}");
        }
        assert_eq!(read(b"{\"a\":\"\xff\"}"), Some(json!({"a": "\u{fffd}"})));
    }

    #[test]
    fn what_wants_an_answer_is_found_in_a_line_that_is_too_long() {
        let long = "x".repeat(9_000);
        for (line, gist) in [
            (
                format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"a":"{long}"}}}}"#),
                json!({"id": 7, "method": "m"}),
            ),
            (
                format!(r#"{{"method":"m","params":{{"id":"inner","a":"{long}"}},"id":"s"}}"#),
                json!({"id": "s", "method": "m"}),
            ),
            (
                format!(r#"{{"type":"control_request","request_id":"r","request":{{"a":"{long}"}}}}"#),
                json!({"type": "control_request", "request_id": "r"}),
            ),
            (format!(r#"{{"params":{{"a":"{long}","b":{{"id":3}}}}}}"#), json!({})),
            (long.clone(), json!({})),
        ] {
            let mut unreadable = Unreadable::default();
            line.as_bytes().chunks(1_000).for_each(|part| unreadable.add(part));
            unreadable.add(b"\n");
            assert_eq!(unreadable.gist(), gist, "{}", &line[..40]);
        }
    }

    proptest! {
        #[test]
        fn a_line_that_is_valid_means_what_it_means(text in "(\\PC|\\\\u[0-9a-fA-F]{4}|\\\\\\\\|\"){0,30}") {
            let line = json!({ "a": text }).to_string();
            prop_assert_eq!(read(line.as_bytes()), serde_json::from_str(&line).ok());
            let _ = read(text.as_bytes());
            let mut unreadable = Unreadable::default();
            unreadable.add(text.as_bytes());
            let _ = unreadable.gist();
        }
    }
}
