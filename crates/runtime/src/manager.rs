//! The tool manager: the only path from a model's call to its result.

mod builder;
mod error;
mod nested;
mod redacted;
mod results;
mod run;
mod state;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio_util::sync::CancellationToken;

pub use builder::ToolManagerBuilder;
pub use error::ManagerError;
pub use state::ToolManager;

use redacted::RedactedCall;
use state::RunningCall;

use super::confirmation::{Approvals, ConfirmHook, NotAllowed};
use super::events::{CallInfo, EventKind, Events};
use super::files::{FileError, FileLedger};
use super::lock;
use super::redaction;
use super::result::{ErrorType, ToolResult};
use super::tool::RunnableTool;
use super::turn::CallEffect;
use picktools::catalog::Catalog;
use picktools_call::{
    ArgumentFault, CallError, HydratedCall, LimitedRepairer, PendingCall, PendingReason, Repairer,
    ValidCall,
};
use picktools_provider::{
    CallResult, Provider, ToolCall, TranslateError, TranslateOptions, Translation, translate,
};

/// A call with its result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExecutedCall {
    /// The call as in its events.
    pub call: Arc<CallInfo>,
    /// The result.
    pub result: Arc<ToolResult>,
    /// The preview for a user interface, at most three lines.
    pub preview: Vec<String>,
    /// The changes of the arguments, one text for each, with redacted secrets.
    pub repaired: Vec<String>,
}

impl ExecutedCall {
    /// Makes the result for the model, for [`Provider::results`]: the fields, or the error with a
    /// suggestion to correct the call.
    pub fn call_result(&self) -> CallResult {
        CallResult {
            id: self.call.provider_id.clone(),
            name: self.call.names.requested.clone(),
            outcome: self.result.model_outcome(),
        }
    }
}

impl ToolManager {
    /// Returns the catalog of all tools, including the tools that this caller may not use.
    pub fn catalog(&self) -> &Catalog {
        self.hydrator.catalog()
    }

