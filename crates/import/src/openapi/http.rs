//! How an operation is called.

use std::collections::BTreeMap;

use picktools::catalog::http::SecurityScheme;
use serde_json::{Map, Value};

use super::references::References;
use super::{Found, Reader, Version};

/// Reads what an operation, or else the document, demands.
pub(super) fn security(
    document: &Value,
    operation: &Map<String, Value>,
    references: &References<'_>,
) -> Vec<BTreeMap<String, SecurityScheme>> {
    let demanded = operation
        .get("security")
        .or_else(|| document.get("security"));
    let alternatives = demanded
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object);
    let scheme = |(name, scopes): (&String, &Value)| {
        let schemes = ["/components/securitySchemes", "/securityDefinitions"];
        let defined = schemes
            .iter()
            .find_map(|holder| document.pointer(holder)?.get(name));
        let defined = defined.and_then(|scheme| references.object(scheme, "").ok());
        let text = |key| {
            defined
                .and_then(|scheme| scheme.get(key)?.as_str())
                .map(str::to_owned)
        };
        let scopes = scopes
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        // Version 2.0 knows `basic` as a type of its own.
        let scheme = match text("type").as_deref() {
            Some("basic") => SecurityScheme {
                kind: "http".to_owned(),
                scheme: Some("basic".to_owned()),
                ..SecurityScheme::default()
            },
            kind => SecurityScheme {
                kind: kind.unwrap_or_default().to_owned(),
                scheme: text("scheme"),
                place: text("in"),
                name: text("name"),
                scopes,
            },
        };
        (name.clone(), scheme)
    };
    alternatives
        .map(|schemes| schemes.iter().map(scheme).collect())
        .collect()
}

/// The server of an operation, without a slash at the end; empty where none is named.
pub(super) fn server(
    reader: &Reader<'_>,
    found: &Found<'_>,
    operation: &Map<String, Value>,
) -> String {
    let url = match reader.version {
        Version::Two => server_of_two(reader.document),
        Version::Three => {
            let holders = [
                operation.get("servers"),
                found.item.get("servers"),
                reader.document.get("servers"),
            ];
            let server = holders
                .into_iter()
                .flatten()
                .find_map(|servers| servers.as_array()?.first());
            server.map(server_of_three).unwrap_or_default()
        }
    };
    url.trim_end_matches('/').to_owned()
}

fn server_of_two(document: &Value) -> String {
    let text = |key| document.get(key).and_then(Value::as_str);
    let base = text("basePath").unwrap_or_default();
    let Some(host) = text("host") else {
        return base.to_owned();
    };
    let schemes: Vec<_> = document
        .get("schemes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let scheme = if schemes.contains(&"https") {
        "https"
    } else {
        schemes.first().copied().unwrap_or("https")
    };
    format!("{scheme}://{host}{base}")
}

/// The URL of a server, with the defaults of its variables.
fn server_of_three(server: &Value) -> String {
    let mut url = server
        .get("url")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    for (name, variable) in server
        .get("variables")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Some(value) = variable.get("default").and_then(Value::as_str) {
            url = url.replace(&format!("{{{name}}}"), value);
        }
    }
    url
}
