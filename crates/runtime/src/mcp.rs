//! Tools of MCP servers.

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
use picktools_mcp::{Begun, Connection, Handshake, Limits, Said, Silent, Tail, Unreachable};

/// The most bytes that are kept of what a tool gives: its text, its data in base64, and its
/// structured content.
const MAX_CONTENT_BYTES: usize = 1 << 20;
/// The most parts beside text that are told.
const MAX_PARTS: usize = 100;
/// The most characters of what a server says is wrong.
const MAX_ERROR_CHARS: usize = 4_000;
/// The most characters of what it says of how far it is.
const MAX_PROGRESS_CHARS: usize = 300;
/// How long what is known of the end of a server is waited for.
const END: Duration = Duration::from_secs(3);

/// How long a server may take to say that it is there.
const PING: Duration = Duration::from_secs(3);

type Environment = dyn Fn(&str) -> Option<OsString> + Send + Sync;

/// A server of a configuration of MCP servers, which runs tools. It is started or called when the
/// first of them is called, and again when it has ended, or left a call unanswered and answers no
/// ping either; calls share one connection. Dropped, it is killed, with all that it started.
///
/// ```no_run
/// use std::sync::Arc;
/// use picktools::Tool;
/// use picktools_import::mcp::{Server, Way};
/// use picktools_runtime::{McpServer, McpTool};
///
/// let way = Way::Http { url: "https://wiki.example/mcp".to_owned(), headers: Default::default(), credentials: None };
/// let server = Arc::new(McpServer::new(Server { name: "wiki".to_owned(), way }));
/// let search = McpTool::new(Tool::without_arguments("search", "Searches the wiki"), server);
/// ```
pub struct McpServer {
    server: Server,
    environment: Box<Environment>,
    limits: Limits,
    connection: Mutex<Option<Arc<Connection>>>,
    /// The calls that wait for an answer.
    waiting: std::sync::Mutex<Vec<Context>>,
    /// Whether a call was given up since it was last seen that the server answers.
    unanswered: AtomicBool,
}

impl McpServer {
    /// Names a server; nothing is started yet.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            environment: Box::new(|_| None),
            limits: Limits::default(),
            connection: Mutex::default(),
            waiting: std::sync::Mutex::default(),
            unanswered: AtomicBool::new(false),
        }
    }

    /// Where a program that is started finds the variables that tell of user, language and
    /// temporary files; it gets no others but those of its configuration. Without this it gets
    /// those alone.
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

    /// How long start and handshake may take, and how long a message may be.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Returns what the configuration calls it.
    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// Ends the server in good order: its input is closed, and it is killed if it does not end
    /// within a second.
    pub async fn end(&self) {
        let connection = self.connection.lock().await.take();
        if let Some(connection) = connection {
            connection.end().await;
        }
    }

    /// The connection; a new one where there is none, or none any longer.
    async fn connection(&self, deadline: Instant) -> Result<Arc<Connection>, Unreachable> {
        let mut kept = self.connection.lock().await;
        if let Some(connection) = kept.as_ref().filter(|connection| !connection.is_closed()) {
            // What left a call without an answer may have forgotten who calls, or hang.
            if !self.has_left_unanswered() || is_there(connection).await {
                return Ok(Arc::clone(connection));
            }
        }
        // What is left of the old one ends before there is a new one.
        *kept = None;
        let deadline = deadline.min(Instant::now() + self.limits.time);
        let (environment, handshake) = (&*self.environment, Handshake::NewestFirst);
        let connection = Connection::open(
            &self.server,
            environment,
            deadline,
            &self.limits,
            handshake,
            Silent,
        )
        .await?;
        let connection = Arc::new(connection);
        *kept = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Whether a call was given up since this was last asked. One that was is told of at once, and
    /// drops its future later.
    fn has_left_unanswered(&self) -> bool {
        self.unanswered.swap(false, Ordering::Relaxed)
            || lock(&self.waiting).iter().any(Context::is_cancelled)
    }

    /// Gives a connection up that failed, and returns the last words of the server.
    async fn give_up(&self, failed: &Arc<Connection>) -> Vec<String> {
        {
            let mut kept = self.connection.lock().await;
            if kept
                .as_ref()
                .is_some_and(|connection| Arc::ptr_eq(connection, failed))
            {
                *kept = None;
            }
        }
        timeout(END, failed.end()).await.unwrap_or_default()
    }

    /// The server in messages.
    fn shown(&self) -> String {
        format!(
            "the MCP server {:?}",
            marked(&self.server.name, MAX_NAME_CHARS)
        )
    }

    fn failure(&self, message: &str, stderr: &[String]) -> ToolResult {
        let message = format!("{}: {message}{}", self.shown(), Tail(stderr));
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
            Err(Unreachable { message, stderr }) => {
                return self
                    .failure(&message, &stderr)
                    .suggest("See whether the server starts by itself.");
            }
        };
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = CallToolRequest::new(params);
        let context_of_progress = context.clone();
        let hear = move |said| {
            if let Said::Progress(progress) = said {
                context_of_progress.emit_output_chunk(&told(&progress));
            }
        };
        let options = PeerRequestOptions::no_options();
        let answer = match connection
            .begin(ClientRequest::CallToolRequest(request), options, hear)
            .await
        {
            Ok(begun) => Asked::new(self, context).answer(begun).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(answer) => result(answer),
            Err(ServiceError::McpError(error)) => {
                let kind = match error.code {
                    ErrorCode::INVALID_PARAMS => ErrorType::Validation,
                    _ => ErrorType::System,
                };
                ToolResult::failure(
                    kind,
                    format!(
                        "{}: {}",
                        self.shown(),
                        marked(&error.message, MAX_ERROR_CHARS)
                    ),
                )
            }
            Err(error) => {
                let stderr = self.give_up(&connection).await;
                self.failure(&connection.said(&error), &stderr)
                    .suggest("Call it again: the server is then started anew.")
            }
        }
    }
}

