//! Running a tool for a caller. Every route uses this: it validates the call, asks for a
//! confirmation, relays the call, and bounds the result.

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools::Tool;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_call::{
    CallDecider, Confirmation, DeciderFuture, HydratedCall, OtherCallError, PendingCall,
    PendingReason, ValidCall,
};
use picktools_provider::ToolCall;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResponse, CallToolResult, ElicitRequest, ElicitRequestParams, InputRequest,
    InputRequests, InputRequiredResult, InputResponses, LoggingLevel, MetaObject,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use tracing::Instrument;
use tracing::field::Empty;

use crate::confirmation::{Approvals, ConfirmationRequest, ConfirmationStep};
use crate::elicitations::{AwaitedInput, CallIdentity, InputAnswers, call_identity};
use crate::hub::{FIRST_LISTING_TIMEOUT, Hub};
use crate::journal::{Approval, ApprovalSubject, CallEntry, CallEntryGuard};
use crate::large_results::ResultOrigin;
use crate::metrics::GatewayEvent;
use crate::refusal::{Code, Refusal};
use crate::relay::{self, RelayedCall, cancelled_by};
use crate::remembered::{ApprovalScope, ApprovedTool, ClientIdentity};
use crate::repairs::{SameRepairer, sent_identity};
use crate::settings::Unsafe;
use crate::snapshot::{Snapshot, View};
use crate::upstream::{Owner, Upstream};
use crate::{passthrough, results};

/// The names of callers without a key of the settings.
const WITHOUT_KEY: [&str; 3] = ["anonymous", "console", "client"];
/// The key of the question that asks a client to confirm a call.
const CONFIRM: &str = "run";

/// The client that makes a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The role of the client.
    pub role: Arc<str>,
    /// The name of its key in the settings.
    pub key: Arc<str>,
    /// The owner of its state.
    pub owner: Owner,
}

/// The context in which calls run.
pub struct CallRunner<'a> {
    /// The gateway that runs the calls.
    pub gateway: &'a Hub,
    /// The client that makes the calls.
    pub caller: &'a Caller,
    /// The least level of log lines that the client receives.
    pub level: Option<LoggingLevel>,
    /// The client's request, or `None` if the call does not come from an MCP client.
    pub context: Option<&'a RequestContext<RoleServer>>,
}

/// A call that ran, or that waits for an answer of the client.
pub struct CallOutcome {
    /// The answer.
    pub response: CallToolResponse,
    /// `true` if the answer was cut, and the rest can be read.
    pub(crate) is_cut: bool,
    pub(crate) tool: Arc<Tool>,
    /// The snapshot with which the call ran.
    pub(crate) snapshot: Arc<Snapshot>,
}

impl CallOutcome {
    /// Returns the outcome of a call whose client has to answer a question first.
    fn waiting(response: CallToolResponse, tool: Arc<Tool>, snapshot: Arc<Snapshot>) -> Self {
        Self {
            response,
            is_cut: false,
            tool,
            snapshot,
        }
    }
}

