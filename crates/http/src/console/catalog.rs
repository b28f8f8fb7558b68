//! The Catalog section: pages of tools, and the complete definition of a tool.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Html;
use picktools::Tool;
use picktools_gateway::hub::Hub;
use picktools_gateway::snapshot::Snapshot;
use serde::Deserialize;

use super::answer::{ConsoleError, render, run_blocking};
use super::filters;

/// The number of tools of a page.
const PAGE_SIZE: usize = 50;

/// The filter of the list.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CatalogQuery {
    text: String,
    server: String,
    kind: ToolFilter,
    page: usize,
}

/// A property by which tools are filtered.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ToolFilter {
    #[default]
    All,
    Unsafe,
    Untrusted,
    #[serde(rename = "held")]
    Quarantined,
}

/// A page of the catalog.
#[derive(Template)]
#[template(path = "console/catalog.html")]
pub(crate) struct CatalogFragment {
    tools: Vec<ToolRow>,
    /// The number of matching tools.
    matching: usize,
    /// The number of all tools.
    total: usize,
    /// The number of the page, from 1.
    page: usize,
    pages: usize,
}

/// A tool of the list.
struct ToolRow {
    id: String,
    title: Option<String>,
    description: String,
    flags: Vec<&'static str>,
}

pub(super) async fn list(
    State(hub): State<Arc<Hub>>,
    Query(query): Query<CatalogQuery>,
) -> Result<Html<String>, ConsoleError> {
    let snapshot = hub.registry.snapshot();
    run_blocking(move || render(&catalog_fragment(&snapshot, &query)?)).await
}

fn catalog_fragment(
    snapshot: &Snapshot,
    query: &CatalogQuery,
) -> Result<CatalogFragment, ConsoleError> {
    let text = query.text.trim().to_lowercase();
    let has_text = |tool: &Tool| {
        let fields = [Some(&tool.id), tool.title.as_ref(), Some(&tool.description)];
        text.is_empty()
            || fields
                .into_iter()
                .flatten()
                .any(|field| field.to_lowercase().contains(&text))
    };
    let matches_query = |tool: &&Arc<Tool>| {
        let matches_server = query.server.is_empty() || tool.source.as_ref() == Some(&query.server);
        let matches_kind = match query.kind {
            ToolFilter::All => true,
            ToolFilter::Unsafe => tool.is_unsafe(),
            ToolFilter::Untrusted => tool.untrusted,
            ToolFilter::Quarantined => snapshot.quarantined.contains(&tool.id),
        };
        matches_server && matches_kind && has_text(tool)
    };
    let tools = snapshot.engine.catalog().tools()?;
    let matching: Vec<&Arc<Tool>> = tools.iter().filter(matches_query).collect();
    let pages = matching.len().div_ceil(PAGE_SIZE).max(1);
    let page = query.page.clamp(1, pages);
    let rows = matching
        .iter()
        .skip((page - 1) * PAGE_SIZE)
        .take(PAGE_SIZE)
        .map(|tool| ToolRow {
            id: tool.id.clone(),
            title: tool.title.clone(),
            description: tool.description.clone(),
            flags: flags(snapshot, tool),
        });
    Ok(CatalogFragment {
        tools: rows.collect(),
        matching: matching.len(),
        total: tools.len(),
        page,
        pages,
    })
}

fn flags(snapshot: &Snapshot, tool: &Tool) -> Vec<&'static str> {
    let flags = [
        ("quarantined", snapshot.quarantined.contains(&tool.id)),
        ("hidden", snapshot.hidden.contains(&tool.id)),
        ("unsafe", tool.is_unsafe()),
        ("untrusted", tool.untrusted),
        ("read-only", tool.annotations.read_only_hint == Some(true)),
    ];
    flags
        .into_iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(flag, _)| flag)
        .collect()
}

/// The id of the tool to show.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolQuery {
    id: String,
}

/// A tool with its complete definition.
#[derive(Template)]
#[template(path = "console/tool.html")]
pub(crate) struct ToolFragment {
    description: String,
    facts: Vec<(&'static str, String)>,
    definition: String,
}

pub(super) async fn tool(
    State(hub): State<Arc<Hub>>,
    Query(query): Query<ToolQuery>,
) -> Result<Html<String>, ConsoleError> {
    let snapshot = hub.registry.snapshot();
    run_blocking(move || {
        let tools = snapshot.engine.catalog().tools()?;
        let tool = tools.iter().find(|tool| tool.id == query.id);
        let gone = || {
            ConsoleError::new(
                StatusCode::NOT_FOUND,
                "the catalog no longer has this tool; reload the list",
            )
        };
        render(&tool_fragment(&snapshot, tool.ok_or_else(gone)?))
    })
    .await
}

fn tool_fragment(snapshot: &Snapshot, tool: &Tool) -> ToolFragment {
    let definition = snapshot.definition(tool);
    let tokens = definition.map(|definition| definition.tokens().to_string());
    let pretty =
        definition.and_then(|definition| serde_json::to_string_pretty(&definition.value()).ok());
    let list = |items: &std::collections::BTreeSet<String>| {
        (!items.is_empty()).then(|| items.iter().cloned().collect::<Vec<_>>().join(", "))
    };
    let facts = [
        ("shown name", snapshot.names.get(&tool.id).cloned()),
        ("title", tool.title.clone()),
        ("server", tool.source.clone()),
        ("roles", list(&tool.allowed_roles)),
        ("modes", list(&tool.modes)),
        ("tokens", tokens),
        (
            "state",
            snapshot
                .quarantined
                .contains(&tool.id)
                .then(|| "quarantined: its current definition waits for approval".to_owned()),
        ),
        (
            "settings",
            snapshot
                .hidden
                .contains(&tool.id)
                .then(|| "hidden from everybody (`hide` in `upstreams`)".to_owned()),
        ),
    ];
    ToolFragment {
        description: tool.description.clone(),
        facts: facts
            .into_iter()
            .filter_map(|(label, value)| Some((label, value?)))
            .collect(),
        definition: pretty.unwrap_or_default(),
    }
}
