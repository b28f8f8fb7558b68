//! The catalog: what tools there are, page by page, and each as a whole.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Html;
use picktools::Tool;
use picktools_gateway::hub::Hub;
use picktools_gateway::snapshot::Snapshot;
use picktools_provider::Tokenizer;
use serde::Deserialize;

use super::{Problem, blocking, filters, written};

/// How many tools are on a page.
const PAGE: usize = 50;

/// Which tools are wanted.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Wanted {
    text: String,
    server: String,
    kind: Kind,
    page: usize,
}

/// Of which kind they are.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    #[default]
    All,
    Unsafe,
    Untrusted,
    Held,
}

/// A page of the catalog.
#[derive(Template)]
#[template(path = "console/catalog.html")]
pub(crate) struct Listed {
    tools: Vec<Row>,
    found: usize,
    of: usize,
    /// From 1.
    page: usize,
    pages: usize,
}

/// A tool on it.
struct Row {
    id: String,
    title: Option<String>,
    description: String,
    flags: Vec<&'static str>,
}

pub(super) async fn list(
    State(hub): State<Arc<Hub>>,
    Query(wanted): Query<Wanted>,
) -> Result<Html<String>, Problem> {
    let snapshot = hub.snapshot();
    blocking(move || written(&listed(&snapshot, &wanted))).await
}

fn listed(snapshot: &Snapshot, wanted: &Wanted) -> Listed {
    let text = wanted.text.trim().to_lowercase();
    let has_text = |tool: &Tool| {
        let texts = [Some(&tool.id), tool.title.as_ref(), Some(&tool.description)];
        text.is_empty()
            || texts
                .into_iter()
                .flatten()
                .any(|within| within.to_lowercase().contains(&text))
    };
    let is_wanted = |tool: &&Arc<Tool>| {
        let is_of_server = wanted.server.is_empty() || tool.source.as_ref() == Some(&wanted.server);
        let is_of_kind = match wanted.kind {
            Kind::All => true,
            Kind::Unsafe => tool.is_unsafe(),
            Kind::Untrusted => tool.untrusted,
            Kind::Held => snapshot.held.contains(&tool.id),
        };
        is_of_server && is_of_kind && has_text(tool)
    };
    let tools = snapshot.engine.catalog().tools();
    let found: Vec<&Arc<Tool>> = tools.iter().filter(is_wanted).collect();
    let pages = found.len().div_ceil(PAGE).max(1);
    let page = wanted.page.clamp(1, pages);
    let rows = found
        .iter()
        .skip((page - 1) * PAGE)
        .take(PAGE)
        .map(|tool| Row {
            id: tool.id.clone(),
            title: tool.title.clone(),
            description: tool.description.clone(),
            flags: flags(snapshot, tool),
        });
    Listed {
        tools: rows.collect(),
        found: found.len(),
        of: tools.len(),
        page,
        pages,
    }
}

fn flags(snapshot: &Snapshot, tool: &Tool) -> Vec<&'static str> {
    let flags = [
        ("held", snapshot.held.contains(&tool.id)),
        ("unsafe", tool.is_unsafe()),
        ("untrusted", tool.untrusted),
        ("only reads", tool.annotations.read_only_hint == Some(true)),
    ];
    flags
        .into_iter()
        .filter(|(_, holds)| *holds)
        .map(|(flag, _)| flag)
        .collect()
}

/// Which tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    id: String,
}

/// A tool, whole.
#[derive(Template)]
#[template(path = "console/tool.html")]
pub(crate) struct Whole {
    description: String,
    facts: Vec<(&'static str, String)>,
    definition: String,
}

pub(super) async fn tool(
    State(hub): State<Arc<Hub>>,
    Query(named): Query<Named>,
) -> Result<Html<String>, Problem> {
    let snapshot = hub.snapshot();
    blocking(move || {
        let tools = snapshot.engine.catalog().tools();
        let tool = tools.iter().find(|tool| tool.id == named.id);
        let gone = || Problem::new(StatusCode::NOT_FOUND, "there is no such tool any longer");
        written(&whole(&snapshot, tool.ok_or_else(gone)?))
    })
    .await
}

fn whole(snapshot: &Snapshot, tool: &Tool) -> Whole {
    let definition = snapshot.definition(tool);
    let tokens =
        definition.map(|definition| Tokenizer::O200k.count(&definition.to_string()).to_string());
    let pretty = definition.and_then(|definition| serde_json::to_string_pretty(definition).ok());
    let list = |items: &std::collections::BTreeSet<String>| {
        (!items.is_empty()).then(|| items.iter().cloned().collect::<Vec<_>>().join(", "))
    };
    let facts = [
        ("models call it", snapshot.names.get(&tool.id).cloned()),
        ("title", tool.title.clone()),
        ("server", tool.source.clone()),
        ("roles", list(&tool.allowed_roles)),
        ("modes", list(&tool.modes)),
        ("tokens", tokens),
        (
            "state",
            snapshot
                .held
                .contains(&tool.id)
                .then(|| "held: its definition of now waits for approval".to_owned()),
        ),
    ];
    Whole {
        description: tool.description.clone(),
        facts: facts
            .into_iter()
            .filter_map(|(label, value)| Some((label, value?)))
            .collect(),
        definition: pretty.unwrap_or_default(),
    }
}
