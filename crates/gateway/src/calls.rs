//! How a tool is run for a caller, whichever way the call came: known today, held to its
//! definition, confirmed, bounded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools::Tool;
use picktools_call::{ApprovalError, ApprovalQueue, Hydrated, PendingCall, ValidCall};
use picktools_provider::ToolCall;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResponse, CallToolResult, ElicitRequest, InputRequest, InputRequests,
    InputRequiredResult, LoggingLevel, MetaObject,
};
use rmcp::service::RequestContext;
use serde_json::json;
use tracing::Instrument;
use tracing::field::Empty;

use crate::hub::Hub;
use crate::journal::Called;
use crate::metrics::Event;
use crate::refusal::{Code, Refusal};
use crate::relay::{self, Asked, Confirmation, confirm, decide};
use crate::rounds::{Again, Awaits};
use crate::settings::Unsafe;
use crate::snapshot::{Snapshot, View};
use crate::upstream::Owner;
use crate::{carried, results, tolerance};

/// The time that a first list, or a first call, waits for upstreams that have not said anything
/// yet.
pub const FIRST: Duration = Duration::from_secs(20);

/// Under which name a client is asked whether a call may run.
const CONFIRM: &str = "run";

/// The client whose call it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Its role.
    pub role: Arc<str>,
    /// The name of its key in the settings.
    pub key: Arc<str>,
    /// The owner of its state.
    pub owner: Owner,
}

/// A call that is to be run.
pub struct Calling<'a> {
    /// The gateway that runs it.
    pub gateway: &'a Hub,
    /// The client whose call it is.
    pub caller: &'a Caller,
    /// The level from which on the client is sent lines for its log.
    pub level: Option<LoggingLevel>,
    /// The client's request, where it can be spoken with while the call runs.
    pub context: Option<&'a RequestContext<RoleServer>>,
}

/// A call that ran, or waits for the client to find something out.
pub struct Ran {
    /// The answer.
    pub response: CallToolResponse,
    pub(crate) tool: Arc<Tool>,
    /// Under which definitions.
    pub(crate) snapshot: Arc<Snapshot>,
}

