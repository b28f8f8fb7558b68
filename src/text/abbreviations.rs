//! Abbreviations: a table of common ones with their meanings, and those that a text defines.
//!
//! A text defines an abbreviation by brackets: `air quality index (AQI)` or `AQI (air quality
//! index)`. The letters must be the first letters of the words.

use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt};

use super::analysis::words;
use crate::function_words::is_stop_word;

/// The most letters of an abbreviation that a text defines.
const MAX_LETTERS: usize = 6;
/// The most bytes of a meaning that a text defines.
const MAX_MEANING_BYTES: usize = 80;

/// The meanings of common abbreviations. Abbreviations in capitals count only if they are written
/// so.
static MEANINGS: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let mut meanings = HashMap::new();
    for line in include_str!("abbreviations.txt").lines() {
        if let Some((abbreviation, list)) = line.split_once(' ')
            && abbreviation != "#"
        {
            meanings.insert(abbreviation, list.split(" | ").collect());
        }
    }
    meanings
});

/// Returns the meanings of a common abbreviation, the likeliest first; none for other words.
pub(crate) fn common_meanings(word: &str, lower_case: &str) -> &'static [&'static str] {
    let meanings = MEANINGS.get(lower_case).or_else(|| MEANINGS.get(word));
    meanings.map_or(&[], Vec::as_slice)
}

/// Calls `each` with the abbreviations that a text defines, in lower case: `aqi air quality index`.
pub(crate) fn definitions(text: &str, mut each: impl FnMut(&str)) {
    let mut searched_from = 0;
    while let Some(offset) = text[searched_from..].find('(') {
        let open = searched_from + offset;
        searched_from = open + 1;
        let Some(length) = text[open..].find(')') else {
            return;
        };
        let (before, inside) = (text[..open].trim_end(), &text[open + 1..open + length]);
        let definition = match capitals(inside) {
            Some(letters) => last_words(before, letters).map(|meaning| (letters, meaning)),
            None => {
                let last = before.rsplit(|c: char| !c.is_alphanumeric()).next();
                let letters = last.and_then(capitals);
                letters
                    .filter(|letters| has_initials(inside, letters))
                    .map(|letters| (letters, inside.to_owned()))
            }
        };
        if let Some((letters, meaning)) = definition
            && meaning.len() <= MAX_MEANING_BYTES
        {
            each(&format!("{letters} {meaning}").to_lowercase());
        }
    }
}

/// Returns a word in capitals, without a plural `s`; `None` for another text.
fn capitals(text: &str) -> Option<&str> {
    let text = text.trim();
    let letters = text.strip_suffix('s').unwrap_or(text);
    let is_short = (2..=MAX_LETTERS).contains(&letters.len());
    (is_short && letters.bytes().all(|byte| byte.is_ascii_uppercase())).then_some(letters)
}

/// Returns the last words of a text whose first letters are `letters`.
fn last_words(text: &str, letters: &str) -> Option<String> {
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_MEANING_BYTES));
    let text = &text[start..];
    let ranges: Vec<(usize, usize)> = words(text).collect();
    // Function words may have no letter: `service level of agreement (SLA)`.
    for count in letters.len()..=letters.len() + 2 {
        let first = ranges.len().checked_sub(count)?;
        let candidate = &text[ranges[first].0..];
        if has_initials(candidate, letters) {
            return Some(joined_words(candidate));
        }
    }
    None
}

/// Returns the words of a text with blanks between them.
fn joined_words(text: &str) -> String {
    let words: Vec<&str> = words(text).map(|(start, end)| &text[start..end]).collect();
    words.join(" ")
}

/// Returns `true` if the first letters of the words, perhaps without function words, are `letters`.
fn has_initials(text: &str, letters: &str) -> bool {
    let (mut initials, mut content_initials) = (String::new(), String::new());
    for (start, end) in words(text) {
        let word = &text[start..end];
        let initial = word
            .chars()
            .take(1)
            .map(|letter| letter.to_ascii_uppercase());
        initials.extend(initial.clone());
        if !is_stop_word(word) {
            content_initials.extend(initial);
        }
    }
    initials == letters || content_initials == letters
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn texts_define_abbreviations_in_brackets() {
        let defined = |text: &str| {
            let mut defined = Vec::new();
            definitions(text, |definition| defined.push(definition.to_owned()));
            defined
        };
        assert_eq!(defined("Lists pull requests (PRs)."), ["pr pull requests"]);
        assert_eq!(
            defined("Reads the Air Quality Index (AQI) or PTO (paid time off)"),
            ["aqi air quality index", "pto paid time off"]
        );
        assert_eq!(
            defined("Checks a terms of service (TS) page"),
            ["ts terms of service"]
        );
        for text in [
            "Opens a file (PDF)",
            "in Basel (BS",
            "(AQI)",
            "a (b) c",
            "the largest number (of tools)",
        ] {
            assert!(defined(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn capitals_in_the_table_need_capitals_in_the_text() {
        assert_eq!(common_meanings("PTO", "pto")[0], "paid time off");
        assert_eq!(common_meanings("AI", "ai"), ["artificial intelligence"]);
        assert!(common_meanings("ai", "ai").is_empty());
        assert!(common_meanings("it", "it").is_empty());
    }

    #[test]
    fn table_has_each_abbreviation_once_and_no_function_words() {
        let mut seen = BTreeSet::new();
        for line in include_str!("abbreviations.txt").lines() {
            if line.starts_with('#') {
                continue;
            }
            let (abbreviation, meanings) = line.split_once(' ').expect("it has a meaning");
            assert!(seen.insert(abbreviation), "{abbreviation} twice");
            assert!(!is_stop_word(abbreviation), "{abbreviation}");
            assert!(
                meanings
                    .split(" | ")
                    .all(|meaning| !meaning.trim().is_empty())
            );
        }
        assert!(seen.len() >= 300);
    }
}
