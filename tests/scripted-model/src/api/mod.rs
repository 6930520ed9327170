//! The APIs: how a conversation is written in each, and how a reply.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

/// An API of a maker of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Anthropic,
    Responses,
    Chat,
    Gemini,
}

/// A tool that a program offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The group of tools that it is in, of which only Responses has any.
    pub(crate) namespace: Option<String>,
}

/// What the model replies.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) say: String,
    pub(crate) calls: Vec<ToolCall>,
    /// The tokens of input that the reply reports.
    pub(crate) input_tokens: u64,
}

/// A tool that the model calls.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    pub(crate) tool: Tool,
    pub(crate) input: Value,
}

/// A reply as a program reads it.
#[derive(Debug)]
pub(crate) enum Reply {
    Json(Value),
    /// Server-sent events, each with a name if the API names them.
    Events(Vec<(Option<&'static str>, Value)>),
}

impl Api {
    /// Returns the API that a path belongs to.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            _ if path.ends_with("/messages") => Some(Self::Anthropic),
            _ if path.ends_with("/responses") => Some(Self::Responses),
            _ if path.ends_with("/chat/completions") => Some(Self::Chat),
            _ if path.ends_with(":generateContent") || path.ends_with(gemini::STREAM) => Some(Self::Gemini),
            _ => None,
        }
    }

    /// Returns what is new in a conversation: the items after the model's last turn, the oldest first.
    pub(crate) fn new_items(self, body: &Value) -> &[Value] {
        let (field, is_by_model): (_, fn(&Value) -> bool) = match self {
            Self::Anthropic | Self::Chat => ("messages", |item| item["role"] == "assistant"),
            Self::Responses => ("input", responses::is_by_model),
            Self::Gemini => ("contents", |item| item["role"] == "model"),
        };
        let items = list(&body[field]);
        &items[items.iter().rposition(is_by_model).map_or(0, |last| last + 1)..]
    }

    /// Returns the tools that a request offers.
    pub(crate) fn tools(self, body: &Value) -> Vec<Tool> {
        let tools = list(&body["tools"]);
        let plain = |tool: &Value| tool["name"].as_str().map(|name| Tool { name: name.to_owned(), namespace: None });
        match self {
            Self::Anthropic => tools.iter().filter_map(plain).collect(),
            Self::Chat => tools.iter().filter_map(|tool| plain(&tool["function"])).collect(),
            Self::Gemini => {
                tools.iter().flat_map(|tool| list(&tool["functionDeclarations"])).filter_map(plain).collect()
            }
            Self::Responses => responses::tools(tools),
        }
    }

    /// Writes a reply to a request.
    pub(crate) fn reply(self, path: &str, body: &Value, answer: &Answer) -> Reply {
        match self {
            Self::Anthropic => anthropic::reply(body, answer),
            Self::Responses => responses::reply(body, answer),
            Self::Chat => chat::reply(body, answer),
            Self::Gemini => gemini::reply(path, answer),
        }
    }
}

/// Returns the items of a list. Anything else has none.
fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns an id that no other reply of this process has.
fn id(prefix: &str) -> String {
    static IDS: AtomicU64 = AtomicU64::new(1);
    format!("{prefix}_{:020}", IDS.fetch_add(1, Ordering::Relaxed))
}

/// Returns whether a request asks for a stream in its body.
fn wants_stream(body: &Value) -> bool {
    body["stream"] == true
}
