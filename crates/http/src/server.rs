//! Streamable HTTP: who may connect, from where, how often, and which session is whose.

mod desk;

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools_gateway::calls::Caller;
use picktools_gateway::guests::{Guest, Guests, Place, Places, Refused, Sender, bearer};
use picktools_gateway::handler::{Handler, SESSION};
use picktools_gateway::hub::Hub;
use picktools_gateway::sessions::Sessions;
use picktools_gateway::settings::{DEFAULT_ROLE, Settings};
use picktools_gateway::upstream::Owner;
use picktools_gateway::{Entrance, Event, Gateway, GatewayError};
use picktools_proxy::Proxy;
use picktools_state::{Store, lock};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{SessionManager, SessionStore};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::time::sleep;
use tracing::Instrument;
use tracing::field::Empty;

use crate::api::Api;
use crate::console;
use crate::placed::{Placed, refuse};
use crate::problem::Problem;

/// Where the protocol is spoken.
const PATH: &str = "/mcp";
/// How often is looked which sessions have ended.
const LOOK: Duration = Duration::from_secs(1);
/// After how long a session ends that had no request but those of its handshake.
const ABANDONED: Duration = Duration::from_secs(120);
const HANDSHAKE: usize = 1;
/// The most headers of a request, and the most bytes of them.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 32 << 10;
/// How many headers are read at all; over it the connection ends with an answer that is not ours.
const READ_HEADERS: usize = 1_000;
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
    /// Whether others than this machine may be served without TLS, as where something before it
    /// speaks TLS.
    pub plain: bool,
    /// The digest of a key for the console, as [`new_key`](picktools_state::keys::new_key) makes
    /// them, beside those of the settings: for this machine alone, and as long as the gateway runs.
    pub console: Option<String>,
}

/// The HTTP side of a gateway.
pub(crate) struct Door {
    /// Where it listens.
    address: SocketAddr,
    guests: RwLock<Guests>,
    manager: Arc<LocalSessionManager>,
    sessions: Mutex<HashMap<String, Visit>>,
    max_sessions: usize,
    /// How long a session lives without requests.
    session_time: Duration,
    places: Places,
    pages: Pages,
    /// What counts the requests of all gateways.
    store: Option<Store>,
    /// The sessions of all gateways.
    shared: Option<Sessions>,
}

/// From where a browser's page may call.
struct Pages {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Pages {
    /// Refuses what a browser sends for a page of somebody else: under another name of this
    /// machine, or from another origin.
    fn check(&self, headers: &HeaderMap) -> Result<(), Refused> {
        self.check_host(headers)?;
        if text(headers, header::ORIGIN)
            .is_some_and(|origin| self.origins.iter().all(|known| known != origin))
        {
            return Err(Refused::new(
                StatusCode::FORBIDDEN,
                "pages of this Origin may not call; see http.origins",
            ));
        }
        Ok(())
    }

    /// Refuses what no page of the gateway itself sends, by whichever of its names it is reached.
    fn check_own(&self, headers: &HeaderMap) -> Result<(), Refused> {
        self.check_host(headers)?;
        let host = text(headers, header::HOST).unwrap_or_default();
        let is_own = |origin: &str| {
            origin
                .split_once("://")
                .is_some_and(|(_, named)| named.eq_ignore_ascii_case(host))
        };
        match text(headers, header::ORIGIN) {
            Some(origin) if !is_own(origin) => Err(Refused::new(
                StatusCode::FORBIDDEN,
                "the console is for its own page alone",
            )),
            _ => Ok(()),
        }
    }

