//! Requests as the retrievers read them.
//!
//! A [`Query`] is made from a string, from a transcript, or from any other JSON value, which is
//! serialised. The last user message of a transcript is the request. Pasted matter and clauses that
//! rule something out are not searched for. Text beyond [`MAX_QUERY_BYTES`] is not read, and [`Query::truncated`]
//! reports that. A request of a megabyte has no more intent than its first pages, and must not cost
//! more.

mod choice;
mod clauses;
mod message;
mod ruled_out;
mod search;
mod sentences;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use self::message::MAX_CONTEXT_BYTES;
pub use self::message::{Author, Message};
use self::search::SearchTexts;
pub(crate) use self::sentences::MAX_SENTENCES;
use self::sentences::{is_blank, merge_neighbours, sentence_ranges};

/// The longest text of a request that is read, in bytes of UTF-8.
pub const MAX_QUERY_BYTES: usize = 64 * 1024;

/// The most earlier messages of a conversation that are read. The latest ones are read.
pub const MAX_EARLIER_MESSAGES: usize = 16;
/// The most earlier messages of the user that are context. The latest ones are read.
pub const MAX_CONTEXT_MESSAGES: usize = 4;
/// The number of bytes at which earlier messages are enough context: "and in Turin?" is too short.
const SUFFICIENT_CONTEXT_BYTES: usize = 20;

/// The log-odds below which a text is clearly small talk. Requests of one word have low odds, too,
/// so a threshold of 0 would be too high.
const SMALL_TALK: f32 = -1.2;

/// The most names of called tools that are stored. The latest ones are stored.
const MAX_CALLED: usize = 64;
/// The longest name of a called tool, in bytes. No tool has a longer name.
pub(crate) const MAX_NAME_BYTES: usize = 2048;

/// A request, normalised to text, with the conversation before it.
///
/// As JSON it is the text alone, or an object with the members `text`, `context`, `earlier`,
/// `called` and `truncated`, of which only `text` is required.
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
    truncated: bool,
    /// The messages before the request, oldest first.
    earlier: Vec<Message>,
    /// The earlier messages of the user that count, each on a line of its own.
    context: String,
    called: Vec<String>,
    /// The texts that are searched for.
    search: SearchTexts,
}

