//! The HTTP server: access control, rate limits and the owners of MCP sessions.
//!
//! MCP uses the streamable HTTP transport.

mod frontend;
mod status;

use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use axum_server::{Handle, Server};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools_gateway::active_requests::ActiveRequests;
use picktools_gateway::api_keys::{
    ApiKeys, HttpRefusal, RequestIdentity, RequestLimiter, RequestPermit, bearer_token,
};
use picktools_gateway::calls::Caller;
use picktools_gateway::handler::{Handler, SESSION};
use picktools_gateway::hub::Hub;
use picktools_gateway::settings::{DEFAULT_ROLE, HttpSettings, Settings};
use picktools_gateway::upstream::Owner;
use picktools_gateway::{ClientFrontend, Gateway, GatewayError, GatewayEvent};
use picktools_proxy::Proxy;
use rmcp::transport::streamable_http_server::session::SessionStore;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tracing::Instrument;
use tracing::field::Empty;

use self::frontend::{AllowedPages, HttpFrontend};
use crate::api::Api;
use crate::connections::{self, ConnectionLimits, Connections, LimitedAcceptor};
use crate::console;
use crate::guarded_body::{hold, refuse};
use crate::listener::{ClosableListener, ListenerAddress};
use crate::mcp_requests;
use crate::problem::Problem;
use crate::unread_body;

/// The path of the MCP endpoint.
const PATH: &str = "/mcp";
/// The same path as some clients write it.
const PATH_WITH_SLASH: &str = "/mcp/";
/// The time for which a browser may keep the answer to a preflight request.
const PREFLIGHT_AGE: Duration = Duration::from_secs(3600);
/// The interval at which ended sessions are removed while there are sessions.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);
/// The largest number of headers of a request.
const MAX_HEADERS: usize = 100;
/// The largest total size of the headers of a request, in bytes.
const MAX_HEADER_BYTES: usize = 32 << 10;
/// The largest number of headers that the HTTP library parses. Above it, the library answers.
const MAX_PARSED_HEADERS: usize = 1_000;
/// The longest duration of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after the signal to end, and after an answer, in which a server still answers on an open
/// connection, so that its client learns of the end from an answer. A connection that is closed at
/// once can lose a request that is on its way.
const LAST_REQUESTS_TIME: Duration = Duration::from_secs(1);
/// The interval between checks for open connections of an ending server.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// The time in which connections end after the calls under way.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// The options of the HTTP server.
#[derive(Debug, Clone)]
pub struct HttpServerOptions {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The certificate for TLS. If `None`, the server uses plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Allows plain HTTP for other machines, for example behind a proxy that terminates TLS.
    pub plain: bool,
    /// The digest of a temporary key for the console, from
    /// [`new_key`](picktools_state::keys::new_key), in addition to the keys of the settings.
    ///
    /// It is accepted only if the server listens on a loopback address. It is valid as long as the
    /// gateway runs.
    pub console: Option<String>,
}

/// The PEM files of a TLS certificate.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// Authenticates and limits a request to the MCP endpoint.
async fn admit(
    State(frontend): State<Arc<HttpFrontend>>,
    mut request: Request,
    next: Next,
) -> Response {
    let authenticated =
        match bearer_token(request.headers()).and_then(|key| frontend.read_api_keys().find(key)) {
            Ok(api_key) => {
                let counted = api_key.count_request(frontend.store.as_ref()).await;
                counted.map(|()| api_key)
            }
            Err(refusal) => Err(refusal),
        };
    let admitted = authenticated.and_then(|api_key| {
        // A stream on which a client listens takes no permit, since it lasts as long as the client
        // is connected.
        let permit = if request.method() == Method::GET {
            None
        } else {
            Some(frontend.limiter.take(&api_key)?)
        };
        Ok((api_key, permit))
    });
    let (api_key, permit) = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => return refuse(&refusal),
    };
    let session = request
        .headers()
        .get(SESSION)
        .map(|value| value.to_str().unwrap_or_default().to_owned());
    if let Some(session) = &session {
        let is_known =
            frontend.use_session(session, &api_key) || frontend.adopt(session, &api_key).await;
        if !is_known {
            return refuse(&HttpRefusal::new(
                StatusCode::NOT_FOUND,
                "unknown session; start a new one",
            ));
        }
        frontend.refresh_shared(session, &api_key).await;
    }
    frontend.identify(&mut request, &api_key);
    let response = mcp_requests::prepare(request, next).await;
    if session.is_none()
        && let Some(new_session) = response
            .headers()
            .get(SESSION)
            .and_then(|value| value.to_str().ok())
    {
        if let Some(shared) = &frontend.shared {
            shared.begin(new_session, &api_key.identity()).await;
        }
        frontend.add_session(new_session, &api_key).await;
    }
    hold(response, permit)
}

