//! The request for a server's tools.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::timeout_at;

use picktools_import::mcp::Server;

use super::connection::{
    ConnectError, ConnectOptions, Connection, Handshake, SilentHandler, StderrTail, timeout_message,
};
use super::program::Variable;
use super::tool_cache::ToolListCache;

/// Time and size limits for a server's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for start, handshake and all pages together.
    pub time: Duration,
    /// The largest number of pages of the tool list.
    pub pages: usize,
    /// The largest number of tools.
    pub tools: usize,
    /// The largest size of one message, in bytes.
    pub message_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            pages: 500,
            tools: 20_000,
            message_bytes: 16 << 20,
        }
    }
}

/// The tools of a server.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Listing {
    /// The tool definitions, unchanged.
    pub tools: Vec<Value>,
    /// The reason why tools are missing; `None` if the list is complete.
    pub incomplete: Option<String>,
    /// The protocol revision of the connection.
    pub protocol: String,
    /// The instructions of the server, empty if it has none; `None` if they are not known.
    pub instructions: Option<String>,
}

/// The reason why a server listed no tools.
#[derive(Debug, Error)]
#[error("{server}: {message}{}", StderrTail(.stderr))]
#[non_exhaustive]
pub struct ListError {
    /// The server's name in the configuration.
    pub server: String,
    /// The cause.
    pub message: String,
    /// The last lines that the server wrote to standard error.
    pub stderr: Vec<String>,
}

/// Lists the tools of a server.
///
/// A program that was started for the list is stopped afterwards, with all its child processes.
/// It inherits some variables from the caller's `environment`, see [`ConnectOptions`]. The `cache`
/// remembers which handshake worked.
///
/// # Errors
///
/// [`ListError`] if not one page arrived. If only later pages are missing, [`Listing::incomplete`]
/// has the reason.
pub fn list<'a>(
    server: &'a Server,
    environment: &'a Variable<'a>,
    limits: &'a Limits,
    cache: Option<&'a ToolListCache>,
) -> BoxFuture<'a, Result<Listing, ListError>> {
    // Boxed: every crate that awaits an `async fn` compiles its body once more.
    list_tools(server, environment, limits, cache).boxed()
}

async fn list_tools(
    server: &Server,
    environment: &Variable<'_>,
    limits: &Limits,
    cache: Option<&ToolListCache>,
) -> Result<Listing, ListError> {
    let deadline = Instant::now() + limits.time;
    let failed = |ConnectError { message, stderr }| ListError {
        server: server.name.clone(),
        message,
        stderr,
    };
    let options = ConnectOptions {
        environment,
        deadline,
        limits,
        handshake: Handshake::NewestFirst,
        cache,
    };
    let connection = Connection::open(server, &options, SilentHandler)
        .await
        .map_err(failed)?;
    let result = connection.tools(deadline, limits).await;
    let stderr = connection.end().await;
    result.map_err(|message| failed(ConnectError { message, stderr }))
}

impl Connection {
    /// Lists the tools, page by page.
    ///
    /// # Errors
    ///
    /// The reason why not one page arrived by the deadline. If only later pages are missing,
    /// [`Listing::incomplete`] has the reason.
    pub async fn tools(&self, deadline: Instant, limits: &Limits) -> Result<Listing, String> {
        let mut listing = Listing {
            protocol: self.protocol(),
            instructions: self.instructions(),
            ..Listing::default()
        };
        let result = timeout_at(deadline.into(), fetch_pages(self, limits, &mut listing)).await;
        match result.unwrap_or_else(|_| Err(timeout_message(limits))) {
            Ok(()) => Ok(listing),
            Err(message) if !listing.tools.is_empty() => Ok(Listing {
                incomplete: Some(message),
                ..listing
            }),
            Err(message) => Err(message),
        }
    }
}

async fn fetch_pages(
    connection: &Connection,
    limits: &Limits,
    listing: &mut Listing,
) -> Result<(), String> {
    let mut cursor = None;
    for _ in 0..limits.pages {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let request = ListToolsRequest {
            method: Default::default(),
            params: Some(params),
            extensions: Default::default(),
        };
        let answer = connection
            .peer()
            .send_request(ClientRequest::ListToolsRequest(request))
            .await;
        let page = match answer.map_err(|error| connection.describe_error(&error))? {
            ServerResult::ListToolsResult(page) => json!(page),
            // `rmcp` rejects a page with one malformed tool; the raw page still has the
            // others.
            ServerResult::CustomResult(page)
                if page.0.get("tools").is_some_and(Value::is_array) =>
            {
                page.0
            }
            _ => return Err("its answer is not a list of tools".to_owned()),
        };
        let mut tools = page
            .get("tools")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        connection.tools.retain(&mut tools);
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
