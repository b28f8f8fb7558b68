//! Replies of a store.

/// A reply of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreReply {
    /// No value.
    Nothing,
    /// A number.
    Number(i64),
    /// A text, or any bytes.
    Text(Vec<u8>),
    /// A list of replies.
    List(Vec<Self>),
}

impl StoreReply {
    /// Returns the text, if the reply is UTF-8 text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns the parts of a list; empty for other replies.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::List(parts) => parts,
            _ => &[],
        }
    }
}
