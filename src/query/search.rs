//! The texts that a request is searched for by, and what they mean in a conversation.

use std::ops::Range;

use super::ruled_out::ruled_out;
use super::{Author, MAX_CONTEXT_BYTES, Message, is_blank, sentence_ranges};
use crate::function_words::has_content_word;
use crate::reading::{TurnKind, request_text, scope, turn_kind};

/// The longest end of an assistant's message that is read, in bytes of UTF-8.
const MAX_ANSWER_BYTES: usize = 1024;
/// The number of bytes from which a turn has content of its own.
const MIN_CONTENT_BYTES: usize = 20;
/// The number of bytes from which a request beside pasted matter is searched for without it.
const MIN_REQUEST_BYTES: usize = 12;

/// The texts that a request is searched for by.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SearchTexts {
    /// The request, if it is not the complete text.
    pub(super) request: Option<String>,
    /// The request and its context, joined; empty if the request is searched for alone.
    pub(super) conversation: String,
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
        let scope = scope(request.as_deref().unwrap_or(text)).map(Finite);
        Self {
            request,
            conversation: String::new(),
            scope,
        }
    }

    /// Reads a request in the context of earlier messages of the user.
    pub(super) fn in_context(mut self, context: &str, text: &str) -> Self {
        self.conversation = format!("{context}\n{}", self.request.as_deref().unwrap_or(text));
        self
    }
}

impl SearchTexts {
    /// Reads the last turn of a conversation, which has an earlier message.
    pub(super) fn of_conversation(earlier: &[Message], text: &str) -> Self {
        let own = Self::of_request(text);
        let before = earlier
            .iter()
            .rposition(|message| message.author == Author::User);
        let answers = &earlier[before.map_or(0, |position| position + 1)..];
        let answer = end_of_answers(answers);
        let before_text = before.map_or("", |position| &earlier[position].text);
        let previous = || {
            let previous = Self::of_conversation(&earlier[..before?], before_text);
            let request = Some(previous.request_or(before_text));
            Some(Self {
                request,
                ..previous
            })
        };
        // A turn with content of its own stands for itself.
        let previous_text = || {
            let own = Self::of_request(before_text);
            let request = if before_text.len() >= MIN_CONTENT_BYTES && own.may_ask() {
                own.request_or(before_text)
            } else {
                previous()?.request?
            };
            let start = request.len().saturating_sub(MAX_CONTEXT_BYTES);
            Some(request[request.ceil_char_boundary(start)..].to_owned())
        };
        let kind = match turn_kind(before_text, &answer, text) {
            Some(kind) if !earlier.is_empty() => kind,
            _ => TurnKind::Request,
        };
        match (kind, previous_text()) {
            (TurnKind::Request, _) => own,
            (TurnKind::Idle, _) => previous().unwrap_or(own),
            (TurnKind::Related, Some(context)) => own.in_context(&context, text),
            (TurnKind::Continuation, Some(context)) => {
                Self::joined([&context, &own.request_or(text)])
            }
            (TurnKind::Answer, context) => {
                let context = context.unwrap_or_default();
                Self::joined([&answer, &context, &own.request_or(text)])
            }
            (TurnKind::Related | TurnKind::Continuation, None) => own,
        }
    }

    /// Returns `true` unless the words of the request ask for nothing.
    fn may_ask(&self) -> bool {
        self.scope.is_none_or(|scope| scope.0 >= 0.0)
    }

    /// Makes texts of a request that consists of several texts.
    fn joined<const TEXTS: usize>(texts: [&str; TEXTS]) -> Self {
        let texts: Vec<&str> = texts.into_iter().filter(|text| !is_blank(text)).collect();
        Self {
            request: Some(texts.join("\n")),
            conversation: String::new(),
            scope: None,
        }
    }

    fn request_or(&self, text: &str) -> String {
        self.request.clone().unwrap_or_else(|| text.to_owned())
    }
}

/// Returns the end of the assistant's messages, without pasted matter.
fn end_of_answers(answers: &[Message]) -> String {
    let texts: Vec<&str> = answers
        .iter()
        .map(|message| message.text.as_str())
        .collect();
    let text = texts.join("\n");
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_ANSWER_BYTES));
    text[start..].to_owned()
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
