//! Running a tool for a caller. Every route uses this.
//!
//! [`CallRunner::run`] takes a call through its stages in the order of the modules below. Each stage
//! gets the value of the stage before, so that none can be left out. A later list of tools may replace
//! the view in `authorise`, which finds the tool again.
//!
//! If the client cancels the call, the stage that waits ends with a refusal. If it disconnects, the
//! future is dropped; the recorder then records that the call was cancelled.

mod runner;
mod resolve;
mod authorise;
mod validate;
mod question;
mod confirm;
mod send;
mod result;
mod record;

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools_provider::ToolCall;
use rmcp::model::CallToolResponse;
use tracing::Instrument;

use self::confirm::ConfirmedCall;
use self::record::CallRecorder;
use self::resolve::ResolvedCall;
use self::runner::CallStop;
pub use self::runner::{CallOutcome, CallRunner, Caller};
use crate::elicitations::InputAnswers;
use crate::refusal::Refusal;
use crate::snapshot::{Snapshot, View};

impl CallRunner<'_> {
    /// Runs a tool, and records the call.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the call was not carried out.
    pub fn run(
        &self,
        snapshot: Arc<Snapshot>,
        view: Arc<View>,
        call: ToolCall,
        input_answers: InputAnswers,
    ) -> BoxFuture<'_, Result<CallOutcome, Refusal>> {
        let run = async move {
            self.gateway.journal.ready()?;
            let started = Instant::now();
            let mut resolved = ResolvedCall::new(&view, call);
            let mut record = CallRecorder::begin(self, &resolved, started);
            let span = record.span();
            let stages = async {
                let call = resolved.routed()?;
                let authorised = self.authorise(snapshot, view, call).await?;
                let hydrated = self.validate(&authorised.view, call).await?;
                record.note_validated(&hydrated);
                let ConfirmedCall { call, answers } =
                    self.confirm(&authorised, hydrated, input_answers).await?;
                let result = self.send(&authorised, &call, answers).await?;
                Ok(self.bound_and_scan(authorised, &call, result).await?)
            };
            let outcome = stages.instrument(span).await;
            let outcome = outcome.or_else(CallStop::into_outcome);
            record.finish(&outcome);
            outcome
        };
        run.boxed()
    }

    /// Runs a use of a parallel call, and records it. A use that asks the client a question is
    /// refused.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the use was not carried out.
    pub async fn run_use(
        &self,
        snapshot: Arc<Snapshot>,
        view: Arc<View>,
        call: ToolCall,
    ) -> Result<CallOutcome, Refusal> {
        let outcome = self
            .run(snapshot, view, call, InputAnswers::default())
            .await?;
        if let CallToolResponse::InputRequired(question) = &outcome.response {
            if let Some(state) = &question.request_state {
                self.gateway.calls.elicitations.remove(state);
            }
            return Err(Refusal::question_in_use(&outcome.tool.id));
        }
        Ok(outcome)
    }
}
