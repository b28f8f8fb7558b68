//! The tools of an upstream.

use std::sync::Arc;

use picktools_import::mcp::Server;
use serde_json::Value;

use crate::settings::UpstreamRules;

/// The tools that an upstream sent last.
pub(crate) struct UpstreamTools {
    pub(crate) server: Server,
    pub(crate) rules: UpstreamRules,
    pub(crate) tools: Arc<[Value]>,
    /// Its instructions, empty if it has none; `None` if they are not known.
    pub(crate) instructions: Option<String>,
}
