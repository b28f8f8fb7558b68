//! Messages of a conversation before the request.

use serde::{Deserialize, Serialize};

/// The longest text of earlier messages that is read, in bytes of UTF-8, the latest first.
pub(super) const MAX_CONTEXT_BYTES: usize = 8 * 1024;

/// The author of a message in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// A message of a conversation before the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The author.
    pub author: Author,
    /// The text.
    pub text: String,
}

impl Message {
    /// Makes a message.
    pub fn new(author: Author, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { author, text }
    }
}
