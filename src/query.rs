//! Requests as the retrievers read them.
//!
//! A [`Query`] is made from a string, from a transcript, or from any other JSON value, which is
//! serialised. The last user message of a transcript is the request. Clauses that rule something
//! out are not searched for. Text beyond [`MAX_QUERY_BYTES`] is not read, and [`Query::truncated`]
//! reports that. A request of a megabyte has no more intent than its first pages, and must not cost
//! more.

mod ruled_out;

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use self::ruled_out::ruled_out;
use crate::function_words::has_content_word;

/// The longest text of a request that is read, in bytes of UTF-8.
pub const MAX_QUERY_BYTES: usize = 64 * 1024;

/// The most parts that [`Query::sentences`] returns.
pub(crate) const MAX_SENTENCES: usize = 16;

/// The most earlier messages that are read. The latest ones are read.
pub const MAX_CONTEXT_MESSAGES: usize = 4;
/// The number of bytes at which earlier messages are enough context: "and in Turin?" is too short.
const SUFFICIENT_CONTEXT_BYTES: usize = 20;
/// The longest text of earlier messages that is read, in bytes of UTF-8, the latest first.
const MAX_CONTEXT_BYTES: usize = 8 * 1024;

/// The most names of called tools that are stored. The latest ones are stored.
const MAX_CALLED: usize = 64;
/// The longest name of a called tool, in bytes. No tool has a longer name.
pub(crate) const MAX_NAME_BYTES: usize = 2048;

/// Words that join clauses. Commas do not count, because they separate items of lists as often as
/// clauses.
const JOINS: [&str; 7] = ["and", "then", "also", "but", "plus", "while", "or"];

/// A request, normalised to text, with the conversation before it.
///
/// As JSON it is the text alone, or an object with the members `text`, `context`, `called` and
/// `truncated`, of which only `text` is required.
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
    /// The text without the clauses that rule something out, if it has such clauses.
    search_text: Option<String>,
    truncated: bool,
    /// The context and the request, joined; empty if the request has no context.
    conversation: String,
    /// The length of the context in `conversation`, in bytes.
    context_bytes: usize,
    called: Vec<String>,
}

impl Query {
    /// Makes a query from a text, which is cut to [`MAX_QUERY_BYTES`] at a character boundary.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        let truncated = text.len() > MAX_QUERY_BYTES;
        if truncated {
            text.truncate(text.floor_char_boundary(MAX_QUERY_BYTES));
        }
        let search_text = remove_ruled_out(&text);
        Self {
            text,
            search_text,
            truncated,
            conversation: String::new(),
            context_bytes: 0,
            called: Vec::new(),
        }
    }

    /// Adds the earlier messages of the user, oldest first, so that a follow-up request can be
    /// understood.
    ///
    /// Only the last message counts. If it is as short as "and in Turin?", the messages before it
    /// count too: at most 4 messages and 8 KiB.
    #[must_use]
    pub fn with_context<T: AsRef<str>>(self, earlier: &[T]) -> Self {
        let mut messages = Vec::new();
        let mut bytes = 0;
        for message in earlier.iter().rev().take(MAX_CONTEXT_MESSAGES) {
            let message = message.as_ref();
            let message = &message[..message.floor_char_boundary(MAX_CONTEXT_BYTES - bytes)];
            bytes += message.len();
            messages.push(message);
            if bytes >= SUFFICIENT_CONTEXT_BYTES {
                break;
            }
        }
        messages.reverse();
        self.with_context_text(&messages.join("\n"))
    }

    /// Sets the context of the request, unless `context` is blank.
    pub fn with_context_text(mut self, context: &str) -> Self {
        // The line ends that join messages do not count.
        let context =
            &context[..context.floor_char_boundary(MAX_CONTEXT_BYTES + MAX_CONTEXT_MESSAGES)];
        if !is_blank(context) {
            self.context_bytes = context.len();
            self.conversation = format!("{context}\n{}", self.search_text());
        }
        self
    }

    /// Sets the names of the tools that the assistant has called, each once, the latest last.
    pub fn with_called(mut self, called: Vec<String>) -> Self {
        self.called = called;
        self
    }

    /// Returns the text of the request.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text that is searched for: the request without clauses such as "don't send an
    /// email", or all of it if no content word would remain.
    pub fn search_text(&self) -> &str {
        self.search_text.as_deref().unwrap_or(&self.text)
    }

    /// Returns the earlier messages that count, each on a line of its own; empty if the request has
    /// no context.
    pub fn context(&self) -> &str {
        &self.conversation[..self.context_bytes]
    }

    /// Returns the context together with the request; empty if the request has no context.
    pub(crate) fn conversation(&self) -> &str {
        &self.conversation
    }

    /// Returns the names of the tools that the assistant has called, each once, the latest last.
    pub fn called(&self) -> &[String] {
        &self.called
    }

    /// Returns `true` if the request was longer than [`MAX_QUERY_BYTES`] and was cut.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the sentences and lines that have words, in order. If there are more than 16,
    /// neighbours are merged.
    pub fn sentences(&self) -> Vec<&str> {
        merge_neighbours(self.search_text(), &sentence_ranges(self.search_text()))
    }

    /// Returns the sentences of the conversation, in the same way as [`Query::sentences`].
    pub fn conversation_sentences(&self) -> Vec<&str> {
        merge_neighbours(&self.conversation, &sentence_ranges(&self.conversation))
    }

    /// Returns the subqueries, which may each need a tool of their own: the sentences, cut at
    /// English words like `and` and `then`; at most 16.
    pub fn clauses(&self) -> Vec<&str> {
        let text = self.search_text();
        let mut ranges = Vec::new();
        for sentence in sentence_ranges(text) {
            let (mut start, mut position) = (sentence.start, sentence.start);
            for word in text[sentence.clone()].split_inclusive(char::is_whitespace) {
                if JOINS
                    .iter()
                    .any(|join| join.eq_ignore_ascii_case(word.trim_end()))
                {
                    ranges.push(start..position);
                    start = position + word.len();
                }
                position += word.len();
            }
            ranges.push(start..sentence.end);
        }
        ranges.retain(|range| text[range.clone()].contains(char::is_alphanumeric));
        let clauses = merge_neighbours(text, &ranges);
        clauses.into_iter().map(str::trim).collect()
    }

    /// Returns `true` if there is nothing to search for: only white space, punctuation and
    /// invisible characters.
    pub fn is_blank(&self) -> bool {
        is_blank(&self.text)
    }
}