    fn check_host(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let host = text(headers, header::HOST).unwrap_or_default();
        let named = |known: &String| {
            let (name, port) = host.split_at_checked(known.len()).unwrap_or_default();
            name.eq_ignore_ascii_case(known) && (port.is_empty() || port.starts_with(':'))
        };
        if headers.get_all(header::HOST).iter().count() != 1 || !self.hosts.iter().any(named) {
            return Err(Refused::new(
                StatusCode::FORBIDDEN,
                "this machine is not known by that Host; see http.hosts",
            ));
        }
        Ok(())
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers
        .get(name)
        .map(|value| value.to_str().unwrap_or_default())
}

/// A session: whose it is, and when it was last used.
struct Visit {
    guest: Arc<Guest>,
    used: Instant,
    /// When other gateways last heard of it.
    told: Instant,
    /// How many requests it had.
    requests: usize,
}

impl Door {
    fn read(&self) -> RwLockReadGuard<'_, Guests> {
        self.guests.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a session is this guest's; to others it is as if it did not exist.
    fn is_of(&self, session: &str, guest: &Arc<Guest>) -> bool {
        let mut sessions = lock(&self.sessions);
        let Some(visit) = sessions
            .get_mut(session)
            .filter(|visit| Arc::ptr_eq(&visit.guest, guest))
        else {
            return false;
        };
        visit.used = Instant::now();
        visit.requests += 1;
        true
    }

    /// Takes up a session that another gateway began, where it is this guest's.
    async fn adopt(&self, session: &str, guest: &Arc<Guest>) -> bool {
        let Some(shared) = &self.shared else {
            return false;
        };
        // A session of somebody else that is here does not exist for a guest.
        let is_here = lock(&self.sessions).contains_key(session);
        if is_here || !shared.is_of(session, &guest.identity()).await {
            return false;
        }
        self.note(session, guest).await;
        true
    }

    /// Lets a session live on at other gateways, now and then.
    async fn refresh(&self, session: &str, guest: &Guest) {
        let Some(shared) = &self.shared else { return };
        let is_due = {
            let mut sessions = lock(&self.sessions);
            let visit = sessions
                .get_mut(session)
                .filter(|visit| visit.told.elapsed() > self.session_time / 4);
            visit.map(|visit| visit.told = Instant::now()).is_some()
        };
        if is_due {
            let _is_there = shared.is_of(session, &guest.identity()).await;
        }
    }

    /// Notes whose a new session is. Over the most, that which was used longest ago ends.
    async fn note(&self, session: &str, guest: &Arc<Guest>) {
        let oldest = {
            let mut sessions = lock(&self.sessions);
            let (guest, now) = (Arc::clone(guest), Instant::now());
            sessions.insert(
                session.to_owned(),
                Visit {
                    guest,
                    used: now,
                    told: now,
                    requests: 0,
                },
            );
            if sessions.len() <= self.max_sessions {
                return;
            }
            let oldest = sessions
                .iter()
                .min_by_key(|(_, visit)| visit.used)
                .map(|(session, _)| session.clone());
            oldest.inspect(|oldest| drop(sessions.remove(oldest)))
        };
        if let Some(oldest) = oldest {
            tracing::debug!(target: "picktools::gateway", "a session ended, as there were too many");
            drop(self.manager.close_session(&oldest.into()).await);
        }
    }

    /// Ends sessions that were begun and never used, and forgets those that have ended.
    async fn tidy(&self) {
        let is_abandoned =
            |visit: &Visit| visit.requests <= HANDSHAKE && visit.used.elapsed() > ABANDONED;
        let abandoned: Vec<String> = {
            let sessions = lock(&self.sessions);
            sessions
                .iter()
                .filter(|(_, visit)| is_abandoned(visit))
                .map(|(session, _)| session.clone())
                .collect()
        };
        for session in abandoned {
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
        // One that has just begun may not be among them yet.
        let recent = Duration::from_secs(5);
        sessions.retain(|session, visit| alive.contains(session) || visit.used.elapsed() < recent);
        if sessions.capacity() > 64 && sessions.capacity() > sessions.len() * 4 {
            sessions.shrink_to_fit();
        }
    }
}

impl Entrance for Door {
    fn guests(&self, settings: &Settings) -> Result<Guests, GatewayError> {
        Guests::new(settings, &self.address, &self.read())
    }

