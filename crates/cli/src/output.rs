//! Writing to the two streams.

use std::fmt::Display;
use std::io::{self, Write};

use picktools::catalog::UnknownValue;
use picktools::embed::EmbedError;
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

/// Warns of values of the options that no tool of the catalog has.
pub(super) fn warn_of_unknown(values: &[UnknownValue]) {
    values.iter().for_each(warn);
}

/// Writes an error and its causes to standard error, and which option mends it.
pub(super) fn error(error: &anyhow::Error) {
    let mut text = format!("{error:#}");
    if let Some(option) = error.chain().find_map(|cause| cause.downcast_ref()).and_then(option) {
        text.push_str("; ");
        text.push_str(option);
    }
    note(format!("error: {text}"));
}

/// Returns the option of the program by which an error of the library is mended.
fn option(error: &EmbedError) -> Option<&'static str> {
    match error {
        EmbedError::Runtime { .. } => Some("name it with --onnx-runtime or ORT_DYLIB_PATH"),
        EmbedError::InvalidEndpoint { .. } | EmbedError::Endpoint { .. } => {
            Some("the URL is that of --embed-url, and the key that of PICKTOOLS_EMBED_API_KEY or OPENAI_API_KEY")
        }
        _ => None,
    }
}
