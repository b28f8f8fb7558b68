//! How the template shows text that somebody else wrote. The template escapes what comes out of
//! this.

#![expect(unreachable_pub, reason = "what the macro writes is public")]

use std::fmt::Display;

use askama::{Result, Values, filter_fn};

/// A text of which nothing is invisible or turns the text around.
#[filter_fn]
pub(super) fn plain<T: Display>(text: T, _: &dyn Values) -> Result<String> {
    Ok(super::tables::plain(&text.to_string()).into_owned())
}
