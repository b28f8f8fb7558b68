//! State that gateways keep in files, or share in Redis or Valkey.
//!
//! What several processes read and change is a [`Shared`]: JSON in a [file](SharedFile) of this
//! machine, or in a [`Store`]. A store is asked for a [`Purpose`], and whoever asks decides what
//! follows where there is no answer.

// Modules stand in reading order: each uses only those above it (`tests/main/architecture.rs` of
// the library).
mod lock;
pub mod keys;
mod shared_file;
mod shared_store;
mod shared;

pub use lock::lock;
pub use shared::{Keeps, Lost, Shared, Stamp, Stored};
pub use shared_file::{FileStamp, SharedFile, StateError, folder_for_owner, write_for_owner};
pub use shared_store::{Answer, Failure, Fault, FaultListener, Purpose, Store, told_in_words};
