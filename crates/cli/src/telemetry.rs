//! Spans of requests, picks and calls, exported to OpenTelemetry over OTLP where the environment
//! names a collector.

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracerProvider, Tracer};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

/// The variables that name a collector, as the specification of OTLP has them.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];

/// What exports; dropped, it sends what is left.
pub(crate) struct Exporting(SdkTracerProvider);

impl Drop for Exporting {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            crate::output::warn(format!("the last spans were not exported: {error}"));
        }
    }
}

/// What takes spans in, and what exports them; `None` where no collector is named.
pub(crate) fn exporting<S>() -> anyhow::Result<Option<(OpenTelemetryLayer<S, Tracer>, Exporting)>>
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
    Ok(Some((layer, Exporting(provider))))
}
