//! Traces, for whoever sets the standard OpenTelemetry variables: spans go by OTLP over gRPC to the collector that
//! `OTEL_EXPORTER_OTLP_ENDPOINT` (or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) names. Without it nothing of this runs.
//!
//! Spans hold names of methods, codes, and ids of messages; never contents.

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

/// The variables of which one turns traces on.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// How long the end of the process waits for the collector.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Where spans go, if they are wanted.
#[derive(Debug, Default)]
pub struct Traces {
    provider: Option<SdkTracerProvider>,
}

impl Traces {
    /// Reads the variables. Within a Tokio runtime.
    pub fn from_env() -> Result<Self, Failure> {
        let is = |name: &str, value: &str| env::var(name).is_ok_and(|set| set.eq_ignore_ascii_case(value));
        let is_set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
        if !ENDPOINTS.iter().any(is_set) || is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(Self::default());
        }
        let exporter = SpanExporter::builder().with_tonic().build();
        let exporter = exporter.map_err(|error| Failure::local("traces cannot be exported", error))?;
        let mut resource = Resource::builder();
        if env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("teamwire");
        }
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
        Ok(Self { provider: Some(provider) })
    }

    /// Returns what takes the spans of this program out of the others and sends them, if they are wanted.
    pub fn layer<S: Subscriber + for<'s> LookupSpan<'s>>(&self) -> Option<impl Layer<S> + use<S>> {
        let ours = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("teamwire"));
        let tracer = self.provider.as_ref()?.tracer("teamwire");
        Some(tracing_opentelemetry::layer().with_tracer(tracer).with_filter(ours))
    }

    /// Sends spans, and writes no log.
    pub fn start_alone(&self) {
        if let Some(layer) = self.layer() {
            // There is a subscriber already only where a test has set one.
            let _ = tracing_subscriber::registry().with(layer).try_init();
        }
    }

    /// Makes the span of a whole command: part of the trace that the variable `TRACEPARENT` names, if it is set.
    pub fn command(&self) -> Span {
        if self.provider.is_none() {
            return Span::none();
        }
        let span = tracing::debug_span!("command", otel.name = "teamwire");
        trace_parent::adopt(&span, &env::var("TRACEPARENT").unwrap_or_default());
        span
    }

    /// Sends what is left. Blocks for as long as [`FLUSH_TIMEOUT`]; what is not sent then is lost.
    pub fn flush(&self) {
        if let Some(provider) = &self.provider {
            // A collector that is not there must not make a command fail.
            let _ = provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
    }
}
