//! Metrics of a gateway: calls, picks, searches, lists, sessions, requests, and the state of
//! upstreams.

mod event;
mod counts;
mod exposition;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use picktools_state::lock;

pub use self::counts::{GatewayCounts, UpstreamCounts};
pub use self::event::GatewayEvent;
use self::exposition::Exposition;

/// A receiver of the events of a gateway. It is called directly from the code that serves requests,
/// so it must not block.
pub trait Meter: Send + Sync {
    /// Records an event.
    fn record(&self, event: &GatewayEvent<'_>);

    /// Returns the metrics in the text format of Prometheus, for `/metrics`; `None` by default, for
    /// meters that report elsewhere.
    fn text(&self) -> Option<String> {
        None
    }

    /// Returns the counts of an upstream; all zero by default.
    fn upstream(&self, name: &str) -> UpstreamCounts {
        let _ = name;
        UpstreamCounts::default()
    }
}

/// Counters in memory.
#[derive(Debug)]
pub struct Counters {
    counts: Arc<Mutex<GatewayCounts>>,
    exposition: Exposition,
}

impl Default for Counters {
    fn default() -> Self {
        let counts = Arc::default();
        Self {
            exposition: Exposition::new(Arc::clone(&counts)),
            counts,
        }
    }
}

impl Counters {
    /// Returns the counts so far.
    pub fn counts(&self) -> GatewayCounts {
        lock(&self.counts).clone()
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Meter for Counters {
    fn text(&self) -> Option<String> {
        self.exposition.text()
    }

    fn upstream(&self, name: &str) -> UpstreamCounts {
        lock(&self.counts)
            .upstreams
            .get(name)
            .cloned()
            .unwrap_or_default()
    }

    fn record(&self, event: &GatewayEvent<'_>) {
        self.exposition.observe(event);
        let mut counts = lock(&self.counts);
        match *event {
            GatewayEvent::Call {
                upstream,
                code,
                time,
                ..
            } => {
                let upstream = counts.upstreams.entry(upstream.to_owned()).or_default();
                upstream.calls += 1;
                upstream.call_us += micros(time);
                if let Some(code) = code {
                    *upstream.refused.entry(code.to_owned()).or_default() += 1;
                }
            }
            GatewayEvent::Search { found, time } => {
                counts.searches += 1;
                counts.empty_searches += u64::from(found == 0);
                counts.search_us += micros(time);
            }
            GatewayEvent::Pick { found, time } => {
                counts.picks += 1;
                counts.empty_picks += u64::from(found == 0);
                counts.pick_us += micros(time);
            }
            GatewayEvent::Request { path, status, .. } => {
                // There are few routes; paths that clients make up are not counted separately.
                *counts
                    .requests
                    .entry(path.to_owned())
                    .or_default()
                    .entry(status)
                    .or_default() += 1;
            }
            GatewayEvent::List { tokens, all_tokens } => {
                counts.lists += 1;
                counts.listed_tokens += tokens as u64;
                counts.whole_tokens += all_tokens as u64;
            }
            GatewayEvent::Upstream { name, up } => {
                let upstream = counts.upstreams.entry(name.to_owned()).or_default();
                upstream.starts += u64::from(up && !upstream.up);
                upstream.up = up;
            }
            GatewayEvent::Model {
                unchanged,
                saved,
                time,
            } => {
                counts.models += 1;
                counts.saved_tokens += saved as u64;
                counts.model_us += micros(time);
                if let Some(reason) = unchanged {
                    *counts.unchanged.entry(reason.to_owned()).or_default() += 1;
                }
            }
            GatewayEvent::Store {
                purpose,
                fault: Some(fault),
            } => {
                drop(counts.store.insert(purpose.to_owned(), fault.to_owned()));
                *counts.store_faults.entry(fault.to_owned()).or_default() += 1;
            }
            GatewayEvent::Store {
                purpose,
                fault: None,
            } => drop(counts.store.remove(purpose)),
            GatewayEvent::Snapshot { is_current } => counts.is_outdated = !is_current,
            GatewayEvent::Session { begun: true } => {
                counts.sessions += 1;
                counts.open_sessions += 1;
            }
            GatewayEvent::Session { begun: false } => {
                counts.open_sessions = counts.open_sessions.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_counted_under_its_name() {
        let counters = Counters::default();
        let time = Duration::from_micros(1_500);
        for code in [None, Some("timed_out"), Some("timed_out")] {
            counters.record(&GatewayEvent::Call {
                upstream: "git",
                tool: "git/log",
                code,
                time,
            });
        }
        counters.record(&GatewayEvent::Search { found: 3, time });
        counters.record(&GatewayEvent::Search { found: 0, time });
        counters.record(&GatewayEvent::Pick { found: 0, time });
        for status in [200, 200, 401] {
            counters.record(&GatewayEvent::Request {
                path: "/v1/pick",
                status,
                time,
            });
        }
        counters.record(&GatewayEvent::List {
            tokens: 500,
            all_tokens: 12_000,
        });
        for up in [true, true, false, true] {
            counters.record(&GatewayEvent::Upstream { name: "git", up });
        }
        counters.record(&GatewayEvent::Model {
            unchanged: None,
            saved: 700,
            time,
        });
        counters.record(&GatewayEvent::Model {
            unchanged: Some("few-tools"),
            saved: 0,
            time,
        });
        for (purpose, fault) in [
            ("rates", Some("away")),
            ("audit", Some("full")),
            ("audit", None),
        ] {
            counters.record(&GatewayEvent::Store { purpose, fault });
        }
        counters.record(&GatewayEvent::Snapshot { is_current: false });
        counters.record(&GatewayEvent::Session { begun: true });
        counters.record(&GatewayEvent::Session { begun: true });
        counters.record(&GatewayEvent::Session { begun: false });
        let counts = counters.counts();
        let git = &counts.upstreams["git"];
        assert_eq!(
            (git.calls, git.call_us, git.refused["timed_out"]),
            (3, 4_500, 2)
        );
        assert_eq!(
            (git.starts, git.up),
            (2, true),
            "a repeated report changes nothing"
        );
        assert_eq!(
            (counts.searches, counts.empty_searches, counts.search_us),
            (2, 1, 3_000)
        );
        assert_eq!(
            (counts.lists, counts.listed_tokens, counts.whole_tokens),
            (1, 500, 12_000)
        );
        assert_eq!(
            (counts.models, counts.saved_tokens, counts.model_us),
            (2, 700, 3_000)
        );
        assert_eq!(counts.unchanged["few-tools"], 1);
        assert_eq!((counts.sessions, counts.open_sessions), (2, 1));
        assert_eq!(
            (
                counts.picks,
                counts.empty_picks,
                counts.requests["/v1/pick"][&401]
            ),
            (1, 1, 1)
        );

        let text = counters.text().expect("metrics");
        for line in [
            "picktools_calls_total{upstream=\"git\",outcome=\"done\"} 1",
            "picktools_calls_total{upstream=\"git\",outcome=\"timed_out\"} 2",
            "picktools_upstream_up{upstream=\"git\"} 1",
            "picktools_upstream_starts_total{upstream=\"git\"} 2",
            "picktools_searches_total{outcome=\"empty\"} 1",
            "picktools_picks_total{outcome=\"found\"} 0",
            "picktools_requests_total{path=\"/v1/pick\",status=\"401\"} 1",
            "picktools_model_requests_total{outcome=\"few-tools\"} 1",
            "picktools_model_requests_total{outcome=\"narrowed\"} 1",
            "picktools_saved_tokens_total 700",
            "picktools_sessions 1",
            "picktools_snapshot_outdated 1",
            "picktools_store_fault{purpose=\"rates\",fault=\"away\"} 1",
            "picktools_store_faults_total{fault=\"full\"} 1",
            "picktools_call_seconds_count{upstream=\"git\"} 3",
            "picktools_pick_seconds_bucket{le=\"0.002\"} 1",
            "picktools_pick_seconds_bucket{le=\"0.001\"} 0",
        ] {
            assert!(
                text.lines().any(|exposed| exposed == line),
                "{line} is not in\n{text}"
            );
        }
    }

    #[test]
    fn labels_are_escaped() {
        let counters = Counters::default();
        let time = Duration::ZERO;
        counters.record(&GatewayEvent::Call {
            upstream: "a\"} 1\nb\\",
            tool: "t",
            code: None,
            time,
        });
        let text = counters.text().expect("metrics");
        assert!(
            text.contains(r#"picktools_calls_total{upstream="a\"} 1\nb\\",outcome="done"} 1"#),
            "{text}"
        );
        assert!(
            text.lines()
                .all(|line| line.starts_with("# ") || line.starts_with("picktools_")),
            "{text}"
        );
    }
}
