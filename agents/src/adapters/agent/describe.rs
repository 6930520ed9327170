//! Describes in one line what an agent does, in the same form for every program.

use serde_json::Value;

use super::protocol::text;
use crate::visible::shown_line;

/// The fields of a tool's input that say most about a call, the most telling one first. What an agent says about a call
/// comes after what the call does.
const TELLING_FIELDS: [&str; 11] =
    ["subject", "command", "file_path", "path", "pattern", "url", "query", "description", "prompt", "summary", "to"];

/// Returns one line about a tool call: the tool and the most telling part of its input, or else the fields of the input
/// that have short values.
pub(super) fn tool_call(tool: &str, input: &Value) -> String {
    let part = match telling_part(input) {
        "" => fields(input),
        part => part.to_owned(),
    };
    if part.is_empty() { tool.to_owned() } else { format!("{tool}: {part}") }
}

/// Returns the part of a tool's input that says most about the call. Empty if none is known.
pub(super) fn telling_part(input: &Value) -> &str {
    TELLING_FIELDS.iter().map(|field| text(input, field)).find(|part| !part.is_empty()).unwrap_or_default()
}

/// Returns the fields of an input that hold a text of one line, a number or a truth value.
fn fields(input: &Value) -> String {
    let field = |(name, value): (&String, &Value)| match value {
        Value::String(text) if text.contains('\n') => None,
        Value::String(text) => Some(format!("{name}={text}")),
        Value::Number(_) | Value::Bool(_) => Some(format!("{name}={value}")),
        _ => None,
    };
    input.as_object().into_iter().flatten().filter_map(field).collect::<Vec<_>>().join(", ")
}

/// The most characters of a line about what the program does.
pub(super) const ACTIVITY_CHARS_MAX: usize = 500;

/// The most characters of the summary of what a member did last.
pub(super) const SUMMARY_CHARS_MAX: usize = 200;

/// Returns the first line of a text, up to a number of characters, with hidden characters shown as escapes.
pub(super) fn first_line(text: &str, chars_max: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    shown_line(line).chars().take(chars_max).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_call_is_one_readable_line() {
        let message = json!({"type": "message", "recipient": "lead", "content": "a\nb", "summary": "schema ready"});
        let answer = json!({"approve": true, "content": "a\nb", "request_id": "r7", "type": "shutdown_response"});
        for (tool, input, line) in [
            ("SendMessage", message, "SendMessage: schema ready"),
            ("SendMessage", answer, "SendMessage: approve=true, request_id=r7, type=shutdown_response"),
            ("TaskCreate", json!({"subject": "the API", "description": "a\nb"}), "TaskCreate: the API"),
            ("Bash", json!({"command": "rm -rf target", "description": "Clean the build"}), "Bash: rm -rf target"),
            ("TaskClaim", json!({"taskId": 3, "tags": ["x"]}), "TaskClaim: taskId=3"),
            ("TaskList", json!({}), "TaskList"),
            ("TaskList", Value::Null, "TaskList"),
        ] {
            assert_eq!(tool_call(tool, &input), line);
        }
    }
}
