//! OpenAPI documents (2.0, which was called Swagger, 3.0 and 3.1; JSON or YAML): an operation a
//! tool.
//!
//! What is read of an operation is what a caller must know: its name, what it does, one JSON Schema
//! for parameters and body, and where each argument goes. Responses, callbacks and webhooks are not
//! read. References within the document are written out where they stand, and where they run in a
//! circle, or the whole would be large, kept under `$defs`.
//!
//! Source: `spec.openapis.org/oas`, versions 2.0, 3.0.4 and 3.1.1.
//!
//! ```
//! use picktools_import::openapi;
//!
//! let document = openapi::read(
//!     "openapi: 3.0.0\n\
//!      info: {title: Pets, version: '1'}\n\
//!      servers: [{url: 'https://pets.example/v1'}]\n\
//!      paths: {'/pets/{id}': {delete: {summary: Removes a pet, parameters: [{name: id, in: path, required: true, \
//!      schema: {type: integer}}]}}}\n",
//! )?;
//! let operation = &document.operations[0];
//! assert_eq!(operation.name, "delete_pets_by_id");
//! assert_eq!(operation.http.url, "https://pets.example/v1/pets/{id}");
//! assert_eq!(operation.parameters["properties"]["id"]["type"], "integer");
//! # Ok::<(), openapi::OpenApiError>(())
//! ```

mod arguments;
mod error;
mod http;
mod naming;
mod prose;
mod reader;
mod references;
mod schemas;
mod yaml;

use rayon::prelude::*;
use serde_json::{Map, Value, json};

pub use error::{LeftOut, OpenApiError, Refusal};
pub use reader::OpenApiReader;

use error::Fault;
use picktools::catalog::http::HttpOperation;
use picktools::excerpt::marked;
use picktools::json;
use picktools::json::Json;
use picktools::schema::kind;
use references::References;

/// The most characters of an operation's description.
const MAX_DESCRIPTION_CHARS: usize = 4_000;
/// The most characters of its summary.
const MAX_SUMMARY_CHARS: usize = 200;
/// How much is shown of a key that is not known.
const MAX_KEY_CHARS: usize = 60;

/// How much is shown of a path; longer ones do not tell operations apart.
const MAX_PATH_CHARS: usize = 500;

/// The methods of a path item that are operations.
const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// A document that was read.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Document {
    /// What the interface is called; may be empty.
    pub title: String,
    /// Its operations, in the order in which they stand there.
    pub operations: Vec<Operation>,
    /// Operations, and whole paths, that could not be read.
    pub left_out: Vec<LeftOut>,
}

/// An operation that was read.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Operation {
    /// A name of letters, digits, `_` and `-` that no other operation of the document has: its
    /// `operationId`, else its method and path.
    pub name: String,
    /// Its method and path, such as `GET /pets`.
    pub label: String,
    /// Its summary, where it has a description beside it.
    pub title: Option<String>,
    /// What it does, without HTML; at most 4,000 characters.
    pub description: String,
    /// Its tags, and `deprecated` where it is.
    pub tags: Vec<String>,
    /// One JSON Schema for parameters and body: an object that takes no further members.
    pub parameters: Value,
    /// How it is called.
    pub http: HttpOperation,
    /// How many regular expressions were left out, because they cannot be run in linear time.
    pub patterns_left_out: usize,
}

impl Document {
    /// The source of its tools where nothing else names one: its title, in small letters, digits
    /// and `_`.
    pub fn source(&self) -> Option<String> {
        let source = naming::plain(&self.title.to_lowercase());
        (!source.is_empty()).then_some(source)
    }
}

