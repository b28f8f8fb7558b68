//! The OpenAPI description of the API, as JSON and as a page.

use std::sync::{Arc, LazyLock};

use askama::Template;
use axum::Router;
use axum::http::header;
use axum::routing::get;
use regex::Regex;
use serde_json::Value;
use utoipa::openapi::OpenApi;

const STYLE: &str = include_str!("viewer.css");
/// The HTTP methods of operations.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The page that shows the description.
#[derive(Template)]
#[template(path = "api.html")]
struct ApiPage {
    version: String,
    operations: Vec<OperationDoc>,
    schemas: Vec<SchemaDoc>,
}

struct OperationDoc {
    method: String,
    path: String,
    summary: String,
    description: String,
    /// The parameters of the path and the query.
    parameters: Vec<MemberDoc>,
    /// The schema of the body.
    body: Option<TypeDoc>,
    responses: Vec<ResponseDoc>,
}

struct ResponseDoc {
    status: String,
    description: String,
    kind: Option<TypeDoc>,
}

/// A named schema.
struct SchemaDoc {
    name: String,
    description: String,
    members: Vec<MemberDoc>,
    /// The alternatives, if the schema is not an object.
    kinds: Vec<String>,
}

struct MemberDoc {
    name: String,
    kind: TypeDoc,
    is_required: bool,
    description: String,
}

/// A type in words, with the name of its schema if it has one.
struct TypeDoc {
    text: String,
    schema: Option<String>,
}

/// Returns the routes of the description.
pub(super) fn routes(description: &OpenApi) -> Router {
    let json: Arc<str> = description.to_json().unwrap_or_default().into();
    let page: Arc<str> = render_page(&json).into();
    let file = |kind: &'static str, text: Arc<str>| {
        get(move || {
            let text = Arc::clone(&text);
            async move { ([(header::CONTENT_TYPE, kind)], text.to_string()) }
        })
    };
    Router::new()
        .route("/openapi.json", file("application/json", json))
        .route("/docs", file("text/html; charset=utf-8", page))
        .route(
            "/docs/style.css",
            file("text/css; charset=utf-8", STYLE.into()),
        )
}

