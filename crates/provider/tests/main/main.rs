//! The integration tests of provider formats.

// Tools as providers want them.
mod translating;
// What was written for a provider is a catalog again.
mod reading;
// What was said and called before: transcripts.
mod history;
// Picks within a budget of tokens.
mod budget;
