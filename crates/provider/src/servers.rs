//! Server markers: the name of a tool's server in front of its description.
//!
//! Two servers may be the same program for two accounts, and their definitions differ in nothing
//! but the shown name. A model must see whose tool it calls. A shown name that starts with the name
//! of the server tells it. Otherwise the description starts with a marker.
//!
//! Names of servers come from the operator, but names and descriptions of tools are untrusted. A
//! marker is therefore the first text of a description. A tool whose name or description claims
//! another server gets a marker too.

use std::collections::{HashMap, HashSet};

use picktools::catalog::Tool;
use picktools::catalog::spelling::{normalise, skeleton};
use picktools::excerpt::{one_line, shows};
use picktools::names::AdvertisedTool;

use super::naming::NameRule;

/// The most characters of a server's name in a marker.
const MAX_SERVER_CHARS: usize = 100;
/// The first word of a marker.
const MARKER_WORD: &str = "server";

/// Returns the marker of each definition, or `None`. `names` are the shown names, in the same
/// order.
pub(super) fn server_markers(
    rule: NameRule,
    advertised: &[AdvertisedTool],
    names: &[String],
) -> Vec<Option<String>> {
    let shared_names = SharedNames::new(advertised);
    let mut sharing_servers = HashSet::new();
    for AdvertisedTool { tool, .. } in advertised {
        if let Some(source) = &tool.source
            && shared_names.contain(tool)
        {
            sharing_servers.insert(rule.sanitize(source));
        }
    }
    let mut markers = Vec::with_capacity(advertised.len());
    for (advertised_tool, name) in advertised.iter().zip(names) {
        let tool = &*advertised_tool.tool;
        let marker = tool.source.as_ref().and_then(|source| {
            let is_unclear = !starts_with_server(name, source)
                && (shared_names.contain(tool) || claims_server(name, &sharing_servers));
            (is_unclear || has_marker(&tool.description)).then(|| marker_text(source))
        });
        markers.push(marker);
    }
    markers
}

fn marker_text(source: &str) -> String {
    format!("({MARKER_WORD}: {})", one_line(source, MAX_SERVER_CHARS))
}

/// The tool names that several sources share.
struct SharedNames<'t> {
    /// The source of each name, or `None` if there are several.
    sources: HashMap<String, Option<Option<&'t str>>>,
}

impl<'t> SharedNames<'t> {
    fn new(advertised: &'t [AdvertisedTool]) -> Self {
        let mut sources: HashMap<String, Option<Option<&str>>> = HashMap::new();
        for AdvertisedTool { tool, .. } in advertised {
            let source = tool.source.as_deref();
            for name in comparable_names(tool) {
                let known_source = sources.entry(name).or_insert(Some(source));
                if *known_source != Some(source) {
                    *known_source = None;
                }
            }
        }
        Self { sources }
    }

    /// Returns `true` if another source has a tool of the same name.
    fn contain(&self, tool: &Tool) -> bool {
        comparable_names(tool)
            .iter()
            .any(|name| self.sources.get(name) == Some(&None))
    }
}

/// Returns the name of a tool without case and separators, with and without the source in front.
fn comparable_names(tool: &Tool) -> Vec<String> {
    let name = normalise(&tool.name);
    let source = tool.source.as_deref().map(normalise).unwrap_or_default();
    match name.strip_prefix(source.as_str()) {
        Some(rest) if !rest.is_empty() && rest != name => vec![rest.to_owned(), name],
        _ => vec![name],
    }
}

/// Returns `true` if a shown name starts with the name of the server, followed by a separator.
fn starts_with_server(name: &str, source: &str) -> bool {
    name.strip_prefix(source)
        .is_some_and(|rest| rest.starts_with(is_separator))
}

/// Returns `true` if a shown name starts with the name of one of the servers.
fn claims_server(name: &str, servers: &HashSet<String>) -> bool {
    name.match_indices(is_separator)
        .any(|(position, _)| servers.contains(&name[..position]))
}

fn is_separator(c: char) -> bool {
    !c.is_alphanumeric()
}

/// Returns `true` if a description starts with a marker, or with something that looks like one.
fn has_marker(description: &str) -> bool {
    let mut visible = description.chars().filter(|&c| shows(c));
    let is_opened = visible.next().is_some_and(|c| !c.is_alphanumeric());
    let word: String = visible.take(MARKER_WORD.len()).collect();
    is_opened && skeleton(&word) == skeleton(MARKER_WORD)
}
