//! Confirmations of unsafe calls: by an earlier approval, by the person at the client, or by the
//! operator.

use std::time::Duration;

use picktools_call::{PendingCall, PendingReason};
use picktools_runtime::describe_call;
use picktools_state::StateError;
use rmcp::RoleServer;
use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, ProtocolVersion,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::approvals::Approvals;
use crate::journal::{Approval, ApprovalSubject};
use crate::queue::{CallQueue, CallRequest, QueueDecision, TakenDecision};
use crate::refusal::{Code, Refusal};
use crate::relay::{ClientContext, cancelled_by, client_abilities, deferred_abilities};
use crate::remembered::{ApprovalScope, ApprovedTool, ClientIdentity};
use crate::upstream::Owner;

/// The time for reading the operator's decision.
const DECISION_TIMEOUT: Duration = Duration::from_secs(2);
/// The time that a person has to confirm a call while its request waits.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// The reasons for which a call did not run.
const NEEDS_CONFIRMATION: &str =
    "each call of this tool needs a confirmation, but this client cannot ask a person";
const NOT_ALLOWED: &str =
    "the person did not allow it; do not call it again unless the person asks for it";

/// A call that needs a confirmation.
pub(crate) struct ConfirmationRequest<'a> {
    pub(crate) call: &'a PendingCall,
    pub(crate) tool: ApprovedTool,
    pub(crate) owner: &'a Owner,
    /// The name of the caller's key.
    pub(crate) key: &'a str,
    /// The client, if approvals for it can be remembered.
    pub(crate) client: Option<ClientIdentity>,
    /// The scopes that an approval may have.
    pub(crate) scopes: Vec<ApprovalScope>,
    pub(crate) context: ClientContext<'a>,
}

/// The result of asking for a confirmation.
pub(crate) enum ConfirmationStep {
    /// The call may run, and later calls of the scope too.
    Allowed(ApprovalScope),
    /// The client must ask, and send the call again.
    AskClient(Box<ElicitRequestParams>),
    /// The client cannot ask anyone.
    ByOperator,
}

