//! Assembly of tool calls from a streamed answer.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::Provider;
use super::answer::{Answer, Finish};
use super::calls::{self, CallCollector, MAX_ANSWER_ARGUMENT_BYTES, MAX_CALLS, ToolCall};
use super::events::END_EVENT;
use super::pieces::{ArgumentPiece, CallItem, CallPiece, ItemArguments, PartialCall};
use super::wire::JsonCursor;
use crate::ResponseError;

/// The largest size of the text that a stream keeps, in bytes.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Assembler for the calls of a streamed answer.
///
/// ```
/// use picktools_provider::Provider;
/// use picktools_provider::{CallStream, EventReader};
///
/// let text = concat!(
///     "data: {\"choices\": [{\"delta\": {\"tool_calls\": [",
///     "{\"index\": 0, \"id\": \"c1\", \"function\": ",
///     "{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\"\"}}]}}]}\n\n",
///     "data: {\"choices\": [{\"delta\": {\"tool_calls\": [",
///     "{\"index\": 0, \"function\": {\"arguments\": \": 1}\"}}]}, ",
///     "\"finish_reason\": \"tool_calls\"}]}\n\ndata: [DONE]\n\n",
/// );
/// let (mut reader, mut stream) = (EventReader::new(), CallStream::new(Provider::OpenAiChat));
/// for event in reader.push(text.as_bytes())? {
///     stream.push(&event)?;
/// }
/// let calls = stream.finish()?;
/// assert_eq!(calls[0].name, "get_weather");
/// # Ok::<(), picktools_provider::ResponseError>(())
/// ```
#[derive(Debug)]
pub struct CallStream {
    provider: Provider,
    /// The calls, in the order in which they started.
    calls: Vec<PartialCall>,
    /// The position of the latest call at each index that the provider gives.
    latest: HashMap<u64, usize>,
    /// The positions of calls by their ids, and by the ids of the items that contain them.
    by_id: HashMap<String, usize>,
    /// The indexes at which the latest part of the answer is not a call.
    other_parts: HashSet<u64>,
    /// The position of the call of the last piece.
    last: Option<usize>,
    /// The total size of names, ids and arguments, in bytes.
    bytes: usize,
    text: Option<String>,
    finish: Option<Finish>,
    ended: bool,
}

impl CallStream {
    /// Makes an empty stream.
    pub fn new(provider: Provider) -> Self {
        Self {
            provider,
            calls: Vec::new(),
            latest: HashMap::new(),
            by_id: HashMap::new(),
            other_parts: HashSet::new(),
            last: None,
            bytes: 0,
            text: None,
            finish: None,
            ended: false,
        }
    }

    /// Takes the next event of the stream. Events without calls are ignored.
    ///
    /// # Errors
    ///
    /// [`ResponseError`] if the event reports an error or has an unexpected shape, or if the calls
    /// exceed the limits.
    pub fn push(&mut self, event: &Value) -> Result<(), ResponseError> {
        if event == END_EVENT {
            self.ended = true;
            return Ok(());
        }
        self.provider
            .format()
            .push(&JsonCursor::open(self.provider, event)?, self)
    }

    /// Returns the calls, ordered by index.
    ///
    /// # Errors
    ///
    /// [`ResponseError::Truncated`] if the stream ended inside a call, or reached the token limit
    /// after a call began.
    pub fn finish(self) -> Result<Vec<ToolCall>, ResponseError> {
        self.finish_answer()?.into_calls()
    }

    /// Returns the answer, with its calls ordered by index. A text of more than 4 MiB is cut.
    ///
    /// # Errors
    ///
    /// [`ResponseError::Truncated`] if the stream ended inside a call.
    pub fn finish_answer(mut self) -> Result<Answer, ResponseError> {
        self.calls.sort_by_key(|call| call.index);
        let mut calls = CallCollector::default();
        for call in self.calls {
            if !(call.complete || self.ended) {
                return Err(ResponseError::Truncated { name: call.name });
            }
            calls.add(call.finish())?;
        }
        Ok(Answer {
            calls: calls.finish(),
            text: self.text,
            finish: self.finish,
        })
    }

