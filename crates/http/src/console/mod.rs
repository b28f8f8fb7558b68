//! The console: one page for the operator, to try requests, look through the catalog, and decide
//! what waits.
//!
//! The page itself holds nothing of anybody's. What it shows are fragments of HTML that are written
//! here, from templates that escape all text and spell out what hides in it ([`filters`]), so that
//! there is one place for that; the script only puts them in. The policy of the page lets nothing
//! be loaded or run but its own two files.

mod attempt;
mod catalog;
mod filters;
mod live;
mod servers;
mod signals;
mod waiting;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use picktools_gateway::hub::Hub;
use picktools_gateway::refusal::Refusal;
use picktools_gateway::settings::DEFAULT_ROLE;

const SCRIPT: &str = include_str!("console.js");
const STYLE: &str = include_str!("console.css");
/// What a browser may do with an answer.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'none'; base-uri 'none'; frame-ancestors 'none'";
/// The most bytes of a request.
const MAX_BYTES: usize = 256 << 10;

/// What a request of the console gets in place of an answer.
struct Problem {
    status: StatusCode,
    message: String,
}

impl Problem {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    fn of(refusal: Refusal) -> Self {
        Self::new(StatusCode::BAD_REQUEST, refusal.message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, self.message).into_response()
    }
}

/// The page, without anything on it.
#[derive(Template)]
#[template(path = "console/page.html")]
struct Page;

/// The parts of the page, with what can be chosen in them.
#[derive(Template)]
#[template(path = "console/parts.html")]
struct Parts {
    roles: Vec<String>,
    servers: Vec<String>,
    tools: usize,
}

/// Writes a template.
fn written(template: &impl Template) -> Result<Html<String>, Problem> {
    let failed =
        |error: askama::Error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    template.render().map(Html).map_err(failed)
}

/// The page and its files, which are for whoever comes.
pub(crate) fn page() -> Router {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move {
            (
                [(header::CONTENT_TYPE, HeaderValue::from_static(kind))],
                text,
            )
        })
    };
    Router::new()
        .route("/console", get(|| async { written(&Page) }))
        .route(
            "/console/console.js",
            file("text/javascript; charset=utf-8", SCRIPT),
        )
        .route(
            "/console/console.css",
            file("text/css; charset=utf-8", STYLE),
        )
}

/// What is shown on the page, which is for operators.
pub(crate) fn parts(hub: Arc<Hub>) -> Router {
    Router::new()
        .route("/console/parts", get(all))
        .route("/console/try", post(attempt::attempt))
        .route("/console/catalog", get(catalog::list))
        .route("/console/tool", get(catalog::tool))
        .route("/console/waiting", get(waiting::list))
        .route("/console/waiting/count", get(waiting::count))
        .route("/console/definitions", post(waiting::decide_definition))
        .route("/console/calls", post(waiting::decide_call))
        .route("/console/live", get(live::follow))
        .route("/console/servers", get(servers::list))
        .layer(DefaultBodyLimit::max(MAX_BYTES))
        .with_state(hub)
}

/// Tells browsers what they may do with an answer of the console.
pub(crate) async fn bound(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn all(State(hub): State<Arc<Hub>>) -> Result<Html<String>, Problem> {
    let servers = hub
        .upstreams()
        .iter()
        .map(|upstream| upstream.server.name.clone())
        .collect();
    written(&Parts {
        roles: roles(&hub),
        servers,
        tools: hub.snapshot().engine.catalog().len(),
    })
}

/// The roles that there are, that of callers without another first.
fn roles(hub: &Hub) -> Vec<String> {
    let settings = hub.settings();
    let others = settings
        .roles
        .keys()
        .filter(|role| *role != DEFAULT_ROLE)
        .cloned();
    std::iter::once(DEFAULT_ROLE.to_owned())
        .chain(others)
        .collect()
}

/// Runs what waits for a file.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| {
        Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            error.to_string(),
        ))
    })
}
