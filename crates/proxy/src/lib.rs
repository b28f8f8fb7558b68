//! The model proxy: it passes a request to its provider with the tools that the conversation needs,
//! and the answer back unchanged.
//!
//! Nothing of a conversation is kept. What a conversation needs is worked out from its own
//! messages, turn by turn, and each turn only adds to the list, so that the provider's cache of the
//! prompt stays good: the list of one request is the beginning of that of the next. What was worked
//! out is remembered by the digest of the messages, for speed alone.

// Modules stand in reading order: each uses only those above it (`tests/main/architecture.rs` of
// the library).
mod unchanged;
mod members;
mod api;
mod forward;
mod indexed;
mod narrow;
mod proxy;

pub use api::Api;
pub use proxy::{Proxy, refuse};
