//! Serves picks over HTTP with axum: `POST /pick` on one engine that all requests share.
//!
//! ```console
//! $ cargo run -p picktools-examples --bin axum-service -- fixtures/catalogs/workplace 127.0.0.1:8080
//! $ curl http://127.0.0.1:8080/pick --json '{"query": "book a meeting room"}'
//! ```
//!
//! `picktools serve` has such an interface too, with keys, limits, metrics and an OpenAPI
//! description. This is the starting point for a service of your own.

#![expect(clippy::print_stdout, reason = "the example prints its address")]

use std::error::Error;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use picktools::{Access, Catalog, Engine, PickError, PickOptions, Query, Selection};
use serde::Deserialize;
use tokio::net::TcpListener;

const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";
const PICK_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_CANDIDATES: usize = 50;

/// The body of `POST /pick`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PickRequest {
    /// The request in the user's words.
    query: Query,
    /// The number of picks, from 1 to [`MAX_CANDIDATES`].
    #[serde(default = "default_max_candidates")]
    max_candidates: usize,
}

fn default_max_candidates() -> usize {
    PickOptions::default().max_candidates
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(catalog_path) = arguments.next() else {
        return Err("usage: axum-service CATALOG [ADDRESS]".into());
    };
    let address = arguments
        .next()
        .unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());

    // An engine is cheap to clone: all clones share one index.
    let engine = Engine::new(Catalog::open(catalog_path)?)?;
    let service = Router::new().route("/pick", post(pick)).with_state(engine);

    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, service)
        .with_graceful_shutdown(interrupted())
        .await?;
    Ok(())
}

/// Picks tools. An empty list of picks is a normal answer: no tool fits.
async fn pick(
    State(engine): State<Engine>,
    Json(request): Json<PickRequest>,
) -> Result<Json<Selection>, (StatusCode, String)> {
    let options = PickOptions {
        max_candidates: request.max_candidates.min(MAX_CANDIDATES),
        timeout: Some(PICK_TIMEOUT),
        // The service decides which tools a client may see, for example by its login. Never take
        // this from the body.
        access: Access::default(),
        ..PickOptions::default()
    };
    // `pick_async` runs on tokio's blocking pool, so other requests are not delayed.
    let selection = engine.pick_async(request.query, options).await;
    selection
        .map(Json)
        .map_err(|error| (status_for(&error), error.to_string()))
}

/// Returns the HTTP status of a failed pick.
fn status_for(error: &PickError) -> StatusCode {
    match error {
        PickError::InvalidOption { .. } => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Completes on Ctrl-C. If the signal cannot be received, the service runs until it is killed.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
