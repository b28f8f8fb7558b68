//! A client of language models over HTTP, in the format of their provider.
//!
//! As with embedding endpoints, who answers is not trusted: the answer is bounded, what it says goes into messages
//! shortened and without the key, and redirects are not followed, so that the key goes nowhere else. One request is one
//! try: a chat costs, and its caller knows best whether to ask again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::http::{HeaderName, HeaderValue, Uri, header};

use super::{ClientFuture, ToolClient};
use crate::http::{self, EndpointOptions, Secret, printable, shortened};
use crate::provider::Provider;

/// The longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;
/// The version of Anthropic's interface that is spoken; its reference names no other.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A [`ToolClient`] that posts requests to a provider, or to a server that speaks its format.
#[derive(Clone)]
pub struct ProviderClient(Arc<Client>);

struct Client {
    provider: Provider,
    agent: Agent,
    base: Uri,
    timeout: Duration,
    key: Option<Secret>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ProviderClient {
    /// Makes a client for the API at `base`: `https://api.openai.com/v1`, `https://api.anthropic.com/v1`,
    /// `https://generativelanguage.googleapis.com/v1beta`, `http://localhost:11434`.
    ///
    /// # Errors
    ///
    /// What is wrong with the URL, the key, or a provider that has no chat (MCP).
    pub fn new(provider: Provider, base: &str, options: &EndpointOptions) -> Result<Self, String> {
        let unusable = |reason| format!("{reason}: {}; write it like https://api.example.org/v1", printable(base));
        let uri = http::base_url(base.trim().trim_end_matches('/')).map_err(unusable)?;
        if provider == Provider::Mcp {
            return Err("MCP is a protocol of tools and has no chat; name the model's own provider".to_owned());
        }
        let key = Secret::new(options.api_key.as_deref());
        let headers = headers(provider, key.as_ref())
            .map_err(|()| "the API key holds characters that cannot be sent".to_owned())?;
        let agent = options.agent(&uri);
        Ok(Self(Arc::new(Client { provider, agent, base: uri, timeout: options.timeout, key, headers })))
    }
}

impl ProviderClient {
    /// Sends a request on this thread, which is held for no longer than `within` and reads at most `most` bytes.
    pub(crate) fn post(&self, request: Value, within: Duration, most: u64) -> Result<Value, String> {
        self.0.post(request, within.min(self.0.timeout), most)
    }
}

impl fmt::Debug for ProviderClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Client { provider, base, .. } = &*self.0;
        f.debug_struct("ProviderClient").field("provider", provider).field("base", base).finish_non_exhaustive()
    }
}

/// The headers by which a provider knows its caller.
fn headers(provider: Provider, key: Option<&Secret>) -> Result<Vec<(HeaderName, HeaderValue)>, ()> {
    let mut headers = Vec::new();
    let (name, scheme) = match provider {
        Provider::Anthropic => {
            headers.push((HeaderName::from_static("anthropic-version"), HeaderValue::from_static(ANTHROPIC_VERSION)));
            (HeaderName::from_static("x-api-key"), "")
        }
        Provider::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
        _ => (header::AUTHORIZATION, "Bearer "),
    };
    if let Some(key) = key {
        headers.push((name, key.header(scheme)?));
    }
    Ok(headers)
}

impl ToolClient for ProviderClient {
    fn provider(&self) -> Provider {
        self.0.provider
    }

    /// Sends a request on tokio's blocking pool. Gemini's has the model's name in its path: it is taken from the member
    /// `model`. Ollama streams unless told otherwise: it is told so where the request does not say.
    fn send(&self, request: Value) -> ClientFuture<'_> {
        let client = Arc::clone(&self.0);
        Box::pin(async move {
            let sent =
                tokio::task::spawn_blocking(move || client.post(request, client.timeout, MAX_ANSWER_BYTES)).await;
            sent.map_err(|error| format!("the client failed: {error}"))?
        })
    }
}

impl Client {
    fn post(&self, mut request: Value, within: Duration, most: u64) -> Result<Value, String> {
        let path = self.path(&mut request)?;
        let url = format!("{}{path}", self.base.to_string().trim_end_matches('/'));
        let mut call = self.agent.post(url).header(header::CONTENT_TYPE, "application/json");
        for (name, value) in &self.headers {
            call = call.header(name, value);
        }
        let failed = |error: &ureq::Error| shortened(&http::without(self.key.as_ref(), &http::reason(error, within)));
        let call = call.config().timeout_global(Some(within)).build();
        let mut response = call.send(request.to_string()).map_err(|error| failed(&error))?;
        let status = response.status();
        let body = http::read(response.body_mut(), most).map_err(|error| failed(&error))?;
        let Some(body) = body else {
            return Err(format!("its answer is longer than {} MiB", most >> 20));
        };
        if !status.is_success() {
            return Err(format!("it answered {status}: {}", http::message(self.key.as_ref(), &body)));
        }
        serde_json::from_slice(&body)
            .map_err(|error| format!("its answer is not JSON ({error}): {}", http::message(self.key.as_ref(), &body)))
    }

    fn path(&self, request: &mut Value) -> Result<String, String> {
        Ok(match self.provider {
            Provider::OpenAiChat => "/chat/completions".to_owned(),
            Provider::OpenAiResponses => "/responses".to_owned(),
            Provider::Anthropic => "/messages".to_owned(),
            Provider::Ollama => {
                if let Some(body) = request.as_object_mut() {
                    body.entry("stream").or_insert(Value::Bool(false));
                }
                "/api/chat".to_owned()
            }
            Provider::Gemini => {
                let model = request.as_object_mut().and_then(|body| body.shift_remove("model"));
                let model = model.as_ref().and_then(Value::as_str).unwrap_or_default();
                let model = model.strip_prefix("models/").unwrap_or(model);
                let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
                if model.is_empty() || !model.chars().all(plain) {
                    return Err("the request names no model; give it as `model`".to_owned());
                }
                format!("/models/{model}:generateContent")
            }
            Provider::Mcp => return Err("MCP has no chat".to_owned()),
        })
    }
}
