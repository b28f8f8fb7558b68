//! Time and size limits for a server.

use std::time::Duration;

/// Time and size limits for a server's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for start, handshake and all pages together.
    pub time: Duration,
    /// The largest number of pages of the tool list.
    pub pages: usize,
    /// The largest number of tools.
    pub tools: usize,
    /// The largest size of all tools together, in bytes.
    pub bytes: usize,
    /// The largest size of one message, in bytes.
    pub message_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            pages: 500,
            tools: 20_000,
            bytes: 64 << 20,
            message_bytes: 16 << 20,
        }
    }
}
