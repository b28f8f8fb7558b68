//! How values are written into URLs, headers and forms.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::Stop;
use crate::ErrorType;
use picktools::catalog::http::Argument;
use picktools::excerpt::{MAX_NAME_CHARS, marked};

/// All but what RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Text that ends no part of a URL.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// An argument as it goes into a request.
pub(super) struct Given<'a> {
    /// What a model calls it.
    pub(super) argument: &'a str,
    pub(super) place: &'a Argument,
    pub(super) value: &'a Value,
}

impl Given<'_> {
    /// Its name in the request.
    pub(super) fn name(&self) -> &str {
        self.place.name.as_deref().unwrap_or(self.argument)
    }

    fn style(&self) -> Option<&str> {
        self.place.style.as_deref()
    }

    pub(super) fn wrong(&self, what: &str) -> Stop {
        Stop::new(
            ErrorType::Validation,
            format!("{} {what}", marked(self.argument, MAX_NAME_CHARS)),
        )
    }

    fn unsupported(&self) -> Stop {
        let argument = marked(self.argument, MAX_NAME_CHARS);
        let style = marked(self.style().unwrap_or("of its place"), MAX_NAME_CHARS).into_owned();
        Stop::definition(format!(
            "{argument} would be written in the style {style:?}, which is not supported for its value"
        ))
    }

    fn text(&self, value: &Value) -> Result<String, Stop> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
            _ => Err(self.wrong(
                "holds a value within a list or an object that cannot be written into this request",
            )),
        }
    }

    fn texts<'v>(&self, values: impl IntoIterator<Item = &'v Value>) -> Result<Vec<String>, Stop> {
        values.into_iter().map(|value| self.text(value)).collect()
    }

    fn members(&self, members: &Map<String, Value>) -> Result<Vec<(String, String)>, Stop> {
        members
            .iter()
            .map(|(key, value)| Ok((key.clone(), self.text(value)?)))
            .collect()
    }

    /// In the style `simple`, for paths and headers; `code` is how each text is written.
    pub(super) fn simple(&self, code: impl Fn(&str) -> String) -> Result<String, Stop> {
        if self.style().is_some_and(|style| style != "simple") {
            return Err(self.unsupported());
        }
        let parts = match self.value {
            Value::Array(items) => self.texts(items)?.iter().map(|item| code(item)).collect(),
            Value::Object(members) => {
                let joint = if self.place.explode == Some(true) {
                    "="
                } else {
                    ","
                };
                let members = self.members(members)?;
                members
                    .iter()
                    .map(|(key, value)| format!("{}{joint}{}", code(key), code(value)))
                    .collect()
            }
            other => vec![code(&self.text(other)?)],
        };
        Ok(parts.join(","))
    }

    /// As parameters of a query or a form, encoded; `taken` says which names an object's keys must
    /// not be.
    pub(super) fn pairs(
        &self,
        taken: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, String)>, Stop> {
        let style = self.style().unwrap_or("form");
        let name = encoded(self.name());
        let explode = self.place.explode.unwrap_or(style == "form");
        let joint = match style {
            "form" => ",",
            "spaceDelimited" => "%20",
            "pipeDelimited" => "%7C",
            "deepObject" => "",
            _ => return Err(self.unsupported()),
        };
        let pairs = match self.value {
            Value::Array(_) if style == "deepObject" => return Err(self.unsupported()),
            Value::Array(items) => {
                let items: Vec<String> = self
                    .texts(items)?
                    .iter()
                    .map(|item| encoded(item))
                    .collect();
                match (items.is_empty(), explode) {
                    (true, _) => Vec::new(),
                    (false, true) => items.into_iter().map(|item| (name.clone(), item)).collect(),
                    (false, false) => vec![(name, items.join(joint))],
                }
            }
            Value::Object(members) => {
                let members = self.members(members)?;
                match (style, explode) {
                    ("deepObject", _) => members
                        .iter()
                        .map(|(key, value)| {
                            (format!("{name}%5B{}%5D", encoded(key)), encoded(value))
                        })
                        .collect(),
                    ("form", true) => {
                        if let Some((key, _)) = members.iter().find(|(key, _)| taken(key)) {
                            let key = marked(key, MAX_NAME_CHARS);
                            return Err(self.wrong(&format!(
                                "has a member {key:?}, which is another parameter's name"
                            )));
                        }
                        members
                            .iter()
                            .map(|(key, value)| (encoded(key), encoded(value)))
                            .collect()
                    }
                    ("form", false) => {
                        let parts: Vec<String> = members
                            .iter()
                            .flat_map(|(key, value)| [encoded(key), encoded(value)])
                            .collect();
                        vec![(name, parts.join(","))]
                    }
                    _ => return Err(self.unsupported()),
                }
            }
            other => vec![(name, encoded(&self.text(other)?))],
        };
        Ok(pairs)
    }
}
