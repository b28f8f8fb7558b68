//! The model proxy: it forwards API requests to the provider with only the tools that the
//! conversation needs. It returns the response unchanged, unless the settings move calls
//! out of its text.
//!
//! The proxy stores no conversation. It computes the tool list from the messages of each request,
//! turn by turn. Each turn only appends to the list, so the provider's prompt cache stays valid.
//! Lists are cached by the digest of the messages, for speed only.

// Modules are in reading order: each uses only modules above it. A test of the library checks this
// (`tests/main/architecture.rs`).
mod unchanged;
mod members;
mod api;
mod forward;
mod namespaces;
mod indexed;
mod narrow;
mod report;
mod shown;
mod long_numbers;
mod answers;
mod held;
mod proxy;

pub use api::ModelApi;
pub use narrow::narrowed_body;
pub use proxy::{Proxy, refuse};
