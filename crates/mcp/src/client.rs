//! Asking a server for its tools.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::timeout_at;

use picktools_import::mcp::Server;

use super::connection::{Connection, Handshake, Silent, Tail, Unreachable, Variable, late};

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

/// Asks a server for its tools. A program that was started for it is stopped again, with all that
/// it started; of the caller's `environment` it gets what tells of user, language and temporary
/// files.
///
/// # Errors
///
/// [`ListError`] when not one page arrived. Where later ones are missing, [`Listing::incomplete`]
/// says so.
pub fn list<'a>(
    server: &'a Server,
    environment: &'a Variable<'a>,
    limits: &'a Limits,
) -> BoxFuture<'a, Result<Listing, ListError>> {
    // Boxed, as what is within an `async fn` is compiled once more in each crate that awaits it.
    listed(server, environment, limits).boxed()
}

async fn listed(
    server: &Server,
    environment: &Variable<'_>,
    limits: &Limits,
) -> Result<Listing, ListError> {
    let deadline = Instant::now() + limits.time;
    let failed = |Unreachable { message, stderr }| ListError {
        server: server.name.clone(),
        message,
        stderr,
    };
    let handshake = Handshake::NewestFirst;
    let connection = Connection::open(server, environment, deadline, limits, handshake, Silent)
        .await
        .map_err(failed)?;
    let listed = connection.tools(deadline, limits).await;
    let stderr = connection.end().await;
    listed.map_err(|message| failed(Unreachable { message, stderr }))
}

impl Connection {
    /// Asks for the tools, every page of them.
    ///
    /// # Errors
    ///
    /// Why not one page arrived by the deadline. Where later ones are missing,
    /// [`Listing::incomplete`] says so.
    pub async fn tools(&self, deadline: Instant, limits: &Limits) -> Result<Listing, String> {
        let mut listing = Listing {
            protocol: self.protocol(),
            ..Listing::default()
        };
        let read = timeout_at(deadline.into(), pages(self, limits, &mut listing)).await;
        match read.unwrap_or_else(|_| Err(late(limits))) {
            Ok(()) => Ok(listing),
            Err(message) if !listing.tools.is_empty() => Ok(Listing {
                incomplete: Some(message),
                ..listing
            }),
            Err(message) => Err(message),
        }
    }
}

async fn pages(
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
        let page = match answer.map_err(|error| connection.said(&error))? {
            ServerResult::ListToolsResult(page) => json!(page),
            // One tool that is not as the protocol has it would lose the page.
            ServerResult::CustomResult(page)
                if page.0.get("tools").is_some_and(Value::is_array) =>
            {
                page.0
            }
            _ => return Err("its answer is no list of tools".to_owned()),
        };
        let tools = page
            .get("tools")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
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
