//! Gemini.

use serde_json::{Value, json};

use super::{Answer, Reply};
use crate::TOKENS;

/// How the path ends of a call that streams its reply.
pub(super) const STREAM: &str = ":streamGenerateContent";

pub(super) fn reply(path: &str, answer: &Answer) -> Reply {
    let text = (!answer.say.is_empty()).then(|| json!({"text": answer.say}));
    let calls = answer.calls.iter().map(|call| json!({"functionCall": {"name": call.tool.name, "args": call.input}}));
    let parts: Vec<Value> = text.into_iter().chain(calls).collect();
    let (input, output) = (answer.input_tokens, TOKENS.1);
    let reply = json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output,
        },
        "modelVersion": "scripted",
    });
    if path.ends_with(STREAM) { Reply::Events(vec![(None, reply)]) } else { Reply::Json(reply) }
}
