//! Tools that MCP servers run.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorCode, PingRequest,
    ProgressNotificationParam, ServerResult,
};
use rmcp::service::PeerRequestOptions;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::context::Context;
use super::result::{ErrorType, ToolResult};
use super::tool::{CloseFuture, RunFuture, RunnableTool};
use super::{lock, waiting};
use picktools::catalog::Tool;
use picktools::excerpt::{MAX_NAME_CHARS, cut, marked};
use picktools_call::ValidCall;
use picktools_import::mcp::Server;
use picktools_mcp::{
    ConnectError, ConnectOptions, Connection, Handshake, HttpFailure, Limits, PendingRequest,
    RequestUpdate, SilentHandler, StderrTail, ToolListCache,
};

/// The most bytes of content in a result: its text, its data in base64, and its structured content.
const MAX_CONTENT_BYTES: usize = 1 << 20;
/// The most parts other than text in a result.
const MAX_PARTS: usize = 100;
/// The most characters of a server's error message.
const MAX_ERROR_CHARS: usize = 4_000;
/// The most characters of a server's progress message.
const MAX_PROGRESS_CHARS: usize = 300;
/// The most characters of a member that identifies a part, such as its URI.
const MAX_MEMBER_CHARS: usize = 2_000;
/// The time to wait for the last output of a server that ended.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// The time to wait for the answer to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(3);

type Environment = dyn Fn(&str) -> Option<OsString> + Send + Sync;

/// An MCP server from a configuration, which runs tools.
///
/// The first call of a tool opens the connection, and all calls share it. A later call opens it
/// again if the server has ended, or if it left a call and a ping unanswered. Dropping the value
/// kills the server with all its child processes.
///
/// ```no_run
/// use std::sync::Arc;
/// use picktools::Tool;
/// use picktools_import::mcp::{Server, ServerTransport, ToolFilter};
/// use picktools_runtime::{McpServer, McpTool};
///
/// let transport = ServerTransport::Http {
///     url: "https://wiki.example/mcp".to_owned(),
///     headers: Default::default(),
///     credentials: None,
/// };
/// let server = Arc::new(McpServer::new(Server {
///     name: "wiki".to_owned(),
///     transport,
///     tools: ToolFilter::default(),
///     call_timeout: None,
///     scope: None,
/// }));
/// let search = McpTool::new(Tool::without_arguments("search", "Searches the wiki"), server);
/// ```
pub struct McpServer {
    server: Server,
    environment: Box<Environment>,
    limits: Limits,
    cache: Option<ToolListCache>,
    connection: Mutex<Option<Arc<Connection>>>,
    /// The calls that wait for an answer.
    waiting: std::sync::Mutex<Vec<Context>>,
    /// `true` if a call was abandoned since the last check of the connection.
    has_abandoned_call: AtomicBool,
}

