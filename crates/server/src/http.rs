//! Streamable HTTP: who may connect, from where, how often, and which session is whose.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use http_body::{Frame, SizeHint};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::error::GatewayError;
use crate::handler::{Caller, Handler, SESSION, Sender};
use crate::hub::Hub;
use crate::lock::lock;
use crate::settings::{DEFAULT_ROLE, Key, Settings};
use crate::upstream::Owner;

/// Where the protocol is spoken.
const PATH: &str = "/mcp";
/// How often is looked which sessions have ended.
const LOOK: Duration = Duration::from_secs(1);
/// After how long a session ends that had no request but those of its handshake.
const ABANDONED: Duration = Duration::from_secs(120);
const HANDSHAKE: usize = 1;
/// The most requests at once, of all clients.
const MAX_REQUESTS: usize = 1_024;
/// How long a request may take to send its head.
const HEAD: Duration = Duration::from_secs(30);
/// How long those under way may take at the end.
const END: Duration = Duration::from_secs(3);

/// How the gateway is served over HTTP.
#[derive(Debug, Clone)]
pub struct Http {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The files of a certificate and its key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether others than this machine may be served without TLS, as where something before it speaks TLS.
    pub plain: bool,
}

/// The HTTP side of a gateway.
pub(crate) struct Door {
    /// Where it listens.
    address: SocketAddr,
    guests: RwLock<Guests>,
    manager: Arc<LocalSessionManager>,
    sessions: Mutex<HashMap<String, Visit>>,
    max_sessions: usize,
    places: Arc<Semaphore>,
}

/// Who may come in.
#[derive(Default)]
pub(crate) struct Guests {
    keys: Vec<Arc<Guest>>,
    /// Who comes without a key; nobody where it is `None`.
    anonymous: Option<Arc<Guest>>,
}

/// A key, and what it is doing.
struct Guest {
    key: Key,
    name: Arc<str>,
    role: Arc<str>,
    /// SHA-256 of the key.
    digest: [u8; 32],
    places: Arc<Semaphore>,
    bucket: Mutex<Bucket>,
    expires: Option<u64>,
}

/// How many requests are left, which grow with time.
struct Bucket {
    left: f64,
    burst: f64,
    per_second: f64,
    at: Instant,
}

impl Bucket {
    fn new(key: &Key) -> Self {
        let burst = f64::from(key.burst.max(1));
        Self { left: burst, burst, per_second: f64::from(key.per_minute) / 60.0, at: Instant::now() }
    }

    /// Takes one, or tells how long until there is one.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_second).min(self.burst);
        self.at = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64(((1.0 - self.left) / self.per_second.max(1e-6)).min(3_600.0)))
    }
}

/// A session: whose it is, and when it was last used.
struct Visit {
    guest: Arc<Guest>,
    used: Instant,
    /// How many requests it had.
    requests: usize,
}

impl Guest {
    fn of(key: &Key) -> Result<Arc<Self>, GatewayError> {
        let failed = || GatewayError::Settings(format!("the key {:?}: sha256 must be 64 hexadecimal digits", key.name));
        let mut digest = [0; 32];
        let digits = key.sha256.strip_prefix("sha256:").unwrap_or(&key.sha256);
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(failed());
        }
        for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| failed())?;
        }
        Ok(Arc::new(Self {
            key: key.clone(),
            name: key.name.as_str().into(),
            role: key.role.as_deref().unwrap_or(DEFAULT_ROLE).into(),
            digest,
            places: Arc::new(Semaphore::new(key.parallel.max(1))),
            bucket: Mutex::new(Bucket::new(key)),
            expires: key.expires,
        }))
    }
}

/// A request that is not let in.
struct Refused {
    status: StatusCode,
    message: &'static str,
    retry_after: Option<Duration>,
}

impl Refused {
    fn new(status: StatusCode, message: &'static str) -> Self {
        Self { status, message, retry_after: None }
    }

    fn later(status: StatusCode, message: &'static str, time: Duration) -> Self {
        Self { status, message, retry_after: Some(time) }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = (self.status, format!("{}\n", self.message)).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(time) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(time.as_secs().max(1)));
        }
        response
    }
}

