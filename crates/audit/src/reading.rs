//! Reading and verifying an audit log.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use picktools::{Catalog, CatalogOptions};
use picktools_state::StateError;
use serde::{Deserialize, Serialize};

use crate::chain::{CATALOGS, Chain, Files, Head, VERSION};
use crate::record::Record;

/// The time by which a record may be earlier than the one before it, because events of several
/// threads are not in order.
const CLOCK_TOLERANCE_MS: u64 = 2_000;
/// The most faults that are reported.
const MAX_BROKEN: usize = 100;

/// The result of verifying an audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditVerification {
    /// The number of files.
    pub files: usize,
    /// The number of records.
    pub records: u64,
    /// The number of the first record.
    pub first: u64,
    /// The number of the last record.
    pub last: u64,
    /// The number of records of each kind.
    pub kinds: BTreeMap<String, u64>,
    /// The first 100 places at which the chain is broken.
    pub broken: Vec<ChainBreak>,
    /// Remarks that are not faults.
    pub notes: Vec<String>,
}

/// A place at which the chain is broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChainBreak {
    /// The name of the file.
    pub file: String,
    /// The line number, from 1; 0 if no single line is affected.
    pub line: usize,
    /// The fault.
    pub message: String,
}

impl std::fmt::Display for ChainBreak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            file,
            line,
            message,
        } = self;
        match line {
            0 => write!(f, "{file} {message}"),
            line => write!(f, "{file}: line {line} {message}"),
        }
    }
}

/// The members of a record that verification looks at.
#[derive(Deserialize)]
struct RecordKind {
    kind: String,
    /// The time, in milliseconds since 1970.
    #[serde(default)]
    at_ms: u64,
    /// In the first record of a file, the number of the oldest record that is still kept.
    #[serde(default)]
    first: Option<u64>,
}

/// The lines of a file, without line ends.
struct LineReader {
    reader: BufReader<File>,
    path: PathBuf,
    line: usize,
}

impl LineReader {
    fn open(path: &Path) -> Result<Self, StateError> {
        let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
        Ok(Self {
            reader: BufReader::new(file),
            path: path.to_owned(),
            line: 0,
        })
    }

