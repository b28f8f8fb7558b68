//! The request for a server's tools.

use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use thiserror::Error;
use tokio::time::timeout_at;

use picktools_import::mcp::Server;

use super::connection::{
    ConnectError, ConnectOptions, Connection, SilentHandler, StderrTail, timeout_message,
};
use super::handshake::Handshake;
use super::limits::Limits;
use super::listing::{ListFailure, ListKind, ListLimits};
use super::program::Variable;
use super::tool_cache::ToolListCache;
use super::tool_list::Listing;

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
        let mut tools = Vec::new();
        let list_limits = ListLimits {
            pages: limits.pages,
            items: limits.tools,
            bytes: limits.bytes,
        };
        let pages = self.fetch_items(ListKind::Tools, &list_limits, &mut tools);
        let time = deadline.saturating_duration_since(Instant::now());
        let result = match timeout_at(deadline.into(), pages).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(ListFailure::Service(error))) => Err(self.describe_error(&error)),
            Ok(Err(ListFailure::Limit(reason))) => Err(reason),
            Err(_) => Err(timeout_message(time)),
        };
        let incomplete = match result {
            Ok(()) => None,
            Err(message) if tools.is_empty() => return Err(message),
            Err(message) => Some(message),
        };
        Ok(Listing {
            tools: tools.into(),
            incomplete,
            protocol: self.protocol(),
            instructions: self.instructions(),
        })
    }
}
