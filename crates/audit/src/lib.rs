//! The hash-chained audit log of a gateway: altered records are detected, and selections can be
//! replayed.
//!
//! A folder holds files of JSON Lines, one record a line. Records are numbered without gaps, and
//! each holds the SHA-256 of the line before it, over files too: a line that is altered, removed,
//! put in or moved breaks the chain. A chain says nothing of its end, so the number and digest of a
//! late record stand in `head.json` beside it. Whoever can write to the folder can write all of it
//! anew; what that does not protect from, a copy of the head elsewhere does.

// Modules stand in reading order: each uses only those above it (`tests/main/architecture.rs` of
// the library).
mod settings;
mod redaction;
mod chain;
mod record;
mod reading;
mod writing;
mod sending;

pub use chain::{Head, VERSION, sha256};
pub use reading::{Break, Read, Verified, catalog, records, size, verify};
pub use record::{CallRecord, PolicyRecord, Record, RolePolicy, SelectionRecord};
pub use redaction::{redact, redact_value};
pub use sending::Sending;
pub use settings::AuditSettings;
pub use writing::{AuditWriter, Remnant};
