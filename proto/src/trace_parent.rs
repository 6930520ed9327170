//! The trace that a call or a message belongs to, in the form of W3C trace context: `00-TRACE-SPAN-FLAGS`, 55
//! characters.
//!
//! With the feature `opentelemetry`, spans are connected to it. A span has no trace parent unless an OpenTelemetry
//! layer records it; asking costs next to nothing.

#[cfg(feature = "opentelemetry")]
pub use spans::{adopt, link, of};

/// The metadata key that carries it.
pub const METADATA_KEY: &str = "traceparent";

/// Returns whether a text is a trace parent of version 00.
pub fn is_valid(text: &str) -> bool {
    parse(text).is_some()
}

/// Splits a trace parent into the hexadecimal digits of the trace, the span and the flags.
fn parse(text: &str) -> Option<(&str, &str, &str)> {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    let mut parts = text.strip_prefix("00-")?.split('-');
    let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
    let has_form = parts.next().is_none() && (trace.len(), span.len(), flags.len()) == (32, 16, 2);
    let is_sound = has_form && [trace, span, flags].into_iter().all(is_hex) && !is_zero(trace) && !is_zero(span);
    is_sound.then_some((trace, span, flags))
}

#[cfg(feature = "opentelemetry")]
mod spans {
    use opentelemetry::{
        Context,
        trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState},
    };
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    /// Returns the trace parent that names a span. `None` if the span is not recorded.
    pub fn of(span: &Span) -> Option<String> {
        let context = span.context();
        let span = context.span().span_context().clone();
        let flags = span.trace_flags().to_u8() & 1;
        span.is_valid().then(|| format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id()))
    }

    /// Makes a span that has not been entered yet a child of the span that a trace parent names, if it is valid.
    pub fn adopt(span: &Span, text: &str) {
        if !span.is_disabled()
            && let Some(parent) = context(text)
        {
            // Fails when no layer records spans.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        }
    }

    /// Links a span to the span that a trace parent names, if it is valid.
    pub fn link(span: &Span, text: &str) {
        if !span.is_disabled()
            && let Some(other) = context(text)
        {
            span.add_link(other);
        }
    }

    fn context(text: &str) -> Option<SpanContext> {
        let (trace, span, flags) = super::parse(text)?;
        let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()? & 1);
        let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
        Some(SpanContext::new(trace, span, flags, true, TraceState::NONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_version_00_of_w3c_trace_context_is_accepted() {
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

    #[cfg(feature = "opentelemetry")]
    #[test]
    fn an_unrecorded_span_has_no_trace_parent() {
        assert_eq!(of(&tracing::Span::none()), None);
        assert_eq!(of(&tracing::Span::current()), None);
    }
}
