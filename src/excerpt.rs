//! Excerpts of untrusted text: short enough for a message, and without invisible characters.

use std::borrow::Cow;

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// The most items of a list in a message.
pub const MAX_LISTED: usize = 20;

/// The most characters of a name in a message.
pub const MAX_NAME_CHARS: usize = 200;

/// Joins the first [`MAX_LISTED`] names, and adds the number of the others.
///
/// Each name is cut to [`MAX_NAME_CHARS`] characters and [`marked`].
pub fn list(names: &[impl AsRef<str>], separator: &str) -> String {
    let mut excerpts = Vec::with_capacity(names.len().min(MAX_LISTED));
    for name in names.iter().take(MAX_LISTED) {
        excerpts.push(marked(name.as_ref(), MAX_NAME_CHARS));
    }
    let mut text = excerpts.join(separator);
    if names.len() > MAX_LISTED {
        let more = names.len() - MAX_LISTED;
        text.push_str(&format!(", … and {more} more"));
    }
    text
}

/// Cuts a text after `chars` characters, and adds `…` if it is longer.
pub fn cut(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Cuts a text as [`cut`] does, with its number, such as `<U+200B>`, in place of each control
/// and invisible character. The result has at most `chars` characters, without the `…`.
pub fn marked(text: &str, chars: usize) -> Cow<'_, str> {
    let is_marked = |c: char| c.is_control() || is_invisible(c);
    // One character more shows that the text goes on.
    let end = text.char_indices().nth(chars.saturating_add(1));
    let beginning = end.map_or(text, |(end, _)| &text[..end]);
    if !beginning.contains(is_marked) {
        return cut(text, chars);
    }
    cut(&escape(beginning, is_marked), chars)
        .into_owned()
        .into()
}

/// Replaces the characters of a text for which `is_escaped` returns `true` with their numbers, such
/// as `<U+200B>`.
pub fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_escaped(c) {
            escaped.push_str(&format!("<U+{:04X}>", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Returns a text as one line of at most `chars` characters, with `…` if it is longer.
///
/// Each run of white space becomes one space. Characters that show nothing are removed.
pub fn one_line(text: &str, chars: usize) -> String {
    // Most words need no change.
    if text.len() <= chars && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return text.to_owned();
    }
    let (mut has_text, mut pending_space) = (false, false);
    let clean = |c: char| {
        if is_gap(c) {
            pending_space = has_text;
            return [None, None];
        }
        if is_hidden(c) {
            return [None, None];
        }
        has_text = true;
        [std::mem::take(&mut pending_space).then_some(' '), Some(c)]
    };
    let mut cleaned = text.chars().flat_map(clean).flatten();
    let mut line: String = cleaned.by_ref().take(chars).collect();
    if cleaned.next().is_some() {
        line.truncate(line.trim_end().len());
        line.push('…');
    }
    line
}

/// Returns `true` if a character is invisible or changes the text direction.
///
/// These are format characters (category Cf: zero width, bidirectional controls, soft hyphen,
/// tags), fillers and joiners.
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

/// Returns `true` if a character is visible: neither white space nor hidden.
pub fn shows(c: char) -> bool {
    !is_gap(c) && !is_hidden(c)
}

/// Returns `true` for white space, control characters and line ends of any kind.
fn is_gap(c: char) -> bool {
    let is_separator =
        || !c.is_ascii() && c.general_category_group() == GeneralCategoryGroup::Separator;
    c.is_whitespace() || c.is_control() || is_separator()
}

/// Returns `true` for characters that show nothing: format characters, private and unassigned
/// ones, fillers, and variation selectors.
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
    fn text_is_cut_between_characters() {
        assert_eq!(cut("größer", 3), "grö…");
        assert_eq!(cut("größer", 6), "größer");
        assert_eq!(cut("", 0), "");
    }

    #[test]
    fn long_list_ends_with_the_number_of_omitted_names() {
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
        assert_eq!(list(&["a\nb"], ", "), "a<U+000A>b");
    }

    #[test]
    fn invisible_characters_are_marked() {
        assert_eq!(marked("a\u{200b}b\nc", 20), "a<U+200B>b<U+000A>c");
        assert_eq!(marked("grö\u{ad}ßer", 9), "grö<U+00A…");
        assert_eq!(
            marked("\u{202e}".repeat(500).as_str(), 20).chars().count(),
            21
        );
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
    fn one_line_has_only_visible_characters() {
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
