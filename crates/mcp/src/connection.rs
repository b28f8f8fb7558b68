//! A connection to a server: start or connect, handshake, requests and shutdown. Closing it also
//! ends every process that it started.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rmcp::model::{ClientRequest, GetExtensions, ProtocolVersion, ServerResult};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer, PeerRequestOptions,
    RequestHandle, RunningService, RunningServiceCancellationToken, serve_client_with_lifecycle,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceError};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::failure::{CLOSED, MAX_MESSAGE_CHARS, error_chain_text, is_closed, transport_text};
use super::handshake::Handshake;
use super::http::{HttpClient, HttpFacts};
use super::limits::Limits;
use super::program::{Program, Variable};
use super::program_messages::ProgramMessages;
use super::supervisor::GRACE;
use super::tap::{RequestUpdate, Tap, UpdateListener, UpdateListeners};
use super::token;
use super::tool_cache::ToolListCache;
use picktools::excerpt::marked;
use picktools_import::mcp::{ClientCredentials, Server, ServerTransport, ToolFilter};

/// The kept beginning of a server's instructions, in bytes.
const MAX_INSTRUCTION_BYTES: usize = 16 << 10;
/// The time after which the newest handshake counts as unanswered if the older one followed.
const UNANSWERED_TIME: Duration = Duration::from_secs(5);

/// The reason why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{message}{}", StderrTail(.stderr))]
pub struct ConnectError {
    /// The cause.
    pub message: String,
    /// The last lines that the server wrote to standard error.
    pub stderr: Vec<String>,
}

/// Lines that a server wrote to standard error, shown after a message.
pub struct StderrTail<'a>(pub &'a [String]);

impl fmt::Display for StderrTail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.0 {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

/// A handler that answers no request of a server, as neither a user nor a model is available.
#[derive(Debug, Clone, Copy)]
pub struct SilentHandler;

impl ClientHandler for SilentHandler {}

/// A handler for [`Connection::open`] that reports changes of a server's tool list, and answers no
/// request of the server.
///
/// Servers that speak 2026-07-28 report changes only to subscribers, and this handler does not
/// subscribe. Poll such servers, or connect with [`Handshake::LegacyFirst`].
#[derive(Debug, Clone, Default)]
pub struct ToolChanges(Arc<Notify>);

impl ToolChanges {
    /// Waits for a change since the last call of this method.
    pub async fn changed(&self) {
        self.0.notified().await;
    }
}

impl ClientHandler for ToolChanges {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.notify_one();
    }
}

/// The options of a new connection.
#[derive(Clone, Copy)]
pub struct ConnectOptions<'a> {
    /// The caller's environment. A program gets only the variables for user, language, files,
    /// network, container engine and key agent, and those that its configuration names.
    pub environment: &'a Variable<'a>,
    /// The time by which the handshake must finish.
    pub deadline: Instant,
    /// The limits of time and size.
    pub limits: &'a Limits,
    /// The handshake that is tried first, unless another one worked with the server earlier.
    pub handshake: Handshake,
    /// The cache that remembers which handshake worked.
    pub cache: Option<&'a ToolListCache>,
}

/// A connection after a successful handshake. Dropping it kills the server's process, with all its
/// child processes. The message types come from the SDK, `rmcp`.
pub struct Connection {
    peer: Peer<RoleClient>,
    service: tokio::sync::Mutex<Option<Service>>,
    /// Cancelled when the service ends.
    closed: CancellationToken,
    listeners: UpdateListeners,
    program: Option<tokio::sync::Mutex<Program>>,
    message_bytes: usize,
    too_long: Arc<AtomicBool>,
    is_stateless: bool,
    /// The tools that the server's configuration allows.
    pub(crate) tools: ToolFilter,
}

