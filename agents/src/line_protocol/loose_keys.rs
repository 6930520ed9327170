//! Reads the keys of an object that is not valid JSON: unterminated, with single quotes, without quotes.

use teamwire_proto::Kind;

/// Fields that log records have and messages do not.
pub(super) const LOG_FIELDS: [&str; 5] = ["level", "lvl", "severity", "logger", "@timestamp"];

/// The top-level keys of a line that begins like an object, and the type that it names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LooseKeys {
    keys: Vec<String>,
    /// The texts behind a key `type`.
    types: Vec<String>,
}

/// The longest key that matters, in characters.
const KEY_CHARS_MAX: usize = 32;

impl LooseKeys {
    /// Scans a line. A key is a word in single, double or no quotes that a colon follows.
    pub(super) fn scan(text: &str) -> Self {
        let mut found = Self::default();
        let (mut depth, mut word, mut is_type) = (0_u32, String::new(), false);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '{' | '[' => depth += 1,
                '}' | ']' => depth = depth.saturating_sub(1),
                '"' | '\'' => {
                    word.clear();
                    while let Some(inner) = chars.next() {
                        match inner {
                            '\\' => drop(chars.next()),
                            _ if inner == c => break,
                            _ => word.push(inner),
                        }
                    }
                    if std::mem::take(&mut is_type) {
                        found.types.push(word.clone());
                    }
                    continue;
                }
                ':' if depth == 1 && !word.is_empty() && word.chars().count() <= KEY_CHARS_MAX => {
                    is_type = word == "type";
                    found.keys.push(std::mem::take(&mut word));
                }
                // Spaces may stand between a key and its colon.
                ' ' | '\t' => continue,
                c if c.is_alphanumeric() || matches!(c, '_' | '@' | '-') => {
                    word.clear();
                    word.push(c);
                    while let Some(inner) = chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '@' | '-')) {
                        word.push(inner);
                    }
                    continue;
                }
                _ => {}
            }
            word.clear();
            if c == ',' {
                is_type = false;
            }
        }
        found
    }

    /// Returns whether these are the keys of a line for the runner.
    pub(super) fn is_meant(&self) -> bool {
        let has = |names: &[&str]| self.keys.iter().any(|key| names.contains(&key.as_str()));
        if has(&["delivery_count"]) {
            return false;
        }
        if self.types.iter().any(|kind| Kind::sendable(kind).is_some()) {
            return true;
        }
        if has(&LOG_FIELDS) {
            return false;
        }
        let is_first = |names: &[&str]| self.keys.first().is_some_and(|key| names.contains(&key.as_str()));
        let is_typed = has(&["type"]);
        (!is_typed && has(&["to", "recipient"]) && has(&["message", "content", "summary"]))
            || (has(&["request_id", "requestId"]) && has(&["approve", "approved"]))
            || is_first(&["ack", "complete", "release"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        LooseKeys::scan(text).keys
    }

    #[test]
    fn keys_are_found_however_they_are_quoted() {
        for text in [r#"{"to":"a","message":{"type":"x"},"n":1"#, "{'to' : 'a', message: {type: x}, n:1}"] {
            assert_eq!(keys(text), ["to", "message", "n"], "{text}");
        }
        assert_eq!(keys(r#"{"a":"b: c, d: \"e\": f","g":1"#), ["a", "g"]);
        assert_eq!(keys("{"), Vec::<String>::new());
    }

    #[test]
    fn a_type_is_the_text_behind_its_key() {
        assert_eq!(LooseKeys::scan("{'type': 'message', 'a': 'type'").types, ["message"]);
        assert_eq!(LooseKeys::scan(r#"{"type":5,"a":"message""#).types, Vec::<String>::new());
    }
}
