//! The hash-chained audit log of a gateway: altered records are detected, and selections can be
//! replayed.
//!
//! A folder holds JSON Lines files with one record a line. Records are numbered without gaps, and
//! each contains the SHA-256 of the previous line, also across files. An altered, removed, inserted
//! or moved line breaks the chain. The chain cannot show that its end was cut off, so `head.json`
//! stores the number and digest of a late record. A person with write access to the folder can
//! rewrite everything; only a copy of the head in another place protects against that.

// Modules are in reading order: each uses only those above it. The library's
// `tests/main/architecture.rs` checks this.
mod settings;
mod redaction;
mod chain;
mod record;
mod reading;
mod writing;
mod sending;

pub use chain::{Head, VERSION, sha256};
pub use reading::{AuditVerification, ChainBreak, NumberedRecord, catalog, records, size, verify};
pub use record::{CallRecord, PolicyRecord, Record, RolePolicy, SelectionRecord};
pub use redaction::{redact, redact_value};
pub use sending::AuditUploader;
pub use settings::AuditSettings;
pub use writing::{AuditWriter, Remnant};