    /// Returns the tool with a name, an alias, or a variant spelling of them, if the caller may use
    /// it.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn RunnableTool>> {
        let tool = self.hydrator.find_tool(name).ok()?;
        self.shared.runners.get(&tool.id)
    }

    /// Returns `true` if a name, an alias, or a variant spelling of them means a tool that the
    /// caller may use.
    pub fn is_callable(&self, name: &str) -> bool {
        self.hydrator.find_tool(name).is_ok()
    }

    /// Translates the tools that this caller may use to a provider's format.
    ///
    /// # Errors
    ///
    /// As [`translate`].
    pub fn definitions(
        &self,
        provider: Provider,
        options: &TranslateOptions,
    ) -> Result<Translation, TranslateError> {
        let mut tools = Vec::new();
        for tool in self.hydrator.admitted() {
            if self.shared.runners.contains_key(&tool.id) {
                tools.push(Arc::clone(tool));
            }
        }
        translate(&tools, provider, options)
    }

    /// Returns a manager that expects calls in the form of a translation, as
    /// [`Hydrator::translated`](picktools_call::Hydrator::translated) does. It shares everything
    /// else with this manager.
    #[must_use]
    pub fn translated(&self, translation: &Translation) -> Self {
        Self {
            hydrator: self.hydrator.translated(translation),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Returns the events, to subscribe to them.
    pub fn events(&self) -> &Events {
        &self.shared.events
    }

    /// Returns the calls that wait for a decision.
    pub fn approvals(&self) -> &Approvals {
        &self.shared.approvals
    }

    /// Returns the record of files that tools have read and written.
    pub fn files(&self) -> &FileLedger {
        &self.shared.files
    }

    /// Ends the turn, after which its calls may be repeated and its changes of files can no longer
    /// be undone. The record of files stays.
    pub fn clear_current_turn(&self) {
        self.shared.turn.clear();
        self.shared.changes.clear();
    }

    /// Forgets the calls of the turn, the record of files and the folders of terminal sessions.
    pub fn clear_state(&self) {
        self.clear_current_turn();
        self.shared.files.clear();
        self.shared.folders.clear();
    }

    /// Cancels a running call; `false` if no running call has this id.
    pub fn cancel(&self, call_id: &str) -> bool {
        let token = lock(&self.shared.cancellations).get(call_id).cloned();
        token.inspect(CancellationToken::cancel).is_some()
    }

    /// Cancels all running calls.
    pub fn cancel_all(&self) {
        for token in lock(&self.shared.cancellations).values() {
            token.cancel();
        }
    }

    /// Cancels all calls, and releases everything that tools keep between calls: connections and
    /// the programs behind them.
    pub async fn close(&self) {
        self.cancel_all();
        join_all(self.shared.runners.values().map(|tool| tool.close())).await;
    }

    /// Runs the calls of one answer concurrently, and returns them with their results in the same
    /// order. A call of a tool that [`RunnableTool::runs_in_order`] waits for the earlier calls, and
    /// the later calls wait for it.
    pub async fn execute_all(&self, calls: &[ToolCall]) -> Vec<ExecutedCall> {
        let repairer = self.shared.repairer.as_deref().map(LimitedRepairer::new);
        let repairer = repairer.as_ref().map(|repairer| repairer as &dyn Repairer);
        let calls = self.hydrator.expand_parallel(calls.to_vec());
        let runs_in_order = |call: &ToolCall| {
            let tool = self.get(&call.name);
            tool.is_some_and(|tool| tool.runs_in_order())
        };
        let mut executed = Vec::with_capacity(calls.len());
        for group in calls.chunk_by(|left, right| !runs_in_order(left) && !runs_in_order(right)) {
            let running = group.iter().map(|call| self.execute_with(call, repairer));
            executed.extend(join_all(running).await);
        }
        executed
    }

    /// Runs a call. It resolves the name, checks the access policy, validates the arguments (and lets
    /// the [repairer](ToolManagerBuilder::repairer) rewrite them once if they are invalid), asks for a confirmation if needed, and rejects a repeated call of the turn. It then runs the tool
    /// and records the result.
    ///
    /// Every failure becomes a result. Dropping the future cancels the call.
    pub fn execute<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ExecutedCall> {
        self.execute_with(call, self.shared.repairer.as_deref())
    }

    /// Runs a call that was validated earlier, such as a step of a plan, maybe by a
    /// [`Hydrator`](picktools_call::Hydrator) of another catalog or caller.
    ///
    /// The manager checks it again: its own catalog must have the tool with the same definition,
    /// and its own access policy must allow the call. A call that needs a confirmation here is
    /// confirmed, unless [`ValidCall::confirmation`] answers the question. The other stages are
    /// those of [`execute`](Self::execute).
    pub fn run(&self, call: ValidCall) -> BoxFuture<'_, ExecutedCall> {
        self.run_hydrated(HydratedCall::Ready(call)).boxed()
    }

    /// Runs a call that waits for a confirmation, once the manager's [`Confirm`](super::Confirm)
    /// hook allows it. The call is checked again, as in [`run`](Self::run).
    pub fn run_pending(&self, call: PendingCall) -> BoxFuture<'_, ExecutedCall> {
        self.run_hydrated(HydratedCall::NeedsApproval(call)).boxed()
    }

    async fn run_hydrated(&self, call: HydratedCall) -> ExecutedCall {
        let running = RunningCall::new(&self.shared);
        let redacted = RedactedCall::from_hydrated(&running, &call);
        match self.hydrator.revalidate(call) {
            Err(error) => {
                let result = ToolResult::failure(error_type(&error), error.to_string());
                self.finish(&redacted, None, result)
            }
            Ok(hydrated) => self.confirm_and_run(&running, redacted, hydrated).await,
        }
    }

    fn execute_with<'a>(
        &'a self,
        call: &'a ToolCall,
        repairer: Option<&'a dyn Repairer>,
    ) -> BoxFuture<'a, ExecutedCall> {
        // Boxed because every crate that awaits an `async fn` compiles its body again.
        self.execute_unboxed(call, repairer).boxed()
    }

    async fn execute_unboxed(
        &self,
        call: &ToolCall,
        repairer: Option<&dyn Repairer>,
    ) -> ExecutedCall {
        let running = RunningCall::new(&self.shared);
        let hydrated = match repairer {
            None => self.hydrator.hydrate(call),
            Some(repairer) => tokio::select! {
                biased;
                hydrated = self.hydrator.hydrate_with(call, repairer) => hydrated,
                () = running.cancellation.cancelled() => {
                    let (redacted, tool) = self.redact_unchecked(&running, call, None);
                    return self.finish(&redacted, tool, results::cancelled());
                }
            },
        };
        match hydrated {
            Err(error) => self.reject(&running, call, &error),
            Ok(hydrated) => {
                let redacted = RedactedCall::from_hydrated(&running, &hydrated);
                self.confirm_and_run(&running, redacted, hydrated).await
            }
        }
    }

    /// Asks for a confirmation if the call needs one, and runs the call.
    async fn confirm_and_run(
        &self,
        running: &RunningCall<'_>,
        redacted: RedactedCall,
        hydrated: HydratedCall,
    ) -> ExecutedCall {
        let cancellation = running.cancellation.clone();
        let Some(tool) = self.shared.runners.get(&hydrated.tool().id) else {
            let failure =
                ToolResult::failure(ErrorType::System, "no runner is registered for this tool");
            return self.finish(&redacted, None, failure);
        };
        let needs_confirmation = hydrated.tool().is_unsafe() || tool.requires_confirmation();
        let hydrated = match hydrated {
            HydratedCall::Ready(valid) if needs_confirmation && valid.confirmation().is_none() => {
                HydratedCall::NeedsApproval(PendingCall::new(valid, PendingReason::Confirmation))
            }
            other => other,
        };
        let valid = match hydrated {
            HydratedCall::Ready(valid) => valid,
            HydratedCall::NeedsApproval(pending) => {
                let decision = tokio::select! {
                    decision = self.decide(pending) => decision,
                    () = cancellation.cancelled() => Err("the call was cancelled".to_owned()),
                };
                match decision {
                    Ok(valid) => valid,
                    Err(reason) => {
                        let failure = ToolResult::failure(
                            ErrorType::Permission,
                            format!("the call was not confirmed: {reason}"),
                        );
                        return self.finish(&redacted, Some(tool), failure);
                    }
                }
            }
        };
        let claim = self.shared.turn.claim(
            &valid.tool().id,
            valid.arguments(),
            effect(tool.as_ref(), &valid),
        );
        let Some(claim) = claim else {
            let failure = ToolResult::failure(
                ErrorType::Validation,
                "the same call was already made in this turn",
            );
            let failure =
                failure.suggest("Use the earlier result, or call it with other arguments.");
            return self.finish(&redacted, Some(tool), failure);
        };
        let mut written_paths = tool.writes(valid.arguments());
        for path in &mut written_paths {
            *path = self.shared.root.join(&*path);
        }
        for path in &written_paths {
            if let Err(error) = self.shared.files.check_write(path) {
                return self.finish(&redacted, Some(tool), write_failure(&error));
            }
        }
        let guard = CancelledCallGuard {
            manager: self,
            redacted: &redacted,
            tool,
        };
        let result = self
            .run_within_limits(&redacted, tool, valid, cancellation)
            .await;
        std::mem::forget(guard);
        if result.is_success() {
            claim.keep();
        }
        for path in &written_paths {
            self.shared.files.note_written(path);
        }
        self.finish(&redacted, Some(tool), result)
    }

    /// Asks for the decision on a call. Returns the call if it is approved, else the reason.
    async fn decide(&self, pending: PendingCall) -> Result<ValidCall, String> {
        let Some(confirm) = &self.shared.confirm else {
            return Err(format!(
                "{}, but no confirmation handler is set",
                pending.awaits()
            ));
        };
        match pending.ask(&ConfirmHook(confirm.as_ref())).await {
            Ok(confirmation) => pending
                .confirm(confirmation)
                .map_err(|error| error.to_string()),
            Err(NotAllowed::Denied(reason)) => Err(reason),
            Err(NotAllowed::Waits) => self.shared.approvals.ask(pending).await,
        }
    }

    /// Returns the result of a call that is not valid.
    fn reject(
        &self,
        running: &RunningCall<'_>,
        call: &ToolCall,
        error: &CallError,
    ) -> ExecutedCall {
        let (redacted, runner) = self.redact_unchecked(running, call, Some(error));
        let message = self
            .hydrator
            .error_result(call, error)
            .outcome
            .err()
            .unwrap_or_default();
        let result = match error {
            CallError::UnknownTool { .. } => {
                let result = ToolResult::failure(ErrorType::Validation, message);
                return self.publish_end(&redacted, runner, result);
            }
            CallError::Invalid {
                faults,
                example,
                failed_repair,
                ..
            } => {
                let mut text = format_faults(faults);
                if let Some(reason) = failed_repair {
                    text.push_str(&format!(" (a repair failed: {reason})"));
                }
                let result = ToolResult::failure(ErrorType::Validation, text);
                match example {
                    Some(example) => result.suggest(format!(
                        "Example: {}",
                        redaction::format_call(&redacted.call.names.requested, example)
                    )),
                    None => result,
                }
            }
            _ => ToolResult::failure(error_type(error), message),
        };
        self.finish(&redacted, runner, result)
    }

    /// Prepends the call to an error, redacts the error, and publishes the end of the call.
    fn finish(
        &self,
        redacted: &RedactedCall,
        tool: Option<&Arc<dyn RunnableTool>>,
        mut result: ToolResult,
    ) -> ExecutedCall {
        if let Some(failure) = &mut result.failure {
            failure.error = format!(
                "{}: {}",
                redacted.text,
                redaction::redact_text(&failure.error, &redacted.secrets)
            );
        }
        self.publish_end(redacted, tool, result)
    }

    /// Publishes the end of a call, and returns the call with its result and preview.
    fn publish_end(
        &self,
        redacted: &RedactedCall,
        tool: Option<&Arc<dyn RunnableTool>>,
        mut result: ToolResult,
    ) -> ExecutedCall {
        if let Some(failure) = &mut result.failure
            && let Some(suggestion) = &mut failure.suggestion
        {
            *suggestion = redaction::redact_text(suggestion, &redacted.secrets);
        }
        let result = Arc::new(result);
        let kind = match result.is_success() {
            true => EventKind::End {
                result: Arc::clone(&result),
            },
            false => EventKind::Error {
                result: Arc::clone(&result),
            },
        };
        self.shared.events.publish(&redacted.call, kind);
        let preview = match tool {
            Some(tool) => results::preview(tool.as_ref(), &result),
            None => result.preview(super::PREVIEW_LINES),
        };
        ExecutedCall {
            call: Arc::clone(&redacted.call),
            result,
            preview,
            repaired: redacted.repaired.clone(),
        }
    }
}

