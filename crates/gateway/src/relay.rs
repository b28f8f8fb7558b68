//! How one call reaches an upstream and comes back. The task of a call does all of it, and is the
//! only one that talks to its client: the protocol has what is said during a call belong to that
//! call.

use std::time::{Duration, Instant};

use picktools::excerpt::marked;
use picktools_call::ValidCall;
use picktools_mcp::Said;
use picktools_runtime::told;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, ClientRequest,
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, InputRequest, InputRequests, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    RequestMetaObject,
};
use rmcp::service::{PeerRequestOptions, RequestContext, ServiceError};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};
use tokio::time::{sleep_until, timeout, timeout_at};

use crate::journal::{Approval, Waiting};
use crate::listener::{Asks, Heard};
use crate::queue::{self, CallQueue, Decision};
use crate::refusal::{Code, Refusal};
use crate::results;
use crate::rounds::Again;
use crate::settings::Share;
use crate::upstream::{Client, Lease, Owner, Upstream};

/// How long it may take to find out what the operator decided of a call.
const DECIDES: Duration = Duration::from_secs(2);
/// How long a client may take to read a notification before it is dropped.
const TELL: Duration = Duration::from_secs(2);
/// How long a person may take to answer.
const ANSWER: Duration = Duration::from_secs(300);
/// The most characters of what an upstream says is wrong, and asks a person.
const MAX_SAID: usize = 4_000;
/// The most bytes of a line for a log.
const MAX_LOG_BYTES: usize = 16 << 10;
/// What goes on of what a client says beside its request.
const CARRIED: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// The request of a client that can be spoken with while it runs.
pub(crate) type Line<'a> = Option<&'a RequestContext<RoleServer>>;

/// A call, and for whom.
pub(crate) struct Asked<'a> {
    pub(crate) upstream: &'a Upstream,
    pub(crate) tool: &'a str,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) owner: &'a Owner,
    pub(crate) share: Share,
    pub(crate) level: Option<LoggingLevel>,
    /// What the upstream asked before, answered.
    pub(crate) again: Again,
    /// The client's request, where it can be spoken with.
    pub(crate) context: Line<'a>,
}

