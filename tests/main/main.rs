//! The integration tests: what a user of the library can see.

// Imports between the library's modules go one way, and the library neither prints nor reads the environment.
mod architecture;
// Who may take a name: conflicts, trust, aliases of the operator, look-alikes.
mod aliases;
// Deprecated aliases are told, and the log says which aliases are registered and used.
mod deprecation;
// What is found in hostile catalogs, and what is not in honest ones.
mod checking;
// Tools as providers want them, and the way back from a call.
mod translating;
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
// Who may see and call what, on every path.
mod eligibility;
// Picks as a set: parts of requests, tools offered twice, tools that need others; and within a budget of tokens.
mod selecting;
// What was said and called before: transcripts, tools in use, and what goes with them.
mod history;
mod holding;
// Requests that tools served before.
mod examples;
// Custom scorers: composing, lying, failing, and being late.
mod scoring;
// Rerankers: what they may change, when they are asked, and that none can harm a pick.
mod reranking;
// Language models as rerankers, which are a server of the tests that answers badly in every way.
#[cfg(feature = "llm")]
mod llm_reranking;
// Skills: reading them, what they need, and what picking one brings along.
mod skills;
// Embedding models: the default, and a made-up one for the rules.
mod semantic;
// Models that must be ready by a deadline.
mod openapi;
mod optional_model;
// Saved indexes: whole, damaged, hostile, of other versions, beside writers; and changes that an engine takes over.
mod saved;
// Models behind an HTTP endpoint, which is a server of the tests.
#[cfg(feature = "endpoint")]
mod endpoint;
// What is said of picks: scores, reasons, the best match that may not be used.
mod truth;
// What a request gives to a tool is not what it asks for.
mod values;
// What a request rules out.
mod negation;
mod mcp_configurations;
// The real MiniLM for the ONNX path.
#[cfg(feature = "fastembed")]
mod minilm;
// Cross-encoders on the ONNX path.
#[cfg(feature = "fastembed")]
mod cross_encoder;
// Calls of models: from text to a call that may be run, or an error that says what would have been right.
mod calling;
// What a model is told of its calls, in each provider's form.
mod results;
// Language models that mend calls, which are a server of the tests that answers badly in every way.
#[cfg(feature = "llm")]
mod llm_repair;
// The examples of the documents that the product comes from.
mod documented;
// Asking models over HTTP, in each provider's format, and hydrating what they call.
#[cfg(feature = "llm")]
mod dispatching;
// Running what models call: the pipeline, events, and tools that hang, lie and flood.
#[cfg(feature = "runtime")]
mod running;
#[cfg(all(feature = "runtime", unix))]
mod running_bash;
#[cfg(feature = "runtime")]
mod running_faults;
#[cfg(feature = "runtime")]
mod running_policy;
#[cfg(feature = "runtime")]
mod running_read;
// Tools from elsewhere: operations of HTTP interfaces, and tools of MCP servers, both servers of the tests.
#[cfg(feature = "runtime")]
mod running_http;
#[cfg(all(feature = "mcp", feature = "runtime"))]
mod running_mcp;
// A server of the tests.
#[cfg(any(feature = "endpoint", feature = "llm"))]
mod server;
// What the modules above share.
mod support;
