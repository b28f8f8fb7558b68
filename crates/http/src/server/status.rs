//! The routes about the gateway itself: health, readiness and metrics.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use picktools_gateway::hub::Hub;
use picktools_state::{StateStore, describe_faults};

use super::frontend::HttpFrontend;
use crate::problem::Problem;

/// The content type of the Prometheus text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The state of the routes.
#[derive(Clone)]
struct StatusState {
    frontend: Arc<HttpFrontend>,
    hub: Arc<Hub>,
}

impl StatusState {
    /// Returns a status word, followed by the faults of the shared store.
    ///
    /// The gateway continues with the state that it has if the store fails.
    fn status_text(&self, word: &str) -> String {
        let faults = self
            .hub
            .store
            .as_ref()
            .map(StateStore::faults)
            .unwrap_or_default();
        if faults.is_empty() {
            format!("{word}\n")
        } else {
            format!("{word}\n{}\n", describe_faults(&faults))
        }
    }
}

/// Returns the routes.
pub(super) fn routes(frontend: Arc<HttpFrontend>, hub: Arc<Hub>) -> Router {
    let status = StatusState { frontend, hub };
    Router::new()
        .route("/metrics", get(metrics))
        .route(
            "/health",
            get(async |State(status): State<StatusState>| status.status_text("ok")),
        )
        .route("/ready", get(ready))
        .with_state(status)
}

/// Returns the metrics in the Prometheus text format.
async fn metrics(State(status): State<StatusState>, request: Request) -> Response {
    let (api_key, _permit) = match status.frontend.admit(request.headers()).await {
        Ok(admitted) => admitted,
        Err(refusal) => return Problem::from(refusal).into_response(),
    };
    if !status.frontend.may_read_metrics(&status.hub, &api_key) {
        let message = "metrics need a key whose role has \"operator\": true";
        return Problem::new(StatusCode::FORBIDDEN, "not_allowed", message).into_response();
    }
    match status.hub.meter.text() {
        Some(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        None => Problem::new(
            StatusCode::NOT_FOUND,
            "not_counted",
            "this gateway does not collect metrics",
        )
        .into_response(),
    }
}

/// Answers `ready` if every upstream was asked for its tools, the tools are current, and the audit log
/// can be written. A server whose tools cannot be used is counted but does not stop the others.
async fn ready(State(status): State<StatusState>) -> Response {
    if status.hub.active.is_closed() {
        let message = "the gateway is ending";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "ending", message).into_response();
    }
    if let Err(refusal) = status.hub.journal.ready() {
        return Problem::from(refusal).into_response();
    }
    if status.hub.registry.is_outdated() {
        let message = "the tools cannot be updated; see the log of the gateway";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "outdated", message).into_response();
    }
    if status.hub.registry.is_complete() {
        let mut text = status.status_text("ready");
        let failed = status.hub.registry.snapshot().failed.len();
        if failed > 0 {
            text.push_str(&format!("servers whose tools cannot be used: {failed}\n"));
        }
        return text.into_response();
    }
    let message = "some upstreams were not asked for their tools yet; try again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "starting", message).into_response()
}
