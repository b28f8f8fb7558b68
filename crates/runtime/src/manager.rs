//! The one way from a model's call to a result.

mod builder;
mod run;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use builder::{ManagerError, ToolManagerBuilder};

use super::confirmation::{Approvals, Confirm, Decision};
use super::events::{CallInfo, EventKind, Events};
use super::files::{FileError, FileLedger};
use super::lock;
use super::redaction;
use super::result::{ErrorType, ToolResult};
use super::tool::RunnableTool;
use super::turn::Turn;
use picktools::access::Access;
use picktools::catalog::{Catalog, Tool};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_call::{
    ArgumentFault, Awaited, CallError, CallNames, Hydrated, Hydrator, PendingCall, ValidCall,
};
use picktools_provider::{
    Arguments, CallResult, Provider, ToolCall, TranslateError, TranslateOptions, Translation,
    translate,
};

/// Tools that can be run by one caller, and what happened so far; clones share both.
///
/// It needs a Tokio runtime, on which tools find timers, processes and sockets.
#[derive(Clone)]
pub struct ToolManager {
    hydrator: Hydrator,
    shared: Arc<Shared>,
}

struct Shared {
    /// By the id of the tool.
    runners: HashMap<String, Arc<dyn RunnableTool>>,
    confirm: Option<Box<dyn Confirm>>,
    approvals: Approvals,
    events: Events,
    files: FileLedger,
    turn: Turn,
    root: Arc<Path>,
    time_limit: Duration,
    running: Semaphore,
    next_call: AtomicU64,
    /// What ends the calls that are under way, by their ids.
    under_way: Mutex<HashMap<String, CancellationToken>>,
}

/// A call, and what came of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Executed {
    /// The call as its events tell of it.
    pub call: Arc<CallInfo>,
    /// What came of it.
    pub result: Arc<ToolResult>,
    /// What a user interface shows of it, in three lines.
    pub preview: Vec<String>,
}

impl Executed {
    /// Makes what the model is told, for [`Provider::results`]: the fields of the result, or the
    /// error with what helps to mend the call.
    pub fn call_result(&self) -> CallResult {
        CallResult {
            id: self.call.provider_id.clone(),
            name: self.call.names.requested.clone(),
            outcome: self.result.told(),
        }
    }
}

/// A call on its way: what is told of it, and under which secrets.
struct Told {
    call: Arc<CallInfo>,
    /// As it stands before an error.
    text: String,
    arguments: Value,
    secrets: Vec<String>,
}

impl ToolManager {
    /// Begins a manager for one caller.
    pub fn builder(access: Access) -> ToolManagerBuilder {
        ToolManagerBuilder::new(access)
    }

    /// Returns the catalog of all tools, those that this caller may not use included.
    pub fn catalog(&self) -> &Catalog {
        self.hydrator.catalog()
    }

