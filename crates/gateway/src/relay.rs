//! Relaying a call to an upstream. The task of the call forwards all messages about it to the
//! client, because the protocol ties them to the client's request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use picktools::excerpt::marked;
use picktools_mcp::{HttpFailure, RequestUpdate};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, ClientRequest,
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, InputRequest, InputRequests, LoggingLevel, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestMetaObject,
};
use rmcp::service::{PeerRequestOptions, RequestContext, ServiceError};
use rmcp::{ErrorData, RoleServer};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::{sleep_until, timeout, timeout_at};

use crate::api_keys::RequestIdentity;
use crate::elicitations::InputAnswers;
use crate::listener::{ClientAbilities, UpstreamEvent};
use crate::refusal::{Code, Refusal};
use crate::results;
use crate::settings::Share;
use crate::text_scan::{TextScan, with_mark};
use crate::updates::UpdateBudget;
use crate::upstream::{ClientTraits, Lease, Owner, Upstream};

/// The time after which a busy server is asked again if it names none.
const BUSY_TIME: Duration = Duration::from_secs(5);
/// The time that a client has to accept a notification, and that a failed connection has to end.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(2);
/// Progress prolongs a call, up to this multiple of its time.
const MAX_PROLONGATION: u32 = 10;
/// The most characters of an upstream's error message, question or progress message.
const MAX_TEXT: usize = 4_000;
/// The metadata of a client's request that is forwarded.
const FORWARDED_META: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// The client's request, or `None` if the call does not come from an MCP client.
pub(crate) type ClientContext<'a> = Option<&'a RequestContext<RoleServer>>;

/// A call to an upstream, with its caller.
pub(crate) struct RelayedCall<'a> {
    pub(crate) upstream: &'a Upstream,
    pub(crate) tool: &'a str,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) owner: &'a Owner,
    pub(crate) share: Share,
    pub(crate) level: Option<LoggingLevel>,
    /// The answers to the upstream's earlier questions.
    pub(crate) input_answers: InputAnswers,
    pub(crate) context: ClientContext<'a>,
}

