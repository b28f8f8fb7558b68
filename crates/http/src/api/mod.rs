//! The HTTP interface: what the library does, for whoever speaks JSON.
//!
//! Each answer is what a key's role allows: a tool that is not for it is not there, in no answer,
//! no error and no count.

mod body;
mod call;
mod embeddings;
mod names;
mod pick;
mod sight;
mod viewer;

use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use picktools_gateway::calls::FIRST;
use picktools_gateway::hub::Hub;
use picktools_gateway::snapshot::{Snapshot, View};
use serde::Serialize;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;

/// The description of the interface, before its paths are added.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "picktools",
        description = "Picks the few tools that a request needs, resolves names, holds calls to their schemas, and runs them."
    ),
    components(schemas(Problem)),
    security(("key" = [])),
    modifiers(&Keys)
)]
struct Described;

/// How a key is sent.
struct Keys;

impl utoipa::Modify for Keys {
    fn modify(&self, described: &mut utoipa::openapi::OpenApi) {
        let components = described.components.get_or_insert_default();
        components.add_security_scheme(
            "key",
            SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)),
        );
    }
}

/// What the handlers share.
pub(crate) struct Api {
    hub: Arc<Hub>,
}

impl Api {
    /// The routes, and the description of them: in JSON, and as a page.
    pub(crate) fn routes(hub: Arc<Hub>) -> (axum::Router, axum::Router) {
        let (router, described) = OpenApiRouter::with_openapi(Described::openapi())
            .routes(routes!(pick::pick))
            .routes(routes!(pick::pick_batch))
            .routes(routes!(names::resolve))
            .routes(routes!(names::validate))
            .routes(routes!(names::translate_tools))
            .routes(routes!(names::tools))
            .routes(routes!(names::tool))
            .routes(routes!(call::call))
            .routes(routes!(embeddings::embeddings))
            .with_state(Arc::new(Self { hub }))
            .split_for_parts();
        (router, viewer::routes(&described))
    }

    /// What there is now, and what a role may see of it. The first request waits until the
    /// upstreams have been asked.
    async fn view(&self, role: &str) -> Result<(Arc<Snapshot>, Arc<View>), Problem> {
        self.hub.listed(FIRST).await;
        let snapshot = self.hub.snapshot();
        let view = snapshot.view(role)?;
        Ok((snapshot, view))
    }
}

/// An answer in JSON, as it was written.
fn json(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Writes an answer.
fn written(answer: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(answer).map_err(|error| failed(&error))
}

/// A fault of ours.
fn failed(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(target: "picktools::http", %error, "a request failed");
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "the request failed here; the log says why",
    )
}

/// Runs what takes processor time where it holds up no other request.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .map_err(|error| failed(&error))?
}

/// How long work took, as browsers and tracing read it.
fn timing(name: &str, time: Duration) -> [(&'static str, String); 1] {
    [(
        "server-timing",
        format!("{name};dur={:.3}", time.as_secs_f64() * 1e3),
    )]
}
