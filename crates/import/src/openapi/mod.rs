//! Reader for OpenAPI documents 2.0 (Swagger), 3.0, 3.1 and 3.2, in JSON or YAML. Every operation
//! becomes a tool.
//!
//! An operation contributes its name, its description, one JSON Schema for parameters and body, and
//! the location of each argument. Responses, callbacks and webhooks are ignored.
//!
//! References within the document are inlined. Circular references, and those of large schemas, are
//! kept under `$defs`.
//!
//! A schema with a discriminator also takes the properties of the schemas that extend it. Values of a
//! `type: string` are texts: `1.10` in YAML is the text `1.10`.
//!
//! Source: `spec.openapis.org/oas`, versions 2.0, 3.0.4, 3.1.1 and 3.2.0.
//!
//! ```
//! use picktools_import::openapi;
//!
//! let document = openapi::parse_document(
//!     "openapi: 3.0.0\n\
//!      info: {title: Pets, version: '1'}\n\
//!      servers: [{url: 'https://pets.example/v1'}]\n\
//!      paths: {'/pets/{id}': {delete: {summary: Removes a pet, \
//!      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]}}}\n",
//! )?;
//! let operation = &document.operations[0];
//! assert_eq!(operation.name, "delete_pets_by_id");
//! assert_eq!(operation.http.url, "https://pets.example/v1/pets/{id}");
//! assert_eq!(operation.parameters["properties"]["id"]["type"], "integer");
//! # Ok::<(), openapi::OpenApiError>(())
//! ```

mod arguments;
mod discriminators;
mod error;
mod http;
mod naming;
mod operation;
mod prose;
mod reader;
mod references;
mod schemas;
mod texts;

use rayon::prelude::*;
use serde_json::{Map, Value};

pub use error::{OpenApiError, OperationProblem, SkippedOperation};
pub use operation::Operation;
pub use reader::OpenApiReader;

use error::OperationError;
use operation::{MAX_KEY_CHARS, MAX_PATH_CHARS, OperationEntry, OperationReader, Version};
use picktools::catalog::http::HttpOperation;
use picktools::excerpt::marked;
use picktools::json;
use picktools::json::Json;
use references::References;

use crate::yaml;

/// The longest description of an operation, in characters.
const MAX_DESCRIPTION_CHARS: usize = 4_000;
/// The longest summary of an operation, in characters.
const MAX_SUMMARY_CHARS: usize = 200;

/// The HTTP methods that are operations of a path item.
const METHODS: [&str; 9] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace", "query",
];
/// The other members of a path item.
const PATH_MEMBERS: [&str; 5] = ["summary", "description", "servers", "parameters", "$ref"];
/// The member of a path item with the operations of further methods.
const ADDITIONAL_OPERATIONS: &str = "additionalOperations";

/// The content of an OpenAPI document.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Document {
    /// The title of the API; may be empty.
    pub title: String,
    /// The operations, in the order of the document.
    pub operations: Vec<Operation>,
    /// Operations and paths that were left out because they are invalid.
    pub left_out: Vec<SkippedOperation>,
}

impl Document {
    /// Returns the default source of the tools: the title in lower-case letters, digits and `_`.
    pub fn source(&self) -> Option<String> {
        let source = naming::plain(&self.title.to_lowercase());
        (!source.is_empty()).then_some(source)
    }
}

/// Returns `true` if a JSON value declares itself an OpenAPI document.
pub fn is_document(value: &Value) -> bool {
    ["openapi", "swagger"].iter().any(|key| {
        value
            .get(key)
            .is_some_and(|version| version.is_string() || version.is_number())
    })
}

/// Returns `true` if a text that is not JSON looks like an OpenAPI document in YAML.
pub fn is_yaml_document(text: &str) -> bool {
    text.lines().any(has_version_key)
}

/// Returns `true` if a line of YAML has the key of the version.
fn has_version_key(line: &str) -> bool {
    let line = line.trim_start_matches(['"', '\'']);
    let rest = line
        .strip_prefix("openapi")
        .or_else(|| line.strip_prefix("swagger"));
    let Some(rest) = rest else { return false };
    rest.trim_start_matches(['"', '\''])
        .trim_start()
        .starts_with(':')
}

/// Parses a document in JSON or YAML.
///
/// # Errors
///
/// [`OpenApiError`] if the text is neither, is not an OpenAPI document, or has no operations.
/// Invalid operations are not an error; they are in [`Document::left_out`].
pub fn parse_document(text: &str) -> Result<Document, OpenApiError> {
    let text = text.trim_start_matches('\u{feff}');
    let is_json = text.trim_start().starts_with('{');
    let Json {
        mut value,
        repeated,
    } = if is_json {
        serde_json::from_slice(&json::quote_long_numbers(text.as_bytes())).map_err(|error| {
            OpenApiError::Syntax {
                line: error.line(),
                column: error.column(),
                message: json::message(&error),
            }
        })?
    } else {
        yaml::parse(text).map_err(|fault| OpenApiError::Syntax {
            line: fault.line,
            column: fault.column,
            message: fault.message.to_owned(),
        })?
    };
    if let Some(pointer) = repeated.into_iter().next() {
        return Err(OpenApiError::Repeated { pointer });
    }
    let written = (!is_json && texts::would_change(&value))
        .then(|| yaml::scalar_texts(text, &value))
        .flatten();
    texts::keep(&mut value, written.as_ref());
    from_prepared(value)
}