/// A guard that publishes the end of a call if its future is dropped while the tool runs.
struct CancelledCallGuard<'a> {
    manager: &'a ToolManager,
    redacted: &'a RedactedCall,
    tool: &'a Arc<dyn RunnableTool>,
}

impl Drop for CancelledCallGuard<'_> {
    fn drop(&mut self) {
        self.manager
            .finish(self.redacted, Some(self.tool), results::cancelled());
    }
}

/// Returns the effect of a call on the calls of its turn.
fn effect(tool: &dyn RunnableTool, call: &ValidCall) -> CallEffect {
    if tool.may_repeat() {
        CallEffect::ChangesAgain
    } else if call.tool().annotations.read_only_hint == Some(true) {
        CallEffect::Reads
    } else {
        CallEffect::Changes
    }
}

/// Returns the type of the failure of a call that cannot run.
fn error_type(error: &CallError) -> ErrorType {
    match error {
        CallError::Ineligible { .. } | CallError::NotReadOnly { .. } => ErrorType::Permission,
        _ => ErrorType::Validation,
    }
}

/// Formats argument faults as one line, missing arguments first.
fn format_faults(faults: &[ArgumentFault]) -> String {
    let (mut missing, mut others) = (Vec::new(), Vec::new());
    for fault in faults {
        match fault.missing() {
            Some(name) => missing.push(format!("{name} is required")),
            None => others.push(fault.to_string()),
        }
    }
    missing.append(&mut others);
    missing.join("; ")
}

fn write_failure(error: &FileError) -> ToolResult {
    ToolResult::failure(ErrorType::Validation, error.to_string())
        .suggest("Read the file first, then write it.")
}
