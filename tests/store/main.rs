//! A catalog in a store that several share, against a real server.

mod eligibility;
mod faults;
mod hostile;
mod publishing;
#[allow(dead_code, reason = "the gateways' tests have it too, and need more")]
mod server;
mod support;
