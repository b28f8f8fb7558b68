//! A client's file as a text with servers, whatever its notation.

use std::collections::BTreeSet;

use anyhow::bail;
use serde_json::Value;

use super::places::{McpClient, Notation, ServersPlace};
use super::{json_file, toml_file};

/// The texts of the servers of a file.
#[derive(Debug)]
pub(super) struct ServerTexts {
    pub(super) entries: Vec<ServerText>,
    /// A file with all these servers and nothing else.
    pub(super) file: String,
}

/// A server in the notation of its file.
#[derive(Debug, Clone)]
pub(super) struct ServerText {
    pub(super) name: String,
    pub(super) text: String,
}

/// The gateway's entry of an edited file.
#[derive(Debug, Clone, Copy)]
pub(super) enum GatewayEntry<'a> {
    New {
        name: &'a str,
        entry: &'a Value,
    },
    /// The file has it already. It must pass these variables on, if the client passes no others.
    Existing {
        name: &'a str,
        variables: &'a BTreeSet<String>,
    },
}

/// Returns the texts of the servers of a file, or `None` if it has no member for them.
pub(super) fn server_texts(
    text: &str,
    place: ServersPlace<'_>,
) -> anyhow::Result<Option<ServerTexts>> {
    match place.client.notation {
        Notation::Json => json_file::server_texts(text, place),
        Notation::Toml => toml_file::server_texts(text, place),
        Notation::Yaml => bail!("files in YAML are not edited"),
    }
}

/// Returns a file with these servers only.
pub(super) fn servers_file(client: &McpClient, entries: &[&str]) -> String {
    match client.notation {
        Notation::Json => json_file::servers_file(client, entries),
        Notation::Toml | Notation::Yaml => entries.join("\n"),
    }
}

/// Returns a file with the gateway's entry, and without the servers that move.
pub(super) fn replaced(
    text: &str,
    place: ServersPlace<'_>,
    moving: &BTreeSet<&str>,
    gateway: GatewayEntry<'_>,
) -> anyhow::Result<String> {
    match place.client.notation {
        Notation::Json => json_file::replaced(text, place, moving, gateway),
        Notation::Toml => toml_file::replaced(text, place, moving, gateway),
        Notation::Yaml => bail!("files in YAML are not edited"),
    }
}

/// Returns a file with `moved` servers in place of the gateway's entry.
pub(super) fn restored(
    text: &str,
    place: ServersPlace<'_>,
    gateway: &str,
    moved: &[ServerText],
) -> anyhow::Result<String> {
    match place.client.notation {
        Notation::Json => json_file::restored(text, place, gateway, moved),
        Notation::Toml => toml_file::restored(text, place, gateway, moved),
        Notation::Yaml => bail!("files in YAML are not edited"),
    }
}