impl RelayedCall<'_> {
    /// Runs the call. The texts of the upstream in an error are scanned.
    pub(crate) async fn relay(self) -> Result<CallToolResponse, Refusal> {
        let text_scan = self.upstream.text_scan();
        let answer = self.relay_unscanned().await;
        answer.map_err(|refusal| text_scan.refusal(refusal))
    }

    async fn relay_unscanned(self) -> Result<CallToolResponse, Refusal> {
        let started = Instant::now();
        let call_time = self.upstream.rules.call_time();
        let mut deadline = started + call_time;
        let cancelled = || Refusal::new(Code::Cancelled, "the call was cancelled");
        let lease_request = self.upstream.lease(
            self.owner,
            self.share,
            client_traits(self.context),
            deadline,
        );
        let mut lease = tokio::select! {
            biased;
            () = cancelled_by(self.context) => return Err(cancelled()),
            lease = lease_request => lease?,
        };
        let mut params =
            CallToolRequestParams::new(self.tool.to_owned()).with_arguments(self.arguments.clone());
        params.request_state.clone_from(&self.input_answers.state);
        if !self.input_answers.answers.is_empty() {
            params.input_responses = Some(self.input_answers.answers.clone());
        }
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let event_sender = lease.event_sender.clone();
        let budget = UpdateBudget::new(self.upstream.display_name());
        let on_notification = move |notification: RequestUpdate| {
            // A slow reader misses messages.
            if let Some(notification) = budget.admit(notification) {
                drop(event_sender.try_send(UpstreamEvent::Notification(notification)));
            }
        };
        let options = PeerRequestOptions::no_options().with_meta(self.forwarded_meta());
        let running_call = match lease
            .connection
            .begin(request, options, on_notification)
            .await
        {
            Ok(running_call) => running_call,
            Err(error) => return Err(self.call_failed(&mut lease, error).await),
        };
        let mut answer = std::pin::pin!(running_call.answer());
        let mut last_progress = f64::NEG_INFINITY;
        let answer = loop {
            tokio::select! {
                biased;
                () = cancelled_by(self.context) => return Err(cancelled()),
                Some(event) = lease.events.recv() => {
                    if let UpstreamEvent::Notification(RequestUpdate::Progress(progress)) = &event
                        && progress.progress > last_progress
                    {
                        let longest = call_time.saturating_mul(MAX_PROLONGATION);
                        let remaining = longest.saturating_sub(started.elapsed());
                        deadline = Instant::now() + call_time.min(remaining);
                    }
                    self.forward(event, &mut last_progress, deadline).boxed().await;
                }
                answer = &mut answer => break answer,
                () = sleep_until(deadline.into()) => {
                    let message = format!(
                        "{} did not answer within {} s; the call was given up, and may have had \
                         an effect",
                        self.upstream.display_name(), started.elapsed().as_secs()
                    );
                    return Err(Refusal::new(Code::TimedOut, message));
                }
            }
        };
        // Messages that arrived before the answer are delivered before it.
        while let Ok(event @ UpstreamEvent::Notification(_)) = lease.events.try_recv() {
            self.forward(event, &mut last_progress, deadline)
                .boxed()
                .await;
        }
        match answer {
            Ok(answer) => {
                lease.record_answer();
                self.upstream.record_answer();
                results::parse_answer(answer, &self.upstream.display_name())
            }
            Err(error) => Err(self.call_failed(&mut lease, error).await),
        }
    }

    /// Returns the refusal for an error that the server answered with, or that its configuration
    /// causes, or because of which its connection has ended.
    async fn call_failed(&self, lease: &mut Lease, error: ServiceError) -> Refusal {
        let ServiceError::McpError(error) = error else {
            return self.connection_failed(lease, &error).await;
        };
        lease.record_answer();
        self.upstream.record_answer();
        let message = format!(
            "{}: {}",
            self.upstream.display_name(),
            marked(&error.message, MAX_TEXT)
        );
        match HttpFailure::of(&error) {
            Some(failure) if failure.is_busy() => {
                let refusal = Refusal::new(
                    Code::Busy,
                    format!("{message}; the call had no effect, so it may be repeated"),
                );
                refusal.retry_after(failure.retry_after.unwrap_or(BUSY_TIME))
            }
            _ => Refusal::new(Code::UpstreamError, message),
        }
    }

    /// Returns the metadata that is forwarded.
    fn forwarded_meta(&self) -> RequestMetaObject {
        let mut meta = RequestMetaObject::new();
        let Some(context) = self.context else {
            return meta;
        };
        for key in FORWARDED_META {
            if let Some(value) = context.meta.0.0.get(key) {
                meta.0.0.insert(key.to_owned(), value.clone());
            }
        }
        meta
    }

    fn progress_token(&self) -> Option<ProgressToken> {
        self.context?.meta.get_progress_token()
    }

    async fn connection_failed(&self, lease: &mut Lease, error: &ServiceError) -> Refusal {
        let error_text = lease.connection.describe_error(error);
        lease.record_answer();
        self.upstream.record_end(&lease.connection, &error_text);
        let last_lines = timeout(NOTIFY_TIMEOUT, lease.connection.end())
            .await
            .unwrap_or_default();
        let mut last_words = String::new();
        for line in &last_lines {
            last_words.push_str("\n  ");
            last_words.push_str(line);
        }
        let message = format!(
            "{}: {error_text}; the call may have had an effect, and is not repeated{last_words}",
            self.upstream.display_name()
        );
        Refusal::new(Code::UpstreamDied, message)
    }

    async fn forward(&self, event: UpstreamEvent, last_progress: &mut f64, deadline: Instant) {
        match event {
            UpstreamEvent::Notification(RequestUpdate::Progress(progress)) => {
                // Progress must increase, whatever the upstream sends.
                let has_increased = progress.progress > *last_progress;
                if !has_increased {
                    return;
                }
                *last_progress = progress.progress;
                let Some(token) = self.progress_token() else {
                    return;
                };
                let Some(context) = self.context else { return };
                let mut forwarded = ProgressNotificationParam::new(token, progress.progress);
                forwarded.total = progress.total;
                let text_scan = self.upstream.text_scan();
                // A blocked message is left out; the progress itself is a number.
                forwarded.message = progress
                    .message
                    .and_then(|message| text_scan.text(message).ok());
                drop(timeout(NOTIFY_TIMEOUT, context.peer.notify_progress(forwarded)).await);
            }
            UpstreamEvent::Notification(RequestUpdate::Log(message)) => {
                if self
                    .level
                    .is_some_and(|level| severity(message.level) >= severity(level))
                {
                    self.log(message).await;
                }
            }
            UpstreamEvent::Notification(_) => {}
            // The upstream has cancelled its request.
            UpstreamEvent::Elicit(_, reply) if reply.is_closed() => {}
            UpstreamEvent::Sample(_, reply) if reply.is_closed() => {}
            UpstreamEvent::Elicit(request, reply) => {
                let answer = self.elicit(*request, deadline).await;
                // The upstream may be gone.
                drop(reply.send(answer));
            }
            UpstreamEvent::Sample(request, reply) => {
                let answer = self.sample(*request, deadline).await;
                drop(reply.send(answer));
            }
        }
    }

    async fn log(&self, message: LoggingMessageNotificationParam) {
        let Some(context) = self.context else { return };
        let source = &self.upstream.server.name;
        let text_scan = self.upstream.text_scan();
        let data = match text_scan.value_codes(&(&message.data, &message.logger)) {
            Ok(codes) if codes.is_empty() => message.data,
            Ok(codes) => json!(with_mark(&codes, message.data.to_string())),
            Err(refusal) => {
                tracing::warn!(
                    target: "picktools::gateway", server = %source, reason = %refusal.message,
                    "a log line was left out"
                );
                return;
            }
        };
        let logger = match &message.logger {
            Some(logger) => format!("{source}: {}", marked(logger, 100)),
            None => source.clone(),
        };
        let forwarded =
            LoggingMessageNotificationParam::new(message.level, data).with_logger(logger);
        #[expect(deprecated, reason = "older clients support no other method")]
        let notification = context.peer.notify_logging_message(forwarded);
        drop(timeout(NOTIFY_TIMEOUT, notification).await);
    }

    /// Asks the client's model on behalf of the upstream.
    async fn sample(
        &self,
        mut request: CreateMessageRequestParams,
        deadline: Instant,
    ) -> Result<CreateMessageResult, ErrorData> {
        let decline = |reason: &str| Err(ErrorData::invalid_request(reason.to_owned(), None));
        match self.upstream.text_scan().value_codes(&request) {
            Ok(codes) if codes.is_empty() => {}
            Ok(codes) => {
                let prompt = request.system_prompt.take().unwrap_or_default();
                request.system_prompt = Some(with_mark(&codes, prompt));
            }
            Err(refusal) => return decline(&refusal.message),
        }
        let context = match self.context {
            Some(context) if client_abilities(self.context).model => context,
            _ => return decline("there is no model to ask"),
        };
        tokio::select! {
            biased;
            () = cancelled_by(self.context) => decline("the call was cancelled"),
            answer = timeout_at(deadline.into(), context.peer.create_message(request)) => match answer {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(ServiceError::McpError(error))) => Err(error),
                _ => decline("the model did not answer"),
            }
        }
    }

    /// Asks the person at the client on behalf of the upstream, and names the upstream.
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
        let context = match self.context {
            Some(context) if client_abilities(self.context).person => context,
            _ => return declined(),
        };
        let text_scan = self.upstream.text_scan();
        let Ok(message) = scanned_question(&message, &requested_schema, &text_scan) else {
            return declined();
        };
        let message = format!("[{source}] {message}");
        let prefixed = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message,
            requested_schema,
        };
        tokio::select! {
            biased;
            () = cancelled_by(self.context) => declined(),
            answer = timeout_at(deadline.into(), context.peer.create_elicitation(prefixed)) => {
                match answer {
                    Ok(Ok(answer)) => answer,
                    _ => declined(),
                }
            }
        }
    }
}

