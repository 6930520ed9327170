//! Decides which lines of a program's output are meant for the runner. `docs/line-protocol.md` has the rules.

use serde::Deserialize;
use serde_json::{Map, Value};

use teamwire_proto::{
    Kind, Reason, Refusal,
    dialect::{self, Json},
    v1,
};

use super::{
    lines::BYTE_ORDER_MARK,
    loose_keys::{LOG_FIELDS, LooseKeys},
};

/// How much of a line that cannot be read is quoted in the reply and the log, in characters.
const QUOTED_CHARS_MAX: usize = 200;

/// A line that a program wrote.
#[derive(Debug, PartialEq)]
pub(crate) enum OutputLine {
    /// `{"ack": "MESSAGE_ID"}`, or a list of them.
    Ack(Vec<String>),
    /// `{"activity": "…"}`: what the program is doing.
    Activity(String),
    /// `{"usage": {…}}`: what the program has used since it joined.
    Usage(v1::Usage),
    /// `{"complete": TASK_ID, "result": "…"}`: the task, the result, and the line as it was written.
    Complete(u64, String, Value),
    /// `{"release": TASK_ID, "reason": "…"}`: the task, the reason, and the line as it was written.
    Release(u64, String, Value),
    /// A SendMessage in any of its forms, and the line as it was written.
    Send(Box<v1::SendRequest>, Value),
    /// A line that is meant for the runner and is malformed, mistyped or ambiguous: why, and the line as it was
    /// written. It is a string, the beginning of the line, if the line is not one JSON object with unique keys.
    Refused(Box<Refusal>, Value),
    /// Anything else: output that is passed on.
    Other,
}

/// What a line can ask of the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Ack,
    Activity,
    Usage,
    Complete,
    Release,
    Send,
}

impl Form {
    const ALL: [Self; 6] = [Self::Ack, Self::Activity, Self::Usage, Self::Complete, Self::Release, Self::Send];

    /// The field that marks the form.
    const fn field(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Activity => "activity",
            Self::Usage => "usage",
            Self::Complete => "complete",
            Self::Release => "release",
            Self::Send => "message",
        }
    }

    /// The fields of the form, as errors list them.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Ack => &["ack"],
            Self::Activity => &["activity"],
            Self::Usage => &["usage"],
            Self::Complete => &["complete", "result"],
            Self::Release => &["release", "reason"],
            Self::Send => &[],
        }
    }

    /// Returns whether an object is meant to have this form, rightly or wrongly written.
    fn is_meant(self, map: &Map<String, Value>) -> bool {
        if self == Self::Send {
            return is_send_meant(map);
        }
        let Some(mark) = map.get(self.field()) else { return false };
        let is_certain = match self {
            Self::Ack => mark.is_string() || mark.is_array(),
            // Other programs read lines with these fields, too.
            Self::Activity | Self::Usage => false,
            _ => task_id(mark).is_some(),
        };
        let is_only_this = map.keys().all(|key| self.fields().contains(&key.as_str()));
        !is_log_record(map) && (is_certain || is_only_this)
    }
}

impl OutputLine {
    /// Parses a line.
    ///
    /// Programs also print JSON for other readers, and some echo what they were given; those lines have a
    /// `delivery_count`.
    pub(crate) fn parse(line: &[u8]) -> Self {
        let start = line.trim_ascii_start();
        let unmarked = start.strip_prefix(BYTE_ORDER_MARK);
        if unmarked.unwrap_or(start).trim_ascii_start().first() != Some(&b'{') {
            return Self::Other;
        }
        let text = String::from_utf8_lossy(line);
        if unmarked.is_some() {
            return Self::malformed(&text, "it begins with a byte-order mark, which only the first line may have");
        }
        match Json::parse(&text) {
            Ok(Json { value: Value::Object(map), repeated }) if str::from_utf8(line).is_ok() => {
                Self::read(map, repeated, &text)
            }
            Ok(_) => Self::malformed(&text, "it is not UTF-8"),
            Err(error) => Self::malformed(&text, &error.to_string()),
        }
    }

