//! Log events of names.
//!
//! Each alias of a catalog, and each use of another name than a tool's canonical one, is logged at
//! level debug. Each call of an unknown name is logged at level warn, because its error goes only
//! to the caller.

use tracing::{debug, warn};

use crate::catalog::{Alias, Catalog, Tool};
use crate::excerpt::{MAX_NAME_CHARS, marked};

/// Logs every alias of a catalog, or the error of a definition that cannot be read.
pub fn log_registered(catalog: &Catalog) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let tools = match catalog.tools() {
        Ok(tools) => tools,
        Err(error) => return debug!(%error, "cannot list the aliases"),
    };
    for tool in tools {
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

/// Logs the call of a name that no tool has.
pub fn log_unknown(requested: &str) {
    warn!(requested = %marked(requested, MAX_NAME_CHARS), "unknown tool called");
}

/// Logs the use of a tool by another name than its canonical one, with the shown name if that is
/// known.
pub fn log_use(requested: &str, advertised: Option<&str>, tool: &Tool, deprecated: bool) {
    if requested != tool.name {
        let advertised = advertised.map(|name| marked(name, MAX_NAME_CHARS));
        debug!(
            requested = %marked(requested, MAX_NAME_CHARS),
            advertised = advertised.map(tracing::field::display),
            canonical = %marked(&tool.name, MAX_NAME_CHARS),
            tool = %marked(&tool.id, MAX_NAME_CHARS),
            deprecated,
            "tool alias used"
        );
    }
}
