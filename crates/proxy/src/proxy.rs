//! What becomes of a request to a model, from its arrival until its answer goes back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use picktools_gateway::guests::{Refused, Sender, bearer, only};
use picktools_gateway::hub::Hub;
use picktools_gateway::journal::Narrowing;
use picktools_gateway::settings::ProxySettings;
use picktools_gateway::{Event, GatewayError};
use picktools_state::lock;
use serde_json::json;
use tokio::time::timeout;

use crate::api::Api;
use crate::forward::{API_KEY, KEY, passes, to_provider};
use crate::indexed::IndexedLists;
use crate::narrow::{Narrowed, narrow};
use crate::unchanged::Unchanged;

/// Requests with more bytes are large.
const LARGE: usize = 1 << 20;
/// How long a client may take to send a request.
const SENDING: Duration = Duration::from_secs(60);
/// How long a provider may take until it can be spoken with.
const CONNECTING: Duration = Duration::from_secs(10);

/// The way to models.
pub struct Proxy {
    hub: Arc<Hub>,
    client: reqwest::Client,
    lists: IndexedLists,
    /// Large requests are read one at a time: read, they take many times their size.
    large: Mutex<()>,
}

impl Proxy {
    /// Makes a way to the models of the gateway's settings.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Client`] when no client can be made.
    pub fn new(hub: Arc<Hub>) -> Result<Self, GatewayError> {
        let builder = picktools_net::client_builder().map_err(GatewayError::Client)?;
        let client = builder
            .connect_timeout(CONNECTING)
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .build();
        let client = client.map_err(|error| GatewayError::Client(error.to_string()))?;
        Ok(Self {
            hub,
            client,
            lists: IndexedLists::new(),
            large: Mutex::default(),
        })
    }

