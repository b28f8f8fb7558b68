//! Asking a server for its tools.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ServerResult};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use rmcp::{RoleClient, ServiceError};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{Server, Way};
use crate::excerpt::marked;

/// A variable of the caller's environment.
pub type Variable<'a> = dyn Fn(&str) -> Option<OsString> + Sync + 'a;

/// Variables of the caller's environment that a program is started with; others stand in its configuration.
///
/// Those that the protocol's own clients pass on (`modelcontextprotocol.io/docs/sdk`), and what tells of language, time and
/// temporary files.
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

/// How long a server may take, and how much it may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For all of it: start, handshake and every page.
    pub time: Duration,
    /// Pages of its list.
    pub pages: usize,
    /// Tools.
    pub tools: usize,
    /// Bytes of one message.
    pub message_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(30), pages: 500, tools: 20_000, message_bytes: 16 << 20 }
    }
}

/// The tools of a server.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Listing {
    /// As the server sent them.
    pub tools: Vec<Value>,
    /// Why some are missing; `None` where none is.
    pub incomplete: Option<String>,
    /// The revision of the protocol that was spoken.
    pub protocol: String,
}

/// Why a server gave no tools.
#[derive(Debug, Error)]
#[error("{server}: {message}{}", Tail(.stderr))]
#[non_exhaustive]
pub struct ListError {
    /// What the configuration calls it.
    pub server: String,
    /// What went wrong.
    pub message: String,
    /// The last lines that it wrote to standard error.
    pub stderr: Vec<String>,
}

struct Tail<'a>(&'a [String]);

impl std::fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Asks a server for its tools. A program that was started for it is stopped again, with all that it started; of the
/// caller's `environment` it gets what tells of user, language and temporary files.
///
/// # Errors
///
/// [`ListError`] when not one page arrived. Where later ones are missing, [`Listing::incomplete`] says so.
pub async fn list(server: &Server, environment: &Variable<'_>, limits: &Limits) -> Result<Listing, ListError> {
    let mut listing = Listing::default();
    let mut stderr = Vec::new();
    let deadline = Instant::now() + limits.time;
    let newest = Handshake::NewestFirst;
    let mut result = attempt(server, environment, newest, deadline, limits, &mut listing, &mut stderr).await;
    if let Err(Failure::LateAnswer) = result {
        let known = Handshake::Known;
        result = attempt(server, environment, known, deadline, limits, &mut listing, &mut stderr).await;
    }
    match result.map_err(Failure::message) {
        Ok(()) => Ok(listing),
        Err(message) if !listing.tools.is_empty() => Ok(Listing { incomplete: Some(message), ..listing }),
        Err(message) => Err(ListError { server: server.name.clone(), message, stderr }),
    }
}

/// How hands are shaken.
#[derive(Clone, Copy, PartialEq)]
enum Handshake {
    /// The newest revision is tried first; a server that does not know it is shaken hands with as it knows it.
    NewestFirst,
    /// As every server knows it that is older than 2026-07-28.
    Known,
}

/// Why an attempt failed.
enum Failure {
    /// The server answered the first handshake after the second was begun: it took more than ten seconds to start.
    LateAnswer,
    Other(String),
}

impl Failure {
    fn message(self) -> String {
        match self {
            Self::LateAnswer => "it answered a handshake too late".to_owned(),
            Self::Other(message) => message,
        }
    }
}

async fn attempt(
    server: &Server,
    environment: &Variable<'_>,
    handshake: Handshake,
    deadline: Instant,
    limits: &Limits,
    listing: &mut Listing,
    stderr: &mut Vec<String>,
) -> Result<(), Failure> {
    match &server.way {
        Way::Stdio { .. } => {
            let mut program = Program::start(&server.way, environment).map_err(Failure::Other)?;
            let result = match program.pipes() {
                Some(pipes) => within(deadline, limits, converse(pipes, handshake, limits, listing)).await,
                None => Err(Failure::Other("its input and output cannot be reached".to_owned())),
            };
            program.stop().await;
            *stderr = program.last_lines();
            result
        }
        Way::Http { url, headers } => {
            let transport = http(url, headers, limits).map_err(Failure::Other)?;
            within(deadline, limits, converse(transport, handshake, limits, listing)).await
        }
    }
}

async fn within(
    deadline: Instant,
    limits: &Limits,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    match tokio::time::timeout_at(deadline.into(), work).await {
        Ok(result) => result,
        Err(_) => Err(Failure::Other(format!("no answer within {:?}", limits.time))),
    }
}

