//! Spans of a call.

/// Makes a span for a step of a call that is traced. What the coordinator does by itself is no part of a trace.
macro_rules! step {
    ($name:literal) => {
        if tracing::Span::current().is_none() { tracing::Span::none() } else { tracing::debug_span!($name) }
    };
}

pub(crate) use step;
