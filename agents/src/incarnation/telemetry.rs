//! What OpenTelemetry learns of an agent: a span for each turn, with one for each tool call in it, and what turns use, by
//! the semantic conventions for generative AI.
//!
//! Nothing is recorded, and next to nothing is done, unless the process exports spans or metrics. Texts are left out
//! unless `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is `true`.

use std::{collections::HashMap, env};

use opentelemetry::{
    InstrumentationScope, KeyValue, global,
    metrics::{Counter, Histogram},
};
use parking_lot::Mutex;
use serde_json::json;
use teamwire_proto::{
    trace_parent,
    v1::{self, TranscriptKind},
    word::cut_middle,
};
use tokio::time::Instant;
use tracing::{Span, field::Empty};

use super::EndedTurn;
use crate::{
    config::{Mode, RunnerConfig},
    programs,
    transcript::Entry,
};

/// The version of the semantic conventions. Their part for generative AI is under development.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";

/// The variable that lets texts into spans.
const CAPTURE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// How many bytes of a text get into a span.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// How many tool calls of a turn can run at a time. Further ones get no span.
const CALLS_MAX: usize = 64;

/// How many messages a turn is linked to.
const LINKS_MAX: usize = 64;

/// How many prompts of a turn get into its span.
const PROMPTS_MAX: usize = 16;

/// The type of an error of which only a text is known.
const OTHER_ERROR: &str = "_OTHER";

/// The bounds of the buckets for tokens, as the conventions say.
const TOKEN_BOUNDS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The bounds of the buckets for the duration of a turn, in seconds: from the conventions' for one call of a model to hours.
const SECONDS_BOUNDS: [f64; 14] =
    [0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0];

/// Records the turns of one incarnation.
pub(super) struct Telemetry {
    agent: String,
    team: String,
    provider: String,
    captures_texts: bool,
    instruments: Instruments,
    state: Mutex<State>,
}

struct Instruments {
    tokens: Histogram<u64>,
    duration: Histogram<f64>,
    cost: Counter<f64>,
}

#[derive(Default)]
struct State {
    /// The trace parents of messages that the next prompt contains.
    parents: Vec<String>,
    /// The turn that runs.
    turn: Option<Turn>,
    model: String,
    conversation: String,
}

struct Turn {
    span: Span,
    began: Instant,
    /// The tool calls that run, by their ids.
    calls: HashMap<String, Span>,
    /// The texts that were given to the agent, if they are captured.
    prompts: Vec<String>,
}

impl Telemetry {
    /// Returns what records the turns of a member that has joined. `None` if its program has no turns.
    pub(super) fn new(config: &RunnerConfig, joined: &v1::JoinResponse) -> Option<Self> {
        let Mode::Agent(_) = config.mode else { return None };
        let program = config.command.first().and_then(|program| programs::find(program));
        let scope = InstrumentationScope::builder("teamwire")
            .with_version(env!("CARGO_PKG_VERSION"))
            .with_schema_url(SCHEMA_URL)
            .build();
        let meter = global::meter_with_scope(scope);
        let instruments = Instruments {
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_description("Number of input and output tokens used.")
                .with_boundaries(TOKEN_BOUNDS.to_vec())
                .build(),
            duration: meter
                .f64_histogram("gen_ai.invoke_agent.duration")
                .with_unit("s")
                .with_description("Duration of an agent's turn.")
                .with_boundaries(SECONDS_BOUNDS.to_vec())
                .build(),
            cost: meter
                .f64_counter("teamwire.cost")
                .with_unit("{USD}")
                .with_description("What agents have used, as their programs report it.")
                .build(),
        };
        Some(Self {
            agent: joined.member.as_ref().map(|member| member.name.clone()).unwrap_or_default(),
            team: joined.team.as_ref().map(|team| team.name.clone()).unwrap_or_default(),
            provider: program.map_or_else(|| "unknown".to_owned(), |program| program.provider().to_owned()),
            captures_texts: env::var(CAPTURE).is_ok_and(|set| set.eq_ignore_ascii_case("true")),
            instruments,
            state: Mutex::default(),
        })
    }

    /// Takes in that a message goes to the agent with its next prompt.
    pub(super) fn message(&self, message: &v1::Message) {
        let mut state = self.state.lock();
        if !message.trace_parent.is_empty() && state.parents.len() < LINKS_MAX {
            state.parents.push(message.trace_parent.clone());
        }
    }

    /// Takes in which model the agent uses. Empty means unknown.
    pub(super) fn model(&self, model: &str) {
        model.clone_into(&mut self.state.lock().model);
    }

    /// Takes in the id of the program's session.
    pub(super) fn conversation(&self, id: &str) {
        id.clone_into(&mut self.state.lock().conversation);
    }

    /// Takes in what the transcript records, except the end of a turn.
    pub(super) fn observe(&self, entry: &Entry) {
        let mut state = self.state.lock();
        match entry.kind {
            TranscriptKind::Prompt => self.prompt(&mut state, &entry.text),
            // It begins a turn that the program began by itself, or with a prompt that it got in the turn before.
            TranscriptKind::ToolCall => self.call(&mut state, entry),
            TranscriptKind::ToolResult => self.result(&mut state, entry),
            _ => {}
        }
    }

    /// Takes in a prompt, which begins a turn unless one runs.
    fn prompt(&self, state: &mut State, text: &str) {
        let turn = self.begin(state);
        if self.captures_texts && !turn.span.is_disabled() && turn.prompts.len() < PROMPTS_MAX {
            turn.prompts.push(cut_middle(text, TEXT_BYTES_MAX));
        }
    }

