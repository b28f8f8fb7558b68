//! HTTP operations behind tools: method, URL, arguments and authentication.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The HTTP operation behind a tool. The caller that runs the tool uses it; models never see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpOperation {
    /// The method, in upper case.
    pub method: String,
    /// The server and path, with `{name}` for a path parameter; without a host if the document has
    /// none.
    pub url: String,
    /// The location of each argument in the HTTP request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Argument>,
    /// The media type of the body, if there is a body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The alternatives for authentication: each is a set of security schemes by name. Empty if no
    /// authentication is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security: Vec<BTreeMap<String, SecurityScheme>>,
}

/// The location of an argument in the HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// The part of the HTTP request.
    #[serde(rename = "in")]
    pub place: ArgumentLocation,
    /// The name in that part, if it differs from the argument's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The style of lists and objects, if it differs from the default: `spaceDelimited`,
    /// `deepObject`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<String>,
    /// `true` if each item of a list becomes a parameter; `None` if the document does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explode: Option<bool>,
    /// The form of the value in the request; `None` for the form that `style` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<ValueEncoding>,
}

/// A form of an argument's value in the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueEncoding {
    /// The value as JSON text.
    Json,
    /// The bytes that the value, a text, gives in base64.
    Base64,
}

/// A part of an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArgumentLocation {
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

impl ArgumentLocation {
    /// Returns the name in JSON.
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

/// A method of authentication, without the credentials, which are never in a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecurityScheme {
    /// `apiKey`, `http`, `oauth2`, `openIdConnect` or `mutualTLS`; empty if the document does not
    /// define the scheme.
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
    /// The scopes that the caller needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}
