//! Questions to a client, which it answers by sending its call again.

use picktools_call::Confirmation;
use rmcp::model::{CallToolResponse, InputRequests, InputRequiredResult, InputResponses};
use serde_json::Value;

use super::runner::CallRunner;
use crate::elicitations::{AwaitedInput, CallIdentity, InputAnswers};
use crate::refusal::{Code, Refusal};

/// The key of the question that asks a client to confirm a call.
pub(super) const CONFIRM: &str = "run";

/// The answers of a client that repeats a call, by their addressees.
#[derive(Default)]
pub(super) struct ClientAnswers {
    /// The person's decision about the call.
    pub(super) decision: Option<Value>,
    /// The confirmation of the earlier request.
    pub(super) confirmation: Option<Confirmation>,
    pub(super) upstream: InputAnswers,
}

impl ClientAnswers {
    fn new(awaited_input: Option<AwaitedInput>, mut answers: InputResponses) -> Self {
        match awaited_input {
            None => Self::default(),
            Some(AwaitedInput::Confirmation) => Self {
                decision: answers.remove(CONFIRM),
                ..Self::default()
            },
            Some(AwaitedInput::Upstream {
                state,
                confirmation,
            }) => Self {
                decision: None,
                confirmation,
                upstream: InputAnswers { answers, state },
            },
        }
    }
}

impl CallRunner<'_> {
    /// Returns the answers that belong to a call. `identity` identifies the call.
    pub(super) fn client_answers(
        &self,
        input_answers: InputAnswers,
        identity: impl FnOnce() -> CallIdentity,
    ) -> Result<ClientAnswers, Refusal> {
        let elicitations = &self.gateway.calls.elicitations;
        let mut awaited_input = None;
        if let Some(state) = &input_answers.state {
            awaited_input = elicitations.take(identity(), state);
            if awaited_input.is_none() {
                let message = "this call does not wait for an answer; send it again as a new call";
                return Err(Refusal::new(Code::NotConfirmed, message));
            }
        }
        Ok(ClientAnswers::new(awaited_input, input_answers.answers))
    }

    /// Answers with a question to the client, which sends the call again with its answer.
    pub(super) fn ask_client(
        &self,
        identity: CallIdentity,
        requests: InputRequests,
        awaited_input: AwaitedInput,
    ) -> Result<CallToolResponse, Refusal> {
        let elicitations = &self.gateway.calls.elicitations;
        let state = elicitations.register(&self.caller.key, identity, awaited_input);
        let busy = || {
            Refusal::new(
                Code::Busy,
                "too many calls wait for an answer; call again later",
            )
        };
        Ok(InputRequiredResult::new(Some(requests), Some(state.ok_or_else(busy)?)).into())
    }
}
