//! Spans of a call.

/// Makes a span for a step of a traced call. The coordinator's background work is not traced.
macro_rules! step {
    ($name:literal) => {
        if tracing::Span::current().is_none() { tracing::Span::none() } else { tracing::debug_span!($name) }
    };
}

pub(crate) use step;
