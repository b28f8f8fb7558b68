//! A connection to a server: start or connect, handshake, requests and shutdown. Closing it also
//! ends every process that it started.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use rmcp::model::{ClientRequest, GetExtensions, ProtocolVersion, ServerResult};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer, PeerRequestOptions,
    RequestHandle, RunningService, RunningServiceCancellationToken, serve_client_with_lifecycle,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceError};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

use super::client::Limits;
use super::failure::{CLOSED, MAX_MESSAGE_CHARS, error_chain_text, is_closed, transport_text};
use super::http::{HttpClient, LastFailure};
use super::reading::Lines;
use super::tap::{RequestUpdate, Tap, UpdateListener, UpdateListeners};
use super::token;
use picktools::excerpt::marked;
use picktools_import::mcp::{ClientCredentials, Server, ServerTransport, ToolFilter};

/// A variable of the caller's environment.
pub type Variable<'a> = dyn Fn(&str) -> Option<OsString> + Sync + 'a;

/// Variables of the caller's environment that a program inherits; others come from its
/// configuration.
///
/// These are the ones that the protocol's own clients pass on (`modelcontextprotocol.io/docs/sdk`),
/// those for language, time, temporary and personal files, and those without which a program cannot
/// reach the network of a company, a container engine or a key agent.
const INHERITED: [&str; 46] = [
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "SSH_AUTH_SOCK",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
];
/// Time for a program to exit by itself after its input is closed.
const GRACE: Duration = Duration::from_secs(1);
/// The kept beginning of a server's instructions, in bytes.
const MAX_INSTRUCTION_BYTES: usize = 16 << 10;
/// The kept end of a program's standard error, in bytes.
const MAX_STDERR_BYTES: usize = 4 << 10;
/// The reported number of lines of standard error.
const MAX_STDERR_LINES: usize = 5;

/// Time to wait for the rest of standard error after a program exits.
const LAST_WORDS: Duration = Duration::from_millis(200);

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

/// The order in which protocol revisions are tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handshake {
    /// Tries the newest revision first, and falls back to the one that the server knows.
    #[default]
    NewestFirst,
    /// Tries the handshake of revisions before 2026-07-28 first, and the newest one if the server
    /// refuses it. With the older revisions a server can send requests during a call and report
    /// changes without a subscription.
    LegacyFirst,
}

/// A connection after a successful handshake. Dropping it kills the server's process, with all its
/// child processes. The message types come from the SDK, `rmcp`.
pub struct Connection {
    peer: Peer<RoleClient>,
    service: tokio::sync::Mutex<Option<Service>>,
    listeners: UpdateListeners,
    program: Option<tokio::sync::Mutex<Program>>,
    message_bytes: usize,
    too_long: Arc<AtomicBool>,
    /// The tools that the server's configuration allows.
    pub(crate) tools: ToolFilter,
}

