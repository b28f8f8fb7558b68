//! A client of language models over HTTP, in the format of their provider.
//!
//! As with embedding endpoints, the answer is untrusted. Its length is limited, and its text is
//! shortened in messages and the key is removed. Redirects are not followed, so that the key goes
//! nowhere else. A failed API request is not retried: a chat costs money, and the caller decides
//! about a retry.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri, header};
use picktools::json::quote_long_numbers;
use picktools_net::{FetchError, FetchErrorKind};
use reqwest::Client as HttpClient;
use serde_json::Value;

use crate::endpoint::{self, EndpointOptions, Secret, printable, shortened};
use picktools_call::client::{ClientError, ClientFuture, ToolClient};
use picktools_provider::{Endpoint, Provider};

/// The longest accepted answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;

/// A [`ToolClient`] that posts API requests to a provider, or to a server that speaks its format.
#[derive(Clone)]
pub struct ProviderClient(Arc<Client>);

struct Client {
    provider: Provider,
    endpoint: &'static Endpoint,
    http: HttpClient,
    base: Uri,
    timeout: Duration,
    key: Option<Secret>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ProviderClient {
    /// Creates a client for the API at `base`: `https://api.openai.com/v1`,
    /// `https://api.anthropic.com/v1`, `https://generativelanguage.googleapis.com/v1beta`,
    /// `http://localhost:11434`.
    ///
    /// # Errors
    ///
    /// [`ClientError::Configuration`] if the URL or the key is not valid, or the provider has no
    /// chat (MCP).
    pub fn new(
        provider: Provider,
        base: &str,
        options: &EndpointOptions,
    ) -> Result<Self, ClientError> {
        let unusable = |reason: String| ClientError::Configuration { reason };
        let base = base.trim().trim_end_matches('/');
        let uri = endpoint::base_url(base).map_err(|reason| {
            unusable(format!(
                "{reason}: {}; write it like https://api.example.org/v1",
                printable(base)
            ))
        })?;
        let endpoint = provider.endpoint().ok_or_else(|| {
            unusable(format!(
                "{provider} is a protocol for tools and has no chat; \
                 name the provider of the model"
            ))
        })?;
        let key = Secret::new(options.api_key.as_deref());
        let headers = headers(endpoint, key.as_ref()).map_err(|()| {
            unusable("the API key contains characters that cannot be sent".to_owned())
        })?;
        let http = options.client(&uri).map_err(unusable)?;
        Ok(Self(Arc::new(Client {
            provider,
            endpoint,
            http,
            base: uri,
            timeout: options.timeout,
            key,
            headers,
        })))
    }
}

impl ProviderClient {
    /// Sends an API request on this thread, with a timeout and a limit for the answer, in bytes.
    pub(crate) fn post(
        &self,
        request: Value,
        timeout: Duration,
        max_bytes: u64,
    ) -> Result<Value, ClientError> {
        self.0.post(request, timeout.min(self.0.timeout), max_bytes)
    }
}

impl fmt::Debug for ProviderClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Client { provider, base, .. } = &*self.0;
        f.debug_struct("ProviderClient")
            .field("provider", provider)
            .field("base", base)
            .finish_non_exhaustive()
    }
}

/// Returns the headers of every request, with the key.
fn headers(
    endpoint: &Endpoint,
    key: Option<&Secret>,
) -> Result<Vec<(HeaderName, HeaderValue)>, ()> {
    let mut headers = Vec::new();
    for (name, value) in endpoint.headers {
        headers.push((
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        ));
    }
    if let Some(key) = key {
        let (name, scheme) = endpoint.key;
        headers.push((HeaderName::from_static(name), key.header(scheme)?));
    }
    Ok(headers)
}

impl ToolClient for ProviderClient {
    fn provider(&self) -> Provider {
        self.0.provider
    }

    /// Sends an API request on tokio's blocking pool.
    ///
    /// Gemini has the model's name in the path: it is taken from the member `model`. Ollama streams
    /// by default: the request turns that off unless it has the member itself.
    fn send(&self, request: Value) -> ClientFuture<'_> {
        let client = Arc::clone(&self.0);
        Box::pin(async move {
            let answer = tokio::task::spawn_blocking(move || {
                client.post(request, client.timeout, MAX_ANSWER_BYTES)
            })
            .await;
            answer.map_err(|error| ClientError::Failed {
                source: error.into(),
            })?
        })
    }
}

impl Client {
    fn post(
        &self,
        mut request: Value,
        timeout: Duration,
        max_bytes: u64,
    ) -> Result<Value, ClientError> {
        let Some(path) = (self.endpoint.path)(&mut request) else {
            let reason = "the request names no model; give it as `model`".to_owned();
            return Err(ClientError::Body { reason });
        };
        let url = format!("{}{path}", self.base.to_string().trim_end_matches('/'));
        let mut call = self
            .http
            .post(url)
            .header(header::CONTENT_TYPE, "application/json");
        for (name, value) in &self.headers {
            call = call.header(name, value);
        }
        let call = call.timeout(timeout).body(request.to_string());
        let response = picktools_net::fetch(call, max_bytes)
            .map_err(|error| self.fetch_failure(&error, timeout))?;
        let status = response.status;
        let body = response
            .body
            .ok_or(ClientError::TooLarge { limit: max_bytes })?;
        let message = || endpoint::error_message(self.key.as_ref(), &body);
        if !status.is_success() {
            return Err(ClientError::Status {
                status: status.as_u16(),
                answer: format!("{status}: {}", message()),
            });
        }
        serde_json::from_slice(&quote_long_numbers(&body)).map_err(|error| ClientError::NotJson {
            excerpt: message(),
            source: error.into(),
        })
    }

    fn fetch_failure(&self, error: &FetchError, timeout: Duration) -> ClientError {
        let reason = endpoint::describe_failure(error, timeout);
        let reason = shortened(&endpoint::redact(self.key.as_ref(), &reason));
        match error.kind {
            FetchErrorKind::ConnectTimeout | FetchErrorKind::Timeout => {
                ClientError::Timeout { reason }
            }
            _ => ClientError::Connection { reason },
        }
    }
}
