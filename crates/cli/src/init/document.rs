//! A client's file as a text with servers, whatever its notation.

use std::collections::BTreeSet;

use anyhow::bail;

use super::clients::{McpClient, Notation, ServersPlace};
use super::server_texts::{GatewayEntry, ServerText, ServerTexts};
use super::{json_file, toml_file};

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
