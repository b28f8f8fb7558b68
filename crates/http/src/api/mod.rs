//! The JSON API: the functions of the library over HTTP.
//!
//! Every response is limited to the tools that the role of the key may see. Other tools do not
//! appear in results, errors or counts.

mod answer;
mod body;
mod call;
mod embeddings;
mod names;
mod pick;
mod state;
mod viewer;
mod visibility;

use std::sync::Arc;

use picktools_gateway::hub::Hub;
use serde::de::DeserializeOwned;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;

pub(crate) use self::state::Api;

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
}
