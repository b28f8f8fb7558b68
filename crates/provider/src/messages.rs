//! The messages of a format, and their lists.

use serde_json::{Map, Value};

use super::view;

/// The largest number of parts that are read from a message.
const MAX_PARTS: usize = 1024;

/// The structure of messages in a format.
pub(super) struct Messages {
    /// The member with the list of messages, if the transcript is an object.
    pub(super) list: &'static str,
    /// The member of a message with its text or its parts.
    pub(super) content: &'static str,
    /// The members that may replace the content.
    pub(super) calls: &'static [&'static str],
    /// The types of text parts. A part without a type is text, too.
    pub(super) texts: &'static [&'static str],
}

/// Returns the items of a list in a message, up to the limit.
pub(super) fn list_items<'v>(
    message: &'v Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'v Value> + use<'v> {
    view::array_member(message, key).iter().take(MAX_PARTS)
}

/// An item of a transcript.
pub(super) enum Item<'a> {
    User(&'a Map<String, Value>),
    Assistant(&'a Map<String, Value>),
    /// A call outside a message.
    Call(&'a Value),
    Other,
}
