//! Access tokens for requests to servers: OAuth client credentials (RFC 6749, section 4.4), the
//! flow for programs without a user.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, ClientCredentialsConfig,
    default_oauth_http_client,
};
use tokio::sync::Mutex;

use picktools_import::mcp::{ClientCredentials, is_private};

use super::token_answer::TokenClient;

/// The least age of a token before a rejected one is exchanged for another.
const MIN_TOKEN_AGE: Duration = Duration::from_secs(5);

/// The access tokens of one server, fetched on first use.
pub(super) struct ServerTokens {
    server: Url,
    token_url: Option<Url>,
    config: ClientCredentialsConfig,
    /// The client's secret.
    secret: String,
    current: Mutex<Option<CurrentToken>>,
}

struct CurrentToken {
    manager: AuthorizationManager,
    token: String,
    issued: Instant,
}

impl ServerTokens {
    /// # Errors
    ///
    /// A message about an invalid URL.
    pub(super) fn new(server: &str, credentials: &ClientCredentials) -> Result<Arc<Self>, String> {
        let parse = |url: &str| Url::parse(url).map_err(|error| format!("invalid URL: {error}"));
        Ok(Arc::new(Self {
            server: parse(server)?,
            token_url: credentials.token_url.as_deref().map(parse).transpose()?,
            config: ClientCredentialsConfig::ClientSecret {
                client_id: credentials.id.clone(),
                client_secret: credentials.secret.clone(),
                scopes: credentials.scopes.clone(),
                resource: Some(server.to_owned()),
            },
            secret: credentials.secret.clone(),
            current: Mutex::default(),
        }))
    }

    /// Returns a token that has not expired.
    pub(super) async fn current(&self) -> Result<String, AuthError> {
        let mut current = self.current.lock().await;
        if let Some(CurrentToken { manager, .. }) = current.as_ref() {
            match manager.get_access_token().await {
                Err(AuthError::AuthorizationRequired) => {}
                result => return result,
            }
        }
        self.exchange(&mut current).await
    }

    /// Returns another token in place of a rejected one, or `None` if the rejected one is new.
    pub(super) async fn replace(&self, rejected: &str) -> Option<Result<String, AuthError>> {
        let mut current = self.current.lock().await;
        match current.as_ref() {
            Some(current) if current.token != rejected => Some(Ok(current.token.clone())),
            Some(current) if current.issued.elapsed() < MIN_TOKEN_AGE => None,
            _ => Some(self.exchange(&mut current).await),
        }
    }

    async fn exchange(&self, current: &mut Option<CurrentToken>) -> Result<String, AuthError> {
        let manager = match current.take() {
            Some(current) => current.manager,
            None => self.manager().await?,
        };
        manager.exchange_client_credentials(&self.config).await?;
        let token = manager.get_access_token().await?;
        *current = Some(CurrentToken {
            manager,
            token: token.clone(),
            issued: Instant::now(),
        });
        Ok(token)
    }

    /// Finds the token endpoint. A server cannot direct the secret to a host that the configuration
    /// does not name.
    async fn manager(&self) -> Result<AuthorizationManager, AuthError> {
        // The manager creates an HTTP client of its own, with the default TLS backend.
        picktools_net::install_tls_backend();
        let metadata = match &self.token_url {
            Some(url) => {
                let mut metadata = AuthorizationMetadata::default();
                metadata.authorization_endpoint = url.to_string();
                metadata.token_endpoint = url.to_string();
                metadata
            }
            None => {
                // This manager connects to no address that the server may not name.
                let manager = AuthorizationManager::new(self.server.clone()).await?;
                self.discover_metadata(&manager).await?
            }
        };
        let token_url = self.token_url.as_ref().unwrap_or(&self.server);
        let client = TokenClient::new(default_oauth_http_client()?, self.secret.clone());
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(token_url.clone(), Arc::new(client))
                .await?;
        manager.set_metadata(metadata);
        manager.validate_client_credentials_metadata(&self.config)?;
        manager.configure_client_credentials(&self.config)?;
        Ok(manager)
    }

    /// Asks the server for its token endpoint, and rejects one on another origin or without TLS.
    async fn discover_metadata(
        &self,
        manager: &AuthorizationManager,
    ) -> Result<AuthorizationMetadata, AuthError> {
        let reject = |message: String| Err(AuthError::MetadataError(message));
        let remedy = "set `tokenUrl` of `clientCredentials`";
        let resolved = manager.resolve_metadata().await?;
        if !resolved.source.is_discovered() {
            return reject(format!("the server names no token endpoint; {remedy}"));
        }
        let endpoint = match Url::parse(&resolved.metadata.token_endpoint) {
            Ok(endpoint) => endpoint,
            Err(error) => return reject(format!("invalid token endpoint: {error}")),
        };
        if endpoint.origin() != self.server.origin() {
            let origin = endpoint.origin().ascii_serialization();
            return reject(format!(
                "the server wants its secret sent to {origin}; if that is right, {remedy}"
            ));
        }
        if !is_private(endpoint.as_str()) {
            return reject("the token endpoint does not use TLS; use an HTTPS address".to_owned());
        }
        Ok(resolved.metadata)
    }
}