    /// Begins a turn, unless one runs.
    fn begin<'s>(&self, state: &'s mut State) -> &'s mut Turn {
        let mut parents = std::mem::take(&mut state.parents).into_iter();
        let turn = state.turn.get_or_insert_with(|| {
            let span = tracing::info_span!(
                parent: None,
                "invoke_agent",
                otel.name = format!("invoke_agent {}", self.agent),
                otel.kind = "internal",
                otel.status_code = Empty,
                otel.status_description = Empty,
                gen_ai.operation.name = "invoke_agent",
                gen_ai.provider.name = self.provider,
                gen_ai.agent.name = self.agent,
                gen_ai.conversation.id = Empty,
                gen_ai.response.model = Empty,
                gen_ai.usage.input_tokens = Empty,
                gen_ai.usage.cache_read.input_tokens = Empty,
                gen_ai.usage.output_tokens = Empty,
                gen_ai.input.messages = Empty,
                gen_ai.output.messages = Empty,
                error.type = Empty,
                teamwire.team = self.team,
                teamwire.turn.tool_calls = Empty,
                teamwire.cost = Empty,
            );
            if let Some(parent) = parents.next() {
                trace_parent::adopt(&span, &parent);
            }
            Turn { span, began: Instant::now(), calls: HashMap::new(), prompts: Vec::new() }
        });
        for other in parents {
            trace_parent::link(&turn.span, &other);
        }
        turn
    }

    fn call(&self, state: &mut State, entry: &Entry) {
        let turn = self.begin(state);
        if turn.calls.len() >= CALLS_MAX {
            return;
        }
        let span = tracing::info_span!(
            parent: &turn.span,
            "execute_tool",
            otel.name = format!("execute_tool {}", entry.tool),
            otel.kind = "internal",
            otel.status_code = Empty,
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = entry.tool,
            gen_ai.tool.call.id = entry.call_id,
            gen_ai.agent.name = self.agent,
            gen_ai.tool.call.arguments = Empty,
            gen_ai.tool.call.result = Empty,
            error.type = Empty,
        );
        if self.captures_texts {
            span.record("gen_ai.tool.call.arguments", cut_middle(&entry.text, TEXT_BYTES_MAX));
        }
        turn.calls.insert(entry.call_id.clone(), span);
    }

    fn result(&self, state: &mut State, entry: &Entry) {
        let Some(span) = state.turn.as_mut().and_then(|turn| turn.calls.remove(&entry.call_id)) else { return };
        if self.captures_texts {
            span.record("gen_ai.tool.call.result", cut_middle(&entry.text, TEXT_BYTES_MAX));
        }
        if entry.failed {
            span.record("error.type", OTHER_ERROR);
            span.record("otel.status_code", "ERROR");
        }
    }

    /// Ends the span of the turn, and counts what it has used.
    pub(super) fn turn_ended(&self, ended: &EndedTurn) {
        let mut state = self.state.lock();
        self.begin(&mut state);
        let Some(Turn { span, began, prompts, .. }) = state.turn.take() else { return };
        let began = ended.started.unwrap_or(began);
        let usage = ended.usage.unwrap_or_default();
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let texts = [("gen_ai.conversation.id", &state.conversation), ("gen_ai.response.model", &state.model)];
        for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            span.record(field, text);
        }
        let has_usage = ended.usage.is_some();
        if has_usage {
            span.record("gen_ai.usage.input_tokens", signed(usage.input_tokens));
            span.record("gen_ai.usage.cache_read.input_tokens", signed(usage.cached_input_tokens));
            span.record("gen_ai.usage.output_tokens", signed(usage.output_tokens));
        }
        let cost = micros_to_usd(usage.cost_usd_micros);
        if cost > 0.0 {
            span.record("teamwire.cost", cost);
        }
        span.record("teamwire.turn.tool_calls", ended.tool_calls);
        if self.captures_texts {
            let said = |role: &str, texts: &[String]| {
                let message = |text: &String| json!({"role": role, "parts": [{"type": "text", "content": text}]});
                json!(texts.iter().map(message).collect::<Vec<_>>()).to_string()
            };
            span.record("gen_ai.input.messages", said("user", &prompts));
            span.record("gen_ai.output.messages", said("assistant", std::slice::from_ref(&ended.final_text)));
        }
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", "invoke_agent"),
            KeyValue::new("gen_ai.provider.name", self.provider.clone()),
            KeyValue::new("gen_ai.agent.name", self.agent.clone()),
            KeyValue::new("teamwire.team", self.team.clone()),
        ];
        if !state.model.is_empty() {
            attributes.push(KeyValue::new("gen_ai.response.model", state.model.clone()));
        }
        for (kind, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            if has_usage {
                let of_kind = [&attributes[..], &[KeyValue::new("gen_ai.token.type", kind)]].concat();
                self.instruments.tokens.record(tokens, &of_kind);
            }
        }
        if cost > 0.0 {
            self.instruments.cost.add(cost, &attributes);
        }
        if !ended.cut_short.is_empty() {
            span.record("error.type", OTHER_ERROR);
            span.record("otel.status_code", "ERROR");
            span.record("otel.status_description", &ended.cut_short);
            attributes.push(KeyValue::new("error.type", OTHER_ERROR));
        }
        self.instruments.duration.record(began.elapsed().as_secs_f64(), &attributes);
    }
}

#[allow(clippy::cast_precision_loss)]
fn micros_to_usd(micros: u64) -> f64 {
    micros as f64 / 1e6
}
