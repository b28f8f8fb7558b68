//! What is counted: calls, searches, lists, sessions, and how upstreams do.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;

use crate::lock::lock;

/// Hears what happens in a gateway. Whoever does something tells of it at once, so that this must not wait for anything.
pub trait Meter: Send + Sync {
    /// Hears of one thing.
    fn record(&self, event: &Event<'_>);
}

/// What happens. Names are those of the configuration and of tools; no argument and no result is told.
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
    /// A client has come, or gone.
    Session {
        /// Whether it has come.
        begun: bool,
    },
}

/// Counts everything, in memory.
#[derive(Debug, Default)]
pub struct Counters(Mutex<Counts>);

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
        lock(&self.0).clone()
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Meter for Counters {
    fn record(&self, event: &Event<'_>) {
        let mut counts = lock(&self.0);
        match *event {
            Event::Call { upstream, code, time, .. } => {
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
            Event::Model { unchanged, saved, time } => {
                counts.models += 1;
                counts.saved_tokens += saved as u64;
                counts.model_us += micros(time);
                if let Some(why) = unchanged {
                    *counts.unchanged.entry(why.to_owned()).or_default() += 1;
                }
            }
            Event::Session { begun: true } => {
                counts.sessions += 1;
                counts.open_sessions += 1;
            }
            Event::Session { begun: false } => counts.open_sessions = counts.open_sessions.saturating_sub(1),
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
            counters.record(&Event::Call { upstream: "git", tool: "git/log", code, time });
        }
        counters.record(&Event::Search { found: 3, time });
        counters.record(&Event::Search { found: 0, time });
        counters.record(&Event::List { tokens: 500, whole: 12_000 });
        for up in [true, true, false, true] {
            counters.record(&Event::Upstream { name: "git", up });
        }
        counters.record(&Event::Model { unchanged: None, saved: 700, time });
        counters.record(&Event::Model { unchanged: Some("few-tools"), saved: 0, time });
        counters.record(&Event::Session { begun: true });
        counters.record(&Event::Session { begun: true });
        counters.record(&Event::Session { begun: false });
        let counts = counters.counts();
        let git = &counts.upstreams["git"];
        assert_eq!((git.calls, git.call_us, git.refused["timed_out"]), (3, 4_500, 2));
        assert_eq!((git.starts, git.up), (2, true), "it was there all along the second time");
        assert_eq!((counts.searches, counts.empty_searches, counts.search_us), (2, 1, 3_000));
        assert_eq!((counts.lists, counts.listed_tokens, counts.whole_tokens), (1, 500, 12_000));
        assert_eq!((counts.models, counts.saved_tokens, counts.model_us), (2, 700, 3_000));
        assert_eq!(counts.unchanged["few-tools"], 1);
        assert_eq!((counts.sessions, counts.open_sessions), (2, 1));
    }
}