/// Shakes hands, and collects page after page.
async fn converse<T, E, A>(
    transport: T,
    handshake: Handshake,
    limits: &Limits,
    listing: &mut Listing,
) -> Result<(), Failure>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let lifecycle = match handshake {
        Handshake::NewestFirst => {
            ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None }
        }
        Handshake::Known => ClientLifecycleMode::Initialize,
    };
    let service = serve_client_with_lifecycle((), transport, lifecycle).await.map_err(|error| match error {
        ClientInitializeError::ConflictInitResponseId(..) | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            Failure::LateAnswer
        }
        other => Failure::Other(said(&other)),
    })?;
    if let Some(info) = service.peer_info() {
        listing.protocol = info.protocol_version.to_string();
    }
    let result = pages(&service, limits, listing).await;
    // How it ends changes nothing of what was read.
    drop(service.cancel().await);
    result.map_err(Failure::Other)
}

async fn pages(service: &RunningService<RoleClient, ()>, limits: &Limits, listing: &mut Listing) -> Result<(), String> {
    let mut cursor = None;
    for _ in 0..limits.pages {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let request =
            ListToolsRequest { method: Default::default(), params: Some(params), extensions: Default::default() };
        let answer = service.send_request(ClientRequest::ListToolsRequest(request)).await;
        let page = match answer.map_err(|error| service_error(&error))? {
            ServerResult::ListToolsResult(page) => json!(page),
            // One tool that is not as the protocol has it would lose the page.
            ServerResult::CustomResult(page) if page.0.get("tools").is_some_and(Value::is_array) => page.0,
            _ => return Err("its answer is no list of tools".to_owned()),
        };
        let tools = page.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
        let room = limits.tools - listing.tools.len();
        let too_many = tools.len() > room;
        listing.tools.extend(tools.into_iter().take(room));
        if too_many {
            return Err(format!("it has more than {} tools", limits.tools));
        }
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(()),
        }
    }
    Err(format!("its list has more than {} pages", limits.pages))
}

fn service_error(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportClosed => "it ended, or closed the connection".to_owned(),
        other => said(other),
    }
}

/// An error with its causes. A server may have written any part of it.
fn said(error: &dyn std::error::Error) -> String {
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
    limits: &Limits,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let header = |(name, value): (&String, &String)| {
        let shown = marked(name, MAX_MESSAGE_CHARS);
        let name = name.parse().map_err(|_| format!("{shown:?} is not the name of a header"))?;
        let mut value: reqwest::header::HeaderValue =
            value.parse().map_err(|_| format!("the value of the header {shown:?} cannot be sent"))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    let headers: HashMap<_, _> = headers.iter().map(header).collect::<Result<_, String>>()?;
    // A server that sends its callers elsewhere would send them there with their credentials.
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    let client = client.map_err(|error| said(&error))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers);
    config.max_json_response_size = limits.message_bytes;
    config.max_sse_event_size = limits.message_bytes;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// A program that was started, and everything that it starts: dropped, all of it is killed.
struct Program {
    child: Box<dyn ChildWrapper>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl Program {
    fn start(way: &Way, environment: &Variable<'_>) -> Result<Self, String> {
        let Way::Stdio { command, arguments, variables, folder } = way else {
            return Err("it has no command".to_owned());
        };
        let mut program = tokio::process::Command::new(command);
        program.args(arguments).env_clear();
        program.envs(INHERITED.iter().filter_map(|name| Some((name, environment(name)?)))).envs(variables);
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
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
            let remedy =
                if error.kind() == std::io::ErrorKind::NotFound { "; install it, or give its whole path" } else { "" };
            format!("{command:?} cannot be started: {error}{remedy}")
        })?;
        let stderr = Arc::default();
        if let Some(pipe) = child.stderr().take() {
            tokio::spawn(keep_last(pipe, Arc::clone(&stderr)));
        }
        Ok(Self { child, stderr })
    }

    fn pipes(&mut self) -> Option<(tokio::process::ChildStdout, tokio::process::ChildStdin)> {
        Some((self.child.stdout().take()?, self.child.stdin().take()?))
    }

    /// Lets it end by itself, its input being closed, and else ends it.
    async fn stop(&mut self) {
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            self.kill();
            drop(tokio::time::timeout(GRACE, self.child.wait()).await);
        }
    }

    fn kill(&mut self) {
        // It may have ended already.
        drop(self.child.start_kill());
    }

    fn last_lines(&self) -> Vec<String> {
        let bytes = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(MAX_STDERR_LINES)..];
        last.iter().map(|line| marked(line, MAX_MESSAGE_CHARS).into_owned()).collect()
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
