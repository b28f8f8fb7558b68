//! Confirming a call that needs an approval.

use std::sync::Arc;

use futures_util::FutureExt;
use picktools::Tool;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_call::{
    CallDecider, Confirmation, DeciderFuture, HydratedCall, OtherCallError, PendingCall,
    PendingReason, ValidCall,
};
use rmcp::model::{ElicitRequest, ElicitRequestParams, InputRequest};
use serde_json::Value;

use super::authorise::AuthorisedCall;
use super::question::CONFIRM;
use super::runner::{CallRunner, CallStop};
use crate::confirmation::{ConfirmationRequest, ConfirmationStep};
use crate::elicitations::{AwaitedInput, InputAnswers, call_identity};
use crate::journal::{Approval, ApprovalSubject};
use crate::refusal::{Code, Refusal};
use crate::remembered::{ApprovalScope, ApprovedTool, ClientIdentity};
use crate::upstream::Upstream;

/// The names of callers without a key of the settings.
const WITHOUT_KEY: [&str; 3] = ["anonymous", "console", "client"];

/// A call that may run.
pub(super) struct ConfirmedCall {
    pub(super) call: ValidCall,
    /// The client's answers to earlier questions of the upstream.
    pub(super) answers: InputAnswers,
}

impl CallRunner<'_> {
    /// Gets the confirmation of a call, if it needs one.
    pub(super) async fn confirm(
        &self,
        authorised: &AuthorisedCall,
        hydrated: HydratedCall,
        input_answers: InputAnswers,
    ) -> Result<ConfirmedCall, CallStop> {
        let identity =
            |tool: &Tool, arguments: &Value| call_identity(&self.caller.owner, tool, arguments);
        let answers = self.client_answers(input_answers, || {
            identity(hydrated.tool(), hydrated.arguments())
        })?;
        let call = match hydrated {
            HydratedCall::Ready(call) => call,
            HydratedCall::NeedsApproval(pending) => {
                let tool = Arc::clone(pending.tool());
                let identity = identity(pending.tool(), pending.arguments());
                let decider = CallerDecider {
                    runner: self,
                    answer: answers.decision.as_ref(),
                    authorised,
                };
                match decider.confirm(pending, answers.confirmation).await {
                    Ok(call) => call,
                    Err(Unconfirmed::Refused(refusal)) => return Err(refusal.into()),
                    Err(Unconfirmed::AskClient(question)) => {
                        let question = InputRequest::Elicitation(ElicitRequest::new(*question));
                        let requests = [(CONFIRM.to_owned(), question)].into();
                        let response =
                            self.ask_client(identity, requests, AwaitedInput::Confirmation)?;
                        return Err(CallStop::waiting(response, &tool, &authorised.snapshot));
                    }
                }
            }
        };
        Ok(ConfirmedCall {
            call,
            answers: answers.upstream,
        })
    }

    /// Returns the request to confirm a call. Only the confirmation of an unsafe tool can hold for
    /// later calls.
    fn confirmation_request<'a>(
        &'a self,
        call: &'a PendingCall,
        upstream: &Upstream,
    ) -> ConfirmationRequest<'a> {
        let client = self.client_identity();
        let mut scopes = vec![ApprovalScope::Call];
        if *call.awaits() == PendingReason::Confirmation {
            if self.caller.owner.is_session() {
                scopes.extend([ApprovalScope::Tool, ApprovalScope::Server]);
            }
            if client.is_some() && self.gateway.approvals.queue.is_some() {
                scopes.push(ApprovalScope::Always);
            }
        }
        ConfirmationRequest {
            call,
            tool: ApprovedTool::new(call.tool(), &upstream.server),
            owner: &self.caller.owner,
            key: &self.caller.key,
            client,
            scopes,
            context: self.context,
        }
    }

    /// Returns the client for which approvals can be remembered: the one of an API key, or the one
    /// on standard input and output. Callers without a key cannot be told apart.
    fn client_identity(&self) -> Option<ClientIdentity> {
        let local = self.context.filter(|context| {
            let parts = context.extensions.get::<http::request::Parts>();
            parts.is_none()
        });
        if let Some(context) = local {
            let name = context.client_info().map(|client| client.name);
            let name = name.unwrap_or_default();
            return Some(ClientIdentity::from_local_client(&marked(
                &name,
                MAX_NAME_CHARS,
            )));
        }
        let key = &*self.caller.key;
        let is_key = !key.is_empty() && !WITHOUT_KEY.contains(&key);
        is_key.then(|| ClientIdentity::from_key(key))
    }

    /// Records an approval of the person at the client that holds for later calls.
    fn record_scope(&self, request: &ConfirmationRequest<'_>, scope: ApprovalScope) {
        if scope == ApprovalScope::Call {
            return;
        }
        let client = request.client.as_ref().map(|client| client.0.to_string());
        let subject = ApprovalSubject::Remembered {
            tool: request.tool.id.clone(),
            client: client.unwrap_or_default(),
        };
        self.gateway.journal.record_approval(Approval {
            subject,
            decision: scope.decision(),
            by: Some(self.caller.key.to_string()),
        });
    }
}

