//! The console: a page on which the operator tries requests, browses the catalog, and approves
//! definitions and calls.
//!
//! The page itself contains no data. The server renders fragments of HTML, and the script inserts
//! them. The templates escape all text and mark invisible characters ([`filters`]). The content
//! security policy allows only the script and the style sheet of the page.

mod answer;
mod attempt;
mod catalog;
mod filters;
mod live;
mod servers;
mod status;
mod signals;
mod waiting;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{Html, Redirect, Response};
use axum::routing::{get, post};
use picktools_gateway::hub::Hub;

use self::answer::{ConsoleError, render};
use self::attempt::role_names;

const SCRIPT: &str = include_str!("console.js");
const STYLE: &str = include_str!("console.css");
/// The content security policy of all responses.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src 'self' data:; form-action 'none'; \
                      base-uri 'none'; frame-ancestors 'none'";
/// The largest size of a request body, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// The page without data.
#[derive(Template)]
#[template(path = "console/page.html")]
struct Page;

/// The sections of the page, with the choices of their forms.
#[derive(Template)]
#[template(path = "console/parts.html")]
struct SectionsFragment {
    roles: Vec<String>,
    servers: Vec<String>,
    tools: usize,
}

/// Returns the routes of the page and its files, which need no key.
pub(crate) fn page_routes() -> Router {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move {
            (
                [(header::CONTENT_TYPE, HeaderValue::from_static(kind))],
                text,
            )
        })
    };
    Router::new()
        .route("/", get(|| async { Redirect::temporary("/console") }))
        .route("/console", get(|| async { render(&Page) }))
        .route(
            "/console/console.js",
            file("text/javascript; charset=utf-8", SCRIPT),
        )
        .route(
            "/console/console.css",
            file("text/css; charset=utf-8", STYLE),
        )
}

/// Returns the routes of the data, which need the key of an operator.
pub(crate) fn data_routes(hub: Arc<Hub>) -> Router {
    Router::new()
        .route("/console/parts", get(sections))
        .route("/console/try", post(attempt::try_request))
        .route("/console/catalog", get(catalog::list))
        .route("/console/tool", get(catalog::tool))
        .route("/console/waiting", get(waiting::list))
        .route("/console/waiting/count", get(waiting::count))
        .route("/console/definitions", post(waiting::decide_definition))
        .route("/console/calls", post(waiting::decide_call))
        .route("/console/revoke", post(waiting::revoke))
        .route("/console/live", get(live::follow))
        .route("/console/servers", get(servers::list))
        .route("/console/status", get(status::list))
        .layer(DefaultBodyLimit::max(MAX_BYTES))
        .with_state(hub)
}

/// Adds the security headers to a response of the console.
pub(crate) async fn add_security_headers(request: Request, next: Next) -> Response {
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

async fn sections(State(hub): State<Arc<Hub>>) -> Result<Html<String>, ConsoleError> {
    let servers = hub
        .upstreams
        .all()
        .iter()
        .map(|upstream| upstream.server.name.clone())
        .collect();
    render(&SectionsFragment {
        roles: role_names(&hub),
        servers,
        tools: hub.registry.snapshot().engine.catalog().len(),
    })
}
