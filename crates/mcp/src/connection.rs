//! A connection to a server: it is started or called, hands are shaken, and all that was started
//! ends with it.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use rmcp::model::{ClientRequest, GetExtensions, ProtocolVersion, ServerResult};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer, PeerRequestOptions,
    RequestHandle, RunningService, RunningServiceCancellationToken, serve_client_with_lifecycle,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use rmcp::{ClientHandler, RoleClient, ServiceError};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

use super::client::Limits;
use super::tap::{Heard, Hearer, Said, Tap};
use super::token;
use picktools::excerpt::marked;
use picktools_import::mcp::{ClientCredentials, Server, Way};

/// A variable of the caller's environment.
pub type Variable<'a> = dyn Fn(&str) -> Option<OsString> + Sync + 'a;

/// Variables of the caller's environment that a program is started with; others stand in its
/// configuration.
///
/// Those that the protocol's own clients pass on (`modelcontextprotocol.io/docs/sdk`), and what
/// tells of language, time and temporary files.
const INHERITED: [&str; 24] = [
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
];
/// How long a program may take to end by itself once its input is closed.
const GRACE: Duration = Duration::from_secs(1);
/// How much is kept of what a program writes to standard error.
const MAX_STDERR_BYTES: usize = 4 << 10;
/// How many lines of it are told, and how much of each.
const MAX_STDERR_LINES: usize = 5;
/// The most characters that are told of what a server says, and of a line.
const MAX_MESSAGE_CHARS: usize = 300;

/// How long the last words of a program are waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[error("{message}{}", Tail(.stderr))]
pub struct Unreachable {
    /// What went wrong.
    pub message: String,
    /// The last lines that it wrote to standard error.
    pub stderr: Vec<String>,
}

/// Lines that a server wrote to standard error, behind a message.
pub struct Tail<'a>(pub &'a [String]);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// What asks a server for tools and calls, and answers nothing that it asks: neither a person nor a
/// model is there.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl ClientHandler for Silent {}

/// Hears that the tools of a server changed, for [`Connection::open`]; answers nothing that it
/// asks.
///
/// Servers that speak 2026-07-28 say so only to those who subscribe, which this does not: they are
/// to be asked now and then, or shaken hands with as [`Handshake::KnownFirst`].
#[derive(Debug, Clone, Default)]
pub struct ToolChanges(Arc<Notify>);

impl ToolChanges {
    /// Waits until they changed, since this was last waited for.
    pub async fn changed(&self) {
        self.0.notified().await;
    }
}

impl ClientHandler for ToolChanges {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.notify_one();
    }
}

/// How hands are shaken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handshake {
    /// The newest revision is tried first; a server that does not know it is shaken hands with as
    /// it knows it.
    #[default]
    NewestFirst,
    /// As every server knows it that is older than 2026-07-28, and as the newest revision has it
    /// where one refuses that. Before 2026-07-28 servers ask their clients things during a call,
    /// and say unasked what has changed.
    KnownFirst,
}

/// A server with which hands were shaken. Dropped, it is killed, with all that it started. Its
/// messages are those of the SDK, `rmcp`.
pub struct Connection {
    peer: Peer<RoleClient>,
    service: tokio::sync::Mutex<Option<Service>>,
    heard: Heard,
    program: Option<tokio::sync::Mutex<Program>>,
    message_bytes: usize,
    too_long: Arc<AtomicBool>,
}

impl Connection {
    /// Starts or calls a server, which must have shaken hands by the deadline. `handler` answers
    /// what it asks, and hears what it says unasked; of progress hears who [began](Self::begin) the
    /// request. A program gets of the caller's `environment` what tells of user, language and
    /// temporary files.
    ///
    /// # Errors
    ///
    /// [`Unreachable`] when it does not start, does not answer, or says what cannot be understood.
    pub async fn open(
        server: &Server,
        environment: &Variable<'_>,
        deadline: Instant,
        limits: &Limits,
        handshake: Handshake,
        handler: impl ClientHandler + Clone,
    ) -> Result<Self, Unreachable> {
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
        let other = match (&opened, handshake) {
            (Err(Failure::LateAnswer), Handshake::NewestFirst) => Some(Handshake::KnownFirst),
            (Err(Failure::Refused(_)), Handshake::KnownFirst) => Some(Handshake::NewestFirst),
            _ => None,
        };
        if let Some(other) = other {
            opened = attempt(
                server,
                environment,
                other,
                deadline,
                limits,
                &handler,
                &mut stderr,
            )
            .await;
        }
        opened.map_err(|failure| Unreachable {
            message: failure.message(),
            stderr,
        })
    }

