//! A catalog in a store that several share, against a real server.

mod eligibility;
mod faults;
mod hostile;
mod publishing;
mod server;
mod support;