    /// Reads the next line; `true` if it has a line end.
    fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<bool>, StateError> {
        bytes.clear();
        let length = self
            .reader
            .read_until(b'\n', bytes)
            .map_err(|error| cannot_read(&self.path, &error))?;
        if length == 0 {
            return Ok(None);
        }
        self.line += 1;
        let is_complete = bytes.last() == Some(&b'\n');
        if is_complete {
            bytes.pop();
        }
        Ok(Some(is_complete))
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> StateError {
    StateError::new(path, format!("cannot be read: {error}"))
}

fn file_name_text(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns the files of a folder that holds an audit log.
fn audit_files(folder: &Path) -> Result<Files, StateError> {
    let files = Files::list(folder)?;
    if files.audit.is_empty() {
        return Err(StateError::new(
            folder,
            "contains no audit log: there is no file audit-….jsonl",
        ));
    }
    Ok(files)
}

/// Returns the number of bytes of records in a folder.
///
/// # Errors
///
/// [`StateError`] if the folder cannot be read or holds no audit log.
pub fn size(folder: &Path) -> Result<u64, StateError> {
    let mut bytes = 0;
    for (_, path) in audit_files(folder)?.audit {
        if let Ok(metadata) = fs::metadata(path) {
            bytes += metadata.len();
        }
    }
    Ok(bytes)
}

/// Verifies an audit log. `read` is called with the number of bytes that were read since its last
/// call.
///
/// # Errors
///
/// [`StateError`] if the folder holds no audit log or cannot be read. A broken chain is a result,
/// not an error.
pub fn verify(
    folder: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<AuditVerification, StateError> {
    let Files { audit, foreign } = audit_files(folder)?;
    let mut verification = AuditVerification {
        files: audit.len(),
        ..AuditVerification::default()
    };
    verification.add_foreign_files(foreign);
    let head = verification.read_head(folder);
    let mut chain = Chain::new();
    let (mut first_kept, mut bytes) = (1, Vec::new());
    let mut clock = RecordClock::default();
    for (index, (first, path)) in audit.iter().enumerate() {
        let mut lines = LineReader::open(path)?;
        while let Some(is_complete) = lines.next(&mut bytes)? {
            progress(bytes.len() as u64 + 1);
            if !is_complete && index + 1 == audit.len() {
                let note = format!(
                    "{} ends with an incomplete line of {} bytes: it is being written, or a \
                     process ended while it wrote; the next start moves them to another file",
                    file_name_text(path),
                    bytes.len()
                );
                verification.notes.push(note);
                break;
            }
            let followed = chain.follow(&bytes);
            verification.records += 1;
            if let Ok(kind) = serde_json::from_slice::<RecordKind>(&bytes) {
                *verification.kinds.entry(kind.kind).or_default() += 1;
                first_kept = first_kept.max(kind.first.unwrap_or(1));
                clock.compare(kind.at_ms, path, lines.line);
            }
            match followed {
                Err(message) => verification.add_break(path, lines.line, message),
                Ok(number) if lines.line == 1 && number != *first => {
                    verification.add_break(
                        path,
                        1,
                        format!("has the number {number}, unlike the file's name"),
                    );
                }
                Ok(_) if !is_complete => verification.add_break(
                    path,
                    lines.line,
                    "is incomplete, but other files follow",
                ),
                Ok(_) => {}
            }
            let Some((number, digest)) = chain.last() else {
                continue;
            };
            verification.first = if verification.records == 1 {
                number
            } else {
                verification.first
            };
            verification.last = number;
            if head
                .as_ref()
                .is_some_and(|head| head.number == number && head.digest != digest)
            {
                let message = "is not the record that head.json names: it was altered, or a part \
                               of the log was rewritten";
                verification.add_break(path, lines.line, message);
            }
        }
    }
    verification.notes.extend(clock.note());
    if verification.records > 0 && verification.first > first_kept {
        let message = format!(
            "has the number {}: the records before it were removed, but not by `keep`",
            verification.first
        );
        verification.add_break(&audit[0].1, 1, message);
    }
    if let Some(head) = head
        && head.number > verification.last
    {
        let message = format!(
            "ends with record {}, but head.json names {}: the end was cut off",
            verification.last, head.number
        );
        verification.add_break(&audit[audit.len() - 1].1, 0, message);
    }
    Ok(verification)
}

/// The times of records, which grow unless a clock was set back.
#[derive(Default)]
struct RecordClock {
    latest_ms: u64,
    /// The number of records with a time before that of an earlier record.
    steps_back: u64,
    /// The first of them, with the time in milliseconds by which it went back.
    first: Option<String>,
}

impl RecordClock {
    /// Compares the time of a record with those of the earlier ones.
    fn compare(&mut self, at_ms: u64, path: &Path, line: usize) {
        let back = self.latest_ms.saturating_sub(at_ms);
        if at_ms > 0 && back > CLOCK_TOLERANCE_MS {
            self.steps_back += 1;
            self.first.get_or_insert_with(|| {
                let file = file_name_text(path);
                format!(
                    "{file}: line {line} is {} s earlier than a record before it",
                    back / 1_000
                )
            });
        }
        self.latest_ms = self.latest_ms.max(at_ms);
    }

    /// Describes the records whose times went backwards.
    fn note(self) -> Option<String> {
        let first = self.first?;
        Some(format!(
            "{first}; {} records are: a clock was set back, or records were written later",
            self.steps_back
        ))
    }
}

impl AuditVerification {
    /// Reads the head of a folder, and reports if it is missing or invalid.
    fn read_head(&mut self, folder: &Path) -> Option<Head> {
        match Head::read(folder) {
            Ok(Some(head)) => Some(head),
            Ok(None) => {
                let message = "is missing: a missing end cannot be detected";
                self.add_break(&folder.join("head.json"), 0, message);
                None
            }
            Err(error) => {
                self.add_break(&error.path, 0, error.message);
                None
            }
        }
    }

    fn add_foreign_files(&mut self, names: Vec<String>) {
        for name in names {
            let note = format!("{name} does not belong to the audit log");
            self.notes.push(note);
        }
    }

    fn add_break(&mut self, path: &Path, line: usize, message: impl Into<String>) {
        if self.broken.len() < MAX_BROKEN {
            self.broken.push(ChainBreak {
                file: file_name_text(path),
                line,
                message: message.into(),
            });
        }
    }
}

/// A record with its position.
#[derive(Debug)]
#[non_exhaustive]
pub struct NumberedRecord {
    /// The number of the record.
    pub number: u64,
    /// The time at which it was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// The content.
    pub record: Record,
}

/// A line of an audit log.
#[derive(Deserialize)]
struct AuditLine {
    version: u32,
    number: u64,
    at_ms: u64,
    #[serde(flatten)]
    record: Record,
}

/// Reads the records of an audit log in order and passes each to `take`, which returns `false` to
/// stop. Returns the number of skipped lines: not a record, or of another version.
///
/// # Errors
///
/// [`StateError`] if the folder holds no audit log or cannot be read, and the errors of `take`.
pub fn records<E: From<StateError>>(
    folder: &Path,
    mut take: impl FnMut(NumberedRecord) -> Result<bool, E>,
) -> Result<u64, E> {
    let (mut bytes, mut skipped) = (Vec::new(), 0);
    for (_, path) in audit_files(folder)?.audit {
        let mut lines = LineReader::open(&path)?;
        while let Some(is_complete) = lines.next(&mut bytes)? {
            let line = serde_json::from_slice::<AuditLine>(&bytes)
                .ok()
                .filter(|line| line.version == VERSION);
            let Some(AuditLine {
                number,
                at_ms,
                record,
                ..
            }) = line
            else {
                skipped += u64::from(is_complete);
                continue;
            };
            if is_complete
                && !take(NumberedRecord {
                    number,
                    at_ms,
                    record,
                })?
            {
                return Ok(skipped);
            }
        }
    }
    Ok(skipped)
}

/// Reads a catalog of an audit log by its digest.
///
/// # Errors
///
/// [`StateError`] if it is missing, cannot be read, or does not match the digest.
pub fn catalog(folder: &Path, digest: &str) -> Result<Catalog, StateError> {
    let path = folder.join(CATALOGS).join(format!("{digest}.jsonl"));
    let is_name = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_name {
        return Err(StateError::new(&path, "is not the name of a catalog"));
    }
    let options = CatalogOptions::default();
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        // The empty catalog has no file.
        Err(_)
            if options
                .collect([])
                .is_ok_and(|none| none.digest() == digest) =>
        {
            Vec::new()
        }
        Err(error) => return Err(cannot_read(&path, &error)),
    };
    let failed =
        |error: picktools::catalog::CatalogError| StateError::new(&path, error.to_string());
    let catalog = if bytes.is_empty() {
        options.collect([])
    } else {
        options.read(&bytes, &path.display().to_string())
    };
    let catalog = catalog.map_err(failed)?;
    match catalog.digest() == digest {
        true => Ok(catalog),
        false => Err(StateError::new(
            &path,
            "does not match the digest in its name: it was altered",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_go_backwards_are_noted() {
        let mut clock = RecordClock::default();
        for (line, at_ms) in [10_000, 9_500, 12_000, 3_000, 4_000, 12_500]
            .into_iter()
            .enumerate()
        {
            clock.compare(at_ms, Path::new("audit-1.jsonl"), line + 1);
        }
        let note = clock.note().expect("the clock was set back");
        assert!(
            note.starts_with("audit-1.jsonl: line 4 is 9 s earlier"),
            "{note}"
        );
        assert!(note.contains("2 records"), "{note}");
        assert_eq!(RecordClock::default().note(), None);
    }
}
