//! Integration tests of tool call validation.

// Parsing, resolution, validation and repair of calls.
mod calling;
// Catalog definitions, threat levels and approvals.
mod holding;
// Confirmations of pending calls, and calls that are checked again.
mod confirming;
// Access policy, as for picks.
mod eligibility;
mod sources;
// Shown names and alias logging.
mod translating;
mod deprecation;
// Results of calls in the format of each provider.
mod results;
// Examples of the original product documents.
mod documented;
// Forms of calls as models write them.
mod forms;
// Helpers of the modules above.
mod support;
