//! Security requirements and server URL of an operation.

use std::collections::BTreeMap;

use picktools::catalog::http::SecurityScheme;
use serde_json::{Map, Value};

use super::operation::{OperationEntry, OperationReader, Version};
use super::references::{References, object_member, text_member};

/// Collects the security requirements of an operation; those of the document apply if it has none.
pub(super) fn security(
    document: &Value,
    operation: &Map<String, Value>,
    references: &References<'_>,
) -> Vec<BTreeMap<String, SecurityScheme>> {
    let requirements = operation
        .get("security")
        .or_else(|| document.get("security"));
    let Some(Value::Array(requirements)) = requirements else {
        return Vec::new();
    };
    let mut alternatives = Vec::new();
    for requirement in requirements {
        let Value::Object(requirement) = requirement else {
            continue;
        };
        let mut schemes = BTreeMap::new();
        for (name, scopes) in requirement {
            let scheme = security_scheme(document, name, scopes, references);
            schemes.insert(name.clone(), scheme);
        }
        alternatives.push(schemes);
    }
    alternatives
}

fn security_scheme(
    document: &Value,
    name: &str,
    scopes: &Value,
    references: &References<'_>,
) -> SecurityScheme {
    let holders = ["/components/securitySchemes", "/securityDefinitions"];
    let definition = holders
        .iter()
        .find_map(|holder| document.pointer(holder)?.get(name));
    let definition = definition.and_then(|scheme| references.object(scheme, "").ok());
    let text = |key| text_member(definition?, key);
    // In version 2.0, `basic` is a type.
    if text("type") == Some("basic") {
        return SecurityScheme {
            kind: "http".to_owned(),
            scheme: Some("basic".to_owned()),
            ..SecurityScheme::default()
        };
    }
    let mut scope_names = Vec::new();
    for scope in scopes.as_array().into_iter().flatten() {
        scope_names.extend(scope.as_str().map(str::to_owned));
    }
    SecurityScheme {
        kind: text("type").unwrap_or_default().to_owned(),
        scheme: text("scheme").map(str::to_owned),
        place: text("in").map(str::to_owned),
        name: text("name").map(str::to_owned),
        scopes: scope_names,
    }
}

/// Returns the server URL of an operation without a trailing slash; empty if the document names
/// none.
pub(super) fn server(
    reader: &OperationReader<'_>,
    entry: &OperationEntry<'_>,
    operation: &Map<String, Value>,
) -> String {
    let url = match reader.version {
        Version::Two => server_from_version_2(reader.document),
        Version::Three => {
            let holders = [
                operation.get("servers"),
                entry.item.get("servers"),
                reader.document.get("servers"),
            ];
            let server = holders
                .into_iter()
                .flatten()
                .find_map(|servers| servers.as_array()?.first());
            server.map(server_from_version_3).unwrap_or_default()
        }
    };
    url.trim_end_matches('/').to_owned()
}

fn server_from_version_2(document: &Value) -> String {
    let text = |key| document.get(key)?.as_str();
    let base = text("basePath").unwrap_or_default();
    let Some(host) = text("host") else {
        return base.to_owned();
    };
    let mut schemes: Vec<&str> = Vec::new();
    if let Some(Value::Array(names)) = document.get("schemes") {
        schemes.extend(names.iter().filter_map(Value::as_str));
    }
    let scheme = if schemes.contains(&"https") {
        "https"
    } else {
        schemes.first().copied().unwrap_or("https")
    };
    format!("{scheme}://{host}{base}")
}

/// Returns the URL of a server, with the defaults of its variables.
fn server_from_version_3(server: &Value) -> String {
    let Some(server) = server.as_object() else {
        return String::new();
    };
    let mut url = text_member(server, "url").unwrap_or_default().to_owned();
    for (name, variable) in object_member(server, "variables") {
        if let Some(Value::String(value)) = variable.get("default") {
            url = url.replace(&format!("{{{name}}}"), value);
        }
    }
    url
}
