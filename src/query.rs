//! What is asked.
//!
//! A [`Query`] is the text that the retrievers see. It is made from a string or from any JSON value, which is
//! stringified. Text beyond [`MAX_QUERY_BYTES`] is not read, and [`Query::truncated`] says so: a request of a
//! megabyte carries no more intent than its first pages, and must not cost more than they do.

use std::ops::Range;

use serde_json::Value;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// The most text of a request that is read, in bytes of UTF-8.
pub const MAX_QUERY_BYTES: usize = 64 * 1024;

/// The most parts that [`Query::sentences`] gives.
pub(crate) const MAX_SENTENCES: usize = 16;

/// Words that join clauses. Commas part the items of lists as often as clauses, and do not count.
const JOINS: [&str; 7] = ["and", "then", "also", "but", "plus", "while", "or"];

/// A request, normalised to text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    text: String,
    truncated: bool,
}

impl Query {
    /// Makes a query from text, cut to [`MAX_QUERY_BYTES`] at a character boundary.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        let truncated = text.len() > MAX_QUERY_BYTES;
        if truncated {
            text.truncate(text.floor_char_boundary(MAX_QUERY_BYTES));
        }
        Self { text, truncated }
    }

    /// Returns the text that is searched for.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Tells whether text beyond [`MAX_QUERY_BYTES`] was left out.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the sentences and lines that hold words, in order; where there are more than [`MAX_SENTENCES`],
    /// neighbours are taken together.
    pub(crate) fn sentences(&self) -> Vec<&str> {
        self.together(&self.sentence_ranges())
    }

    /// Returns the parts that may each need a tool of their own: the sentences, cut at English words like `and` and `then`;
    /// at most [`MAX_SENTENCES`], as there.
    pub(crate) fn clauses(&self) -> Vec<&str> {
        let mut ranges = Vec::new();
        for sentence in self.sentence_ranges() {
            let (mut start, mut at) = (sentence.start, sentence.start);
            for word in self.text[sentence.clone()].split_inclusive(char::is_whitespace) {
                if JOINS.iter().any(|join| join.eq_ignore_ascii_case(word.trim_end())) {
                    ranges.push(start..at);
                    start = at + word.len();
                }
                at += word.len();
            }
            ranges.push(start..sentence.end);
        }
        ranges.retain(|range| self.text[range.clone()].contains(char::is_alphanumeric));
        self.together(&ranges).into_iter().map(str::trim).collect()
    }

    fn sentence_ranges(&self) -> Vec<Range<usize>> {
        let text = self.text.as_str();
        let mut ranges = Vec::new();
        let mut start = 0;
        let mut letters = text.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            let next = letters.peek().map(|&(_, next)| next);
            if ends_sentence(letter, next) || next.is_none() {
                let end = at + letter.len_utf8();
                if text[start..end].contains(char::is_alphanumeric) {
                    ranges.push(start..end);
                }
                start = end;
            }
        }
        ranges
    }

    /// Takes neighbours together, so that there are at most [`MAX_SENTENCES`] texts.
    fn together(&self, ranges: &[Range<usize>]) -> Vec<&str> {
        let together = ranges.len().div_ceil(MAX_SENTENCES).max(1);
        ranges.chunks(together).map(|group| &self.text[group[0].start..group[group.len() - 1].end]).collect()
    }

    /// Tells whether there is nothing to search for: only white space, punctuation and characters that nobody sees.
    pub fn is_blank(&self) -> bool {
        use GeneralCategoryGroup::{Other, Punctuation, Separator};
        self.text.chars().all(|c| matches!(c.general_category_group(), Separator | Punctuation | Other))
    }
}

/// Tells whether a sentence or line ends at `letter`; a full stop inside a word, as in `3.5` or `main.rs`, ends none.
fn ends_sentence(letter: char, next: Option<char>) -> bool {
    match letter {
        '\n' | '。' | '！' | '？' => true,
        '.' | '!' | '?' | ';' => next.is_none_or(char::is_whitespace),
        _ => false,
    }
}

impl From<&str> for Query {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Query {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&Value> for Query {
    /// Takes a JSON string as it is and any other value as its compact JSON text.
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::new(text.as_str()),
            other => Self::new(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_values_are_stringified_and_strings_taken_as_they_are() {
        assert_eq!(Query::from(&json!("hello")).text(), "hello");
        assert_eq!(Query::from(&json!({"city": "Oslo"})).text(), r#"{"city":"Oslo"}"#);
    }

    #[test]
    fn punctuation_and_what_nobody_sees_is_blank() {
        for text in ["", " \n\t", "?!…", "、。", "\u{200b}\u{0}"] {
            assert!(Query::new(text).is_blank(), "{text:?}");
        }
        for text in ["a", "-1", "🚀", "猫", "C++", "+"] {
            assert!(!Query::new(text).is_blank(), "{text:?}");
        }
    }

    #[test]
    fn sentences_are_cut_at_their_ends_and_at_lines() {
        let query = Query::new("Open main.rs at 3.5! Then\n- mail it; ok?  …\n把文件发给我。谢谢");
        assert_eq!(
            query.sentences(),
            ["Open main.rs at 3.5!", " Then\n", "- mail it;", " ok?", "把文件发给我。", "谢谢"]
        );
        assert_eq!(Query::new("resize the picture").sentences(), ["resize the picture"]);
        assert!(Query::new("… !\n").sentences().is_empty());
    }

    #[test]
    fn clauses_are_cut_at_words_that_join() {
        let query = Query::new("Book a flight, a room AND mail me the android plan. Then, and then call Rand");
        let clauses = ["Book a flight, a room", "mail me the android plan.", "Then,", "call Rand"];
        assert_eq!(query.clauses(), clauses);
        assert_eq!(Query::new("resize the picture").clauses(), ["resize the picture"]);
        assert!(Query::new("go and ".repeat(100)).clauses().len() <= MAX_SENTENCES);
        assert!(Query::new("and then").clauses().is_empty());
    }

    #[test]
    fn many_sentences_are_taken_together() {
        let text = "Go on. ".repeat(100);
        let query = Query::new(text.as_str());
        let sentences = query.sentences();
        assert!(sentences.len() <= MAX_SENTENCES && sentences.len() > MAX_SENTENCES / 2, "{}", sentences.len());
        assert_eq!(sentences.concat(), text.trim_end());
    }

    #[test]
    fn enormous_text_is_cut_at_a_character_boundary() {
        let query = Query::new("é".repeat(MAX_QUERY_BYTES));
        assert!(query.truncated());
        assert_eq!(query.text().len(), MAX_QUERY_BYTES);
        assert!(!Query::new("short").truncated());
    }
}
