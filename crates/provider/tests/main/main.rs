//! Integration tests of provider formats.

// Translation of tools.
mod translating;
// Parsing of written definitions.
mod reading;
// Transcripts as requests.
mod history;
// Picks within a token budget.
mod budget;
// Servers of equal tools.
mod accounts;
// Calls of streamed answers, however a server cuts them.
mod streaming;
// Calls that a local model writes in its text.
mod text_calls;
