//! Calls as they are told in errors and events: short, and without secrets.

use std::sync::LazyLock;

use serde_json::{Value, json};

use picktools::excerpt::marked;

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";
/// The most characters of one value, and of all of them.
const MAX_VALUE_CHARS: usize = 80;
const MAX_CALL_CHARS: usize = 500;
/// The most of a schema that is looked through, in levels.
const MAX_DEPTH: usize = 32;
/// More schemas do not say anything of one value.
const MAX_PARTS: usize = 100;
/// Shorter secrets are not looked for in messages: they stand in words.
const LEAST_SECRET: usize = 4;
/// Parameters whose names hold one of these take secrets; case and signs do not count.
const HELD: [&str; 9] = [
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
/// So do those that end with one of these.
const ENDS: [&str; 7] = ["token", "auth", "bearer", "cookie", "otp", "cvv", "pwd"];

/// What stands for the schema of a parameter that is secret by its name.
static SECRET: LazyLock<Value> = LazyLock::new(|| json!({"writeOnly": true}));

/// The arguments of a call with each secret replaced, and the secrets.
pub(super) fn redacted(arguments: &Value, schema: Option<&Value>) -> (Value, Vec<String>) {
    let mut redaction = Redaction {
        whole: schema,
        secrets: Vec::new(),
    };
    let mut told = arguments.clone();
    redaction.redact(&mut told, &redaction.parts(schema.into_iter().collect()), 0);
    (told, redaction.secrets)
}

/// A call as text: `tool(param="value")`, of redacted arguments.
pub(super) fn call(name: &str, arguments: &Value) -> String {
    let parameter = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => format!("{:?}", marked(text, MAX_VALUE_CHARS)),
            other => marked(&other.to_string(), MAX_VALUE_CHARS).into_owned(),
        };
        format!("{}={value}", marked(name, MAX_VALUE_CHARS))
    };
    let parameters: Vec<String> = arguments
        .as_object()
        .into_iter()
        .flatten()
        .map(parameter)
        .collect();
    format!(
        "{}({})",
        marked(name, MAX_VALUE_CHARS),
        marked(&parameters.join(", "), MAX_CALL_CHARS)
    )
}

/// A text without the secrets of the call that it is about.
pub(super) fn without(text: &str, secrets: &[String]) -> String {
    let long = secrets
        .iter()
        .filter(|secret| secret.chars().count() >= LEAST_SECRET);
    long.fold(text.to_owned(), |text, secret| {
        text.replace(secret.as_str(), REDACTED)
    })
}

struct Redaction<'a> {
    /// The schema that references point into.
    whole: Option<&'a Value>,
    secrets: Vec<String>,
}

impl<'a> Redaction<'a> {
    /// Hides what is secret in a value, of which all of `schemas` say something.
    fn redact(&mut self, value: &mut Value, schemas: &[&'a Value], depth: usize) {
        if depth > MAX_DEPTH || schemas.iter().any(|schema| is_secret_schema(schema)) {
            self.collect(value);
            *value = Value::String(REDACTED.to_owned());
            return;
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let of = |part: &&'a Value| {
                        let listed = part
                            .get("properties")
                            .and_then(|properties| properties.get(name));
                        listed.or_else(|| part.get("additionalProperties"))
                    };
                    if is_secret_name(name) {
                        self.redact(member, &[&SECRET], depth);
                    } else {
                        let schemas = self.parts(schemas.iter().filter_map(of).collect());
                        self.redact(member, &schemas, depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                let schemas = self.parts(
                    schemas
                        .iter()
                        .filter_map(|part| part.get("items"))
                        .collect(),
                );
                items
                    .iter_mut()
                    .for_each(|item| self.redact(item, &schemas, depth + 1));
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

    /// The schemas, and those that they are made of.
    fn parts(&self, mut parts: Vec<&'a Value>) -> Vec<&'a Value> {
        let mut at = 0;
        while let Some(part) = parts.get(at).copied()
            && parts.len() < MAX_PARTS
        {
            at += 1;
            let pointer = part
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|text| text.strip_prefix('#'));
            let target = pointer.and_then(|pointer| self.whole?.pointer(pointer));
            let listed = ["allOf", "anyOf", "oneOf"]
                .into_iter()
                .filter_map(|keyword| part.get(keyword)?.as_array());
            for more in listed.flatten().chain(target) {
                if !parts.iter().any(|known| std::ptr::eq(*known, more)) {
                    parts.push(more);
                }
            }
        }
        parts
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
    HELD.iter().any(|held| plain.contains(held)) || ENDS.iter().any(|end| plain.ends_with(end))
}
