//! The chain of records: numbers, digests and file names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use picktools_state::keys::hex;
use picktools_state::{StateError, write_private_file};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The format version of records.
pub const VERSION: u32 = 1;
/// The digest that stands in for the line before the first record.
pub(crate) const GENESIS_DIGEST: &str =
    "0000000000000000000000000000000000000000000000000000000000000000";
/// The files for the head, the lock and the gateway's name in a store, and the folder for catalogs.
const HEAD: &str = "head.json";
pub(crate) const LOCK: &str = "lock";
pub(crate) const GATEWAY: &str = "gateway";
pub(crate) const CATALOGS: &str = "catalogs";

/// The position of a record that was safely on the disk when this was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Head {
    /// [`VERSION`].
    pub version: u32,
    /// The number of the record; 0 before the first record.
    pub number: u64,
    /// The SHA-256 of the record's line.
    pub digest: String,
}

impl Head {
    pub(crate) fn new(number: u64, digest: &str) -> Self {
        Self {
            version: VERSION,
            number,
            digest: digest.to_owned(),
        }
    }

    /// Reads the head of a folder; `None` if the file is missing.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, StateError> {
        let path = folder.join(HEAD);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StateError::new(&path, format!("cannot be read: {error}"))),
        };
        let head: Self = serde_json::from_slice(&bytes).map_err(|error| {
            StateError::new(
                &path,
                format!("invalid head of an audit log ({error}); restore a copy"),
            )
        })?;
        if head.version != VERSION {
            let message = format!("unsupported version {}, expected {VERSION}", head.version);
            return Err(StateError::new(&path, message));
        }
        Ok(Some(head))
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), StateError> {
        let path = folder.join(HEAD);
        let failed = |error: &dyn std::fmt::Display| {
            StateError::new(&path, format!("cannot be written: {error}"))
        };
        let text = serde_json::to_vec(self).map_err(|error| failed(&error))?;
        write_private_file(&path, &text).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            failed(&cause.unwrap_or_else(|| error.to_string()))
        })
    }
}

/// The members of a record that link it to the chain.
#[derive(Deserialize)]
pub(crate) struct Link {
    version: u32,
    pub(crate) number: u64,
    previous: String,
}

/// A chain, as far as it was checked.
pub(crate) struct Chain {
    /// The number and line digest of the last record; `None` if any record may come next.
    last: Option<(u64, String)>,
}

impl Chain {
    /// Starts a chain at any record.
    pub(crate) fn new() -> Self {
        Self { last: None }
    }

    pub(crate) fn last(&self) -> Option<(u64, &str)> {
        let (number, digest) = self.last.as_ref()?;
        Some((*number, digest))
    }

    /// Checks the next line and returns its number, or the fault. After a faulty line, the next
    /// line is checked against that faulty line.
    pub(crate) fn follow(&mut self, line: &[u8]) -> Result<u64, String> {
        let digest = sha256(line);
        let link: Link = match serde_json::from_slice(line) {
            Ok(link) => link,
            Err(error) => {
                // The next line is checked against this line's assumed number and its bytes.
                self.last = self.last.take().map(|(number, _)| (number + 1, digest));
                return Err(format!("is not a record: {error}"));
            }
        };
        let Link {
            version,
            number,
            previous,
        } = link;
        let expected = self.last.replace((number, digest));
        if version != VERSION {
            return Err(format!(
                "has the unsupported version {version}, expected {VERSION}"
            ));
        }
        let Some((last_number, digest)) = expected else {
            // Record 1 has no predecessor.
            let is_first = number == 1;
            return match (previous == GENESIS_DIGEST) == is_first {
                true => Ok(number),
                false => Err(format!(
                    "has the number {number}, but its link to the previous record does not fit"
                )),
            };
        };
        if number != last_number + 1 {
            return Err(format!(
                "has the number {number}, expected {}: lines were removed, inserted, repeated or \
                 moved",
                last_number + 1
            ));
        }
        if previous != digest {
            let message = "does not continue the line before it: one of them was altered, or \
                           lines between them were removed";
            return Err(message.to_owned());
        }
        Ok(number)
    }
}

/// Returns the SHA-256 of bytes as hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the name of the file that begins with a record.
pub(crate) fn file_name(number: u64) -> String {
    format!("audit-{number:012}.jsonl")
}

/// Returns the number of the record with which a file begins; `None` for other files.
fn number_from_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?;
    let number = digits.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// The files of an audit folder.
pub(crate) struct Files {
    /// The files with records in order, each with the number in its name.
    pub(crate) audit: Vec<(u64, PathBuf)>,
    /// The names of files that do not belong to the audit.
    pub(crate) foreign: Vec<String>,
}

impl Files {
    pub(crate) fn list(folder: &Path) -> Result<Self, StateError> {
        let failed = |error: io::Error| StateError::new(folder, format!("cannot be read: {error}"));
        let (mut audit, mut foreign) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match number_from_name(&name) {
                Some(number) => audit.push((number, entry.path())),
                // Names with a dot are temporary files of interrupted writes.
                None if [HEAD, LOCK, GATEWAY, CATALOGS].contains(&name.as_str())
                    || name.starts_with('.') => {}
                None if name.starts_with("remnant-") => {}
                None => foreign.push(name),
            }
        }
        audit.sort();
        foreign.sort();
        Ok(Self { audit, foreign })
    }
}
