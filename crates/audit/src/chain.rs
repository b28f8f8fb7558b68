//! What holds records together: numbers, digests, and which files they are in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use picktools_state::keys::hex;
use picktools_state::{StateError, write_for_owner};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The version of records.
pub const VERSION: u32 = 1;
/// What stands for the digest of the line before the first.
pub(crate) const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// The file of the head, the lock, what the gateway is called in a store, and the folder of
/// catalogs.
const HEAD: &str = "head.json";
pub(crate) const LOCK: &str = "lock";
pub(crate) const GATEWAY: &str = "gateway";
pub(crate) const CATALOGS: &str = "catalogs";

/// A record that was on the disk, whole, when this was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Head {
    /// [`VERSION`].
    pub version: u32,
    /// Its number; 0 before the first.
    pub number: u64,
    /// The SHA-256 of its line.
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

    /// Reads the head of a folder; `None` where it has none.
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
                format!("is no head of an audit ({error}); put back a copy"),
            )
        })?;
        if head.version != VERSION {
            let message = format!(
                "is of version {}, and this program knows {VERSION}",
                head.version
            );
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
        write_for_owner(&path, &text).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            failed(&cause.unwrap_or_else(|| error.to_string()))
        })
    }
}

/// What of a record holds it to the others.
#[derive(Deserialize)]
pub(crate) struct Link {
    version: u32,
    pub(crate) number: u64,
    previous: String,
}

/// A chain as far as it was followed.
pub(crate) struct Chain {
    /// The number of the last record, and the digest of its line; `None` where any record may come.
    last: Option<(u64, String)>,
}

impl Chain {
    /// A chain that begins with whatever record comes.
    pub(crate) fn new() -> Self {
        Self { last: None }
    }

    pub(crate) fn last(&self) -> Option<(u64, &str)> {
        self.last
            .as_ref()
            .map(|(number, digest)| (*number, digest.as_str()))
    }

    /// Goes on with a line, and tells its number, or why it is not the next. What follows a line
    /// that is not is held to that line.
    pub(crate) fn follow(&mut self, line: &[u8]) -> Result<u64, String> {
        let digest = sha256(line);
        let link: Link = match serde_json::from_slice(line) {
            Ok(link) => link,
            Err(error) => {
                // The next is held to its number and to these bytes.
                self.last = self.last.take().map(|(number, _)| (number + 1, digest));
                return Err(format!("is no record: {error}"));
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
                "is of version {version}, and this program knows {VERSION}"
            ));
        }
        let Some((before, digest)) = expected else {
            // The first of all follows nothing.
            let is_first = number == 1;
            return match (previous == NOTHING) == is_first {
                true => Ok(number),
                false => Err(format!(
                    "has the number {number} and does not begin as such a record does"
                )),
            };
        };
        if number != before + 1 {
            return Err(format!(
                "has the number {number} where {} was to come: lines were removed, put in, repeated or moved",
                before + 1
            ));
        }
        if previous != digest {
            return Err("does not follow the line before it: one of them was altered, or lines between were".to_owned());
        }
        Ok(number)
    }
}

/// Returns the SHA-256 of some bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// What the file is called that begins with a record.
pub(crate) fn file_name(number: u64) -> String {
    format!("audit-{number:012}.jsonl")
}

/// With which record a file begins, by its name; `None` where it is no file of an audit.
fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?;
    digits
        .parse()
        .ok()
        .filter(|number| file_name(*number) == name)
}

/// The files of a folder.
pub(crate) struct Files {
    /// In order, each with the number that its name has.
    pub(crate) audit: Vec<(u64, PathBuf)>,
    /// The names of what is none of its own.
    pub(crate) foreign: Vec<String>,
}

impl Files {
    pub(crate) fn of(folder: &Path) -> Result<Self, StateError> {
        let failed = |error: io::Error| StateError::new(folder, format!("cannot be read: {error}"));
        let (mut audit, mut foreign) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match first_of(&name) {
                Some(number) => audit.push((number, entry.path())),
                // What a write that was broken off leaves begins with a dot.
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
