//! Edits of a client's file in TOML. Comments and the order of everything but the servers stay.

use std::collections::BTreeSet;

use anyhow::{Context, anyhow, ensure};
use picktools_import::describe_toml_error;
use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Key, Table, TableLike};

use super::clients::ServersPlace;
use super::server_texts::{GatewayEntry, ServerText, ServerTexts};

/// The member of the gateway's entry with the variables that Codex passes on. It passes no others.
const VARIABLES: &str = "env_vars";

/// A file that can be written without a change of the lines that are not edited.
struct TomlFile {
    document: DocumentMut,
    mark: &'static str,
    line_end: &'static str,
}

impl TomlFile {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let unmarked = text.trim_start_matches('\u{feff}');
        ensure!(!unmarked.trim().is_empty(), "the file is empty");
        let is_crlf = unmarked.contains("\r\n");
        // The library writes line feeds.
        let lines = unmarked.replace("\r\n", "\n");
        let document: DocumentMut = lines.parse().map_err(|error: toml_edit::TomlError| {
            anyhow!("invalid TOML: {}", describe_toml_error(&lines, &error))
        })?;
        let file = Self {
            document,
            mark: if unmarked.len() < text.len() {
                "\u{feff}"
            } else {
                ""
            },
            line_end: if is_crlf { "\r\n" } else { "\n" },
        };
        let written = file.to_text();
        let is_equal = written == text || written.strip_suffix(file.line_end) == Some(text);
        ensure!(
            is_equal,
            "the file cannot be edited without a change of other lines (mixed line ends, or two \
             spellings of a key); edit it by hand"
        );
        Ok(file)
    }

    fn to_text(&self) -> String {
        let lines = self.document.to_string();
        format!("{}{}", self.mark, lines.replace('\n', self.line_end))
    }

    /// Returns the text of the edited file. Fails if anything but the servers differs from `before`,
    /// or if a comment is neither in the file nor in the `moved` texts.
    fn checked(&self, before: &str, member: &str, moved: &str) -> anyhow::Result<String> {
        let text = self.to_text();
        let is_equal = Self::parse(&text)?.rest(member) == Self::parse(before)?.rest(member);
        let is_lost = |line: &str| {
            let is_it = |other: &str| other.trim() == line;
            !text.lines().any(is_it) && !moved.lines().any(is_it)
        };
        let comments = before.lines().map(str::trim);
        let mut comments = comments.filter(|line| line.starts_with('#'));
        ensure!(
            is_equal && !comments.any(is_lost),
            "the edit would change other parts of the file; edit it by hand"
        );
        Ok(text)
    }

    /// Returns the file without its servers and without the comments in front of tables.
    fn rest(&self, member: &str) -> String {
        let mut document = self.document.clone();
        document.remove(member);
        document.set_trailing("");
        for_each_table(document.as_table_mut(), &mut |table| {
            table.decor_mut().set_prefix("");
        });
        document.to_string()
    }

    /// Puts comments in front of the first table from a position on, or at the end.
    fn insert_comments(&mut self, position: Option<isize>, comments: &str) {
        if comments.is_empty() {
            return;
        }
        let mut next: Option<isize> = None;
        for_each_table(self.document.as_table_mut(), &mut |table| {
            let own = table.position();
            let is_visible = !table.is_dotted() && (!table.is_implicit() || has_values(table));
            if is_visible && own >= position && (next.is_none() || own < next) {
                next = own;
            }
        });
        if next.is_none() {
            let trailing = self.document.trailing().as_str().unwrap_or_default();
            let trailing = format!("{comments}{trailing}");
            self.document.set_trailing(trailing);
            return;
        }
        for_each_table(self.document.as_table_mut(), &mut |table| {
            if table.position() == next {
                let prefix = format!("{comments}{}", prefix(table).trim_start_matches('\n'));
                table.decor_mut().set_prefix(prefix);
            }
        });
    }

    fn servers(&mut self, member: &str) -> anyhow::Result<&mut dyn TableLike> {
        let servers = self.document.get_mut(member);
        servers
            .context("the servers are gone")?
            .as_table_like_mut()
            .with_context(|| format!("`{member}` is not a table"))
    }
}

