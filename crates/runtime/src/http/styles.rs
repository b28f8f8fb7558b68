//! Serialisation of argument values into URLs, headers and forms.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::error::HttpCallError;
use crate::ErrorType;
use picktools::catalog::http::{Argument, ValueEncoding};
use picktools::excerpt::{MAX_NAME_CHARS, marked};

/// All characters except the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Percent-encodes a text so that it does not end any part of a URL.
pub(super) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// An argument of a call with its location in the request.
#[derive(Clone, Copy)]
pub(super) struct HttpArgument<'a> {
    /// The name of the argument in the tool's schema.
    pub(super) argument: &'a str,
    pub(super) definition: &'a Argument,
    pub(super) value: &'a Value,
}

impl HttpArgument<'_> {
    /// Returns its name in the request.
    pub(super) fn name(&self) -> &str {
        self.definition.name.as_deref().unwrap_or(self.argument)
    }

    /// Returns `true` if the request has the value as JSON text.
    pub(super) fn is_json(&self) -> bool {
        self.definition.encoding == Some(ValueEncoding::Json)
    }

    /// Returns the bytes of a text, or those that it gives in base64.
    pub(super) fn bytes(&self, text: &str) -> Result<Vec<u8>, HttpCallError> {
        if self.definition.encoding == Some(ValueEncoding::Base64) {
            return STANDARD
                .decode(text)
                .map_err(|_| self.invalid("is not base64 with `=` at its end"));
        }
        Ok(text.as_bytes().to_vec())
    }

    fn style(&self) -> Option<&str> {
        self.definition.style.as_deref()
    }

    /// Makes the error for an invalid value: the name of the argument with the fault.
    pub(super) fn invalid(&self, fault: &str) -> HttpCallError {
        HttpCallError::new(
            ErrorType::Validation,
            format!("{} {fault}", marked(self.argument, MAX_NAME_CHARS)),
        )
    }

    fn unsupported_style(&self) -> HttpCallError {
        let argument = marked(self.argument, MAX_NAME_CHARS);
        let style = marked(self.style().unwrap_or("default"), MAX_NAME_CHARS).into_owned();
        HttpCallError::definition(format!(
            "the style {style:?} is not supported for the value of {argument}"
        ))
    }

    fn text(&self, value: &Value) -> Result<String, HttpCallError> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
            _ => {
                Err(self
                    .invalid("contains a nested value that cannot be written into this request"))
            }
        }
    }

    fn texts(&self, values: &[Value]) -> Result<Vec<String>, HttpCallError> {
        let mut texts = Vec::new();
        for value in values {
            texts.push(self.text(value)?);
        }
        Ok(texts)
    }

    fn members(
        &self,
        members: &Map<String, Value>,
    ) -> Result<Vec<(String, String)>, HttpCallError> {
        let mut texts = Vec::new();
        for (key, value) in members {
            texts.push((key.clone(), self.text(value)?));
        }
        Ok(texts)
    }

    /// Serialises the value in the style `simple`, for paths and headers. `encode` encodes each
    /// text.
    pub(super) fn serialize_simple(
        &self,
        encode: impl Fn(&str) -> String,
    ) -> Result<String, HttpCallError> {
        if self.style().is_some_and(|style| style != "simple") {
            return Err(self.unsupported_style());
        }
        if self.is_json() {
            return Ok(encode(&self.value.to_string()));
        }
        let mut parts = Vec::new();
        match self.value {
            Value::Array(items) => {
                for item in self.texts(items)? {
                    parts.push(encode(&item));
                }
            }
            Value::Object(members) => {
                let separator = if self.definition.explode == Some(true) {
                    "="
                } else {
                    ","
                };
                for (key, value) in self.members(members)? {
                    parts.push(format!("{}{separator}{}", encode(&key), encode(&value)));
                }
            }
            other => parts.push(encode(&self.text(other)?)),
        }
        Ok(parts.join(","))
    }

    /// Serialises the value as encoded parameters of a query or a form. An exploded object must not
    /// have a key for which `is_reserved` is true.
    pub(super) fn serialize_pairs(
        &self,
        is_reserved: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, String)>, HttpCallError> {
        let style = self.style().unwrap_or("form");
        let name = percent_encode(self.name());
        let explode = self.definition.explode.unwrap_or(style == "form");
        let separator = match style {
            "form" => ",",
            "spaceDelimited" => "%20",
            "pipeDelimited" => "%7C",
            "deepObject" => "",
            _ => return Err(self.unsupported_style()),
        };
        if self.is_json() {
            return Ok(vec![(name, percent_encode(&self.value.to_string()))]);
        }
        let mut pairs = Vec::new();
        match self.value {
            Value::Array(_) if style == "deepObject" => return Err(self.unsupported_style()),
            Value::Array(items) => {
                let mut texts = Vec::new();
                for item in self.texts(items)? {
                    texts.push(percent_encode(&item));
                }
                if explode {
                    for text in texts {
                        pairs.push((name.clone(), text));
                    }
                } else if !texts.is_empty() {
                    pairs.push((name, texts.join(separator)));
                }
            }
            Value::Object(members) => {
                let members = self.members(members)?;
                if style == "form" && explode {
                    self.check_keys(&members, is_reserved)?;
                }
                let mut parts = Vec::new();
                for (key, value) in members {
                    let (key, value) = (percent_encode(&key), percent_encode(&value));
                    match (style, explode) {
                        ("deepObject", _) => pairs.push((format!("{name}%5B{key}%5D"), value)),
                        ("form", true) => pairs.push((key, value)),
                        _ => parts.extend([key, value]),
                    }
                }
                match (style, explode) {
                    ("deepObject", _) | ("form", true) => {}
                    ("form", false) => pairs.push((name, parts.join(","))),
                    _ => return Err(self.unsupported_style()),
                }
            }
            other => pairs.push((name, percent_encode(&self.text(other)?))),
        }
        Ok(pairs)
    }

    /// Checks that no key of an exploded object is the name of another parameter.
    fn check_keys(
        &self,
        members: &[(String, String)],
        is_reserved: impl Fn(&str) -> bool,
    ) -> Result<(), HttpCallError> {
        for (key, _) in members {
            if is_reserved(key) {
                let key = marked(key, MAX_NAME_CHARS);
                return Err(self.invalid(&format!(
                    "has a member {key:?}, which is another parameter's name"
                )));
            }
        }
        Ok(())
    }
}
