//! The state of each upstream as JSON, for `picktools status`. The members are those of
//! `picktools doctor --json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use picktools::excerpt::marked;
use picktools_gateway::hub::Hub;
use picktools_gateway::upstream::Upstream;
use picktools_provider::Tokenizer;
use serde::Serialize;
use serde_json::json;

use super::answer::{ConsoleError, run_blocking};
use super::servers::{UpstreamState, endpoint, upstream_state};

/// The longest reason of a state, in characters.
const MAX_REASON_CHARS: usize = 2_000;

/// The state of all servers.
#[derive(Serialize)]
pub(super) struct StatusReport {
    version: u32,
    servers: Vec<ServerStatus>,
}

/// The state of a server.
#[derive(Serialize)]
struct ServerStatus {
    server: String,
    state: &'static str,
    /// The reason why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The time since when it cannot be used, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    /// The program, or the host of the URL.
    at: String,
    tools: usize,
    /// The tokens of the tools' definitions.
    tokens: usize,
    /// The quarantined tools, with the reasons.
    quarantined: BTreeMap<String, String>,
    /// The errors that `picktools check` finds in the quarantined tools.
    findings: Vec<String>,
}

pub(super) async fn list(State(hub): State<Arc<Hub>>) -> Result<Json<StatusReport>, ConsoleError> {
    // Approvals are in files, and tokens take long to count.
    run_blocking(move || {
        let mut servers = Vec::new();
        for upstream in hub.upstreams.all() {
            servers.push(server_status(&hub, &upstream)?);
        }
        Ok(Json(StatusReport {
            version: 1,
            servers,
        }))
    })
    .await
}

fn server_status(hub: &Hub, upstream: &Upstream) -> Result<ServerStatus, ConsoleError> {
    let name = &upstream.server.name;
    let (state, reason) = match upstream_state(hub, upstream) {
        UpstreamState::Up => ("ok", None),
        UpstreamState::Starting => ("starting", None),
        UpstreamState::Down(reason) => ("down", Some(reason)),
    };
    let snapshot = hub.registry.snapshot();
    let mut definitions = Vec::new();
    for tool in snapshot.engine.catalog().tools()? {
        if tool.source.as_ref() == Some(name) {
            definitions.push(tool);
        }
    }
    let tokens = match definitions.is_empty() {
        true => 0,
        false => Tokenizer::O200k.count(&json!(definitions).to_string()),
    };
    let mut status = ServerStatus {
        server: name.clone(),
        state,
        why: reason.map(|reason| marked(&reason, MAX_REASON_CHARS).into_owned()),
        since: upstream.down_since(),
        at: endpoint(&upstream.server),
        tools: definitions.len(),
        tokens,
        quarantined: BTreeMap::new(),
        findings: Vec::new(),
    };
    if let Some(pins) = &hub.approvals.pins {
        let quarantined = pins.quarantined_of(&upstream.server).map_err(|error| {
            ConsoleError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
        })?;
        for (tool, definition) in quarantined {
            let reason = definition.describe_reason();
            status.findings.extend(definition.findings);
            status.quarantined.insert(tool, reason);
        }
    }
    Ok(status)
}
