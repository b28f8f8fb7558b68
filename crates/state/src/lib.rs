//! State that gateways keep in files, or share in Redis or Valkey.
//!
//! [`StateHandle`] is state that several processes read and change: JSON in a [file](SharedFile) of
//! this machine, or in a [`StateStore`]. Each command to a store has a [`Purpose`]. The caller
//! decides what to do if there is no reply.

// Modules are in reading order: each uses only those above it. The library's
// `tests/main/architecture.rs` checks this.
mod lock;
pub mod keys;
mod file_changes;
mod shared_file;
mod shared_store;
mod changes;
mod shared;

pub use changes::{StateChanges, StateLocation};
pub use file_changes::FileChanges;
pub use lock::lock;
pub use shared::{SharedState, StateHandle, StateStamp, StoreHash, StoreRollback};
pub use shared_file::{
    FileStamp, SharedFile, StateError, create_private_folder, remove_leftovers, write_private_file,
};
pub use shared_store::{
    FaultListener, Purpose, StateStore, StoreChanges, StoreFailure, StoreFault, StoreReply,
    describe_faults,
};
