//! The description of the interface: in JSON, and as a page made of it.

use std::sync::{Arc, LazyLock};

use askama::Template;
use axum::Router;
use axum::http::header;
use axum::routing::get;
use regex::Regex;
use serde_json::Value;
use utoipa::openapi::OpenApi;

const STYLE: &str = include_str!("viewer.css");
/// Which methods a path may have.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The page.
#[derive(Template)]
#[template(path = "api.html")]
struct Page {
    version: String,
    operations: Vec<Operation>,
    schemas: Vec<Schema>,
}

struct Operation {
    method: String,
    path: String,
    summary: String,
    description: String,
    /// Parameters of the address.
    parameters: Vec<Member>,
    /// The schema of the body.
    body: Option<Kind>,
    responses: Vec<Answer>,
}

struct Answer {
    status: String,
    description: String,
    kind: Option<Kind>,
}

/// An object, or what else there is of this name.
struct Schema {
    name: String,
    description: String,
    members: Vec<Member>,
    /// Where it is no object: what it may be.
    kinds: Vec<String>,
}

struct Member {
    name: String,
    kind: Kind,
    is_required: bool,
    description: String,
}

/// A type: words, and the schema that they mean.
struct Kind {
    text: String,
    schema: Option<String>,
}

/// The routes of the description.
pub(super) fn routes(described: &OpenApi) -> Router {
    let json: Arc<str> = described.to_json().unwrap_or_default().into();
    let page: Arc<str> = page(&json).into();
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

fn page(json: &str) -> String {
    let described: Value = serde_json::from_str(json).unwrap_or_default();
    let paths = described["paths"].as_object().into_iter().flatten();
    let operations = paths.flat_map(|(path, item)| {
        let of = METHODS
            .iter()
            .filter_map(|method| Some((*method, item.get(*method)?)));
        of.map(|(method, operation)| Operation::new(method, path, operation))
            .collect::<Vec<_>>()
    });
    let schemas = described["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten();
    let page = Page {
        version: text(&described["info"]["version"]),
        operations: operations.collect(),
        schemas: schemas
            .map(|(name, schema)| Schema::new(name, schema))
            .collect(),
    };
    page.render().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What documentation says, for whoever reads no Rust: without its examples and what its links lead
/// to.
fn prose(value: &Value) -> String {
    static LINK: LazyLock<Result<Regex, regex::Error>> =
        LazyLock::new(|| Regex::new(r"\[`([^`\]]+)`\](?:\([^)]*\))?"));
    let told = value
        .as_str()
        .unwrap_or_default()
        .split("```")
        .next()
        .unwrap_or_default()
        .trim_end();
    let told = LINK
        .as_ref()
        .map_or(told.into(), |link| link.replace_all(told, "$1"));
    told.replace('`', "")
}

impl Operation {
    fn new(method: &str, path: &str, operation: &Value) -> Self {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let parameters = parameters.map(|parameter| Member {
            name: text(&parameter["name"]),
            kind: Kind::of(&parameter["schema"]),
            is_required: parameter["required"] == true,
            description: prose(&parameter["description"]),
        });
        let content = |of: &Value| {
            let content = of["content"].as_object()?;
            content
                .values()
                .next()
                .map(|content| Kind::of(&content["schema"]))
        };
        let responses = operation["responses"].as_object().into_iter().flatten();
        Self {
            method: method.to_uppercase(),
            path: path.to_owned(),
            summary: prose(&operation["summary"]),
            description: prose(&operation["description"]),
            parameters: parameters.collect(),
            body: content(&operation["requestBody"]),
            responses: responses
                .map(|(status, answer)| Answer {
                    status: status.clone(),
                    description: prose(&answer["description"]),
                    kind: content(answer),
                })
                .collect(),
        }
    }
}

impl Schema {
    fn new(name: &str, schema: &Value) -> Self {
        // What is put together of several is shown as one.
        let parts = schema["allOf"]
            .as_array()
            .map_or_else(|| vec![schema], |parts| parts.iter().collect());
        let members = parts.iter().flat_map(|part| {
            let required = part["required"].as_array().cloned().unwrap_or_default();
            part["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .map(move |(name, member)| Member {
                    name: name.clone(),
                    kind: Kind::of(member),
                    is_required: required.iter().any(|required| required == name),
                    description: prose(&member["description"]),
                })
        });
        let named = parts
            .iter()
            .filter(|part| part["$ref"].is_string())
            .map(|part| Kind::of(part).text);
        let choices = schema["oneOf"]
            .as_array()
            .or_else(|| schema["enum"].as_array())
            .into_iter()
            .flatten();
        let choices = choices.map(|choice| match choice {
            Value::String(text) => text.clone(),
            choice => Kind::of(choice).text,
        });
        Self {
            name: name.to_owned(),
            description: prose(&schema["description"]),
            members: members.collect(),
            kinds: named
                .chain(choices)
                .filter(|kind| !kind.is_empty())
                .collect(),
        }
    }
}

impl Kind {
    fn of(schema: &Value) -> Self {
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
            let kinds: Vec<Self> = kinds.iter().map(Self::of).collect();
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
            let items = Self::of(&schema["items"]);
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
    fn documentation_is_told_without_its_links_and_examples() {
        let told = prose(&json!(
            "The latest [`MAX`]; [`A::b`](crate::A::b) tells `it`.\n\n```\nuse x;\n```\n"
        ));
        assert_eq!(told, "The latest MAX; A::b tells it.");
    }

    #[test]
    fn text_of_a_description_stays_text() {
        let described = json!({"paths": {"/a": {"get": {"summary": "<script>alert(1)</script>", "responses": {}}}}});
        let page = page(&described.to_string());
        assert!(
            page.contains("&#60;script&#62;") && !page.contains("<script"),
            "{page}"
        );
    }
}