impl ConfirmationRequest<'_> {
    fn not_confirmed(&self, reason: &str) -> Refusal {
        let message = format!("{} did not run: {reason}", self.tool.id);
        Refusal::new(Code::NotConfirmed, message)
    }

    /// Returns `true` if an earlier approval holds for the call.
    pub(crate) async fn is_approved(&self, approvals: &Approvals) -> bool {
        let can_be_remembered = self
            .scopes
            .iter()
            .any(|&scope| scope != ApprovalScope::Call);
        if !can_be_remembered {
            return false;
        }
        if approvals.sessions.allow(self.owner, &self.tool) {
            return true;
        }
        let (Some(queue), Some(client)) = (approvals.queue.clone(), self.client.clone()) else {
            return false;
        };
        let tool = self.tool.clone();
        let approval = run_on_queue(move || queue.is_remembered(&client, &tool)).await;
        // Without an answer of the queue, the person is asked.
        approval.unwrap_or(false)
    }

    /// Remembers an approval for later calls. `server_tools` are the tools of the server, as the
    /// person who approved knew them.
    pub(crate) async fn remember(
        &self,
        scope: ApprovalScope,
        approvals: &Approvals,
        server_tools: Vec<ApprovedTool>,
    ) {
        match scope {
            ApprovalScope::Call => {}
            ApprovalScope::Tool => {
                let tools = vec![self.tool.clone()];
                approvals.sessions.remember(self.owner, tools);
            }
            ApprovalScope::Server => approvals.sessions.remember(self.owner, server_tools),
            ApprovalScope::Always => self.remember_always(approvals.queue.as_ref()).await,
        }
    }

    async fn remember_always(&self, queue: Option<&CallQueue>) {
        let (Some(queue), Some(client)) = (queue.cloned(), self.client.clone()) else {
            return;
        };
        let tool = self.tool.clone();
        if let Err(error) = run_on_queue(move || queue.remember(&client, &tool)).await {
            tracing::warn!(
                target: "picktools::gateway", tool = %self.tool.id, %error,
                "cannot store an approval; the next call needs a confirmation again"
            );
        }
    }

    /// Looks up the operator's decision about a call whose client cannot ask anyone. A call without
    /// a decision is refused and becomes pending. `record_decision` receives a decision that is
    /// used up.
    pub(crate) async fn decide(
        &self,
        queue: Option<&CallQueue>,
        record_decision: &(dyn Fn(Approval) + Sync),
    ) -> Result<ApprovalScope, Refusal> {
        let Some(queue) = queue.cloned() else {
            return Err(self.not_confirmed(NEEDS_CONFIRMATION));
        };
        let request = CallRequest::new(self.owner, self.call, &self.tool, self.client.as_ref());
        let request = request.with_key(self.key).with_scopes(self.scopes.clone());
        // After a timeout the lookup continues: it may queue the call, or use up a decision without
        // running it.
        let result = run_on_queue(move || queue.take_decision(request)).await;
        if let Ok(Some(taken)) = &result
            && let Some(decision) = taken.decision.name(taken.scope)
        {
            let subject = ApprovalSubject::Call {
                id: taken.id.clone(),
                tool: self.tool.id.clone(),
                shown: describe_call(self.call.tool(), self.call.arguments()),
            };
            record_decision(Approval {
                subject,
                decision,
                by: None,
            });
        }
        match result {
            Ok(Some(taken)) => self.apply(&taken),
            Ok(None) => Err(self.not_confirmed(&format!(
                "{NEEDS_CONFIRMATION}, and too many calls are pending approval"
            ))),
            Err(error) => Err(self.not_confirmed(&format!(
                "{NEEDS_CONFIRMATION}, and the queue of pending calls is not available: {error}"
            ))),
        }
    }

    fn apply(&self, taken: &TakenDecision) -> Result<ApprovalScope, Refusal> {
        match taken.decision {
            QueueDecision::Allowed => Ok(taken.scope),
            QueueDecision::Denied => Err(self.not_confirmed(NOT_ALLOWED)),
            QueueDecision::Pending => {
                let id = &taken.id;
                Err(self.not_confirmed(&format!(
                    "{NEEDS_CONFIRMATION}; the call is pending approval: tell the user that the \
                     operator can allow it with `picktools approve --call {id}`, and call the tool \
                     again with the same arguments once the call is allowed"
                )))
            }
        }
    }

    /// Asks a person to confirm a call. The question has the tool's id and the arguments, but no
    /// title or description from an upstream. `answer` is the client's answer to an earlier
    /// question.
    pub(crate) async fn confirm(
        &self,
        answer: Option<&Value>,
    ) -> Result<ConfirmationStep, Refusal> {
        if let Some(answer) = answer {
            let answer = serde_json::from_value::<ElicitResult>(answer.clone());
            let scope = answer.ok().and_then(|answer| self.approved_scope(&answer));
            return match scope {
                Some(scope) => Ok(ConfirmationStep::Allowed(scope)),
                None => Err(self.not_confirmed(NOT_ALLOWED)),
            };
        }
        let question = self.question()?;
        if deferred_abilities(self.context).person {
            return Ok(ConfirmationStep::AskClient(Box::new(question)));
        }
        let context = match self.context {
            Some(client) if client_abilities(self.context).person => client,
            _ => return Ok(ConfirmationStep::ByOperator),
        };
        let answer = tokio::select! {
            biased;
            () = cancelled_by(Some(context)) => {
                return Err(Refusal::new(Code::Cancelled, "the call was cancelled"));
            }
            answer = timeout(ANSWER_TIMEOUT, context.peer.create_elicitation(question)) => answer,
        };
        match answer {
            Ok(Ok(answer)) => match self.approved_scope(&answer) {
                Some(scope) => Ok(ConfirmationStep::Allowed(scope)),
                None => Err(self.not_confirmed(NOT_ALLOWED)),
            },
            Ok(Err(_)) => Err(self.not_confirmed("the person could not be asked")),
            Err(_) => Err(self.not_confirmed("the person did not answer in time")),
        }
    }

    /// Returns the question for the person at the client.
    fn question(&self) -> Result<ElicitRequestParams, Refusal> {
        let mut properties = json!({
            "run": {"type": "boolean", "title": "Run it", "description": "Allow this call"}
        });
        if self.scopes.len() > 1 {
            properties["scope"] = self.scope_property();
        }
        let schema = json!({"type": "object", "properties": properties, "required": ["run"]});
        let schema = schema.as_object().cloned().unwrap_or_default();
        let requested_schema = ElicitationSchema::from_json_schema(schema)
            .map_err(|error| self.not_confirmed(&format!("cannot ask a person: {error}")))?;
        let reason = match self.call.awaits() {
            PendingReason::Confirmation => {
                "The tool is marked unsafe: it may change or destroy something.".to_owned()
            }
            other => format!("Reason: {other}."),
        };
        let call = describe_call(self.call.tool(), self.call.arguments());
        let message = format!("Run {call}? {reason}");
        Ok(ElicitRequestParams::FormElicitationParams {
            meta: None,
            message,
            requested_schema,
        })
    }

    /// Returns the choice of a scope. Revisions before 2025-11-25 write titles in another way.
    fn scope_property(&self) -> Value {
        let mut property = json!({
            "type": "string",
            "title": "Allow",
            "description": "Which calls this approval allows",
            "default": ApprovalScope::Call.name()
        });
        if self.context.is_some_and(has_titled_choices) {
            let choice =
                |scope: &ApprovalScope| json!({"const": scope.name(), "title": scope.title()});
            property["oneOf"] = self.scopes.iter().map(choice).collect();
        } else {
            property["enum"] = self
                .scopes
                .iter()
                .map(|scope| json!(scope.name()))
                .collect();
            property["enumNames"] = self
                .scopes
                .iter()
                .map(|scope| json!(scope.title()))
                .collect();
        }
        property
    }

    /// Returns the scope of an approval; `None` if the person did not approve the call. A choice that
    /// the question does not offer counts as the narrowest one.
    fn approved_scope(&self, answer: &ElicitResult) -> Option<ApprovalScope> {
        let content = answer.content.as_ref()?;
        let is_accepted = answer.action == ElicitationAction::Accept;
        if !is_accepted || content.get("run") != Some(&Value::Bool(true)) {
            return None;
        }
        let scope = content.get("scope").and_then(Value::as_str);
        let scope = scope.and_then(ApprovalScope::from_name);
        let is_offered = |scope: &ApprovalScope| self.scopes.contains(scope);
        Some(scope.filter(is_offered).unwrap_or_default())
    }
}

/// Returns `true` if the revision of a client has titles of choices in `oneOf`.
fn has_titled_choices(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version >= ProtocolVersion::V_2025_11_25)
}

/// Uses the queue on another thread, because its store may be slow.
async fn run_on_queue<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
) -> Result<T, String> {
    match timeout(DECISION_TIMEOUT, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(result)) => result.map_err(|error| error.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no reply in time".to_owned()),
    }
}