    fn replace(&self, guests: Guests) {
        let stays = |visit: &Visit| guests.all().any(|guest| Arc::ptr_eq(guest, &visit.guest));
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
}

/// Lets a request in, or not.
async fn admit(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    let known = match bearer(request.headers()).and_then(|key| door.read().of(key)) {
        Ok(guest) => guest.count(door.store.as_ref()).await.map(|()| guest),
        Err(refused) => Err(refused),
    };
    let known = known.and_then(|guest| {
        // A stream that a client listens on takes no place: it waits for as long as the client is
        // there.
        let place = if request.method() == Method::GET {
            None
        } else {
            Some(door.places.take(&guest)?)
        };
        Ok((guest, place))
    });
    let (guest, place) = match known {
        Ok(known) => known,
        Err(refused) => return refuse(&refused),
    };
    let session = request
        .headers()
        .get(SESSION)
        .map(|value| value.to_str().unwrap_or_default().to_owned());
    if let Some(session) = &session {
        if !door.is_of(session, &guest) && !door.adopt(session, &guest).await {
            return refuse(&Refused::new(
                StatusCode::NOT_FOUND,
                "there is no such session; begin a new one",
            ));
        }
        door.refresh(session, &guest).await;
    }
    let sender = guest.sender();
    drop(request.extensions_mut().insert(sender));
    let response = next.run(request).await;
    if session.is_none()
        && let Some(begun) = response
            .headers()
            .get(SESSION)
            .and_then(|value| value.to_str().ok())
    {
        if let Some(shared) = &door.shared {
            shared.begin(begun, &guest.identity()).await;
        }
        door.note(begun, &guest).await;
    }
    Placed::answer(response, place)
}

impl Door {
    /// Lets a request to the HTTP interface in: from a page that may call, with a key, and with a
    /// place.
    async fn enter(&self, headers: &HeaderMap) -> Result<(Arc<Guest>, Place), Refused> {
        self.pages.check(headers)?;
        let guest = {
            let guests = self.read();
            // Clients of OpenAI always send some key; where nobody has one it is not one that could
            // be wrong.
            guests.of(bearer(headers)?.filter(|_| !guests.have_no_keys()))?
        };
        guest.count(self.store.as_ref()).await?;
        let place = self.places.take(&guest)?;
        Ok((guest, place))
    }

    /// Whether a guest sees what all do: an operator, and anybody where nobody has a key.
    fn sees_all(&self, hub: &Hub, guest: &Guest) -> bool {
        self.read().have_no_keys() || hub.settings().role(&guest.role).operator
    }
}

/// Lets a request to the HTTP interface in, or not.
async fn enter(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    match door.enter(request.headers()).await {
        Ok((guest, place)) => {
            let sender = guest.sender();
            drop(request.extensions_mut().insert(sender));
            Placed::answer(next.run(request).await, Some(place))
        }
        Err(refused) => Problem::from(refused).into_response(),
    }
}

/// What all routes share: who is counted, and what is too much for any of them.
async fn watch(State(hub): State<Arc<Hub>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map_or("other", MatchedPath::as_str);
    let headers = request.headers();
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    let response = if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
        let message =
            format!("more than {MAX_HEADERS} headers, or {MAX_HEADER_BYTES} bytes of them");
        Problem::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "headers_too_large",
            message,
        )
        .into_response()
    } else {
        let method = request.method().as_str();
        let span =
            tracing::info_span!(target: "picktools::span", "request", method, path, status = Empty);
        let response = next.run(request).instrument(span.clone()).await;
        span.record("status", response.status().as_u16());
        response
    };
    let (status, time) = (response.status().as_u16(), started.elapsed());
    tracing::debug!(target: "picktools::http", path, status, time_us = time.as_micros(), "answered");
    hub.meter.record(&Event::Request { path, status, time });
    response
}

/// A request for what is not there.
async fn nothing() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "there is nothing at this address; /openapi.json says what there is",
    )
}

/// A request for something that is there, by another method.
async fn other_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this address takes another method",
    )
}

/// Where a request to a model comes in.
#[derive(Clone)]
struct ModelDoor {
    door: Arc<Door>,
    proxy: Arc<Proxy>,
    api: picktools_proxy::Api,
}

impl ModelDoor {
    async fn admit(&self, headers: &HeaderMap) -> Result<(Place, Sender), Refused> {
        self.door.pages.check(headers)?;
        let guest = {
            let guests = self.door.read();
            guests.of(self.proxy.key(self.api, headers, guests.have_no_keys())?)?
        };
        guest.count(self.door.store.as_ref()).await?;
        let sender = guest.sender();
        Ok((self.door.places.take(&guest)?, sender))
    }
}

