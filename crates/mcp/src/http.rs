//! Requests to a server over streamable HTTP.
//!
//! A status other than success is the answer to the message that was sent, and to nothing else: the
//! connection and the other calls of a server go on. Redirects are followed only within the origin
//! of the server, so that its credentials go nowhere else.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use picktools::excerpt::marked;
use reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Response, StatusCode, Url};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use serde_json::{Value, json};
use sse_stream::{Error as SseError, Sse, SseStream};

use super::reading::readable;
use super::sse::{Reconnections, StreamKind};
use super::token::ServerTokens;

/// The member of a JSON-RPC error's data with the status of the HTTP answer that it stands for.
const STATUS: &str = "picktools/http-status";
/// The member of a JSON-RPC error's data with the seconds after which a server may be asked again.
const RETRY_SECONDS: &str = "picktools/retry-after";
/// The most redirects of a request.
const MAX_REDIRECTS: usize = 3;
/// The content types of answers that a request accepts.
const ACCEPTED: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");
/// The longest shown text of a server, in characters.
const MAX_SHOWN_CHARS: usize = 200;
/// The longest time that a server may ask clients to wait.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

type HttpError = StreamableHttpError<reqwest::Error>;

/// The status of an HTTP answer that a JSON-RPC error stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpFailure {
    /// The status.
    pub status: u16,
    /// The time after which the server may be asked again, if it told.
    pub retry_after: Option<Duration>,
}

impl HttpFailure {
    /// Returns the failure that an error of a server stands for; `None` if the server answered with
    /// an error of its own.
    pub fn of(error: &ErrorData) -> Option<Self> {
        let data = error.data.as_ref()?;
        let status = u16::try_from(data.get(STATUS)?.as_u64()?).ok()?;
        let retry_after = data.get(RETRY_SECONDS).and_then(Value::as_u64);
        Some(Self {
            status,
            retry_after: retry_after
                .map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER)),
        })
    }

    /// Returns `true` if the server refused a call for the moment, and did not run it.
    pub fn is_busy(&self) -> bool {
        matches!(self.status, 429 | 503)
    }
}

/// Facts about a server that its answers show, beside their content.
#[derive(Default)]
pub(super) struct HttpFacts {
    last_failure: Mutex<Option<String>>,
    has_session: AtomicBool,
}

impl HttpFacts {
    fn set_last_failure(&self, reason: Option<String>) {
        *self
            .last_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Returns the reason why the last request failed, in plain words.
    pub(super) fn take_last_failure(&self) -> Option<String> {
        self.last_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Returns `true` if the server opened a session.
    pub(super) fn has_session(&self) -> bool {
        self.has_session.load(Ordering::Relaxed)
    }
}

/// An HTTP client that adds an access token if the server needs one.
#[derive(Clone)]
pub(super) struct HttpClient {
    http: reqwest::Client,
    url: Url,
    tokens: Option<Arc<ServerTokens>>,
    facts: Arc<HttpFacts>,
    reconnections: Reconnections,
}

/// A message to a server.
struct Post {
    message: ClientJsonRpcMessage,
    session: Option<Arc<str>>,
    headers: HashMap<HeaderName, HeaderValue>,
    limits: StreamableHttpResponseLimits,
}

impl Post {
    /// Returns the id of the request; `None` if the message is not a request.
    fn request_id(&self) -> Option<&RequestId> {
        match &self.message {
            ClientJsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        }
    }

    /// Answers the request with a failure. Other messages need no answer.
    fn answer_with(&self, reason: String, data: Value) -> StreamableHttpPostResponse {
        let Some(id) = self.request_id() else {
            tracing::warn!(target: "picktools::mcp", %reason, "message not accepted");
            return StreamableHttpPostResponse::Accepted;
        };
        let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, reason, Some(data));
        StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id.clone())), None)
    }
}

