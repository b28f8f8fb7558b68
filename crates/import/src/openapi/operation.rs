//! Operations of a document, before and after they are read.

use picktools::catalog::http::HttpOperation;
use picktools::excerpt::marked;
use picktools::schema::kind;
use serde_json::{Map, Value, json};

use super::error::OpenApiError;
use super::references::References;

/// The longest excerpt of an unknown key, in characters.
pub(super) const MAX_KEY_CHARS: usize = 60;
/// The longest excerpt of a path, in characters. Longer paths need not be told apart.
pub(super) const MAX_PATH_CHARS: usize = 500;

/// An operation of a document.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Operation {
    /// A unique name of letters, digits, `_` and `-`: the `operationId`, or else the method and
    /// path.
    pub name: String,
    /// The method and path, such as `GET /pets`.
    pub label: String,
    /// The summary, if the operation also has a description.
    pub title: Option<String>,
    /// The description without HTML; at most 4,000 characters.
    pub description: String,
    /// The tags, and `deprecated` if the operation is deprecated.
    pub tags: Vec<String>,
    /// One JSON Schema for parameters and body: an object without additional properties.
    pub parameters: Value,
    /// The HTTP request for a call.
    pub http: HttpOperation,
    /// The number of regular expressions that were left out because they cannot run in linear time.
    pub patterns_left_out: usize,
}

impl Operation {
    /// Converts the operation to a tool definition in JSON.
    ///
    /// `DELETE` is marked as destructive. `GET`, `HEAD`, `OPTIONS` and `QUERY` are marked as
    /// read-only, because the HTTP specification requires it.
    ///
    /// Source: RFC 9110, section 9.2, and draft-ietf-httpbis-safe-method-w-body for `QUERY`.
    pub fn into_tool(self) -> Value {
        let is_read_only = matches!(
            self.http.method.as_str(),
            "GET" | "HEAD" | "OPTIONS" | "QUERY"
        );
        let mut annotations = Map::new();
        if is_read_only {
            annotations.insert("readOnlyHint".to_owned(), true.into());
        }
        if self.http.method == "DELETE" {
            annotations.insert("destructiveHint".to_owned(), true.into());
        }
        if is_read_only || matches!(self.http.method.as_str(), "PUT" | "DELETE") {
            annotations.insert("idempotentHint".to_owned(), true.into());
        }
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "tags": self.tags,
            "parameters": self.parameters,
            "annotations": annotations,
            "http": self.http,
        })
    }
}

/// The major version of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// 2.0.
    Two,
    /// 3.0 and 3.1.
    Three,
}

impl Version {
    pub(super) fn from_document(document: &Value) -> Result<Self, OpenApiError> {
        let version = ["openapi", "swagger"]
            .into_iter()
            .find_map(|key| document.get(key));
        let text = match version {
            Some(Value::String(text)) => text.clone(),
            // YAML parses an unquoted `2.0` as a number.
            Some(Value::Number(number)) => number.to_string(),
            _ => {
                let description = match document {
                    Value::Object(members) => {
                        let keys: Vec<_> = members
                            .keys()
                            .map(|key| marked(key, MAX_KEY_CHARS))
                            .take(5)
                            .collect();
                        format!("an object with the members {keys:?}")
                    }
                    other => kind(other).to_owned(),
                };
                return Err(OpenApiError::NotOpenApi { found: description });
            }
        };
        match text.split('.').next() {
            Some("2") => Ok(Self::Two),
            Some("3") => Ok(Self::Three),
            _ => Err(OpenApiError::Version {
                found: marked(&text, MAX_KEY_CHARS).into_owned(),
            }),
        }
    }
}

/// An operation of the document that is not yet read.
pub(super) struct OperationEntry<'d> {
    pub(super) path: &'d str,
    /// As HTTP sends it.
    pub(super) method: String,
    pub(super) item: &'d Map<String, Value>,
    pub(super) operation: &'d Value,
    /// JSON pointer to the operation.
    pub(super) at: String,
    /// JSON pointer to the path item.
    pub(super) item_at: String,
}

impl OperationEntry<'_> {
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.method, marked(self.path, MAX_PATH_CHARS))
    }
}

/// Reader for the operations of one document.
pub(super) struct OperationReader<'d> {
    pub(super) document: &'d Value,
    pub(super) references: References<'d>,
    pub(super) version: Version,
}
