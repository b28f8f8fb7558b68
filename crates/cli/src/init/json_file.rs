//! Edits of a client's file in JSON with comments. Bytes outside the servers' object stay unchanged.

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::{Context, anyhow, bail, ensure};
use jsonc_parser::CollectOptions;
use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use picktools_import::jsonc_options;

use super::clients::{McpClient, ServersPlace};
use super::server_texts::{GatewayEntry, ServerText, ServerTexts};

/// The member of Claude Code's file with the settings of projects.
pub(super) const PROJECTS: &str = "projects";

/// Parses a text without a byte order mark. Returns its top-level object.
fn parse_root(text: &str) -> anyhow::Result<Object<'_>> {
    ensure!(!text.trim().is_empty(), "the file is empty");
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &jsonc_options())
        .map_err(|error| anyhow!("invalid JSON: {error}"))?;
    match parsed.value {
        Some(Node::Object(root)) => Ok(root),
        _ => bail!("the file is not a JSON object"),
    }
}

/// Returns the object at a member that must not occur twice.
fn member<'a, 'o>(object: &'o Object<'a>, name: &str) -> anyhow::Result<Option<&'o Object<'a>>> {
    let mut members = object
        .properties
        .iter()
        .filter(|property| property.name.as_str() == name);
    let Some(member) = members.next() else {
        return Ok(None);
    };
    ensure!(
        members.next().is_none(),
        "duplicate key `{name}`; remove one of them"
    );
    match &member.value {
        Node::Object(value) => Ok(Some(value)),
        _ => bail!("`{name}` is not an object"),
    }
}

/// Returns the object with the servers of a file, or `None` if it has none.
fn servers<'a, 'o>(
    root: &'o Object<'a>,
    place: ServersPlace<'_>,
) -> anyhow::Result<Option<&'o Object<'a>>> {
    let mut holder = root;
    for name in place.inside {
        match member(holder, name)? {
            Some(inner) => holder = inner,
            None => return Ok(None),
        }
    }
    let Some(servers) = member(holder, place.client.member)? else {
        return Ok(None);
    };
    let Some(nested) = place.client.nested_member else {
        return Ok(Some(servers));
    };
    // A server may have the name of the nested member.
    match servers.get_object(nested) {
        Some(inner) if inner.get_string("type").is_none() => member(servers, nested),
        _ => Ok(Some(servers)),
    }
}

/// Splits a text into its byte order mark and the rest, to which ranges of the parser refer.
fn split_mark(text: &str) -> (usize, &str) {
    let mark = text.len() - text.trim_start_matches('\u{feff}').len();
    (mark, &text[mark..])
}

/// Returns the texts of the servers of a file, or `None` if it has no member for them.
pub(super) fn server_texts(
    text: &str,
    place: ServersPlace<'_>,
) -> anyhow::Result<Option<ServerTexts>> {
    let (_, text) = split_mark(text);
    let root = parse_root(text)?;
    let Some(servers) = servers(&root, place)? else {
        return Ok(None);
    };
    let mut entries = Vec::new();
    for entry in &servers.properties {
        entries.push(server_text(text, entry));
    }
    let object = &text[servers.range.start..servers.range.end];
    let file = format!("{{\"{}\": {object}}}\n", place.client.member);
    Ok(Some(ServerTexts { entries, file }))
}

fn server_text(text: &str, entry: &ObjectProp<'_>) -> ServerText {
    ServerText {
        name: entry.name.as_str().to_owned(),
        text: text[entry.range.start..entry.range.end].to_owned(),
    }
}

/// Returns a file with these servers only.
pub(super) fn servers_file(client: &McpClient, entries: &[&str]) -> String {
    let entries = entries.join(",\n  ");
    format!("{{\"{}\": {{\n  {entries}\n}}}}\n", client.member)
}

