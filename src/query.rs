//! What is asked.
//!
//! A [`Query`] is the text that the retrievers see. It is made from a string, from a transcript,
//! whose last user message is the request, or from any other JSON value, which is stringified. What
//! it rules out is not searched for. Text beyond [`MAX_QUERY_BYTES`] is not read, and
//! [`Query::truncated`] says so: a request of a megabyte carries no more intent than its first
//! pages, and must not cost more than they do.

mod ruled_out;

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use self::ruled_out::ruled_out;
use crate::function_words::says_something;

/// The most text of a request that is read, in bytes of UTF-8.
pub const MAX_QUERY_BYTES: usize = 64 * 1024;

/// The most parts that [`Query::sentences`] gives.
pub(crate) const MAX_SENTENCES: usize = 16;

/// The most earlier messages that are read, the latest ones.
pub const MAX_CONTEXT_MESSAGES: usize = 4;
/// Earlier messages say enough when they have as many bytes: "and in Turin?" has not.
const CONTEXT_ENOUGH: usize = 20;
/// The most text of earlier messages that is read, in bytes of UTF-8, the latest first.
const MAX_CONTEXT_BYTES: usize = 8 * 1024;

/// The most names of called tools that are kept, the latest ones.
const MAX_CALLED: usize = 64;
/// Longer names belong to no tool.
pub(crate) const MAX_NAME_BYTES: usize = 2048;

/// Words that join clauses. Commas part the items of lists as often as clauses, and do not count.
const JOINS: [&str; 7] = ["and", "then", "also", "but", "plus", "while", "or"];

/// A request, normalised to text, and what was said and called before.
///
/// As JSON it is an object of `text`, `context`, `called` and `truncated`, of which only `text`
/// must be there, or the text alone.
///
/// ```
/// use picktools::Query;
///
/// let query = Query::new("and in Turin?").with_context(&["What is the weather in Nice?"]);
/// assert_eq!((query.text(), query.context()), ("and in Turin?", "What is the weather in Nice?"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    text: String,
    /// The text without what it rules out, where it rules out something.
    wanted: Option<String>,
    truncated: bool,
    /// What was said before, and the request; empty where the request stands alone.
    conversation: String,
    /// How many bytes of that were said before.
    context: usize,
    called: Vec<String>,
}

