//! Anthropic Messages.

use serde_json::{Value, json};

use super::{Answer, Reply, id, wants_stream};
use crate::TOKENS;

pub(super) fn reply(body: &Value, answer: &Answer) -> Reply {
    let blocks = blocks(answer);
    let stop = if answer.calls.is_empty() { "end_turn" } else { "tool_use" };
    let mut message = json!({
        "id": id("msg"), "type": "message", "role": "assistant", "model": body["model"],
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": answer.input_tokens, "output_tokens": 0,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        },
    });
    if !wants_stream(body) {
        message["content"] = blocks.into();
        message["stop_reason"] = stop.into();
        message["usage"]["output_tokens"] = TOKENS.1.into();
        return Reply::Json(message);
    }
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, block) in blocks.into_iter().enumerate() {
        let (start, delta) = opened(block);
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": stop, "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": TOKENS.1}}));
    events.push(json!({"type": "message_stop"}));
    Reply::Events(events.into_iter().map(|event| (Some(name(&event)), event)).collect())
}

fn blocks(answer: &Answer) -> Vec<Value> {
    let text = (!answer.say.is_empty()).then(|| json!({"type": "text", "text": answer.say}));
    let calls = answer
        .calls
        .iter()
        .map(|call| json!({"type": "tool_use", "id": id("toolu"), "name": call.tool.name, "input": call.input}));
    text.into_iter().chain(calls).collect()
}

/// Splits a block into the empty one that opens it, and its content.
fn opened(mut block: Value) -> (Value, Value) {
    if block["type"] == "text" {
        let text = std::mem::replace(&mut block["text"], "".into());
        return (block, json!({"type": "text_delta", "text": text}));
    }
    let input = std::mem::replace(&mut block["input"], json!({}));
    (block, json!({"type": "input_json_delta", "partial_json": input.to_string()}))
}

/// Returns the name of an event, which repeats its type.
fn name(event: &Value) -> &'static str {
    const NAMES: [&str; 6] = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    NAMES.into_iter().find(|name| event["type"] == *name).expect("a type from the list")
}
