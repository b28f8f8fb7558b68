//! The JSON API: the functions of the library over HTTP.
//!
//! Every response is limited to the tools that the role of the key may see. Other tools do not
//! appear in results, errors or counts.

mod body;
mod call;
mod embeddings;
mod names;
mod pick;
mod viewer;
mod visibility;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use picktools_gateway::hub::Hub;
use picktools_gateway::snapshot::{Snapshot, View};
use picktools_gateway::upstream::ServerDown;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;

/// Parses the body of a request for a route of the API. Returns the JSON text of the error if the
/// body is invalid or the route takes none.
pub fn body_fault(route: &str, body: &[u8]) -> Option<String> {
    fn fault<T: DeserializeOwned>(body: &[u8]) -> Option<Problem> {
        body::parse::<T>(body).err()
    }
    let fault = match route {
        "/v1/pick" => fault::<pick::PickRequest>(body),
        "/v1/pick/batch" => fault::<pick::BatchRequest>(body),
        "/v1/resolve" => fault::<names::ResolveRequest>(body),
        "/v1/validate" => fault::<names::ValidateRequest>(body),
        "/v1/translate" => fault::<names::TranslateRequest>(body),
        "/v1/call" => fault::<names::ApiToolCall>(body),
        "/v1/embeddings" => fault::<embeddings::EmbeddingsRequest>(body),
        _ => Some(Problem::invalid("the route takes no body")),
    };
    fault.map(|problem| serde_json::json!(problem).to_string())
}

/// The OpenAPI description of the API, without its paths.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "picktools",
        description = "Picks the few tools that a request needs, resolves tool names, \
                       validates calls against their schemas, and runs them."
    ),
    components(schemas(Problem)),
    security(("key" = [])),
    modifiers(&BearerKey)
)]
struct ApiDescription;

/// The security scheme: a key in the `Authorization` header.
struct BearerKey;

impl utoipa::Modify for BearerKey {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let components = description.components.get_or_insert_default();
        components.add_security_scheme(
            "key",
            SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)),
        );
    }
}

/// The state that the handlers share.
pub(crate) struct Api {
    hub: Arc<Hub>,
}

impl Api {
    /// Returns the routes of the API, and those of its description as JSON and as a page.
    pub(crate) fn routes(hub: Arc<Hub>) -> (axum::Router, axum::Router) {
        let (router, description) = OpenApiRouter::with_openapi(ApiDescription::openapi())
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
        (router, viewer::routes(&description))
    }

    /// Returns the current snapshot, and the view of a role.
    ///
    /// A request waits a short time for upstreams that have not listed their tools yet.
    async fn view(&self, role: &str) -> Result<(Arc<Snapshot>, Arc<View>), Problem> {
        self.hub.wait_for_listings().await;
        let snapshot = self.hub.snapshot();
        let view = snapshot.view(role)?;
        Ok((snapshot, view))
    }
}

/// The servers of a role whose tools are missing.
#[derive(Serialize, ToSchema)]
struct MissingTools {
    /// The servers that cannot be used, each with `server`, `why` and `since`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    servers_down: Vec<ServerDown>,
    /// The number of quarantined tools by server.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    quarantined: BTreeMap<String, usize>,
}

impl MissingTools {
    fn new(hub: &Hub, view: &View) -> Self {
        Self {
            servers_down: hub.servers_down(view),
            quarantined: view.quarantined.clone(),
        }
    }
}

/// Returns a response with a JSON body.
fn json_response(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Serializes an answer.
fn to_json(answer: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(answer).map_err(|error| internal_error(&error))
}

/// Logs an internal error, and returns the problem for the client.
fn internal_error(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(target: "picktools::http", %error, "request failed");
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "internal error; see the log of the gateway",
    )
}

/// Runs work that takes processor time on a blocking thread, so that it delays no other request.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .map_err(|error| internal_error(&error))?
}

/// Returns the `Server-Timing` header with the duration of the work.
fn timing_header(name: &str, time: Duration) -> [(&'static str, String); 1] {
    [(
        "server-timing",
        format!("{name};dur={:.3}", time.as_secs_f64() * 1e3),
    )]
}