impl Query {
    /// Makes a query from text, cut to [`MAX_QUERY_BYTES`] at a character boundary.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        let truncated = text.len() > MAX_QUERY_BYTES;
        if truncated {
            text.truncate(text.floor_char_boundary(MAX_QUERY_BYTES));
        }
        let wanted = wanted(&text);
        Self {
            text,
            wanted,
            truncated,
            conversation: String::new(),
            context: 0,
            called: Vec::new(),
        }
    }

    /// Adds what the user said before, oldest first, so that a request that goes on with it is
    /// understood. What counts is the last message, and where it is as short as "and in Turin?",
    /// those before it: at most 4 messages and 8 KiB.
    #[must_use]
    pub fn with_context<T: AsRef<str>>(self, earlier: &[T]) -> Self {
        let mut kept = Vec::new();
        let mut bytes = 0;
        for message in earlier.iter().rev().take(MAX_CONTEXT_MESSAGES) {
            let message = message.as_ref();
            let message = &message[..message.floor_char_boundary(MAX_CONTEXT_BYTES - bytes)];
            bytes += message.len();
            kept.push(message);
            if bytes >= CONTEXT_ENOUGH {
                break;
            }
        }
        kept.reverse();
        self.within(&kept.join("\n"))
    }

    /// Takes `context` for what was said before, unless there is nothing to search for in it.
    pub fn within(mut self, context: &str) -> Self {
        // Messages are joined with line ends, which do not count.
        let context =
            &context[..context.floor_char_boundary(MAX_CONTEXT_BYTES + MAX_CONTEXT_MESSAGES)];
        if !is_blank(context) {
            self.context = context.len();
            self.conversation = format!("{context}\n{}", self.wanted());
        }
        self
    }

    /// Names the tools that the assistant has called, each once, the latest last.
    pub fn with_called(mut self, called: Vec<String>) -> Self {
        self.called = called;
        self
    }

    /// Returns the text of the request.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text that is searched for: without clauses such as "don't send an email", unless
    /// nothing is left then.
    pub fn wanted(&self) -> &str {
        self.wanted.as_deref().unwrap_or(&self.text)
    }

    /// Returns what the user said before, as far as it counts, one message after the other on lines
    /// of their own; empty where the request stands alone.
    pub fn context(&self) -> &str {
        &self.conversation[..self.context]
    }

    /// Returns what was said before together with the request; empty where that stands alone.
    pub(crate) fn conversation(&self) -> &str {
        &self.conversation
    }

    /// Returns the names of the tools that the assistant has called, each once, the latest last.
    pub fn called(&self) -> &[String] {
        &self.called
    }

    /// Returns `true` if text of the request beyond [`MAX_QUERY_BYTES`] was left out.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the sentences and lines that hold words, in order; if there are more than 16,
    /// neighbours are taken together.
    pub fn sentences(&self) -> Vec<&str> {
        together(self.wanted(), &sentence_ranges(self.wanted()))
    }

    /// Returns the sentences of the conversation, as [`Query::sentences`] does those of the
    /// request.
    pub fn conversation_sentences(&self) -> Vec<&str> {
        together(&self.conversation, &sentence_ranges(&self.conversation))
    }

    /// Returns the parts that may each need a tool of their own: the sentences, cut at English
    /// words like `and` and `then`; at most 16.
    pub fn clauses(&self) -> Vec<&str> {
        let text = self.wanted();
        let mut ranges = Vec::new();
        for sentence in sentence_ranges(text) {
            let (mut start, mut at) = (sentence.start, sentence.start);
            for word in text[sentence.clone()].split_inclusive(char::is_whitespace) {
                if JOINS
                    .iter()
                    .any(|join| join.eq_ignore_ascii_case(word.trim_end()))
                {
                    ranges.push(start..at);
                    start = at + word.len();
                }
                at += word.len();
            }
            ranges.push(start..sentence.end);
        }
        ranges.retain(|range| text[range.clone()].contains(char::is_alphanumeric));
        together(text, &ranges).into_iter().map(str::trim).collect()
    }

    /// Returns `true` if there is nothing to search for: only white space, punctuation and
    /// characters that nobody sees.
    pub fn is_blank(&self) -> bool {
        is_blank(&self.text)
    }
}

/// Adds the name of a called tool to those that were called later, unless it is there, is no name,
/// or there are enough.
pub fn add_called(called: &mut Vec<String>, name: &str) {
    let is_name = !name.trim().is_empty() && name.len() <= MAX_NAME_BYTES;
    if is_name && called.len() < MAX_CALLED && called.iter().all(|known| known != name) {
        called.push(name.to_owned());
    }
}

/// The text without what it rules out; `None` where that is nothing, or everything that it says.
fn wanted(text: &str) -> Option<String> {
    let mut wanted = String::new();
    let mut kept = 0;
    for sentence in sentence_ranges(text) {
        for Range { start, end } in ruled_out(&text[sentence.clone()]) {
            wanted.push_str(&text[kept..sentence.start + start]);
            kept = sentence.start + end;
        }
    }
    wanted.push_str(&text[kept..]);
    (kept > 0 && says_something(&wanted)).then_some(wanted)
}

fn is_blank(text: &str) -> bool {
    use GeneralCategoryGroup::{Other, Punctuation, Separator};
    text.chars()
        .all(|c| matches!(c.general_category_group(), Separator | Punctuation | Other))
}

fn sentence_ranges(text: &str) -> Vec<Range<usize>> {
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
fn together<'t>(text: &'t str, ranges: &[Range<usize>]) -> Vec<&'t str> {
    let together = ranges.len().div_ceil(MAX_SENTENCES).max(1);
    ranges
        .chunks(together)
        .map(|group| &text[group[0].start..group[group.len() - 1].end])
        .collect()
}

/// Returns `true` if a sentence or line ends at `letter`; a full stop inside a word, as in `3.5` or
/// `main.rs`, ends none.
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

