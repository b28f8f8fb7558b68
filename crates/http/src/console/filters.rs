//! How templates show text that somebody else wrote. Templates escape what comes out of these.

#![expect(unreachable_pub, reason = "what the macro writes is public")]

use std::fmt::Display;

use askama::{Result, Values, filter_fn};
use picktools::excerpt::{MAX_NAME_CHARS, marked};

/// The most characters of a line.
const MAX_LINE_CHARS: usize = 400;

/// A name, on one line; what hides in it is marked.
#[filter_fn]
pub(super) fn name<T: Display>(text: T, _: &dyn Values) -> Result<String> {
    Ok(marked(&text.to_string(), MAX_NAME_CHARS).into_owned())
}

/// A text on one line, of which the beginning is enough.
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

/// A whole text with its lines.
#[filter_fn]
pub(super) fn whole<T: Display>(text: T, _: &dyn Values) -> Result<String> {
    Ok(lines(&text.to_string()))
}

/// The lines of a text, with what hides in them marked. A tab hides nothing, but may stand for more
/// than is seen of it.
pub(super) fn lines(text: &str) -> String {
    let line = |line: &str| marked(line.trim_end_matches('\r'), usize::MAX).into_owned();
    text.replace('\t', "    ")
        .split('\n')
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}