    /// Returns the refusal of a line that is too long to be read, if its beginning shows that it is meant for the
    /// runner.
    pub(crate) fn too_long(beginning: &[u8], bytes_max: usize) -> Option<(Refusal, Value)> {
        let text = String::from_utf8_lossy(beginning);
        let begins = text.trim_start();
        let begins = begins.strip_prefix('\u{FEFF}').unwrap_or(begins);
        let is_meant = begins.trim_start().starts_with('{') && LooseKeys::scan(&text).is_meant();
        is_meant.then(|| {
            let message = format!("This line is longer than {bytes_max} bytes. Send less, or attach it by its URI.");
            (Refusal::new(Reason::ContentTooLarge, message).field("json"), quoted(&text))
        })
    }

    fn read(map: Map<String, Value>, repeated: Option<String>, text: &str) -> Self {
        if map.contains_key("delivery_count") {
            return Self::Other;
        }
        let forms: Vec<Form> = Form::ALL.into_iter().filter(|form| form.is_meant(&map)).collect();
        if let Some(path) = repeated {
            // The value has only the last of the repeated keys; the text has all of them.
            let is_meant = !forms.is_empty() || LooseKeys::scan(text).is_meant();
            return match is_meant {
                true => Self::Refused(Box::new(Json::refuse_repeated(&path)), quoted(text)),
                false => Self::Other,
            };
        }
        let read = match forms.as_slice() {
            [] => return Self::Other,
            [Form::Send] => match dialect::read_object(map.clone()) {
                Ok(request) => return Self::Send(Box::new(request), Value::Object(map)),
                Err(refusal) => Err(refusal),
            },
            [form] => read_own(*form, &map),
            [.., form] => {
                let names: Vec<&str> = forms.iter().map(|form| form.field()).collect();
                let message = format!("This line asks for {} at once. Write one line for each.", names.join(" and "));
                Err(Refusal::new(Reason::InvalidJson, message).field(form.field()))
            }
        };
        read.unwrap_or_else(|refusal| Self::Refused(Box::new(refusal), Value::Object(map)))
    }

    /// Returns what a line is that begins like an object and cannot be parsed.
    fn malformed(text: &str, fault: &str) -> Self {
        if !LooseKeys::scan(text).is_meant() {
            return Self::Other;
        }
        let message = format!(
            "This looks like a line for the runner and cannot be read as JSON: {fault}. Write one JSON object on one line, \
             with every key and text in double quotes."
        );
        Self::Refused(Box::new(Refusal::new(Reason::InvalidJson, message).field("json")), quoted(text))
    }
}

/// Reads a line that is not a SendMessage.
fn read_own(form: Form, map: &Map<String, Value>) -> Result<OutputLine, Refusal> {
    let refuse = |field: &str, message: String| Err(Refusal::new(Reason::InvalidJson, message).field(field));
    if let Some(key) = map.keys().find(|key| !form.fields().contains(&key.as_str())) {
        let key: String = key.chars().take(80).flat_map(char::escape_debug).collect();
        let fields = form.fields().join(", ");
        let message = format!("A line with \"{}\" has no field \"{key}\". Its fields are: {fields}.", form.field());
        return refuse(&key, message);
    }
    let mark = map.get(form.field()).unwrap_or(&Value::Null);
    if form == Form::Ack {
        let ids: Option<Vec<String>> = match mark {
            Value::String(id) => Some(vec![id.clone()]),
            Value::Array(ids) => ids.iter().map(|id| id.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        return match ids {
            Some(ids) => Ok(OutputLine::Ack(ids)),
            None => refuse("ack", "ack must be the id of a message, or a list of ids.".to_owned()),
        };
    }
    if form == Form::Activity {
        return match mark {
            Value::String(text) => Ok(OutputLine::Activity(text.clone())),
            _ => refuse("activity", "activity must be a string.".to_owned()),
        };
    }
    if form == Form::Usage {
        if !mark.is_object() {
            return refuse("usage", "usage must be an object.".to_owned());
        }
        return match serde_json::from_value::<Usage>(mark.clone()) {
            Ok(usage) => Ok(OutputLine::Usage(usage.into())),
            Err(error) => refuse("usage", format!("usage cannot be read: {error}.")),
        };
    }
    let Some(id) = task_id(mark) else {
        return refuse(form.field(), format!("{} must be the number of a task.", form.field()));
    };
    let text_field = form.fields()[1];
    let text = match map.get(text_field) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => return refuse(text_field, format!("{text_field} must be a string.")),
    };
    let written = Value::Object(map.clone());
    Ok(match form {
        Form::Complete => OutputLine::Complete(id, text, written),
        _ => OutputLine::Release(id, text, written),
    })
}

/// What a program has used, as it writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Usage {
    turns: u64,
    input_tokens: u64,
    cached_input_tokens: u64,
    output_tokens: u64,
    cost_usd: f64,
}

