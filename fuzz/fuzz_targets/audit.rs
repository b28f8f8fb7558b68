//! Arbitrary bytes as a file of an audit log, and as a change in a valid log, which breaks its chain.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use picktools_audit::{AuditSettings, AuditWriter, NumberedRecord, records, verify};
use picktools_state::StateError;
use serde_json::json;
use tempfile::TempDir;

const FILE: &str = "audit-000000000001.jsonl";

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));
/// A valid log of four records.
static VALID: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = AuditWriter::open(AuditSettings::new(folder.path())).expect("a log");
    for number in 0..4 {
        writer
            .append(&json!({"kind": "call", "at_ms": number, "tool": "files/read"}))
            .expect("it is written");
    }
    writer.sync().expect("it is written");
    fs::read(folder.path().join(FILE)).expect("it is written")
});

fuzz_target!(|input: (u16, &[u8])| {
    let (place, bytes) = input;
    read(bytes);
    let mut changed = VALID.clone();
    let start = usize::from(place) % changed.len();
    let end = changed.len().min(start + bytes.len());
    changed[start..end].copy_from_slice(&bytes[..end - start]);
    // The digest of the last line is in no later record.
    let last_line = VALID[..VALID.len() - 1]
        .iter()
        .rposition(|&byte| byte == b'\n')
        .unwrap_or_default();
    let is_changed = changed[..last_line] != VALID[..last_line];
    assert!(!is_changed || read(&changed), "a changed log is accepted");
});

/// Reads a log, and returns `true` if its chain is broken.
fn read(bytes: &[u8]) -> bool {
    let folder = FOLDER.path();
    fs::write(folder.join(FILE), bytes).expect("it is written");
    let mut last = 0;
    let is_read = records(folder, |record: NumberedRecord| {
        last = record.number;
        Ok::<bool, StateError>(true)
    });
    is_read.expect("the file can be read");
    let verification = verify(folder, &mut |_| {}).expect("the file can be read");
    !verification.broken.is_empty()
}
