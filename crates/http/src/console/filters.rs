//! Template filters for untrusted text. The templates escape their output.

#![expect(unreachable_pub, reason = "the macro generates public items")]

use std::fmt::Display;

use askama::{Result, Values, filter_fn};
use picktools::excerpt::{MAX_NAME_CHARS, marked};

/// The largest length of a line, in characters.
const MAX_LINE_CHARS: usize = 400;

/// Returns a name on one line, with invisible characters marked.
#[filter_fn]
pub(super) fn name<T: Display>(text: T, _: &dyn Values) -> Result<String> {
    Ok(marked(&text.to_string(), MAX_NAME_CHARS).into_owned())
}

/// Returns the beginning of a text, on one line.
#[filter_fn]
pub(super) fn line<T: Display>(text: T, _: &dyn Values) -> Result<String> {
    let text = text.to_string();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(MAX_LINE_CHARS)
        .collect();
    Ok(marked(&lines.join(" "), MAX_LINE_CHARS).into_owned())
}

/// Returns the complete text with its lines.
#[filter_fn]
pub(super) fn full_text<T: Display>(text: T, _: &dyn Values) -> Result<String> {
    Ok(lines(&text.to_string()))
}

/// Returns the lines of a text, with invisible characters marked. A tab becomes four spaces.
pub(super) fn lines(text: &str) -> String {
    let line = |line: &str| marked(line.trim_end_matches('\r'), usize::MAX).into_owned();
    text.replace('\t', "    ")
        .split('\n')
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}
