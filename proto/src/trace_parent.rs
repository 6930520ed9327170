//! The trace that a call or a message belongs to, in the form of the W3C: `00-TRACE-SPAN-FLAGS`, 55 characters.
//!
//! A span that is not recorded, because no OpenTelemetry layer is installed, has none, and finding that out costs next
//! to nothing.

use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState},
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The metadata key that carries it.
pub const METADATA_KEY: &str = "traceparent";

/// Returns whether a text is a trace parent of the version that is known here.
pub fn is_valid(text: &str) -> bool {
    parse(text).is_some()
}

/// Returns the trace parent that names a span. None: the span is not recorded.
pub fn of(span: &Span) -> Option<String> {
    let context = span.context();
    let span = context.span().span_context().clone();
    span.is_valid().then(|| format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), span.trace_flags().to_u8() & 1))
}

/// Makes a span that was not entered yet a child of what a trace parent names, if it names anything.
pub fn adopt(span: &Span, text: &str) {
    if !span.is_disabled()
        && let Some(parent) = parse(text)
    {
        // It fails where nothing records spans.
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }
}

/// Links a span to what a trace parent names, if it names anything.
pub fn link(span: &Span, text: &str) {
    if !span.is_disabled()
        && let Some(other) = parse(text)
    {
        span.add_link(other);
    }
}

fn parse(text: &str) -> Option<SpanContext> {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut parts = text.strip_prefix("00-")?.split('-');
    let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || (trace.len(), span.len(), flags.len()) != (32, 16, 2) {
        return None;
    }
    if ![trace, span, flags].into_iter().all(is_hex) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()? & 1);
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_form_of_the_w3c_is_taken() {
        assert!(is_valid("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        for wrong in [
            "",
            "00",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
            "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
        ] {
            assert!(!is_valid(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_span_that_nobody_records_has_none() {
        assert_eq!(of(&Span::none()), None);
        assert_eq!(of(&Span::current()), None);
    }
}
