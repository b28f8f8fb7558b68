//! The metrics in the text format of Prometheus.

use std::fmt;
use std::sync::{Arc, Mutex};

use picktools_state::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::counts::GatewayCounts;
use super::event::GatewayEvent;

/// The upper bounds of the duration histograms, in seconds.
const DURATION_BOUNDS: [f64; 15] = [
    0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 20.0, 120.0,
];

type Label = [(&'static str, String); 1];

#[derive(Debug, Clone)]
struct DurationBuckets;

impl MetricConstructor<Histogram> for DurationBuckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(DURATION_BOUNDS)
    }
}

/// The registry of all metrics, with the duration histograms.
#[derive(Debug)]
pub(super) struct Exposition {
    registry: Registry,
    calls: Family<Label, Histogram, DurationBuckets>,
    requests: Family<Label, Histogram, DurationBuckets>,
    searches: Histogram,
    picks: Histogram,
    models: Histogram,
}

impl Exposition {
    pub(super) fn new(counts: Arc<Mutex<GatewayCounts>>) -> Self {
        let mut registry = Registry::with_prefix("picktools");
        let calls = Family::new_with_constructor(DurationBuckets);
        let requests = Family::new_with_constructor(DurationBuckets);
        let (searches, picks, models) = (
            DurationBuckets.new_metric(),
            DurationBuckets.new_metric(),
            DurationBuckets.new_metric(),
        );
        registry.register("call_seconds", "Duration of calls", calls.clone());
        registry.register(
            "request_seconds",
            "Time until responses began",
            requests.clone(),
        );
        registry.register("search_seconds", "Duration of searches", searches.clone());
        registry.register("pick_seconds", "Duration of picks over HTTP", picks.clone());
        registry.register(
            "model_seconds",
            "Time until API requests to models were passed on",
            models.clone(),
        );
        registry.register_collector(Box::new(CountsCollector(counts)));
        Self {
            registry,
            calls,
            requests,
            searches,
            picks,
            models,
        }
    }

    pub(super) fn observe(&self, event: &GatewayEvent<'_>) {
        match *event {
            GatewayEvent::Call { upstream, time, .. } => {
                self.calls
                    .get_or_create(&[("upstream", upstream.to_owned())])
                    .observe(time.as_secs_f64());
            }
            GatewayEvent::Request { path, time, .. } => {
                self.requests
                    .get_or_create(&[("path", path.to_owned())])
                    .observe(time.as_secs_f64());
            }
            GatewayEvent::Search { time, .. } => self.searches.observe(time.as_secs_f64()),
            GatewayEvent::Pick { time, .. } => self.picks.observe(time.as_secs_f64()),
            GatewayEvent::Model { time, .. } => self.models.observe(time.as_secs_f64()),
            GatewayEvent::List { .. }
            | GatewayEvent::Upstream { .. }
            | GatewayEvent::Store { .. }
            | GatewayEvent::Snapshot { .. }
            | GatewayEvent::Session { .. } => {}
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        let mut text = String::new();
        encode(&mut text, &self.registry).ok()?;
        Some(text)
    }
}

/// A collector that reads the counts when the metrics are requested.
#[derive(Debug)]
struct CountsCollector(Arc<Mutex<GatewayCounts>>);

impl Collector for CountsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = lock(&self.0).clone();
        let mut writer = MetricWriter {
            encoder: &mut encoder,
        };
        writer.write_upstreams(&counts)?;
        writer.write_requests(&counts)?;
        writer.write_models(&counts)?;
        writer.write_store(&counts)?;
        writer.write_totals(&counts)
    }
}

struct MetricWriter<'a, 'e> {
    encoder: &'a mut DescriptorEncoder<'e>,
}

impl MetricWriter<'_, '_> {
    fn write_upstreams(&mut self, counts: &GatewayCounts) -> fmt::Result {
        let mut calls = self.counters("calls", "Completed tool calls")?;
        for (name, upstream) in &counts.upstreams {
            let refused: u64 = upstream.refused.values().sum();
            let completed = upstream.calls - refused.min(upstream.calls);
            let name = ("upstream", name.as_str());
            calls.write_count(&[name, ("outcome", "done")], completed)?;
            for (code, &count) in &upstream.refused {
                calls.write_count(&[name, ("outcome", code.as_str())], count)?;
            }
        }
        let mut starts = self.counters("upstream_starts", "Times an upstream became reachable")?;
        for (name, upstream) in &counts.upstreams {
            starts.write_count(&[("upstream", name.as_str())], upstream.starts)?;
        }
        let mut up = self.gauges("upstream_up", "1 if an upstream is reachable")?;
        for (name, upstream) in &counts.upstreams {
            up.write_gauge(&[("upstream", name.as_str())], i64::from(upstream.up))?;
        }
        Ok(())
    }