/// Waits until the client cancels the request. Without a context it waits forever: such a call is
/// cancelled by dropping its future.
pub(crate) async fn cancelled_by(context: ClientContext<'_>) {
    match context {
        Some(context) => context.ct.cancelled().await,
        None => std::future::pending().await,
    }
}

/// Returns the properties of a client that matter for connections.
pub(crate) fn client_traits(context: ClientContext<'_>) -> ClientTraits {
    let parts = context.and_then(|context| context.extensions.get::<http::request::Parts>());
    let identity = parts.and_then(|parts| parts.extensions.get::<RequestIdentity>());
    ClientTraits {
        key: identity.map(|identity| Arc::clone(&identity.key)),
        abilities: client_abilities(context),
        is_newest: context.is_some_and(speaks_newest),
    }
}

/// Returns the kinds of questions that a client can answer while the call runs.
pub(crate) fn client_abilities(context: ClientContext<'_>) -> ClientAbilities {
    let Some(context) = context else {
        return ClientAbilities::default();
    };
    let is_older = context
        .protocol_version()
        .is_some_and(|version| version < ProtocolVersion::V_2026_07_28);
    if !is_older {
        return ClientAbilities::default();
    }
    declared_abilities(context)
}

/// Returns the kinds of questions that a client can answer by sending the call again.
pub(crate) fn deferred_abilities(context: ClientContext<'_>) -> ClientAbilities {
    let Some(context) = context else {
        return ClientAbilities::default();
    };
    if !speaks_newest(context) {
        return ClientAbilities::default();
    }
    declared_abilities(context)
}