/// Returns the texts of the servers of a file, or `None` if it has no member for them.
pub(super) fn server_texts(
    text: &str,
    place: ServersPlace<'_>,
) -> anyhow::Result<Option<ServerTexts>> {
    let member = place.client.member;
    let mut file = TomlFile::parse(text)?;
    let Some(servers) = file.document.get(member).cloned() else {
        return Ok(None);
    };
    let mut entries = Vec::new();
    let table = file.servers(member)?;
    let names: Vec<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        if let Some((key, item)) = table.get_key_value(&name) {
            let text = entry_text(member, key, item);
            entries.push(ServerText { name, text });
        }
    }
    let mut only_servers = DocumentMut::new();
    only_servers.insert(member, servers);
    let file = only_servers.to_string();
    let file = file.trim_start_matches('\n').to_owned();
    Ok(Some(ServerTexts { entries, file }))
}

/// Returns a server as a table of its own, with the comments that belong to it.
fn entry_text(member: &str, key: &Key, item: &Item) -> String {
    let mut holder = Table::new();
    holder.set_implicit(true);
    let mut key = key.clone();
    let mut item = item.clone();
    if is_header_table(&item) {
        if let Some(table) = item.as_table_mut() {
            let (_, own) = split_prefix(prefix(table));
            let own = own.to_owned();
            table.decor_mut().set_prefix(own);
        }
    } else {
        // The spaces around the key were those of an assignment.
        key.leaf_decor_mut().clear();
        key.dotted_decor_mut().clear();
        let is_inline = item.is_inline_table();
        item = match item.into_table() {
            Ok(mut table) => {
                if is_inline {
                    table.fmt();
                }
                table.set_dotted(false);
                Item::Table(table)
            }
            Err(other) => other,
        };
    }
    holder.insert_formatted(&key, item);
    let mut document = DocumentMut::new();
    document.insert(member, Item::Table(holder));
    document.to_string().trim_start_matches('\n').to_owned()
}

/// Returns `true` for a table with a header of its own, or with headers of its parts.
fn is_header_table(item: &Item) -> bool {
    item.as_table().is_some_and(|table| !table.is_dotted())
}

/// Returns a file with the gateway's entry, and without the servers that move.
pub(super) fn replaced(
    text: &str,
    place: ServersPlace<'_>,
    moving: &BTreeSet<&str>,
    gateway: GatewayEntry<'_>,
) -> anyhow::Result<String> {
    let member = place.client.member;
    let mut file = TomlFile::parse(text)?;
    let servers = file.servers(member)?;
    let mut moved = String::new();
    let mut removed: Vec<RemovedTable> = Vec::new();
    for name in moving {
        let entry = servers.get_key_value(name);
        moved.extend(entry.map(|(key, item)| entry_text(member, key, item)));
        let item = servers.remove(name);
        if let Some(table) = item.as_ref().and_then(Item::as_table) {
            removed.push(RemovedTable::from_table(table));
        }
    }
    removed.sort_by_key(|table| table.position);
    match gateway {
        GatewayEntry::New { name, entry } => {
            let mut table = table_from(entry);
            let first = removed.first();
            table.set_position(first.and_then(|first| first.position));
            let is_first_line = first.is_some_and(|first| first.is_first_line);
            table
                .decor_mut()
                .set_prefix(if is_first_line { "" } else { "\n" });
            servers.insert(name, Item::Table(table));
        }
        GatewayEntry::Existing { name, variables } => {
            let entry = servers.get_mut(name).and_then(Item::as_table_like_mut);
            add_variables(entry.context("the gateway's entry is gone")?, variables);
        }
    }
    // The last comes first, so that several in one place stay in order.
    for table in removed.iter().rev() {
        file.insert_comments(table.position, &table.comments);
    }
    file.checked(text, member, &moved)
}

