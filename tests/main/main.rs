//! The integration tests of the engine: what its user can see.

// Imports between the engine's modules go one way, and the libraries neither print nor read the
// environment.
mod architecture;
// Who may take a name: conflicts, trust, aliases of the operator, look-alikes.
mod aliases;
// Deprecated aliases are told, and the log says which aliases are registered.
mod deprecation;
// Catalogs: every format, every fault with its place, identity and digest.
mod formats;
// Where catalogs come from: what providers were given, pages of a list, several files.
mod reading;
// Policy of a catalog: nothing of it goes unread.
mod policy;
// Untrusted copies of trusted tools.
mod copies;
// Picks: guarantees, the cut, determinism, odd requests.
mod picking;
// Who may see what, on every path.
mod eligibility;
// Picks as a set: parts of requests, tools offered twice, tools that need others.
mod selecting;
// What was called before: tools in use, and what goes with them.
mod history;
// Requests that tools served before.
mod examples;
// Custom scorers: composing, lying, failing, and being late.
mod scoring;
// Rerankers: what they may change, when they are asked, and that none can harm a pick.
mod reranking;
// Embedding models: the default, and a made-up one for the rules.
mod semantic;
// Models that must be ready by a deadline.
mod optional_model;
// Saved indexes: whole, damaged, hostile, of other versions, beside writers; and changes that an
// engine takes over.
mod saved;
// What is said of picks: scores, reasons, the best match that may not be used.
mod truth;
// What a request gives to a tool is not what it asks for.
mod values;
// What a request rules out.
mod negation;
// What the modules above share, and the tests of other crates.
pub mod support;
