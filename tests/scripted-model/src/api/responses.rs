//! OpenAI Responses.

use serde_json::{Value, json};

use super::{Answer, Reply, Tool, ToolCall, id, wants_stream};
use crate::TOKENS;

/// The tool with which Codex loads the tools that it has deferred. Its calls have a separate type.
const TOOL_SEARCH: &str = "tool_search";

pub(super) fn is_by_model(item: &Value) -> bool {
    const BY_MODEL: [&str; 5] =
        ["custom_tool_call", "function_call", "local_shell_call", "reasoning", "tool_search_call"];
    item["role"] == "assistant" || item["type"].as_str().is_some_and(|kind| BY_MODEL.contains(&kind))
}

pub(super) fn tools(offered: &[Value]) -> Vec<Tool> {
    let named = |tool: &Value, namespace: Option<&str>| {
        // A tool that the maker defines has a type, but no name.
        let name = tool["name"].as_str().or(tool["type"].as_str())?.to_owned();
        Some(Tool { name, namespace: namespace.map(ToOwned::to_owned) })
    };
    let flat = |tool: &Value| match tool["tools"].as_array() {
        Some(inner) if tool["type"] == "namespace" => {
            inner.iter().filter_map(|inner| named(inner, tool["name"].as_str())).collect::<Vec<_>>()
        }
        _ => named(tool, None).into_iter().collect(),
    };
    offered.iter().flat_map(flat).collect()
}

pub(super) fn reply(body: &Value, answer: &Answer) -> Reply {
    let items: Vec<Value> = message(&answer.say).into_iter().chain(answer.calls.iter().map(call)).collect();
    let (input, output) = (answer.input_tokens, TOKENS.1);
    let response = json!({
        "id": id("resp"), "object": "response", "status": "completed", "model": body["model"], "output": items,
        "usage": {
            "input_tokens": input, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input + output,
        },
    });
    if !wants_stream(body) {
        return Reply::Json(response);
    }
    let mut begun = response.clone();
    begun["status"] = "in_progress".into();
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    let mut events = vec![event("response.created", json!({"response": begun}))];
    for (index, item) in items.iter().enumerate() {
        let mut added = item.clone();
        added["status"] = "in_progress".into();
        events.push(event("response.output_item.added", json!({"output_index": index, "item": added})));
        if let Some(text) = item["content"][0]["text"].as_str() {
            let delta = json!({"item_id": item["id"], "output_index": index, "content_index": 0, "delta": text});
            events.push(event("response.output_text.delta", delta));
        }
        events.push(event("response.output_item.done", json!({"output_index": index, "item": item})));
    }
    events.push(event("response.completed", json!({"response": response})));
    Reply::Events(events)
}

fn message(say: &str) -> Option<Value> {
    let content = json!([{"type": "output_text", "text": say, "annotations": []}]);
    (!say.is_empty()).then(
        || json!({"type": "message", "id": id("msg"), "role": "assistant", "status": "completed", "content": content}),
    )
}

fn call(call: &ToolCall) -> Value {
    if call.tool.name == TOOL_SEARCH {
        return json!({
            "type": "tool_search_call", "id": id("ts"), "status": "completed", "execution": "client",
            "call_id": id("call"), "arguments": call.input,
        });
    }
    let mut item = json!({
        "type": "function_call", "id": id("fc"), "status": "completed", "name": call.tool.name,
        "call_id": id("call"), "arguments": call.input.to_string(),
    });
    if let Some(namespace) = &call.tool.namespace {
        item["namespace"] = namespace.as_str().into();
    }
    item
}

/// Returns an event whose data repeat its name.
fn event(name: &'static str, mut data: Value) -> (Option<&'static str>, Value) {
    data["type"] = name.into();
    (Some(name), data)
}
