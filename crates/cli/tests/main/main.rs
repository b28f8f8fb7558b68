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
mod budget;
// OpenAPI documents.
mod importing;
// MCP servers.
mod mcp_servers;
// The gateway: one client, then many, then real ones.
mod gateway;
mod gateway_http;
mod real_clients;
// A store that several gateways share.
mod shared_store;
// The HTTP interface.
mod http_api;
// What its operator sees.
mod console;
// The way to models.
mod model_proxy;
// The audit: what is recorded, what is noticed, and what is run again.
mod audit;
// All of it together.
mod whole_path;
// The gateway before the servers of people's clients.
mod init;
// Running tools.
mod running;
// Language models as rerankers.
mod llm_reranking;
// Calls that a language model mends.
mod llm_repair;
// Embedding models behind an HTTP endpoint.
mod endpoint;
// Models on ONNX Runtime.
#[cfg(feature = "onnx")]
mod minilm;
#[cfg(feature = "onnx")]
mod cross_encoder;
// What the modules above share.
mod support;
