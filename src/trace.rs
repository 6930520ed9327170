//! Tracing, enabled by the standard OpenTelemetry variables.
//!
//! Spans are exported as OTLP over gRPC to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` (or
//! `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) names. Without one of them, tracing is off and costs nothing.
//!
//! Spans carry method names, status codes and message ids, never message contents.

use std::{env, time::Duration};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use teamwire_proto::trace_parent;
use tracing::{Span, Subscriber};
use tracing_subscriber::{
    Layer, filter::filter_fn, layer::SubscriberExt as _, registry::LookupSpan, util::SubscriberInitExt as _,
};

use crate::failure::Failure;

/// The variables that enable tracing; either one is enough.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// How long the process waits for the collector before it exits.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// The span exporter, if tracing is enabled.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    provider: Option<SdkTracerProvider>,
}

impl Traces {
    /// Configures tracing from the environment. Must be called within a Tokio runtime.
    pub(crate) fn from_env() -> Result<Self, Failure> {
        let is = |name: &str, value: &str| env::var(name).is_ok_and(|set| set.eq_ignore_ascii_case(value));
        let is_set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
        if !ENDPOINTS.iter().any(is_set) || is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(Self::default());
        }
        let exporter = SpanExporter::builder().with_tonic().build();
        let exporter = exporter.map_err(|error| Failure::local("Cannot set up the trace exporter", error))?;
        let mut resource = Resource::builder();
        if env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("teamwire");
        }
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
        Ok(Self { provider: Some(provider) })
    }

    /// Returns the layer that exports teamwire's own spans, or `None` if tracing is off.
    pub(crate) fn layer<S: Subscriber + for<'s> LookupSpan<'s>>(&self) -> Option<impl Layer<S> + use<S>> {
        let ours = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("teamwire"));
        let tracer = self.provider.as_ref()?.tracer("teamwire");
        Some(tracing_opentelemetry::layer().with_tracer(tracer).with_filter(ours))
    }

    /// Installs a subscriber that exports spans and writes no log, for commands other than `serve`.
    pub(crate) fn install_subscriber(&self) {
        if let Some(layer) = self.layer() {
            // Fails only if a test has installed a subscriber already.
            let _ = tracing_subscriber::registry().with(layer).try_init();
        }
    }

    /// Returns the span of a whole command, as a child of the trace in the variable `TRACEPARENT` if that is set.
    pub(crate) fn command_span(&self) -> Span {
        if self.provider.is_none() {
            return Span::none();
        }
        let span = tracing::debug_span!("command", otel.name = "teamwire");
        trace_parent::adopt(&span, &env::var("TRACEPARENT").unwrap_or_default());
        span
    }

    /// Exports the remaining spans. Blocks for up to [`FLUSH_TIMEOUT`]; spans not sent by then are lost.
    pub(crate) fn flush(&self) {
        if let Some(provider) = &self.provider {
            // An unreachable collector must not make a command fail.
            let _ = provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
    }
}
