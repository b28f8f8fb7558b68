//! The forwarding of API requests to providers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use picktools_gateway::api_keys::{HttpRefusal, RequestIdentity, bearer_token, single_header};
use picktools_gateway::hub::Hub;
use picktools_gateway::journal::Narrowing;
use picktools_gateway::settings::ProxySettings;
use picktools_gateway::{GatewayError, GatewayEvent};
use picktools_state::lock;
use serde_json::json;
use tokio::time::timeout;

use crate::api::ModelApi;
use crate::forward::{
    API_KEY, PICKTOOLS_KEY, end_to_end_headers, provider_headers, sends_gateway_key,
};
use crate::held::TextCallReader;
use crate::indexed::IndexCache;
use crate::narrow::{NarrowedRequest, narrow};
use crate::report::add_headers;
use crate::shown::ShownTools;
use crate::unchanged::UnchangedReason;

/// The size above which requests are parsed one at a time, in bytes.
const LARGE_REQUEST: usize = 1 << 20;
/// The time in which a client has to send a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of a connection to a provider.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The model proxy.
pub struct Proxy {
    hub: Arc<Hub>,
    client: reqwest::Client,
    index_cache: IndexCache,
    /// Held while a large request is parsed, because parsing takes many times its size in memory.
    large_request: Mutex<()>,
}

impl Proxy {
    /// Creates a proxy for the providers of the gateway's settings.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Client`] if the HTTP client cannot be created.
    pub fn new(hub: Arc<Hub>) -> Result<Self, GatewayError> {
        let builder = picktools_net::client_builder().map_err(GatewayError::Client)?;
        let client = builder
            .connect_timeout(CONNECT_TIMEOUT)
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .build();
        let client = client.map_err(|error| GatewayError::Client(error.to_string()))?;
        Ok(Self {
            hub,
            client,
            index_cache: IndexCache::new(),
            large_request: Mutex::default(),
        })
    }