/// The only place of the gateway at which calls are allowed: by an earlier approval, by the person
/// at the client, or by the operator.
struct CallerDecider<'a> {
    runner: &'a CallRunner<'a>,
    /// The client's answer to an earlier question.
    answer: Option<&'a Value>,
    authorised: &'a AuthorisedCall,
}

/// The answer for a call that is not allowed.
enum Unconfirmed {
    Refused(Refusal),
    /// The client must answer a question first.
    AskClient(Box<ElicitRequestParams>),
}

impl From<Refusal> for Unconfirmed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl CallDecider for CallerDecider<'_> {
    type Refusal = Unconfirmed;

    fn decide<'a>(&'a self, call: &'a PendingCall) -> DeciderFuture<'a, Unconfirmed> {
        self.decide_unboxed(call).boxed()
    }
}

impl CallerDecider<'_> {
    /// Confirms a call, with the confirmation of an earlier request if it is for this call.
    async fn confirm(
        &self,
        call: PendingCall,
        earlier: Option<Confirmation>,
    ) -> Result<ValidCall, Unconfirmed> {
        let confirmation = match earlier.filter(|confirmation| confirmation.is_for(&call)) {
            Some(confirmation) => confirmation,
            None => call.ask(self).await?,
        };
        let not_confirmed = |error: OtherCallError| {
            Unconfirmed::Refused(Refusal::new(Code::NotConfirmed, error.to_string()))
        };
        call.confirm(confirmation).map_err(not_confirmed)
    }

    /// Gets the decision on a call, and remembers it for later calls.
    async fn decide_unboxed(&self, call: &PendingCall) -> Result<&'static str, Unconfirmed> {
        let gateway = self.runner.gateway;
        let approvals = &gateway.approvals;
        let request = self
            .runner
            .confirmation_request(call, &self.authorised.upstream);
        if request.is_approved(approvals).await {
            return Ok("earlier approval");
        }
        let (scope, by) = match request.confirm(self.answer).await? {
            ConfirmationStep::Allowed(scope) => {
                self.runner.record_scope(&request, scope);
                (scope, "client")
            }
            ConfirmationStep::AskClient(question) => {
                return Err(Unconfirmed::AskClient(question));
            }
            ConfirmationStep::ByOperator => {
                // A used decision is recorded here, because it is no longer in the queue.
                let record_decision = |approval| gateway.journal.record_approval(approval);
                let scope = request
                    .decide(approvals.queue.as_ref(), &record_decision)
                    .await?;
                (scope, "operator")
            }
        };
        let mut server_tools = Vec::new();
        if scope == ApprovalScope::Server {
            let server = &self.authorised.upstream.server;
            for tool in &self.authorised.view.tools {
                if tool.source.as_ref() == Some(&server.name) {
                    server_tools.push(ApprovedTool::new(tool, server));
                }
            }
        }
        request.remember(scope, approvals, server_tools).await;
        Ok(by)
    }
}