impl Connection {
    /// Starts a server or connects to it; the handshake must finish by the deadline.
    ///
    /// `handler` answers the server's requests and receives its notifications, except progress,
    /// which the caller of [`begin`](Self::begin) receives. From the caller's `environment` a
    /// program gets only the variables for user, language, files, network, container engine and key
    /// agent.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if the server does not start, does not answer, or sends an invalid message.
    pub async fn open(
        server: &Server,
        environment: &Variable<'_>,
        deadline: Instant,
        limits: &Limits,
        handshake: Handshake,
        handler: impl ClientHandler + Clone,
    ) -> Result<Self, ConnectError> {
        let mut stderr = Vec::new();
        let mut opened = attempt(
            server,
            environment,
            handshake,
            deadline,
            limits,
            &handler,
            &mut stderr,
        )
        .await;
        let fallback = match (&opened, handshake) {
            (Err(AttemptError::LateAnswer | AttemptError::Ended), Handshake::NewestFirst) => {
                Some(Handshake::LegacyFirst)
            }
            (Err(AttemptError::Refused(_)), Handshake::LegacyFirst) => Some(Handshake::NewestFirst),
            _ => None,
        };
        if let Some(fallback) = fallback {
            opened = attempt(
                server,
                environment,
                fallback,
                deadline,
                limits,
                &handler,
                &mut stderr,
            )
            .await;
        }
        opened.map_err(|failure| ConnectError {
            message: failure.message(),
            stderr,
        })
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
    fn new<H: ClientHandler>(service: RunningService<RoleClient, H>) -> Self {
        let stop = Some(service.cancellation_token());
        let ended = tokio::spawn(async move {
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
    environment: &Variable<'_>,
    handshake: Handshake,
    deadline: Instant,
    limits: &Limits,
    handler: &(impl ClientHandler + Clone),
    stderr: &mut Vec<String>,
) -> Result<Connection, AttemptError> {
    let listeners = UpdateListeners::default();
    let too_long = Arc::<AtomicBool>::default();
    let message_bytes = limits.message_bytes;
    let (service, program) = match &server.transport {
        ServerTransport::Stdio { .. } => {
            let mut program =
                Program::start(&server.transport, environment).map_err(AttemptError::Other)?;
            let result = match program.pipes() {
                Some((output, input)) => {
                    let output = Lines::new(output, message_bytes, Arc::clone(&too_long));
                    finish_by(
                        deadline,
                        limits,
                        shake_hands((output, input), handshake, handler, &listeners),
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
            let last_failure = LastFailure::default();
            let transport = http(
                url,
                headers,
                credentials.as_ref(),
                message_bytes,
                &last_failure,
            )
            .map_err(AttemptError::Other)?;
            let service = finish_by(
                deadline,
                limits,
                shake_hands(transport, handshake, handler, &listeners),
            )
            .await
            .map_err(|error| match (error, last_failure.take()) {
                (AttemptError::Refused(_), Some(reason)) => AttemptError::Refused(reason),
                (AttemptError::Other(_), Some(reason)) => AttemptError::Other(reason),
                (error, _) => error,
            })?;
            (service, None)
        }
    };
    let peer = service.peer().clone();
    Ok(Connection {
        peer,
        service: Some(Service::new(service)).into(),
        listeners,
        program,
        message_bytes,
        too_long,
        tools: server.tools.clone(),
    })
}

async fn finish_by<T>(
    deadline: Instant,
    limits: &Limits,
    work: impl Future<Output = Result<T, AttemptError>>,
) -> Result<T, AttemptError> {
    timeout_at(deadline.into(), work)
        .await
        .unwrap_or_else(|_| Err(AttemptError::Other(timeout_message(limits))))
}

pub(super) fn timeout_message(limits: &Limits) -> String {
    format!("no answer within {:?}", limits.time)
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
    last_failure: &LastFailure,
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
    let client = HttpClient::new(tokens, last_failure.clone())?;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// A started program with all its child processes. Dropping it kills them.
struct Program {
    child: Box<dyn ChildWrapper>,
    stderr: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Program {
    fn start(transport: &ServerTransport, environment: &Variable<'_>) -> Result<Self, String> {
        let ServerTransport::Stdio {
            command,
            arguments,
            variables,
            folder,
        } = transport
        else {
            return Err("it has no command".to_owned());
        };
        let mut program = tokio::process::Command::new(command);
        program.args(arguments).env_clear();
        for name in INHERITED {
            if let Some(value) = environment(name) {
                program.env(name, value);
            }
        }
        program.envs(variables);
        program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(folder) = folder {
            program.current_dir(folder);
        }
        let mut wrap = CommandWrap::from(program);
        #[cfg(unix)]
        wrap.wrap(process_wrap::tokio::ProcessGroup::leader());
        #[cfg(windows)]
        wrap.wrap(process_wrap::tokio::JobObject);
        let mut child = wrap.spawn().map_err(|error| {
            let command = marked(command, MAX_MESSAGE_CHARS);
            let remedy = if error.kind() == std::io::ErrorKind::NotFound {
                "; install it, or give its full path"
            } else {
                ""
            };
            format!("{command:?} cannot be started: {error}{remedy}")
        })?;
        let stderr = Arc::default();
        let mut reader = None;
        if let Some(pipe) = child.stderr().take() {
            reader = Some(tokio::spawn(collect_tail(pipe, Arc::clone(&stderr))));
        }
        Ok(Self {
            child,
            stderr,
            reader,
        })
    }

    fn pipes(&mut self) -> Option<(tokio::process::ChildStdout, tokio::process::ChildStdin)> {
        Some((self.child.stdout().take()?, self.child.stdin().take()?))
    }

    /// Waits for the program to exit after its input is closed, and kills it otherwise.
    async fn stop(&mut self) {
        if timeout(GRACE, self.child.wait()).await.is_err() {
            self.kill();
            drop(timeout(GRACE, self.child.wait()).await);
        }
        if let Some(reader) = self.reader.take() {
            drop(timeout(LAST_WORDS, reader).await);
        }
    }

    fn kill(&mut self) {
        // It may have ended already.
        drop(self.child.start_kill());
    }

    fn last_lines(&self) -> Vec<String> {
        let bytes = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(MAX_STDERR_LINES)..];
        last.iter()
            .map(|line| marked(line, MAX_MESSAGE_CHARS).into_owned())
            .collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads to the end, so that a program with much output does not block, and keeps only the last
/// bytes.
async fn collect_tail(mut pipe: impl AsyncRead + Unpin, tail: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; MAX_STDERR_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&buffer[..count]);
        let surplus = tail.len().saturating_sub(MAX_STDERR_BYTES);
        tail.drain(..surplus);
    }
}
