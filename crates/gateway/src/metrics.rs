//! What is counted: calls, picks, searches, lists, sessions, requests, and how upstreams do.

mod exposition;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use picktools_state::lock;
use serde::Serialize;

use self::exposition::Exposition;

/// Hears what happens in a gateway. Whoever does something tells of it at once, so that this must
/// not wait for anything.
pub trait Meter: Send + Sync {
    /// Hears of one thing.
    fn record(&self, event: &Event<'_>);

    /// Tells what was counted so far, for `/metrics`, in the text format of Prometheus; `None`,
    /// unless told otherwise, where that is told elsewhere.
    fn text(&self) -> Option<String> {
        None
    }

    /// Tells what was counted so far of an upstream; nothing, unless told otherwise.
    fn upstream(&self, name: &str) -> UpstreamCounts {
        let _ = name;
        UpstreamCounts::default()
    }
}

/// What happens. Names are those of the configuration and of tools; no argument and no result is
/// told.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A call of a tool has ended.
    Call {
        /// The upstream.
        upstream: &'a str,
        /// The tool, by its id.
        tool: &'a str,
        /// Why it was not carried out; `None` where it was.
        code: Option<&'a str>,
        /// How long it took, from the client's request to the answer.
        time: Duration,
    },
    /// A search has been answered.
    Search {
        /// How many tools were found.
        found: usize,
        /// How long it took.
        time: Duration,
    },
    /// Tools were picked for a request over HTTP.
    Pick {
        /// How many.
        found: usize,
        /// How long it took.
        time: Duration,
    },
    /// A request over HTTP was answered, or refused.
    Request {
        /// The route, without what is a client's own; `other` where there is none.
        path: &'a str,
        /// With which status.
        status: u16,
        /// How long it took until the answer began.
        time: Duration,
    },
    /// A client was shown a list of tools.
    List {
        /// The tokens of the list (o200k).
        tokens: usize,
        /// The tokens of all tools that the client may see.
        whole: usize,
    },
    /// An upstream could be reached, or could not any longer.
    Upstream {
        /// What the configuration calls it.
        name: &'a str,
        /// Whether it can be reached.
        up: bool,
    },
    /// A request to a model has been passed on.
    Model {
        /// Why it went on as it came; `None` where its tools were narrowed.
        unchanged: Option<&'a str>,
        /// The tokens (o200k) of the definitions that the model was not shown.
        saved: usize,
        /// How long it took until it was passed on.
        time: Duration,
    },
    /// Something is wrong with the store that gateways share, or no longer is.
    Store {
        /// What it was asked for.
        purpose: &'a str,
        /// What is wrong; `None` where nothing is any longer.
        fault: Option<&'a str>,
    },
    /// A client has come, or gone.
    Session {
        /// Whether it has come.
        begun: bool,
    },
}

/// Counts everything, in memory.
#[derive(Debug)]
pub struct Counters {
    counts: Arc<Mutex<Counts>>,
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

/// What was counted so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Of each upstream.
    pub upstreams: BTreeMap<String, UpstreamCounts>,
    /// Searches.
    pub searches: u64,
    /// Searches that found nothing.
    pub empty_searches: u64,
    /// How long searches took together, in microseconds.
    pub search_us: u64,
    /// Picks over HTTP.
    pub picks: u64,
    /// Picks that found nothing.
    pub empty_picks: u64,
    /// How long picks took together, in microseconds.
    pub pick_us: u64,
    /// Requests over HTTP, by route and status.
    pub requests: BTreeMap<String, BTreeMap<u16, u64>>,
    /// Lists.
    pub lists: u64,
    /// The tokens that clients were shown in lists, and those of all tools that they may see.
    pub listed_tokens: u64,
    /// See [`Counts::listed_tokens`].
    pub whole_tokens: u64,
    /// Requests to models.
    pub models: u64,
    /// Those that went on as they came, by why.
    pub unchanged: BTreeMap<String, u64>,
    /// The tokens of the definitions that models were not shown.
    pub saved_tokens: u64,
    /// How long requests to models took together until they were passed on, in microseconds.
    pub model_us: u64,
    /// What is wrong with the store that gateways share, by what it was asked for.
    pub store: BTreeMap<String, String>,
    /// How often something began to be wrong with it, by what that was.
    pub store_faults: BTreeMap<String, u64>,
    /// Clients that have come.
    pub sessions: u64,
    /// Clients that are there.
    pub open_sessions: u64,
}

/// What was counted of an upstream.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UpstreamCounts {
    /// Calls that have ended.
    pub calls: u64,
    /// Those that were not carried out, by why.
    pub refused: BTreeMap<String, u64>,
    /// How long calls took together, in microseconds.
    pub call_us: u64,
    /// How often it could be reached again.
    pub starts: u64,
    /// Whether it can be reached.
    pub up: bool,
}