impl From<Usage> for v1::Usage {
    fn from(usage: Usage) -> Self {
        let Usage { turns, input_tokens, cached_input_tokens, output_tokens, cost_usd } = usage;
        Self { turns, input_tokens, cached_input_tokens, output_tokens, cost_usd_micros: micros(cost_usd) }
    }
}

/// Converts US dollars to millionths. Negative amounts count as 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn micros(usd: f64) -> u64 {
    (usd * 1e6).round() as u64
}

/// Returns whether an object is meant as a SendMessage.
fn is_send_meant(map: &Map<String, Value>) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| map.get(*name).is_some_and(|value| !value.is_null()));
    let kind = map.get("type").filter(|kind| !kind.is_null());
    if kind.and_then(Value::as_str).is_some_and(|kind| Kind::sendable(kind).is_some()) {
        return true;
    }
    if is_log_record(map) {
        return false;
    }
    let has_recipient = has(&["to", "recipient"]);
    let is_answer = has(&["request_id", "requestId"]) && has(&["approve", "approved"]);
    let is_certain = match kind {
        None => has_recipient && has(&["message", "content"]) || has_nested_kind(map),
        Some(Value::String(kind)) => {
            dialect::resembles_type(kind) && (has_recipient || is_answer || has(&["message", "content"]))
        }
        Some(_) => false,
    };
    is_certain || (has_recipient || is_answer) && map.keys().all(|key| dialect::resembles_field(key))
}

/// Returns whether `message` is an object whose type only the newer form has there.
fn has_nested_kind(map: &Map<String, Value>) -> bool {
    let kind = map.get("message").and_then(|message| message.get("type")).and_then(Value::as_str);
    kind.and_then(Kind::sendable).is_some_and(|kind| kind.is_request() || kind.is_answer())
}

fn is_log_record(map: &Map<String, Value>) -> bool {
    LOG_FIELDS.iter().any(|field| map.contains_key(*field))
}

