//! Short descriptions of calls for errors and events, with redacted secrets.

use std::sync::LazyLock;

use serde_json::{Value, json};

use picktools::excerpt::marked;
use picktools_call::Repair;

/// The replacement of a secret.
const REDACTED: &str = "[redacted]";
/// The most characters of one value.
const MAX_VALUE_CHARS: usize = 80;
/// The most characters of all values.
const MAX_CALL_CHARS: usize = 500;
/// The most levels of a value that are examined. Deeper values are redacted.
const MAX_DEPTH: usize = 32;
/// The most schemas that are examined for one value.
const MAX_SCHEMAS: usize = 100;
/// The most places that the description of a repair lists.
const MAX_LISTED_CHANGES: usize = 5;
/// The shortest secret, in characters, that is searched for in messages. Shorter ones are part of
/// ordinary words.
const MIN_SECRET_CHARS: usize = 4;
/// Parts of parameter names that mark a secret. Case and punctuation do not matter.
const SECRET_NAME_PARTS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "apikey",
    "privatekey",
    "accesskey",
    "authorization",
];
/// Ends of parameter names that mark a secret.
const SECRET_NAME_ENDS: [&str; 7] = ["token", "auth", "bearer", "cookie", "otp", "cvv", "pwd"];

/// The schema that is used for a parameter with the name of a secret.
static SECRET_SCHEMA: LazyLock<Value> = LazyLock::new(|| json!({"writeOnly": true}));

/// Replaces the secrets in the arguments of a call. Returns the new arguments and the secrets.
pub(super) fn redact(arguments: &Value, schema: Option<&Value>) -> (Value, Vec<String>) {
    let mut redaction = Redaction {
        root_schema: schema,
        secrets: Vec::new(),
    };
    let mut redacted = arguments.clone();
    let schemas = redaction.expand_schemas(schema.into_iter().collect());
    redaction.redact(&mut redacted, &schemas, 0);
    (redacted, redaction.secrets)
}

/// Formats a call with redacted arguments as `tool(param="value")`.
pub(super) fn format_call(name: &str, arguments: &Value) -> String {
    let mut parameters = Vec::new();
    for (parameter, value) in arguments.as_object().into_iter().flatten() {
        let value = match value {
            Value::String(text) => format!("{:?}", marked(text, MAX_VALUE_CHARS)),
            other => marked(&other.to_string(), MAX_VALUE_CHARS).into_owned(),
        };
        parameters.push(format!("{}={value}", marked(parameter, MAX_VALUE_CHARS)));
    }
    format!(
        "{}({})",
        marked(name, MAX_VALUE_CHARS),
        marked(&parameters.join(", "), MAX_CALL_CHARS)
    )
}

/// Replaces the secrets of a call in a text about it.
pub(super) fn redact_text(text: &str, secrets: &[String]) -> String {
    let mut redacted = text.to_owned();
    for secret in secrets {
        if secret.chars().count() >= MIN_SECRET_CHARS {
            redacted = redacted.replace(secret.as_str(), REDACTED);
        }
    }
    redacted
}

/// Describes a change of the arguments. Of a rewritten call only the places are named: the values of
/// the model may be secrets that the schema does not show.
pub(super) fn describe_repair(repair: &Repair, secrets: &[String]) -> String {
    let Repair::Rewritten { by, changes } = repair else {
        return redact_text(&repair.to_string(), secrets);
    };
    let mut places = Vec::new();
    for change in changes.iter().take(MAX_LISTED_CHANGES) {
        let place = match change.pointer.as_str() {
            "" => "the arguments".into(),
            pointer => marked(pointer, MAX_VALUE_CHARS),
        };
        let verb = match (&change.from, &change.to) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        };
        places.push(format!("{place} {verb}"));
    }
    if changes.len() > MAX_LISTED_CHANGES {
        places.push(format!("{} more", changes.len() - MAX_LISTED_CHANGES));
    }
    format!("rewritten by {by}: {}", places.join(", "))
}

struct Redaction<'a> {
    /// The schema that references point into.
    root_schema: Option<&'a Value>,
    secrets: Vec<String>,
}

impl<'a> Redaction<'a> {
    /// Replaces the secrets in a value that all of `schemas` describe.
    fn redact(&mut self, value: &mut Value, schemas: &[&'a Value], depth: usize) {
        if depth > MAX_DEPTH || schemas.iter().any(|schema| is_secret_schema(schema)) {
            self.collect(value);
            *value = Value::String(REDACTED.to_owned());
            return;
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if is_secret_name(name) {
                        self.redact(member, &[&SECRET_SCHEMA], depth);
                        continue;
                    }
                    let mut member_schemas: Vec<&'a Value> = Vec::new();
                    for schema in schemas {
                        let properties = schema.get("properties");
                        let listed = properties.and_then(|properties| properties.get(name));
                        member_schemas
                            .extend(listed.or_else(|| schema.get("additionalProperties")));
                    }
                    let member_schemas = self.expand_schemas(member_schemas);
                    self.redact(member, &member_schemas, depth + 1);
                }
            }
            Value::Array(items) => {
                let mut item_schemas: Vec<&'a Value> = Vec::new();
                for schema in schemas {
                    item_schemas.extend(schema.get("items"));
                }
                let item_schemas = self.expand_schemas(item_schemas);
                for item in items {
                    self.redact(item, &item_schemas, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn collect(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.secrets.push(text.clone()),
            Value::Number(number) => self.secrets.push(number.to_string()),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(members) => members.values().for_each(|member| self.collect(member)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Returns the schemas with all schemas that they refer to or combine.
    fn expand_schemas(&self, mut schemas: Vec<&'a Value>) -> Vec<&'a Value> {
        let mut next = 0;
        while let Some(schema) = schemas.get(next).copied()
            && schemas.len() < MAX_SCHEMAS
        {
            next += 1;
            let mut subschemas: Vec<&'a Value> = Vec::new();
            for keyword in ["allOf", "anyOf", "oneOf"] {
                if let Some(Value::Array(members)) = schema.get(keyword) {
                    subschemas.extend(members);
                }
            }
            subschemas.extend(self.resolve_reference(schema));
            for subschema in subschemas {
                if !schemas.iter().any(|seen| std::ptr::eq(*seen, subschema)) {
                    schemas.push(subschema);
                }
            }
        }
        schemas
    }

    /// Returns the schema that a `$ref` within the document points to.
    fn resolve_reference(&self, schema: &Value) -> Option<&'a Value> {
        let reference = schema.get("$ref")?.as_str()?;
        self.root_schema?.pointer(reference.strip_prefix('#')?)
    }
}

fn is_secret_schema(schema: &Value) -> bool {
    schema.get("writeOnly") == Some(&Value::Bool(true))
        || schema.get("format").and_then(Value::as_str) == Some("password")
}

fn is_secret_name(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    SECRET_NAME_PARTS.iter().any(|part| plain.contains(part))
        || SECRET_NAME_ENDS.iter().any(|end| plain.ends_with(end))
}
