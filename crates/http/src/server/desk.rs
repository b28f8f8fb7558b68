//! What is asked about the gateway itself: whether it is well, and what was counted.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use picktools_gateway::hub::Hub;
use picktools_state::{Store, told_in_words};

use super::Door;
use crate::problem::Problem;

/// What Prometheus reads.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where a request about the gateway itself comes in.
#[derive(Clone)]
struct Desk {
    door: Arc<Door>,
    hub: Arc<Hub>,
}

impl Desk {
    /// A word, and what is wrong with the store besides: the gateway goes on with what it has.
    fn told(&self, word: &str) -> String {
        let faults = self
            .hub
            .store
            .as_ref()
            .map(Store::faults)
            .unwrap_or_default();
        if faults.is_empty() {
            format!("{word}\n")
        } else {
            format!("{word}\n{}\n", told_in_words(&faults))
        }
    }
}

/// The routes.
pub(super) fn routes(door: Arc<Door>, hub: Arc<Hub>) -> Router {
    let desk = Desk { door, hub };
    Router::new()
        .route("/metrics", get(metrics))
        .route(
            "/health",
            get(async |State(desk): State<Desk>| desk.told("ok")),
        )
        .route("/ready", get(ready))
        .with_state(desk)
}

/// What was counted, for Prometheus.
async fn metrics(State(desk): State<Desk>, request: Request) -> Response {
    let (guest, _place) = match desk.door.enter(request.headers()).await {
        Ok(entered) => entered,
        Err(refused) => return Problem::from(refused).into_response(),
    };
    if !desk.door.sees_all(&desk.hub, &guest) {
        let message = "metrics are for keys whose role has \"operator\": true";
        return Problem::new(StatusCode::FORBIDDEN, "not_allowed", message).into_response();
    }
    match desk.hub.meter.text() {
        Some(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        None => Problem::new(
            StatusCode::NOT_FOUND,
            "not_counted",
            "nothing is counted here",
        )
        .into_response(),
    }
}

/// Whether each upstream has been asked, so that what is answered is whole, and what is done can be
/// recorded.
async fn ready(State(desk): State<Desk>) -> Response {
    if let Err(refusal) = desk.hub.journal.ready() {
        return Problem::from(refusal).into_response();
    }
    if desk.hub.is_complete() {
        return desk.told("ready").into_response();
    }
    let message = "upstreams have not all been asked for their tools yet";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "starting", message).into_response()
}
