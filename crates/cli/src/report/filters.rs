//! Filters of the template for untrusted text. The template escapes their output.

#![expect(unreachable_pub, reason = "what the macro writes is public")]

use std::fmt::Display;

use askama::{Result, Values, filter_fn};

/// Returns a text without invisible characters and without changes of the text direction.
#[filter_fn]
pub(super) fn plain<T: Display>(text: T, _: &dyn Values) -> Result<String> {
    Ok(super::tables::plain(&text.to_string()).into_owned())
}
