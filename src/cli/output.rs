//! Writing to the two streams.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

/// Writes an answer to standard output.
pub(super) fn answer(text: impl Display) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()?;
    Ok(())
}

/// Writes an answer as JSON to standard output.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    answer(serde_json::to_string_pretty(value)?)
}

/// Writes a note to standard error; where that is closed there is nobody to tell.
pub(super) fn note(text: impl Display) {
    let _closed = writeln!(io::stderr().lock(), "{text}");
}

/// Writes a warning to standard error.
pub(super) fn warn(text: impl Display) {
    note(format!("warning: {text}"));
}

/// Writes an error and its causes to standard error, each cause once.
pub(super) fn error(error: &anyhow::Error) {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    note(format!("error: {text}"));
}