impl Counters {
    /// Returns what was counted so far.
    pub fn counts(&self) -> Counts {
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

    fn record(&self, event: &Event<'_>) {
        self.exposition.observe(event);
        let mut counts = lock(&self.counts);
        match *event {
            Event::Call {
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
            Event::Search { found, time } => {
                counts.searches += 1;
                counts.empty_searches += u64::from(found == 0);
                counts.search_us += micros(time);
            }
            Event::Pick { found, time } => {
                counts.picks += 1;
                counts.empty_picks += u64::from(found == 0);
                counts.pick_us += micros(time);
            }
            Event::Request { path, status, .. } => {
                // Routes are few; what clients make up is not among them.
                *counts
                    .requests
                    .entry(path.to_owned())
                    .or_default()
                    .entry(status)
                    .or_default() += 1;
            }
            Event::List { tokens, whole } => {
                counts.lists += 1;
                counts.listed_tokens += tokens as u64;
                counts.whole_tokens += whole as u64;
            }
            Event::Upstream { name, up } => {
                let upstream = counts.upstreams.entry(name.to_owned()).or_default();
                upstream.starts += u64::from(up && !upstream.up);
                upstream.up = up;
            }
            Event::Model {
                unchanged,
                saved,
                time,
            } => {
                counts.models += 1;
                counts.saved_tokens += saved as u64;
                counts.model_us += micros(time);
                if let Some(why) = unchanged {
                    *counts.unchanged.entry(why.to_owned()).or_default() += 1;
                }
            }
            Event::Store {
                purpose,
                fault: Some(fault),
            } => {
                drop(counts.store.insert(purpose.to_owned(), fault.to_owned()));
                *counts.store_faults.entry(fault.to_owned()).or_default() += 1;
            }
            Event::Store {
                purpose,
                fault: None,
            } => drop(counts.store.remove(purpose)),
            Event::Session { begun: true } => {
                counts.sessions += 1;
                counts.open_sessions += 1;
            }
            Event::Session { begun: false } => {
                counts.open_sessions = counts.open_sessions.saturating_sub(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_counted_under_its_own_name() {
        let counters = Counters::default();
        let time = Duration::from_micros(1_500);
        for code in [None, Some("timed_out"), Some("timed_out")] {
            counters.record(&Event::Call {
                upstream: "git",
                tool: "git/log",
                code,
                time,
            });
        }
        counters.record(&Event::Search { found: 3, time });
        counters.record(&Event::Search { found: 0, time });
        counters.record(&Event::Pick { found: 0, time });
        for status in [200, 200, 401] {
            counters.record(&Event::Request {
                path: "/v1/pick",
                status,
                time,
            });
        }
        counters.record(&Event::List {
            tokens: 500,
            whole: 12_000,
        });
        for up in [true, true, false, true] {
            counters.record(&Event::Upstream { name: "git", up });
        }
        counters.record(&Event::Model {
            unchanged: None,
            saved: 700,
            time,
        });
        counters.record(&Event::Model {
            unchanged: Some("few-tools"),
            saved: 0,
            time,
        });
        for (purpose, fault) in [
            ("rates", Some("away")),
            ("audit", Some("full")),
            ("audit", None),
        ] {
            counters.record(&Event::Store { purpose, fault });
        }
        counters.record(&Event::Session { begun: true });
        counters.record(&Event::Session { begun: true });
        counters.record(&Event::Session { begun: false });
        let counts = counters.counts();
        let git = &counts.upstreams["git"];
        assert_eq!(
            (git.calls, git.call_us, git.refused["timed_out"]),
            (3, 4_500, 2)
        );
        assert_eq!(
            (git.starts, git.up),
            (2, true),
            "it was there all along the second time"
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

        let text = counters.text().expect("it is told");
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
            "picktools_store_fault{purpose=\"rates\",fault=\"away\"} 1",
            "picktools_store_faults_total{fault=\"full\"} 1",
            "picktools_call_seconds_count{upstream=\"git\"} 3",
            "picktools_pick_seconds_bucket{le=\"0.002\"} 1",
            "picktools_pick_seconds_bucket{le=\"0.001\"} 0",
        ] {
            assert!(
                text.lines().any(|told| told == line),
                "{line} is not in\n{text}"
            );
        }
    }

    #[test]
    fn what_others_are_called_breaks_no_line() {
        let counters = Counters::default();
        let time = Duration::ZERO;
        counters.record(&Event::Call {
            upstream: "a\"} 1\nb\\",
            tool: "t",
            code: None,
            time,
        });
        let text = counters.text().expect("it is told");
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