impl Calling<'_> {
    /// Runs a tool, and tells how that went.
    ///
    /// # Errors
    ///
    /// [`Refusal`], why it was not carried out.
    pub fn run(
        &self,
        snapshot: Arc<Snapshot>,
        view: Arc<View>,
        call: ToolCall,
        again: Again,
    ) -> BoxFuture<'_, Result<Ran, Refusal>> {
        let run = async move {
            self.gateway.journal.ready()?;
            let started = Instant::now();
            let tool = view.tool_of(&call.name).ok().cloned();
            let noting = self.gateway.journal.calling(|| Called {
                key: Arc::clone(&self.caller.key),
                role: Arc::clone(&self.caller.role),
                session: Arc::clone(&self.caller.owner.0),
                requested: call.name.clone(),
                tool: tool.clone(),
                arguments: call.arguments.clone(),
            });
            let span = tracing::info_span!(target: "picktools::span", "call", tool = Empty, outcome = Empty);
            if let Some(tool) = &tool {
                span.record("tool", &*tool.id);
            }
            let outcome = self
                .carry_out(snapshot, view, call, again)
                .instrument(span.clone())
                .await;
            let ended = match &outcome {
                Ok(Ran {
                    response: CallToolResponse::Complete(result),
                    ..
                }) if result.is_error == Some(true) => "failed",
                Ok(Ran {
                    response: CallToolResponse::Complete(_),
                    ..
                }) => "done",
                Ok(_) => "asked",
                Err(refusal) => refusal.code.name(),
            };
            span.record("outcome", ended);
            noting.ended(ended);
            if let Some(tool) = tool {
                let (upstream, code) = (
                    tool.source.as_deref().unwrap_or_default(),
                    outcome.as_ref().err(),
                );
                let code = code.map(|refusal| refusal.code.name());
                self.gateway.meter.record(&Event::Call {
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

    /// Runs a tool of an upstream: known today, called by a name of its own, held to its
    /// definition, and confirmed.
    async fn carry_out(
        &self,
        mut snapshot: Arc<Snapshot>,
        mut view: Arc<View>,
        mut call: ToolCall,
        again: Again,
    ) -> Result<Ran, Refusal> {
        let requested = call.name.clone();
        let refused = |error| Refusal::of(error, &requested);
        let source = view
            .tool_of(&call.name)
            .map_err(refused)?
            .source
            .clone()
            .unwrap_or_default();
        let Some(upstream) = self.gateway.upstream(&source) else {
            let message = format!("{requested} is of a catalog, and no server here runs it");
            return Err(Refusal::new(Code::NotCarried, message));
        };
        let Self {
            caller, context, ..
        } = *self;
        if self.gateway.asked(&upstream, FIRST).await? {
            snapshot = self.gateway.snapshot();
            view = snapshot.view(&caller.role)?;
        }
        let tool = view.tool_of(&call.name).map_err(refused)?;
        let name = tolerance::without_prefix(&call.name);
        // A name that was shown stays as it is.
        call.name = if view.hydrator.tool_of(name).is_ok() {
            name.to_owned()
        } else {
            tool.id.clone()
        };
        let (call, must_ask) = match view.hydrator.hydrate(&call).map_err(refused)? {
            Hydrated::Ready(call) => {
                let must_ask = call.tool().is_unsafe() && view.marked_unsafe == Unsafe::Confirm;
                (call, must_ask)
            }
            Hydrated::NeedsApproval(pending) => (released(pending)?, true),
        };
        let awaited = again
            .state
            .as_ref()
            .and_then(|state| self.gateway.rounds.take(&caller.owner, &call, state));
        if again.state.is_some() && awaited.is_none() {
            let message = "the call does not wait for an answer, or another one does; call it anew";
            return Err(Refusal::new(Code::NotConfirmed, message));
        }
        if must_ask && !matches!(awaited, Some(Awaits::Upstream(_))) {
            let answer = again
                .answers
                .get(CONFIRM)
                .filter(|_| awaited == Some(Awaits::Confirmation));
            match confirm(&call, answer, context).await? {
                Confirmation::Given => {}
                Confirmation::ByOperator => self.decide(&call).await?,
                Confirmation::Later(request) => {
                    let request = InputRequest::Elicitation(ElicitRequest::new(*request));
                    let requests = [(CONFIRM.to_owned(), request)].into();
                    return self.ask_later(snapshot, &call, requests, Awaits::Confirmation);
                }
            }
        }
        let asked = Asked {
            upstream: &upstream,
            tool: &call.tool().name,
            arguments: call.arguments().as_object().cloned().unwrap_or_default(),
            owner: &caller.owner,
            share: upstream.rules.share.unwrap_or(self.gateway.share()),
            level: self.level,
            again: match awaited {
                Some(Awaits::Upstream(state)) => Again {
                    answers: again.answers,
                    state,
                },
                _ => Again::default(),
            },
            context,
        };
        let mut result = match asked.relay().await? {
            CallToolResponse::Complete(result) => result,
            CallToolResponse::InputRequired(asked) => {
                let requests =
                    relay::named(asked.input_requests.unwrap_or_default(), &source, context);
                let requests = requests.ok_or_else(|| {
                    let message =
                        format!("{} asks for what this client cannot give", upstream.shown());
                    Refusal::new(Code::NotCarried, message)
                })?;
                return self.ask_later(
                    snapshot,
                    &call,
                    requests,
                    Awaits::Upstream(asked.request_state),
                );
            }
            _ => {
                return Err(Refusal::new(
                    Code::NotCarried,
                    format!("{} made a task of the call", upstream.shown()),
                ));
            }
        };
        carried::qualify(&mut result, snapshot.settings.names, &source);
        results::bound(&mut result, snapshot.settings.results.max_bytes);
        results::scan(&mut result, upstream.rules.scan, &upstream.shown())?;
        note(&mut result, &call);
        Ok(Ran {
            response: result.into(),
            tool: Arc::clone(call.tool()),
            snapshot,
        })
    }

    /// Has the operator decide, and notes a decision that is used up before anybody else sees it.
    async fn decide(&self, call: &ValidCall) -> Result<(), Refusal> {
        let used = |approval| self.gateway.journal.approved(approval);
        decide(self.gateway.queue.as_ref(), &self.caller.owner, call, &used).await
    }

    /// Has the client find something out and send the call again.
    fn ask_later(
        &self,
        snapshot: Arc<Snapshot>,
        call: &ValidCall,
        requests: InputRequests,
        awaits: Awaits,
    ) -> Result<Ran, Refusal> {
        let state = self.gateway.rounds.wait(&self.caller.owner, call, awaits);
        let busy = || {
            Refusal::new(
                Code::Busy,
                "too many calls wait for an answer; call again later",
            )
        };
        let response =
            InputRequiredResult::new(Some(requests), Some(state.ok_or_else(busy)?)).into();
        Ok(Ran {
            response,
            tool: Arc::clone(call.tool()),
            snapshot,
        })
    }
}

/// A call that waits for a person, as one that may be asked about.
fn released(pending: PendingCall) -> Result<ValidCall, Refusal> {
    let held = |error: ApprovalError| Refusal::new(Code::NotConfirmed, error.to_string());
    let (mut queue, now) = (ApprovalQueue::new(Duration::from_secs(60)), Instant::now());
    let ticket = queue.push(pending, now).map_err(held)?;
    queue.approve(ticket, now).map_err(held)
}

/// Notes which tool ran, and how its arguments were mended.
fn note(result: &mut CallToolResult, call: &ValidCall) {
    let meta = result.meta.get_or_insert_with(MetaObject::new);
    meta.0
        .insert("picktools/tool".to_owned(), json!(call.tool().id));
    if !call.repaired().is_empty() {
        let repaired: Vec<String> = call.repaired().iter().map(ToString::to_string).collect();
        meta.0
            .insert("picktools/repaired".to_owned(), json!(repaired));
    }
}