impl Connection {
    /// Starts a server or connects to it.
    ///
    /// `handler` answers the server's requests and receives its notifications, except progress,
    /// which the caller of [`begin`](Self::begin) receives.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if the server does not start, does not answer, or sends an invalid message.
    pub async fn open(
        server: &Server,
        options: &ConnectOptions<'_>,
        handler: impl ClientHandler + Clone,
    ) -> Result<Self, ConnectError> {
        let remembered = options.cache.and_then(|cache| cache.handshake(server));
        let mut handshake = remembered.unwrap_or(options.handshake);
        let mut stderr = Vec::new();
        let started = Instant::now();
        // Boxed, so that callers that rarely open a connection keep small futures.
        let mut opened = Box::pin(attempt(server, options, handshake, &handler, &mut stderr)).await;
        if let Err(failure) = &opened
            && failure.asks_for_other(handshake, remembered.is_some())
        {
            handshake = handshake.other();
            opened = Box::pin(attempt(server, options, handshake, &handler, &mut stderr)).await;
        }
        if let Ok(connection) = &opened
            && let Some(cache) = options.cache
        {
            if handshake == Handshake::NewestFirst
                && started.elapsed() > UNANSWERED_TIME
                && connection.is_older()
            {
                // The server left the newest handshake unanswered, which costs time at each start.
                handshake = Handshake::LegacyFirst;
            }
            let is_new = handshake != options.handshake || remembered.is_some();
            if is_new && Some(handshake) != remembered {
                cache.put_handshake(server, handshake);
            }
        }
        opened.map_err(|failure| ConnectError {
            message: failure.message(),
            stderr,
        })
    }

    /// Returns `true` if the connection speaks a revision before 2026-07-28.
    pub fn is_older(&self) -> bool {
        self.peer
            .peer_info()
            .is_some_and(|info| info.protocol_version < ProtocolVersion::V_2026_07_28)
    }

    /// Returns `true` if the server opened no session over HTTP, so that it can keep nothing between
    /// two requests of a client.
    pub fn is_stateless(&self) -> bool {
        self.is_stateless
    }

    /// Returns the peer, which sends requests and notifications to the server.
    pub fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// Returns the protocol revision of the connection.
    pub fn protocol(&self) -> String {
        match self.peer.peer_info() {
            Some(info) => info.protocol_version.to_string(),
            None => String::new(),
        }
    }

    /// Returns the instructions that the server sent at the handshake, cut to a limit; empty if it
    /// sent none.
    pub(crate) fn instructions(&self) -> Option<String> {
        let info = self.peer.peer_info()?;
        let instructions = info.instructions.as_deref().unwrap_or_default();
        let end = instructions.floor_char_boundary(MAX_INSTRUCTION_BYTES);
        Some(instructions[..end].to_owned())
    }

    /// Returns `true` if the connection is closed or its service has ended.
    pub fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Waits until the connection is closed.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Sends a request. `on_update` receives the server's updates in their order, and none after
    /// the answer.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if the request cannot be sent, or calls a tool that the configuration of the
    /// server forbids.
    pub async fn begin(
        &self,
        mut request: ClientRequest,
        options: PeerRequestOptions,
        on_update: impl Fn(RequestUpdate) + Send + Sync + 'static,
    ) -> Result<PendingRequest, ServiceError> {
        if let ClientRequest::CallToolRequest(call) = &request
            && !self.tools.permits(&call.params.name)
        {
            let message = "the configuration of the server forbids this tool";
            return Err(ServiceError::McpError(ErrorData::invalid_params(
                message, None,
            )));
        }
        request
            .extensions_mut()
            .insert(UpdateListener::new(on_update));
        let handle = self.peer.send_cancellable_request(request, options).await?;
        Ok(PendingRequest {
            handle: Some(handle),
            listeners: self.listeners.clone(),
        })
    }

    /// Describes why a request failed.
    pub fn describe_error(&self, error: &ServiceError) -> String {
        match error {
            ServiceError::TransportClosed if self.too_long.load(Ordering::Relaxed) => {
                too_long_message(self.message_bytes)
            }
            ServiceError::TransportClosed => CLOSED.to_owned(),
            ServiceError::TransportSend(error) => transport_text(error),
            other => error_chain_text(other),
        }
    }

    /// Closes the connection, and returns the last lines that the server wrote to standard error.
    pub async fn end(&self) -> Vec<String> {
        if let Some(mut service) = self.service.lock().await.take() {
            service.stop();
            // The way it ends does not change the received answers.
            drop(timeout(GRACE, &mut service.ended).await);
        }
        match &self.program {
            Some(program) => {
                let mut program = program.lock().await;
                program.stop().await;
                program.last_lines()
            }
            None => Vec::new(),
        }
    }

