//! Output to the standard streams.
//!
//! Output for people is bounded and free of characters that hide something, even if a catalog
//! contains them. Long lines are cut, and long lists show their first items. The JSON output is
//! complete, and writes such characters as escapes.

use std::fmt::Display;
use std::io::{self, Write};
use std::iter;

use picktools::catalog::{CatalogError, UnknownValue};
use picktools::embed::EmbedError;
use picktools::engine::IndexError;
use picktools::excerpt::{MAX_LISTED, MAX_NAME_CHARS, marked, shows};
use serde::Serialize;
use serde_json::json;

/// The most characters of a line.
const MAX_LINE_CHARS: usize = 1_000;

/// The hint after a list that was cut.
pub(super) const IN_JSON: &str = "; --json lists them all";

/// Returns a text as one bounded line.
pub(super) fn line(text: impl Display) -> String {
    marked(&text.to_string(), MAX_LINE_CHARS).into_owned()
}

/// Returns the bounded lines of a text. Tabs become blanks, because the width of a tab is unknown.
fn lines(text: &str) -> String {
    text.replace('\t', "    ")
        .split('\n')
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Yields the first `most` lines, then a line that counts the others, followed by `hint`.
pub(super) fn first(
    lines: impl IntoIterator<Item = String>,
    most: usize,
    hint: &'static str,
) -> impl Iterator<Item = String> {
    let mut lines = lines.into_iter().fuse();
    let mut count = 0;
    iter::from_fn(move || {
        count += 1;
        if count <= most {
            return lines.next();
        }
        match lines.by_ref().count() {
            0 => None,
            more => Some(format!("… and {more} more{hint}")),
        }
    })
}

/// Writes an answer for people to standard output.
pub(super) fn answer(text: impl Display) -> anyhow::Result<()> {
    verbatim(lines(&text.to_string()))
}

/// Writes an answer for programs to standard output.
pub(super) fn verbatim(text: impl Display) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()?;
    Ok(())
}

/// Writes an answer as JSON to standard output.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    json_text(serde_json::to_string_pretty(value)?)
}

/// Writes serialised JSON to standard output. Characters that hide something or change the direction
/// of text become escapes, which any JSON reader decodes.
pub(super) fn json_text(json: impl Display) -> anyhow::Result<()> {
    verbatim(escaped(&json.to_string()))
}

/// Replaces the characters that show nothing with escapes. In JSON they occur in strings only.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() && c != '\u{7f}' || shows(c) {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}

/// Writes the result of a tool: texts as they are, other fields with their names, or the error with
/// a suggestion.
pub(super) fn result(result: &picktools_runtime::ToolResult) -> anyhow::Result<()> {
    for (name, value) in &result.fields {
        match value.as_str() {
            Some(text) => answer(text.strip_suffix('\n').unwrap_or(text))?,
            None => answer(line(format!("{name}: {value}")))?,
        }
    }
    if let Some(failure) = &result.failure {
        let suggestion = match &failure.suggestion {
            Some(text) => format!("; {text}"),
            None => String::new(),
        };
        note(format!(
            "{} ({}){suggestion}",
            failure.error,
            failure.error_type.name()
        ));
    }
    Ok(())
}

/// Writes a line to standard error. A closed stream is ignored.
pub(super) fn note(text: impl Display) {
    let _closed = writeln!(io::stderr().lock(), "{}", line(text));
}

/// Writes a text of several lines to standard error.
pub(super) fn note_lines(text: &str) {
    let _closed = writeln!(io::stderr().lock(), "{}", lines(text));
}

/// Writes the first of several notes, and the number of the others.
pub(super) fn notes(notes: impl IntoIterator<Item = String>, hint: &'static str) {
    first(notes, MAX_LISTED, hint).for_each(note);
}

/// Writes a warning to standard error.
pub(super) fn warn(text: impl Display) {
    note(format!("warning: {text}"));
}

/// Writes the first of several warnings, and the number of the others.
pub(super) fn warnings(warnings: impl IntoIterator<Item = impl Display>, hint: &'static str) {
    first(
        warnings.into_iter().map(|warning| warning.to_string()),
        MAX_LISTED,
        hint,
    )
    .for_each(warn);
}

/// Returns the warning about the use of a deprecated alias.
pub(super) fn deprecated(alias: &str, tool: &str) -> String {
    format!(
        "{:?} is a deprecated alias of {tool}; use the tool's name",
        marked(alias, MAX_NAME_CHARS)
    )
}

/// Warns of option values that match nothing in the catalog.
pub(super) fn warn_of_unknown(values: &[UnknownValue]) {
    warnings(values, "");
}

/// Writes an error with its causes and the option that fixes it, as JSON to standard output or as
/// text to standard error.
pub(super) fn error(error: &anyhow::Error, as_json: bool) {
    let option = match error.chain().find_map(model_error).and_then(option) {
        Some(option) => format!("; {option}"),
        None => String::new(),
    };
    // Each fault of a catalog has a line of its own.
    let bounded = |text: String| match error.downcast_ref::<CatalogError>() {
        Some(_) => lines(&text),
        None => line(text),
    };
    if as_json {
        let causes: Vec<String> = error.chain().skip(1).map(line).collect();
        return report(&bounded(format!("{error}{option}")), &causes);
    }
    let _closed = writeln!(
        io::stderr().lock(),
        "{}",
        bounded(format!("error: {error:#}{option}"))
    );
}

/// Writes an error of the arguments in the same way.
pub(super) fn usage_error(error: &clap::Error, as_json: bool) {
    let text = lines(error.render().to_string().trim_end());
    if as_json {
        let message = text.split("\n\nUsage:").next().unwrap_or(&text);
        return report(message.strip_prefix("error: ").unwrap_or(message), &[]);
    }
    let _closed = writeln!(io::stderr().lock(), "{text}");
}

fn report(message: &str, causes: &[String]) {
    // A closed standard output is ignored.
    let _closed = json(&json!({"error": {"message": message, "causes": causes}}));
}

/// Returns the error of a model, also if an index error contains it.
fn model_error<'e>(cause: &'e (dyn std::error::Error + 'static)) -> Option<&'e EmbedError> {
    match cause.downcast_ref() {
        Some(IndexError::Model(error)) => Some(error),
        _ => cause.downcast_ref(),
    }
}

/// Returns the command-line option that fixes an error of the library.
fn option(error: &EmbedError) -> Option<&'static str> {
    match error {
        EmbedError::Runtime { .. } => Some("pass --onnx-runtime or set ORT_DYLIB_PATH"),
        EmbedError::UnknownModel { .. } | EmbedError::MissingFolder { .. } => {
            Some("`picktools models list` lists the embedding models")
        }
        EmbedError::InvalidEndpoint { .. } | EmbedError::Endpoint { .. } => {
            Some("check --embed-url, and the key in PICKTOOLS_EMBED_API_KEY or OPENAI_API_KEY")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_output_has_no_raw_hidden_characters() {
        let text = "a\u{1b}[31m\u{7f}\u{85}\u{9b}\u{202e}\u{2066}\u{2028}\u{200b}\u{feff}\u{e0041} é 猫 🐈";
        let json = serde_json::to_string(&json!({text: [text]})).expect("JSON");
        let printed = escaped(&json);
        assert!(printed.chars().all(|c| c == ' ' || shows(c)), "{printed}");
        assert!(printed.contains("é 猫 🐈"), "{printed}");
        let value: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!(value, json!({text: [text]}));
    }
}
