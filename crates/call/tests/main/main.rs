//! The integration tests of calls: from what a model said to a call that may be run.

// Calls of models: from text to a call that may be run, or an error that says what would have been
// right.
mod calling;
// What a call is held to.
mod holding;
// Who may call what: as with picks.
mod eligibility;
mod sources;
// Names that a model is shown lead back, and the log says which aliases are used.
mod translating;
mod deprecation;
// What a model is told of its calls, in each provider's form.
mod results;
// The examples of the documents that the product comes from.
mod documented;
// What the modules above share.
mod support;