/// Adds the name of a called tool to those that were called later.
///
/// The name is ignored if it is a duplicate, empty or too long, or if there are 64 names already.
pub fn add_called(called: &mut Vec<String>, name: &str) {
    let is_name = !name.trim().is_empty() && name.len() <= MAX_NAME_BYTES;
    if is_name && called.len() < MAX_CALLED && called.iter().all(|other| other != name) {
        called.push(name.to_owned());
    }
}

/// Removes the clauses that rule something out.
///
/// Returns `None` if there are no such clauses, or if the rest has no content word.
fn remove_ruled_out(text: &str) -> Option<String> {
    let mut remaining = String::new();
    let mut copied_to = 0;
    for sentence in sentence_ranges(text) {
        for Range { start, end } in ruled_out(&text[sentence.clone()]) {
            remaining.push_str(&text[copied_to..sentence.start + start]);
            copied_to = sentence.start + end;
        }
    }
    remaining.push_str(&text[copied_to..]);
    (copied_to > 0 && has_content_word(&remaining)).then_some(remaining)
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
    while let Some((position, letter)) = letters.next() {
        let next = letters.peek().map(|&(_, next)| next);
        if ends_sentence(letter, next) || next.is_none() {
            let end = position + letter.len_utf8();
            if text[start..end].contains(char::is_alphanumeric) {
                ranges.push(start..end);
            }
            start = end;
        }
    }
    ranges
}

/// Merges neighbours of equal number, so that there are at most [`MAX_SENTENCES`] texts.
fn merge_neighbours<'t>(text: &'t str, ranges: &[Range<usize>]) -> Vec<&'t str> {
    let group_size = ranges.len().div_ceil(MAX_SENTENCES).max(1);
    ranges
        .chunks(group_size)
        .map(|group| &text[group[0].start..group[group.len() - 1].end])
        .collect()
}

/// Returns `true` if a sentence or line ends at `letter`. A full stop inside a word, as in `3.5` or
/// `main.rs`, does not end a sentence.
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
struct SerializedQuery {
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
        SerializedQuery {
            text,
            context: self.context().to_owned(),
            called,
            truncated,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Query {
    /// Reads a query and applies the same limits as for every query.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = match Value::deserialize(deserializer)? {
            Value::String(text) => return Ok(Self::new(text)),
            value => SerializedQuery::deserialize(value).map_err(serde::de::Error::custom)?,
        };
        let mut query = Self::new(record.text).with_context_text(&record.context);
        query.truncated |= record.truncated;
        for name in record.called.into_iter().rev() {
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
    fn query_survives_json_and_foreign_json_is_bounded() {
        let long = "é".repeat(MAX_QUERY_BYTES);
        let follow_up = Query::new("d")
            .with_context(&["Weather in Nice, and the news?", " and in Turin?\n"])
            .with_called(vec!["get_forecast".to_owned()]);
        for query in [
            Query::new("mail it"),
            Query::new(long.as_str()),
            follow_up,
            Query::new("[1]"),
        ] {
            let json = serde_json::to_string(&query).expect("the query serialises");
            assert_eq!(
                serde_json::from_str::<Query>(&json).expect("a serialised query is valid"),
                query,
                "{json:.80}"
            );
        }
        assert_eq!(
            serde_json::from_value::<Query>(json!("mail it")).expect("a text"),
            Query::new("mail it")
        );
        let hostile = json!({"text": long, "context": long, "called": vec!["x".repeat(5000); 500]});
        let query: Query = serde_json::from_value(hostile).expect("the query is cut");
        assert!(
            query.truncated() && query.context().len() <= MAX_CONTEXT_BYTES + MAX_CONTEXT_MESSAGES
        );
        assert!(
            query.called().is_empty(),
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
    fn punctuation_and_invisible_characters_are_blank() {
        for text in ["", " \n\t", "?!…", "、。", "\u{200b}\u{0}"] {
            assert!(Query::new(text).is_blank(), "{text:?}");
        }
        for text in ["a", "-1", "🚀", "猫", "C++", "+"] {
            assert!(!Query::new(text).is_blank(), "{text:?}");
        }
    }

    #[test]
    fn sentences_are_cut_at_full_stops_and_line_ends() {
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
    fn clauses_are_cut_at_joining_words() {
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
    fn many_sentences_are_merged() {
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
    fn context_is_bounded() {
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
    fn long_text_is_cut_at_a_character_boundary() {
        let query = Query::new("é".repeat(MAX_QUERY_BYTES));
        assert!(query.truncated());
        assert_eq!(query.text().len(), MAX_QUERY_BYTES);
        assert!(!Query::new("short").truncated());
    }
}
