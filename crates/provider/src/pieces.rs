//! The pieces of a streamed call, and the rule that assigns a piece to a call.

use serde_json::{Map, Value};

use super::calls::{Arguments, ToolCall};

/// A piece of a call, as one event of a stream has it. Absent and empty texts are `None`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallPiece<'a> {
    /// The place of the call in the answer.
    pub(super) index: Option<u64>,
    pub(super) id: Option<&'a str>,
    /// The name, or a part of it.
    pub(super) name: Option<&'a str>,
    pub(super) arguments: Option<ArgumentPiece<'a>>,
}

/// The arguments in a piece.
#[derive(Debug, Clone, Copy)]
pub(super) enum ArgumentPiece<'a> {
    /// A part of the JSON text.
    Text(&'a str),
    /// All arguments, as a JSON value.
    Json(&'a Value),
}

impl<'a> ArgumentPiece<'a> {
    /// Returns the arguments of a value; `None` if it is null.
    pub(super) fn from_value(value: &'a Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(Self::Text(text)),
            value => Some(Self::Json(value)),
        }
    }

    /// Returns `true` if the piece adds nothing to other arguments.
    fn is_blank(self) -> bool {
        match self {
            Self::Text(text) => text.trim().is_empty(),
            Self::Json(value) => is_empty_object(value),
        }
    }

    /// Returns `true` if the piece cannot continue other arguments.
    fn is_start(self) -> bool {
        match self {
            Self::Text(text) => text.trim_start().starts_with('{'),
            Self::Json(value) => !is_empty_object(value),
        }
    }
}

impl Arguments {
    /// Returns the arguments as the only piece of a streamed call.
    pub(super) fn piece(&self) -> ArgumentPiece<'_> {
        match self {
            Self::Text(text) => ArgumentPiece::Text(text),
            Self::Json(value) => ArgumentPiece::Json(value),
        }
    }
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// The start or the end of an item that contains a call, with what is known of the call.
#[derive(Debug)]
pub(super) struct CallItem<'a> {
    pub(super) index: Option<u64>,
    pub(super) item_id: Option<&'a str>,
    pub(super) call: ToolCall,
    pub(super) is_complete: bool,
}

