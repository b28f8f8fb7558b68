//! The decision which servers a role may use. It governs everything that a server carries beside
//! its tools: prompts, resources, templates, completions, subscriptions and instructions.

use std::collections::BTreeSet;
use std::sync::Arc;

use picktools::catalog::CatalogFile;
use picktools::{CatalogOptions, Tool};
use picktools_call::Hydrator;
use serde_json::json;

use super::upstream_tools::UpstreamTools;
use crate::settings::Settings;

/// The name of the tool that stands for a server without tools.
const STAND_IN: &str = "any_tool";

/// The servers that have listed their tools.
#[derive(Debug, Clone, Default)]
pub(super) struct ListedServers {
    with_tools: BTreeSet<String>,
    without_tools: BTreeSet<String>,
}

impl ListedServers {
    pub(super) fn new(upstream_tools: &[UpstreamTools]) -> Self {
        let mut listed = Self::default();
        for upstream in upstream_tools {
            let name = upstream.server.name.clone();
            if upstream.tools.is_empty() {
                listed.without_tools.insert(name);
            } else {
                listed.with_tools.insert(name);
            }
        }
        listed
    }

    fn contains(&self, server: &str) -> bool {
        self.with_tools.contains(server) || self.without_tools.contains(server)
    }
}

/// The servers that a role may use.
#[derive(Debug)]
pub(crate) struct ServerAccess {
    settings: Arc<Settings>,
    role: String,
    /// The servers of which the role may see a tool.
    visible: BTreeSet<String>,
    listed: ListedServers,
}

impl ServerAccess {
    /// Creates the decision for a role that may see these tools.
    pub(super) fn new(
        settings: &Arc<Settings>,
        role: &str,
        visible_tools: &[Arc<Tool>],
        listed: &ListedServers,
    ) -> Self {
        let sources = visible_tools.iter().filter_map(|tool| tool.source.clone());
        Self {
            settings: Arc::clone(settings),
            role: role.to_owned(),
            visible: sources.collect(),
            listed: listed.clone(),
        }
    }

    /// Returns `true` if the role may use what the server carries: it may see at least one tool of
    /// the server. A server without tools is decided like a server with one unsafe tool. A server
    /// that has not listed its tools yet cannot be used.
    pub(crate) fn may_use(&self, server: &str) -> bool {
        self.visible.contains(server)
            || self.listed.without_tools.contains(server) && self.admits_stand_in(server)
    }

    /// Returns `true` if the role may know the name of the server, although the server may not have
    /// listed its tools yet.
    pub(crate) fn may_know(&self, server: &str) -> bool {
        self.may_use(server) || !self.listed.contains(server) && self.admits_stand_in(server)
    }

    /// Returns `true` if the role may see an unsafe tool of the server.
    fn admits_stand_in(&self, server: &str) -> bool {
        let definition = json!({
            "name": STAND_IN,
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": false, "destructiveHint": true}
        });
        let file = CatalogFile::from_server(server, &[definition]);
        let Ok(catalog) = CatalogOptions::default().read_files(&[file]) else {
            return false;
        };
        let Ok(access) = self.settings.access(&self.role, &catalog) else {
            return false;
        };
        Hydrator::new(catalog, &access).is_ok_and(|hydrator| hydrator.admitted().next().is_some())
    }
}
