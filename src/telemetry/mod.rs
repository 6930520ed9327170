//! Traces and metrics, enabled by the standard OpenTelemetry variables.
//!
//! They are exported to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT`, or the variable for one of them, names. Without
//! it, nothing is recorded, which costs nothing.
//!
//! Spans carry method names, status codes and message ids, never message contents, unless a runner is asked for them.

mod exporter;

use std::{env, sync::OnceLock, time::Duration};

use opentelemetry::{KeyValue, global, trace::TracerProvider as _};
use opentelemetry_sdk::{Resource, metrics::SdkMeterProvider, trace::SdkTracerProvider};
use teamwire_proto::trace_parent;
use tracing::{Span, Subscriber};
use tracing_subscriber::{
    Layer, filter::filter_fn, layer::SubscriberExt as _, registry::LookupSpan, util::SubscriberInitExt as _,
};
use uuid::Uuid;

use self::exporter::Signal;
use crate::failure::Failure;

/// How long the process waits for the collector before it exits.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// What exports spans and metrics, if that is enabled.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    spans: Option<SdkTracerProvider>,
    metrics: OnceLock<SdkMeterProvider>,
}

impl Telemetry {
    /// Configures traces from the environment. Must be called within a Tokio runtime.
    pub(crate) fn from_env() -> Result<Self, Failure> {
        if !Signal::Traces.is_exported() {
            return Ok(Self::default());
        }
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter::spans()?).with_resource(resource());
        Ok(Self { spans: Some(provider.build()), metrics: OnceLock::new() })
    }

    /// Configures metrics from the environment, for a process that has any.
    pub(crate) fn export_metrics(&self) -> Result<(), Failure> {
        if !Signal::Metrics.is_exported() {
            return Ok(());
        }
        let exporter = exporter::metrics()?;
        let provider = self.metrics.get_or_init(|| {
            SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource()).build()
        });
        global::set_meter_provider(provider.clone());
        Ok(())
    }

    /// Returns the layer that exports teamwire's own spans, or `None` if tracing is off.
    pub(crate) fn layer<S: Subscriber + for<'s> LookupSpan<'s>>(&self) -> Option<impl Layer<S> + use<S>> {
        let ours = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("teamwire"));
        let tracer = self.spans.as_ref()?.tracer("teamwire");
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
        if self.spans.is_none() {
            return Span::none();
        }
        let span = tracing::debug_span!("command", otel.name = "teamwire");
        trace_parent::adopt(&span, &env::var("TRACEPARENT").unwrap_or_default());
        span
    }

    /// Exports what remains. Blocks for up to [`FLUSH_TIMEOUT`] for each signal; what is not sent by then is lost.
    pub(crate) fn flush(&self) {
        // An unreachable collector must not make a command fail.
        if let Some(provider) = &self.spans {
            let _ = provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
        if let Some(provider) = self.metrics.get() {
            let _ = provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// Describes this process.
fn resource() -> Resource {
    // The metrics of two processes must not be taken for those of one.
    let instance = KeyValue::new("service.instance.id", Uuid::new_v4().to_string());
    let resource = Resource::builder().with_attribute(instance);
    match env::var_os("OTEL_SERVICE_NAME") {
        None => resource.with_service_name("teamwire").build(),
        Some(_) => resource.build(),
    }
}
