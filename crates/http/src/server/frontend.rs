//! The access of clients: keys, limits, allowed pages, and the owners of MCP sessions.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use picktools_gateway::api_keys::{
    ApiKey, ApiKeys, HttpRefusal, KeyRateLimit, RequestLimiter, RequestPermit, bearer_token,
};
use picktools_gateway::fair_shares::largest_holder;
use picktools_gateway::hub::Hub;
use picktools_gateway::sessions::Sessions;
use picktools_gateway::settings::Settings;
use picktools_gateway::{ClientFrontend, GatewayError};
use picktools_state::{StateStore, lock};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::Notify;

/// The idle time after which a session ends that had no request after its handshake.
pub(super) const UNUSED_SESSION_TIMEOUT: Duration = Duration::from_secs(120);
/// The number of requests of a handshake that carry the session id.
pub(super) const HANDSHAKE_REQUESTS: usize = 1;

/// The state of the HTTP server that all routes share.
pub(super) struct HttpFrontend {
    /// The address on which the server listens.
    pub(super) address: SocketAddr,
    pub(super) api_keys: RwLock<ApiKeys>,
    pub(super) manager: Arc<LocalSessionManager>,
    pub(super) sessions: Mutex<HashMap<String, SessionUse>>,
    /// Notified when a session begins.
    pub(super) session_begun: Notify,
    pub(super) max_sessions: usize,
    /// The idle time after which a session ends.
    pub(super) session_time: Duration,
    pub(super) limiter: RequestLimiter,
    pub(super) allowed_pages: AllowedPages,
    /// The shared store that counts the requests of all gateways.
    pub(super) store: Option<StateStore>,
    /// The shared sessions of all gateways.
    pub(super) shared: Option<Sessions>,
}

/// The hosts and origins from which a browser's page may send requests.
pub(super) struct AllowedPages {
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
}