    /// Closes the connection to a server that does not answer, and kills its program, without time
    /// to end by itself.
    pub async fn kill(&self) {
        if let Some(mut service) = self.service.lock().await.take() {
            service.stop();
        }
        if let Some(program) = &self.program {
            program.lock().await.kill().await;
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("protocol", &self.protocol())
            .finish_non_exhaustive()
    }
}

/// The background task that serves a connection.
struct Service {
    stop: Option<RunningServiceCancellationToken>,
    ended: JoinHandle<()>,
}

impl Service {
    /// Serves a connection in the background. `closed` is cancelled when it ends.
    fn new<H: ClientHandler>(
        service: RunningService<RoleClient, H>,
        closed: CancellationToken,
    ) -> Self {
        let stop = Some(service.cancellation_token());
        let ended = tokio::spawn(async move {
            let _closes = closed.drop_guard();
            // Callers that wait for an answer get the cause.
            drop(service.waiting().await);
        });
        Self { stop, ended }
    }

    fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.cancel();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A pending request. Dropping it sends a cancellation to the server.
#[derive(Debug)]
pub struct PendingRequest {
    handle: Option<RequestHandle<RoleClient>>,
    listeners: UpdateListeners,
}

impl PendingRequest {
    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if the server answers with an error or disconnects.
    pub async fn answer(mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else {
            return Err(ServiceError::TransportClosed);
        };
        let answer = (&mut handle.rx).await;
        if let Some(handle) = self.handle.take() {
            self.listeners.forget(&handle.progress_token);
        }
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        self.listeners.forget(&handle.progress_token);
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(handle.cancel(Some("the call was cancelled".to_owned()))));
        }
    }
}

/// The reason why an attempt failed.
enum AttemptError {
    /// The server answered the first handshake after the second had begun: it needed more than ten
    /// seconds to start.
    LateAnswer,
    /// The server ended without an answer. Some do at a message that they do not know.
    Ended,
    /// The server refused this kind of handshake.
    Refused(String),
    Other(String),
}

impl AttemptError {
    /// Returns `true` if the other handshake may succeed.
    ///
    /// The newest handshake includes a fallback to the older one for servers that refuse it.
    fn asks_for_other(&self, tried: Handshake, is_remembered: bool) -> bool {
        match self {
            Self::LateAnswer | Self::Ended => is_remembered || tried == Handshake::NewestFirst,
            Self::Refused(_) => is_remembered || tried == Handshake::LegacyFirst,
            Self::Other(_) => false,
        }
    }

    fn message(self) -> String {
        match self {
            Self::LateAnswer => "it answered a handshake too late".to_owned(),
            Self::Ended => "it ended before it answered".to_owned(),
            Self::Refused(message) | Self::Other(message) => message,
        }
    }
}

async fn attempt(
    server: &Server,
    options: &ConnectOptions<'_>,
    handshake: Handshake,
    handler: &(impl ClientHandler + Clone),
    stderr: &mut Vec<String>,
) -> Result<Connection, AttemptError> {
    let ConnectOptions {
        environment,
        deadline,
        limits,
        ..
    } = *options;
    let listeners = UpdateListeners::default();
    let too_long = Arc::<AtomicBool>::default();
    let message_bytes = limits.message_bytes;
    let mut is_stateless = false;
    let (service, program) = match &server.transport {
        ServerTransport::Stdio { .. } => {
            let mut program =
                Program::start(&server.transport, environment).map_err(AttemptError::Other)?;
            let result = match program.pipes() {
                Some((output, input)) => {
                    let too_long = Arc::clone(&too_long);
                    let messages = ProgramMessages::new(output, input, message_bytes, too_long);
                    finish_by(
                        deadline,
                        shake_hands(messages, handshake, handler, &listeners),
                    )
                    .await
                }
                None => Err(AttemptError::Other(
                    "its standard input and output are not available".to_owned(),
                )),
            };
            match result {
                Ok(service) => (service, Some(tokio::sync::Mutex::new(program))),
                Err(failure) => {
                    program.stop().await;
                    *stderr = program.last_lines();
                    return Err(match failure {
                        AttemptError::Other(_) | AttemptError::Refused(_) | AttemptError::Ended
                            if too_long.load(Ordering::Relaxed) =>
                        {
                            AttemptError::Other(too_long_message(message_bytes))
                        }
                        AttemptError::Ended => match program.start_failure() {
                            Some(reason) => {
                                stderr.clear();
                                AttemptError::Other(reason)
                            }
                            None => AttemptError::Ended,
                        },
                        failure => failure,
                    });
                }
            }
        }
        ServerTransport::Http {
            url,
            headers,
            credentials,
        } => {
            let facts = Arc::<HttpFacts>::default();
            let transport = http(
                url,
                headers,
                credentials.as_ref(),
                message_bytes,
                Arc::clone(&facts),
            )
            .map_err(AttemptError::Other)?;
            let service = finish_by(
                deadline,
                shake_hands(transport, handshake, handler, &listeners),
            )
            .await
            .map_err(|error| match (error, facts.take_last_failure()) {
                (AttemptError::Refused(_), Some(reason)) => AttemptError::Refused(reason),
                (AttemptError::Other(_), Some(reason)) => AttemptError::Other(reason),
                (error, _) => error,
            })?;
            is_stateless = !facts.has_session();
            (service, None)
        }
    };
    let peer = service.peer().clone();
    let closed = CancellationToken::new();
    Ok(Connection {
        peer,
        service: Some(Service::new(service, closed.clone())).into(),
        closed,
        listeners,
        program,
        message_bytes,
        too_long,
        is_stateless,
        tools: server.tools.clone(),
    })
}