impl Door {
    fn read(&self) -> RwLockReadGuard<'_, Guests> {
        self.guests.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who may come in under these settings. Whose key is as it was stays who they are.
    pub(crate) fn guests(&self, settings: &Settings) -> Result<Guests, GatewayError> {
        guests(settings, &self.address, &self.read())
    }

    /// Lets others in. Sessions of those who may not come any longer end.
    pub(crate) fn replace(self: &Arc<Self>, guests: Guests) {
        let stays = |visit: &Visit| {
            let mut all = guests.keys.iter().chain(&guests.anonymous);
            all.any(|guest| Arc::ptr_eq(guest, &visit.guest))
        };
        let mut ended = Vec::new();
        lock(&self.sessions).retain(|session, visit| {
            let stays = stays(visit);
            if !stays {
                ended.push(session.clone());
            }
            stays
        });
        *self.guests.write().unwrap_or_else(PoisonError::into_inner) = guests;
        let manager = Arc::clone(&self.manager);
        drop(tokio::spawn(async move {
            for session in ended {
                drop(manager.close_session(&session.into()).await);
            }
        }));
    }

    /// Whose key a request has.
    fn guest(&self, headers: &HeaderMap) -> Result<Arc<Guest>, Refused> {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = given.next() else {
            let anonymous = self.read().anonymous.clone();
            return anonymous
                .ok_or_else(|| Refused::new(StatusCode::UNAUTHORIZED, "a key is needed: Authorization: Bearer …"));
        };
        let unknown = || Refused::new(StatusCode::UNAUTHORIZED, "the key is not known");
        if given.next().is_some() {
            return Err(unknown());
        }
        let token = value.to_str().ok().and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let digest = crate::keys::digest(token.ok_or_else(unknown)?);
        // Digests tell nothing of the key, however long they are compared.
        let guest = self.read().keys.iter().find(|guest| guest.digest == digest).cloned().ok_or_else(unknown)?;
        match guest.expires {
            Some(until) if until <= crate::keys::now() => {
                Err(Refused::new(StatusCode::UNAUTHORIZED, "the key has expired"))
            }
            _ => Ok(guest),
        }
    }

    /// A place among those of a key and of all.
    fn place(&self, guest: &Guest) -> Result<Place, Refused> {
        let soon = Duration::from_secs(1);
        let own = Arc::clone(&guest.places).try_acquire_owned().map_err(|_| {
            Refused::later(StatusCode::TOO_MANY_REQUESTS, "this key has too many requests under way", soon)
        })?;
        let all = Arc::clone(&self.places).try_acquire_owned();
        let all = all.map_err(|_| Refused::later(StatusCode::SERVICE_UNAVAILABLE, "too many requests", soon))?;
        Ok(Place { _own: own, _all: all })
    }

    /// Whether a session is this guest's; to others it is as if it did not exist.
    fn is_of(&self, session: &str, guest: &Arc<Guest>) -> bool {
        let mut sessions = lock(&self.sessions);
        let Some(visit) = sessions.get_mut(session).filter(|visit| Arc::ptr_eq(&visit.guest, guest)) else {
            return false;
        };
        visit.used = Instant::now();
        visit.requests += 1;
        true
    }

    /// Notes whose a new session is. Over the most, that which was used longest ago ends.
    async fn note(&self, session: &str, guest: &Arc<Guest>) {
        let oldest = {
            let mut sessions = lock(&self.sessions);
            sessions.insert(session.to_owned(), Visit { guest: Arc::clone(guest), used: Instant::now(), requests: 0 });
            if sessions.len() <= self.max_sessions {
                return;
            }
            let oldest = sessions.iter().min_by_key(|(_, visit)| visit.used).map(|(session, _)| session.clone());
            oldest.inspect(|oldest| drop(sessions.remove(oldest)))
        };
        if let Some(oldest) = oldest {
            tracing::debug!(target: "picktools::gateway", "a session ended, as there were too many");
            drop(self.manager.close_session(&oldest.into()).await);
        }
    }

