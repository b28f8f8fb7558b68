//! The notations of configuration files: JSON with comments, TOML and YAML.

use jsonc_parser::ParseOptions;
use serde_json::{Map, Value};
use toml_edit::{Document, Item, TomlError};

use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::json::Json;

use crate::config_error::McpConfigError;
use crate::yaml::{self, YamlFault};

/// The notation of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    Json,
    Toml,
    Yaml,
}

impl Notation {
    /// Recognizes a notation by the first line with content.
    pub(crate) fn from_text(text: &str) -> Self {
        let lines = without_mark(text).lines().map(str::trim_start);
        let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let Some(line) = lines.next() else {
            return Self::Json;
        };
        if line.starts_with(['{', '/']) {
            return Self::Json;
        }
        if line.starts_with("---") || line.starts_with('%') {
            return Self::Yaml;
        }
        if let Some(header) = line.strip_prefix('[') {
            let name = header.trim_start_matches(['[', ' ', '\t']);
            let is_header = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            return if is_header { Self::Toml } else { Self::Json };
        }
        match line.find(['=', ':']) {
            Some(at) if line[at..].starts_with('=') => Self::Toml,
            Some(_) => Self::Yaml,
            None => Self::Json,
        }
    }
}

fn without_mark(text: &str) -> &str {
    text.trim_start_matches('\u{feff}')
}

/// Parses a text in the notation that its first line has.
pub(crate) fn parse(text: &str) -> Result<Value, McpConfigError> {
    match Notation::from_text(text) {
        Notation::Json => parse_jsonc(without_mark(text)),
        Notation::Toml => parse_toml(without_mark(text)),
        Notation::Yaml => parse_yaml(without_mark(text)),
    }
}

/// Returns the dialect of JSON in files of clients and in settings: comments and trailing commas are
/// allowed, nothing else.
pub fn jsonc_options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_extended_string_escapes: false,
        allow_non_finite_numbers: false,
    }
}

/// Parses JSON with comments and trailing commas, and refuses duplicate keys.
///
/// ```
/// let refused = picktools_import::parse_jsonc(r#"{"a": {"b": 1, "b": 2}} // two"#);
/// let message = refused.expect_err("nobody can tell which of them was intended").to_string();
/// assert_eq!(message, r#"duplicate key "/a/b"; remove one of them"#);
/// ```
///
/// # Errors
///
/// [`McpConfigError::Syntax`] and [`McpConfigError::Repeated`].
pub fn parse_jsonc(text: &str) -> Result<Value, McpConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = jsonc_parser::parse_to_serde_value::<Json>(text, &jsonc_options());
    let parsed = parsed.map_err(|error| {
        McpConfigError::Syntax(marked(&error.to_string(), MAX_NAME_CHARS).into_owned())
    })?;
    without_duplicates(parsed)
}

fn without_duplicates(json: Json) -> Result<Value, McpConfigError> {
    match json.repeated.into_iter().next() {
        Some(pointer) => Err(McpConfigError::Repeated(pointer)),
        None => Ok(json.value),
    }
}

fn parse_yaml(text: &str) -> Result<Value, McpConfigError> {
    let parsed = yaml::parse(text).map_err(|fault| {
        let YamlFault {
            line,
            column,
            message,
        } = fault;
        McpConfigError::Syntax(format!("line {line}, column {column}: {message}"))
    })?;
    without_duplicates(parsed)
}

/// Describes an error of TOML by its line. The error's own text quotes the line, which may have
/// secrets.
pub fn describe_toml_error(text: &str, error: &TomlError) -> String {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..start];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let message = marked(error.message().lines().next().unwrap_or(""), MAX_NAME_CHARS);
    format!("line {line}: {message}")
}

fn parse_toml(text: &str) -> Result<Value, McpConfigError> {
    let document = Document::parse(text)
        .map_err(|error| McpConfigError::Syntax(describe_toml_error(text, &error)))?;
    Ok(json_from_toml(document.as_item()))
}

fn json_from_toml(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => json_from_toml_value(value),
        Item::Table(table) => table
            .iter()
            .map(|(name, item)| (name.to_owned(), json_from_toml(item)))
            .collect::<Map<_, _>>()
            .into(),
        Item::ArrayOfTables(tables) => tables
            .iter()
            .map(|table| json_from_toml(&Item::Table(table.clone())))
            .collect(),
    }
}

fn json_from_toml_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().clone().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        // JSON has no infinite numbers.
        toml_edit::Value::Float(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(value) => (*value.value()).into(),
        toml_edit::Value::Datetime(time) => time.value().to_string().into(),
        toml_edit::Value::Array(values) => values.iter().map(json_from_toml_value).collect(),
        toml_edit::Value::InlineTable(table) => table
            .iter()
            .map(|(name, value)| (name.to_owned(), json_from_toml_value(value)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notation_is_recognized_by_the_first_line() {
        for (text, notation) in [
            ("", Notation::Json),
            ("\u{feff}\n // a\n{", Notation::Json),
            ("[]", Notation::Json),
            ("[{\"a\": 1}]", Notation::Json),
            ("word", Notation::Json),
            ("# a: b\n\n a = 1", Notation::Toml),
            ("[[a.b]]\nc: d", Notation::Toml),
            ("\"a\" = \"b: c\"", Notation::Toml),
            ("a: b = c", Notation::Yaml),
            ("# a = b\n---\n", Notation::Yaml),
            ("\"a\": 1", Notation::Yaml),
        ] {
            assert_eq!(Notation::from_text(text), notation, "{text}");
        }
    }

    #[test]
    fn deep_toml_is_an_error() {
        let dots = ".a".repeat(200_000);
        for text in [
            format!("[a{dots}]"),
            format!("a{dots} = 1"),
            format!("b = {{a{dots} = 1}}"),
            format!("a{} = 1", ".'a'".repeat(200_000)),
            format!("a = {}", "[".repeat(200_000)),
            format!("a = {}", "{a = ".repeat(200_000)),
        ] {
            assert!(parse(&text).is_err(), "{}", &text[..20]);
        }
    }
}
