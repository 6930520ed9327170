//! What the model was asked.

use std::fmt;

use serde_json::Value;

/// How many characters of a request's new part are printed.
const SHOWN_CHARS_MAX: usize = 600;

/// A request to the model.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method and path.
    pub line: String,
    /// The text of what came after the model's last turn: what the user said, and the results of tools.
    pub new: String,
    /// The text of the whole conversation and of the instructions.
    pub text: String,
    /// The names of the tools that the program offers.
    pub tools: Vec<String>,
    /// The regular expression of the rule that answered it. `None` if it got the default reply.
    pub rule: Option<String>,
    /// Its body.
    pub body: Value,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chars = self.new.chars().count();
        let end: String = self.new.chars().skip(chars.saturating_sub(SHOWN_CHARS_MAX)).collect();
        let rule = self.rule.as_deref().unwrap_or("none");
        write!(f, "{} ({} tools, rule {rule}): {end:?}", self.line, self.tools.len())
    }
}

/// Returns every text in a part of a request, one a line.
pub(crate) fn text_of(part: &Value) -> String {
    let mut text = String::new();
    collect(part, &mut text);
    text
}

fn collect(part: &Value, text: &mut String) {
    /// The fields that hold no text for the model.
    const LABELS: [&str; 8] =
        ["cache_control", "call_id", "encrypted_content", "id", "role", "status", "tool_use_id", "type"];
    match part {
        Value::String(found) => {
            text.push_str(found);
            text.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, text)),
        Value::Object(fields) => {
            for (name, field) in fields {
                if !LABELS.contains(&name.as_str()) {
                    collect(field, text);
                }
            }
        }
        _ => {}
    }
}
