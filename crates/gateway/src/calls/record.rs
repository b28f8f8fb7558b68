//! The record of a call: its entry in the journal, its span and its metrics.

use std::sync::Arc;
use std::time::Instant;

use picktools::Tool;
use picktools_call::HydratedCall;
use rmcp::model::CallToolResponse;
use tracing::Span;
use tracing::field::Empty;

use super::resolve::ResolvedCall;
use super::runner::{CallOutcome, CallRunner};
use crate::elicitations::CallIdentity;
use crate::hub::Hub;
use crate::journal::{CallEntry, CallEntryGuard};
use crate::metrics::GatewayEvent;
use crate::refusal::{Code, Refusal};
use crate::repairs;

/// The recorder of a call. A call that is dropped early is recorded as cancelled.
pub(super) struct CallRecorder<'a> {
    gateway: &'a Hub,
    entry: CallEntryGuard<'a>,
    tool: Option<Arc<Tool>>,
    /// The identity of the call as it was sent, if there is a repairer.
    sent_identity: Option<CallIdentity>,
    span: Span,
    started: Instant,
}

impl<'a> CallRecorder<'a> {
    /// Begins the record of a call that arrived at `started`.
    pub(super) fn begin(
        runner: &CallRunner<'a>,
        resolved: &ResolvedCall,
        started: Instant,
    ) -> Self {
        let (gateway, caller) = (runner.gateway, runner.caller);
        let tool = resolved.tool.clone();
        let entry = gateway.journal.record_call(|| CallEntry {
            key: Arc::clone(&caller.key),
            role: Arc::clone(&caller.role),
            session: Arc::clone(&caller.owner.0),
            requested: resolved.requested.clone(),
            tool: tool.clone(),
            deprecated: resolved.is_deprecated,
            arguments: resolved.call.arguments.clone(),
            rewritten: None,
        });
        let repaired = tool.as_ref().filter(|_| gateway.calls.repairer.is_some());
        let sent_identity = repaired
            .map(|tool| repairs::sent_identity(&caller.owner, tool, &resolved.call.arguments));
        let span =
            tracing::info_span!(target: "picktools::span", "call", tool = Empty, outcome = Empty);
        if let Some(tool) = &tool {
            span.record("tool", &*tool.id);
        }
        Self {
            gateway,
            entry,
            tool,
            sent_identity,
            span,
            started,
        }
    }

    /// Returns the span in which the call runs.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Notes the tool of a validated call, which a later list of tools may have replaced, and the
    /// arguments if a repairer rewrote them.
    pub(super) fn note_validated(&mut self, hydrated: &HydratedCall) {
        self.span.record("tool", &*hydrated.tool().id);
        self.tool = Some(Arc::clone(hydrated.tool()));
        self.entry.note_validated(hydrated);
    }

    /// Records the outcome.
    pub(super) fn finish(self, outcome: &Result<CallOutcome, Refusal>) {
        let outcome_name = outcome_name(outcome);
        self.span.record("outcome", outcome_name);
        self.entry.finish(outcome_name);
        if let Some(identity) = self.sent_identity.filter(|_| !waits(outcome)) {
            self.gateway.calls.waiting_repairs.remove(identity);
        }
        if let Some(tool) = &self.tool {
            let code = outcome.as_ref().err().map(|refusal| refusal.code.name());
            self.gateway.meter.record(&GatewayEvent::Call {
                upstream: tool.source.as_deref().unwrap_or_default(),
                tool: &tool.id,
                code,
                time: self.started.elapsed(),
            });
        }
    }
}

/// Returns the name of an outcome in records.
fn outcome_name(outcome: &Result<CallOutcome, Refusal>) -> &'static str {
    let response = match outcome {
        Ok(outcome) => &outcome.response,
        Err(refusal) => return refusal.code.name(),
    };
    match response {
        CallToolResponse::Complete(result) if result.is_error == Some(true) => "failed",
        CallToolResponse::Complete(_) => "done",
        _ => "asked",
    }
}

/// Returns `true` if the client may send the call again, for a person or with an answer.
fn waits(outcome: &Result<CallOutcome, Refusal>) -> bool {
    match outcome {
        Ok(outcome) => !matches!(outcome.response, CallToolResponse::Complete(_)),
        Err(refusal) => refusal.code == Code::NotConfirmed,
    }
}
