//! The Servers section: the state of each upstream.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Html;
use picktools_gateway::hub::Hub;
use picktools_gateway::upstream::Upstream;
use picktools_import::mcp::{Server, ServerTransport};

use super::answer::{ConsoleError, render};
use super::filters;

/// All servers, as a fragment.
#[derive(Template)]
#[template(path = "console/servers.html")]
struct ServersFragment {
    /// The servers; those that are down come first.
    servers: Vec<ServerRow>,
}

/// An upstream with its state and counts.
struct ServerRow {
    name: String,
    endpoint: String,
    state: &'static str,
    /// The reason why the server cannot be reached.
    down_reason: Option<String>,
    flags: Vec<&'static str>,
    tools: usize,
    quarantined: usize,
    calls: u64,
    errors: Vec<(String, u64)>,
    mean_time: String,
    restarts: u64,
}

pub(super) async fn list(State(hub): State<Arc<Hub>>) -> Result<Html<String>, ConsoleError> {
    let mut servers: Vec<ServerRow> = hub
        .upstreams
        .all()
        .iter()
        .map(|upstream| server_row(&hub, upstream))
        .collect();
    servers.sort_by_key(|server| server.down_reason.is_none());
    render(&ServersFragment { servers })
}

/// The state of an upstream.
pub(super) enum UpstreamState {
    Up,
    /// It was not asked for its tools yet.
    Starting,
    /// It cannot be used, for this reason.
    Down(String),
}

pub(super) fn upstream_state(hub: &Hub, upstream: &Upstream) -> UpstreamState {
    let listing = hub.upstreams.live_result(&upstream.server.name);
    match (listing, upstream.down_reason()) {
        (_, Some(reason)) | (Some(Err(reason)), None) => UpstreamState::Down(reason),
        (Some(Ok(())), None) => UpstreamState::Up,
        (None, None) => UpstreamState::Starting,
    }
}

fn server_row(hub: &Hub, upstream: &Upstream) -> ServerRow {
    let (name, snapshot) = (&upstream.server.name, hub.registry.snapshot());
    let (state, down_reason) = match upstream_state(hub, upstream) {
        UpstreamState::Up => ("up", None),
        UpstreamState::Starting => ("starting", None),
        UpstreamState::Down(reason) => ("down", Some(reason)),
    };
    let catalog = snapshot.engine.catalog();
    let tools = catalog
        .ids()
        .filter(|tool| catalog.source(*tool) == Some(name));
    let is_of_server = |id: &&String| id.split_once('/').is_some_and(|(source, _)| source == name);
    let counts = hub.meter.upstream(name);
    let mean_time =
        Duration::from_micros(counts.call_us.checked_div(counts.calls).unwrap_or_default());
    let flags = [
        ("trusted", upstream.rules.trusted),
        ("untrusted", upstream.rules.untrusted),
    ];
    ServerRow {
        name: name.clone(),
        endpoint: endpoint(&upstream.server),
        state,
        down_reason,
        flags: flags
            .into_iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(flag, _)| flag)
            .collect(),
        tools: tools.count(),
        quarantined: snapshot.quarantined.iter().filter(is_of_server).count(),
        calls: counts.calls,
        mean_time: if counts.calls == 0 {
            "–".to_owned()
        } else {
            format!("{:.0} ms", mean_time.as_secs_f64() * 1e3)
        },
        restarts: counts.starts.saturating_sub(1),
        errors: counts.refused.into_iter().collect(),
    }
}

/// Returns the program or host of a server.
///
/// Arguments, headers and paths are omitted, because they may contain secrets.
pub(super) fn endpoint(server: &Server) -> String {
    match &server.transport {
        ServerTransport::Stdio { command, .. } => command
            .rsplit(['/', '\\'])
            .next()
            .unwrap_or_default()
            .to_owned(),
        ServerTransport::Http { url, .. } => {
            let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            host.rsplit('@').next().unwrap_or_default().to_owned()
        }
    }
}
