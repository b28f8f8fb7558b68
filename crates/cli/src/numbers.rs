//! Parsers of numeric arguments.

use std::str::FromStr;

/// Parses an integer of at least 0.
pub(super) fn integer<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "give a whole number, 0 or more")
}

/// Parses an integer of at least 1.
pub(super) fn positive<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "give a whole number, 1 or more")
}

/// Parses a number.
pub(super) fn number<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "give a number")
}
