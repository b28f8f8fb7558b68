//! Bounds for the progress and the log lines of a call.

use std::sync::Mutex;
use std::time::Instant;

use picktools::excerpt::marked;
use picktools_mcp::RequestUpdate;
use picktools_state::lock;
use serde_json::json;

/// The most updates of a kind at once, and the number that is added each second.
const MAX_BURST: u32 = 100;
const PER_SECOND: u32 = 20;
/// The most characters of a progress message.
const MAX_TEXT: usize = 4_000;
/// The most bytes of a log line.
const MAX_LOG_BYTES: usize = 16 << 10;

/// The updates that a call may still send. When dropped, it logs how many were dropped.
pub(crate) struct UpdateBudget {
    /// The name of the upstream, for messages.
    upstream: String,
    started: Instant,
    counts: Mutex<UpdateCounts>,
}

/// The numbers of updates of a call.
#[derive(Default)]
struct UpdateCounts {
    progress: u32,
    logs: u32,
    dropped: u64,
}

impl UpdateBudget {
    pub(crate) fn new(upstream: String) -> Self {
        Self {
            upstream,
            started: Instant::now(),
            counts: Mutex::default(),
        }
    }

    /// Returns an update with bounded texts; `None` if the call has sent too many.
    pub(crate) fn admit(&self, update: RequestUpdate) -> Option<RequestUpdate> {
        let seconds = u32::try_from(self.started.elapsed().as_secs()).unwrap_or(u32::MAX);
        let allowed = MAX_BURST.saturating_add(seconds.saturating_mul(PER_SECOND));
        let mut counts = lock(&self.counts);
        let count = match &update {
            RequestUpdate::Progress(_) => &mut counts.progress,
            _ => &mut counts.logs,
        };
        if *count >= allowed {
            counts.dropped += 1;
            return None;
        }
        *count += 1;
        Some(shortened(update))
    }
}

impl Drop for UpdateBudget {
    fn drop(&mut self) {
        let dropped = lock(&self.counts).dropped;
        if dropped > 0 {
            tracing::warn!(
                target: "picktools::gateway", server = %self.upstream, dropped,
                "a call sent too many progress reports or log lines"
            );
        }
    }
}

/// Shortens the texts of an update.
fn shortened(update: RequestUpdate) -> RequestUpdate {
    match update {
        RequestUpdate::Progress(mut progress) => {
            let message = progress.message.take();
            progress.message = message.map(|text| marked(&text, MAX_TEXT).into_owned());
            RequestUpdate::Progress(progress)
        }
        RequestUpdate::Log(mut line) => {
            let text = line.data.to_string();
            if text.len() > MAX_LOG_BYTES {
                let end = text.floor_char_boundary(MAX_LOG_BYTES);
                line.data = json!(format!("{} [cut]", &text[..end]));
            }
            RequestUpdate::Log(line)
        }
        update => update,
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{
        LoggingLevel, LoggingMessageNotificationParam, NumberOrString, ProgressNotificationParam,
        ProgressToken,
    };

    use super::*;

    #[test]
    fn updates_of_a_call_are_bounded_in_number_and_size() {
        let budget = UpdateBudget::new("the server \"x\"".to_owned());
        let progress = || {
            let token = ProgressToken(NumberOrString::Number(1));
            let progress = ProgressNotificationParam::new(token, 1.0);
            RequestUpdate::Progress(progress.with_message("m".repeat(100_000)))
        };
        let log = || {
            let data = json!("l".repeat(100_000));
            RequestUpdate::Log(LoggingMessageNotificationParam::new(
                LoggingLevel::Info,
                data,
            ))
        };
        let admitted: Vec<RequestUpdate> = (0..5_000)
            .filter_map(|_| budget.admit(progress()))
            .collect();
        assert!((100..300).contains(&admitted.len()), "{}", admitted.len());
        let Some(RequestUpdate::Progress(first)) = admitted.first() else {
            panic!("progress")
        };
        let message = first.message.as_deref().unwrap_or_default();
        assert!(message.len() < 2 * MAX_TEXT, "{}", message.len());
        // Progress leaves the budget of log lines alone.
        let Some(RequestUpdate::Log(line)) = budget.admit(log()) else {
            panic!("a log line")
        };
        assert!(line.data.to_string().len() < 2 * MAX_LOG_BYTES);
    }
}
