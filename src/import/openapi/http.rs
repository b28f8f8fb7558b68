//! How an operation is called.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::references::References;
use super::{Found, Reader, Version};

/// How a tool is called over HTTP: kept for whoever runs it, and never shown to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpOperation {
    /// The method, in capitals.
    pub method: String,
    /// Server and path, with `{name}` where a parameter of the path goes; without a host where the document names none.
    pub url: String,
    /// Where each argument goes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Argument>,
    /// The media type of the body, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// What a caller proves who it is by: one of these sets of schemes by their names; none where it need not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security: Vec<BTreeMap<String, SecurityScheme>>,
}

/// Where an argument goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// Into which part of the request.
    #[serde(rename = "in")]
    pub place: Place,
    /// Its name there, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How lists and objects are written, where that is not the default of the place: `spaceDelimited`, `deepObject`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<String>,
    /// Whether each item of a list is written by itself, where the document says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explode: Option<bool>,
}

/// A part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The path of the URL.
    Path,
    /// The query of the URL.
    Query,
    /// A header.
    Header,
    /// A cookie.
    Cookie,
    /// A member of the body.
    Field,
    /// The body itself.
    Body,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
            Self::Field => "field",
            Self::Body => "body",
        }
    }
}

/// How a caller proves who it is. What it proves it with is never in a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecurityScheme {
    /// `apiKey`, `http`, `oauth2`, `openIdConnect` or `mutualTLS`; empty where the document does not define the scheme.
    #[serde(rename = "type")]
    pub kind: String,
    /// For `http`: `basic`, `bearer`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// For `apiKey`: `query`, `header` or `cookie`.
    #[serde(default, rename = "in", skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// For `apiKey`: the name of the parameter, header or cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the caller must be allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// Reads what an operation, or else the document, demands.
pub(super) fn security(
    document: &Value,
    operation: &Map<String, Value>,
    references: &References<'_>,
) -> Vec<BTreeMap<String, SecurityScheme>> {
    let demanded = operation.get("security").or_else(|| document.get("security"));
    let alternatives = demanded.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    let scheme = |(name, scopes): (&String, &Value)| {
        let schemes = ["/components/securitySchemes", "/securityDefinitions"];
        let defined = schemes.iter().find_map(|holder| document.pointer(holder)?.get(name));
        let defined = defined.and_then(|scheme| references.object(scheme, "").ok());
        let text = |key| defined.and_then(|scheme| scheme.get(key)?.as_str()).map(str::to_owned);
        let scopes = scopes.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
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
    alternatives.map(|schemes| schemes.iter().map(scheme).collect()).collect()
}

/// The server of an operation, without a slash at the end; empty where none is named.
pub(super) fn server(reader: &Reader<'_>, found: &Found<'_>, operation: &Map<String, Value>) -> String {
    let url = match reader.version {
        Version::Two => server_of_two(reader.document),
        Version::Three => {
            let holders = [operation.get("servers"), found.item.get("servers"), reader.document.get("servers")];
            let server = holders.into_iter().flatten().find_map(|servers| servers.as_array()?.first());
            server.map(server_of_three).unwrap_or_default()
        }
    };
    url.trim_end_matches('/').to_owned()
}

fn server_of_two(document: &Value) -> String {
    let text = |key| document.get(key).and_then(Value::as_str);
    let base = text("basePath").unwrap_or_default();
    let Some(host) = text("host") else { return base.to_owned() };
    let schemes: Vec<_> =
        document.get("schemes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let scheme = if schemes.contains(&"https") { "https" } else { schemes.first().copied().unwrap_or("https") };
    format!("{scheme}://{host}{base}")
}

/// The URL of a server, with the defaults of its variables.
fn server_of_three(server: &Value) -> String {
    let mut url = server.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (name, variable) in server.get("variables").and_then(Value::as_object).into_iter().flatten() {
        if let Some(value) = variable.get("default").and_then(Value::as_str) {
            url = url.replace(&format!("{{{name}}}"), value);
        }
    }
    url
}