    /// Returns the tool of a name, alias, or variant spelling of either, if the caller may use it.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn RunnableTool>> {
        let tool = self.hydrator.tool_of(name).ok()?;
        self.shared.runners.get(&tool.id)
    }

    /// Writes the tools that this caller may use as a provider wants them.
    ///
    /// # Errors
    ///
    /// As [`translate`].
    pub fn definitions(
        &self,
        provider: Provider,
        options: &TranslateOptions,
    ) -> Result<Translation, TranslateError> {
        let tools = self
            .hydrator
            .admitted()
            .filter(|tool| self.shared.runners.contains_key(&tool.id));
        translate(&tools.cloned().collect::<Vec<_>>(), provider, options)
    }

    /// Returns a manager that expects calls of what the model was shown, as
    /// [`Hydrator::translated`] does. It shares everything else with this one.
    #[must_use]
    pub fn translated(&self, translation: &Translation) -> Self {
        Self {
            hydrator: self.hydrator.translated(translation),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Returns where events are told.
    pub fn events(&self) -> &Events {
        &self.shared.events
    }

    /// Returns the calls that wait for somebody to decide on them.
    pub fn approvals(&self) -> &Approvals {
        &self.shared.approvals
    }

    /// Returns which files tools have read and written.
    pub fn files(&self) -> &FileLedger {
        &self.shared.files
    }

    /// Ends a turn: calls of it may be made again. Files that were read stay known.
    pub fn clear_current_turn(&self) {
        self.shared.turn.clear();
    }

    /// Forgets everything that happened: calls and files.
    pub fn clear_state(&self) {
        self.clear_current_turn();
        self.shared.files.clear();
    }

    /// Cancels a call that is under way; `false` where there is none of this id.
    pub fn cancel(&self, call_id: &str) -> bool {
        let token = lock(&self.shared.under_way).get(call_id).cloned();
        token.inspect(CancellationToken::cancel).is_some()
    }

    /// Cancels all calls that are under way.
    pub fn cancel_all(&self) {
        lock(&self.shared.under_way)
            .values()
            .for_each(CancellationToken::cancel);
    }

    /// Cancels all calls, and ends what tools keep between them, such as connections and the
    /// programs that these started.
    pub async fn close(&self) {
        self.cancel_all();
        join_all(self.shared.runners.values().map(|tool| tool.close())).await;
    }

    /// Runs the calls of one answer, some of them at once, and returns what came of them in their
    /// order.
    pub async fn execute_all(&self, calls: &[ToolCall]) -> Vec<Executed> {
        join_all(calls.iter().map(|call| self.execute(call))).await
    }

    /// Runs a call: resolves its name, holds it to what the caller may do and to the tool's schema,
    /// has it confirmed where it must be, refuses it where it was made in this turn already, runs
    /// it and records it.
    ///
    /// Nothing escapes: whatever goes wrong is a result. Letting go of the future cancels the call.
    pub fn execute<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Executed> {
        // Boxed, as what is within an `async fn` is compiled once more in each crate that awaits
        // it.
        self.executing(call).boxed()
    }

    async fn executing(&self, call: &ToolCall) -> Executed {
        let call_id = format!(
            "call_{}",
            self.shared.next_call.fetch_add(1, Ordering::Relaxed)
        );
        let cancellation = CancellationToken::new();
        lock(&self.shared.under_way).insert(call_id.clone(), cancellation.clone());
        let _under_way = UnderWay {
            shared: &self.shared,
            call_id: &call_id,
            _cancelled: cancellation.clone().drop_guard(),
        };
        match self.hydrator.hydrate(call) {
            Err(error) => self.refused(&call_id, call, &error),
            Ok(Hydrated::Ready(valid)) => self.confirmed(&call_id, valid, None, cancellation).await,
            Ok(Hydrated::NeedsApproval(pending)) => {
                let (valid, awaits) = pending.into_parts();
                self.confirmed(&call_id, valid, Some(awaits), cancellation)
                    .await
            }
        }
    }

    /// Has a call confirmed where it must be, and runs it.
    async fn confirmed(
        &self,
        call_id: &str,
        valid: ValidCall,
        awaits: Option<Awaited>,
        cancellation: CancellationToken,
    ) -> Executed {
        let told = Told::of(call_id, &valid);
        let Some(tool) = self.shared.runners.get(&valid.tool().id) else {
            let failure = ToolResult::failure(ErrorType::System, "nothing runs this tool here");
            return self.executed(&told, None, failure);
        };
        let asks = valid.tool().is_unsafe() || tool.requires_confirmation();
        let awaits = awaits.or(asks.then_some(Awaited::Confirmation));
        let valid = match awaits {
            None => valid,
            Some(awaits) => {
                let decided = tokio::select! {
                    decided = self.decide(PendingCall::new(valid, awaits)) => decided,
                    () = cancellation.cancelled() => Err("the call was cancelled".to_owned()),
                };
                match decided {
                    Ok(valid) => valid,
                    Err(reason) => {
                        let failure = ToolResult::failure(
                            ErrorType::Permission,
                            format!("it was not confirmed: {reason}"),
                        );
                        return self.executed(&told, Some(tool), failure);
                    }
                }
            }
        };
        let Some(claim) = self.shared.turn.claim(&valid.tool().id, valid.arguments()) else {
            let failure = ToolResult::failure(
                ErrorType::Validation,
                "the same call was already made in this turn",
            );
            let failure =
                failure.suggest("Use the earlier result, or call it with other arguments.");
            return self.executed(&told, Some(tool), failure);
        };
        let writes: Vec<_> = tool
            .writes(valid.arguments())
            .into_iter()
            .map(|path| self.shared.root.join(path))
            .collect();
        if let Some(error) = writes
            .iter()
            .find_map(|path| self.shared.files.check_write(path).err())
        {
            return self.executed(&told, Some(tool), unwritable(&error));
        }
        let unheard = Unheard {
            manager: self,
            told: &told,
            tool,
        };
        let result = self.run(&told, tool, valid, cancellation).await;
        std::mem::forget(unheard);
        if result.is_success() {
            claim.keep();
        }
        writes
            .iter()
            .for_each(|path| self.shared.files.note_written(path));
        self.executed(&told, Some(tool), result)
    }

    async fn decide(&self, pending: PendingCall) -> Result<ValidCall, String> {
        let Some(confirm) = &self.shared.confirm else {
            return Err(format!("{}, and nobody can be asked", pending.awaits()));
        };
        match confirm.decide(&pending).await {
            Decision::Allow => Ok(pending.into_parts().0),
            Decision::Deny(reason) => Err(reason),
            Decision::Ask => self.shared.approvals.ask(pending).await,
        }
    }

    /// What comes of a call that is none.
    fn refused(&self, call_id: &str, call: &ToolCall, error: &CallError) -> Executed {
        let known = self.hydrator.tool_of(&call.name).ok();
        let arguments = match &call.arguments {
            _ if matches!(error, CallError::TooLarge { .. }) => json!({}),
            Arguments::Json(value) => value.clone(),
            // What cannot be read is not told either: it may hold secrets that nobody recognises.
            Arguments::Text(text) => serde_json::from_str(text).unwrap_or_default(),
        };
        let requested = marked(&call.name, MAX_NAME_CHARS).into_owned();
        let canonical = known.map_or_else(|| requested.clone(), |tool| tool.name.clone());
        let names = CallNames {
            requested,
            advertised: None,
            canonical,
        };
        let told = Told::new(
            call_id,
            call.id.clone(),
            names,
            &arguments,
            known.map(AsRef::as_ref),
        );
        let message = self
            .hydrator
            .error_result(call, error)
            .outcome
            .err()
            .unwrap_or_default();
        let result = match error {
            CallError::UnknownTool { .. } => {
                let result = ToolResult::failure(ErrorType::Validation, message);
                return self.told(
                    &told,
                    known.and_then(|tool| self.shared.runners.get(&tool.id)),
                    result,
                );
            }
            CallError::Ineligible { .. } | CallError::NotReadOnly { .. } => {
                ToolResult::failure(ErrorType::Permission, message)
            }
            CallError::Invalid {
                faults, example, ..
            } => {
                let missing = faults.iter().filter_map(ArgumentFault::missing);
                let missing: Vec<String> =
                    missing.map(|name| format!("{name} is required")).collect();
                let others = faults
                    .iter()
                    .filter(|fault| fault.missing().is_none())
                    .map(ToString::to_string);
                let message = missing
                    .into_iter()
                    .chain(others)
                    .collect::<Vec<_>>()
                    .join("; ");
                let result = ToolResult::failure(ErrorType::Validation, message);
                match example {
                    Some(example) => result.suggest(format!(
                        "Example: {}",
                        redaction::call(&told.call.names.requested, example)
                    )),
                    None => result,
                }
            }
            _ => ToolResult::failure(ErrorType::Validation, message),
        };
        self.executed(
            &told,
            known.and_then(|tool| self.shared.runners.get(&tool.id)),
            result,
        )
    }

    /// Tells what came of a call, in words that keep its secrets.
    fn executed(
        &self,
        told: &Told,
        tool: Option<&Arc<dyn RunnableTool>>,
        mut result: ToolResult,
    ) -> Executed {
        if let Some(failure) = &mut result.failure {
            failure.error = format!(
                "{}: {}",
                told.text,
                redaction::without(&failure.error, &told.secrets)
            );
        }
        self.told(told, tool, result)
    }

    fn told(
        &self,
        told: &Told,
        tool: Option<&Arc<dyn RunnableTool>>,
        mut result: ToolResult,
    ) -> Executed {
        if let Some(failure) = &mut result.failure {
            failure.suggestion = failure
                .suggestion
                .as_ref()
                .map(|text| redaction::without(text, &told.secrets));
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
        self.shared.events.tell(&told.call, kind);
        let preview = match tool {
            Some(tool) => run::preview(tool.as_ref(), &result),
            None => result.preview(super::PREVIEW_LINES),
        };
        Executed {
            call: Arc::clone(&told.call),
            result,
            preview,
        }
    }
}

impl Told {
    fn of(call_id: &str, valid: &ValidCall) -> Self {
        let id = valid.id().map(str::to_owned);
        Self::new(
            call_id,
            id,
            valid.names().clone(),
            valid.arguments(),
            Some(valid.tool()),
        )
    }

    fn new(
        call_id: &str,
        provider_id: Option<String>,
        names: CallNames,
        arguments: &Value,
        tool: Option<&Tool>,
    ) -> Self {
        let schema = tool.and_then(|tool| tool.parameters.as_ref());
        let (arguments, secrets) = redaction::redacted(arguments, schema);
        let text = redaction::call(&names.requested, &arguments);
        let call = Arc::new(CallInfo {
            call_id: call_id.to_owned(),
            provider_id,
            names,
        });
        Self {
            call,
            text,
            arguments,
            secrets,
        }
    }
}

/// Tells the end of a call that is let go of while it runs.
struct Unheard<'a> {
    manager: &'a ToolManager,
    told: &'a Told,
    tool: &'a Arc<dyn RunnableTool>,
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        self.manager
            .executed(self.told, Some(self.tool), run::cancelled());
    }
}

fn unwritable(error: &FileError) -> ToolResult {
    ToolResult::failure(ErrorType::Validation, error.to_string())
        .suggest("Read the file first, then write it.")
}

/// A call that is under way; it is cancelled when nobody waits for it any longer.
struct UnderWay<'a> {
    shared: &'a Shared,
    call_id: &'a str,
    _cancelled: tokio_util::sync::DropGuard,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        lock(&self.shared.under_way).remove(self.call_id);
    }
}
