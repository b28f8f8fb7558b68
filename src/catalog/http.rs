//! Calls over HTTP: method, URL, arguments and authentication of a tool that is an operation of an
//! HTTP interface.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a tool is called over HTTP: kept for whoever runs it, and never shown to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpOperation {
    /// The method, in capitals.
    pub method: String,
    /// Server and path, with `{name}` where a parameter of the path goes; without a host where the
    /// document names none.
    pub url: String,
    /// Where each argument goes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Argument>,
    /// The media type of the body, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// What a caller proves who it is by: one of these sets of schemes by their names; none where
    /// it need not.
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
    /// How lists and objects are written, where that is not the default of the place:
    /// `spaceDelimited`, `deepObject`, ….
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
    /// Returns its name, as it is written in JSON.
    pub fn name(self) -> &'static str {
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
    /// `apiKey`, `http`, `oauth2`, `openIdConnect` or `mutualTLS`; empty where the document does
    /// not define the scheme.
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