    /// Ends sessions that were begun and never used, and forgets those that have ended.
    async fn tidy(&self) {
        let is_abandoned = |visit: &Visit| visit.requests <= HANDSHAKE && visit.used.elapsed() > ABANDONED;
        let abandoned: Vec<String> = {
            let sessions = lock(&self.sessions);
            sessions.iter().filter(|(_, visit)| is_abandoned(visit)).map(|(session, _)| session.clone()).collect()
        };
        for session in abandoned {
            drop(self.manager.close_session(&session.into()).await);
        }
        let alive: Vec<String> = self.manager.sessions.read().await.keys().map(ToString::to_string).collect();
        let alive: std::collections::HashSet<String> = alive.into_iter().collect();
        let mut sessions = lock(&self.sessions);
        // One that has just begun may not be among them yet.
        let recent = Duration::from_secs(5);
        sessions.retain(|session, visit| alive.contains(session) || visit.used.elapsed() < recent);
        if sessions.capacity() > 64 && sessions.capacity() > sessions.len() * 4 {
            sessions.shrink_to_fit();
        }
    }
}

/// A place for a request, which it has until its answer has ended.
struct Place {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// An answer that has a place.
struct Placed {
    body: Body,
    _place: Option<Place>,
}

impl http_body::Body for Placed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Lets a request in, or not.
async fn admit(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    let guest = match door.guest(request.headers()) {
        Ok(guest) => guest,
        Err(refused) => return refused.into_response(),
    };
    if let Err(time) = lock(&guest.bucket).take(Instant::now()) {
        let message = "this key has sent too many requests";
        return Refused::later(StatusCode::TOO_MANY_REQUESTS, message, time).into_response();
    }
    // A stream that a client listens on takes no place: it waits for as long as the client is there.
    let place = match request.method() {
        &Method::GET => None,
        _ => match door.place(&guest) {
            Ok(place) => Some(place),
            Err(refused) => return refused.into_response(),
        },
    };
    let session = request.headers().get(SESSION).map(|value| value.to_str().unwrap_or_default().to_owned());
    if let Some(session) = &session
        && !door.is_of(session, &guest)
    {
        return Refused::new(StatusCode::NOT_FOUND, "there is no such session; begin a new one").into_response();
    }
    let sender = Sender { role: Arc::clone(&guest.role), key: Arc::clone(&guest.name) };
    drop(request.extensions_mut().insert(sender));
    let response = next.run(request).await;
    if session.is_none()
        && let Some(begun) = response.headers().get(SESSION).and_then(|value| value.to_str().ok())
    {
        door.note(begun, &guest).await;
    }
    response.map(|body| Body::new(Placed { body, _place: place }))
}

/// Who may come in under these settings; those of `before` whose key is as it was stay who they are.
fn guests(settings: &Settings, address: &SocketAddr, before: &Guests) -> Result<Guests, GatewayError> {
    let refuse = |message: String| Err(GatewayError::Settings(message));
    let is_local = address.ip().is_loopback();
    if !is_local && settings.keys.is_empty() {
        return refuse(format!(
            "{address} can be reached from other machines: the settings must hold keys (picktools serve --new-key NAME)"
        ));
    }
    if !is_local && settings.anonymous.is_some() {
        return refuse("callers without a key are for this machine alone: take `anonymous` out".to_owned());
    }
    let guest = |key: &Key| match before.keys.iter().chain(&before.anonymous).find(|guest| guest.key == *key) {
        Some(same) => Ok(Arc::clone(same)),
        None => Guest::of(key),
    };
    let anonymous = match (&settings.anonymous, settings.keys.is_empty()) {
        (Some(role), _) => Some(role.as_str()),
        (None, true) => Some(DEFAULT_ROLE),
        (None, false) => None,
    };
    Ok(Guests {
        keys: settings.keys.iter().map(guest).collect::<Result<_, _>>()?,
        anonymous: anonymous.map(|role| guest(&Key::anonymous(role))).transpose()?,
    })
}

/// A gateway that listens.
pub(crate) struct Listening {
    pub(crate) door: Arc<Door>,
    pub(crate) address: SocketAddr,
    handle: Handle<SocketAddr>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
    tidying: tokio::task::JoinHandle<()>,
}

impl Listening {
    /// Waits until it ends, which it does by an error only.
    pub(crate) async fn ended(&mut self) -> Result<(), GatewayError> {
        match (&mut self.served).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(GatewayError::Client(error.to_string())),
            Err(error) => Err(GatewayError::Client(error.to_string())),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.tidying.abort();
        self.handle.graceful_shutdown(Some(END));
    }
}

/// Starts to listen.
pub(crate) async fn listen(hub: &Arc<Hub>, settings: &Settings, http: &Http) -> Result<Listening, GatewayError> {
    let guests = guests(settings, &http.listen, &Guests::default())?;
    let is_local = http.listen.ip().is_loopback();
    if !is_local && http.tls.is_none() && !http.plain {
        return Err(GatewayError::Settings(format!(
            "{} can be reached from other machines: give --tls-cert and --tls-key, or --plain-http where something before it \
             speaks TLS",
            http.listen
        )));
    }
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(Duration::from_secs(settings.http.session_s.max(1)));
    let manager = Arc::new(manager);
    let door = Arc::new(Door {
        address: http.listen,
        guests: RwLock::new(guests),
        manager: Arc::clone(&manager),
        sessions: Mutex::default(),
        max_sessions: settings.http.max_sessions.max(1),
        places: Arc::new(Semaphore::new(MAX_REQUESTS)),
    });
    let failed = |error: std::io::Error| GatewayError::Client(format!("cannot listen on {}: {error}", http.listen));
    let listener = TcpListener::bind(http.listen).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let mut config = StreamableHttpServerConfig::default();
    if !settings.http.hosts.is_empty() {
        config.allowed_hosts.extend(settings.http.hosts.iter().cloned());
    }
    let mut origins = settings.http.origins.clone();
    if is_local {
        // Its own pages; those of another server on this machine have another port.
        let scheme = if http.tls.is_some() { "https" } else { "http" };
        origins.extend(["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{scheme}://{host}:{}", address.port())));
    } else {
        config.allowed_hosts.push(http.listen.ip().to_string());
    }
    let config = config.with_allowed_origins(origins).enforce_origin_validation();
    let gateway = Arc::clone(hub);
    let factory = move || {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let owner = Owner(format!("session {number}").into());
        Ok(Handler::new(Arc::clone(&gateway), Caller { role: DEFAULT_ROLE.into(), owner }))
    };
    let service = StreamableHttpService::new(factory, manager, config);
    let app = Router::new()
        .route_service(PATH, service)
        .layer(middleware::from_fn_with_state(Arc::clone(&door), admit))
        .route("/healthz", get(|| async { "ok\n" }));
    let handle = Handle::new();
    let app = app.into_make_service();
    let served = match &http.tls {
        None => {
            let mut server = axum_server::from_tcp(listener).map_err(failed)?.handle(handle.clone());
            server.http_builder().http1().header_read_timeout(HEAD);
            tokio::spawn(server.acceptor(NoDelayAcceptor::new()).serve(app))
        }
        Some((certificate, key)) => {
            // The provider of the process may be set already, by whoever uses the library.
            drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
            let config = RustlsConfig::from_pem_file(certificate, key).await;
            let config = config.map_err(|error| {
                let (certificate, key) = (certificate.display(), key.display());
                GatewayError::Settings(format!("{certificate} and {key} are no certificate and key: {error}"))
            })?;
            let acceptor = RustlsAcceptor::new(config).acceptor(NoDelayAcceptor::new());
            let mut server = axum_server::from_tcp(listener).map_err(failed)?.handle(handle.clone());
            server.http_builder().http1().header_read_timeout(HEAD);
            tokio::spawn(server.acceptor(acceptor).serve(app))
        }
    };
    let tidied = Arc::clone(&door);
    let tidying = tokio::spawn(async move {
        loop {
            sleep(LOOK).await;
            tidied.tidy().await;
        }
    });
    Ok(Listening { door, address, handle, served, tidying })
}