    /// Returns the gateway's key in a request.
    ///
    /// If the gateway has the provider's key, clients send the gateway's key in its place.
    ///
    /// # Errors
    ///
    /// [`HttpRefusal`] if a header with a key is malformed.
    pub fn find_key<'h>(
        &self,
        api: ModelApi,
        headers: &'h HeaderMap,
        is_keyless: bool,
    ) -> Result<Option<&'h str>, HttpRefusal> {
        if let Some(key) = single_header(headers, &PICKTOOLS_KEY)? {
            return Ok(Some(key));
        }
        let settings = self.hub.registry.settings();
        let has_provider_key = api
            .provider(&settings.proxy)
            .is_some_and(|provider| provider.key_env.is_some());
        // Clients always send a key to a provider. It is ignored if the gateway has no keys.
        if !has_provider_key || is_keyless {
            return Ok(None);
        }
        match single_header(headers, &API_KEY)? {
            Some(key) => Ok(Some(key)),
            None => bearer_token(headers),
        }
    }

    /// Forwards a request to its provider, and returns the response.
    pub fn forward<'a>(
        self: &'a Arc<Self>,
        api: ModelApi,
        sender: &'a RequestIdentity,
        request: Request,
    ) -> BoxFuture<'a, Response> {
        let forward = async move {
            match self.try_forward(api, sender, request).await {
                Ok(response) => response,
                Err(failure) => problem(failure.status, &failure.message),
            }
        };
        forward.boxed()
    }

    async fn try_forward(
        self: &Arc<Self>,
        api: ModelApi,
        sender: &RequestIdentity,
        request: Request,
    ) -> Result<Response, ProxyFailure> {
        if let Err(refusal) = self.hub.journal.ready() {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Err(ProxyFailure::new(status, refusal.message));
        }
        let settings = Arc::clone(&self.hub.registry.settings());
        let Some(provider) = api.provider(&settings.proxy) else {
            let message = "no provider is configured for this API; see `proxy` in the settings";
            return Err(ProxyFailure::new(StatusCode::NOT_FOUND, message));
        };
        let key = match &provider.key_env {
            None => None,
            Some(variable) => Some(self.provider_key(variable)?),
        };
        let (head, body) = request.into_parts();
        if key.is_none() && sends_gateway_key(&head.headers) {
            let message = "the request has a key of the gateway in place of a key of the \
                           provider; send the gateway's key as picktools-key, or set `key_env` of \
                           the provider in the settings";
            return Err(ProxyFailure::new(StatusCode::UNAUTHORIZED, message));
        }
        let body = read_body(body, settings.proxy.max_bytes).await?;
        let started = Instant::now();
        let is_compressed = head.headers.contains_key(header::CONTENT_ENCODING);
        let mut narrowed = if is_compressed {
            Err(UnchangedReason::Body)
        } else {
            self.narrow(api, settings.proxy.clone(), body.clone()).await
        };
        let time = started.elapsed();
        self.hub.journal.record_narrowing(Narrowing {
            key: Arc::clone(&sender.key),
            role: Arc::clone(&sender.role),
            api: api.path(),
            shown: match &narrowed {
                Ok(narrowed) => Ok((narrowed.names.clone(), narrowed.total)),
                Err(reason) => Err(reason.name()),
            },
            time,
        });
        let sent_body = match &mut narrowed {
            Ok(narrowed) => Bytes::from(std::mem::take(&mut narrowed.body)),
            Err(_) => body,
        };
        let mut url = format!("{}{}", provider.url.trim_end_matches('/'), api.path());
        if let Some(query) = head.uri.query() {
            url.push('?');
            url.push_str(query);
        }
        let mut headers = provider_headers(&head.headers, api, key.as_deref());
        let mut shown = None;
        if provider.text_calls && !is_compressed {
            shown = read_shown_tools(api, sent_body.clone()).await;
            if shown.is_some() {
                let identity = HeaderValue::from_static("identity");
                headers.insert(header::ACCEPT_ENCODING, identity);
            }
        }
        let request = self.client.post(url).headers(headers).body(sent_body);
        let answer = request.send().await.map_err(|error| {
            let error = error.without_url();
            tracing::warn!(target: "picktools::proxy", ?error, "the provider cannot be reached");
            ProxyFailure::new(StatusCode::BAD_GATEWAY, "the provider cannot be reached")
        })?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = answer.status();
        *response.headers_mut() = end_to_end_headers(answer.headers());
        self.report(&narrowed, time, response.headers_mut());
        let reader = shown.and_then(|shown| text_call_reader(api, shown, &response));
        *response.body_mut() = match reader {
            Some(reader) => {
                // The size of the answer may change.
                response.headers_mut().remove(header::CONTENT_LENGTH);
                body_with_calls(answer, reader)
            }
            None => unchanged_body(answer),
        };
        Ok(response)
    }

    /// Reads the provider's key from an environment variable.
    fn provider_key(&self, variable: &str) -> Result<String, ProxyFailure> {
        let value = (self.hub.environment)(variable).and_then(|key| key.into_string().ok());
        match value {
            Some(key) if !key.is_empty() => Ok(key),
            _ => {
                tracing::error!(
                    target: "picktools::proxy", %variable,
                    "the provider's key is not set"
                );
                let message = "the key of the provider is not set";
                Err(ProxyFailure::new(StatusCode::BAD_GATEWAY, message))
            }
        }
    }

    async fn narrow(
        self: &Arc<Self>,
        api: ModelApi,
        settings: ProxySettings,
        body: Bytes,
    ) -> Result<NarrowedRequest, UnchangedReason> {
        let proxy = Arc::clone(self);
        let narrowed = tokio::task::spawn_blocking(move || {
            let _guard = (body.len() > LARGE_REQUEST).then(|| lock(&proxy.large_request));
            narrow(&proxy.index_cache, api, &settings, &body)
        });
        narrowed.await.unwrap_or(Err(UnchangedReason::Failed))
    }

    /// Reports the result of the narrowing in response headers and metrics.
    fn report(
        &self,
        narrowed: &Result<NarrowedRequest, UnchangedReason>,
        time: Duration,
        headers: &mut HeaderMap,
    ) {
        add_headers(narrowed, time, headers);
        let (saved, unchanged) = match narrowed {
            Ok(narrowed) => (narrowed.saved, None),
            Err(reason) => (0, Some(reason.name())),
        };
        self.hub.meter.record(&GatewayEvent::Model {
            unchanged,
            saved,
            time,
        });
    }
}