/// Returns a file with a new entry at the start of its servers, and without some of them.
pub(super) fn replaced(
    text: &str,
    place: ServersPlace<'_>,
    moving: &BTreeSet<&str>,
    gateway: GatewayEntry<'_>,
) -> anyhow::Result<String> {
    let (mark, unmarked) = split_mark(text);
    let root = parse_root(unmarked)?;
    let servers = servers(&root, place)?.context("the servers are gone")?;
    let mut entries = Vec::new();
    if let GatewayEntry::New { name, entry } = gateway {
        entries.push(format!("\"{name}\": {entry}"));
    }
    for entry in &servers.properties {
        let entry = server_text(unmarked, entry);
        if !moving.contains(entry.name.as_str()) {
            entries.push(entry.text);
        }
    }
    let range = mark + servers.range.start..mark + servers.range.end;
    Ok(with_entries(text, &range, &entries))
}

/// Returns a file with `moved` servers in place of the gateway's entry.
pub(super) fn restored(
    text: &str,
    place: ServersPlace<'_>,
    gateway: &str,
    moved: &[ServerText],
) -> anyhow::Result<String> {
    let (mark, unmarked) = split_mark(text);
    let root = parse_root(unmarked)?;
    let servers = servers(&root, place)?.context("the servers are gone")?;
    let is_gateway = |entry: &&ObjectProp<'_>| entry.name.as_str() == gateway;
    let entry = servers.properties.iter().find(is_gateway);
    let entry = entry.context("the gateway's entry is gone")?;
    if moved.is_empty() {
        let others = servers.properties.iter().filter(|entry| !is_gateway(entry));
        let others: Vec<String> = others
            .map(|entry| server_text(unmarked, entry).text)
            .collect();
        let range = mark + servers.range.start..mark + servers.range.end;
        return Ok(with_entries(text, &range, &others));
    }
    let (before, after) = (
        &text[..mark + entry.range.start],
        &text[mark + entry.range.end..],
    );
    let end = line_end(text);
    let separator = match before.contains('\n') {
        true => format!(",{end}{}", indent(before)),
        false => ", ".to_owned(),
    };
    let mut entries = Vec::new();
    for server in moved {
        // The file of the moved servers may have other line ends.
        entries.push(server.text.replace("\r\n", "\n").replace('\n', end));
    }
    let entries = entries.join(&separator);
    Ok(format!("{before}{entries}{after}"))
}

/// Returns a text with other entries in the object at `range`, in the same layout.
fn with_entries(text: &str, range: &Range<usize>, entries: &[String]) -> String {
    let (before, servers, after) = (
        &text[..range.start],
        &text[range.clone()],
        &text[range.end..],
    );
    if entries.is_empty() {
        return format!("{before}{{}}{after}");
    }
    if !servers.contains('\n') {
        return format!("{before}{{{}}}{after}", entries.join(", "));
    }
    let end = line_end(servers);
    let outer = indent(before);
    // The members of the top-level object are indented by one step.
    let step = if outer.is_empty() { "  " } else { outer };
    let entries = entries.join(&format!(",{end}{outer}{step}"));
    format!("{before}{{{end}{outer}{step}{entries}{end}{outer}}}{after}")
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Returns the indentation of the last line of a text.
fn indent(text: &str) -> &str {
    let line = text.rsplit('\n').next().unwrap_or_default();
    let rest = line.trim_start_matches([' ', '\t']);
    &line[..line.len() - rest.len()]
}

/// Returns the names of the projects in a file that have servers of their own.
pub(super) fn projects_with_servers(text: &str) -> anyhow::Result<Vec<String>> {
    let (_, text) = split_mark(text);
    let root = parse_root(text)?;
    let mut names = Vec::new();
    let projects = member(&root, PROJECTS)?;
    for project in projects.map_or(&[][..], |projects| &projects.properties) {
        let Node::Object(members) = &project.value else {
            continue;
        };
        let servers = members.get_object("mcpServers");
        if servers.is_some_and(|servers| !servers.properties.is_empty()) {
            names.push(project.name.as_str().to_owned());
        }
    }
    Ok(names)
}