impl HttpClient {
    pub(super) fn new(
        url: &str,
        tokens: Option<Arc<ServerTokens>>,
        facts: Arc<HttpFacts>,
    ) -> Result<Self, String> {
        let http = picktools_net::client_builder()?
            .redirect(Policy::custom(follow_within_origin))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            http,
            url: Url::parse(url).map_err(|error| format!("invalid URL: {error}"))?,
            tokens,
            facts,
            reconnections: Reconnections::default(),
        })
    }

    async fn with_token<T, F>(
        &self,
        token: Option<String>,
        send: impl Fn(Option<String>) -> F,
    ) -> Result<T, HttpError>
    where
        F: Future<Output = Result<T, HttpError>>,
    {
        let Some(tokens) = &self.tokens else {
            return send(token).await;
        };
        let token = tokens.current().await?;
        match send(Some(token.clone())).await {
            Err(rejected @ StreamableHttpError::AuthRequired(_)) => {
                match tokens.replace(&token).await {
                    Some(other) => send(Some(other?)).await,
                    None => Err(rejected),
                }
            }
            result => result,
        }
    }

    /// Sends a message.
    async fn post(
        &self,
        post: &Post,
        token: Option<String>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.facts.set_last_failure(None);
        let body = serde_json::to_vec(&post.message)?;
        let mut request = self
            .http
            .post(self.url.clone())
            .header(ACCEPT, ACCEPTED)
            .header(CONTENT_TYPE, JSON_MIME_TYPE);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        for (name, value) in &post.headers {
            let is_reserved =
                *name == ACCEPT || *name == HEADER_SESSION_ID || *name == HEADER_LAST_EVENT_ID;
            if is_reserved {
                return Err(StreamableHttpError::ReservedHeaderConflict(
                    name.to_string(),
                ));
            }
            request = request.header(name, value);
        }
        if let Some(session) = &post.session {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        let response = match request.body(body).send().await {
            Ok(response) => response,
            Err(error) => {
                self.facts
                    .set_last_failure(Some(unreachable_reason(&error)));
                // The query may contain a secret, and libraries log the error.
                return Err(error.without_url().into());
            }
        };
        if response.status().is_success() {
            self.read_success(post, response).await
        } else {
            self.read_failure(post, response).await
        }
    }

    async fn read_success(
        &self,
        post: &Post,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let status = response.status();
        let has_no_body = matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT);
        if has_no_body || post.request_id().is_none() {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session = header_text(&response, HEADER_SESSION_ID);
        if session.is_some() {
            self.facts.has_session.store(true, Ordering::Relaxed);
        }
        if is_media_type(&response, EVENT_STREAM_MIME_TYPE) {
            let events = bounded_events(response, post.limits.max_sse_event_size);
            let kind = StreamKind::Answer(post.request_id().cloned());
            let events = self.reconnections.begin(kind).checked(events);
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let is_html = is_media_type(&response, "text/html");
        let body = read_body(response, post.limits.max_json_response_size).await?;
        let Some(body) = body else {
            return Err(StreamableHttpError::ResponseBodyTooLarge {
                max_size: post.limits.max_json_response_size,
            });
        };
        match serde_json::from_slice::<ServerJsonRpcMessage>(&readable(&body)) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            Err(_) if is_html => Ok(self.fail(
                post,
                "it answered with a web page, perhaps to log in; check the address, or give a key"
                    .to_owned(),
                json!({STATUS: status.as_u16()}),
            )),
            Err(_) if body.trim_ascii().is_empty() => Ok(self.fail(
                post,
                "it answered with nothing; check the address".to_owned(),
                json!({STATUS: status.as_u16()}),
            )),
            Err(error) => {
                let text = String::from_utf8_lossy(&body);
                let reason = format!(
                    "its answer cannot be read: {error}; it begins with {:?}",
                    marked(&text, MAX_SHOWN_CHARS)
                );
                Ok(self.fail(post, reason, json!({STATUS: status.as_u16()})))
            }
        }
    }

    async fn read_failure(
        &self,
        post: &Post,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED
            && self.tokens.is_some()
            && let Some(challenge) = header_text(&response, WWW_AUTHENTICATE.as_str())
        {
            self.facts
                .set_last_failure(Some(status_reason(status, None, "")));
            return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(
                challenge,
            )));
        }
        let mut data = json!({STATUS: status.as_u16()});
        let retry_after = header_text(&response, RETRY_AFTER.as_str());
        if let Some(seconds) = retry_after.and_then(|text| text.trim().parse::<u64>().ok()) {
            data[RETRY_SECONDS] = json!(seconds);
        }
        let target = header_text(&response, LOCATION.as_str());
        let target = target.and_then(|target| response.url().join(&target).ok());
        let is_text =
            is_media_type(&response, JSON_MIME_TYPE) || is_media_type(&response, "text/plain");
        let body = read_body(response, post.limits.max_json_response_size).await?;
        let body = body.unwrap_or_default();
        let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if let Ok(ServerJsonRpcMessage::Error(error)) = serde_json::from_slice(&body)
            && !is_refused
        {
            // An error without the id of the request may be about the session.
            let has_id = post.request_id().is_some() && error.id.as_ref() == post.request_id();
            if has_id || post.session.is_none() {
                self.facts.set_last_failure(Some(format!(
                    "{} (HTTP {})",
                    marked(&error.error.message, MAX_SHOWN_CHARS),
                    status.as_u16()
                )));
                let id = post.request_id().cloned();
                let answer = ServerJsonRpcMessage::error(error.error, id);
                return Ok(StreamableHttpPostResponse::Json(answer, None));
            }
        }
        let text = if is_text {
            String::from_utf8_lossy(&body)
        } else {
            "".into()
        };
        // Some servers say so with the status 400.
        let is_about_session = status == StatusCode::NOT_FOUND
            || status == StatusCode::BAD_REQUEST && text.to_lowercase().contains("session");
        if is_about_session && post.session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let reason = status_reason(status, target.as_ref(), &text);
        Ok(self.fail(post, reason, data))
    }

    fn fail(&self, post: &Post, reason: String, data: Value) -> StreamableHttpPostResponse {
        self.facts.set_last_failure(Some(reason.clone()));
        post.answer_with(reason, data)
    }
}

