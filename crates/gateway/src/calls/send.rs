//! Sending a call to its upstream, under the upstream's own tool name.

use picktools_call::ValidCall;
use rmcp::model::{CallToolResponse, CallToolResult, InputRequiredResult};

use super::authorise::AuthorisedCall;
use super::runner::{CallRunner, CallStop};
use crate::elicitations::{AwaitedInput, InputAnswers, call_identity};
use crate::refusal::{Code, Refusal};
use crate::relay::{self, RelayedCall};

impl CallRunner<'_> {
    /// Sends a confirmed call to its upstream, and returns the answer of its tool.
    pub(super) async fn send(
        &self,
        authorised: &AuthorisedCall,
        call: &ValidCall,
        input_answers: InputAnswers,
    ) -> Result<CallToolResult, CallStop> {
        let upstream = &*authorised.upstream;
        let relayed_call = RelayedCall {
            upstream,
            tool: &call.tool().name,
            arguments: call.arguments().as_object().cloned().unwrap_or_default(),
            owner: &self.caller.owner,
            share: upstream
                .rules
                .share
                .unwrap_or(self.gateway.upstreams.share()),
            level: self.level,
            input_answers,
            context: self.context,
        };
        match relayed_call.relay().await? {
            CallToolResponse::Complete(result) => Ok(result),
            CallToolResponse::InputRequired(question) => {
                Err(self.pass_question_on(authorised, call, question)?)
            }
            _ => {
                let message = format!(
                    "{} turned the call into a task, which this gateway does not support",
                    upstream.display_name()
                );
                Err(Refusal::new(Code::NotCarried, message).into())
            }
        }
    }

    /// Asks the client what the upstream wants to know.
    fn pass_question_on(
        &self,
        authorised: &AuthorisedCall,
        call: &ValidCall,
        question: InputRequiredResult,
    ) -> Result<CallStop, Refusal> {
        let upstream = &*authorised.upstream;
        let requests = question.input_requests.unwrap_or_default();
        let requests = relay::prefix_requests(requests, upstream, self.context);
        let requests = requests.ok_or_else(|| {
            let message = format!(
                "{} asks a question that this client cannot answer",
                upstream.display_name()
            );
            Refusal::new(Code::NotCarried, message)
        })?;
        let identity = call_identity(&self.caller.owner, call.tool(), call.arguments());
        let awaited_input = AwaitedInput::Upstream {
            state: question.request_state,
            confirmation: call.confirmation().cloned(),
        };
        let response = self.ask_client(identity, requests, awaited_input)?;
        Ok(CallStop::waiting(
            response,
            call.tool(),
            &authorised.snapshot,
        ))
    }
}