    /// Returns the other side, to be asked and told things.
    pub fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// Returns the revision of the protocol that is spoken.
    pub fn protocol(&self) -> String {
        self.peer
            .peer_info()
            .map(|info| info.protocol_version.to_string())
            .unwrap_or_default()
    }

    /// Returns `true` if it ended, or nobody serves it any longer.
    pub fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Sends a request. `hear` is told what the server says during it, in its order, and not after
    /// the answer.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] when it cannot be sent.
    pub async fn begin(
        &self,
        mut request: ClientRequest,
        options: PeerRequestOptions,
        hear: impl Fn(Said) + Send + Sync + 'static,
    ) -> Result<Begun, ServiceError> {
        request.extensions_mut().insert(Hearer::new(hear));
        let handle = self.peer.send_cancellable_request(request, options).await?;
        Ok(Begun {
            handle: Some(handle),
            heard: self.heard.clone(),
        })
    }

    /// Says why a request failed.
    pub fn said(&self, error: &ServiceError) -> String {
        match error {
            ServiceError::TransportClosed if self.too_long.load(Ordering::Relaxed) => {
                too_long(self.message_bytes)
            }
            ServiceError::TransportClosed => "it ended, or closed the connection".to_owned(),
            other => said(other),
        }
    }

    /// Ends it, and returns the last lines that the server wrote to standard error.
    pub async fn end(&self) -> Vec<String> {
        if let Some(mut service) = self.service.lock().await.take() {
            service.stop();
            // How it ends changes nothing of what was read.
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

/// What serves a connection, whoever answers on its behalf.
struct Service {
    stop: Option<RunningServiceCancellationToken>,
    ended: JoinHandle<()>,
}

impl Service {
    fn new<H: ClientHandler>(service: RunningService<RoleClient, H>) -> Self {
        let stop = Some(service.cancellation_token());
        let ended = tokio::spawn(async move {
            // Why it ended is told to whoever waits for an answer.
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

/// A request that is under way. Dropped, the server is told that nobody waits for the answer any
/// longer.
#[derive(Debug)]
pub struct Begun {
    handle: Option<RequestHandle<RoleClient>>,
    heard: Heard,
}

impl Begun {
    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] when the server says that it cannot, or is gone.
    pub async fn answer(mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else {
            return Err(ServiceError::TransportClosed);
        };
        let answer = (&mut handle.rx).await;
        if let Some(handle) = self.handle.take() {
            self.heard.forget(&handle.progress_token);
        }
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        self.heard.forget(&handle.progress_token);
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(handle.cancel(Some("the call was cancelled".to_owned()))));
        }
    }
}

/// Why an attempt failed.
enum Failure {
    /// The server answered the first handshake after the second was begun: it took more than ten
    /// seconds to start.
    LateAnswer,
    /// The server answered that it does not shake hands so.
    Refused(String),
    Other(String),
}

impl Failure {
    fn message(self) -> String {
        match self {
            Self::LateAnswer => "it answered a handshake too late".to_owned(),
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
) -> Result<Connection, Failure> {
    let heard = Heard::default();
    let too_long = Arc::<AtomicBool>::default();
    let message_bytes = limits.message_bytes;
    let (service, program) = match &server.way {
        Way::Stdio { .. } => {
            let mut program = Program::start(&server.way, environment).map_err(Failure::Other)?;
            let shaken = match program.pipes() {
                Some((output, input)) => {
                    let output = Lines {
                        output,
                        line: 0,
                        most: message_bytes,
                        too_long: Arc::clone(&too_long),
                    };
                    within(
                        deadline,
                        limits,
                        shake((output, input), handshake, handler, &heard),
                    )
                    .await
                }
                None => Err(Failure::Other(
                    "its input and output cannot be reached".to_owned(),
                )),
            };
            match shaken {
                Ok(service) => (service, Some(tokio::sync::Mutex::new(program))),
                Err(failure) => {
                    program.stop().await;
                    *stderr = program.last_lines();
                    return Err(match failure {
                        Failure::Other(_) | Failure::Refused(_)
                            if too_long.load(Ordering::Relaxed) =>
                        {
                            Failure::Other(self::too_long(message_bytes))
                        }
                        failure => failure,
                    });
                }
            }
        }
        Way::Http {
            url,
            headers,
            credentials,
        } => {
            let transport =
                http(url, headers, credentials.as_ref(), message_bytes).map_err(Failure::Other)?;
            (
                within(
                    deadline,
                    limits,
                    shake(transport, handshake, handler, &heard),
                )
                .await?,
                None,
            )
        }
    };
    let peer = service.peer().clone();
    Ok(Connection {
        peer,
        service: Some(Service::new(service)).into(),
        heard,
        program,
        message_bytes,
        too_long,
    })
}

async fn within<T>(
    deadline: Instant,
    limits: &Limits,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout_at(deadline.into(), work)
        .await
        .unwrap_or_else(|_| Err(Failure::Other(late(limits))))
}

pub(super) fn late(limits: &Limits) -> String {
    format!("no answer within {:?}", limits.time)
}

fn too_long(message_bytes: usize) -> String {
    format!("it sent a message of more than {message_bytes} bytes")
}

async fn shake<T, E, A, H>(
    transport: T,
    handshake: Handshake,
    handler: &H,
    heard: &Heard,
) -> Result<RunningService<RoleClient, H>, Failure>
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
        Handshake::KnownFirst => ClientLifecycleMode::Initialize,
    };
    let transport = Tap::new(transport.into_transport(), heard.clone());
    serve_client_with_lifecycle(handler.clone(), transport, lifecycle)
        .await
        .map_err(|error| match error {
            ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. } => Failure::LateAnswer,
            // Over HTTP a refusal may be told by the status alone.
            refused @ (ClientInitializeError::JsonRpcError(_)
            | ClientInitializeError::TransportError { .. }) => Failure::Refused(said(&refused)),
            other => Failure::Other(said(&other)),
        })
}

/// An error with its causes. A server may have written any part of it.
fn said(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    marked(&text, MAX_MESSAGE_CHARS).into_owned()
}

fn http(
    url: &str,
    headers: &BTreeMap<String, String>,
    credentials: Option<&ClientCredentials>,
    message_bytes: usize,
) -> Result<StreamableHttpClientTransport<token::Client>, String> {
    let header = |(name, value): (&String, &String)| {
        let shown = marked(name, MAX_MESSAGE_CHARS);
        let name = name
            .parse()
            .map_err(|_| format!("{shown:?} is not the name of a header"))?;
        let mut value: reqwest::header::HeaderValue = value
            .parse()
            .map_err(|_| format!("the value of the header {shown:?} cannot be sent"))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    let headers: HashMap<_, _> = headers.iter().map(header).collect::<Result<_, String>>()?;
    // A server that sends its callers elsewhere would send them there with their credentials.
    let http = picktools_net::client_builder()?
        .build()
        .map_err(|error| said(&error))?;
    let tokens = credentials
        .map(|credentials| token::Tokens::new(url, credentials))
        .transpose()?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers);
    config.max_json_response_size = message_bytes;
    config.max_sse_event_size = message_bytes;
    Ok(StreamableHttpClientTransport::with_client(
        token::Client { http, tokens },
        config,
    ))
}

/// A program that was started, and everything that it starts: dropped, all of it is killed.
struct Program {
    child: Box<dyn ChildWrapper>,
    stderr: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Program {
    fn start(way: &Way, environment: &Variable<'_>) -> Result<Self, String> {
        let Way::Stdio {
            command,
            arguments,
            variables,
            folder,
        } = way
        else {
            return Err("it has no command".to_owned());
        };
        let mut program = tokio::process::Command::new(command);
        program.args(arguments).env_clear();
        program
            .envs(
                INHERITED
                    .iter()
                    .filter_map(|name| Some((name, environment(name)?))),
            )
            .envs(variables);
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
                "; install it, or give its whole path"
            } else {
                ""
            };
            format!("{command:?} cannot be started: {error}{remedy}")
        })?;
        let stderr = Arc::default();
        let reader = child
            .stderr()
            .take()
            .map(|pipe| tokio::spawn(keep_last(pipe, Arc::clone(&stderr))));
        Ok(Self {
            child,
            stderr,
            reader,
        })
    }

    fn pipes(&mut self) -> Option<(tokio::process::ChildStdout, tokio::process::ChildStdin)> {
        Some((self.child.stdout().take()?, self.child.stdin().take()?))
    }

    /// Lets it end by itself, its input being closed, and else ends it.
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

/// Reads to the end, so that a program which writes much is not held up, and keeps the last of it.
async fn keep_last(mut pipe: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; MAX_STDERR_BYTES];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..read]);
        let surplus = kept.len().saturating_sub(MAX_STDERR_BYTES);
        kept.drain(..surplus);
    }
}

/// The output of a program, which ends where a message is too long: nothing behind it can be told
/// from the rest of it.
struct Lines<R> {
    output: R,
    /// Bytes since the last end of a line.
    line: usize,
    most: usize,
    too_long: Arc<AtomicBool>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.output).poll_read(cx, buffer))?;
        for part in buffer.filled()[before..].split_inclusive(|&byte| byte == b'\n') {
            self.line += part.len();
            if self.line > self.most {
                self.too_long.store(true, Ordering::Relaxed);
                return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
            }
            if part.ends_with(b"\n") {
                self.line = 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}