/// Lets a request to a model in, or not, and passes it on.
async fn model(State(door): State<ModelDoor>, request: Request) -> Response {
    match door.admit(request.headers()).await {
        Ok((place, sender)) => Placed::answer(
            door.proxy.pass_on(door.api, &sender, request).await,
            Some(place),
        ),
        Err(refused) => picktools_proxy::refuse(&refused),
    }
}

/// Lets a request for what the console shows in, or not.
async fn operate(
    State((door, hub)): State<(Arc<Door>, Arc<Hub>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let admit = async |headers: &HeaderMap| {
        door.pages.check_own(headers)?;
        let guest = door.read().operator(bearer(headers)?, &hub.settings())?;
        guest.count(door.store.as_ref()).await?;
        let place = door.places.take(&guest)?;
        Ok((guest, place))
    };
    match admit(request.headers()).await {
        Ok((guest, place)) => {
            let sender = guest.sender();
            drop(request.extensions_mut().insert(sender));
            Placed::answer(next.run(request).await, Some(place))
        }
        Err(refused) => refuse(&refused),
    }
}

/// Lets a request for the console's page in, or not. There is nothing in it that is anybody's.
async fn look(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    match door.pages.check_own(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refuse(&refused),
    }
}

/// A gateway that serves over HTTP, until this is dropped.
pub struct Serving {
    door: Arc<Door>,
    address: SocketAddr,
    handle: Handle<SocketAddr>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
    tidying: tokio::task::JoinHandle<()>,
}

impl Serving {
    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until it can serve no longer.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Client`], why.
    pub fn ended(&mut self) -> BoxFuture<'_, Result<(), GatewayError>> {
        let ended = async move {
            match (&mut self.served).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(GatewayError::Client(error.to_string())),
                Err(error) => Err(GatewayError::Client(error.to_string())),
            }
        };
        ended.boxed()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.tidying.abort();
        self.handle.graceful_shutdown(Some(END));
    }
}

/// Serves clients of a gateway over HTTP, until what is returned is dropped.
///
/// # Errors
///
/// [`GatewayError`] when the address cannot be listened on, or may not be as the settings are.
pub fn serve<'a>(
    gateway: &'a Gateway,
    http: &'a Http,
) -> BoxFuture<'a, Result<Serving, GatewayError>> {
    let serve = async move {
        let hub = gateway.hub();
        let serving = listen(hub, &hub.settings(), http).await?;
        let entrance: Arc<dyn Entrance> = serving.door.clone();
        gateway.add_entrance(Arc::downgrade(&entrance));
        Ok(serving)
    };
    serve.boxed()
}

/// Starts to listen.
async fn listen(hub: &Arc<Hub>, settings: &Settings, http: &Http) -> Result<Serving, GatewayError> {
    let mut guests = Guests::new(settings, &http.listen, &Guests::default())?;
    let is_local = http.listen.ip().is_loopback();
    if let Some(digest) = &http.console {
        if !is_local {
            return Err(GatewayError::Settings(format!(
                "{} can be reached from other machines: instead of --console, give a key of the settings a role with \
                 \"operator\": true",
                http.listen
            )));
        }
        guests = guests.with_console(digest)?;
    }
    if !is_local && http.tls.is_none() && !http.plain {
        return Err(GatewayError::Settings(format!(
            "{} can be reached from other machines: give --tls-cert and --tls-key, or --plain-http where something before it \
             speaks TLS",
            http.listen
        )));
    }
    let mut manager = LocalSessionManager::default();
    let session_time = Duration::from_secs(settings.http.session_s.max(1));
    manager.session_config.keep_alive = Some(session_time);
    let manager = Arc::new(manager);
    let failed = |error: std::io::Error| {
        GatewayError::Client(format!("cannot listen on {}: {error}", http.listen))
    };
    let listener = TcpListener::bind(http.listen).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let mut config = StreamableHttpServerConfig::default();
    if !settings.http.hosts.is_empty() {
        config
            .allowed_hosts
            .extend(settings.http.hosts.iter().cloned());
    }
    let mut origins = settings.http.origins.clone();
    if is_local {
        // Its own pages; those of another server on this machine have another port.
        let scheme = if http.tls.is_some() { "https" } else { "http" };
        origins.extend(
            ["127.0.0.1", "localhost", "[::1]"]
                .map(|host| format!("{scheme}://{host}:{}", address.port())),
        );
    } else {
        config.allowed_hosts.push(http.listen.ip().to_string());
    }
    let door = Arc::new(Door {
        address: http.listen,
        guests: RwLock::new(guests),
        manager: Arc::clone(&manager),
        sessions: Mutex::default(),
        max_sessions: settings.http.max_sessions.max(1),
        session_time,
        places: Places::default(),
        pages: Pages {
            hosts: config.allowed_hosts.clone(),
            origins: origins.clone(),
        },
        store: hub.store.clone(),
        shared: hub.sessions.clone(),
    });
    let mut config = config
        .with_allowed_origins(origins)
        .enforce_origin_validation();
    config.session_store = hub
        .sessions
        .clone()
        .map(|sessions| Arc::new(sessions) as Arc<dyn SessionStore>);
    let gateway = Arc::clone(hub);
    let factory = move || {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let owner = Owner(format!("session {number}").into());
        Ok(Handler::new(
            Arc::clone(&gateway),
            Caller {
                role: DEFAULT_ROLE.into(),
                key: "".into(),
                owner,
            },
        ))
    };
    let service = StreamableHttpService::new(factory, manager, config);
    let protocol = Router::new()
        .route_service(PATH, service)
        .route_layer(middleware::from_fn_with_state(Arc::clone(&door), admit));
    let (api, described) = Api::routes(Arc::clone(hub));
    let mut app = protocol
        .merge(api.route_layer(middleware::from_fn_with_state(Arc::clone(&door), enter)))
        .merge(desk::routes(Arc::clone(&door), Arc::clone(hub)));
    let operators = middleware::from_fn_with_state((Arc::clone(&door), Arc::clone(hub)), operate);
    let console = console::parts(Arc::clone(hub)).route_layer(operators);
    let page = console::page()
        .merge(described)
        .route_layer(middleware::from_fn_with_state(Arc::clone(&door), look));
    app = app.merge(
        page.merge(console)
            .route_layer(middleware::from_fn(console::bound)),
    );
    let proxy = Arc::new(Proxy::new(Arc::clone(hub))?);
    for api in picktools_proxy::Api::ALL {
        let state = ModelDoor {
            door: Arc::clone(&door),
            proxy: Arc::clone(&proxy),
            api,
        };
        app = app.route(&format!("/v1{}", api.path()), post(model).with_state(state));
    }
    let app = app
        .fallback(nothing)
        .method_not_allowed_fallback(other_method)
        .layer(middleware::from_fn_with_state(Arc::clone(hub), watch));
    let handle = Handle::new();
    let app = app.into_make_service();
    let served = match &http.tls {
        None => {
            let mut server = axum_server::from_tcp(listener)
                .map_err(failed)?
                .handle(handle.clone());
            server
                .http_builder()
                .http1()
                .header_read_timeout(HEAD)
                .max_headers(READ_HEADERS);
            tokio::spawn(server.acceptor(NoDelayAcceptor::new()).serve(app))
        }
        Some((certificate, key)) => {
            // The provider of the process may be set already, by whoever uses the library.
            picktools_net::install_tls_backend();
            let config = RustlsConfig::from_pem_file(certificate, key).await;
            let config = config.map_err(|error| {
                let (certificate, key) = (certificate.display(), key.display());
                GatewayError::Settings(format!(
                    "{certificate} and {key} are no certificate and key: {error}"
                ))
            })?;
            let acceptor = RustlsAcceptor::new(config).acceptor(NoDelayAcceptor::new());
            let mut server = axum_server::from_tcp(listener)
                .map_err(failed)?
                .handle(handle.clone());
            server
                .http_builder()
                .http1()
                .header_read_timeout(HEAD)
                .max_headers(READ_HEADERS);
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
    Ok(Serving {
        door,
        address,
        handle,
        served,
        tidying,
    })
}
