//! How names are compared: in another writing, by their looks, and what in them nobody sees.

use std::borrow::Cow;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// The letters and digits of a name, in small letters, and the stroke that parts it from its source.
pub(crate) fn normalise(name: &str) -> String {
    let mut normalised = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || c == '/' {
            normalised.push(c.to_ascii_lowercase());
        } else if c.is_alphanumeric() {
            normalised.extend(c.to_lowercase());
        }
    }
    normalised
}

/// What a name looks like: its skeleton by Unicode Technical Standard #39, §4, without case. Two names of one skeleton
/// cannot be told apart by eye.
pub(crate) fn skeleton(name: &str) -> String {
    unicode_security::skeleton(&name.to_lowercase()).collect()
}

/// Tells whether two different names look alike, and not for their case alone. Names in ASCII are taken as they are:
/// `l` and `1` look alike in every catalog.
pub(crate) fn confusable(name: &str, other: &str) -> bool {
    !(name.is_ascii() && other.is_ascii())
        && name.to_lowercase() != other.to_lowercase()
        && skeleton(name) == skeleton(other)
}

/// Tells whether a character is one that nobody sees or that turns the direction of the text: format characters
/// (category Cf: zero width, bidirectional controls, soft hyphen, tags), fillers and joiners.
pub(crate) fn is_invisible(c: char) -> bool {
    c.general_category() == GeneralCategory::Format
        || matches!(
            c,
            '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'
                ..='\u{180f}' | '\u{3164}' | '\u{ffa0}'
        )
}

/// The first characters of a text, on one line and without what nobody sees, to be shown in a message.
pub(crate) fn shown(text: &str, most: usize) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() || is_invisible(c);
    match text.char_indices().nth(most) {
        None if !text.contains(hidden) => Cow::Borrowed(text),
        end => {
            let kept = &text[..end.map_or(text.len(), |(at, _)| at)];
            let mut shown: String = kept.chars().map(|c| if hidden(c) { '\u{fffd}' } else { c }).collect();
            shown.extend(end.map(|_| '…'));
            Cow::Owned(shown)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_are_confusable_and_names_of_one_writing_are_not() {
        for (name, other) in [
            ("rеad_file", "read_file"),
            ("ｂａｓｈ", "bash"),
            ("𝗲𝘅𝗲𝗰", "exec"),
            ("Pythοn", "python"),
            ("cafe\u{301}", "café"),
        ] {
            assert!(confusable(name, other), "{name} {other}");
        }
        for (name, other) in
            [("get_1", "get_l"), ("CAFÉ", "café"), ("größe", "grosse"), ("导出", "导入"), ("read_file", "read_file")]
        {
            assert!(!confusable(name, other), "{name} {other}");
        }
    }

    #[test]
    fn what_nobody_sees_is_not_shown() {
        assert_eq!(shown("a\u{200b}b\nc", 9), "a\u{fffd}b\u{fffd}c");
        assert_eq!(shown("größer", 3), "grö…");
        assert!(['\u{202e}', '\u{2066}', '\u{ad}', '\u{e0041}', '\u{feff}', '\u{3164}'].into_iter().all(is_invisible));
        assert!(!"aé界🚀 _".contains(is_invisible));
    }
}
