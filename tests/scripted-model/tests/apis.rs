//! The replies of each API, as a program reads them.

#![allow(clippy::unwrap_used)]

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};
use teamwire_scripted_model::{Model, Rule};

/// Posts a request, and returns the status and the body of the reply.
fn post(model: &Model, path: &str, body: &Value) -> (u16, String) {
    let address = model.address();
    let address = address.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}");
    write!(stream, "{head}\r\n\r\n{body}").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Returns the data of server-sent events.
fn events(body: &str) -> Vec<Value> {
    body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
}

fn greeter() -> Model {
    let model = Model::start();
    model.add(Rule::when("greet (\\w+)").says("Gladly.").calls("SendMessage", json!({"to": "$1"})));
    model
}

#[test]
fn anthropic_messages_are_answered_in_events() {
    let model = greeter();
    let body = json!({
        "model": "m", "stream": true, "tools": [{"name": "mcp__teamwire__SendMessage"}],
        "messages": [
            {"role": "user", "content": "greet bob"},
            {"role": "assistant", "content": "no"},
            {"role": "user", "content": [{"type": "text", "text": "greet ann"}]},
        ],
    });
    let (status, reply) = post(&model, "/v1/messages?beta=true", &body);
    assert_eq!(status, 200);
    let events = events(&reply);
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    assert_eq!(types, [&["message_start"], &block[..], &block[..], &["message_delta", "message_stop"]].concat());
    assert_eq!(events[2]["delta"]["text"], "Gladly.");
    assert_eq!(events[4]["content_block"]["name"], "mcp__teamwire__SendMessage");
    assert_eq!(events[5]["delta"]["partial_json"], "{\"to\":\"ann\"}", "only the new part counts");
    assert_eq!(events[7]["delta"]["stop_reason"], "tool_use");
}

#[test]
fn responses_are_answered_in_events_with_the_namespace_of_the_tool() {
    let model = greeter();
    let namespace = json!({"type": "namespace", "name": "mcp__teamwire__", "tools": [{"name": "SendMessage"}]});
    let body = json!({
        "model": "m", "stream": true, "tools": [{"type": "web_search"}, namespace],
        "input": [
            {"type": "function_call", "name": "shell", "arguments": "greet bob"},
            {"type": "function_call_output", "output": "ok"},
            {"role": "user", "content": [{"type": "input_text", "text": "greet ann"}]},
        ],
    });
    let (_, reply) = post(&model, "/v1/responses", &body);
    let events = events(&reply);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    let [said, called] = last["response"]["output"].as_array().unwrap().as_slice() else { panic!("{last}") };
    assert_eq!(said["content"][0]["text"], "Gladly.");
    assert_eq!((&called["name"], &called["namespace"]), (&json!("SendMessage"), &json!("mcp__teamwire__")));
    assert_eq!(called["arguments"], "{\"to\":\"ann\"}");
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done").count();
    assert_eq!(done, 2);
}

#[test]
fn chat_completions_are_answered_in_events_or_in_one_object() {
    let tool = json!({"type": "function", "function": {"name": "teamwire_SendMessage"}});
    for stream in [true, false] {
        let model = greeter();
        let messages = json!([{"role": "user", "content": "greet ann"}]);
        let body = json!({"model": "m", "stream": stream, "tools": [tool], "messages": messages});
        let (_, reply) = post(&model, "/v1/chat/completions", &body);
        let message = if stream {
            assert!(reply.ends_with("data: [DONE]\n\n"), "{reply}");
            events(&reply)[0]["choices"][0]["delta"].clone()
        } else {
            serde_json::from_str::<Value>(&reply).unwrap()["choices"][0]["message"].clone()
        };
        assert_eq!(message["content"], "Gladly.");
        let function = &message["tool_calls"][0]["function"];
        assert_eq!(
            (&function["name"], &function["arguments"]),
            (&json!("teamwire_SendMessage"), &json!("{\"to\":\"ann\"}"))
        );
    }
}

#[test]
fn gemini_is_answered_in_events_or_in_one_object() {
    let tools = json!([{"functionDeclarations": [{"name": "mcp_teamwire_SendMessage"}]}]);
    for (call, is_stream) in [("streamGenerateContent?alt=sse", true), ("generateContent", false)] {
        let model = greeter();
        let body = json!({"tools": tools, "contents": [{"role": "user", "parts": [{"text": "greet ann"}]}]});
        let (_, reply) = post(&model, &format!("/v1beta/models/m:{call}"), &body);
        let reply = if is_stream { events(&reply)[0].clone() } else { serde_json::from_str(&reply).unwrap() };
        let parts = &reply["candidates"][0]["content"]["parts"];
        assert_eq!(parts[0]["text"], "Gladly.");
        assert_eq!(parts[1]["functionCall"], json!({"name": "mcp_teamwire_SendMessage", "args": {"to": "ann"}}));
    }
}

fn ask(text: &str) -> Value {
    json!({"model": "m", "tools": [{"name": "T"}], "messages": [{"role": "user", "content": text}]})
}

#[test]
fn a_request_without_tools_uses_up_no_rule() {
    let model = greeter();
    let (_, title) = post(&model, "/v1/messages", &json!({"messages": [{"role": "user", "content": "greet ann"}]}));
    assert!(title.contains("\"done\"") && !title.contains("Gladly"), "{title}");
    assert!(post(&model, "/v1/messages", &ask("greet ann")).1.contains("Gladly."));
    let rules: Vec<_> = model.requests().into_iter().map(|request| request.rule).collect();
    assert_eq!(rules, [None, Some("greet (\\w+)".to_owned())]);
}

#[test]
fn a_gate_holds_the_reply_but_not_the_record_of_the_request() {
    let model = Model::start();
    model.add(Rule::when("wait").says("I waited.").at_gate("go"));
    std::thread::scope(|scope| {
        let reply = scope.spawn(|| post(&model, "/v1/messages", &ask("wait")).1);
        model.await_request("wait");
        assert!(!reply.is_finished());
        model.open("go");
        assert!(reply.join().unwrap().contains("I waited."));
    });
}

#[test]
fn an_outage_fails_every_request_and_uses_up_no_rule() {
    let model = greeter();
    model.fail(529);
    let (status, error) = post(&model, "/v1/messages", &ask("greet ann"));
    assert!(status == 529 && error.contains("overloaded_error"), "{error}");
    model.recover();
    assert!(post(&model, "/v1/messages", &ask("greet ann")).1.contains("Gladly."));
    model.add(Rule::when("fail").fails(503));
    assert_eq!(post(&model, "/v1/messages", &ask("fail")).0, 503);
    assert_eq!(post(&model, "/v1/nothing", &json!({})).0, 404);
}