async fn finish_by<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T, AttemptError>>,
) -> Result<T, AttemptError> {
    let time = deadline.saturating_duration_since(Instant::now());
    timeout_at(deadline.into(), work)
        .await
        .unwrap_or_else(|_| Err(AttemptError::Other(timeout_message(time))))
}

/// Describes that a server did not answer within a time.
pub(super) fn timeout_message(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("no answer within {} ms", time.as_millis())
    } else {
        format!("no answer within {:.0} s", time.as_secs_f64())
    }
}

fn too_long_message(message_bytes: usize) -> String {
    format!("it sent a message of more than {message_bytes} bytes")
}

async fn shake_hands<T, E, A, H>(
    transport: T,
    handshake: Handshake,
    handler: &H,
    listeners: &UpdateListeners,
) -> Result<RunningService<RoleClient, H>, AttemptError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: Error + Send + Sync + 'static,
    H: ClientHandler + Clone,
{
    let lifecycle = match handshake {
        Handshake::NewestFirst => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        },
        Handshake::LegacyFirst => ClientLifecycleMode::Initialize,
    };
    let transport = Tap::new(transport.into_transport(), listeners.clone());
    serve_client_with_lifecycle(handler.clone(), transport, lifecycle)
        .await
        .map_err(|error| match error {
            ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. } => AttemptError::LateAnswer,
            ClientInitializeError::ConnectionClosed(_) => AttemptError::Ended,
            // A program may end before it has read the first message.
            ClientInitializeError::TransportError { error, .. } if is_closed(&error) => {
                AttemptError::Ended
            }
            // Over HTTP the status alone can express a refusal.
            ClientInitializeError::TransportError { error, .. } => {
                AttemptError::Refused(transport_text(&error))
            }
            refused @ ClientInitializeError::JsonRpcError(_) => {
                AttemptError::Refused(error_chain_text(&refused))
            }
            other => AttemptError::Other(error_chain_text(&other)),
        })
}

fn http(
    url: &str,
    headers: &BTreeMap<String, String>,
    credentials: Option<&ClientCredentials>,
    message_bytes: usize,
    facts: Arc<HttpFacts>,
) -> Result<StreamableHttpClientTransport<HttpClient>, String> {
    let mut header_map = HashMap::new();
    for (name, value) in headers {
        let shown_name = marked(name, MAX_MESSAGE_CHARS);
        let name: reqwest::header::HeaderName = name
            .parse()
            .map_err(|_| format!("{shown_name:?} is not a valid header name"))?;
        let mut value: reqwest::header::HeaderValue = value
            .parse()
            .map_err(|_| format!("the value of the header {shown_name:?} is not valid"))?;
        value.set_sensitive(true);
        header_map.insert(name, value);
    }
    let tokens = match credentials {
        Some(credentials) => Some(token::ServerTokens::new(url, credentials)?),
        None => None,
    };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(header_map);
    config.max_json_response_size = message_bytes;
    config.max_sse_event_size = message_bytes;
    let client = HttpClient::new(url, tokens, facts)?;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}
