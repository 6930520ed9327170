//! The spans of messages: each lasts from delivery until the acknowledgement is confirmed.
//!
//! A span continues the trace of the message's sender. One call acknowledges many messages: it belongs to the trace of
//! the first and is linked to the others. Nothing is kept here while no spans are recorded.

use std::collections::HashMap;

use teamwire_proto::{trace_parent, v1};
use tracing::Span;

/// The spans of messages whose acknowledgement is not confirmed.
#[derive(Debug, Default)]
pub(super) struct Traces {
    spans: HashMap<String, Span>,
}

impl Traces {
    /// Begins a message's span, unless there are already `max` spans.
    pub(super) fn begin(&mut self, message: &v1::Message, max: usize) {
        if message.trace_parent.is_empty() || self.spans.len() >= max {
            return;
        }
        let span = tracing::debug_span!(
            "process",
            otel.kind = "consumer",
            messaging.system = "teamwire",
            messaging.message.id = message.id
        );
        trace_parent::adopt(&span, &message.trace_parent);
        if trace_parent::of(&span).is_some() {
            self.spans.insert(message.id.clone(), span);
        }
    }

    /// Creates the span of a call that acknowledges these messages.
    pub(super) fn ack(&self, ids: &[String]) -> Span {
        let mut traced = ids.iter().filter_map(|id| self.spans.get(id));
        let Some(first) = traced.next() else { return Span::none() };
        let span = tracing::debug_span!(parent: first, "ack", messages = ids.len());
        for other in traced.filter_map(trace_parent::of) {
            trace_parent::link(&span, &other);
        }
        span
    }

    /// Ends the spans of messages.
    pub(super) fn end(&mut self, ids: &[String]) {
        for id in ids {
            self.spans.remove(id);
        }
    }
}
