//! Fixtures and fake servers for the tests of this workspace.

pub mod calls;
mod port;
pub mod server;
#[cfg(feature = "store")]
pub mod store;
// Shared with the tests of the library, which depend on no other crate of the workspace.
#[path = "../../../tests/main/support.rs"]
mod support;

pub use port::free_port;
pub use support::*;
