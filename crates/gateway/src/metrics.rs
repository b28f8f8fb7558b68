//! Metrics of a gateway: calls, picks, searches, lists, sessions, requests, and the state of
//! upstreams.

mod exposition;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use picktools_state::lock;
use serde::Serialize;

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

/// An event of a gateway. It contains names of the configuration and of tools, but no arguments and
/// no results.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum GatewayEvent<'a> {
    /// A call of a tool has ended.
    Call {
        /// The upstream.
        upstream: &'a str,
        /// The tool, by its id.
        tool: &'a str,
        /// The code of the refusal; `None` if the call was carried out.
        code: Option<&'a str>,
        /// The duration from the client's request to the answer.
        time: Duration,
    },
    /// A search has been answered.
    Search {
        /// The number of tools that were found.
        found: usize,
        /// The duration.
        time: Duration,
    },
    /// Tools were picked for a request over HTTP.
    Pick {
        /// The number of tools that were found.
        found: usize,
        /// The duration.
        time: Duration,
    },
    /// A request over HTTP was answered, or refused.
    Request {
        /// The route, without parts that a client chooses; `other` if no route matches.
        path: &'a str,
        /// The status of the response.
        status: u16,
        /// The time until the response began.
        time: Duration,
    },
    /// A client was shown a list of tools.
    List {
        /// The tokens of the list (o200k).
        tokens: usize,
        /// The tokens of all tools that the client may see.
        all_tokens: usize,
    },
    /// An upstream became reachable or unreachable.
    Upstream {
        /// The name in the configuration.
        name: &'a str,
        /// `true` if it is reachable.
        up: bool,
    },
    /// A request to a model has been passed on.
    Model {
        /// The reason why the request was passed on unchanged; `None` if its tools were narrowed.
        unchanged: Option<&'a str>,
        /// The tokens (o200k) of the definitions that the model was not shown.
        saved: usize,
        /// The time until the request was passed on.
        time: Duration,
    },
    /// A fault of the shared store began or ended.
    Store {
        /// The purpose of the commands.
        purpose: &'a str,
        /// The fault; `None` after it has ended.
        fault: Option<&'a str>,
    },
    /// A snapshot of the tools was built, or could not be built.
    Snapshot {
        /// `true` if it was built; otherwise an earlier one stays in use.
        is_current: bool,
    },
    /// A client connected or disconnected.
    Session {
        /// `true` if it connected.
        begun: bool,
    },
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

/// The counts so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GatewayCounts {
    /// The counts of each upstream.
    pub upstreams: BTreeMap<String, UpstreamCounts>,
    /// Searches.
    pub searches: u64,
    /// Searches that found nothing.
    pub empty_searches: u64,
    /// The total duration of searches, in microseconds.
    pub search_us: u64,
    /// Picks over HTTP.
    pub picks: u64,
    /// Picks that found nothing.
    pub empty_picks: u64,
    /// The total duration of picks, in microseconds.
    pub pick_us: u64,
    /// Requests over HTTP, by route and status.
    pub requests: BTreeMap<String, BTreeMap<u16, u64>>,
    /// Lists.
    pub lists: u64,
    /// The tokens of the lists that clients were shown.
    pub listed_tokens: u64,
    /// The tokens that these lists would have had with all tools.
    pub whole_tokens: u64,
    /// API requests to models.
    pub models: u64,
    /// API requests that were passed on unchanged, by reason.
    pub unchanged: BTreeMap<String, u64>,
    /// The tokens of the definitions that models were not shown.
    pub saved_tokens: u64,
    /// The total time until API requests were passed on, in microseconds.
    pub model_us: u64,
    /// The current fault of the shared store, by purpose.
    pub store: BTreeMap<String, String>,
    /// The number of faults of the shared store, by kind.
    pub store_faults: BTreeMap<String, u64>,
    /// `true` if the last snapshot of the tools could not be built.
    pub is_outdated: bool,
    /// Clients that connected.
    pub sessions: u64,
    /// Clients that are connected.
    pub open_sessions: u64,
}

/// The counts of an upstream.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UpstreamCounts {
    /// Calls that have ended.
    pub calls: u64,
    /// Calls that were not carried out, by code.
    pub refused: BTreeMap<String, u64>,
    /// The total duration of calls, in microseconds.
    pub call_us: u64,
    /// The number of times that it became reachable.
    pub starts: u64,
    /// `true` if it is reachable.
    pub up: bool,
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