impl Asked<'_> {
    /// Carries it out.
    pub(crate) async fn relay(self) -> Result<CallToolResponse, Refusal> {
        let deadline = Instant::now() + self.upstream.rules.call_time();
        let cancelled = || Refusal::new(Code::Cancelled, "the call was cancelled");
        let leased = self
            .upstream
            .lease(self.owner, self.share, client(self.context), deadline);
        let mut lease = tokio::select! {
            biased;
            () = cancelled_by(self.context) => return Err(cancelled()),
            lease = leased => lease?,
        };
        let mut params =
            CallToolRequestParams::new(self.tool.to_owned()).with_arguments(self.arguments.clone());
        params.request_state.clone_from(&self.again.state);
        params.input_responses =
            Some(self.again.answers.clone()).filter(|answers| !answers.is_empty());
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let (tell, wants_progress) = (lease.tell.clone(), self.progress_token().is_some());
        let hear = move |said: Said| {
            if wants_progress || !matches!(said, Said::Progress(_)) {
                // Whoever does not read is told less.
                drop(tell.try_send(Heard::Said(said)));
            }
        };
        let options = PeerRequestOptions::no_options().with_meta(self.carried());
        let begun = match lease.connection.begin(request, options, hear).await {
            Ok(begun) => begun,
            Err(error) => return Err(self.broke(&mut lease, &error).await),
        };
        let mut answer = std::pin::pin!(begun.answer());
        let mut last = f64::NEG_INFINITY;
        let answer = loop {
            tokio::select! {
                biased;
                () = cancelled_by(self.context) => return Err(cancelled()),
                Some(heard) = lease.heard.recv() => self.tell(heard, &mut last, deadline).await,
                answer = &mut answer => break answer,
                () = sleep_until(deadline.into()) => {
                    let message = format!(
                        "{} did not answer within {} s; the call was given up, and may have had an effect",
                        self.upstream.shown(), self.upstream.rules.call_s
                    );
                    return Err(Refusal::new(Code::TimedOut, message));
                }
            }
        };
        // What it said before it answered comes before the answer.
        while let Ok(heard @ Heard::Said(_)) = lease.heard.try_recv() {
            self.tell(heard, &mut last, deadline).await;
        }
        match answer {
            Ok(answer) => {
                lease.answered();
                self.upstream.answered();
                results::read(answer, &self.upstream.shown())
            }
            Err(ServiceError::McpError(error)) => {
                lease.answered();
                self.upstream.answered();
                let message = format!(
                    "{}: {}",
                    self.upstream.shown(),
                    marked(&error.message, MAX_SAID)
                );
                Err(Refusal::new(Code::UpstreamError, message))
            }
            Err(error) => Err(self.broke(&mut lease, &error).await),
        }
    }

    /// What goes on of what the client says beside its request.
    fn carried(&self) -> RequestMetaObject {
        let mut meta = RequestMetaObject::new();
        for key in CARRIED {
            if let Some(value) = self.context.and_then(|context| context.meta.0.0.get(key)) {
                meta.0.0.insert(key.to_owned(), value.clone());
            }
        }
        meta
    }

    fn progress_token(&self) -> Option<ProgressToken> {
        self.context?.meta.get_progress_token()
    }

    async fn broke(&self, lease: &mut Lease, error: &ServiceError) -> Refusal {
        let said = lease.connection.said(error);
        lease.answered();
        self.upstream.failed(&said);
        let last_words = timeout(TELL, lease.connection.end())
            .await
            .unwrap_or_default();
        let last_words: String = last_words
            .iter()
            .map(|line| format!("\n  {line}"))
            .collect();
        let message = format!(
            "{}: {said}; the call may have had an effect, and is not repeated{last_words}",
            self.upstream.shown()
        );
        Refusal::new(Code::UpstreamDied, message)
    }

    async fn tell(&self, heard: Heard, last: &mut f64, deadline: Instant) {
        match heard {
            Heard::Said(Said::Progress(progress)) => {
                // It must grow, whatever an upstream sends.
                let Some(token) = self.progress_token().filter(|_| progress.progress > *last)
                else {
                    return;
                };
                let Some(context) = self.context else { return };
                *last = progress.progress;
                let mut own = ProgressNotificationParam::new(token, progress.progress);
                own.total = progress.total;
                own.message = progress
                    .message
                    .map(|text| marked(&text, MAX_SAID).into_owned());
                drop(timeout(TELL, context.peer.notify_progress(own)).await);
            }
            Heard::Said(Said::Log(message)) => {
                if self
                    .level
                    .is_some_and(|level| severity(message.level) >= severity(level))
                {
                    self.log(message).await;
                }
            }
            Heard::Said(_) => {}
            Heard::Elicit(request, reply) => {
                let answer = self.elicit(*request, deadline).await;
                // The upstream may have gone meanwhile.
                drop(reply.send(answer));
            }
            Heard::Sample(request, reply) => {
                let answer = self.sample(*request, deadline).await;
                drop(reply.send(answer));
            }
        }
    }

    async fn log(&self, message: LoggingMessageNotificationParam) {
        let Some(context) = self.context else { return };
        let source = &self.upstream.server.name;
        let logger = match &message.logger {
            Some(logger) => format!("{source}: {}", marked(logger, 100)),
            None => source.clone(),
        };
        let text = message.data.to_string();
        let data = if text.len() > MAX_LOG_BYTES {
            json!(format!(
                "{} [cut]",
                &text[..text.floor_char_boundary(MAX_LOG_BYTES)]
            ))
        } else {
            message.data
        };
        let own = LoggingMessageNotificationParam::new(message.level, data).with_logger(logger);
        #[expect(deprecated, reason = "older clients know no other way")]
        let told = context.peer.notify_logging_message(own);
        drop(timeout(TELL, told).await);
    }

    /// Asks the model at the client, which may ask its person first.
    async fn sample(
        &self,
        request: CreateMessageRequestParams,
        deadline: Instant,
    ) -> Result<CreateMessageResult, ErrorData> {
        let refused = |why: &str| Err(ErrorData::invalid_request(why.to_owned(), None));
        let Some(context) = self.context.filter(|_| asks(self.context).model) else {
            return refused("there is no model to ask");
        };
        tokio::select! {
            biased;
            () = cancelled_by(self.context) => refused("the call was cancelled"),
            answer = timeout_at(deadline.into(), context.peer.create_message(request)) => match answer {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(ServiceError::McpError(error))) => Err(error),
                _ => refused("the model did not answer"),
            }
        }
    }

    /// Asks the person at the client what the upstream wants to know, and says who asks.
    async fn elicit(&self, request: ElicitRequestParams, deadline: Instant) -> ElicitResult {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let source = &self.upstream.server.name;
        let ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } = request
        else {
            return declined();
        };
        let Some(context) = self.context.filter(|_| asks(self.context).person) else {
            return declined();
        };
        let message = format!("[{source}] {}", marked(&message, MAX_SAID));
        let own = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message,
            requested_schema,
        };
        tokio::select! {
            biased;
            () = cancelled_by(self.context) => declined(),
            answer = timeout_at(deadline.into(), context.peer.create_elicitation(own)) => {
                answer.ok().and_then(Result::ok).unwrap_or_else(declined)
            }
        }
    }
}

