//! Values of front matter with their lines.

use serde_saphyr::Spanned;

/// A value with its line, from 1.
pub(super) struct Located<T> {
    pub(super) line: Option<usize>,
    pub(super) value: T,
}

impl<T> Located<T> {
    pub(super) fn from_yaml<S>(spanned: Spanned<S>, convert: impl FnOnce(S) -> T) -> Self {
        Self {
            line: line_number(spanned.referenced.line()),
            value: convert(spanned.value),
        }
    }
}

/// Converts a line number of the parser, which is 0 for an unknown line.
pub(super) fn line_number(line: u64) -> Option<usize> {
    match usize::try_from(line) {
        Ok(line) if line > 0 => Some(line),
        _ => None,
    }
}