/// Whether a server answers at all; that it does not know the question is an answer too.
async fn is_there(connection: &Connection) -> bool {
    let ping = connection
        .peer()
        .send_request(ClientRequest::PingRequest(PingRequest::default()));
    matches!(
        timeout(PING, ping).await,
        Ok(Ok(_) | Err(ServiceError::McpError(_)))
    )
}

/// Writes how far a request is, as a line.
fn told(progress: &ProgressNotificationParam) -> String {
    let ProgressNotificationParam {
        progress,
        total,
        message,
        ..
    } = progress;
    let of = total
        .map(|total| format!(" of {total}"))
        .unwrap_or_default();
    let message = message
        .as_ref()
        .map(|text| format!(": {}", marked(text, MAX_PROGRESS_CHARS)))
        .unwrap_or_default();
    format!("{progress}{of}{message}\n")
}

/// A call that waits for its answer.
struct Asked<'a> {
    server: &'a McpServer,
    context: &'a Context,
    answered: bool,
}

impl<'a> Asked<'a> {
    fn new(server: &'a McpServer, context: &'a Context) -> Self {
        lock(&server.waiting).push(context.clone());
        Self {
            server,
            context,
            answered: false,
        }
    }

    async fn answer(mut self, begun: Begun) -> Result<ServerResult, ServiceError> {
        let answer = begun.answer().await;
        self.answered = true;
        answer
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.server.unanswered.store(true, Ordering::Relaxed);
        }
        lock(&self.server.waiting)
            .retain(|waiting| !Arc::ptr_eq(&waiting.output, &self.context.output));
    }
}

/// A tool of an MCP server.
///
/// Its result has `text`, the texts of the answer; `structured`, its structured content; and
/// `parts`, what else it holds, with media type and size. An answer that the server marks as an
/// error is a `user_error`: it says what a model can do better.
pub struct McpTool {
    definition: Tool,
    server: Arc<McpServer>,
    name: String,
}

impl McpTool {
    /// Makes a tool that the server calls by the name of the definition.
    pub fn new(definition: Tool, server: Arc<McpServer>) -> Self {
        let name = definition.name.clone();
        Self {
            definition,
            server,
            name,
        }
    }

    /// Says what the server calls the tool, where that is another name.
    #[must_use]
    pub fn called(self, name: impl Into<String>) -> Self {
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
            waiting::telling(
                context,
                &self.server.shown(),
                self.server.call(&self.name, arguments, context),
            )
            .await
        })
    }

    fn close(&self) -> CloseFuture<'_> {
        Box::pin(self.server.end())
    }
}

