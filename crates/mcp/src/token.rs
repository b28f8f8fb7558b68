//! Which token does a request to a server carry? OAuth's client credentials (RFC 6749, section
//! 4.4), for servers that programs call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::BoxStream;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, ClientCredentialsConfig,
};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::{Error as SseError, Sse};
use tokio::sync::Mutex;

use picktools_import::mcp::{ClientCredentials, is_private};

/// How long a server must have taken a token before a refused one is exchanged for another.
const AGAIN: Duration = Duration::from_secs(5);

type Failed = StreamableHttpError<reqwest::Error>;

/// Sends requests, with a token where the server wants one.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) http: reqwest::Client,
    pub(super) tokens: Option<Arc<Tokens>>,
}

/// The tokens of one server, got when they are needed.
pub(super) struct Tokens {
    server: Url,
    token_url: Option<Url>,
    config: ClientCredentialsConfig,
    held: Mutex<Option<Held>>,
}

struct Held {
    manager: AuthorizationManager,
    token: String,
    since: Instant,
}

impl Tokens {
    /// # Errors
    ///
    /// An address that is none.
    pub(super) fn new(server: &str, credentials: &ClientCredentials) -> Result<Arc<Self>, String> {
        let parse = |url: &str| {
            Url::parse(url).map_err(|error| format!("an address cannot be read: {error}"))
        };
        Ok(Arc::new(Self {
            server: parse(server)?,
            token_url: credentials.token_url.as_deref().map(parse).transpose()?,
            config: ClientCredentialsConfig::ClientSecret {
                client_id: credentials.id.clone(),
                client_secret: credentials.secret.clone(),
                scopes: credentials.scopes.clone(),
                resource: Some(server.to_owned()),
            },
            held: Mutex::default(),
        }))
    }

    /// A token that has not run out.
    async fn current(&self) -> Result<String, AuthError> {
        let mut held = self.held.lock().await;
        if let Some(Held { manager, .. }) = held.as_ref() {
            match manager.get_access_token().await {
                Err(AuthError::AuthorizationRequired) => {}
                told => return told,
            }
        }
        self.exchange(&mut held).await
    }

    /// Another one instead of a token that the server refused, unless that one is new.
    async fn instead_of(&self, refused: &str) -> Option<Result<String, AuthError>> {
        let mut held = self.held.lock().await;
        match held.as_ref() {
            Some(held) if held.token != refused => Some(Ok(held.token.clone())),
            Some(held) if held.since.elapsed() < AGAIN => None,
            _ => Some(self.exchange(&mut held).await),
        }
    }

    async fn exchange(&self, held: &mut Option<Held>) -> Result<String, AuthError> {
        let manager = match held.take() {
            Some(held) => held.manager,
            None => self.manager().await?,
        };
        manager.exchange_client_credentials(&self.config).await?;
        let token = manager.get_access_token().await?;
        *held = Some(Held {
            manager,
            token: token.clone(),
            since: Instant::now(),
        });
        Ok(token)
    }

    /// Finds where tokens are given. A server cannot have the secret sent to somebody whom the
    /// configuration does not name.
    async fn manager(&self) -> Result<AuthorizationManager, AuthError> {
        // The manager makes an HTTP client of its own, with the default TLS backend.
        picktools_net::install_tls_backend();
        let mut manager = AuthorizationManager::new(
            self.token_url
                .clone()
                .unwrap_or_else(|| self.server.clone()),
        )
        .await?;
        let metadata = match &self.token_url {
            Some(url) => {
                let mut metadata = AuthorizationMetadata::default();
                metadata.authorization_endpoint = url.to_string();
                metadata.token_endpoint = url.to_string();
                metadata
            }
            None => {
                let found = manager.resolve_metadata().await?;
                let remedy =
                    "give the address that tokens come from as `tokenUrl` of `clientCredentials`";
                if !found.source.is_discovered() {
                    let message =
                        format!("the server does not say where tokens come from; {remedy}");
                    return Err(AuthError::MetadataError(message));
                }
                let endpoint = Url::parse(&found.metadata.token_endpoint).map_err(|error| {
                    AuthError::MetadataError(format!("its address of tokens: {error}"))
                })?;
                if endpoint.origin() != self.server.origin() {
                    let origin = endpoint.origin().ascii_serialization();
                    let message = format!(
                        "the server would have its secret sent to {origin}; if that is right, {remedy}"
                    );
                    return Err(AuthError::MetadataError(message));
                }
                if !is_private(endpoint.as_str()) {
                    let message = "the secret would be sent without TLS; give an address of HTTPS";
                    return Err(AuthError::MetadataError(message.to_owned()));
                }
                found.metadata
            }
        };
        manager.set_metadata(metadata);
        manager.validate_client_credentials_metadata(&self.config)?;
        manager.configure_client_credentials(&self.config)?;
        Ok(manager)
    }
}

impl Client {
    async fn with_token<T, F>(
        &self,
        given: Option<String>,
        send: impl Fn(Option<String>) -> F,
    ) -> Result<T, Failed>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let Some(tokens) = &self.tokens else {
            return send(given).await;
        };
        let token = tokens.current().await?;
        match send(Some(token.clone())).await {
            Err(refused @ StreamableHttpError::AuthRequired(_)) => {
                match tokens.instead_of(&token).await {
                    Some(other) => send(Some(other?)).await,
                    None => Err(refused),
                }
            }
            told => told,
        }
    }
}

impl StreamableHttpClient for Client {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let send = |token| {
            self.http.post_message(
                uri.clone(),
                message.clone(),
                session.clone(),
                token,
                headers.clone(),
            )
        };
        self.with_token(token, send).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let send = |token| {
            let (uri, session, headers) = (uri.clone(), session.clone(), headers.clone());
            self.http.post_message_with_response_limits(
                uri,
                message.clone(),
                session,
                token,
                headers,
                limits,
            )
        };
        self.with_token(token, send).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let send = |token| {
            self.http
                .delete_session(uri.clone(), session.clone(), token, headers.clone())
        };
        self.with_token(token, send).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        let send = |token| {
            self.http.get_stream(
                uri.clone(),
                session.clone(),
                last_event.clone(),
                token,
                headers.clone(),
            )
        };
        self.with_token(token, send).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
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
        self.with_token(token, send).await
    }
}
