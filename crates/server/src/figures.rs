//! How each upstream does: what is heard of it is counted here, and goes on to whoever else counts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::lock::lock;
use crate::metrics::{Event, Meter};

/// Counts for the console what a meter hears.
pub(crate) struct Figures {
    upstreams: Mutex<BTreeMap<String, UpstreamFigures>>,
    meter: Arc<dyn Meter>,
}

/// What was counted of an upstream since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UpstreamFigures {
    /// Calls that have ended.
    pub(crate) calls: u64,
    /// Those that were not carried out, by why.
    pub(crate) refused: BTreeMap<String, u64>,
    /// How long calls took together, and the slowest of them.
    pub(crate) time: Duration,
    pub(crate) slowest: Duration,
    /// How often it could be reached again.
    pub(crate) starts: u64,
    is_up: bool,
}

impl UpstreamFigures {
    /// How long a call took on average; `None` where there was none.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let calls = u32::try_from(self.calls).unwrap_or(u32::MAX);
        self.time.checked_div(calls)
    }
}

impl Figures {
    /// Figures that pass on what they hear.
    pub(crate) fn before(meter: Arc<dyn Meter>) -> Self {
        Self { upstreams: Mutex::default(), meter }
    }

    pub(crate) fn of(&self, upstream: &str) -> UpstreamFigures {
        lock(&self.upstreams).get(upstream).cloned().unwrap_or_default()
    }

    fn count(&self, upstream: &str, count: impl FnOnce(&mut UpstreamFigures)) {
        count(lock(&self.upstreams).entry(upstream.to_owned()).or_default());
    }
}

impl Meter for Figures {
    fn record(&self, event: &Event<'_>) {
        match *event {
            Event::Call { upstream, code, time, .. } => self.count(upstream, |figures| {
                figures.calls += 1;
                figures.time += time;
                figures.slowest = figures.slowest.max(time);
                if let Some(code) = code {
                    *figures.refused.entry(code.to_owned()).or_default() += 1;
                }
            }),
            Event::Upstream { name, up } => self.count(name, |figures| {
                figures.starts += u64::from(up && !figures.is_up);
                figures.is_up = up;
            }),
            _ => {}
        }
        self.meter.record(event);
    }
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Figures").field("upstreams", &*lock(&self.upstreams)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Counters;

    #[test]
    fn what_is_counted_goes_on() {
        let counters = Arc::new(Counters::default());
        let figures = Figures::before(Arc::clone(&counters) as Arc<dyn Meter>);
        for (code, time) in [(None, 10), (Some("timed_out"), 30)] {
            figures.record(&Event::Call { upstream: "git", tool: "git/log", code, time: Duration::from_millis(time) });
        }
        for up in [true, true, false, true] {
            figures.record(&Event::Upstream { name: "git", up });
        }
        let git = figures.of("git");
        assert_eq!((git.calls, git.starts, git.refused["timed_out"]), (2, 2, 1));
        assert_eq!((git.mean(), git.slowest), (Some(Duration::from_millis(20)), Duration::from_millis(30)));
        assert_eq!(counters.counts().upstreams["git"].calls, 2);
        assert_eq!(figures.of("mail").mean(), None);
    }
}