/// Waits until a client takes a request back; one that cannot be spoken with does so by going away.
async fn cancelled_by(context: Line<'_>) {
    match context {
        Some(context) => context.ct.cancelled().await,
        None => std::future::pending().await,
    }
}

/// What is known of a client.
pub(crate) fn client(context: Line<'_>) -> Client {
    let version = context.and_then(RequestContext::protocol_version);
    let is_newest = version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    Client {
        asks: asks(context),
        is_newest,
    }
}

/// What a client can be asked during a call.
pub(crate) fn asks(context: Line<'_>) -> Asks {
    let Some(context) = context else {
        return Asks::default();
    };
    let is_older = context
        .protocol_version()
        .is_some_and(|version| version < ProtocolVersion::V_2026_07_28);
    let capabilities = context
        .client_capabilities()
        .filter(|_| is_older)
        .unwrap_or_default();
    Asks {
        person: capabilities.elicitation.is_some(),
        model: capabilities.sampling.is_some(),
    }
}

/// What a client can be asked by a result, which it answers in a later request.
pub(crate) fn asks_later(context: Line<'_>) -> Asks {
    let Some(context) = context else {
        return Asks::default();
    };
    let is_newer = context
        .protocol_version()
        .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    let capabilities = context
        .client_capabilities()
        .filter(|_| is_newer)
        .unwrap_or_default();
    Asks {
        person: capabilities.elicitation.is_some(),
        model: capabilities.sampling.is_some(),
    }
}

/// What a person says of a call.
pub(crate) enum Confirmation {
    /// It may run.
    Given,
    /// The client is to ask, and to send the call again.
    Later(Box<ElicitRequestParams>),
    /// The client cannot ask anybody.
    ByOperator,
}