/// The serialised form of a [`Query`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    context: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    called: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl Serialize for Query {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            text,
            truncated,
            called,
            ..
        } = self.clone();
        Wire {
            text,
            context: self.context().to_owned(),
            called,
            truncated,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Query {
    /// Reads what was serialised within the bounds that every query has.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = match Value::deserialize(deserializer)? {
            Value::String(text) => return Ok(Self::new(text)),
            value => Wire::deserialize(value).map_err(serde::de::Error::custom)?,
        };
        let mut query = Self::new(wire.text).within(&wire.context);
        query.truncated |= wire.truncated;
        for name in wire.called.into_iter().rev() {
            add_called(&mut query.called, &name);
        }
        query.called.reverse();
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_query_survives_its_json_and_foreign_json_is_held_to_the_bounds() {
        let long = "é".repeat(MAX_QUERY_BYTES);
        let talk =
            Query::new("d").with_context(&["Weather in Nice, and the news?", " and in Turin?\n"]);
        let talk = talk.with_called(vec!["get_forecast".to_owned()]);
        for query in [
            Query::new("mail it"),
            Query::new(long.as_str()),
            talk,
            Query::new("[1]"),
        ] {
            let json = serde_json::to_string(&query).expect("it serialises");
            assert_eq!(
                serde_json::from_str::<Query>(&json).expect("it was written by us"),
                query,
                "{json:.80}"
            );
        }
        assert_eq!(
            serde_json::from_value::<Query>(json!("mail it")).expect("a text"),
            Query::new("mail it")
        );
        let hostile = json!({"text": long, "context": long, "called": vec!["x".repeat(5000); 500]});
        let read: Query = serde_json::from_value(hostile).expect("it is cut");
        assert!(
            read.truncated() && read.context().len() <= MAX_CONTEXT_BYTES + MAX_CONTEXT_MESSAGES
        );
        assert!(
            read.called().is_empty(),
            "no tool has a name of that length"
        );
        for value in [
            json!({"text": "a", "role": "user"}),
            json!({"context": "a"}),
            json!(7),
            json!({"text": null}),
        ] {
            serde_json::from_value::<Query>(value.clone()).expect_err(&value.to_string());
        }
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
            [
                "Open main.rs at 3.5!",
                " Then\n",
                "- mail it;",
                " ok?",
                "把文件发给我。",
                "谢谢"
            ]
        );
        assert_eq!(
            Query::new("resize the picture").sentences(),
            ["resize the picture"]
        );
        assert!(Query::new("… !\n").sentences().is_empty());
    }

    #[test]
    fn clauses_are_cut_at_words_that_join() {
        let query = Query::new(
            "Book a flight, a room AND mail me the android plan. Then, and then call Rand",
        );
        let clauses = [
            "Book a flight, a room",
            "mail me the android plan.",
            "Then,",
            "call Rand",
        ];
        assert_eq!(query.clauses(), clauses);
        assert_eq!(
            Query::new("resize the picture").clauses(),
            ["resize the picture"]
        );
        assert!(Query::new("go and ".repeat(100)).clauses().len() <= MAX_SENTENCES);
        assert!(Query::new("and then").clauses().is_empty());
    }

    #[test]
    fn many_sentences_are_taken_together() {
        let text = "Go on. ".repeat(100);
        let query = Query::new(text.as_str());
        let sentences = query.sentences();
        assert!(
            sentences.len() <= MAX_SENTENCES && sentences.len() > MAX_SENTENCES / 2,
            "{}",
            sentences.len()
        );
        assert_eq!(sentences.concat(), text.trim_end());
    }

    #[test]
    fn the_context_is_bounded() {
        assert_eq!(
            Query::new("d")
                .with_context(&["and in Turin?", "b"])
                .conversation(),
            "and in Turin?\nb\nd"
        );
        assert_eq!(
            Query::new("x")
                .with_context(&["1", "2", "3", "4", "5"])
                .context(),
            "2\n3\n4\n5"
        );
        let long = "é".repeat(MAX_CONTEXT_BYTES);
        let query = Query::new("x").with_context(&["too much", &long, "kept"]);
        assert!(
            query.context().len() <= MAX_CONTEXT_BYTES + 1 && query.context().ends_with("é\nkept")
        );
    }

    #[test]
    fn enormous_text_is_cut_at_a_character_boundary() {
        let query = Query::new("é".repeat(MAX_QUERY_BYTES));
        assert!(query.truncated());
        assert_eq!(query.text().len(), MAX_QUERY_BYTES);
        assert!(!Query::new("short").truncated());
    }
}
