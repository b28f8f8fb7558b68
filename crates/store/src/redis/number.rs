//! Numbers of versions and generations in a store.

/// The largest valid number of a version or generation.
const MAX_NUMBER: u64 = 1 << 53;

/// Parses a number in the only form that the store itself can increment.
pub(super) fn parse_number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse()
        .ok()
        .filter(|number: &u64| *number <= MAX_NUMBER && number.to_string() == text)
}
