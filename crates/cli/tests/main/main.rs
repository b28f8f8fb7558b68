//! Integration tests of the program: the behaviour that users see.

// Answers, exit codes, bad input.
mod cli;
// Catalogs of several files, of folders and from standard input.
mod catalogs;
// Saved indexes.
mod saved;
// Secrets of configurations.
mod secrets;
// Output: bounded, printable, and errors as JSON.
mod printing;
// Models by name: listing, downloading, and the tuned model.
mod models;
// Evaluation of rankings: measures, minimum quality, comparison.
mod evaluating;
// Evaluation of conversations and of requests as people write them.
mod talking;
// The HTML report of an evaluation.
mod reporting;
// Validation of calls.
mod validating;
// Forms of calls as models write them, in every command and server.
mod flows;
mod forms;
// Findings in catalogs, as text, JSON and SARIF.
mod checking;
// A user's machine, for the tests of `init` and `doctor`.
mod machine;
// The state of configured servers.
mod doctor;
// The state of the servers of a running gateway.
mod status;
// A newcomer's first hour, with servers in every state.
mod newcomer;
// Names and aliases.
mod naming;
// Names and patterns of excluded tools.
mod patterns;
// Definitions in providers' formats.
mod translating;
// Examples from logs and from a language model.
mod examples;
// Skills in picks.
mod skills;
// Token budgets.
mod budget;
// OpenAPI documents.
mod importing;
// MCP servers.
mod mcp_servers;
// The gateway: one client, many clients, real clients.
mod gateway;
mod gateway_http;
mod real_clients;
// Signals, and the servers that must end with the program.
mod endings;
// The connections of a gateway that ends.
mod open_connections;
// A gateway under load, and restarts.
mod load;
// The memory of a gateway.
#[cfg(target_os = "linux")]
mod memory;
// A store that several gateways share.
mod shared_store;
// The HTTP API.
mod http_api;
// The console.
mod console;
// The model proxy.
mod model_proxy;
// The audit log and its replay.
mod audit;
// A request through all interfaces.
mod whole_path;
// The configuration of clients by `init`.
mod init;
mod init_formats;
// Running tools.
mod running;
// Language models as rerankers.
mod llm_reranking;
// Repair of calls by a language model.
mod llm_repair;
// Embedding models behind an HTTP endpoint.
mod endpoint;
// Models on ONNX Runtime.
#[cfg(feature = "onnx")]
mod minilm;
#[cfg(feature = "onnx")]
mod cross_encoder;
// Helpers of the modules above.
mod support;