/// A table that was removed from its file.
struct RemovedTable {
    position: Option<isize>,
    /// `true` if nothing is in front of it in the file, not even a blank line.
    is_first_line: bool,
    /// The comments in front of it that do not belong to it.
    comments: String,
}

impl RemovedTable {
    fn from_table(table: &Table) -> Self {
        let (comments, _) = split_prefix(prefix(table));
        Self {
            position: table.position(),
            is_first_line: prefix(table).is_empty(),
            comments: comments.to_owned(),
        }
    }
}

/// Returns the blank lines and comments in front of a table.
fn prefix(table: &Table) -> &str {
    let prefix = table.decor().prefix();
    prefix.and_then(|prefix| prefix.as_str()).unwrap_or("\n")
}

/// Splits the lines in front of a table into comments that a blank line separates from it, and the
/// rest.
fn split_prefix(prefix: &str) -> (&str, &str) {
    match prefix.rfind("\n\n") {
        Some(at) if prefix[..at].contains('#') => prefix.split_at(at + 2),
        _ => ("", prefix),
    }
}

fn has_values(table: &Table) -> bool {
    !table.get_values().is_empty()
}

/// Visits all tables with headers inside a table, at any depth.
fn for_each_table(table: &mut Table, visit: &mut dyn FnMut(&mut Table)) {
    for (_, item) in table.iter_mut() {
        if let Some(inner) = item.as_table_mut() {
            visit(inner);
            for_each_table(inner, visit);
        }
        if let Some(tables) = item.as_array_of_tables_mut() {
            for inner in tables.iter_mut() {
                visit(inner);
                for_each_table(inner, visit);
            }
        }
    }
}

/// Adds the variables that are missing to the list of those that the client passes on.
fn add_variables(entry: &mut dyn TableLike, variables: &BTreeSet<String>) {
    if variables.is_empty() {
        return;
    }
    let list = entry
        .entry(VARIABLES)
        .or_insert_with(|| toml_edit::value(Array::new()));
    let Some(list) = list.as_array_mut() else {
        return;
    };
    for name in variables {
        if !list.iter().any(|known| known.as_str() == Some(name)) {
            list.push(name);
        }
    }
}

/// Returns the gateway's entry as a table.
fn table_from(entry: &Value) -> Table {
    let mut table = Table::new();
    for (name, value) in entry.as_object().into_iter().flatten() {
        let item = match value {
            Value::Array(values) => {
                let texts = values.iter().filter_map(Value::as_str);
                toml_edit::value(texts.collect::<Array>())
            }
            Value::Bool(value) => toml_edit::value(*value),
            other => toml_edit::value(other.as_str().unwrap_or_default()),
        };
        table.insert(name, item);
    }
    table
}

/// Returns a file with `moved` servers in place of the gateway's entry.
pub(super) fn restored(
    text: &str,
    place: ServersPlace<'_>,
    gateway: &str,
    moved: &[ServerText],
) -> anyhow::Result<String> {
    let member = place.client.member;
    let mut file = TomlFile::parse(text)?;
    let servers = file.servers(member)?;
    let entry = servers.remove(gateway);
    let entry = entry.context("the gateway's entry is gone")?;
    let position = entry.as_table().and_then(Table::position);
    let mut before = entry.as_table().map_or("\n", prefix).to_owned();
    if moved.is_empty() && before.contains('#') {
        file.insert_comments(position, &before);
        return file.checked(text, member, "");
    }
    for server in moved {
        let mut own = TomlFile::parse(&server.text)?;
        let own = own.servers(member)?;
        let Some((key, item)) = own.get_key_value(&server.name) else {
            continue;
        };
        let (key, mut item) = (key.clone(), item.clone());
        if let Some(table) = item.as_table_mut() {
            table.set_position(position);
            // The tables inside follow in their order.
            for_each_table(table, &mut |inner| inner.set_position(position));
            let own = prefix(table).trim_start_matches('\n');
            let prefix = format!("{before}{own}");
            table.decor_mut().set_prefix(prefix);
        }
        before = "\n".to_owned();
        servers.entry_format(&key).or_insert(item);
    }
    file.checked(text, member, "")
}