impl McpServer {
    /// Makes a server without starting it.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            environment: Box::new(|_| None),
            limits: Limits::default(),
            cache: None,
            connection: Mutex::default(),
            waiting: std::sync::Mutex::default(),
            has_abandoned_call: AtomicBool::new(false),
        }
    }

    /// Sets the source of the environment variables that programs inherit. A server program gets
    /// these and the variables of its configuration, and no others.
    #[must_use]
    pub fn environment(
        self,
        variable: impl Fn(&str) -> Option<OsString> + Send + Sync + 'static,
    ) -> Self {
        Self {
            environment: Box::new(variable),
            ..self
        }
    }

    /// Sets the time limit of start and handshake, and the size limit of a message.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets the cache that remembers which handshake worked with the server.
    #[must_use]
    pub fn cache(self, cache: ToolListCache) -> Self {
        Self {
            cache: Some(cache),
            ..self
        }
    }

    /// Returns the name of the server in the configuration.
    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// Shuts the server down: closes its input, and kills it if it does not end within a second.
    pub async fn end(&self) {
        let connection = self.connection.lock().await.take();
        if let Some(connection) = connection {
            connection.end().await;
        }
    }

    /// Returns the open connection, or opens a new one.
    async fn connection(&self, deadline: Instant) -> Result<Arc<Connection>, ConnectError> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = &*current
            && !connection.is_closed()
        {
            // A server that left a call unanswered may have lost the session, or may hang.
            if !self.take_abandoned_call() || answers_ping(connection).await {
                return Ok(Arc::clone(connection));
            }
        }
        // The old connection ends before the new one opens.
        *current = None;
        let deadline = deadline.min(Instant::now() + self.limits.time);
        let options = ConnectOptions {
            environment: &*self.environment,
            deadline,
            limits: &self.limits,
            handshake: Handshake::NewestFirst,
            cache: self.cache.as_ref(),
        };
        let connection = Connection::open(&self.server, &options, SilentHandler).await?;
        let connection = Arc::new(connection);
        *current = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Returns `true` if a call was abandoned since the last use of this method, and resets the
    /// flag. A cancelled call counts at once, although it drops its future later.
    fn take_abandoned_call(&self) -> bool {
        self.has_abandoned_call.swap(false, Ordering::Relaxed)
            || lock(&self.waiting).iter().any(Context::is_cancelled)
    }

    /// Drops a connection that failed, and returns the last lines of the server's error output.
    async fn drop_connection(&self, failed: &Arc<Connection>) -> Vec<String> {
        {
            let mut current = self.connection.lock().await;
            if current
                .as_ref()
                .is_some_and(|connection| Arc::ptr_eq(connection, failed))
            {
                *current = None;
            }
        }
        timeout(END_TIMEOUT, failed.end()).await.unwrap_or_default()
    }

    /// Returns the description of the server for messages.
    fn describe(&self) -> String {
        format!(
            "the MCP server {:?}",
            marked(&self.server.name, MAX_NAME_CHARS)
        )
    }

    fn failure(&self, message: &str, stderr: &[String]) -> ToolResult {
        let message = format!("{}: {message}{}", self.describe(), StderrTail(stderr));
        ToolResult::failure(ErrorType::System, message)
    }

    async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        context: &Context,
    ) -> ToolResult {
        let connection = match self.connection(context.deadline()).await {
            Ok(connection) => connection,
            Err(ConnectError { message, stderr }) => {
                return self
                    .failure(&message, &stderr)
                    .suggest("Check that the server starts on its own.");
            }
        };
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = CallToolRequest::new(params);
        let progress_context = context.clone();
        let on_update = move |update| {
            if let RequestUpdate::Progress(progress) = update {
                progress_context.emit_output_chunk(&format_progress(&progress));
            }
        };
        let options = PeerRequestOptions::no_options();
        let answer = match connection
            .begin(ClientRequest::CallToolRequest(request), options, on_update)
            .await
        {
            Ok(pending) => OutstandingCall::new(self, context).answer(pending).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(answer) => result_from_answer(answer),
            Err(ServiceError::McpError(error)) => {
                let kind = match error.code {
                    ErrorCode::INVALID_PARAMS => ErrorType::Validation,
                    _ => ErrorType::System,
                };
                let result = ToolResult::failure(
                    kind,
                    format!(
                        "{}: {}",
                        self.describe(),
                        marked(&error.message, MAX_ERROR_CHARS)
                    ),
                );
                match HttpFailure::of(&error) {
                    Some(failure) if failure.is_busy() => {
                        let seconds = failure.retry_after.map_or(5, |time| time.as_secs());
                        result.suggest(format!(
                            "The call had no effect. Call the tool again after {seconds} s."
                        ))
                    }
                    _ => result,
                }
            }
            Err(error) => {
                let stderr = self.drop_connection(&connection).await;
                self.failure(&connection.describe_error(&error), &stderr)
                    .suggest("Call the tool again; the server is then restarted.")
            }
        }
    }
}

/// Returns `true` if a server answers a ping. An error response is an answer too.
async fn answers_ping(connection: &Connection) -> bool {
    let ping = connection
        .peer()
        .send_request(ClientRequest::PingRequest(PingRequest::default()));
    matches!(
        timeout(PING_TIMEOUT, ping).await,
        Ok(Ok(_) | Err(ServiceError::McpError(_)))
    )
}

/// Formats a progress notification as a line.
fn format_progress(progress: &ProgressNotificationParam) -> String {
    let ProgressNotificationParam {
        progress,
        total,
        message,
        ..
    } = progress;
    let mut line = progress.to_string();
    if let Some(total) = total {
        line.push_str(&format!(" of {total}"));
    }
    if let Some(text) = message {
        line.push_str(&format!(": {}", marked(text, MAX_PROGRESS_CHARS)));
    }
    line.push('\n');
    line
}

/// A call that waits for its answer.
struct OutstandingCall<'a> {
    server: &'a McpServer,
    context: &'a Context,
    answered: bool,
}

impl<'a> OutstandingCall<'a> {
    fn new(server: &'a McpServer, context: &'a Context) -> Self {
        lock(&server.waiting).push(context.clone());
        Self {
            server,
            context,
            answered: false,
        }
    }

    async fn answer(mut self, pending: PendingRequest) -> Result<ServerResult, ServiceError> {
        let answer = pending.answer().await;
        self.answered = true;
        answer
    }
}

impl Drop for OutstandingCall<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.server
                .has_abandoned_call
                .store(true, Ordering::Relaxed);
        }
        lock(&self.server.waiting)
            .retain(|waiting| !Arc::ptr_eq(&waiting.output, &self.context.output));
    }
}

/// A tool of an MCP server.
///
/// Its result has the fields `text` (the texts of the answer), `structured` (the structured
/// content), and `parts` (all other parts, with media type and size). An answer that the server
/// marks as an error is a `user_error`, because the model can correct its call.
pub struct McpTool {
    definition: Tool,
    server: Arc<McpServer>,
    name: String,
}

impl McpTool {
    /// Makes a tool that has the same name in the definition and on the server.
    pub fn new(definition: Tool, server: Arc<McpServer>) -> Self {
        let name = definition.name.clone();
        Self {
            definition,
            server,
            name,
        }
    }

