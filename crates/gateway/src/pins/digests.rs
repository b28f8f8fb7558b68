//! Digests of definitions, and of the programs and URLs that send them.

use std::collections::BTreeMap;

use picktools_import::mcp::{Server, ServerTransport};
use serde_json::{Map, Value, json};

use super::code_variables::code_variables;

/// The members of a definition that a model sees, or that decide about a call.
const MEMBERS: [&str; 6] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];

/// Returns the pinned members of a definition.
pub(super) fn pinned_members(definition: &Value) -> Value {
    let members = definition.as_object().into_iter().flatten();
    let members: Map<String, Value> = members
        .filter(|(key, _)| MEMBERS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Value::Object(members)
}

/// Returns the digest of a value, independent of the order of members.
pub(super) fn digest(value: &Value) -> String {
    fn ordered(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let sorted: BTreeMap<&String, &Value> = members.iter().collect();
                Value::Object(
                    sorted
                        .into_iter()
                        .map(|(key, value)| (key.clone(), ordered(value)))
                        .collect(),
                )
            }
            Value::Array(items) => Value::Array(items.iter().map(ordered).collect()),
            other => other.clone(),
        }
    }
    sha256(&ordered(value).to_string())
}

/// Returns the digest of a server's endpoint: its program with arguments and folder, or its URL.
/// Variables that make a program run other code belong to it. Other variables and headers, which
/// may be secret, are left out.
pub(crate) fn endpoint_digest(server: &Server) -> String {
    let endpoint = match &server.transport {
        ServerTransport::Stdio {
            command,
            arguments,
            folder,
            variables,
            inherit,
        } => {
            let code = code_variables(variables, inherit);
            match code.is_empty() {
                true => json!([command, arguments, folder]),
                false => json!([command, arguments, folder, code]),
            }
        }
        ServerTransport::Http { url, .. } => json!([url]),
    };
    sha256(&endpoint.to_string())
}

pub(super) fn sha256(text: &str) -> String {
    format!("sha256:{}", picktools_audit::sha256(text.as_bytes()))
}
