//! Runs one call on its own thread within its time limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::super::context::{Context, Output};
use super::super::events::{EventKind, EventType};
use super::super::result::{ErrorType, ToolResult};
use super::super::tool::RunnableTool;
use super::redacted::RedactedCall;
use super::results::cancelled;
use super::state::ToolManager;
use picktools::deadline;
use picktools::excerpt::MAX_NAME_CHARS;
use picktools_call::{ValidCall, size};

/// The time that a cancelled tool has to return a partial result.
const GRACE: Duration = Duration::from_millis(30);
/// The time to spin for the result of a quick tool before the task sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// The largest result, in bytes of JSON.
const MAX_RESULT_BYTES: usize = 8 << 20;

impl ToolManager {
    /// Runs a confirmed call and returns its result within the limits.
    pub(super) async fn run_within_limits(
        &self,
        redacted: &RedactedCall,
        tool: &Arc<dyn RunnableTool>,
        valid: ValidCall,
        cancellation: CancellationToken,
    ) -> ToolResult {
        let Ok(handle) = Handle::try_current() else {
            return ToolResult::failure(
                ErrorType::System,
                "no Tokio runtime: tools need one to run",
            );
        };
        let _permit = tokio::select! {
            permit = self.shared.running.acquire() => permit,
            () = cancellation.cancelled() => return cancelled(),
        };
        let limit = tool
            .time_limit(valid.arguments())
            .unwrap_or(self.shared.time_limit);
        // A limit beyond the range of `Instant` becomes 34 years.
        let deadline = Instant::now()
            .checked_add(limit)
            .unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        let context = Context {
            call: Arc::clone(&redacted.call),
            manager: Some(Arc::new(self.clone())),
            events: self.shared.events.clone(),
            cancellation: cancellation.clone(),
            deadline,
            root: Arc::clone(&self.shared.root),
            files: self.shared.files.clone(),
            changes: self.shared.changes.clone(),
            folders: self.shared.folders.clone(),
            output: Arc::new(Output::default()),
        };
        let output = Arc::clone(&context.output);
        // Closes the output even if this future is dropped, so that no chunk follows the end.
        let _guard = OutputGuard(&output);
        if self.shared.events.has_subscribers(EventType::Start) {
            let (validated, no_schema_mode) = (valid.validated(), valid.no_schema_mode());
            let kind = EventKind::Start {
                arguments: redacted.arguments.clone(),
                validated,
                no_schema_mode,
                repaired: redacted.repaired.clone(),
            };
            self.shared.events.publish(&redacted.call, kind);
        }
        if !valid.validated() {
            tracing::info!(
                tool = valid.tool().id.chars().take(MAX_NAME_CHARS).collect::<String>(),
                mode = ?valid.no_schema_mode(),
                validated = false,
                "running a tool with arguments that were not validated against a schema"
            );
        }
        let (sender, mut receiver) = oneshot::channel();
        let abandoned = CancellationToken::new();
        let _abandoned_when_dropped = abandoned.clone().drop_guard();
        let tool = Arc::clone(tool);
        let work = move || {
            handle.block_on(async {
                tokio::select! {
                    biased;
                    result = tool.run(&valid, &context) => {
                        // The receiver is gone if the call was abandoned.
                        let _ignored = sender.send(result);
                    }
                    () = abandoned.cancelled() => {}
                }
            });
        };
        let _thread = match deadline::spawn(work) {
            Ok(thread) => thread,
            Err(reason) => {
                let message = format!("the tool was not run: {reason}");
                return ToolResult::failure(ErrorType::System, message);
            }
        };
        // Most tools are quick: sleeping and waking would take longer than the tool.
        let started = Instant::now();
        while started.elapsed() < SPIN {
            match receiver.try_recv() {
                Ok(result) => return check_size(Some(result)),
                Err(TryRecvError::Closed) => return check_size(None),
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
            }
        }
        let failure = tokio::select! {
            biased;
            result = &mut receiver => return check_size(result.ok()),
            () = cancellation.cancelled() => cancelled(),
            () = sleep_until(deadline.into()) => {
                let message = format!("the tool did not end within {limit:?}");
                ToolResult::failure(ErrorType::System, message)
                    .suggest("Request less at once, or raise the time limit.")
            }
        };
        cancellation.cancel();
        match timeout(GRACE, receiver).await {
            Ok(Ok(result)) => check_size(Some(result)),
            _ => failure,
        }
    }
}

/// Checks the size of a result; `None` is the result of a tool that panicked.
fn check_size(result: Option<ToolResult>) -> ToolResult {
    let Some(result) = result else {
        return ToolResult::failure(ErrorType::System, "the tool panicked");
    };
    let mut message_bytes = 0;
    if let Some(failure) = &result.failure {
        message_bytes = failure.error.len();
        if let Some(suggestion) = &failure.suggestion {
            message_bytes += suggestion.len();
        }
    }
    let total = result
        .fields
        .values()
        .try_fold(message_bytes, |sum, value| {
            let remaining = MAX_RESULT_BYTES.checked_sub(sum)?;
            Some(sum + size(value, remaining)?)
        });
    match total {
        Some(bytes) if bytes <= MAX_RESULT_BYTES => result,
        _ => ToolResult::failure(
            ErrorType::System,
            format!("the result is larger than {MAX_RESULT_BYTES} bytes"),
        )
        .suggest("Request less at once."),
    }
}

/// A guard that closes the output of a call when it is dropped.
struct OutputGuard<'a>(&'a Output);

impl Drop for OutputGuard<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
