//! Answers of the API: JSON bodies, missing tools and internal errors.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use picktools_gateway::hub::Hub;
use picktools_gateway::snapshot::View;
use picktools_gateway::upstream::ServerDown;
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;

/// The servers of a role whose tools are missing.
#[derive(Serialize, ToSchema)]
pub(super) struct MissingTools {
    /// The servers that cannot be used, each with `server`, `why` and `since`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub(super) servers_down: Vec<ServerDown>,
    /// The number of quarantined tools by server.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) quarantined: BTreeMap<String, usize>,
}

impl MissingTools {
    pub(super) fn new(hub: &Hub, view: &View) -> Self {
        Self {
            servers_down: hub.servers_down(view),
            quarantined: view.quarantined.clone(),
        }
    }
}

/// Returns a response with a JSON body.
pub(super) fn json_response(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Serializes an answer.
pub(super) fn to_json(answer: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(answer).map_err(|error| internal_error(&error))
}

/// Logs an internal error, and returns the problem for the client.
pub(super) fn internal_error(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(target: "picktools::http", %error, "request failed");
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "internal error; see the log of the gateway",
    )
}

/// Runs work that takes processor time on a blocking thread, so that it delays no other request.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .map_err(|error| internal_error(&error))?
}

/// Returns the `Server-Timing` header with the duration of the work.
pub(super) fn timing_header(name: &str, time: Duration) -> [(&'static str, String); 1] {
    [(
        "server-timing",
        format!("{name};dur={:.3}", time.as_secs_f64() * 1e3),
    )]
}
