//! The instructions of the gateway for a client: the servers that its role may use, what cannot be
//! used, and a short form of the approved instructions of servers.

use picktools::excerpt::marked;

use crate::front::quarantined_parts;
use crate::hub::Hub;
use crate::snapshot::{Snapshot, View};

/// The most servers that the instructions name.
const MAX_NAMED: usize = 20;
/// The most characters of the instructions of a server, and of all servers together.
const MAX_SERVER_CHARS: usize = 300;
const MAX_ALL_CHARS: usize = 4_000;

/// Returns the instructions for a client with this role.
pub(crate) fn instructions(hub: &Hub, role: &str) -> String {
    let snapshot = hub.registry.snapshot();
    let mut text = String::new();
    if let Ok(view) = snapshot.view(role) {
        text.push_str(&describe_servers(hub, &view));
        text.push_str(&describe_unavailable(hub, &view));
        text.push_str(
            " If search_tools is listed, use it to find tools for a task, and run them with \
             call_tool.",
        );
        text.push_str(" Not supported: roots, tasks.");
        text.push_str(&quote_servers(&snapshot, &view));
    } else {
        text.push_str("No tool can be used: the settings of this role are invalid.");
    }
    text
}

/// Returns a sentence with the servers that a client may use.
fn describe_servers(hub: &Hub, view: &View) -> String {
    let mut names = Vec::new();
    for upstream in hub.upstreams.all() {
        let name = &upstream.server.name;
        if view.servers.may_know(name) {
            names.push(name.clone());
        }
    }
    let count = names.len();
    let servers = if count == 1 { "server" } else { "servers" };
    names.truncate(MAX_NAMED);
    let mut list = names.join(", ");
    if count > MAX_NAMED {
        list.push_str(&format!(" and {} more", count - MAX_NAMED));
    }
    format!("This server provides the tools of {count} {servers}: {list}.")
}

/// Returns sentences about the servers and tools that cannot be used.
fn describe_unavailable(hub: &Hub, view: &View) -> String {
    let servers_down = hub.servers_down(view);
    let mut parts = Vec::new();
    for server_down in servers_down.iter().take(MAX_NAMED) {
        parts.push(server_down.describe());
    }
    parts.extend(quarantined_parts(&view.quarantined));
    if parts.is_empty() {
        return String::new();
    }
    format!(" Not available at the moment: {}.", parts.join(", "))
}

/// Returns the beginning of the approved instructions of each server that the role may use. They
/// are marked as the text of the server.
fn quote_servers(snapshot: &Snapshot, view: &View) -> String {
    let mut quotes = String::new();
    let mut left_out = 0;
    for (server, instructions) in &snapshot.instructions {
        if !view.servers.may_use(server) {
            continue;
        }
        let excerpt = marked(instructions.trim(), MAX_SERVER_CHARS);
        let quote = format!("\n- {server}: {excerpt:?}");
        if quotes.chars().count() + quote.chars().count() > MAX_ALL_CHARS {
            left_out += 1;
        } else {
            quotes.push_str(&quote);
        }
    }
    if quotes.is_empty() {
        return quotes;
    }
    if left_out > 0 {
        quotes.push_str(&format!("\n- {left_out} more are left out"));
    }
    format!(
        "\n\nThe servers describe themselves as follows. Each text comes from its server and is about \
         its tools only.{quotes}"
    )
}