impl Operation {
    /// Its definition as JSON: a tool's, which a catalog reads. `DELETE` is marked as destructive;
    /// `GET`, `HEAD` and `OPTIONS` as reading only, which the specification of HTTP demands of
    /// them.
    ///
    /// Source: RFC 9110, section 9.2.
    pub fn into_tool(self) -> Value {
        let reads = matches!(self.http.method.as_str(), "GET" | "HEAD" | "OPTIONS");
        let mut annotations = Map::new();
        if reads {
            annotations.insert("readOnlyHint".to_owned(), true.into());
        }
        if self.http.method == "DELETE" {
            annotations.insert("destructiveHint".to_owned(), true.into());
        }
        if reads || matches!(self.http.method.as_str(), "PUT" | "DELETE") {
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

/// Returns `true` if a JSON value says of itself that it is an OpenAPI document.
pub fn is_document(value: &Value) -> bool {
    ["openapi", "swagger"].iter().any(|key| {
        value
            .get(key)
            .is_some_and(|version| version.is_string() || version.is_number())
    })
}

/// Returns `true` if a text that is not JSON looks like an OpenAPI document in YAML.
pub fn is_yaml_document(text: &str) -> bool {
    let key = |line: &str| {
        let line = line.trim_start_matches(['"', '\'']);
        let rest = line
            .strip_prefix("openapi")
            .or_else(|| line.strip_prefix("swagger"))?;
        rest.trim_start_matches(['"', '\''])
            .trim_start()
            .strip_prefix(':')
            .map(drop)
    };
    text.lines().any(|line| key(line).is_some())
}

/// Reads a document, JSON or YAML.
///
/// # Errors
///
/// [`OpenApiError`] when the text is neither, no OpenAPI document, or holds no operation.
/// Operations that cannot be read are no error; they stand in [`Document::left_out`].
pub fn read(text: &str) -> Result<Document, OpenApiError> {
    let text = text.trim_start_matches('\u{feff}');
    let Json { value, repeated } = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| OpenApiError::Syntax {
            line: error.line(),
            column: error.column(),
            message: json::message(&error),
        })?
    } else {
        yaml::read(text)?
    };
    match repeated.into_iter().next() {
        Some(pointer) => Err(OpenApiError::Repeated { pointer }),
        None => from_value(&value),
    }
}

/// Reads a document that was parsed already.
///
/// # Errors
///
/// As [`read`].
pub fn from_value(document: &Value) -> Result<Document, OpenApiError> {
    let version = Version::of(document)?;
    let references = References::new(document);
    let paths = document.get("paths").and_then(Value::as_object);
    let mut found = Vec::new();
    let mut left_out = Vec::new();
    for (path, item) in paths
        .into_iter()
        .flatten()
        .filter(|(path, _)| !path.starts_with("x-"))
    {
        let at = format!("/paths/{}", references::part(path));
        match references.object(item, &at) {
            Ok(item) => found.extend(operations(path, item, &at)),
            Err(fault) => left_out.push(fault.of(marked(path, MAX_PATH_CHARS).into_owned())),
        }
    }
    if found.is_empty() && left_out.is_empty() {
        return Err(OpenApiError::NoOperations);
    }
    let reader = Reader {
        document,
        references,
        version,
    };
    let read: Vec<_> = found
        .par_iter()
        .map(|found| reader.operation(found))
        .collect();
    let mut operations = Vec::with_capacity(read.len());
    for (found, result) in found.iter().zip(read) {
        match result {
            Ok(operation) => operations.push(operation),
            Err(fault) => left_out.push(fault.of(found.label())),
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

/// What differs between the versions of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// 2.0.
    Two,
    /// 3.0 and 3.1.
    Three,
}

impl Version {
    fn of(document: &Value) -> Result<Self, OpenApiError> {
        let given = ["openapi", "swagger"]
            .into_iter()
            .find_map(|key| document.get(key));
        let text = match given {
            Some(Value::String(text)) => text.clone(),
            // YAML reads a bare `2.0` as a number.
            Some(Value::Number(number)) => number.to_string(),
            _ => {
                let found = match document {
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
                return Err(OpenApiError::NotOpenApi { found });
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

/// Where an operation stands.
struct Found<'d> {
    path: &'d str,
    method: &'static str,
    item: &'d Map<String, Value>,
    operation: &'d Value,
    /// The pointer to it.
    at: String,
}

impl Found<'_> {
    fn label(&self) -> String {
        format!(
            "{} {}",
            self.method.to_uppercase(),
            marked(self.path, MAX_PATH_CHARS)
        )
    }
}

fn operations<'d>(path: &'d str, item: &'d Map<String, Value>, at: &str) -> Vec<Found<'d>> {
    // In the order of the document, not of the list above.
    let method = |key: &str| METHODS.into_iter().find(|method| *method == key);
    let found = item.iter().filter_map(|(key, operation)| {
        method(key).map(|method| Found {
            path,
            method,
            item,
            operation,
            at: format!("{at}/{method}"),
        })
    });
    found.collect()
}

/// What every operation of a document is read with.
struct Reader<'d> {
    document: &'d Value,
    references: References<'d>,
    version: Version,
}

impl<'d> Reader<'d> {
    fn operation(&self, found: &Found<'d>) -> Result<Operation, Fault> {
        let operation = self.references.object(found.operation, &found.at)?;
        let text = |key| {
            operation
                .get(key)
                .or_else(|| found.item.get(key))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let summary = prose::clean(text("summary"), MAX_SUMMARY_CHARS);
        let description = prose::clean(text("description"), MAX_DESCRIPTION_CHARS);
        let (title, description) = match (summary.is_empty(), description.is_empty()) {
            (true, true) => (None, found.label()),
            (false, true) => (None, summary),
            (true, false) => (None, description),
            (false, false) => (
                Some(summary).filter(|summary| *summary != description),
                description,
            ),
        };
        let security = http::security(self.document, operation, &self.references);
        let arguments = arguments::read(self, found, operation, &security)?;
        let tags = operation
            .get("tags")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let deprecated = operation.get("deprecated") == Some(&Value::Bool(true));
        Ok(Operation {
            label: found.label(),
            name: naming::name(
                operation.get("operationId").and_then(Value::as_str),
                found.method,
                found.path,
            ),
            title,
            description,
            tags: tags
                .map(str::to_owned)
                .chain(deprecated.then(|| "deprecated".to_owned()))
                .collect(),
            parameters: arguments.schema,
            http: HttpOperation {
                method: found.method.to_uppercase(),
                url: format!("{}{}", http::server(self, found, operation), found.path),
                arguments: arguments.places,
                content_type: arguments.content_type,
                security,
            },
            patterns_left_out: arguments.patterns_left_out,
        })
    }
}