/// The arguments of the call in an item.
#[derive(Debug, Clone, Copy)]
pub(super) enum ItemArguments<'a> {
    /// The next part.
    Part(ArgumentPiece<'a>),
    /// All arguments, which replace the parts.
    All(ArgumentPiece<'a>),
}

/// A call whose pieces are still arriving.
#[derive(Debug, Default)]
pub(super) struct PartialCall {
    pub(super) index: u64,
    pub(super) id: Option<String>,
    /// The id of the item that contains the call, if it differs from the id of the call.
    pub(super) item_id: Option<String>,
    pub(super) name: String,
    text: String,
    progress: JsonProgress,
    /// Arguments that arrived as a JSON value, which apply if there is no text.
    value: Option<Value>,
    /// `true` if the provider marked the call as complete.
    pub(super) complete: bool,
    /// `true` if pieces of this call have different ids, which therefore mean nothing.
    ids_change: bool,
    /// The id and name of a piece that announces the next call, or only repeats them.
    announced: Option<NextCall>,
}

/// The id and name of a call that follows at the place of another one.
#[derive(Debug, Default)]
pub(super) struct NextCall {
    pub(super) id: Option<String>,
    pub(super) name: String,
}

impl NextCall {
    fn new(id: Option<&str>, name: Option<&str>) -> Self {
        Self {
            id: id.map(str::to_owned),
            name: name.unwrap_or_default().to_owned(),
        }
    }

    /// Adds the id and the name of a later piece.
    fn with(self, id: Option<&str>, name: Option<&str>) -> Self {
        let is_same = id.is_none() || id == self.id.as_deref();
        match name {
            // Without an id, the earlier name was a repetition of a complete name.
            Some(name) if is_same && self.id.is_some() && self.name != name => Self {
                name: self.name + name,
                id: self.id,
            },
            Some(name) => Self::new(id.or(self.id.as_deref()), Some(name)),
            None if is_same => self,
            None => Self::new(id, Some(&self.name)),
        }
    }
}

impl PartialCall {
    /// Makes a call without arguments.
    pub(super) fn new(index: u64, id: Option<&str>, name: &str) -> Self {
        Self {
            index,
            id: id.map(str::to_owned),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Returns `true` if no arguments arrived.
    pub(super) fn has_no_arguments(&self) -> bool {
        self.text.trim().is_empty() && self.value.as_ref().is_none_or(is_empty_object)
    }

    /// Returns `true` if the arguments are complete JSON.
    fn is_full(&self) -> bool {
        self.complete || self.progress.closed || (self.text.is_empty() && self.value.is_some())
    }

    /// Returns `true` if a piece cannot belong to this call because its arguments are complete.
    pub(super) fn excludes(&self, piece: CallPiece<'_>) -> bool {
        let has_arguments = piece.arguments.is_some_and(|piece| !piece.is_blank());
        has_arguments && self.is_full() && !self.has_no_arguments()
    }

    /// Returns the call that a piece at the place of this one starts; `None` if the piece belongs to
    /// this call.
    ///
    /// Some servers number all calls alike, repeat the id or the name in each piece, or make a new
    /// id for each piece. A piece therefore starts a call only if its id and its name are new, or if
    /// the arguments of this call are complete.
    pub(super) fn next_call(&mut self, piece: CallPiece<'_>) -> Option<NextCall> {
        let id = piece.id.filter(|id| Some(*id) != self.id.as_deref());
        let is_new_name = |name: &&str| !self.name.is_empty() && *name != self.name;
        let has_new_name = piece.name.filter(is_new_name).is_some();
        if !self.is_full() {
            let is_new = self.id.is_some() && id.is_some() && has_new_name;
            return is_new.then(|| NextCall::new(id, piece.name));
        }
        let announces = id.is_some() || piece.name.is_some() || self.announced.is_some();
        // The name of this call may follow its arguments.
        if !announces || (self.name.is_empty() && id.is_none()) {
            return None;
        }
        let next = self.announced.take().unwrap_or_default();
        let next = next.with(id, piece.name);
        let has_new_id = next.id.is_some();
        let starts = match piece.arguments.filter(|arguments| !arguments.is_blank()) {
            Some(_) if has_new_id || has_new_name => true,
            Some(arguments) => arguments.is_start() && !self.has_no_arguments(),
            None => has_new_name || (has_new_id && !next.name.is_empty() && !self.ids_change),
        };
        if starts {
            return Some(next);
        }
        self.announced = Some(next);
        None
    }

    /// Takes the id, the name and the arguments of a piece that belongs to this call.
    pub(super) fn take(&mut self, piece: CallPiece<'_>) {
        match (&self.id, piece.id) {
            (None, Some(id)) if !self.is_full() => self.id = Some(id.to_owned()),
            (Some(own), Some(id)) if own != id && !self.is_full() => self.ids_change = true,
            _ => {}
        }
        if let Some(name) = piece.name {
            // Some servers repeat the complete name in every piece.
            if self.name != name && (self.name.is_empty() || !self.is_full()) {
                self.name.push_str(name);
            }
        }
        match piece.arguments {
            Some(ArgumentPiece::Text(text)) => self.push_text(text),
            Some(ArgumentPiece::Json(value)) => self.value = Some(value.clone()),
            None => {}
        }
    }

    /// Takes the complete arguments, which replace all earlier ones.
    pub(super) fn replace_arguments(&mut self, arguments: ArgumentPiece<'_>) {
        self.text.clear();
        self.progress = JsonProgress::default();
        self.value = None;
        match arguments {
            ArgumentPiece::Text(text) => self.push_text(text),
            ArgumentPiece::Json(value) => self.value = Some(value.clone()),
        }
    }

    /// Returns `true` if an item contains this call.
    pub(super) fn is_same(&self, item: &CallItem<'_>) -> bool {
        let has_same_id = item.call.id.is_some() && item.call.id == self.id;
        let is_same_item = item.item_id.is_some() && item.item_id == self.item_id.as_deref();
        if has_same_id || is_same_item || self.name.is_empty() {
            return true;
        }
        // Some servers give the end of an item other ids than its start.
        let arguments = item.call.arguments.piece();
        let fits = match arguments {
            ArgumentPiece::Text(text) => text == self.text,
            ArgumentPiece::Json(_) => false,
        };
        item.is_complete
            && !self.complete
            && self.name == item.call.name
            && (fits || arguments.is_blank() || self.has_no_arguments())
    }

    /// Takes what an item says about this call.
    pub(super) fn take_item(&mut self, item: CallItem<'_>) {
        self.id = item.call.id.or(self.id.take());
        self.item_id = item.item_id.map(str::to_owned);
        self.name = item.call.name;
        let arguments = item.call.arguments.piece();
        if !arguments.is_blank() || self.has_no_arguments() {
            self.replace_arguments(arguments);
        }
        self.complete |= item.is_complete;
    }

    /// Marks the call as complete, with an empty object if it has no arguments.
    pub(super) fn mark_complete(&mut self) {
        if self.text.is_empty() {
            self.value.get_or_insert_with(|| Value::Object(Map::new()));
        }
        self.complete = true;
    }

    fn push_text(&mut self, text: &str) {
        self.progress.push(text);
        self.text.push_str(text);
    }

    /// Returns the call.
    pub(super) fn finish(self) -> ToolCall {
        let arguments = match self.value {
            Some(value) if self.text.trim().is_empty() => Arguments::Json(value),
            _ => Arguments::Text(self.text),
        };
        ToolCall {
            id: self.id,
            name: self.name,
            arguments,
        }
    }
}

/// The state of a JSON text that arrives in pieces.
#[derive(Debug, Default)]
struct JsonProgress {
    /// The number of open brackets.
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// `true` if the outermost brackets are closed.
    closed: bool,
}

impl JsonProgress {
    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.in_string {
                self.in_string = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
                self.closed |= !self.in_string && self.depth == 0;
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.closed |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_of_json_knows_its_end() {
        for (text, closed) in [
            ("", false),
            ("{\"a\": [1, 2", false),
            ("{\"a\": \"}", false),
            ("{\"a\": \"\\\"}\"", false),
            ("{\"a\": \"\\\\\"}", true),
            ("{}", true),
            ("\"{}\"", true),
            ("{\"a\": {}} ", true),
        ] {
            let mut progress = JsonProgress::default();
            text.chars()
                .for_each(|c| progress.push(c.encode_utf8(&mut [0; 4])));
            assert_eq!(progress.closed, closed, "{text}");
        }
    }
}
