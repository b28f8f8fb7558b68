//! Summaries of measured times.

use std::time::Duration;

use serde_json::{Value, json};

/// Returns number and quantiles of times, in milliseconds.
pub(crate) fn summary(mut times: Vec<Duration>) -> Value {
    times.sort_unstable();
    let at = |share: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a length is a position"
        )]
        let position = (times.len().saturating_sub(1) as f64 * share) as usize;
        times.get(position).map(|time| milliseconds(*time))
    };
    json!({"count": times.len(), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0)})
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
