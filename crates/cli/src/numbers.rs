//! Numbers among the arguments, and what is said of those that are none.

use std::str::FromStr;

/// Reads a whole number from 0.
pub(super) fn whole<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "give a whole number, 0 or more")
}

/// Reads a whole number from 1.
pub(super) fn positive<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "give a whole number, 1 or more")
}

/// Reads a number.
pub(super) fn number<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "give a number")
}
