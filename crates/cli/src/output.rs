//! Writing to the two streams.
//!
//! What is printed for people is bounded and holds no character that hides something, whatever a
//! catalog says: lines are cut, lists show their first items, and the rest is in the JSON. JSON
//! itself is whole.

use std::fmt::Display;
use std::io::{self, Write};
use std::iter;

use picktools::catalog::{CatalogError, UnknownValue};
use picktools::embed::EmbedError;
use picktools::engine::IndexError;
use picktools::excerpt::{MAX_LISTED, MAX_NAME_CHARS, marked};
use serde::Serialize;
use serde_json::json;

/// The most characters of a line.
const MAX_LINE_CHARS: usize = 1_000;

/// Where all of a list is.
pub(super) const IN_JSON: &str = "; --json lists them all";

/// A text on one line.
pub(super) fn line(text: impl Display) -> String {
    marked(&text.to_string(), MAX_LINE_CHARS).into_owned()
}

/// The lines of a text. A tab hides nothing, but may stand for more than is seen of it.
fn lines(text: &str) -> String {
    text.replace('\t', "    ")
        .split('\n')
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The first `most` of several lines, and after them how many more there are and where.
pub(super) fn first(
    lines: impl IntoIterator<Item = String>,
    most: usize,
    whole: &'static str,
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
            more => Some(format!("… and {more} more{whole}")),
        }
    })
}

/// Writes an answer to standard output.
pub(super) fn answer(text: impl Display) -> anyhow::Result<()> {
    verbatim(lines(&text.to_string()))
}

/// Writes an answer that is for a program to standard output.
pub(super) fn verbatim(text: impl Display) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()?;
    Ok(())
}

/// Writes an answer as JSON to standard output.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    verbatim(serde_json::to_string_pretty(value)?)
}

/// Writes what a tool gave: its texts as they are, other fields by name; or its error, with what to
/// do.
pub(super) fn result(result: &picktools_runtime::ToolResult) -> anyhow::Result<()> {
    for (name, value) in &result.fields {
        match value.as_str() {
            Some(text) => answer(text.strip_suffix('\n').unwrap_or(text))?,
            None => answer(line(format!("{name}: {value}")))?,
        }
    }
    if let Some(failure) = &result.failure {
        let suggestion = failure
            .suggestion
            .as_ref()
            .map(|text| format!("; {text}"))
            .unwrap_or_default();
        note(format!(
            "{} ({}){suggestion}",
            failure.error,
            failure.error_type.name()
        ));
    }
    Ok(())
}

/// Writes a note to standard error; where that is closed there is nobody to tell.
pub(super) fn note(text: impl Display) {
    let _closed = writeln!(io::stderr().lock(), "{}", line(text));
}

/// Writes the first of several notes, and how many more there are.
pub(super) fn notes(notes: impl IntoIterator<Item = String>, whole: &'static str) {
    first(notes, MAX_LISTED, whole).for_each(note);
}

/// Writes a warning to standard error.
pub(super) fn warn(text: impl Display) {
    note(format!("warning: {text}"));
}

/// Writes the first of several warnings, and how many more there are.
pub(super) fn warnings(warnings: impl IntoIterator<Item = impl Display>, whole: &'static str) {
    first(
        warnings.into_iter().map(|warning| warning.to_string()),
        MAX_LISTED,
        whole,
    )
    .for_each(warn);
}

/// What is to be said of a deprecated alias that is used.
pub(super) fn deprecated(alias: &str, tool: &str) -> String {
    format!(
        "{:?} is a deprecated alias of {tool}; use the tool's name",
        marked(alias, MAX_NAME_CHARS)
    )
}

/// Warns of values of the options that no tool of the catalog has.
pub(super) fn warn_of_unknown(values: &[UnknownValue]) {
    warnings(values, "");
}

/// Writes an error and its causes, and which option mends it: as JSON to standard output, or as
/// text to standard error.
pub(super) fn error(error: &anyhow::Error, as_json: bool) {
    let option = error.chain().find_map(of_model).and_then(option);
    let option = option
        .map(|option| format!("; {option}"))
        .unwrap_or_default();
    // Faults stand on lines of their own.
    let shown = |text: String| match error.downcast_ref::<CatalogError>() {
        Some(_) => lines(&text),
        None => line(text),
    };
    if as_json {
        let causes: Vec<String> = error.chain().skip(1).map(line).collect();
        return report(&shown(format!("{error}{option}")), &causes);
    }
    let _closed = writeln!(
        io::stderr().lock(),
        "{}",
        shown(format!("error: {error:#}{option}"))
    );
}

/// Writes what is wrong with the arguments, in the same ways.
pub(super) fn usage_error(error: &clap::Error, as_json: bool) {
    let text = lines(error.render().to_string().trim_end());
    if as_json {
        let told = text.split("\n\nUsage:").next().unwrap_or(&text);
        return report(told.strip_prefix("error: ").unwrap_or(told), &[]);
    }
    let _closed = writeln!(io::stderr().lock(), "{text}");
}

fn report(message: &str, causes: &[String]) {
    // Where standard output is closed there is nobody to tell.
    let _closed = json(&json!({"error": {"message": message, "causes": causes}}));
}

/// The error of a model, also where it is that of an index.
fn of_model<'e>(cause: &'e (dyn std::error::Error + 'static)) -> Option<&'e EmbedError> {
    match cause.downcast_ref() {
        Some(IndexError::Model(error)) => Some(error),
        _ => cause.downcast_ref(),
    }
}

/// Returns the option of the program by which an error of the library is mended.
fn option(error: &EmbedError) -> Option<&'static str> {
    match error {
        EmbedError::Runtime { .. } => Some("name it with --onnx-runtime or ORT_DYLIB_PATH"),
        EmbedError::UnknownModel { .. } | EmbedError::MissingFolder { .. } => {
            Some("`picktools models list` lists those that embed")
        }
        EmbedError::InvalidEndpoint { .. } | EmbedError::Endpoint { .. } => Some(
            "the URL is that of --embed-url, and the key that of PICKTOOLS_EMBED_API_KEY or OPENAI_API_KEY",
        ),
        _ => None,
    }
}
