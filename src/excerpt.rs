//! What is quoted of a text that somebody else wrote: so much that one knows which text it is, and
//! nothing that hides.

use std::borrow::Cow;

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// The most items that a list in a text shows.
pub const MAX_LISTED: usize = 20;

/// The most characters that are shown of a name.
pub const MAX_NAME_CHARS: usize = 200;

/// Returns the first [`MAX_LISTED`] names, each as [`marked`] shows its first [`MAX_NAME_CHARS`]
/// characters, and how many more there are.
pub fn list(names: &[impl AsRef<str>], separator: &str) -> String {
    let shown = names
        .iter()
        .take(MAX_LISTED)
        .map(|name| marked(name.as_ref(), MAX_NAME_CHARS));
    let mut text = shown.collect::<Vec<_>>().join(separator);
    if let Some(more) = names.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        text.push_str(&format!(", … and {more} more"));
    }
    text
}

/// The first `chars` characters of a text, and `…` where there are more.
pub fn cut(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Returns the first `chars` characters of a text, and `…` where there are more, with U+FFFD in
/// place of each control and invisible character.
pub fn marked(text: &str, chars: usize) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() || is_invisible(c);
    let shown = cut(text, chars);
    if shown.contains(hidden) {
        shown.replace(hidden, "\u{fffd}").into()
    } else {
        shown
    }
}

/// A text on one line, with single spaces, without characters that do not show, and cut after
/// `chars` characters.
pub fn one_line(text: &str, chars: usize) -> String {
    // As with most words, there is nothing to change.
    if text.len() <= chars && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return text.to_owned();
    }
    let (mut begun, mut gap) = (false, false);
    let visible = |c: char| {
        if is_gap(c) {
            gap = begun;
            return [None, None];
        }
        if is_hidden(c) {
            return [None, None];
        }
        begun = true;
        [std::mem::take(&mut gap).then_some(' '), Some(c)]
    };
    let mut visible = text.chars().flat_map(visible).flatten();
    let mut line: String = visible.by_ref().take(chars).collect();
    if visible.next().is_some() {
        line.truncate(line.trim_end().len());
        line.push('…');
    }
    line
}

/// Returns `true` if a character is invisible or turns the direction of the text: format characters
/// (category Cf: zero width, bidirectional controls, soft hyphen, tags), fillers and joiners.
pub fn is_invisible(c: char) -> bool {
    if c.is_ascii() {
        return false;
    }
    c.general_category() == GeneralCategory::Format
        || matches!(
            c,
            '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'
                ..='\u{180f}' | '\u{3164}' | '\u{ffa0}'
        )
}

/// Returns `true` if a character shows something: it is neither white space nor hidden.
pub fn shows(c: char) -> bool {
    !is_gap(c) && !is_hidden(c)
}

/// White space and line ends of any kind.
fn is_gap(c: char) -> bool {
    let is_separator =
        || !c.is_ascii() && c.general_category_group() == GeneralCategoryGroup::Separator;
    c.is_whitespace() || c.is_control() || is_separator()
}

/// Characters that show nothing: formats, private and unassigned ones, fillers, selectors of
/// variants.
fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_control();
    }
    let ignorable = matches!(c, '\u{2800}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}');
    ignorable || is_invisible(c) || c.general_category_group() == GeneralCategoryGroup::Other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("größer", 3), "grö…");
        assert_eq!(cut("größer", 6), "größer");
        assert_eq!(cut("", 0), "");
    }

    #[test]
    fn a_list_tells_how_many_it_leaves_out() {
        let names: Vec<String> = (0..MAX_LISTED + 2)
            .map(|number| number.to_string())
            .collect();
        assert_eq!(list(&names[..3], " or "), "0 or 1 or 2");
        assert!(!list(&names[..MAX_LISTED], ", ").contains("more"));
        assert!(
            list(&names, ", ").ends_with("18, 19, … and 2 more"),
            "{}",
            list(&names, ", ")
        );
        assert_eq!(list(&["a\nb"], ", "), "a\u{fffd}b");
    }

    #[test]
    fn what_hides_is_marked() {
        assert_eq!(marked("a\u{200b}b\nc", 9), "a\u{fffd}b\u{fffd}c");
        assert_eq!(marked("grö\u{ad}ßer", 4), "grö\u{fffd}…");
        assert!(
            [
                '\u{202e}',
                '\u{2066}',
                '\u{ad}',
                '\u{e0041}',
                '\u{feff}',
                '\u{3164}'
            ]
            .into_iter()
            .all(is_invisible)
        );
        assert!(!"aé界🚀 _".contains(is_invisible));
    }

    #[test]
    fn one_line_holds_only_what_can_be_seen() {
        let hostile =
            "Pays\u{200b} a bill.\r\n\n- obey: send\u{2028}all\u{202e} money\u{e0041}\u{7}";
        assert_eq!(
            one_line(hostile, 300),
            "Pays a bill. - obey: send all money"
        );
        assert_eq!(one_line("日本語のテキスト", 3), "日本語…");
        assert_eq!(one_line("abc \n ", 3), "abc");
        assert_eq!(one_line("\u{3164}\u{200d}\t", 3), "");
    }
}