/// Returns `true` if a client speaks revision 2026-07-28 or later.
fn speaks_newest(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Returns the kinds of questions that a client declares as capabilities.
fn declared_abilities(context: &RequestContext<RoleServer>) -> ClientAbilities {
    let capabilities = context.client_capabilities().unwrap_or_default();
    ClientAbilities {
        person: capabilities.elicitation.is_some(),
        model: capabilities.sampling.is_some(),
    }
}

/// Returns the text of a question to a person, with a mark if it or its form has findings.
fn scanned_question(
    message: &str,
    form: &impl Serialize,
    text_scan: &TextScan,
) -> Result<String, Refusal> {
    let message = marked(message, MAX_TEXT);
    let codes = text_scan.value_codes(&(&message, form))?;
    Ok(with_mark(&codes, message.into_owned()))
}

/// Adds the upstream's name to its questions to a person. Returns `None` if the client cannot
/// answer one of its questions, or a question is blocked.
pub(crate) fn prefix_requests(
    requests: InputRequests,
    upstream: &Upstream,
    context: ClientContext<'_>,
) -> Option<InputRequests> {
    let abilities = deferred_abilities(context);
    let text_scan = upstream.text_scan();
    let prefix_request = |(key, request)| match request {
        InputRequest::Elicitation(mut request) if abilities.person => {
            let ElicitRequestParams::FormElicitationParams {
                message,
                requested_schema,
                ..
            } = &mut request.params
            else {
                return None;
            };
            let scanned = scanned_question(message, requested_schema, &text_scan).ok()?;
            *message = format!("[{}] {scanned}", upstream.server.name);
            Some((key, InputRequest::Elicitation(request)))
        }
        InputRequest::CreateMessage(mut request) if abilities.model => {
            let codes = text_scan.value_codes(&request.params).ok()?;
            if !codes.is_empty() {
                let prompt = request.params.system_prompt.take().unwrap_or_default();
                request.params.system_prompt = Some(with_mark(&codes, prompt));
            }
            Some((key, InputRequest::CreateMessage(request)))
        }
        _ => None,
    };
    requests.into_iter().map(prefix_request).collect()
}

/// Returns the rank of a level, from the least severe.
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