fn render_page(json: &str) -> String {
    let description: Value = serde_json::from_str(json).unwrap_or_default();
    let mut operations = Vec::new();
    for (path, item) in description["paths"].as_object().into_iter().flatten() {
        for method in METHODS {
            if let Some(operation) = item.get(method) {
                operations.push(OperationDoc::new(method, path, operation));
            }
        }
    }
    let mut schemas = Vec::new();
    let components = description["components"]["schemas"].as_object();
    for (name, schema) in components.into_iter().flatten() {
        schemas.push(SchemaDoc::new(name, schema));
    }
    let page = ApiPage {
        version: text(&description["info"]["version"]),
        operations,
        schemas,
    };
    page.render().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns documentation without the markup of Rust: no examples, link targets and backticks.
fn prose(value: &Value) -> String {
    static LINK: LazyLock<Result<Regex, regex::Error>> =
        LazyLock::new(|| Regex::new(r"\[`([^`\]]+)`\](?:\([^)]*\))?"));
    let text = value
        .as_str()
        .unwrap_or_default()
        .split("```")
        .next()
        .unwrap_or_default()
        .trim_end();
    let unlinked = LINK
        .as_ref()
        .map_or(text.into(), |link| link.replace_all(text, "$1"));
    unlinked.replace('`', "")
}

impl OperationDoc {
    fn new(method: &str, path: &str, operation: &Value) -> Self {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let parameters = parameters.map(|parameter| MemberDoc {
            name: text(&parameter["name"]),
            kind: TypeDoc::from_schema(&parameter["schema"]),
            is_required: parameter["required"] == true,
            description: prose(&parameter["description"]),
        });
        let content_type = |message: &Value| {
            let content = message["content"].as_object()?.values().next()?;
            Some(TypeDoc::from_schema(&content["schema"]))
        };
        let responses = operation["responses"].as_object().into_iter().flatten();
        Self {
            method: method.to_uppercase(),
            path: path.to_owned(),
            summary: prose(&operation["summary"]),
            description: prose(&operation["description"]),
            parameters: parameters.collect(),
            body: content_type(&operation["requestBody"]),
            responses: responses
                .map(|(status, answer)| ResponseDoc {
                    status: status.clone(),
                    description: prose(&answer["description"]),
                    kind: content_type(answer),
                })
                .collect(),
        }
    }
}

impl SchemaDoc {
    fn new(name: &str, schema: &Value) -> Self {
        // A composition of several schemas is shown as one.
        let parts = schema["allOf"]
            .as_array()
            .map_or_else(|| vec![schema], |parts| parts.iter().collect());
        let members = parts.iter().flat_map(|part| {
            let required = part["required"].as_array().cloned().unwrap_or_default();
            part["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .map(move |(name, member)| MemberDoc {
                    name: name.clone(),
                    kind: TypeDoc::from_schema(member),
                    is_required: required.iter().any(|required| required == name),
                    description: prose(&member["description"]),
                })
        });
        let referenced = parts
            .iter()
            .filter(|part| part["$ref"].is_string())
            .map(|part| TypeDoc::from_schema(part).text);
        let choices = schema["oneOf"]
            .as_array()
            .or_else(|| schema["enum"].as_array())
            .into_iter()
            .flatten();
        let choices = choices.map(|choice| match choice {
            Value::String(text) => text.clone(),
            choice => TypeDoc::from_schema(choice).text,
        });
        Self {
            name: name.to_owned(),
            description: prose(&schema["description"]),
            members: members.collect(),
            kinds: referenced
                .chain(choices)
                .filter(|kind| !kind.is_empty())
                .collect(),
        }
    }
}

impl TypeDoc {
    fn from_schema(schema: &Value) -> Self {
        if let Some(name) = schema["$ref"]
            .as_str()
            .and_then(|reference| reference.rsplit('/').next())
        {
            return Self {
                text: name.to_owned(),
                schema: Some(name.to_owned()),
            };
        }
        let one_of = schema["oneOf"]
            .as_array()
            .or_else(|| schema["anyOf"].as_array());
        if let Some(kinds) = one_of {
            let kinds: Vec<Self> = kinds.iter().map(Self::from_schema).collect();
            let text = kinds
                .iter()
                .map(|kind| kind.text.as_str())
                .collect::<Vec<_>>()
                .join(" or ");
            return Self {
                text,
                schema: kinds.into_iter().find_map(|kind| kind.schema),
            };
        }
        let words = match &schema["type"] {
            Value::Array(kinds) => kinds
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(" or "),
            kind => kind.as_str().unwrap_or("any").to_owned(),
        };
        if schema["items"].is_object() {
            let items = Self::from_schema(&schema["items"]);
            return Self {
                text: format!("{words} of {}", items.text),
                schema: items.schema,
            };
        }
        let choices = schema["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let choices = choices
            .map(|choice| format!("\"{choice}\""))
            .collect::<Vec<_>>()
            .join(" | ");
        Self {
            text: if choices.is_empty() { words } else { choices },
            schema: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prose_of_documentation_has_no_links_and_examples() {
        let text = prose(&json!(
            "The latest [`MAX`]; [`A::b`](crate::A::b) returns `it`.\n\n```\nuse x;\n```\n"
        ));
        assert_eq!(text, "The latest MAX; A::b returns it.");
    }

    #[test]
    fn markup_in_a_description_is_escaped() {
        let operation = json!({"summary": "<script>alert(1)</script>", "responses": {}});
        let description = json!({"paths": {"/a": {"get": operation}}});
        let page = render_page(&description.to_string());
        assert!(
            page.contains("&#60;script&#62;") && !page.contains("<script"),
            "{page}"
        );
    }
}