impl Query {
    /// Makes a query from a text, which is cut to [`MAX_QUERY_BYTES`] at a character boundary.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        let truncated = text.len() > MAX_QUERY_BYTES;
        if truncated {
            text.truncate(text.floor_char_boundary(MAX_QUERY_BYTES));
        }
        let search = SearchTexts::of_request(&text);
        Self {
            text,
            truncated,
            earlier: Vec::new(),
            context: String::new(),
            called: Vec::new(),
            search,
        }
    }

    /// Adds the earlier messages of the user, oldest first, so that a follow-up request can be
    /// understood.
    ///
    /// Only the last message counts. If it is as short as "and in Turin?", the messages before it
    /// count too: at most 4 messages and 8 KiB.
    #[must_use]
    pub fn with_context<T: AsRef<str>>(mut self, earlier: &[T]) -> Self {
        self.set_context(earlier.iter().map(AsRef::as_ref));
        self
    }

    /// Sets the context of the request, unless `context` is blank.
    pub fn with_context_text(mut self, context: &str) -> Self {
        // The line ends that join messages do not count.
        let context =
            &context[..context.floor_char_boundary(MAX_CONTEXT_BYTES + MAX_CONTEXT_MESSAGES)];
        if !is_blank(context) {
            self.context = context.to_owned();
            self.search = SearchTexts::of_request(&self.text).in_context(&self.context, &self.text);
        }
        self
    }

    /// Adds the conversation before the request, oldest message first; the latest 16 messages
    /// count.
    ///
    /// A turn without content of its own takes its meaning from the turn before it or, if the user
    /// agrees to something, from the assistant's last message. What the assistant says does not
    /// count otherwise, so that its text alone brings no tool.
    #[must_use]
    pub fn with_conversation(mut self, mut earlier: Vec<Message>) -> Self {
        earlier.retain(|message| !is_blank(&message.text));
        earlier.drain(..earlier.len().saturating_sub(MAX_EARLIER_MESSAGES));
        for message in &mut earlier {
            let end = message.text.floor_char_boundary(MAX_CONTEXT_BYTES);
            message.text.truncate(end);
        }
        let from_user = earlier
            .iter()
            .filter(|message| message.author == Author::User);
        let texts: Vec<String> = from_user.map(|message| message.text.clone()).collect();
        self.set_context(texts.iter().map(String::as_str));
        if !earlier.is_empty() {
            self.search = SearchTexts::of_conversation(&earlier, &self.text);
            self.earlier = earlier;
        }
        self
    }

    fn set_context<'t>(&mut self, earlier: impl DoubleEndedIterator<Item = &'t str>) {
        let mut messages = Vec::new();
        let mut bytes = 0;
        for message in earlier.rev().take(MAX_CONTEXT_MESSAGES) {
            let message = &message[..message.floor_char_boundary(MAX_CONTEXT_BYTES - bytes)];
            bytes += message.len();
            messages.push(message);
            if bytes >= SUFFICIENT_CONTEXT_BYTES {
                break;
            }
        }
        messages.reverse();
        let context = messages.join("\n");
        if !is_blank(&context) {
            self.search = SearchTexts::of_request(&self.text).in_context(&context, &self.text);
            self.context = context;
        }
    }

    /// Sets the names of the tools that the assistant has called, each once, the latest last.
    pub fn with_called(mut self, called: Vec<String>) -> Self {
        self.called = called;
        self
    }

    /// Returns the query with other words in the texts that are searched for.
    pub(crate) fn reworded(&self, reword: impl Fn(&str) -> String) -> Self {
        let mut query = self.clone();
        query.search.request = Some(reword(self.search_text()));
        query.search.conversation = reword(self.conversation());
        query
    }

    /// Returns the text of the request.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the messages of the conversation before the request, oldest first.
    pub fn earlier(&self) -> &[Message] {
        &self.earlier
    }

    /// Returns the text that is searched for: the request without pasted matter and without clauses
    /// such as "don't send an email". In a conversation, another text may replace a turn that has
    /// no content of its own.
    pub fn search_text(&self) -> &str {
        self.search.request.as_deref().unwrap_or(&self.text)
    }

    /// Returns the part of the text that is searched for that the user wrote. Only the user can name
    /// a tool.
    pub fn user_text(&self) -> &str {
        let from_user = self.search.from_user.as_deref();
        from_user.unwrap_or_else(|| self.search_text())
    }

    /// Returns `true` if the text that is searched for is clearly small talk, such as "thanks!".
    /// Without the feature `static-model`, no text is.
    pub fn is_small_talk(&self) -> bool {
        crate::reading::scope(self.search_text()).is_some_and(|scope| scope < SMALL_TALK)
    }

    /// Returns `true` if the request itself says what it asks for. Small talk does not, and neither
    /// does a turn such as "yes please", which takes its meaning from the conversation.
    pub fn has_own_content(&self) -> bool {
        let own = Self::new(self.text.as_str());
        let is_replaced = own.search_text() != self.search_text();
        let asks_nothing = own.scope().is_some_and(|scope| scope < 0.0);
        !(own.is_small_talk() || is_replaced && asks_nothing)
    }

    /// Returns the earlier messages of the user that count, each on a line of its own; empty if the
    /// request has no context.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// Returns the context together with the request, as they are searched for; empty if the
    /// request is searched for alone.
    pub(crate) fn conversation(&self) -> &str {
        &self.search.conversation
    }

    /// Returns the log-odds that the request asks for something that a tool could do, from its
    /// words alone. `None` if a turn of a conversation replaces it, or without a model.
    pub(crate) fn scope(&self) -> Option<f32> {
        self.search.scope.map(|scope| scope.0)
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
        merge_neighbours(self.conversation(), &sentence_ranges(self.conversation()))
    }

    /// Returns the subqueries, which may each need a tool of their own: the sentences, cut at
    /// words like `and` and at commas between long clauses; at most 16.
    pub fn clauses(&self) -> Vec<&str> {
        let text = self.search_text();
        let mut ranges = Vec::new();
        for sentence in sentence_ranges(text) {
            ranges.extend(clauses::clauses(text, sentence));
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
    earlier: Vec<Message>,
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
            earlier,
            context,
            called,
            ..
        } = self.clone();
        // The context is a part of the conversation.
        let context = if earlier.is_empty() {
            context
        } else {
            String::new()
        };
        SerializedQuery {
            text,
            context,
            earlier,
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
        if !record.earlier.is_empty() {
            query = query.with_conversation(record.earlier);
        }
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
        let query = Query::new("Open main.rs at 3.5! Then\n- mail it; ok?  … 把文件发给我。谢谢");
        assert_eq!(
            query.sentences(),
            [
                "Open main.rs at 3.5!",
                " Then\n",
                "- mail it;",
                " ok?",
                "  … 把文件发给我。",
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

    /// Makes a query from the last turn of a conversation.
    #[cfg(feature = "static-model")]
    fn turn(before: &str, answer: &str, turn: &str) -> Query {
        Query::new(turn).with_conversation(vec![
            Message::new(Author::User, before),
            Message::new(Author::Assistant, answer),
        ])
    }

    #[cfg(feature = "static-model")]
    const EXCHANGES: [(&str, &str); 2] = [
        (
            "how many hinges are in stock",
            "Three left, the minimum is ten. Shall I order twenty more?",
        ),
        (
            "weather in Cork on saturday",
            "Showers until noon, then dry.",
        ),
    ];

    #[test]
    #[cfg(feature = "static-model")]
    fn request_before_closing_thanks_is_searched() {
        for (before, answer) in EXCHANGES {
            for request in [
                "pay invoice 8821",
                "turn the hall lamp off",
                "send Paula the price list",
            ] {
                for turn_text in [
                    format!("{request}. Thank you so much!"),
                    format!("{request}\nyou're a star, thank you"),
                    format!("Thank you so much! {request}. Thank you so much!"),
                ] {
                    let query = turn(before, answer, &turn_text);
                    assert!(
                        query.search_text().contains(request),
                        "{turn_text}: {query:?}"
                    );
                }
            }
        }
    }

    #[test]
    #[cfg(feature = "static-model")]
    fn small_talk_of_several_sentences_is_not_searched() {
        for (before, answer) in EXCHANGES {
            for turn_text in [
                "haha those hinges again. You really are the best. Have a nice evening!",
                "Thanks a lot! That is good to know. I was worried about my garden. Bye for now",
                "no thank you. I was only curious. My brother bets on the number every week. See you!",
                "Ach so, danke! Da bin ich aber froh. Mein Garten braucht das. Bis morgen!",
                "Merci ! C'est parfait. Bonne journée à toi. À demain !",
            ] {
                let query = turn(before, answer, turn_text);
                assert_eq!(query.search_text(), before, "{turn_text}");
            }
        }
    }
}