impl AllowedPages {
    /// Refuses a request whose `Host` or `Origin` is not allowed.
    ///
    /// This stops pages of other sites, and DNS rebinding.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), HttpRefusal> {
        self.check_host(headers)?;
        if text(headers, header::ORIGIN)
            .is_some_and(|origin| self.origins.iter().all(|allowed| allowed != origin))
        {
            return Err(HttpRefusal::new(
                StatusCode::FORBIDDEN,
                "this Origin is not allowed; add it to http.origins in the settings",
            ));
        }
        Ok(())
    }

    /// Returns `true` if pages of this origin may send requests.
    pub(super) fn allows(&self, origin: &HeaderValue) -> bool {
        let origin = origin.as_bytes();
        self.origins
            .iter()
            .any(|allowed| allowed.as_bytes() == origin)
    }

    /// Refuses a request that does not come from a page of this gateway.
    ///
    /// The `Origin` must name the same host as `Host`.
    pub(super) fn check_own(&self, headers: &HeaderMap) -> Result<(), HttpRefusal> {
        self.check_host(headers)?;
        let host = text(headers, header::HOST).unwrap_or_default();
        let is_own = |origin: &str| {
            origin
                .split_once("://")
                .is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
        };
        match text(headers, header::ORIGIN) {
            Some(origin) if !is_own(origin) => Err(HttpRefusal::new(
                StatusCode::FORBIDDEN,
                "the console accepts requests only from its own page",
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), HttpRefusal> {
        let host = text(headers, header::HOST).unwrap_or_default();
        let is_allowed_as = |allowed: &String| {
            let (name, port) = host.split_at_checked(allowed.len()).unwrap_or_default();
            name.eq_ignore_ascii_case(allowed) && (port.is_empty() || port.starts_with(':'))
        };
        let has_one_host = headers.get_all(header::HOST).iter().count() == 1;
        if !has_one_host || !self.hosts.iter().any(is_allowed_as) {
            return Err(HttpRefusal::new(
                StatusCode::FORBIDDEN,
                "this Host is not allowed; add it to http.hosts in the settings",
            ));
        }
        Ok(())
    }
}

/// Returns the value of a header, empty if it is not ASCII.
pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers
        .get(name)
        .map(|value| value.to_str().unwrap_or_default())
}

/// The owner and the last use of an MCP session.
pub(super) struct SessionUse {
    pub(super) api_key: Arc<ApiKey>,
    pub(super) used: Instant,
    /// The time at which the shared store was last updated.
    pub(super) shared_at: Instant,
    /// The number of requests of the session.
    pub(super) requests: usize,
}

impl HttpFrontend {
    pub(super) fn read_api_keys(&self) -> RwLockReadGuard<'_, ApiKeys> {
        self.api_keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request, and returns if the session belongs to a key.
    ///
    /// For other keys the session does not exist.
    pub(super) fn use_session(&self, session: &str, api_key: &Arc<ApiKey>) -> bool {
        let mut sessions = lock(&self.sessions);
        let Some(session_use) = sessions.get_mut(session) else {
            return false;
        };
        if !Arc::ptr_eq(&session_use.api_key, api_key) {
            return false;
        }
        session_use.used = Instant::now();
        session_use.requests += 1;
        true
    }

    /// Continues a session that the same key began at another gateway.
    pub(super) async fn adopt(&self, session: &str, api_key: &Arc<ApiKey>) -> bool {
        let Some(shared) = &self.shared else {
            return false;
        };
        // A session of this gateway that belongs to another key does not exist for this key.
        let is_local = lock(&self.sessions).contains_key(session);
        if is_local || !shared.belongs_to(session, &api_key.identity()).await {
            return false;
        }
        self.add_session(session, api_key).await;
        true
    }

    /// Extends the lifetime of a session in the shared store, four times per session timeout.
    pub(super) async fn refresh_shared(&self, session: &str, api_key: &ApiKey) {
        let Some(shared) = &self.shared else { return };
        let is_due = {
            let mut sessions = lock(&self.sessions);
            match sessions.get_mut(session) {
                Some(session_use) if session_use.shared_at.elapsed() > self.session_time / 4 => {
                    session_use.shared_at = Instant::now();
                    true
                }
                _ => false,
            }
        };
        if is_due {
            let _belongs = shared.belongs_to(session, &api_key.identity()).await;
        }
    }

    /// Records the owner of a new session. Above the limit, the least recently used session of the
    /// key that has the most ends.
    pub(super) async fn add_session(&self, session: &str, api_key: &Arc<ApiKey>) {
        let oldest = {
            let mut sessions = lock(&self.sessions);
            let now = Instant::now();
            sessions.insert(
                session.to_owned(),
                SessionUse {
                    api_key: Arc::clone(api_key),
                    used: now,
                    shared_at: now,
                    requests: 0,
                },
            );
            self.session_begun.notify_one();
            if sessions.len() <= self.max_sessions {
                return;
            }
            let holders = sessions
                .values()
                .map(|session_use| Arc::as_ptr(&session_use.api_key));
            let largest = largest_holder(holders, &Arc::as_ptr(api_key));
            let oldest = sessions
                .iter()
                .filter(|(_, session_use)| Some(Arc::as_ptr(&session_use.api_key)) == largest)
                .min_by_key(|(_, session_use)| session_use.used)
                .map(|(session, _)| session.clone());
            oldest.inspect(|oldest| drop(sessions.remove(oldest)))
        };
        if let Some(oldest) = oldest {
            tracing::debug!(target: "picktools::gateway", "session ended: too many sessions");
            drop(self.manager.close_session(&oldest.into()).await);
        }
    }

    /// Ends all sessions of this gateway. Shared sessions can continue at another gateway.
    pub(super) async fn end_sessions(&self) {
        let sessions: Vec<_> = self.manager.sessions.read().await.keys().cloned().collect();
        for session in sessions {
            drop(self.manager.close_session(&session).await);
        }
    }

    /// Waits until there is a session.
    pub(super) async fn wait_for_sessions(&self) {
        while lock(&self.sessions).is_empty() {
            self.session_begun.notified().await;
        }
    }

    /// Ends sessions that were never used, and removes the records of ended sessions.
    pub(super) async fn remove_ended_sessions(&self) {
        let is_unused = |session_use: &SessionUse| {
            session_use.requests <= HANDSHAKE_REQUESTS
                && session_use.used.elapsed() > UNUSED_SESSION_TIMEOUT
        };
        let unused: Vec<String> = {
            let sessions = lock(&self.sessions);
            sessions
                .iter()
                .filter(|(_, session_use)| is_unused(session_use))
                .map(|(session, _)| session.clone())
                .collect()
        };
        for session in unused {
            drop(self.manager.close_session(&session.into()).await);
        }
        let alive: Vec<String> = self
            .manager
            .sessions
            .read()
            .await
            .keys()
            .map(ToString::to_string)
            .collect();
        let alive: std::collections::HashSet<String> = alive.into_iter().collect();
        let mut sessions = lock(&self.sessions);
        // The manager may not list a session yet that has just begun.
        let recent = Duration::from_secs(5);
        sessions.retain(|session, session_use| {
            alive.contains(session) || session_use.used.elapsed() < recent
        });
        if sessions.capacity() > 64 && sessions.capacity() > sessions.len() * 4 {
            sessions.shrink_to_fit();
        }
    }
}

impl ClientFrontend for HttpFrontend {
    fn api_keys(&self, settings: &Settings) -> Result<ApiKeys, GatewayError> {
        ApiKeys::new(settings, &self.address, &self.read_api_keys())
    }

    fn replace(&self, api_keys: ApiKeys) {
        let mut ended = Vec::new();
        lock(&self.sessions).retain(|session, session_use| {
            let stays = api_keys
                .iter()
                .any(|api_key| Arc::ptr_eq(api_key, &session_use.api_key));
            if !stays {
                ended.push(session.clone());
            }
            stays
        });
        *self
            .api_keys
            .write()
            .unwrap_or_else(PoisonError::into_inner) = api_keys;
        let manager = Arc::clone(&self.manager);
        drop(tokio::spawn(async move {
            for session in ended {
                drop(manager.close_session(&session.into()).await);
            }
        }));
    }
}

impl HttpFrontend {
    /// Authenticates and limits a request to the JSON API.
    pub(super) async fn admit(
        &self,
        headers: &HeaderMap,
    ) -> Result<(Arc<ApiKey>, RequestPermit), HttpRefusal> {
        self.allowed_pages.check(headers)?;
        let api_key = {
            let api_keys = self.read_api_keys();
            // OpenAI clients always send a key. It is ignored if the settings have no keys.
            let token = bearer_token(headers)?.filter(|_| !api_keys.is_keyless());
            api_keys.find(token)?
        };
        api_key.count_request(self.store.as_ref()).await?;
        let permit = self.limiter.take(&api_key)?;
        Ok((api_key, permit))
    }

    /// Adds the identity of a request and the rate limit of its key to its extensions.
    pub(super) fn identify(&self, request: &mut Request, api_key: &Arc<ApiKey>) {
        let limit = KeyRateLimit {
            api_key: Arc::clone(api_key),
            store: self.store.clone(),
        };
        let extensions = request.extensions_mut();
        drop(extensions.insert(api_key.request_identity()));
        drop(extensions.insert(limit));
    }

    /// Returns `true` for an operator, and for everybody if the settings have no keys.
    pub(super) fn may_read_metrics(&self, hub: &Hub, api_key: &ApiKey) -> bool {
        self.read_api_keys().is_keyless() || hub.registry.settings().role(&api_key.role).operator
    }
}
