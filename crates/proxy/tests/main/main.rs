//! Integration tests of the model proxy: the requests that a provider receives, and the headers
//! that the client gets.

// A provider that records requests, and a client.
mod provider;
// Tools that stay whatever the conversation: the client's, the provider's, those of the settings.
mod keeping;
// Conversations that no tool fits.
mod nothing_fits;
// The headers that report what was left out.
mod reporting;
// Calls that a model wrote in its text.
mod text_calls;
