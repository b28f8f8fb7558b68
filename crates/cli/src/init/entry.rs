//! The entry of the gateway in a client's file: its names and its arguments.

use picktools_import::mcp::{Server, ServerTransport};

/// The name of the gateway's entry.
pub(super) const ENTRY: &str = "picktools";
/// The arguments that start the gateway, followed by the file of its servers.
pub(super) const ARGUMENTS: [&str; 2] = ["mcp", "--config"];
/// The names of the entries in a project's file, in the part of a user's file that holds for one
/// project, and in the second file of a client that reads two. One entry must not hide another.
pub(super) const PROJECT_ENTRY: &str = "picktools-project";
pub(super) const LOCAL_ENTRY: &str = "picktools-local";
pub(super) const SECOND_ENTRY: &str = "picktools-jsonc";
pub(super) const SECOND_PROJECT_ENTRY: &str = "picktools-project-jsonc";
/// The names of all entries that start the gateway.
pub(super) const ENTRIES: [&str; 5] = [
    ENTRY,
    PROJECT_ENTRY,
    LOCAL_ENTRY,
    SECOND_ENTRY,
    SECOND_PROJECT_ENTRY,
];

/// Returns `true` if a server is the gateway that `init` configured.
pub(crate) fn starts_gateway(server: &Server) -> bool {
    let ServerTransport::Stdio { arguments, .. } = &server.transport else {
        return false;
    };
    let start = arguments.iter().map(String::as_str).take(ARGUMENTS.len());
    ENTRIES.contains(&server.name.as_str()) && start.eq(ARGUMENTS)
}
