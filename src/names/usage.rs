//! What is logged of names: on the level debug each alias that is registered, and each use of
//! another name than a tool's own; as a warning each that was called and that no tool has, as
//! whoever called has the error itself.

use tracing::{debug, warn};

use crate::catalog::{Alias, Catalog, Tool};
use crate::excerpt::{MAX_NAME_CHARS, marked};

/// Logs every alias of a catalog.
pub fn log_registered(catalog: &Catalog) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    for tool in catalog.tools() {
        for Alias { name, deprecated } in &tool.aliases {
            debug!(
                alias = %marked(name, MAX_NAME_CHARS),
                canonical = %marked(&tool.name, MAX_NAME_CHARS),
                tool = %marked(&tool.id, MAX_NAME_CHARS),
                deprecated,
                "registered alias"
            );
        }
    }
}

/// Logs that a name was called which no tool has.
pub fn log_unknown(requested: &str) {
    warn!(requested = %marked(requested, MAX_NAME_CHARS), "unknown tool called");
}

/// Logs that a tool is used by another name than its own, and what a model was shown it as, where
/// that is known.
pub fn log_use(requested: &str, advertised: Option<&str>, tool: &Tool, deprecated: bool) {
    if requested != tool.name {
        debug!(
            requested = %marked(requested, MAX_NAME_CHARS),
            advertised = advertised.map(|name| tracing::field::display(marked(name, MAX_NAME_CHARS))),
            canonical = %marked(&tool.name, MAX_NAME_CHARS),
            tool = %marked(&tool.id, MAX_NAME_CHARS),
            deprecated,
            "tool alias used"
        );
    }
}
