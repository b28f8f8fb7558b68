//! The servers behind the gateway, and how each does.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Html;
use picktools_gateway::hub::Hub;
use picktools_gateway::upstream::Upstream;
use picktools_import::mcp::{Server, Way};

use super::{Problem, filters, written};

/// All servers.
#[derive(Template)]
#[template(path = "console/servers.html")]
struct Servers {
    /// Those that are down first.
    servers: Vec<Row>,
}

/// A server.
struct Row {
    name: String,
    way: String,
    state: &'static str,
    /// Why it cannot be reached.
    why: Option<String>,
    flags: Vec<&'static str>,
    tools: usize,
    held: usize,
    calls: u64,
    errors: Vec<(String, u64)>,
    mean: String,
    restarts: u64,
}

pub(super) async fn list(State(hub): State<Arc<Hub>>) -> Result<Html<String>, Problem> {
    let mut servers: Vec<Row> = hub
        .upstreams()
        .iter()
        .map(|upstream| row(&hub, upstream))
        .collect();
    servers.sort_by_key(|server| server.why.is_none());
    written(&Servers { servers })
}

fn row(hub: &Hub, upstream: &Upstream) -> Row {
    let (name, snapshot) = (&upstream.server.name, hub.snapshot());
    let asked = hub.said_of(name);
    let down = upstream.down();
    let (state, why) = match (asked, down) {
        (_, Some(why)) => ("down", Some(why)),
        (Some(Ok(())), None) => ("up", None),
        (Some(Err(why)), None) => ("down", Some(why)),
        (None, None) => ("not asked yet", None),
    };
    let tools = snapshot
        .engine
        .catalog()
        .tools()
        .iter()
        .filter(|tool| tool.source.as_ref() == Some(name));
    let held = |id: &String| id.split_once('/').is_some_and(|(source, _)| source == name);
    let counts = hub.meter.upstream(name);
    let mean = Duration::from_micros(counts.call_us.checked_div(counts.calls).unwrap_or_default());
    let flags = [
        ("trusted", upstream.rules.trusted),
        ("untrusted", upstream.rules.untrusted),
    ];
    Row {
        name: name.clone(),
        way: way(&upstream.server),
        state,
        why,
        flags: flags
            .into_iter()
            .filter(|(_, holds)| *holds)
            .map(|(flag, _)| flag)
            .collect(),
        tools: tools.count(),
        held: snapshot.held.iter().filter(|id| held(id)).count(),
        calls: counts.calls,
        mean: if counts.calls == 0 {
            "–".to_owned()
        } else {
            format!("{:.0} ms", mean.as_secs_f64() * 1e3)
        },
        restarts: counts.starts.saturating_sub(1),
        errors: counts.refused.into_iter().collect(),
    }
}

/// The program or host of a server: no argument, header or path, in which there may be secrets.
fn way(server: &Server) -> String {
    match &server.way {
        Way::Stdio { command, .. } => command
            .rsplit(['/', '\\'])
            .next()
            .unwrap_or_default()
            .to_owned(),
        Way::Http { url, .. } => {
            let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            host.rsplit('@').next().unwrap_or_default().to_owned()
        }
    }
}