/// Follows a redirect that keeps the method, to the same origin.
fn follow_within_origin(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_method = matches!(
        attempt.status(),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    );
    let is_same_origin = attempt
        .previous()
        .last()
        .is_some_and(|previous| previous.origin() == attempt.url().origin());
    if keeps_method && is_same_origin && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Describes a status. The target of a redirect is shown without its query, which may be secret.
fn status_reason(status: StatusCode, target: Option<&Url>, body: &str) -> String {
    let number = status.as_u16();
    let reason = match number {
        300..=399 => match target {
            Some(target) => {
                let (origin, path) = (target.origin().ascii_serialization(), target.path());
                let target = format!("{origin}{path}");
                format!(
                    "it redirects to {} (HTTP {number}), which is followed only within its own \
                     address; configure the other address if it is right",
                    marked(&target, MAX_SHOWN_CHARS)
                )
            }
            None => format!("it redirects to nowhere (HTTP {number})"),
        },
        401 => "it wants a login or a key (HTTP 401); add its header or credentials to the \
                configuration"
            .to_owned(),
        403 => "it refuses access (HTTP 403); check the key and its permissions".to_owned(),
        404 | 410 => format!("there is nothing at its address (HTTP {number}); check the path"),
        405 => "its address accepts no messages (HTTP 405); check the path".to_owned(),
        406 => "it accepts no client that reads JSON and event streams (HTTP 406)".to_owned(),
        429 | 503 => format!("it is busy (HTTP {number})"),
        500..=599 => format!("it failed (HTTP {number})"),
        _ => format!("it refused the message (HTTP {number})"),
    };
    match body.trim() {
        "" | "{}" => reason,
        body => format!("{reason}: {}", marked(body, MAX_SHOWN_CHARS)),
    }
}

/// Removes the URL from an error: its query may contain a secret, and libraries log the error.
fn without_url(error: HttpError) -> HttpError {
    match error {
        StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
        other => other,
    }
}

/// Describes why no answer came.
fn unreachable_reason(error: &reqwest::Error) -> String {
    let mut cause: Option<&dyn Error> = Some(error);
    let mut texts = Vec::new();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            return "nothing listens at its address (connection refused); start it, or check the \
                    port"
                .to_owned();
        }
        texts.push(error.to_string());
        cause = error.source();
    }
    let host = error.url().and_then(Url::host_str).unwrap_or_default();
    let chain = texts.join(": ");
    let lower = chain.to_ascii_lowercase();
    if lower.contains("dns error") {
        format!("the host {host:?} cannot be found; check the address")
    } else if lower.contains("unknownissuer") || lower.contains("unknown issuer") {
        format!("the certificate of {host:?} comes from an unknown authority")
    } else if lower.contains("certificate") {
        let last = texts.last().map_or("", String::as_str);
        format!(
            "the certificate of {host:?} is not valid: {}",
            marked(last, MAX_SHOWN_CHARS)
        )
    } else {
        let last = texts.last().map_or("", String::as_str);
        format!("no connection: {}", marked(last, MAX_SHOWN_CHARS))
    }
}

fn header_text(response: &Response, name: &str) -> Option<String> {
    let value = response.headers().get(name)?.to_str().ok()?;
    Some(value.to_owned())
}

fn is_media_type(response: &Response, expected: &str) -> bool {
    let Some(value) = header_text(response, CONTENT_TYPE.as_str()) else {
        return false;
    };
    let media_type = value.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case(expected)
}

/// Reads a body; `None` if it is longer than allowed.
async fn read_body(mut response: Response, max_bytes: usize) -> Result<Option<Vec<u8>>, HttpError> {
    let mut body = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(reqwest::Error::without_url)?
    {
        if body.len() + chunk.len() > max_bytes {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Returns the events of a response. The stream ends at an event that is too long.
fn bounded_events(
    response: Response,
    max_bytes: usize,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let (mut event_bytes, mut after_line_end) = (0, true);
    let chunks = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
        for &byte in &chunk {
            match byte {
                b'\n' if after_line_end => event_bytes = 0,
                b'\n' => after_line_end = true,
                b'\r' => {}
                _ => after_line_end = false,
            }
            event_bytes += 1;
            if event_bytes > max_bytes {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
        }
        Ok(chunk)
    });
    SseStream::from_bytes_stream(chunks).boxed()
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let post = Post {
            message,
            session,
            headers,
            limits,
        };
        self.with_token(token, |token| self.post(&post, token))
            .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let send = |token| {
            self.http
                .delete_session(uri.clone(), session.clone(), token, headers.clone())
        };
        self.with_token(token, send).await.map_err(without_url)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let most = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, most)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let stream = self.reconnections.open(last_event.as_deref()).await;
        let send = |token| {
            let (uri, session, headers) = (uri.clone(), session.clone(), headers.clone());
            self.http.get_stream_with_max_sse_event_size(
                uri,
                session,
                last_event.clone(),
                token,
                headers,
                most,
            )
        };
        let events = self.with_token(token, send).await.map_err(without_url)?;
        Ok(stream.checked(events))
    }
}
