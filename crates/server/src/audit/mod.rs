//! The record of what a gateway decided: written so that what is altered is noticed, and read so that it can be run again.
//!
//! A folder holds files of JSON Lines, one record a line. Records are numbered without gaps, and each holds the SHA-256 of the
//! line before it, over files too: a line that is altered, removed, put in or moved breaks the chain. A chain says nothing of
//! its end, so the number and digest of a late record stand in `head.json` beside it. Whoever can write to the folder can
//! write all of it anew; what that does not protect from, a copy of the head elsewhere does.

mod chain;
mod reading;
mod record;
mod redaction;
mod sending;
mod writing;

pub(crate) use self::chain::sha256;
pub use self::chain::{Head, VERSION};
pub use self::reading::{Break, Read, Verified, catalog, records, size, verify};
pub use self::record::{CallRecord, PolicyRecord, Record, RolePolicy, SelectionRecord};
pub(crate) use self::redaction::{redact, redact_value};
pub(crate) use self::sending::Sending;
pub(crate) use self::writing::AuditWriter;
