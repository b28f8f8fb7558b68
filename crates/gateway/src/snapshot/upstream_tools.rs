//! The tools of an upstream.

use std::sync::Arc;

use picktools_import::mcp::Server;
use serde_json::Value;

use crate::settings::UpstreamRules;
use crate::upstream::StoredTools;

/// The tools that an upstream sent last.
pub(crate) struct UpstreamTools {
    pub(crate) server: Server,
    pub(crate) rules: UpstreamRules,
    pub(crate) tools: Arc<[Value]>,
    /// Its instructions, empty if it has none; `None` if they are not known.
    pub(crate) instructions: Option<String>,
}

/// The tools that an upstream sent last, before they are parsed.
pub(crate) struct UnparsedUpstreamTools {
    pub(crate) server: Server,
    pub(crate) rules: UpstreamRules,
    pub(crate) tools: StoredTools,
    pub(crate) instructions: Option<String>,
}

impl UnparsedUpstreamTools {
    /// Parses the definitions.
    ///
    /// # Errors
    ///
    /// A message with the name of the server, if they cannot be parsed.
    pub(crate) fn parse(self) -> Result<UpstreamTools, String> {
        let name = &self.server.name;
        let tools = self.tools.parse();
        let tools = tools.map_err(|error| {
            format!("the stored tools of the server {name:?} cannot be parsed: {error}")
        })?;
        Ok(UpstreamTools {
            server: self.server,
            rules: self.rules,
            tools,
            instructions: self.instructions,
        })
    }
}