    fn write_requests(&mut self, counts: &GatewayCounts) -> fmt::Result {
        let mut searches = self.counters("searches", "Searches for tools")?;
        searches.write_outcomes(counts.searches, counts.empty_searches)?;
        let mut picks = self.counters("picks", "Picks of tools over HTTP")?;
        picks.write_outcomes(counts.picks, counts.empty_picks)?;
        let mut requests = self.counters("requests", "Requests over HTTP")?;
        for (path, statuses) in &counts.requests {
            for (status, &count) in statuses {
                let status = status.to_string();
                let labels = [("path", path.as_str()), ("status", status.as_str())];
                requests.write_count(&labels, count)?;
            }
        }
        Ok(())
    }

    fn write_models(&mut self, counts: &GatewayCounts) -> fmt::Result {
        let unchanged: u64 = counts.unchanged.values().sum();
        let narrowed = counts.models - unchanged.min(counts.models);
        let mut models = self.counters("model_requests", "API requests to models")?;
        models.write_count(&[("outcome", "narrowed")], narrowed)?;
        for (reason, &count) in &counts.unchanged {
            models.write_count(&[("outcome", reason.as_str())], count)?;
        }
        Ok(())
    }

    fn write_store(&mut self, counts: &GatewayCounts) -> fmt::Result {
        let mut current_faults =
            self.gauges("store_fault", "Current faults of the shared store")?;
        for (purpose, fault) in &counts.store {
            let labels = [("purpose", purpose.as_str()), ("fault", fault.as_str())];
            current_faults.write_gauge(&labels, 1)?;
        }
        let mut faults = self.counters("store_faults", "Faults of the shared store")?;
        for (fault, &count) in &counts.store_faults {
            faults.write_count(&[("fault", fault.as_str())], count)?;
        }
        Ok(())
    }

    fn write_totals(&mut self, counts: &GatewayCounts) -> fmt::Result {
        for (name, help, count) in [
            (
                "saved_tokens",
                "Tokens of definitions that models were not shown",
                counts.saved_tokens,
            ),
            (
                "lists",
                "Lists of tools that clients were shown",
                counts.lists,
            ),
            (
                "listed_tokens",
                "Tokens of the lists that clients were shown",
                counts.listed_tokens,
            ),
            (
                "whole_tokens",
                "Tokens that the lists would have had with all tools",
                counts.whole_tokens,
            ),
            ("sessions_begun", "Clients that connected", counts.sessions),
        ] {
            let mut metric =
                self.encoder
                    .encode_descriptor(name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        self.encoder
            .encode_descriptor(
                "snapshot_outdated",
                "1 while a new list of tools cannot be built",
                None,
                MetricType::Gauge,
            )?
            .encode_gauge(&i64::from(counts.is_outdated))?;
        let open = i64::try_from(counts.open_sessions).unwrap_or(i64::MAX);
        self.encoder
            .encode_descriptor("sessions", "Connected clients", None, MetricType::Gauge)?
            .encode_gauge(&open)
    }

    fn counters<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
    ) -> Result<LabelledMetric<'s>, fmt::Error> {
        let counter = MetricType::Counter;
        let metric = self.encoder.encode_descriptor(name, help, None, counter)?;
        Ok(LabelledMetric(metric))
    }

    fn gauges<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
    ) -> Result<LabelledMetric<'s>, fmt::Error> {
        let gauge = MetricType::Gauge;
        let metric = self.encoder.encode_descriptor(name, help, None, gauge)?;
        Ok(LabelledMetric(metric))
    }
}

/// A metric with one value for each set of labels.
struct LabelledMetric<'e>(MetricEncoder<'e>);

impl LabelledMetric<'_> {
    fn write_count<L: EncodeLabelSet>(&mut self, labels: &L, value: u64) -> fmt::Result {
        let mut metric = self.0.encode_family(labels)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn write_gauge<L: EncodeLabelSet>(&mut self, labels: &L, value: i64) -> fmt::Result {
        let mut metric = self.0.encode_family(labels)?;
        metric.encode_gauge(&value)
    }

    /// Writes the number of requests that found something, and of those that found nothing.
    fn write_outcomes(&mut self, all: u64, empty: u64) -> fmt::Result {
        self.write_count(&[("outcome", "found")], all - empty.min(all))?;
        self.write_count(&[("outcome", "empty")], empty)
    }
}
