//! Occurrences of a text in a file, whatever its line endings are.

use std::ops::Range;

/// The occurrences that an edit replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replacement {
    /// The only occurrence.
    One,
    /// All occurrences that do not overlap.
    All,
}

/// Returns the byte ranges of a text in `content`; the number of occurrences if it is not as wanted.
///
/// A line feed in `old` also matches a carriage return with a line feed.
pub(super) fn matches(
    content: &str,
    old: &str,
    wanted: Replacement,
) -> Result<Vec<Range<usize>>, usize> {
    let mut ranges = Vec::new();
    let mut start = 0;
    while let Some(range) = next_match(content, old, start) {
        start = match wanted {
            // Occurrences that overlap are ambiguous, too.
            Replacement::One => after_first_char(content, range.start),
            Replacement::All => range.end,
        };
        ranges.push(range);
    }
    match (ranges.len(), wanted) {
        (0, _) => Err(0),
        (1, _) | (_, Replacement::All) => Ok(ranges),
        (count, Replacement::One) => Err(count),
    }
}

/// Returns the first occurrence at or after `start`.
fn next_match(content: &str, old: &str, start: usize) -> Option<Range<usize>> {
    let mut parts = old.split('\n');
    let first = parts.next().unwrap_or_default();
    let mut candidate = start;
    loop {
        // A text that begins with a line break is found by its line break.
        let begin = match first.is_empty() {
            true => candidate + content[candidate..].find('\n')?,
            false => candidate + content[candidate..].find(first)?,
        };
        let has_return = first.is_empty() && begin > start && content[..begin].ends_with('\r');
        if let Some(end) = match_rest(content, begin + first.len(), parts.clone()) {
            return Some(begin - usize::from(has_return)..end);
        }
        candidate = after_first_char(content, begin);
    }
}

/// Returns the end of a match whose first line ends at `position`.
fn match_rest<'a>(
    content: &str,
    mut position: usize,
    lines: impl Iterator<Item = &'a str>,
) -> Option<usize> {
    for line in lines {
        let rest = &content[position..];
        let after = rest
            .strip_prefix('\n')
            .or_else(|| rest.strip_prefix("\r\n"))?;
        let after = after.strip_prefix(line)?;
        position = content.len() - after.len();
    }
    Some(position)
}

/// Returns the position after the character, or the line break, at `position`.
fn after_first_char(content: &str, position: usize) -> usize {
    let rest = &content[position..];
    let bytes = match rest.starts_with("\r\n") {
        true => 2,
        false => rest.chars().next().map_or(1, char::len_utf8),
    };
    position + bytes
}

/// Replaces the ranges with `new`, whose line breaks become those of the file at this place.
pub(super) fn replace_matches(content: &str, ranges: &[Range<usize>], new: &str) -> String {
    let plain = new.replace("\r\n", "\n");
    let mut replaced = String::with_capacity(content.len());
    let mut end = 0;
    for range in ranges {
        replaced.push_str(&content[end..range.start]);
        match has_carriage_returns(content, range) {
            true => replaced.push_str(&plain.replace('\n', "\r\n")),
            false => replaced.push_str(new),
        }
        end = range.end;
    }
    replaced.push_str(&content[end..]);
    replaced
}

/// Returns `true` if the first line that ends in or after a range ends with a carriage return and a
/// line feed. After the last line break of a file, the last line break counts.
fn has_carriage_returns(content: &str, range: &Range<usize>) -> bool {
    let next = content[range.start..].find('\n');
    let line_feed = match next {
        Some(offset) => Some(range.start + offset),
        None => content[..range.start].rfind('\n'),
    };
    line_feed.is_some_and(|position| content[..position].ends_with('\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(content: &str, old: &str, new: &str, wanted: Replacement) -> Result<String, usize> {
        let ranges = matches(content, old, wanted)?;
        Ok(replace_matches(content, &ranges, new))
    }

    #[test]
    fn line_endings_of_the_file_are_kept() {
        use Replacement::One;
        for (content, old, new, expected) in [
            ("a\nb\nc", "b", "x\ny", "a\nx\ny\nc"),
            ("a\r\nb\r\nc", "b", "x\ny", "a\r\nx\r\ny\r\nc"),
            ("a\r\nb\r\nc", "a\nb", "x\ny", "x\r\ny\r\nc"),
            ("a\r\nb\r\nc", "a\r\nb", "x\r\ny", "x\r\ny\r\nc"),
            ("a\r\nb\r\nc", "b\nc", "c", "a\r\nc"),
            ("a\r\nb\nc", "b\nc", "x\ny", "a\r\nx\ny"),
            ("a\r\nb", "b", "x\ny", "a\r\nx\r\ny"),
            ("a\r\nb\r\n", "\nb", "", "a\r\n"),
            ("a\n\nb", "\n\nb", "\nb", "a\nb"),
            ("é\r\n\r\nb", "é\n\nb", "é\nb", "é\r\nb"),
            ("one", "one", "1\n2", "1\n2"),
            ("end\n", "end\n", "end", "end"),
        ] {
            assert_eq!(
                edit(content, old, new, One).as_deref(),
                Ok(expected),
                "{content:?} {old:?}"
            );
        }
    }

    #[test]
    fn only_unique_texts_are_replaced_unless_all_are() {
        use Replacement::{All, One};
        assert_eq!(edit("a b", "c", "d", One), Err(0));
        assert_eq!(edit("a b", "c", "d", All), Err(0));
        assert_eq!(edit("a a", "a", "b", One), Err(2));
        assert_eq!(edit("aaa", "aa", "b", One), Err(2));
        assert_eq!(edit("ééé", "éé", "b", One), Err(2));
        assert_eq!(edit("a a", "a", "b", All).as_deref(), Ok("b b"));
        assert_eq!(edit("aaa", "aa", "b", All).as_deref(), Ok("ba"));
        assert_eq!(
            edit("a\r\nb\r\na", "a", "c\nd", All).as_deref(),
            Ok("c\r\nd\r\nb\r\nc\r\nd")
        );
        assert_eq!(edit("\n\n\n", "\n", "x", All).as_deref(), Ok("xxx"));
    }
}