/// Reads the tools of a request for the calls in the answer's text.
async fn read_shown_tools(api: ModelApi, body: Bytes) -> Option<ShownTools> {
    let tools = tokio::task::spawn_blocking(move || ShownTools::from_body(api, &body));
    tools.await.ok().flatten()
}

/// Returns a reader of the calls in the text of an answer, if it is one that can be read.
fn text_call_reader(api: ModelApi, shown: ShownTools, answer: &Response) -> Option<TextCallReader> {
    let headers = answer.headers();
    let text = |name| {
        headers
            .get(name)
            .and_then(|value| HeaderValue::to_str(value).ok())
    };
    let is_plain = text(header::CONTENT_ENCODING).is_none_or(|coding| coding == "identity");
    if !answer.status().is_success() || !is_plain {
        return None;
    }
    TextCallReader::new(api, shown, text(header::CONTENT_TYPE)?)
}

/// Returns the body of an answer.
fn unchanged_body(answer: reqwest::Response) -> Body {
    // If the stream breaks off, the data before the error is sent first.
    Body::from_stream(answer.bytes_stream().then(|part| async move {
        if part.is_err() {
            tokio::task::yield_now().await;
        }
        part
    }))
}

/// Returns the body of an answer, with calls in place of their text.
fn body_with_calls(answer: reqwest::Response, reader: TextCallReader) -> Body {
    let end = stream::once(std::future::ready(None));
    let parts = answer.bytes_stream().map(Some).chain(end);
    let reader = Arc::new(Mutex::new(reader));
    let changed = parts.flat_map(move |part| {
        let mut reader = lock(&reader);
        let (bytes, error) = match part {
            Some(Ok(bytes)) => (reader.push(&bytes), None),
            Some(Err(error)) => (reader.give_up(), Some(error)),
            None => (reader.finish(), None),
        };
        let bytes = (!bytes.is_empty()).then(|| Ok(Bytes::from(bytes)));
        stream::iter(bytes.into_iter().chain(error.map(Err)))
    });
    Body::from_stream(changed)
}

/// An error of the proxy itself.
struct ProxyFailure {
    status: StatusCode,
    message: String,
}

impl ProxyFailure {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }
}

async fn read_body(body: Body, max_bytes: usize) -> Result<Bytes, ProxyFailure> {
    match timeout(BODY_TIMEOUT, axum::body::to_bytes(body, max_bytes)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) => Err(body_failure(&error)),
        Err(_) => Err(ProxyFailure::new(
            StatusCode::REQUEST_TIMEOUT,
            "the request did not arrive within 60 s",
        )),
    }
}

fn body_failure(error: &axum::Error) -> ProxyFailure {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return ProxyFailure::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request is larger than `proxy.max_bytes`",
            );
        }
        cause = error.source();
    }
    ProxyFailure::new(StatusCode::BAD_REQUEST, "the request ended early")
}

/// Returns the response to a refused request.
pub fn refuse(refusal: &HttpRefusal) -> Response {
    let mut response = problem(refusal.status, refusal.message);
    refusal.advise(response.headers_mut());
    response
}

/// Returns an error as a problem (RFC 9457), with the members that OpenAI and Anthropic clients
/// read.
fn problem(status: StatusCode, message: &str) -> Response {
    let title = status.canonical_reason().unwrap_or_default();
    let body = json!({
        "type": "error", "title": title, "status": status.as_u16(), "detail": message,
        "error": {"type": "picktools_error", "message": format!("picktools: {message}")},
    });
    let json = HeaderValue::from_static("application/problem+json");
    (status, [(header::CONTENT_TYPE, json)], body.to_string()).into_response()
}
