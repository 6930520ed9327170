//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{Answer, Reply, id, wants_stream};
use crate::TOKENS;

pub(super) fn reply(body: &Value, answer: &Answer) -> Reply {
    let calls: Vec<Value> = answer
        .calls
        .iter()
        .enumerate()
        .map(|(index, call)| {
            let function = json!({"name": call.tool.name, "arguments": call.input.to_string()});
            json!({"index": index, "id": id("call"), "type": "function", "function": function})
        })
        .collect();
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let mut message = json!({"role": "assistant", "content": answer.say});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let (input, output) = (answer.input_tokens, TOKENS.1);
    let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
    let base = json!({"id": id("chatcmpl"), "created": 0, "model": body["model"], "usage": usage});
    if !wants_stream(body) {
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        return Reply::Json(with(base, json!({"object": "chat.completion", "choices": [choice]})));
    }
    let chunk = |delta: &Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let mut chunk = with(base.clone(), json!({"object": "chat.completion.chunk", "choices": [choice]}));
        if finish.is_null() {
            chunk["usage"] = Value::Null;
        }
        (None, chunk)
    };
    Reply::Events(vec![chunk(&message, Value::Null), chunk(&json!({}), finish.into()), (None, "[DONE]".into())])
}

/// Adds the fields of one object to another.
fn with(mut object: Value, fields: Value) -> Value {
    for (name, field) in fields.as_object().into_iter().flatten() {
        object[name] = field.clone();
    }
    object
}