/// Authenticates and limits a request to the JSON API.
async fn admit_api_request(
    State(frontend): State<Arc<HttpFrontend>>,
    mut request: Request,
    next: Next,
) -> Response {
    match frontend.admit(request.headers()).await {
        Ok((api_key, permit)) => {
            frontend.identify(&mut request, &api_key);
            hold(next.run(request).await, permit)
        }
        Err(refusal) => Problem::from(refusal).into_response(),
    }
}

/// Handles a request to any route: counts it on its connection and as under way, reads the rest of
/// its body, and measures it. These steps are one layer, because each layer copies all inner ones
/// for each request.
async fn handle(State(hub): State<Arc<Hub>>, request: Request, next: Next) -> Response {
    let hub = &hub;
    let measure = async move |request| measure(hub, request, next).await;
    let count_active = async move |request| count_active(hub, request, measure).await;
    let read_rest = async move |request| unread_body::read_rest(request, count_active).await;
    connections::count_request(request, read_rest).await
}

/// Limits the headers of a request to any route, and measures the request.
async fn measure(hub: &Hub, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map_or("other", MatchedPath::as_str);
    let headers = request.headers();
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    let response = if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
        let message = format!(
            "the request has over {MAX_HEADERS} headers or {MAX_HEADER_BYTES} header bytes"
        );
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
    tracing::debug!(
        target: "picktools::http", path, status, time_us = time.as_micros(),
        "answered"
    );
    hub.meter
        .record(&GatewayEvent::Request { path, status, time });
    response
}

/// Counts a request as under way until its response has ended, and refuses it if the gateway is
/// ending. Event streams of `GET` do not count, because they have no end, but an ending gateway
/// begins none.
async fn count_active(
    hub: &Hub,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let is_get = request.method() == Method::GET;
    let is_stream = is_get && [PATH, PATH_WITH_SLASH].contains(&request.uri().path());
    let mut response = if is_get && !(is_stream && hub.active.is_closed()) {
        next(request).await
    } else if let Some(active) = hub.active.begin() {
        hold(next(request).await, active)
    } else {
        let message = "the gateway is ending; send the request to another gateway, or again later";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "ending", message)
            .retry_after(Duration::from_secs(1))
            .into_response()
    };
    if hub.active.is_closed() {
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Answers a request to an unknown path.
async fn not_found() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "unknown path; /openapi.json lists the paths of the API",
    )
}

/// Answers a request to a known path with a wrong method.
async fn method_not_allowed() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "method not allowed; /openapi.json lists the methods of each path",
    )
}

/// The state of a route of the model proxy.
#[derive(Clone)]
struct ModelRoute {
    frontend: Arc<HttpFrontend>,
    proxy: Arc<Proxy>,
    api: picktools_proxy::ModelApi,
}

impl ModelRoute {
    async fn admit(
        &self,
        headers: &HeaderMap,
    ) -> Result<(RequestPermit, RequestIdentity), HttpRefusal> {
        self.frontend.allowed_pages.check(headers)?;
        let api_key = {
            let api_keys = self.frontend.read_api_keys();
            let secret = self
                .proxy
                .find_key(self.api, headers, api_keys.is_keyless())?;
            api_keys.find(secret)?
        };
        api_key.count_request(self.frontend.store.as_ref()).await?;
        let sender = api_key.request_identity();
        Ok((self.frontend.limiter.take(&api_key)?, sender))
    }
}

/// Authenticates and limits a request to a model, and forwards it.
async fn proxy_model_request(State(route): State<ModelRoute>, request: Request) -> Response {
    match route.admit(request.headers()).await {
        Ok((permit, sender)) => hold(
            route.proxy.forward(route.api, &sender, request).await,
            permit,
        ),
        Err(refusal) => picktools_proxy::refuse(&refusal),
    }
}