/// The answers of a client that repeats a call, by their addressees.
#[derive(Default)]
struct ClientAnswers {
    /// The person's decision about the call.
    decision: Option<Value>,
    /// The confirmation of the earlier request.
    confirmation: Option<Confirmation>,
    upstream: InputAnswers,
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
            let requested = call.name.clone();
            let routed = view.merged.route(call.clone());
            let (call, refusal) = match routed {
                Ok(routed) => (routed, None),
                Err(refusal) => (call, Some(refusal)),
            };
            let resolved = view.hydrator.resolve(&call.name).ok();
            let resolved = resolved.filter(|_| refusal.is_none());
            let tool = resolved.map(|resolved| view.hydrator.catalog().tool(resolved.tool));
            let tool = tool.cloned();
            let mut call_entry = self.gateway.journal.record_call(|| CallEntry {
                key: Arc::clone(&self.caller.key),
                role: Arc::clone(&self.caller.role),
                session: Arc::clone(&self.caller.owner.0),
                requested,
                tool: tool.clone(),
                deprecated: resolved.is_some_and(|resolved| resolved.deprecated),
                arguments: call.arguments.clone(),
                rewritten: None,
            });
            let sent = tool.as_ref().filter(|_| self.gateway.repairer.is_some());
            let sent = sent.map(|tool| sent_identity(&self.caller.owner, tool, &call.arguments));
            let span = tracing::info_span!(target: "picktools::span", "call", tool = Empty, outcome = Empty);
            if let Some(tool) = &tool {
                span.record("tool", &*tool.id);
            }
            let outcome = match refusal {
                Some(refusal) => Err(refusal),
                None => {
                    self.validate_and_relay(snapshot, view, call, input_answers, &mut call_entry)
                        .instrument(span.clone())
                        .await
                }
            };
            let outcome_name = match &outcome {
                Ok(CallOutcome {
                    response: CallToolResponse::Complete(result),
                    ..
                }) if result.is_error == Some(true) => "failed",
                Ok(CallOutcome {
                    response: CallToolResponse::Complete(_),
                    ..
                }) => "done",
                Ok(_) => "asked",
                Err(refusal) => refusal.code.name(),
            };
            span.record("outcome", outcome_name);
            call_entry.finish(outcome_name);
            if let Some(sent) = sent.filter(|_| !waits(&outcome)) {
                self.gateway.waiting_repairs.remove(sent);
            }
            if let Some(tool) = tool {
                let upstream = tool.source.as_deref().unwrap_or_default();
                let code = match &outcome {
                    Ok(_) => None,
                    Err(refusal) => Some(refusal.code.name()),
                };
                self.gateway.meter.record(&GatewayEvent::Call {
                    upstream,
                    tool: &tool.id,
                    code,
                    time: started.elapsed(),
                });
            }
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
                self.gateway.elicitations.remove(state);
            }
            return Err(Refusal::question_in_use(&outcome.tool.id));
        }
        Ok(outcome)
    }

    /// Runs a tool of an upstream: it gets the current definition, validates the call, asks for a
    /// confirmation if needed, and relays the call under the upstream's own tool name.
    async fn validate_and_relay(
        &self,
        mut snapshot: Arc<Snapshot>,
        mut view: Arc<View>,
        call: ToolCall,
        input_answers: InputAnswers,
        call_entry: &mut CallEntryGuard<'_>,
    ) -> Result<CallOutcome, Refusal> {
        let requested = call.name.clone();
        let source = view
            .find_tool(&call.name)
            .map_err(Refusal::from_call_error)?
            .source
            .clone()
            .unwrap_or_default();
        let Some(upstream) = self.gateway.upstream(&source) else {
            let message =
                format!("{requested} comes from a catalog, and no server of this gateway runs it");
            return Err(Refusal::new(Code::NotCarried, message));
        };
        let caller = self.caller;
        if self
            .gateway
            .wait_for_live_tools(&upstream, FIRST_LISTING_TIMEOUT)
            .await?
        {
            snapshot = self.gateway.snapshot();
            view = snapshot.view(&caller.role)?;
        }
        let hydrated = self.validate(&view, &call).await?;
        call_entry.note_rewrite(&hydrated);
        let hydrated = match hydrated {
            HydratedCall::Ready(call)
                if call.tool().is_unsafe() && view.marked_unsafe == Unsafe::Confirm =>
            {
                HydratedCall::NeedsApproval(PendingCall::new(call, PendingReason::Confirmation))
            }
            other => other,
        };
        let identity =
            |tool: &Tool, arguments: &Value| call_identity(&caller.owner, tool, arguments);
        let awaited_input = input_answers.state.as_ref().and_then(|state| {
            let identity = identity(hydrated.tool(), hydrated.arguments());
            self.gateway.elicitations.take(identity, state)
        });
        if input_answers.state.is_some() && awaited_input.is_none() {
            let message = "this call does not wait for an answer; send it again as a new call";
            return Err(Refusal::new(Code::NotConfirmed, message));
        }
        let answers = ClientAnswers::new(awaited_input, input_answers.answers);
        let tool = Arc::clone(hydrated.tool());
        let call = match hydrated {
            HydratedCall::Ready(call) => call,
            HydratedCall::NeedsApproval(pending) => {
                let identity = identity(pending.tool(), pending.arguments());
                let decider = CallerDecider {
                    runner: self,
                    answer: answers.decision.as_ref(),
                    view: &view,
                    upstream: &upstream,
                };
                match decider.confirm(pending, answers.confirmation).await {
                    Ok(call) => call,
                    Err(Unconfirmed::Refused(refusal)) => return Err(refusal),
                    Err(Unconfirmed::AskClient(question)) => {
                        let question = InputRequest::Elicitation(ElicitRequest::new(*question));
                        let requests = [(CONFIRM.to_owned(), question)].into();
                        let awaited_input = AwaitedInput::Confirmation;
                        let response = self.ask_client(identity, requests, awaited_input)?;
                        return Ok(CallOutcome::waiting(response, tool, snapshot));
                    }
                }
            }
        };
        self.relay_call(snapshot, &call, &upstream, answers.upstream)
            .await
    }

    /// Validates a call, and lets the repairer rewrite invalid arguments once.
    async fn validate(&self, view: &View, call: &ToolCall) -> Result<HydratedCall, Refusal> {
        let hydrated = match &self.gateway.repairer {
            None => view.hydrator.hydrate(call),
            Some(repairer) => {
                let repairer = SameRepairer {
                    repairer: repairer.as_ref(),
                    waiting: &self.gateway.waiting_repairs,
                    owner: &self.caller.owner,
                };
                tokio::select! {
                    biased;
                    hydrated = view.hydrator.hydrate_with(call, &repairer) => hydrated,
                    () = cancelled_by(self.context) => {
                        return Err(Refusal::new(Code::Cancelled, "the call was cancelled"));
                    }
                }
            }
        };
        hydrated.map_err(Refusal::from_call_error)
    }

    /// Sends a confirmed call to its upstream. The result is the bounded answer, or a question to
    /// the client.
    async fn relay_call(
        &self,
        snapshot: Arc<Snapshot>,
        call: &ValidCall,
        upstream: &Upstream,
        input_answers: InputAnswers,
    ) -> Result<CallOutcome, Refusal> {
        let source = &upstream.server.name;
        let relayed_call = RelayedCall {
            upstream,
            tool: &call.tool().name,
            arguments: call.arguments().as_object().cloned().unwrap_or_default(),
            owner: &self.caller.owner,
            share: upstream.rules.share.unwrap_or(self.gateway.share()),
            level: self.level,
            input_answers,
            context: self.context,
        };
        let mut result = match relayed_call.relay().await? {
            CallToolResponse::Complete(result) => result,
            CallToolResponse::InputRequired(input_required) => {
                let requests = relay::prefix_requests(
                    input_required.input_requests.unwrap_or_default(),
                    upstream,
                    self.context,
                );
                let requests = requests.ok_or_else(|| {
                    let message = format!(
                        "{} asks a question that this client cannot answer",
                        upstream.display_name()
                    );
                    Refusal::new(Code::NotCarried, message)
                })?;
                let identity = call_identity(&self.caller.owner, call.tool(), call.arguments());
                let awaited_input = AwaitedInput::Upstream {
                    state: input_required.request_state,
                    confirmation: call.confirmation().cloned(),
                };
                let response = self.ask_client(identity, requests, awaited_input)?;
                let tool = Arc::clone(call.tool());
                return Ok(CallOutcome::waiting(response, tool, snapshot));
            }
            _ => {
                return Err(Refusal::new(
                    Code::NotCarried,
                    format!(
                        "{} turned the call into a task, which this gateway does not support",
                        upstream.display_name()
                    ),
                ));
            }
        };
        passthrough::rewrite_uris(&mut result, snapshot.settings.names, source);
        let mut note = None;
        // Only a call over MCP has a context. Its result is for a model, so it is shortened; a
        // program that uses the HTTP API gets the complete result.
        if self.context.is_some() {
            let definition = snapshot.definition(call.tool());
            let origin = || ResultOrigin {
                owner: self.caller.owner.clone(),
                upstream: upstream.display_name(),
                scan: upstream.rules.scan,
                output_schema: definition.and_then(|tool| tool.get("outputSchema").cloned()),
            };
            let max_tokens = snapshot.settings.results.max_tokens;
            let results = &self.gateway.large_results;
            let shortened = results
                .shorten_in_background(result, max_tokens, origin)
                .await?;
            (result, note) = (shortened.result, shortened.note);
        }
        results::bound(&mut result, snapshot.settings.results.max_bytes);
        let is_cut = note.is_some();
        result.content.extend(note);
        results::scan(&mut result, upstream.rules.scan, &upstream.display_name())?;
        add_call_meta(&mut result, call);
        Ok(CallOutcome {
            response: result.into(),
            is_cut,
            tool: Arc::clone(call.tool()),
            snapshot,
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
            if client.is_some() && self.gateway.queue.is_some() {
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

    /// Answers with a question to the client, which sends the call again with its answer.
    fn ask_client(
        &self,
        identity: CallIdentity,
        requests: InputRequests,
        awaited_input: AwaitedInput,
    ) -> Result<CallToolResponse, Refusal> {
        let elicitations = &self.gateway.elicitations;
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

/// The only place of the gateway at which calls are allowed: by an earlier approval, by the person
/// at the client, or by the operator.
struct CallerDecider<'a> {
    runner: &'a CallRunner<'a>,
    /// The client's answer to an earlier question.
    answer: Option<&'a Value>,
    view: &'a View,
    upstream: &'a Upstream,
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
        let approvals = Approvals {
            sessions: &gateway.session_approvals,
            queue: gateway.queue.as_ref(),
        };
        let request = self.runner.confirmation_request(call, self.upstream);
        if request.is_approved(&approvals).await {
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
                let scope = request.decide(approvals.queue, &record_decision).await?;
                (scope, "operator")
            }
        };
        let mut server_tools = Vec::new();
        if scope == ApprovalScope::Server {
            for tool in &self.view.tools {
                if tool.source.as_ref() == Some(&self.upstream.server.name) {
                    server_tools.push(ApprovedTool::new(tool, &self.upstream.server));
                }
            }
        }
        request.remember(scope, &approvals, server_tools).await;
        Ok(by)
    }
}

/// Returns `true` if the client may send the call again, for a person or with an answer.
fn waits(outcome: &Result<CallOutcome, Refusal>) -> bool {
    match outcome {
        Ok(outcome) => !matches!(outcome.response, CallToolResponse::Complete(_)),
        Err(refusal) => refusal.code == Code::NotConfirmed,
    }
}

/// Adds the id of the tool, and the repairs of the arguments, to the result.
fn add_call_meta(result: &mut CallToolResult, call: &ValidCall) {
    let meta = result.meta.get_or_insert_with(MetaObject::new);
    meta.0
        .insert("picktools/tool".to_owned(), json!(call.tool().id));
    if !call.repaired().is_empty() {
        let repaired: Vec<String> = call.repaired().iter().map(ToString::to_string).collect();
        meta.0
            .insert("picktools/repaired".to_owned(), json!(repaired));
    }
}