    /// Sets the name of the tool on the server, if it differs from the definition.
    #[must_use]
    pub fn with_server_name(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }
}

impl RunnableTool for McpTool {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move {
            let arguments = call.arguments().as_object().cloned().unwrap_or_default();
            waiting::report_while(
                context,
                &self.server.describe(),
                self.server.call(&self.name, arguments, context),
            )
            .await
        })
    }

    fn close(&self) -> CloseFuture<'_> {
        Box::pin(self.server.end())
    }
}

/// Converts the answer of a server to a result.
fn result_from_answer(answer: ServerResult) -> ToolResult {
    let value = match answer {
        ServerResult::CallToolResult(result) => json!(result),
        // An answer with one malformed part arrives here; its other parts are still used.
        ServerResult::CustomResult(result)
            if result.0.get("content").is_some_and(Value::is_array) =>
        {
            result.0
        }
        ServerResult::EmptyResult(_) => return ToolResult::success(),
        ServerResult::InputRequiredResult(_) => {
            return ToolResult::failure(
                ErrorType::System,
                "the server asks for more input, which cannot be given here",
            );
        }
        _ => {
            return ToolResult::failure(
                ErrorType::System,
                "the server's answer is not a tool result",
            );
        }
    };
    let mut room = MAX_CONTENT_BYTES;
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    if let Some(Value::Array(content)) = value.get("content") {
        for part in content {
            match part_text(part) {
                Some(text) => texts.push(text),
                None => others.push(part),
            }
        }
    }
    let mut text = texts.join("\n");
    let structured = match value.get("structuredContent") {
        None | Some(Value::Null) => None,
        structured => structured,
    };
    // Servers repeat structured content as text for clients that do not support it.
    if structured.is_some_and(|structured| {
        serde_json::from_str(&text).is_ok_and(|parsed: Value| parsed == *structured)
    }) {
        text.clear();
    }
    let is_error = value.get("isError") == Some(&Value::Bool(true));
    let mut result = match is_error {
        true if text.trim().is_empty() => {
            ToolResult::failure(ErrorType::User, "the tool failed without an error message")
        }
        true => ToolResult::failure(ErrorType::User, cut(&text, MAX_ERROR_CHARS)),
        false if text.is_empty() => ToolResult::success(),
        false => {
            let total_bytes = text.len();
            text.truncate(text.floor_char_boundary(room));
            room -= text.len();
            let cut_bytes = total_bytes - text.len();
            let result = ToolResult::success().field("text", text);
            if cut_bytes > 0 {
                result.field("text_left_out", format!("{cut_bytes} bytes"))
            } else {
                result
            }
        }
    };
    if let Some(structured) = structured {
        result = match picktools_call::size(structured, room) {
            Some(bytes) if bytes <= room => {
                room -= bytes;
                result.field("structured", structured.clone())
            }
            _ => result.field("structured_left_out", "it is too large"),
        };
    }
    if !others.is_empty() {
        let mut parts = Vec::new();
        for part in others.iter().take(MAX_PARTS) {
            parts.push(describe_part(part, &mut room));
        }
        result = result.field("parts", parts);
        if others.len() > MAX_PARTS {
            result = result.field("parts_left_out", others.len() - MAX_PARTS);
        }
    }
    result
}

fn part_text(part: &Value) -> Option<&str> {
    if part.get("type")?.as_str()? == "text" {
        part.get("text")?.as_str()
    } else {
        None
    }
}

/// Describes a part of an answer that is not text. The data is included if it fits into `room`.
fn describe_part(part: &Value, room: &mut usize) -> Value {
    let mut description = Map::new();
    let holder = part.get("resource").unwrap_or(part);
    let part_type = match part.get("type") {
        Some(Value::String(name)) => cut(name, MAX_NAME_CHARS).into(),
        _ => Value::Null,
    };
    description.insert("type".to_owned(), part_type);
    for (key, name) in [
        ("uri", "uri"),
        ("name", "name"),
        ("title", "title"),
        ("mimeType", "mime_type"),
    ] {
        if let Some(Value::String(value)) = holder.get(key) {
            description.insert(name.to_owned(), cut(value, MAX_MEMBER_CHARS).into());
        }
    }
    let data = [
        (part, "data", true),
        (holder, "blob", true),
        (holder, "text", false),
    ];
    let data = data
        .into_iter()
        .find_map(|(holder, key, coded)| Some((holder.get(key)?.as_str()?, key, coded)));
    if let Some((data, key, coded)) = data {
        // Base64 encodes three bytes as four characters.
        let bytes = if coded {
            data.trim_end_matches('=').len() * 3 / 4
        } else {
            data.len()
        };
        description.insert("bytes".to_owned(), bytes.into());
        if data.len() <= *room {
            *room -= data.len();
            let member = if key == "text" { "text" } else { "data" };
            description.insert(member.to_owned(), data.into());
        } else {
            description.insert("data_left_out".to_owned(), true.into());
        }
    } else if let Some(size @ Value::Number(_)) = holder.get("size") {
        description.insert("bytes".to_owned(), size.clone());
    }
    Value::Object(description)
}
