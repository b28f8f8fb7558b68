//! The members of a definition on which the validation and the confirmation of a call depend.

use std::sync::Arc;

use picktools::catalog::Tool;
use serde_json::{Value, json};

/// The members with their values, by name. Members for picks only, such as tags, are not among
/// them. The access policy decides on roles, modes and costs each time.
type RelevantMembers = [(&'static str, Value); 11];

/// Returns the members that decide what a call does and if it is valid.
pub(super) fn relevant_members(tool: &Tool) -> RelevantMembers {
    [
        ("id", json!(tool.id)),
        ("name", json!(tool.name)),
        ("description", json!(tool.description)),
        ("parameters", json!(tool.parameters)),
        ("source", json!(tool.source)),
        ("untrusted", json!(tool.untrusted)),
        ("no_schema_mode", json!(tool.no_schema_mode)),
        ("safe", json!(tool.safe)),
        ("safety", json!(tool.safety)),
        ("annotations", json!(tool.annotations)),
        ("http", json!(tool.http)),
    ]
}

/// Returns the names of the relevant members in which two definitions differ.
pub(super) fn changed_members(before: &Arc<Tool>, after: &Arc<Tool>) -> Vec<&'static str> {
    let mut changed = Vec::new();
    if Arc::ptr_eq(before, after) {
        return changed;
    }
    let pairs = relevant_members(before)
        .into_iter()
        .zip(relevant_members(after));
    for ((name, old), (_, new)) in pairs {
        if old != new {
            changed.push(name);
        }
    }
    changed
}
