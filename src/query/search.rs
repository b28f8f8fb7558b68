//! The query texts with which tools are searched, for a request alone or in a conversation.

use std::ops::Range;

use super::choice::chosen;
use super::message::{Author, MAX_CONTEXT_BYTES, Message};
use super::ruled_out::ruled_out;
use super::sentences::{is_blank, sentence_ranges};
use crate::function_words::has_content_word;
use crate::reading::{TurnKind, request_text, scope, turn_kind};

/// The assistant's messages since the user's previous turn are joined. At most this many bytes, from
/// their end, are read.
const MAX_ANSWER_BYTES: usize = 1024;
/// The smallest length, in bytes, of a turn with content of its own. The turn must also ask for
/// something.
const MIN_CONTENT_BYTES: usize = 20;
/// The smallest length, in bytes, of a part of a turn that is used as the request instead of the
/// complete turn.
const MIN_REQUEST_BYTES: usize = 12;
/// The number of last sentences of a turn that may be a request beside thanks or a greeting.
const MAX_LAST_SENTENCES: usize = 4;

/// The query texts of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SearchTexts {
    /// The text to search with, if it is not the complete text of the turn. If the turn answers or
    /// continues an earlier one, this text includes the context. For an idle turn, such as thanks,
    /// it is the search text of the previous turn.
    pub(super) request: Option<String>,
    /// The context and the request, joined, as a second text to search with. Empty if there is no
    /// context, or if `request` includes it.
    pub(super) conversation: String,
    /// The part of `request` that the user wrote. Set for answers and continuations, in which
    /// `request` may also have text of the assistant.
    pub(super) from_user: Option<String>,
    /// The log-odds that the request asks for something that a tool could do.
    pub(super) scope: Option<Finite>,
}

/// A finite number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Finite(pub(super) f32);

impl Eq for Finite {}
impl Eq for SearchTexts {}

impl SearchTexts {
    /// Reads a request without context.
    pub(super) fn of_request(text: &str) -> Self {
        let asked = request_text(text).filter(|asked| asked.len() >= MIN_REQUEST_BYTES);
        let remaining = remove_ruled_out(asked.as_deref().unwrap_or(text));
        let request = remaining.or(asked);
        let text = request.as_deref().unwrap_or(text);
        let is_readable = !is_blank(text) && !is_json(text);
        let scope = scope(text).filter(|_| is_readable).map(Finite);
        Self {
            request,
            scope,
            ..Self::default()
        }
    }

    /// Adds the context of earlier turns, as a second text to search with.
    pub(super) fn in_context(mut self, context: &str, text: &str) -> Self {
        self.conversation = format!("{context}\n{}", self.request.as_deref().unwrap_or(text));
        self
    }
}

impl SearchTexts {
    /// Reads the last turn of a conversation, after the `earlier` messages.
    pub(super) fn of_conversation(earlier: &[Message], text: &str) -> Self {
        Self::of_request(text).after(earlier, text)
    }

    /// Reads a turn after earlier messages, if there are any. `self` is the turn read as a request
    /// of its own.
    fn after(self, earlier: &[Message], text: &str) -> Self {
        let before = earlier
            .iter()
            .rposition(|message| message.author == Author::User);
        let answers = &earlier[before.map_or(0, |position| position + 1)..];
        let answer = end_of_answers(answers);
        let before_text = before.map_or("", |position| &earlier[position].text);
        let chosen = chosen(&answer, text);
        let kind = match turn_kind(before_text, &answer, text, self.scope()) {
            Some(_) if chosen.is_some() => TurnKind::Answer,
            Some(kind) if !earlier.is_empty() => kind,
            _ => TurnKind::Request,
        };
        if kind == TurnKind::Request {
            return self;
        }
        if kind == TurnKind::Idle
            && let Some(request) = Self::beside_thanks(earlier, before_text, &answer, text)
        {
            return request;
        }
        let previous = before.map(|position| PreviousTurn {
            own: Self::of_request(before_text),
            earlier: &earlier[..position],
            text: before_text,
        });
        let own_request = || self.request_or(text);
        match (kind, previous) {
            (TurnKind::Idle, Some(previous)) => previous.read(),
            (TurnKind::Related, Some(previous)) => {
                let context = previous.content();
                self.in_context(&context.text, text)
            }
            (TurnKind::Continuation, Some(previous)) => {
                let context = previous.content();
                Self {
                    from_user: Some(join([&context.from_user, &own_request()])),
                    ..Self::searched(join([&context.text, &own_request()]))
                }
            }
            (TurnKind::Answer, previous) => {
                let context = previous.map_or_else(Content::default, PreviousTurn::content);
                Self {
                    from_user: Some(join([&context.from_user, &own_request()])),
                    ..Self::searched(join([
                        chosen.unwrap_or(&answer),
                        &context.text,
                        &own_request(),
                    ]))
                }
            }
            (_, _) => self,
        }
    }