/// Reads a task's number, which some programs write as a string.
fn task_id(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns the beginning of a line, by which its author recognizes it.
fn quoted(text: &str) -> Value {
    let text = text.trim();
    let beginning: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    Value::String(if beginning.len() < text.len() { beginning + "…" } else { beginning })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn parse(line: &str) -> OutputLine {
        OutputLine::parse(line.as_bytes())
    }

    /// Asserts that a line is refused with a field and a hint. Returns what the reply quotes of it.
    #[track_caller]
    fn refused(line: &str, field: &str, hint: &str) -> Value {
        let OutputLine::Refused(refusal, quoted) = parse(line) else { panic!("{line}: {:?}", parse(line)) };
        assert_eq!(refusal.field.as_deref(), Some(field), "{line}: {refusal}");
        assert!(refusal.message.contains(hint), "{line}: {refusal}");
        quoted
    }

    #[test]
    fn an_ack_names_one_message_or_several() {
        assert_eq!(parse(r#" {"ack":"a"}"#), OutputLine::Ack(vec!["a".into()]));
        assert_eq!(parse(r#"{"ack":["a","b"]}"#), OutputLine::Ack(vec!["a".into(), "b".into()]));
        refused(r#"{"ack":1}"#, "ack", "the id of a message");
        refused(r#"{"ack":["a",1]}"#, "ack", "the id of a message");
        refused(r#"{"ack":"a","content":"done"}"#, "content", "no field");
    }

    #[test]
    fn a_program_completes_and_releases_tasks() {
        assert!(matches!(parse(r#"{"complete":3,"result":"done"}"#), OutputLine::Complete(3, r, _) if r == "done"));
        assert!(matches!(parse(r#"{"release":"4"}"#), OutputLine::Release(4, reason, _) if reason.is_empty()));
        refused(r#"{"complete":true}"#, "complete", "the number of a task");
        refused(r#"{"complete":3,"result":5}"#, "result", "a string");
        refused(r#"{"complete":3,"total":10}"#, "total", "Its fields are: complete, result");
        assert_eq!(parse(r#"{"complete":true,"progress":1.0}"#), OutputLine::Other);
        assert_eq!(parse(r#"{"release":"1.2.3","arch":"arm"}"#), OutputLine::Other);
    }

    #[test]
    fn a_program_reports_what_it_does_and_uses() {
        assert_eq!(parse(r#"{"activity":"Read src/main.rs"}"#), OutputLine::Activity("Read src/main.rs".into()));
        let used = r#"{"usage":{"turns":2,"input_tokens":900,"output_tokens":40,"cost_usd":0.0123456}}"#;
        let usage =
            v1::Usage { turns: 2, input_tokens: 900, output_tokens: 40, cost_usd_micros: 12_346, ..Default::default() };
        assert_eq!(parse(used), OutputLine::Usage(usage));
        refused(r#"{"activity":5}"#, "activity", "a string");
        refused(r#"{"usage":{"tokens":5}}"#, "usage", "unknown field");
        refused(r#"{"usage":{"turns":-1}}"#, "usage", "invalid value");
        refused(r#"{"usage":[1,2,3,4,5]}"#, "usage", "an object");
        for other in [r#"{"activity":"login","user":"ann"}"#, r#"{"usage":{"turns":1},"model":"m"}"#] {
            assert_eq!(parse(other), OutputLine::Other, "{other}");
        }
        assert_eq!([micros(-1.0), micros(f64::NAN), micros(f64::INFINITY)], [0, 0, u64::MAX]);
    }

    #[test]
    fn every_form_of_send_message_is_sent() {
        for line in [
            r#"{"type":"message","recipient":"a","summary":"s","content":"c"}"#,
            r#"{"to":"a","message":"c","summary":"s"}"#,
            r#"{"type":"message","to":"a","message":"c","summary":"s"}"#,
            r#"{"to":"lead","message":{"type":"shutdown_response","request_id":"r","approve":true}}"#,
            r#"{"message":{"type":"shutdown_response","request_id":"r","approve":true}}"#,
            r#"{"type":"shutdown_response","requestId":"r","approved":true}"#,
        ] {
            assert!(matches!(parse(line), OutputLine::Send(..)), "{line}: {:?}", parse(line));
        }
    }

    #[test]
    fn a_line_that_looks_like_a_message_but_is_malformed_is_refused() {
        refused(r#"{"type":"shutdown_response","request_id":"r"}"#, "approve", "true approves");
        refused(r#"{"to":"a"}"#, "message", "required");
        let quoted = refused(r#"{"to":"lead","mesage":"done"}"#, "mesage", "nearest is \"message\"");
        assert_eq!(quoted, json!({"to": "lead", "mesage": "done"}));
        refused(r#"{"to":"lead","msg":"done"}"#, "msg", "nearest is \"message\"");
        refused(r#"{"to":"lead","message":"done","priority":1}"#, "priority", "no field");
        refused(r#"{"type":"massage","to":"a","content":"c"}"#, "type", "not a message type");
        refused(r#"{"type":"shutdown-response","request_id":"r","approve":true}"#, "type", "not a message type");
        refused(r#"{"type":5,"to":"a","message":"c"}"#, "type", "a string");
        refused(r#"{"request_id":"r","approve":true}"#, "type", "required");
    }

    #[test]
    fn a_line_that_says_two_things_is_refused() {
        refused(r#"{"ack":"a","complete":3}"#, "complete", "ack and complete");
        refused(r#"{"ack":"a","to":"b","message":"c","summary":"s"}"#, "message", "ack and message");
        let twice = r#"{"type":"shutdown_response","request_id":"r","approve":false,"approve":true}"#;
        assert_eq!(refused(twice, "approve", "more than once"), json!(twice), "an object cannot show both");
        refused(r#"{"type":"message","to":"a","content":"c","type":"log"}"#, "type", "more than once");
        refused(r#"{"ack":"a","ack":"b"}"#, "ack", "more than once");
        refused(r#"{"to":"a","recipient":"b","message":"c"}"#, "to", "differ");
    }

    #[test]
    fn a_malformed_line_that_has_the_keys_of_a_message_is_refused() {
        for line in [
            r#"{"to":"lead","message":"unterminated"#,
            r#"{"to":"lead","message":"a",}"#,
            r"{'to': 'lead', 'message': 'it\'s done'}",
            "{ to: 'lead', message: 'done' }",
            r#"{"type":"message","recipient":"a","content":"c"} {"ack":"m"}"#,
            r#"{"type":"shutdown_response","request_id":req_1,"approve":true}"#,
            "{'ack': 'm'}",
            "{ack: m}",
            r#"{"complete":03}"#,
        ] {
            let quoted = refused(line, "json", "double quotes");
            assert_eq!(quoted, json!(line));
        }
        let marked = "\u{FEFF}{\"ack\":\"m\"}";
        assert_eq!(refused(marked, "json", "a byte-order mark"), json!(marked));
        assert_eq!(parse("\u{FEFF}hello"), OutputLine::Other);
        assert_eq!(parse("\u{FEFF}{\"level\":\"info\"}"), OutputLine::Other);
        let long = format!(r#"{{"to":"lead","message":"{}"#, "ä".repeat(1_000));
        assert_eq!(refused(&long, "json", "double quotes").as_str().map(|quoted| quoted.chars().count()), Some(201));
        let OutputLine::Refused(refusal, _) = OutputLine::parse(b"{\"to\":\"a\",\"message\":\"\xe4\"}") else {
            panic!("passed on")
        };
        assert!(refusal.message.contains("not UTF-8"), "{refusal}");
    }

    #[test]
    fn other_output_is_passed_on() {
        for line in [
            r#"{"type":"message","id":"m","to":"me","delivery_count":1}"#,
            r"{'type': 'message', 'id': 'm', 'to': 'me', 'content': 'c', 'delivery_count': 1}",
            r#"{"type":"error","reason":"INVALID_JSON","message":"to, message","request":{"to":"a","message":1}}"#,
            r#"{"type":"welcome","team":"a","member":"b","role":"teammate","lead":"c","text":"t"}"#,
            "",
            "hello",
            "{",
            "[]",
            "{}",
            "{} {}",
            "{not json}",
            r#"[{"to":"a","message":"c"}]"#,
            r#"{"type":"assistant","message":{"type":"message","role":"assistant","content":[]}}"#,
            r#"{"type":"message_start","message":{"type":"message","content":[]}}"#,
            r#"{"type":"result","result":"done","summary":"s"}"#,
            r#"{"level":"info","message":"mail sent","to":"a@b"}"#,
            r#"{"level":"info","ack":"7","complete":3}"#,
            r#"{"event":"redirect","from":"/a","to":"/b"}"#,
            r#"{"message":"GET /","request_id":"r"}"#,
            r#"{"approved":true,"reason":"it fits"}"#,
            r#"{"level":"info","a":1,"a":2}"#,
            r#"{level: info, msg: "sent to: bob, message: hi"}"#,
        ] {
            assert_eq!(parse(line), OutputLine::Other, "{line}");
        }
    }

    #[test]
    fn a_line_too_long_to_be_read_is_refused_if_it_begins_like_a_message() {
        let (refusal, quoted) = OutputLine::too_long(br#"{"to":"a","message":"xx"#, 9).expect("a refusal");
        assert_eq!((refusal.reason, quoted), (Reason::ContentTooLarge, json!(r#"{"to":"a","message":"xx"#)));
        assert_eq!(OutputLine::too_long(br#"{"level":"info","message":"xx"#, 9), None);
        assert_eq!(OutputLine::too_long(b"to: a, message: b", 9), None);
    }

    proptest! {
        #[test]
        fn no_line_makes_the_parser_panic(line in "\\PC*", braced in r#"\{["':,{}\[\]a-z \\]{0,40}"#) {
            let _ = parse(&line);
            let _ = parse(&braced);
        }

        #[test]
        fn no_repeated_key_is_ever_carried_out(
            fields in proptest::collection::vec(
                (
                    prop::sample::select(vec!["type", "to", "message", "request_id", "approve", "ack", "complete"]),
                    prop::sample::select(vec!["\"message\"", "\"shutdown_response\"", "\"a\"", "true", "false", "3"]),
                ),
                0..6,
            ),
        ) {
            let inside: Vec<String> = fields.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            let mut keys: Vec<&str> = fields.iter().map(|(key, _)| *key).collect();
            keys.sort_unstable();
            keys.dedup();
            let parsed = parse(&format!("{{{}}}", inside.join(",")));
            if keys.len() < fields.len() {
                prop_assert!(matches!(parsed, OutputLine::Refused(..) | OutputLine::Other), "{:?}", parsed);
            }
        }
    }
}