/// Reads a parsed document.
///
/// # Errors
///
/// Those of [`parse_document`].
pub fn from_value(document: &Value) -> Result<Document, OpenApiError> {
    let mut document = document.clone();
    texts::keep(&mut document, None);
    from_prepared(document)
}

/// Reads a document whose texts are texts.
fn from_prepared(mut document: Value) -> Result<Document, OpenApiError> {
    let version = Version::from_document(&document)?;
    discriminators::flatten(&mut document);
    let document = &document;
    let references = References::new(document);
    let paths = document.get("paths").and_then(Value::as_object);
    let mut entries = Vec::new();
    let mut left_out = Vec::new();
    for (path, item) in paths.into_iter().flatten() {
        if path.starts_with("x-") {
            continue;
        }
        let at = format!("/paths/{}", references::part(path));
        match references.object(item, &at) {
            Ok(item) => operations(path, item, at, &mut entries, &mut left_out),
            Err(fault) => {
                left_out.push(fault.into_skipped(marked(path, MAX_PATH_CHARS).into_owned()));
            }
        }
    }
    if entries.is_empty() && left_out.is_empty() {
        return Err(OpenApiError::NoOperations);
    }
    let reader = OperationReader {
        document,
        references,
        version,
    };
    let results: Vec<_> = entries
        .par_iter()
        .map(|entry| reader.operation(entry))
        .collect();
    let mut operations = Vec::with_capacity(results.len());
    for (entry, result) in entries.iter().zip(results) {
        match result {
            Ok(operation) => operations.push(operation),
            Err(fault) => left_out.push(fault.into_skipped(entry.label())),
        }
    }
    naming::make_unique(&mut operations);
    let title = document
        .pointer("/info/title")
        .and_then(Value::as_str)
        .unwrap_or_default();
    Ok(Document {
        title: prose::clean(title, MAX_SUMMARY_CHARS),
        operations,
        left_out,
    })
}

/// Collects the operations of a path item in the order of the document, and reports its unknown
/// members.
fn operations<'d>(
    path: &'d str,
    item: &'d Map<String, Value>,
    at: String,
    entries: &mut Vec<OperationEntry<'d>>,
    left_out: &mut Vec<SkippedOperation>,
) {
    let entry = |method: String, operation, operation_at| OperationEntry {
        path,
        method,
        item,
        operation,
        at: operation_at,
        item_at: at.clone(),
    };
    let mut unknown = |key: &str, pointer: String| {
        let name = marked(key, MAX_KEY_CHARS).into_owned();
        let error = OperationError::new(pointer, OperationProblem::UnknownMember(name));
        left_out.push(error.into_skipped(marked(path, MAX_PATH_CHARS).into_owned()));
    };
    for (key, value) in item {
        let key_at = format!("{at}/{}", references::part(key));
        if METHODS.contains(&key.as_str()) {
            entries.push(entry(key.to_uppercase(), value, key_at));
        } else if let (ADDITIONAL_OPERATIONS, Value::Object(additional)) = (key.as_str(), value) {
            for (method, operation) in additional {
                let method_at = format!("{key_at}/{}", references::part(method));
                if is_method(method) {
                    entries.push(entry(method.clone(), operation, method_at));
                } else {
                    unknown(method, method_at);
                }
            }
        } else if !PATH_MEMBERS.contains(&key.as_str()) && !key.starts_with("x-") {
            unknown(key, key_at);
        }
    }
}

/// Returns `true` if a text can be sent as a method.
///
/// Source: RFC 9110, section 5.6.2.
fn is_method(text: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.len() <= MAX_KEY_CHARS && text.chars().all(is_token)
}

impl<'d> OperationReader<'d> {
    fn operation(&self, entry: &OperationEntry<'d>) -> Result<Operation, OperationError> {
        let operation = self.references.object(entry.operation, &entry.at)?;
        let text = |key| {
            operation
                .get(key)
                .or_else(|| entry.item.get(key))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let summary = prose::clean(text("summary"), MAX_SUMMARY_CHARS);
        let description = prose::clean(text("description"), MAX_DESCRIPTION_CHARS);
        let (title, description) = match (summary.is_empty(), description.is_empty()) {
            (true, true) => (None, entry.label()),
            (false, true) => (None, summary),
            (true, false) => (None, description),
            (false, false) => ((summary != description).then_some(summary), description),
        };
        let id = references::text_member(operation, "operationId");
        let title = title.or_else(|| naming::lost_name(id));
        let security = http::security(self.document, operation, &self.references);
        let arguments = arguments::convert(self, entry, operation, &security)?;
        let mut tags = Vec::new();
        for tag in references::array_member(operation, "tags") {
            tags.extend(tag.as_str().map(str::to_owned));
        }
        if operation.get("deprecated") == Some(&Value::Bool(true)) {
            tags.push("deprecated".to_owned());
        }
        Ok(Operation {
            label: entry.label(),
            name: naming::name(id, &entry.method.to_lowercase(), entry.path),
            title,
            description,
            tags,
            parameters: arguments.schema,
            http: HttpOperation {
                method: entry.method.clone(),
                url: format!("{}{}", http::server(self, entry, operation), entry.path),
                arguments: arguments.locations,
                content_type: arguments.content_type,
                security,
            },
            patterns_left_out: arguments.patterns_left_out,
        })
    }
}