    /// Finds the key of ours that a request has. Where a provider's key is ours to send, it is
    /// where clients put that.
    ///
    /// # Errors
    ///
    /// [`Refused`] where the header of a key cannot be read.
    pub fn key<'h>(
        &self,
        api: Api,
        headers: &'h HeaderMap,
        have_no_keys: bool,
    ) -> Result<Option<&'h str>, Refused> {
        if let Some(key) = only(headers, &KEY)? {
            return Ok(Some(key));
        }
        let settings = self.hub.settings();
        let is_ours = api
            .provider(&settings.proxy)
            .is_some_and(|provider| provider.key_env.is_some());
        // Clients of a provider always send some key; without keys of ours it is not one that could
        // be wrong.
        if !is_ours || have_no_keys {
            return Ok(None);
        }
        match only(headers, &API_KEY)? {
            Some(key) => Ok(Some(key)),
            None => bearer(headers),
        }
    }

    /// Passes a request on, and the answer back.
    pub fn pass_on<'a>(
        self: &'a Arc<Self>,
        api: Api,
        sender: &'a Sender,
        request: Request,
    ) -> BoxFuture<'a, Response> {
        let pass_on = async move {
            if let Err(refusal) = self.hub.journal.ready() {
                return problem(StatusCode::SERVICE_UNAVAILABLE, &refusal.message);
            }
            let settings = Arc::clone(&self.hub.settings());
            let Some(provider) = api.provider(&settings.proxy) else {
                let message = "no provider is set for this; see `proxy` of the settings";
                return problem(StatusCode::NOT_FOUND, message);
            };
            let key = match &provider.key_env {
                None => None,
                Some(name) => {
                    match (self.hub.environment)(name).and_then(|key| key.into_string().ok()) {
                        Some(key) if !key.is_empty() => Some(key),
                        _ => {
                            tracing::error!(target: "picktools::proxy", variable = %name, "the provider's key is not set");
                            return problem(
                                StatusCode::BAD_GATEWAY,
                                "the key of the provider is not set",
                            );
                        }
                    }
                }
            };
            let (head, body) = request.into_parts();
            let body = match timeout(
                SENDING,
                axum::body::to_bytes(body, settings.proxy.max_bytes),
            )
            .await
            {
                Ok(Ok(body)) => body,
                Ok(Err(error)) => return too_large_or_broken(&error),
                Err(_) => {
                    return problem(
                        StatusCode::REQUEST_TIMEOUT,
                        "the request took too long to arrive",
                    );
                }
            };
            let started = Instant::now();
            let is_plain = head.headers.get(header::CONTENT_ENCODING).is_none();
            let mut narrowed = if is_plain {
                self.narrow(api, settings.proxy.clone(), body.clone()).await
            } else {
                Err(Unchanged::Body)
            };
            let ours = started.elapsed();
            self.hub.journal.narrowed(Narrowing {
                key: Arc::clone(&sender.key),
                role: Arc::clone(&sender.role),
                api: api.path(),
                shown: match &narrowed {
                    Ok(narrowed) => Ok((narrowed.names.clone(), narrowed.of)),
                    Err(why) => Err(why.word()),
                },
                time: ours,
            });
            let sent = match &mut narrowed {
                Ok(narrowed) => Bytes::from(std::mem::take(&mut narrowed.body)),
                Err(_) => body,
            };
            let mut url = format!("{}{}", provider.url.trim_end_matches('/'), api.path());
            if let Some(query) = head.uri.query() {
                url.push('?');
                url.push_str(query);
            }
            let request = self
                .client
                .post(url)
                .headers(to_provider(&head.headers, api, key.as_deref()))
                .body(sent);
            let answer = match request.send().await {
                Ok(answer) => answer,
                Err(error) => {
                    let error = error.without_url();
                    tracing::warn!(target: "picktools::proxy", error = ?error, "the provider cannot be reached");
                    return problem(StatusCode::BAD_GATEWAY, "the provider cannot be reached");
                }
            };
            let mut response = Response::new(Body::empty());
            *response.status_mut() = answer.status();
            *response.headers_mut() = passes(answer.headers());
            self.tell(&narrowed, ours, response.headers_mut());
            // What came before a stream breaks off is sent before ours does.
            let parts = answer.bytes_stream().then(|part| async move {
                if part.is_err() {
                    tokio::task::yield_now().await;
                }
                part
            });
            *response.body_mut() = Body::from_stream(parts);
            response
        };
        pass_on.boxed()
    }

    async fn narrow(
        self: &Arc<Self>,
        api: Api,
        settings: ProxySettings,
        body: Bytes,
    ) -> Result<Narrowed, Unchanged> {
        let proxy = Arc::clone(self);
        let narrowed = tokio::task::spawn_blocking(move || {
            let _one = (body.len() > LARGE).then(|| lock(&proxy.large));
            narrow(&proxy.lists, api, &settings, &body)
        });
        narrowed.await.unwrap_or(Err(Unchanged::Failed))
    }

    /// Says in headers, and to whoever counts, what became of a request.
    fn tell(
        &self,
        narrowed: &Result<Narrowed, Unchanged>,
        time: Duration,
        headers: &mut HeaderMap,
    ) {
        let mut put = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        put("picktools-time-us", time.as_micros().to_string());
        match narrowed {
            Ok(narrowed) => {
                put("picktools-mode", narrowed.mode.name().to_owned());
                put(
                    "picktools-tools",
                    format!("{}/{}", narrowed.shown, narrowed.of),
                );
                put("picktools-saved-tokens", narrowed.saved.to_string());
            }
            Err(why) => put("picktools-unchanged", why.word().to_owned()),
        }
        let (saved, unchanged) = match narrowed {
            Ok(narrowed) => (narrowed.saved, None),
            Err(why) => (0, Some(why.word())),
        };
        self.hub.meter.record(&Event::Model {
            unchanged,
            saved,
            time,
        });
    }
}

fn too_large_or_broken(error: &axum::Error) -> Response {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return problem(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request is larger than `proxy.max_bytes`",
            );
        }
        cause = error.source();
    }
    problem(StatusCode::BAD_REQUEST, "the request broke off")
}

/// Answers a request that is not let in.
pub fn refuse(refused: &Refused) -> Response {
    let mut response = problem(refused.status, refused.message);
    refused.advise(response.headers_mut());
    response
}

/// An error of ours: as RFC 9457 has it, with what clients of either provider look for.
fn problem(status: StatusCode, message: &str) -> Response {
    let title = status.canonical_reason().unwrap_or_default();
    let body = json!({
        "type": "error", "title": title, "status": status.as_u16(), "detail": message,
        "error": {"type": "picktools_error", "message": format!("picktools: {message}")},
    });
    let json = HeaderValue::from_static("application/problem+json");
    (status, [(header::CONTENT_TYPE, json)], body.to_string()).into_response()
}
