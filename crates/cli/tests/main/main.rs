//! The integration tests of the program: what its user can see.

// Answers, exit codes, bad input.
mod cli;
// Catalogs of several files, of folders and from standard input.
mod catalogs;
// Saved indexes.
mod saved;
// What is printed: bounded, printable, and errors as JSON.
mod printing;
// The models by name: listing, pulling, and the tuned one.
mod models;
// Evaluation of rankings: figures, floors, comparison.
mod evaluating;
// The page that an evaluation leaves behind.
mod reporting;
// Calls in files.
mod validating;
// Findings in catalogs, as text, JSON and SARIF.
mod checking;
// What names mean, and who gives them.
mod naming;
// Tools as providers want them.
mod translating;
// Examples: learned from logs, written by a model.
mod examples;
// Skills beside the picks.
mod skills;
// Picks within a budget of tokens.
#[cfg(feature = "tokens")]
mod budget;
// OpenAPI documents.
mod importing;
// MCP servers.
#[cfg(feature = "mcp")]
mod mcp_servers;
// The gateway: one client, then many, then real ones.
#[cfg(feature = "server")]
mod gateway;
#[cfg(feature = "server")]
mod gateway_http;
#[cfg(feature = "server")]
mod real_clients;
// A store that several gateways share.
#[cfg(feature = "redis")]
mod shared_store;
// The store itself, and a line to it that can be cut, as the library's tests have them.
#[cfg(feature = "redis")]
#[allow(dead_code, reason = "others need more of it")]
#[path = "../../../../tests/store/server.rs"]
mod store_server;
// The HTTP interface.
#[cfg(feature = "server")]
mod http_api;
// What its operator sees.
#[cfg(feature = "server")]
mod console;
// The way to models.
#[cfg(feature = "server")]
mod model_proxy;
// The audit: what is recorded, what is noticed, and what is run again.
#[cfg(feature = "server")]
mod audit;
// All of it together.
#[cfg(feature = "server")]
mod whole_path;
// The gateway before the servers of people's clients.
#[cfg(feature = "server")]
mod init;
// Running tools.
#[cfg(all(feature = "mcp", feature = "runtime"))]
mod running;
// Language models as rerankers.
#[cfg(feature = "llm")]
mod llm_reranking;
// Calls that a language model mends.
#[cfg(feature = "llm")]
mod llm_repair;
// Embedding models behind an HTTP endpoint.
#[cfg(feature = "endpoint")]
mod endpoint;
// Models on ONNX Runtime.
#[cfg(feature = "fastembed")]
mod minilm;
#[cfg(feature = "fastembed")]
mod cross_encoder;
// A server of the tests, which the library's tests use too.
#[cfg(any(feature = "endpoint", feature = "llm"))]
#[cfg_attr(feature = "llm", expect(dead_code, reason = "the library's tests are answered in more ways"))]
#[path = "../../../../tests/main/server.rs"]
mod server;
// What the modules above share.
mod support;
