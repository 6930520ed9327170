//! Serves the APIs.

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Method, StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    Script,
    api::{Answer, Api, Reply, Tool},
    request::{Request, text_of},
    rule::Rule,
};

/// What the model says if no rule matches.
const DEFAULT: &str = "done";

pub(crate) async fn serve(listener: TcpListener, script: Arc<Script>) {
    let app = Router::new().fallback(handle).layer(DefaultBodyLimit::disable()).with_state(script);
    // It ends with the runtime.
    let _ = axum::serve(listener, app).await;
}

async fn handle(
    State(script): State<Arc<Script>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let path = uri.path();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let line = format!("{method} {path}");
    let api = if method == Method::POST { Api::at(path) } else { None };
    let Some(api) = api else {
        script.record(Request { line, new: String::new(), text: text_of(&body), tools: Vec::new(), rule: None, body });
        return beside_the_model(path);
    };
    if !body.is_object() {
        let encoding = headers.get("content-encoding").and_then(|value| value.to_str().ok()).unwrap_or("none");
        return failure(400, &format!("the body is not an object of JSON (its encoding: {encoding})"));
    }
    let new: String = api.new_items(&body).iter().map(text_of).collect();
    let tools = api.tools(&body);
    let decision = script.decide(line, &new, &tools, &body);
    if let Some(gate) = decision.gate {
        // The sender lives as long as the script.
        let _ = script.gates.subscribe().wait_for(|open| open.contains(&gate)).await;
    }
    match decision.status {
        // An API refuses a session that has become too long.
        Some(400) => failure(400, "prompt is too long: the script says so"),
        Some(status) => failure(status, "the script says so"),
        None => send(api.reply(path, &body, &decision.answer)),
    }
}

/// What a request gets.
struct Decision {
    answer: Answer,
    gate: Option<String>,
    status: Option<u16>,
}

impl Script {
    /// Records a request, and finds the rule that answers it.
    fn decide(&self, line: String, new: &str, offered: &[Tool], body: &Value) -> Decision {
        let mut state = self.state.lock();
        let outage = state.outage;
        let tools = offered.iter().map(|tool| tool.name.clone()).collect();
        let mut request =
            Request { line, new: new.to_owned(), text: text_of(body), tools, rule: None, body: body.clone() };
        let default = Answer { say: DEFAULT.to_owned(), calls: Vec::new(), input_tokens: crate::TOKENS.0 };
        let mut decision = Decision { answer: default, gate: None, status: outage };
        if outage.is_none() && !offered.is_empty() {
            let answered = |rule: &mut Rule| rule.answer(new, offered).map(|answer| (answer, rule.clone()));
            if let Some((answer, rule)) = state.rules.iter_mut().find_map(answered) {
                request.rule = Some(rule.when.to_string());
                decision = Decision { answer, gate: rule.gate, status: rule.status };
            }
        }
        drop(state);
        self.record(request);
        decision
    }

    fn record(&self, request: Request) {
        let mut state = self.state.lock();
        if let Some(observe) = state.observer {
            observe(&request);
        }
        state.requests.push(request);
        self.asked.notify_all();
    }
}

/// Answers the requests that programs send besides those to the model.
fn beside_the_model(path: &str) -> Response {
    let body = match path {
        "/" => json!({}),
        _ if path.ends_with("/count_tokens") => json!({"input_tokens": crate::TOKENS.0}),
        _ if path.ends_with(":countTokens") => json!({"totalTokens": crate::TOKENS.0}),
        _ if path.ends_with("/models") => json!({"object": "list", "data": [], "models": []}),
        _ => return failure(404, "the scripted model serves no such path"),
    };
    json_response(200, &body)
}

/// Returns an error that every program understands.
fn failure(status: u16, message: &str) -> Response {
    let (kind, name) = match status {
        400 => ("invalid_request_error", "INVALID_ARGUMENT"),
        529 => ("overloaded_error", "UNAVAILABLE"),
        _ => ("api_error", "UNAVAILABLE"),
    };
    let error = json!({"type": kind, "code": status, "status": name, "message": message});
    json_response(status, &json!({"type": "error", "error": error}))
}

fn json_response(status: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn send(reply: Reply) -> Response {
    let events = match reply {
        Reply::Json(body) => return json_response(200, &body),
        Reply::Events(events) => events,
    };
    let line = |(name, data): &(Option<&str>, Value)| {
        let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        // The end of a stream is a word, not JSON.
        let data = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
        format!("{name}data: {data}\n\n")
    };
    let body: String = events.iter().map(line).collect();
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}
