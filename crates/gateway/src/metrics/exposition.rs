//! What was counted, as Prometheus reads it.

use std::fmt;
use std::sync::{Arc, Mutex};

use picktools_state::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Counts, Event};

/// The upper bounds of what is told of times, in seconds.
const BOUNDS: [f64; 15] = [
    0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 20.0, 120.0,
];

type Label = [(&'static str, String); 1];

#[derive(Debug, Clone)]
struct Bounded;

impl MetricConstructor<Histogram> for Bounded {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BOUNDS)
    }
}

/// What is told, with how long things took.
#[derive(Debug)]
pub(super) struct Exposition {
    registry: Registry,
    calls: Family<Label, Histogram, Bounded>,
    requests: Family<Label, Histogram, Bounded>,
    searches: Histogram,
    picks: Histogram,
    models: Histogram,
}

impl Exposition {
    pub(super) fn new(counts: Arc<Mutex<Counts>>) -> Self {
        let mut registry = Registry::with_prefix("picktools");
        let calls = Family::new_with_constructor(Bounded);
        let requests = Family::new_with_constructor(Bounded);
        let (searches, picks, models) = (
            Bounded.new_metric(),
            Bounded.new_metric(),
            Bounded.new_metric(),
        );
        registry.register("call_seconds", "How long calls took", calls.clone());
        registry.register(
            "request_seconds",
            "How long requests took until their answer began",
            requests.clone(),
        );
        registry.register("search_seconds", "How long searches took", searches.clone());
        registry.register(
            "pick_seconds",
            "How long picks over HTTP took",
            picks.clone(),
        );
        registry.register(
            "model_seconds",
            "How long requests to models took here",
            models.clone(),
        );
        registry.register_collector(Box::new(Counted(counts)));
        Self {
            registry,
            calls,
            requests,
            searches,
            picks,
            models,
        }
    }

    pub(super) fn observe(&self, event: &Event<'_>) {
        match *event {
            Event::Call { upstream, time, .. } => {
                self.calls
                    .get_or_create(&[("upstream", upstream.to_owned())])
                    .observe(time.as_secs_f64());
            }
            Event::Request { path, time, .. } => {
                self.requests
                    .get_or_create(&[("path", path.to_owned())])
                    .observe(time.as_secs_f64());
            }
            Event::Search { time, .. } => self.searches.observe(time.as_secs_f64()),
            Event::Pick { time, .. } => self.picks.observe(time.as_secs_f64()),
            Event::Model { time, .. } => self.models.observe(time.as_secs_f64()),
            Event::List { .. }
            | Event::Upstream { .. }
            | Event::Store { .. }
            | Event::Session { .. } => {}
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        let mut text = String::new();
        encode(&mut text, &self.registry).ok()?;
        Some(text)
    }
}

/// What was counted, read when it is told.
#[derive(Debug)]
struct Counted(Arc<Mutex<Counts>>);

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = lock(&self.0).clone();
        let mut told = Told {
            encoder: &mut encoder,
        };
        let upstreams = counts.upstreams.iter();
        let calls = upstreams.clone().flat_map(|(name, upstream)| {
            let done = upstream.calls - upstream.refused.values().sum::<u64>().min(upstream.calls);
            let refused = upstream
                .refused
                .iter()
                .map(|(code, &count)| (code.as_str(), count));
            std::iter::once(("done", done))
                .chain(refused)
                .map(move |(outcome, count)| {
                    ([("upstream", name.as_str()), ("outcome", outcome)], count)
                })
        });
        told.counters("calls", "Calls of tools that have ended", calls)?;
        let starts = upstreams
            .clone()
            .map(|(name, upstream)| ([("upstream", name.as_str())], upstream.starts));
        told.counters(
            "upstream_starts",
            "How often an upstream could be reached again",
            starts,
        )?;
        let up = upstreams
            .map(|(name, upstream)| ([("upstream", name.as_str())], i64::from(upstream.up)));
        told.gauges("upstream_up", "Whether an upstream can be reached", up)?;
        let outcomes = |all: u64, empty: u64| {
            [
                ([("outcome", "found")], all - empty.min(all)),
                ([("outcome", "empty")], empty),
            ]
            .into_iter()
        };
        told.counters(
            "searches",
            "Searches for tools",
            outcomes(counts.searches, counts.empty_searches),
        )?;
        told.counters(
            "picks",
            "Picks of tools over HTTP",
            outcomes(counts.picks, counts.empty_picks),
        )?;
        let requests: Vec<(&str, String, u64)> = counts
            .requests
            .iter()
            .flat_map(|(path, by)| {
                by.iter()
                    .map(move |(status, &count)| (path.as_str(), status.to_string(), count))
            })
            .collect();
        let requests = requests
            .iter()
            .map(|(path, status, count)| ([("path", *path), ("status", status.as_str())], *count));
        told.counters("requests", "Requests over HTTP", requests)?;
        let unchanged = counts
            .unchanged
            .iter()
            .map(|(why, &count)| ([("outcome", why.as_str())], count));
        let narrowed = counts.models - counts.unchanged.values().sum::<u64>().min(counts.models);
        let models = std::iter::once(([("outcome", "narrowed")], narrowed)).chain(unchanged);
        told.counters("model_requests", "Requests to models", models)?;
        let wrong = counts.store.iter();
        let wrong = wrong.map(|(purpose, fault)| {
            (
                [("purpose", purpose.as_str()), ("fault", fault.as_str())],
                1,
            )
        });
        told.gauges(
            "store_fault",
            "What is wrong with the store that gateways share",
            wrong,
        )?;
        let faults = counts
            .store_faults
            .iter()
            .map(|(fault, &count)| ([("fault", fault.as_str())], count));
        told.counters(
            "store_faults",
            "How often something began to be wrong with that store",
            faults,
        )?;
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
                "Tokens of those lists",
                counts.listed_tokens,
            ),
            (
                "whole_tokens",
                "Tokens that all tools would have had in those lists",
                counts.whole_tokens,
            ),
            ("sessions_begun", "Clients that have come", counts.sessions),
        ] {
            let mut metric =
                told.encoder
                    .encode_descriptor(name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let open = i64::try_from(counts.open_sessions).unwrap_or(i64::MAX);
        told.encoder
            .encode_descriptor(
                "sessions",
                "Clients that are there",
                None,
                MetricType::Gauge,
            )?
            .encode_gauge(&open)
    }
}

struct Told<'a, 'e> {
    encoder: &'a mut DescriptorEncoder<'e>,
}

impl Told<'_, '_> {
    fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut metric = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            metric
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (L, i64)>,
    ) -> fmt::Result {
        let mut metric = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}
