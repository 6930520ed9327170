//! What the model says, and when.

use regex::{Captures, Regex};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::api::{Answer, Tool, ToolCall};

/// What the model replies to a request whose new part matches a regular expression. Each rule answers one request,
/// unless [`Rule::always`] says otherwise.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(deserialize_with = "regex")]
    pub(crate) when: Regex,
    #[serde(default)]
    say: String,
    #[serde(default)]
    calls: Vec<Call>,
    #[serde(default)]
    pub(crate) gate: Option<String>,
    #[serde(default)]
    pub(crate) status: Option<u16>,
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    always: bool,
    #[serde(skip)]
    is_used: bool,
}

/// A tool call of the model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The last part of the tool's name: `SendMessage` also finds `mcp__teamwire__SendMessage`.
    pub tool: String,
    /// The input. In its strings, `$1` to `$9` stand for what the groups of the regular expression matched. An input
    /// that is a string is read as JSON once they are filled in.
    #[serde(default)]
    pub input: Value,
}

fn regex<'de, D: Deserializer<'de>>(from: D) -> Result<Regex, D::Error> {
    Regex::new(&String::deserialize(from)?).map_err(D::Error::custom)
}

impl Rule {
    /// Creates a rule that replies with nothing.
    pub fn when(pattern: &str) -> Self {
        let when = Regex::new(pattern).unwrap();
        Self {
            when,
            say: String::new(),
            calls: Vec::new(),
            gate: None,
            status: None,
            input_tokens: None,
            always: false,
            is_used: false,
        }
    }

    /// Has the model say a text.
    pub fn says(self, text: &str) -> Self {
        Self { say: text.to_owned(), ..self }
    }

    /// Has the model call a tool, after the text and earlier calls. See [`Call`].
    pub fn calls(mut self, tool: &str, input: impl Into<Value>) -> Self {
        self.calls.push(Call { tool: tool.to_owned(), input: input.into() });
        self
    }

    /// Holds the reply until the gate of this name is open.
    pub fn at_gate(self, name: &str) -> Self {
        Self { gate: Some(name.to_owned()), ..self }
    }

    /// Fails the request with an HTTP status.
    pub fn fails(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Reports that the model has read so many tokens, and not [`TOKENS`](crate::TOKENS).
    pub fn reads(self, input_tokens: u64) -> Self {
        Self { input_tokens: Some(input_tokens), ..self }
    }

    /// Answers every request that matches.
    pub fn always(self) -> Self {
        Self { always: true, ..self }
    }

    /// Uses the rule for a request, if it matches and is not used up.
    pub(crate) fn answer(&mut self, new: &str, offered: &[Tool]) -> Option<Answer> {
        if self.is_used && !self.always {
            return None;
        }
        let found = self.when.captures(new)?;
        self.is_used = true;
        let calls = self.calls.iter().map(|call| call.fill(&found, offered)).collect();
        let input_tokens = self.input_tokens.unwrap_or(crate::TOKENS.0);
        Some(Answer { say: self.say.clone(), calls, input_tokens })
    }
}

impl Call {
    fn fill(&self, found: &Captures<'_>, offered: &[Tool]) -> ToolCall {
        let filled = fill(&self.input, found);
        let input = match &filled {
            Value::String(text) => serde_json::from_str(text).unwrap_or(filled),
            _ => filled,
        };
        let exact = offered.iter().find(|tool| tool.name == self.tool);
        let by_last_part = || offered.iter().find(|tool| has_last_part(&tool.name, &self.tool));
        let unknown = || Tool { name: self.tool.clone(), namespace: None };
        ToolCall { tool: exact.or_else(by_last_part).cloned().unwrap_or_else(unknown), input }
    }
}

fn has_last_part(name: &str, part: &str) -> bool {
    name.strip_suffix(part).is_some_and(|rest| rest.ends_with(['_', '.', '-', '/', ':']))
}

/// Returns a value in whose strings the groups of a match are filled in.
fn fill(value: &Value, found: &Captures<'_>) -> Value {
    match value {
        Value::String(text) => {
            let group = |number: usize| found.get(number).map_or("", |group| group.as_str());
            let filled = (1..=9).fold(text.clone(), |text, number| text.replace(&format!("${number}"), group(number)));
            Value::String(filled)
        }
        Value::Array(items) => items.iter().map(|item| fill(item, found)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), fill(field, found))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> Tool {
        Tool { name: name.to_owned(), namespace: None }
    }

    #[test]
    fn a_rule_fills_its_groups_in_and_finds_the_tool_by_the_last_part_of_its_name() {
        let offered = [tool("ResendMessage"), tool("mcp__teamwire__SendMessage")];
        let mut rule = Rule::when("greet (\\w+) with (\\w+)")
            .calls("SendMessage", json!({"to": "$1", "parts": ["$2!"]}))
            .calls("Other", "{\"name\": \"$1\"}");
        let answer = rule.answer("Please greet ann with hello.", &offered).unwrap();
        assert_eq!(answer.calls[0].tool.name, "mcp__teamwire__SendMessage");
        assert_eq!(answer.calls[0].input, json!({"to": "ann", "parts": ["hello!"]}));
        assert_eq!((answer.calls[1].tool.name.as_str(), &answer.calls[1].input), ("Other", &json!({"name": "ann"})));
        assert!(rule.answer("greet bob with hi", &offered).is_none(), "it is used up");
    }

    #[test]
    fn a_rule_is_read_from_json() {
        let rule = json!({"when": "a+", "say": "b", "calls": [{"tool": "T"}], "gate": "g", "always": true});
        let mut rule: Rule = serde_json::from_value(rule).unwrap();
        for _ in 0..2 {
            assert_eq!(rule.answer("caat", &[]).unwrap().say, "b");
        }
        assert!(serde_json::from_value::<Rule>(json!({"when": "("})).is_err());
        assert!(serde_json::from_value::<Rule>(json!({"when": "a", "delay": 1})).is_err());
    }
}
