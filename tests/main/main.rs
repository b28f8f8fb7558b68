//! The integration tests of the engine, on the level of its users.

// The architecture: imports go one way, and the libraries do not print or read the environment.
mod architecture;
mod import_cycles;
// Name conflicts: trust, the operator's aliases, confusable names.
mod aliases;
// Deprecated aliases: reports and logs.
mod deprecation;
// Catalog formats: faults with their place, identity, digest.
mod formats;
// Origins of catalogs: provider requests, pages of a list, several files.
mod reading;
// The policies of a catalog: none is overlooked.
mod policy;
// Untrusted copies of trusted tools.
mod copies;
// Picks: guarantees, limits, determinism, unusual requests.
mod picking;
// Eligibility on every path.
mod eligibility;
// Picks as a set: subqueries, duplicates, required tools.
mod selecting;
// Accounts: equal tools of several sources.
mod accounts;
// Floors: tools that are always included, and fallbacks.
mod floors;
// History: tools in use and sequences.
mod history;
// Names and patterns of tools.
mod patterns;
// Examples.
mod examples;
// Tags and aliases: their effect on requests with and without them.
mod labels;
// Custom scorers: composition, invalid scores, failures, deadlines.
mod scoring;
// Scorers that a caller gives with a request.
mod given_scorers;
// Rerankers: their effect, their condition, and failures.
mod reranking;
// Embedding models: the default, and a fake one for the rules.
mod semantic;
// Best-effort models with a deadline.
mod optional_model;
// Saved indexes: intact, damaged, hostile, of other versions, with concurrent writers; and engine
// updates.
mod saved;
// The truth of scores, reasons and the best ineligible match.
mod truth;
// Words that no tool contains as they are written: typos, abbreviations, forms, compounds.
mod words;
// Values inside requests.
mod values;
// Negation in requests.
mod negation;
// The JSON-Schema-Test-Suite.
mod json_schema_suite;
// Helpers for these modules and for the tests of other crates.
pub mod support;