/// Has the operator decide about a call whose client cannot ask anybody. `used` is told of a
/// decision, which is used up.
pub(crate) async fn decide(
    queue: Option<&CallQueue>,
    owner: &Owner,
    call: &ValidCall,
    used: &(dyn Fn(Approval) + Sync),
) -> Result<(), Refusal> {
    let id = &call.tool().id;
    let refused = |why: &str| Refusal::new(Code::NotConfirmed, format!("{id} did not run: {why}"));
    const WHY: &str =
        "it may do damage, each call of it must be confirmed, and this client cannot ask a person";
    let Some(queue) = queue.cloned() else {
        return Err(refused(WHY));
    };
    let asked = queue::Asked::new(owner, call);
    let decided = timeout(
        DECIDES,
        tokio::task::spawn_blocking(move || queue.ask(asked)),
    )
    .await;
    let decided = match decided {
        Ok(Ok(decided)) => decided.map_err(|error| error.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        // A decision may be used up by that, and the call has not run.
        Err(_) => Err("what keeps calls that wait did not answer in time".to_owned()),
    };
    if let Ok(Some((id, decision))) = &decided
        && let Some(decision) = decision.word()
    {
        let of = Waiting::Call {
            id: id.clone(),
            tool: call.tool().id.clone(),
            shown: told(call),
        };
        used(Approval {
            of,
            decision,
            by: None,
        });
    }
    match decided {
        Ok(Some((_, Decision::Allowed))) => Ok(()),
        Ok(Some((_, Decision::Denied))) => Err(refused(DISALLOWED)),
        Ok(Some((call, Decision::Waits))) => Err(refused(&format!(
            "{WHY}; it waits for the operator, who may allow it with `picktools approve --call {call}`: tell the user, \
             and call it again with the same arguments once it is allowed"
        ))),
        Ok(None) => Err(refused(&format!(
            "{WHY}, and too many calls wait for the operator"
        ))),
        Err(error) => Err(refused(&format!(
            "{WHY}, and it cannot wait for the operator: {error}"
        ))),
    }
}

/// Asks a person whether a call may run. The text is ours: nothing that an upstream wrote is in it.
/// `answer` is what the client was told when it was asked before.
pub(crate) async fn confirm(
    call: &ValidCall,
    answer: Option<&Value>,
    context: Line<'_>,
) -> Result<Confirmation, Refusal> {
    let id = &call.tool().id;
    let refused = |why: &str| Refusal::new(Code::NotConfirmed, format!("{id} did not run: {why}"));
    if let Some(answer) = answer {
        return match serde_json::from_value::<ElicitResult>(answer.clone()) {
            Ok(answer) if may_run(&answer) => Ok(Confirmation::Given),
            _ => Err(refused(DISALLOWED)),
        };
    }
    let schema = json!({
        "type": "object",
        "properties": {"run": {"type": "boolean", "title": "Run it", "description": "Whether this call may run"}},
        "required": ["run"]
    });
    let schema = schema.as_object().cloned().unwrap_or_default();
    let requested_schema = ElicitationSchema::from_json_schema(schema)
        .map_err(|error| refused(&format!("nobody can be asked: {error}")))?;
    let message = format!(
        "Run {}? It is marked as a tool that may do damage.",
        told(call)
    );
    let request = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema,
    };
    if asks_later(context).person {
        return Ok(Confirmation::Later(Box::new(request)));
    }
    let Some(context) = context.filter(|_| asks(context).person) else {
        return Ok(Confirmation::ByOperator);
    };
    let answer = tokio::select! {
        biased;
        () = cancelled_by(Some(context)) => return Err(Refusal::new(Code::Cancelled, "the call was cancelled")),
        answer = timeout(ANSWER, context.peer.create_elicitation(request)) => answer,
    };
    match answer {
        Ok(Ok(answer)) if may_run(&answer) => Ok(Confirmation::Given),
        Ok(Ok(_)) => Err(refused(DISALLOWED)),
        Ok(Err(_)) => Err(refused("nobody could be asked whether it may")),
        Err(_) => Err(refused("nobody answered whether it may")),
    }
}

const DISALLOWED: &str =
    "the person who was asked did not allow it; do not call it again unless they ask for it";

fn may_run(answer: &ElicitResult) -> bool {
    let run = answer
        .content
        .as_ref()
        .and_then(|content| content.get("run"));
    answer.action == ElicitationAction::Accept && run == Some(&Value::Bool(true))
}

/// What an upstream asks of a client, with the upstream's name; `None` where the client cannot give
/// all of it.
pub(crate) fn named(
    requests: InputRequests,
    source: &str,
    context: Line<'_>,
) -> Option<InputRequests> {
    let asks = asks_later(context);
    let named = |(key, request)| match request {
        InputRequest::Elicitation(mut request) if asks.person => {
            let ElicitRequestParams::FormElicitationParams { message, .. } = &mut request.params
            else {
                return None;
            };
            *message = format!("[{source}] {}", marked(message, MAX_SAID));
            Some((key, InputRequest::Elicitation(request)))
        }
        request @ InputRequest::CreateMessage(_) if asks.model => Some((key, request)),
        _ => None,
    };
    requests.into_iter().map(named).collect()
}

/// Levels in the order of how bad they are.
fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
