//! Running one call on a thread of its own, within its time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::super::context::{Context, Output};
use super::super::events::{EventKind, EventType};
use super::super::result::{ErrorType, PREVIEW_LINES, ToolResult};
use super::super::tool::RunnableTool;
use super::{Told, ToolManager};
use picktools::deadline;
use picktools::excerpt::MAX_NAME_CHARS;
use picktools_call::{ValidCall, size};

/// How long a tool that was cancelled may take to say what it had done.
const GRACE: Duration = Duration::from_millis(30);
/// How long a quick tool is waited for without giving up the thread.
const AWAKE: Duration = Duration::from_micros(20);
/// The largest result, in bytes of JSON.
const MAX_RESULT_BYTES: usize = 8 << 20;

impl ToolManager {
    pub(super) async fn run(
        &self,
        told: &Told,
        tool: &Arc<dyn RunnableTool>,
        valid: ValidCall,
        cancellation: CancellationToken,
    ) -> ToolResult {
        let Ok(handle) = Handle::try_current() else {
            return ToolResult::failure(
                ErrorType::System,
                "tools run on a Tokio runtime, and there is none",
            );
        };
        let _turn_to_run = tokio::select! {
            permit = self.shared.running.acquire() => permit,
            () = cancellation.cancelled() => return cancelled(),
        };
        let limit = tool
            .time_limit(valid.arguments())
            .unwrap_or(self.shared.time_limit);
        // What is too far away to be a point in time is far enough.
        let deadline = Instant::now()
            .checked_add(limit)
            .unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        let context = Context {
            call: Arc::clone(&told.call),
            events: self.shared.events.clone(),
            cancellation: cancellation.clone(),
            deadline,
            root: Arc::clone(&self.shared.root),
            files: self.shared.files.clone(),
            output: Arc::new(Output::default()),
        };
        let output = Arc::clone(&context.output);
        // Whatever becomes of this future, nothing more is told of a call that has ended.
        let _ended = Ended(&output);
        if self.shared.events.are_heard(EventType::Start) {
            let (validated, no_schema_mode) = (valid.validated(), valid.no_schema_mode());
            let kind = EventKind::Start {
                arguments: told.arguments.clone(),
                validated,
                no_schema_mode,
            };
            self.shared.events.tell(&told.call, kind);
        }
        if !valid.validated() {
            tracing::info!(
                tool = valid.tool().id.chars().take(MAX_NAME_CHARS).collect::<String>(),
                mode = ?valid.no_schema_mode(),
                validated = false,
                "a tool runs with arguments that no schema vouches for"
            );
        }
        let (sender, mut receiver) = oneshot::channel();
        let unwanted = CancellationToken::new();
        let _unwanted_when_dropped = unwanted.clone().drop_guard();
        let tool = Arc::clone(tool);
        let work = move || {
            handle.block_on(async {
                tokio::select! {
                    biased;
                    result = tool.run(&valid, &context) => {
                        // Nobody listens any more where the call was given up.
                        let _unheard = sender.send(result);
                    }
                    () = unwanted.cancelled() => {}
                }
            });
        };
        let _thread = match deadline::thread(work) {
            Ok(thread) => thread,
            Err(reason) => {
                return ToolResult::failure(ErrorType::System, format!("it was not run: {reason}"));
            }
        };
        // Most tools are quick: to be put to sleep and woken again would take longer than they do.
        let begun = Instant::now();
        while begun.elapsed() < AWAKE {
            match receiver.try_recv() {
                Ok(result) => return ended(Some(result)),
                Err(TryRecvError::Closed) => return ended(None),
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
            }
        }
        let over = tokio::select! {
            biased;
            result = &mut receiver => return ended(result.ok()),
            () = cancellation.cancelled() => cancelled(),
            () = sleep_until(deadline.into()) => {
                let late = ToolResult::failure(ErrorType::System, format!("it did not end within {limit:?}"));
                late.suggest("Ask for less at once, or allow it more time.")
            }
        };
        cancellation.cancel();
        match timeout(GRACE, receiver).await {
            Ok(Ok(result)) => ended(Some(result)),
            _ => over,
        }
    }
}

pub(super) fn cancelled() -> ToolResult {
    ToolResult::failure(ErrorType::User, "the call was cancelled")
}

/// A result, held to its bounds; there is none of a tool that panicked.
fn ended(result: Option<ToolResult>) -> ToolResult {
    let Some(result) = result else {
        return ToolResult::failure(ErrorType::System, "the tool panicked");
    };
    let failure = result.failure.as_ref();
    let told = failure.map_or(0, |failure| {
        failure.error.len() + failure.suggestion.as_ref().map_or(0, String::len)
    });
    match result.fields.values().try_fold(told, |sum, value| {
        let left = MAX_RESULT_BYTES.checked_sub(sum)?;
        Some(sum + size(value, left)?)
    }) {
        Some(bytes) if bytes <= MAX_RESULT_BYTES => result,
        _ => ToolResult::failure(
            ErrorType::System,
            format!("its result is larger than {MAX_RESULT_BYTES} bytes"),
        )
        .suggest("Ask for less at once."),
    }
}

/// What a tool shows of a result; its own code, which may panic.
pub(super) fn preview(tool: &dyn RunnableTool, result: &ToolResult) -> Vec<String> {
    // The base preview says it better where something failed.
    if !result.is_success() {
        return result.preview(PREVIEW_LINES);
    }
    let mut lines =
        catch_unwind(AssertUnwindSafe(|| tool.preview(result, PREVIEW_LINES))).unwrap_or_default();
    lines.truncate(PREVIEW_LINES);
    lines
}

/// Ends what a call may tell.
struct Ended<'a>(&'a Output);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