    /// Marks the answer, and thereby all its calls, as complete.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Marks the answer as complete, for the provider's reason.
    pub(super) fn end_with(&mut self, reason: &str, parse: fn(&str) -> Finish) {
        self.finish = Some(parse(reason));
        self.ended = true;
    }

    /// Appends to the text, within its limit.
    pub(super) fn push_text(&mut self, text: &str) {
        let own = self.text.get_or_insert_default();
        if own.len() + text.len() <= MAX_TEXT_BYTES {
            own.push_str(text);
        }
    }

    /// Returns `true` if no call started.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Marks the latest part of the answer at an index as something other than a call.
    pub(super) fn start_other_part(&mut self, index: u64) {
        self.other_parts.insert(index);
    }

    /// Returns `true` if the latest part of the answer at an index is not a call.
    pub(super) fn is_other_part(&self, index: u64) -> bool {
        self.other_parts.contains(&index)
    }

    /// Returns the latest call at an index.
    pub(super) fn call_at(&mut self, index: u64) -> Option<&mut PartialCall> {
        self.calls.get_mut(*self.latest.get(&index)?)
    }

    /// Takes a piece of a call, and starts the call if necessary.
    pub(super) fn take(&mut self, piece: CallPiece<'_>) -> Result<(), ResponseError> {
        self.count(piece)?;
        let position = match self.position_for(piece) {
            None => self.start(piece.index, piece.id, piece.name.unwrap_or_default())?,
            Some(position) => match self.calls[position].next_call(piece) {
                None => position,
                Some(next) => {
                    let index = piece.index.unwrap_or(self.calls[position].index);
                    let id = next.id.as_deref().or(piece.id);
                    let started = self.start(Some(index), id, &next.name)?;
                    self.take_at(
                        started,
                        CallPiece {
                            name: None,
                            ..piece
                        },
                    );
                    return Ok(());
                }
            },
        };
        self.take_at(position, piece);
        Ok(())
    }

    /// Takes a piece that has all of a call, or that continues the last call if it has no name.
    pub(super) fn take_complete(&mut self, piece: CallPiece<'_>) -> Result<(), ResponseError> {
        self.count(piece)?;
        let position = match self.last {
            Some(last) if piece.name.is_none() || self.completes(last, piece) => last,
            _ => self.start(None, piece.id, piece.name.unwrap_or_default())?,
        };
        self.take_at(position, piece);
        self.calls[position].mark_complete();
        Ok(())
    }

    /// Takes the start or the end of an item that contains a call.
    pub(super) fn take_item(&mut self, item: CallItem<'_>) -> Result<(), ResponseError> {
        let arguments = item.call.arguments.piece();
        let piece = CallPiece {
            index: item.index,
            id: item.call.id.as_deref(),
            name: Some(&item.call.name),
            arguments: Some(arguments),
        };
        self.count(piece)?;
        let latest = item
            .index
            .and_then(|index| self.latest.get(&index).copied());
        let known = [item.item_id, piece.id].into_iter().flatten();
        let known = known.filter_map(|id| self.by_id.get(id).copied());
        let is_here = |at: &usize| {
            latest.is_none_or(|latest| self.calls[*at].index == self.calls[latest].index)
        };
        let candidate = known.into_iter().find(is_here).or(latest);
        let position = match candidate.filter(|&at| self.calls[at].is_same(&item)) {
            Some(position) => position,
            None => self.start(item.index, piece.id, "")?,
        };
        for id in [item.item_id, piece.id].into_iter().flatten() {
            self.by_id.insert(id.to_owned(), position);
        }
        self.last = Some(position);
        self.calls[position].take_item(item);
        Ok(())
    }

