//! Export of spans of requests, picks and calls to OpenTelemetry over OTLP. The environment names
//! the collector.

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracerProvider, Tracer};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

/// The variables that name a collector, as the OTLP specification defines them.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];

/// A layer that collects spans.
type SpanLayer<S> = OpenTelemetryLayer<S, Tracer>;

/// An exporter of spans. Dropping it sends the remaining spans.
pub(crate) struct SpanExport(SdkTracerProvider);

impl Drop for SpanExport {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            crate::output::warn(format!("cannot export the last spans: {error}"));
        }
    }
}

/// Returns the layer that collects spans and their exporter, or `None` if no collector is
/// configured.
pub(crate) fn span_export<S>() -> anyhow::Result<Option<(SpanLayer<S>, SpanExport)>>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !ENDPOINTS.iter().any(is_set) {
        return Ok(None);
    }
    let exporter = SpanExporter::builder().with_http().build()?;
    let resource = Resource::builder().with_service_name("picktools").build();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("picktools"));
    Ok(Some((layer, SpanExport(provider))))
}
