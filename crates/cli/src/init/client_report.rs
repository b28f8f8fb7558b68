//! The report about a client's file.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::clients::ClientConfig;
use super::edit::StayingServer;
use super::summary::ServerSummary;
use crate::output;

/// The state of a client's file, done or planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// The file has no servers.
    NoServers,
    /// The file starts the gateway already.
    Already,
    /// The change waits for a confirmation.
    WouldWrite,
    Written,
    /// The file does not start the gateway.
    NotBehind,
    WouldRestore,
    Restored,
    /// The user declined.
    Declined,
    /// The file is not edited, and the message says what to do.
    ByHand,
    Failed,
}

/// The report about one client's file.
#[derive(Debug, Serialize)]
pub(super) struct ClientReport {
    pub(super) client: &'static str,
    #[serde(skip)]
    pub(super) title: &'static str,
    #[serde(skip)]
    pub(super) restart: &'static str,
    pub(super) file: String,
    /// The project, if the report is about the part of the file for one project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<String>,
    /// The file that the gateway reads.
    #[serde(skip)]
    pub(super) upstreams_file: String,
    pub(super) status: Status,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) servers: Vec<ServerSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) staying: Vec<StayingServer>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) variables: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) upstreams: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entry: Option<Value>,
    #[serde(skip)]
    pub(super) entry_name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) backup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

impl ClientReport {
    pub(super) fn new(place: &ClientConfig) -> Self {
        Self {
            client: place.client.name,
            title: place.client.title,
            restart: place.client.restart,
            file: printable(&place.file),
            project: place.inside.last().map(output::line),
            upstreams_file: printable(&place.upstreams),
            status: Status::NoServers,
            servers: Vec::new(),
            staying: Vec::new(),
            warnings: Vec::new(),
            variables: Vec::new(),
            upstreams: None,
            entry: None,
            entry_name: place.entry,
            backup: None,
            message: None,
        }
    }
}

pub(super) fn printable(path: impl AsRef<Path>) -> String {
    output::line(path.as_ref().display())
}