    /// Takes a piece of the arguments of the call in an item, or all of them.
    pub(super) fn take_item_arguments(
        &mut self,
        index: Option<u64>,
        item_id: Option<&str>,
        arguments: ItemArguments<'_>,
    ) -> Result<(), ResponseError> {
        let (ItemArguments::Part(part) | ItemArguments::All(part)) = arguments;
        self.count(CallPiece {
            arguments: Some(part),
            ..CallPiece::default()
        })?;
        let by_id = item_id.and_then(|id| self.by_id.get(id).copied());
        let by_index = || index.and_then(|index| self.latest.get(&index).copied());
        let position = match by_id.or_else(by_index).or(self.last) {
            Some(position) => position,
            None => self.start(index, None, "")?,
        };
        self.last = Some(position);
        let call = &mut self.calls[position];
        match arguments {
            // Pieces of a call whose start was lost. Its end repeats its arguments.
            _ if call.complete => {}
            ItemArguments::Part(part) => call.take(CallPiece {
                arguments: Some(part),
                ..CallPiece::default()
            }),
            ItemArguments::All(all) => call.replace_arguments(all),
        }
        Ok(())
    }

    /// Returns `true` if a piece repeats a call without arguments to give them.
    fn completes(&self, position: usize, piece: CallPiece<'_>) -> bool {
        let call = &self.calls[position];
        piece.id.is_some()
            && piece.id == call.id.as_deref()
            && piece.name == Some(call.name.as_str())
            && call.has_no_arguments()
    }

    fn take_at(&mut self, position: usize, piece: CallPiece<'_>) {
        self.last = Some(position);
        if let Some(id) = piece.id {
            self.by_id.entry(id.to_owned()).or_insert(position);
        }
        self.calls[position].take(piece);
    }

    /// Returns the position of the call to which a piece belongs or which it follows; `None` if it
    /// starts a call of its own.
    fn position_for(&self, piece: CallPiece<'_>) -> Option<usize> {
        let by_id = piece.id.and_then(|id| self.by_id.get(id).copied());
        let Some(index) = piece.index else {
            return match (by_id, piece.id, piece.name) {
                (Some(position), ..) => Some(position),
                (None, Some(_), Some(_)) => None,
                _ => self.last,
            };
        };
        if let Some(&latest) = self.latest.get(&index) {
            let is_here = |position: &usize| self.calls[*position].index == index;
            return Some(by_id.filter(is_here).unwrap_or(latest));
        }
        if piece.name.is_some() {
            return None;
        }
        match piece.id {
            Some(_) => by_id,
            None => self.last.filter(|&last| !self.calls[last].excludes(piece)),
        }
    }

    /// Starts a call; without an index, behind all others. Any index is allowed.
    fn start(
        &mut self,
        index: Option<u64>,
        id: Option<&str>,
        name: &str,
    ) -> Result<usize, ResponseError> {
        let position = self.calls.len();
        if position >= MAX_CALLS {
            return Err(calls::too_many_calls());
        }
        let next_index = || {
            self.calls
                .iter()
                .map(|call| call.index.saturating_add(1))
                .max()
        };
        let index = index.or_else(next_index).unwrap_or(0);
        self.calls.push(PartialCall::new(index, id, name));
        self.latest.insert(index, position);
        self.other_parts.remove(&index);
        self.last = Some(position);
        if let Some(id) = id {
            self.by_id.insert(id.to_owned(), position);
        }
        Ok(position)
    }

    /// Counts the size of a piece.
    fn count(&mut self, piece: CallPiece<'_>) -> Result<(), ResponseError> {
        let arguments = match piece.arguments {
            Some(ArgumentPiece::Text(text)) => text.len(),
            Some(ArgumentPiece::Json(value)) => calls::json_size(value),
            None => 0,
        };
        let names = [piece.id, piece.name].into_iter().flatten();
        let bytes = arguments.saturating_add(names.map(str::len).sum());
        if bytes > MAX_ANSWER_ARGUMENT_BYTES - self.bytes {
            return Err(calls::too_many_bytes());
        }
        self.bytes += bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