    /// Reads the request of a turn that asks for nothing as a whole, such as thanks with a request
    /// before or after them; `None` if there is no such request.
    fn beside_thanks(earlier: &[Message], before: &str, answer: &str, turn: &str) -> Option<Self> {
        for last in last_sentences(turn) {
            let texts = Self::of_request(last.text);
            let kind = turn_kind(before, answer, last.text, texts.scope());
            let is_request = match kind {
                Some(TurnKind::Idle) => false,
                Some(TurnKind::Answer) => !last.ends_turn && texts.may_ask(),
                _ => last.ends_turn || texts.may_ask(),
            };
            if is_request {
                let texts = texts.after(earlier, last.text);
                return Some(Self {
                    request: Some(texts.request_or(last.text)),
                    ..texts
                });
            }
        }
        None
    }

    fn scope(&self) -> Option<f32> {
        self.scope.map(|scope| scope.0)
    }

    /// Returns `true` if the words of the request may ask for something.
    fn may_ask(&self) -> bool {
        self.scope().is_none_or(|scope| scope >= 0.0)
    }

    /// Makes search texts with the single query text `request`.
    fn searched(request: String) -> Self {
        Self {
            request: Some(request),
            ..Self::default()
        }
    }

    fn request_or(&self, text: &str) -> String {
        self.request.clone().unwrap_or_else(|| text.to_owned())
    }
}

/// The user's turn before the one that is read.
struct PreviousTurn<'t> {
    /// The texts of the turn alone, without the messages before it.
    own: SearchTexts,
    /// The messages before the turn.
    earlier: &'t [Message],
    text: &'t str,
}

impl PreviousTurn<'_> {
    /// Reads the turn in its conversation.
    fn read(self) -> SearchTexts {
        let texts = self.own.after(self.earlier, self.text);
        SearchTexts {
            request: Some(texts.request_or(self.text)),
            ..texts
        }
    }

    /// Returns the content of the turn. A turn without content of its own takes that of earlier
    /// turns.
    fn content(self) -> Content {
        let text = self.text;
        let stands_alone = text.len() >= MIN_CONTENT_BYTES && self.own.may_ask();
        let texts = if stands_alone { self.own } else { self.read() };
        let request = end(&texts.request_or(text), MAX_CONTEXT_BYTES).to_owned();
        let from_user = texts.from_user.unwrap_or_else(|| request.clone());
        Content {
            text: request,
            from_user: end(&from_user, MAX_CONTEXT_BYTES).to_owned(),
        }
    }
}

/// The content of a turn.
#[derive(Default)]
struct Content {
    text: String,
    /// The part of the text that the user wrote.
    from_user: String,
}

/// Joins the texts that are not blank, each on lines of its own.
fn join<const TEXTS: usize>(texts: [&str; TEXTS]) -> String {
    let texts: Vec<&str> = texts.into_iter().filter(|text| !is_blank(text)).collect();
    texts.join("\n")
}

/// Returns the last bytes of a text, from a character boundary on.
fn end(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

/// Returns the end of the assistant's messages, joined.
fn end_of_answers(answers: &[Message]) -> String {
    let texts: Vec<&str> = answers
        .iter()
        .map(|message| message.text.as_str())
        .collect();
    end(&texts.join("\n"), MAX_ANSWER_BYTES).to_owned()
}

/// Returns `true` if a text is a JSON object or array. Programs write such texts, so they are
/// requests, not small talk.
fn is_json(text: &str) -> bool {
    let text = text.trim();
    let is_bracketed = text.starts_with('{') && text.ends_with('}')
        || text.starts_with('[') && text.ends_with(']');
    is_bracketed && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// One of the last sentences of a turn.
struct LastSentence<'t> {
    text: &'t str,
    /// `true` for the very last sentence.
    ends_turn: bool,
}

/// Returns the last sentences, the very last one first, if the text has more than one. One of them
/// may be a request after a greeting or before thanks.
fn last_sentences(text: &str) -> Vec<LastSentence<'_>> {
    let ranges = sentence_ranges(text);
    if ranges.len() < 2 {
        return Vec::new();
    }
    let mut sentences = Vec::new();
    for (position, range) in ranges
        .into_iter()
        .rev()
        .take(MAX_LAST_SENTENCES)
        .enumerate()
    {
        let sentence = LastSentence {
            text: text[range].trim(),
            ends_turn: position == 0,
        };
        if sentence.text.len() >= MIN_REQUEST_BYTES {
            sentences.push(sentence);
        }
    }
    sentences
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
