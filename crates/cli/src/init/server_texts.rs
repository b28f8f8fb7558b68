//! The servers of a file as texts.

use std::collections::BTreeSet;

use serde_json::Value;

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
