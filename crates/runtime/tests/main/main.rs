//! Integration tests of the tool manager.

// The pipeline, the events, and faulty tools.
mod running;
mod running_faults;
mod running_policy;
// Calls that were validated earlier.
mod running_plans;
// Calls with invalid arguments that are repaired.
mod running_repairs;
// Contexts without a manager, and a shared stream of events.
mod running_shared;
// The loop of an agent, and the tool that starts one.
mod running_agent;
// Tools whose schema comes from a Rust type.
#[cfg(feature = "schemars")]
mod running_typed;
// Remote tools: HTTP operations and MCP tools, against test servers.
mod running_http;
mod running_mcp;