fn result(answer: ServerResult) -> ToolResult {
    let value = match answer {
        ServerResult::CallToolResult(result) => json!(result),
        // One part that is not as the protocol has it would lose the rest.
        ServerResult::CustomResult(result)
            if result.0.get("content").is_some_and(Value::is_array) =>
        {
            result.0
        }
        ServerResult::EmptyResult(_) => return ToolResult::success(),
        ServerResult::InputRequiredResult(_) => {
            return ToolResult::failure(
                ErrorType::System,
                "the server asks for more input, which nobody can give here",
            );
        }
        _ => {
            return ToolResult::failure(
                ErrorType::System,
                "the answer of the server is no result of a tool",
            );
        }
    };
    let mut room = MAX_CONTENT_BYTES;
    let content = value
        .get("content")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let (texts, others): (Vec<&Value>, Vec<&Value>) =
        content.iter().partition(|part| part_text(part).is_some());
    let mut text = texts
        .into_iter()
        .filter_map(part_text)
        .collect::<Vec<_>>()
        .join("\n");
    let structured = value
        .get("structuredContent")
        .filter(|structured| !structured.is_null());
    // Servers send structured content as text too, for clients that do not know it.
    if structured.is_some_and(|structured| {
        serde_json::from_str(&text).is_ok_and(|said: Value| said == *structured)
    }) {
        text.clear();
    }
    let is_error = value.get("isError") == Some(&Value::Bool(true));
    let mut made = match is_error {
        true if text.trim().is_empty() => {
            ToolResult::failure(ErrorType::User, "the tool failed, and does not say why")
        }
        true => ToolResult::failure(ErrorType::User, cut(&text, MAX_ERROR_CHARS)),
        false if text.is_empty() => ToolResult::success(),
        false => {
            let whole = text.len();
            text.truncate(text.floor_char_boundary(room));
            room -= text.len();
            let kept = text.len();
            let made = ToolResult::success().field("text", text);
            if kept < whole {
                made.field("text_left_out", format!("{} bytes", whole - kept))
            } else {
                made
            }
        }
    };
    if let Some(structured) = structured {
        made = match picktools_call::size(structured, room) {
            Some(bytes) if bytes <= room => {
                room -= bytes;
                made.field("structured", structured.clone())
            }
            _ => made.field("structured_left_out", "it is too large"),
        };
    }
    if !others.is_empty() {
        let parts: Vec<Value> = others
            .iter()
            .take(MAX_PARTS)
            .map(|part| described(part, &mut room))
            .collect();
        made = made.field("parts", parts);
        if others.len() > MAX_PARTS {
            made = made.field("parts_left_out", others.len() - MAX_PARTS);
        }
    }
    made
}

fn part_text(part: &Value) -> Option<&str> {
    if part.get("type")?.as_str()? == "text" {
        part.get("text")?.as_str()
    } else {
        None
    }
}

/// A part of an answer that is no text: what it is, and its data where there is room.
fn described(part: &Value, room: &mut usize) -> Value {
    let mut made = Map::new();
    let text =
        |holder: &Value, key: &str| holder.get(key).and_then(Value::as_str).map(str::to_owned);
    let resource = part.get("resource");
    let holder = resource.unwrap_or(part);
    made.insert(
        "type".to_owned(),
        text(part, "type")
            .map(|kind| cut(&kind, MAX_NAME_CHARS).into_owned())
            .into(),
    );
    for (key, name) in [
        ("uri", "uri"),
        ("name", "name"),
        ("title", "title"),
        ("mimeType", "mime_type"),
    ] {
        if let Some(value) = text(holder, key) {
            made.insert(name.to_owned(), cut(&value, 2_000).into());
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
        // Base64 writes three bytes as four.
        let bytes = if coded {
            data.trim_end_matches('=').len() * 3 / 4
        } else {
            data.len()
        };
        made.insert("bytes".to_owned(), bytes.into());
        if data.len() <= *room {
            *room -= data.len();
            made.insert(
                if key == "text" { "text" } else { "data" }.to_owned(),
                data.into(),
            );
        } else {
            made.insert("data_left_out".to_owned(), true.into());
        }
    } else if let Some(size) = holder.get("size").filter(|size| size.is_number()) {
        made.insert("bytes".to_owned(), size.clone());
    }
    Value::Object(made)
}