/// Admits a request for the data of the console if it has an operator's key.
async fn admit_operator(
    State((frontend, hub)): State<(Arc<HttpFrontend>, Arc<Hub>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let admit = async |headers: &HeaderMap| {
        frontend.allowed_pages.check_own(headers)?;
        let token = bearer_token(headers)?;
        let api_key = frontend
            .read_api_keys()
            .find_operator(token, &hub.registry.settings())?;
        api_key.count_request(frontend.store.as_ref()).await?;
        let permit = frontend.limiter.take(&api_key)?;
        Ok((api_key, permit))
    };
    match admit(request.headers()).await {
        Ok((api_key, permit)) => {
            frontend.identify(&mut request, &api_key);
            hold(next.run(request).await, permit)
        }
        Err(refusal) => refuse(&refusal),
    }
}

/// Admits a request for the page of the console, which needs no key and contains no data.
async fn admit_page_request(
    State(frontend): State<Arc<HttpFrontend>>,
    request: Request,
    next: Next,
) -> Response {
    match frontend.allowed_pages.check_own(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refuse(&refusal),
    }
}

/// A running HTTP server of a gateway. It stops when this value is dropped.
pub struct HttpServer {
    frontend: Arc<HttpFrontend>,
    address: SocketAddr,
    listener: ClosableListener,
    connections: Arc<Connections>,
    handle: Handle<ListenerAddress>,
    active: ActiveRequests,
    server_task: tokio::task::JoinHandle<std::io::Result<()>>,
    cleanup_task: tokio::task::JoinHandle<()>,
}

impl HttpServer {
    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the server stops.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Client`] with the reason, if the server failed.
    pub fn wait(&mut self) -> BoxFuture<'_, Result<(), GatewayError>> {
        let wait = async move {
            match (&mut self.server_task).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(GatewayError::Client(error.to_string())),
                Err(error) => Err(GatewayError::Client(error.to_string())),
            }
        };
        wait.boxed()
    }

    /// Refuses new requests, finishes those under way within a time, and then ends the sessions.
    /// Connections stay open as long as their clients may not have learned of the end.
    pub fn drain(&mut self, time: Duration) -> BoxFuture<'_, ()> {
        let drain = async move {
            let deadline = Instant::now() + time;
            self.active.close();
            drop(timeout(time.min(LAST_REQUESTS_TIME), self.connections_closed()).await);
            self.listener.close();
            drop(timeout(time_until(deadline), self.active.finished()).await);
            // Their event streams would keep connections open.
            self.frontend.end_sessions().await;
            let rest = time_until(deadline).min(SHUTDOWN_TIMEOUT);
            drop(timeout(rest, self.connections_idle()).await);
            self.handle.graceful_shutdown(Some(SHUTDOWN_TIMEOUT));
            if !self.server_task.is_finished() {
                drop(timeout(SHUTDOWN_TIMEOUT, &mut self.server_task).await);
            }
        };
        drain.boxed()
    }

    /// Waits until clients have closed all connections.
    async fn connections_closed(&self) {
        while self.handle.connection_count() > 0 {
            sleep(CONNECTION_CHECK_INTERVAL).await;
        }
    }

    /// Waits until the client of each answered connection had time for one more request, which the
    /// ending server refuses. A response that began before the end does not announce it.
    async fn connections_idle(&self) {
        while self.connections.are_in_use(LAST_REQUESTS_TIME) {
            sleep(CONNECTION_CHECK_INTERVAL).await;
        }
    }
}

/// Returns the time until a deadline, zero if it has passed.
fn time_until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.cleanup_task.abort();
        self.handle.graceful_shutdown(Some(SHUTDOWN_TIMEOUT));
    }
}

/// Serves clients of a gateway over HTTP until the returned server is dropped.
///
/// # Errors
///
/// [`GatewayError`] if the server cannot listen on the address, or if the settings do not allow
/// this address without TLS.
pub fn serve<'a>(
    gateway: &'a Gateway,
    options: &'a HttpServerOptions,
) -> BoxFuture<'a, Result<HttpServer, GatewayError>> {
    let serve = async move {
        let hub = gateway.hub();
        let server = start_server(hub, &hub.registry.settings(), options).await?;
        let frontend: Arc<dyn ClientFrontend> = server.frontend.clone();
        gateway.add_frontend(Arc::downgrade(&frontend));
        Ok(server)
    };
    serve.boxed()
}

/// Starts the server.
async fn start_server(
    hub: &Arc<Hub>,
    settings: &Settings,
    options: &HttpServerOptions,
) -> Result<HttpServer, GatewayError> {
    let api_keys = api_keys_for_address(settings, options)?;
    let session_time = Duration::from_secs(settings.http.session_s.max(1));
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(session_time);
    let manager = Arc::new(manager);
    let listener =
        TcpListener::bind(options.listen).map_err(|error| listen_error(options, &error))?;
    listener
        .set_nonblocking(true)
        .map_err(|error| listen_error(options, &error))?;
    let address = listener
        .local_addr()
        .map_err(|error| listen_error(options, &error))?;
    let (config, allowed_pages) = mcp_config(settings, options, address);
    let frontend = Arc::new(HttpFrontend {
        address: options.listen,
        api_keys: RwLock::new(api_keys),
        manager,
        sessions: Mutex::default(),
        session_begun: Notify::new(),
        max_sessions: settings.http.max_sessions.max(1),
        session_time,
        limiter: RequestLimiter::default(),
        allowed_pages,
        store: hub.store.clone(),
        shared: hub.sessions.clone(),
    });
    let app = router(hub, &frontend, config)?;
    let listener =
        ClosableListener::from_std(listener).map_err(|error| listen_error(options, &error))?;
    let connections = Connections::new(ConnectionLimits::new(&settings.http));
    let handle = Handle::new();
    let service = ListenerService {
        app,
        listener: listener.clone(),
        connections: Arc::clone(&connections),
        handle: handle.clone(),
    };
    let server_task = spawn_server(service, options, &settings.http).await?;
    let cleaned = Arc::clone(&frontend);
    let cleanup_task = tokio::spawn(async move {
        loop {
            cleaned.wait_for_sessions().await;
            sleep(CLEANUP_INTERVAL).await;
            cleaned.remove_ended_sessions().await;
        }
    });
    Ok(HttpServer {
        frontend,
        address,
        listener,
        connections,
        handle,
        active: hub.active.clone(),
        server_task,
        cleanup_task,
    })
}

fn listen_error(options: &HttpServerOptions, error: &std::io::Error) -> GatewayError {
    GatewayError::Client(format!("cannot listen on {}: {error}", options.listen))
}

/// Returns the keys of the settings and the console, or an error if they need another address.
fn api_keys_for_address(
    settings: &Settings,
    options: &HttpServerOptions,
) -> Result<ApiKeys, GatewayError> {
    let api_keys = ApiKeys::new(settings, &options.listen, &ApiKeys::default())?;
    let is_local = options.listen.ip().is_loopback();
    let has_console_key = options.console.is_some();
    if has_console_key && !is_local {
        return Err(GatewayError::Settings(format!(
            "{} can be reached from other machines: instead of --console, give a key of the \
             settings a role with \"operator\": true",
            options.listen
        )));
    }
    if !is_local && options.tls.is_none() && !options.plain {
        return Err(GatewayError::Settings(format!(
            "{} can be reached from other machines: give --tls-cert and --tls-key, or \
             --plain-http if a proxy in front of it terminates TLS",
            options.listen
        )));
    }
    match &options.console {
        Some(digest) => api_keys.with_console(digest),
        None => Ok(api_keys),
    }
}

/// Returns a host as in a `Host` header, which has IPv6 addresses in brackets.
fn host_name(host: &String) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(_) => format!("[{host}]"),
        Err(_) => host.clone(),
    }
}

/// Returns the configuration of the MCP endpoint, and the pages that may send requests.
fn mcp_config(
    settings: &Settings,
    options: &HttpServerOptions,
    address: SocketAddr,
) -> (StreamableHttpServerConfig, AllowedPages) {
    let mut config = StreamableHttpServerConfig::default();
    config
        .allowed_hosts
        .extend(settings.http.hosts.iter().cloned());
    let mut origins = settings.http.origins.clone();
    if options.listen.ip().is_loopback() {
        // The pages of this server. Pages of another server on this machine have another port.
        let scheme = if options.tls.is_some() {
            "https"
        } else {
            "http"
        };
        origins.extend(
            ["127.0.0.1", "localhost", "[::1]"]
                .map(|host| format!("{scheme}://{host}:{}", address.port())),
        );
    } else {
        config.allowed_hosts.push(options.listen.ip().to_string());
    }
    let allowed_pages = AllowedPages {
        hosts: config.allowed_hosts.iter().map(host_name).collect(),
        origins: origins.clone(),
    };
    let config = config
        .with_allowed_origins(origins)
        .enforce_origin_validation();
    (config, allowed_pages)
}

/// Returns the service of the MCP endpoint, with a handler for each session.
fn mcp_service(
    hub: &Arc<Hub>,
    manager: Arc<LocalSessionManager>,
    mut config: StreamableHttpServerConfig,
) -> StreamableHttpService<Handler, LocalSessionManager> {
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
    StreamableHttpService::new(factory, manager, config)
}

/// Returns all routes of the server.
fn router(
    hub: &Arc<Hub>,
    frontend: &Arc<HttpFrontend>,
    config: StreamableHttpServerConfig,
) -> Result<Router, GatewayError> {
    let service = Arc::new(mcp_service(hub, Arc::clone(&frontend.manager), config));
    // Each layer copies its inner services for each request, and this one is large.
    let handle_message = any(move |request: Request| {
        let service = Arc::clone(&service);
        async move { service.handle(request).await }
    });
    let mcp = Router::new()
        .route(PATH, handle_message.clone())
        .route(PATH_WITH_SLASH, handle_message)
        .route_layer(middleware::from_fn_with_state(Arc::clone(frontend), admit));
    let (api, description) = Api::routes(Arc::clone(hub));
    let admit_api = middleware::from_fn_with_state(Arc::clone(frontend), admit_api_request);
    let admit_operators =
        middleware::from_fn_with_state((Arc::clone(frontend), Arc::clone(hub)), admit_operator);
    let admit_pages = middleware::from_fn_with_state(Arc::clone(frontend), admit_page_request);
    let console = console::data_routes(Arc::clone(hub)).route_layer(admit_operators);
    let pages = console::page_routes()
        .merge(description)
        .route_layer(admit_pages)
        .merge(console)
        .route_layer(middleware::from_fn(console::add_security_headers));
    let mut app = mcp
        .merge(api.route_layer(admit_api))
        .merge(status::routes(Arc::clone(frontend), Arc::clone(hub)))
        .merge(pages);
    let proxy = Arc::new(Proxy::new(Arc::clone(hub))?);
    for api in picktools_proxy::ModelApi::ALL {
        let state = ModelRoute {
            frontend: Arc::clone(frontend),
            proxy: Arc::clone(&proxy),
            api,
        };
        app = app.route(
            &format!("/v1{}", api.path()),
            post(proxy_model_request).with_state(state),
        );
    }
    let app = app
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(cors(Arc::clone(frontend)))
        .layer(middleware::from_fn_with_state(Arc::clone(hub), handle));
    Ok(app)
}

/// Lets the pages of the allowed origins read the responses. A preflight request needs no key.
fn cors(frontend: Arc<HttpFrontend>) -> CorsLayer {
    let is_allowed = move |origin: &HeaderValue, _: &_| frontend.allowed_pages.allows(origin);
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_allowed))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([
            HeaderName::from_static("mcp-session-id"),
            HeaderName::from_static("mcp-protocol-version"),
            header::WWW_AUTHENTICATE,
            header::RETRY_AFTER,
        ])
        .max_age(PREFLIGHT_AGE)
}

/// The routes of a server and the listener on which it serves them.
struct ListenerService {
    app: Router,
    listener: ClosableListener,
    connections: Arc<Connections>,
    handle: Handle<ListenerAddress>,
}

/// Serves the routes on the listener, with TLS if the options have a certificate.
async fn spawn_server(
    service: ListenerService,
    options: &HttpServerOptions,
    settings: &HttpSettings,
) -> Result<tokio::task::JoinHandle<std::io::Result<()>>, GatewayError> {
    let app = service.app.into_make_service();
    let header_timeout = Duration::from_secs(settings.headers_s);
    let mut server = Server::from_listener(service.listener)
        .handle(service.handle)
        // A connection of HTTP/2 has requests without end, and none of the limits of HTTP/1.
        .http1_only()
        .first_request_timeout(header_timeout);
    server
        .http_builder()
        .http1()
        .header_read_timeout(header_timeout)
        .max_headers(MAX_PARSED_HEADERS);
    let acceptor = LimitedAcceptor(service.connections);
    let Some(TlsFiles { certificate, key }) = &options.tls else {
        return Ok(tokio::spawn(server.acceptor(acceptor).serve(app)));
    };
    // A program that uses the library may have installed a TLS backend already.
    picktools_net::install_tls_backend();
    let config = RustlsConfig::from_pem_file(certificate, key)
        .await
        .map_err(|error| {
            GatewayError::Settings(format!(
                "cannot read the certificate {} and the key {}: {error}",
                certificate.display(),
                key.display()
            ))
        })?;
    offer_http1_only(&config);
    let acceptor = RustlsAcceptor::new(config)
        .handshake_timeout(header_timeout.min(HANDSHAKE_TIMEOUT))
        .acceptor(acceptor);
    Ok(tokio::spawn(server.acceptor(acceptor).serve(app)))
}

/// Offers HTTP/1.1 as the only protocol over TLS.
fn offer_http1_only(config: &RustlsConfig) {
    let mut offered = (*config.get_inner()).clone();
    offered.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.reload_from_config(Arc::new(offered));
}
