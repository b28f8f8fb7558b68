//! The integration tests of running what models call.

// The pipeline, events, and tools that hang, lie and flood.
mod running;
mod running_faults;
mod running_policy;
// Tools from elsewhere: operations of HTTP interfaces, and tools of MCP servers, both servers of
// the tests.
mod running_http;
mod running_mcp;
