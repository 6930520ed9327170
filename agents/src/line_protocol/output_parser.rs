//! Tells which lines of a program's output are meant for the runner.

use serde_json::Value;

use teamwire_proto::{Kind, Refusal, dialect, v1};

/// A line that a program wrote.
#[derive(Debug, PartialEq)]
pub(crate) enum OutputLine {
    /// `{"ack": "MESSAGE_ID"}`, or a list of them.
    Ack(Vec<String>),
    /// `{"complete": TASK_ID, "result": "…"}`: the task, the result, and the line as it was written.
    Complete(u64, String, Value),
    /// `{"release": TASK_ID, "reason": "…"}`: the task, the reason, and the line as it was written.
    Release(u64, String, Value),
    /// A SendMessage in either dialect, or why it cannot be read; and the line as it was written.
    Send(Box<Result<v1::SendRequest, Refusal>>, Value),
    /// Anything else: output that is passed on.
    Other,
}

impl OutputLine {
    /// Parses a line.
    ///
    /// Only an object with `ack`, with the number of a task to `complete` or `release`, with the `type` of a message, or
    /// with `to` and `message` is meant for the runner. Programs also print JSON for other readers, and some echo what
    /// they were given; those lines carry a `delivery_count`.
    pub(crate) fn parse(line: &str) -> Self {
        if !line.trim_start().starts_with('{') {
            return Self::Other;
        }
        let Ok(value) = serde_json::from_str::<Value>(line) else { return Self::Other };
        if value.get("delivery_count").is_some() {
            return Self::Other;
        }
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(id) = value.get("complete").and_then(task_id) {
            return Self::Complete(id, text("result"), value);
        }
        if let Some(id) = value.get("release").and_then(task_id) {
            return Self::Release(id, text("reason"), value);
        }
        let is_classic = value.get("type").and_then(Value::as_str).is_some_and(|kind| Kind::sendable(kind).is_some());
        let is_newer = value.get("type").is_none() && value.get("to").is_some() && value.get("message").is_some();
        match value.get("ack") {
            Some(Value::String(id)) => Self::Ack(vec![id.clone()]),
            Some(Value::Array(ids)) if ids.iter().all(Value::is_string) => {
                Self::Ack(ids.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            _ if is_classic || is_newer => Self::Send(Box::new(dialect::read(line)), value),
            _ => Self::Other,
        }
    }
}

/// Reads a task's number, which some programs write as a string.
fn task_id(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_ack_names_one_message_or_several() {
        assert_eq!(OutputLine::parse(r#" {"ack":"a"}"#), OutputLine::Ack(vec!["a".into()]));
        assert_eq!(OutputLine::parse(r#"{"ack":["a","b"]}"#), OutputLine::Ack(vec!["a".into(), "b".into()]));
    }

    #[test]
    fn a_program_completes_and_releases_tasks() {
        let complete = OutputLine::parse(r#"{"complete":3,"result":"done"}"#);
        assert!(matches!(complete, OutputLine::Complete(3, result, _) if result == "done"));
        let release = OutputLine::parse(r#"{"release":"4"}"#);
        assert!(matches!(release, OutputLine::Release(4, reason, _) if reason.is_empty()));
        assert_eq!(OutputLine::parse(r#"{"complete":true}"#), OutputLine::Other);
    }

    #[test]
    fn both_dialects_are_sent() {
        for line in [
            r#"{"type":"message","recipient":"a","summary":"s","content":"c"}"#,
            r#"{"to":"a","message":"c","summary":"s"}"#,
            r#"{"to":"lead","message":{"type":"shutdown_response","request_id":"r","approve":true}}"#,
        ] {
            assert!(matches!(OutputLine::parse(line), OutputLine::Send(request, _) if request.is_ok()), "{line}");
        }
        let without_decision = r#"{"type":"shutdown_response","request_id":"r"}"#;
        assert!(matches!(OutputLine::parse(without_decision), OutputLine::Send(request, _) if request.is_err()));
    }

    #[test]
    fn other_output_is_passed_on() {
        let read = r#"{"type":"message","id":"m","to":"me","delivery_count":1}"#;
        for line in [read, "", "hello", "{", "[]", r#"{"type":"assistant"}"#, r#"{"ack":1}"#, r#"{"to":"a"}"#, "{} {}"]
        {
            assert_eq!(OutputLine::parse(line), OutputLine::Other, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_the_parser_panic(line in "\\PC*") {
            let _ = OutputLine::parse(&line);
        }
    }
}
