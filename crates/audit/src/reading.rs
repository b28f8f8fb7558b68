//! Reading an audit: whether it is whole, and what it holds.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use picktools::{Catalog, CatalogOptions};
use picktools_state::StateError;
use serde::{Deserialize, Serialize};

use crate::chain::{CATALOGS, Chain, Files, Head, VERSION};
use crate::record::Record;

/// The most faults that are told.
const MAX_BROKEN: usize = 100;

/// What is found of an audit when it is looked through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verified {
    /// How many files there are.
    pub files: usize,
    /// How many records.
    pub records: u64,
    /// The numbers of the first and of the last.
    pub first: u64,
    /// See [`Verified::first`].
    pub last: u64,
    /// How many records there are of each kind.
    pub kinds: BTreeMap<String, u64>,
    /// Where the chain is broken, the first 100 places.
    pub broken: Vec<Break>,
    /// What is no fault, and to be known.
    pub notes: Vec<String>,
}

/// A place where the chain is broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Break {
    /// The name of the file.
    pub file: String,
    /// The line, from 1; 0 where it is of no line.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for Break {
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

/// What of a record is looked at when the chain is.
#[derive(Deserialize)]
struct Kind {
    kind: String,
    /// Of the record that a file begins with: the first that was kept.
    #[serde(default)]
    first: Option<u64>,
}

/// The lines of a file, without their ends.
struct Lines {
    reader: BufReader<File>,
    path: PathBuf,
    line: usize,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, StateError> {
        let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
        Ok(Self {
            reader: BufReader::new(file),
            path: path.to_owned(),
            line: 0,
        })
    }

    /// The next line, and whether it has an end.
    fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<bool>, StateError> {
        bytes.clear();
        let read = self
            .reader
            .read_until(b'\n', bytes)
            .map_err(|error| cannot_read(&self.path, &error))?;
        if read == 0 {
            return Ok(None);
        }
        self.line += 1;
        let is_whole = bytes.last() == Some(&b'\n');
        if is_whole {
            bytes.pop();
        }
        Ok(Some(is_whole))
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> StateError {
    StateError::new(path, format!("cannot be read: {error}"))
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The files of a folder that is an audit.
fn files(folder: &Path) -> Result<Files, StateError> {
    let files = Files::of(folder)?;
    if files.audit.is_empty() {
        return Err(StateError::new(
            folder,
            "holds no audit: there is no file audit-….jsonl",
        ));
    }
    Ok(files)
}

/// Returns how many bytes of records a folder holds.
///
/// # Errors
///
/// [`StateError`] when it cannot be read, or is no audit.
pub fn size(folder: &Path) -> Result<u64, StateError> {
    let files = files(folder)?.audit;
    Ok(files
        .iter()
        .filter_map(|(_, path)| fs::metadata(path).ok())
        .map(|about| about.len())
        .sum())
}

/// Looks whether an audit is whole. `read` is told how many bytes were read since it was told
/// before.
///
/// # Errors
///
/// [`StateError`] when the folder is no audit, or cannot be read. That its chain is broken is no
/// error, but what is found.
pub fn verify(folder: &Path, read: &mut dyn FnMut(u64)) -> Result<Verified, StateError> {
    let Files { audit, foreign } = files(folder)?;
    let mut found = Verified {
        files: audit.len(),
        ..Verified::default()
    };
    found.notes.extend(
        foreign
            .into_iter()
            .map(|name| format!("{name} is no file of the audit")),
    );
    let head = match Head::read(folder) {
        Ok(Some(head)) => Some(head),
        Ok(None) => {
            found.broken(
                &folder.join("head.json"),
                0,
                "is missing: nobody can tell whether the end is",
            );
            None
        }
        Err(error) => {
            found.broken(&error.path, 0, error.message);
            None
        }
    };
    let mut chain = Chain::new();
    let (mut kept, mut bytes) = (1, Vec::new());
    for (place, (first, path)) in audit.iter().enumerate() {
        let mut lines = Lines::open(path)?;
        while let Some(is_whole) = lines.next(&mut bytes)? {
            read(bytes.len() as u64 + 1);
            if !is_whole && place + 1 == audit.len() {
                let note = format!(
                    "{} ends with {} bytes that are no whole line: it is being written, or a process ended while it wrote; the \
                     next start puts them aside",
                    name_of(path),
                    bytes.len()
                );
                found.notes.push(note);
                break;
            }
            let followed = chain.follow(&bytes);
            found.records += 1;
            if let Ok(kind) = serde_json::from_slice::<Kind>(&bytes) {
                *found.kinds.entry(kind.kind).or_default() += 1;
                kept = kept.max(kind.first.unwrap_or(1));
            }
            match followed {
                Err(message) => found.broken(path, lines.line, message),
                Ok(number) if lines.line == 1 && number != *first => {
                    found.broken(
                        path,
                        1,
                        format!("has the number {number}, and not that of the file's name"),
                    );
                }
                Ok(_) if !is_whole => found.broken(
                    path,
                    lines.line,
                    "has no end, and other files come after it",
                ),
                Ok(_) => {}
            }
            let Some((number, digest)) = chain.last() else {
                continue;
            };
            found.first = if found.records == 1 {
                number
            } else {
                found.first
            };
            found.last = number;
            if head
                .as_ref()
                .is_some_and(|head| head.number == number && head.digest != digest)
            {
                let message = "is not the record that head.json names: it was altered, or all from one on were written anew";
                found.broken(path, lines.line, message);
            }
        }
    }
    if found.records > 0 && found.first > kept {
        let message = format!(
            "has the number {}: the records before it were removed, and not by `keep`",
            found.first
        );
        found.broken(&audit[0].1, 1, message);
    }
    if let Some(head) = head.filter(|head| head.number > found.last) {
        let message = format!(
            "ends with the record {}, and head.json names {}: the end was cut off",
            found.last, head.number
        );
        found.broken(&audit[audit.len() - 1].1, 0, message);
    }
    Ok(found)
}

impl Verified {
    fn broken(&mut self, path: &Path, line: usize, message: impl Into<String>) {
        if self.broken.len() < MAX_BROKEN {
            self.broken.push(Break {
                file: name_of(path),
                line,
                message: message.into(),
            });
        }
    }
}

/// A record, and where it stands.
#[derive(Debug)]
#[non_exhaustive]
pub struct Read {
    /// Its number.
    pub number: u64,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// What it tells.
    pub record: Record,
}

/// A line of an audit.
#[derive(Deserialize)]
struct Placed {
    version: u32,
    number: u64,
    at_ms: u64,
    #[serde(flatten)]
    record: Record,
}

/// Reads the records of an audit in order, and gives each to `take`, which returns `false` to end.
/// Returns how many lines were passed over, as they are none, or of another version.
///
/// # Errors
///
/// [`StateError`] when the folder is no audit, or cannot be read; and what `take` returns.
pub fn records<E: From<StateError>>(
    folder: &Path,
    mut take: impl FnMut(Read) -> Result<bool, E>,
) -> Result<u64, E> {
    let (mut bytes, mut passed_over) = (Vec::new(), 0);
    for (_, path) in files(folder)?.audit {
        let mut lines = Lines::open(&path)?;
        while let Some(is_whole) = lines.next(&mut bytes)? {
            let placed = serde_json::from_slice::<Placed>(&bytes)
                .ok()
                .filter(|placed| placed.version == VERSION);
            let Some(Placed {
                number,
                at_ms,
                record,
                ..
            }) = placed
            else {
                passed_over += u64::from(is_whole);
                continue;
            };
            if is_whole
                && !take(Read {
                    number,
                    at_ms,
                    record,
                })?
            {
                return Ok(passed_over);
            }
        }
    }
    Ok(passed_over)
}

/// Reads a catalog that an audit was written with, by its digest.
///
/// # Errors
///
/// [`StateError`] when it is not there, cannot be read, or is another one.
pub fn catalog(folder: &Path, digest: &str) -> Result<Catalog, StateError> {
    let path = folder.join(CATALOGS).join(format!("{digest}.jsonl"));
    let is_name = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_name {
        return Err(StateError::new(&path, "is no name of a catalog"));
    }
    let options = CatalogOptions::default();
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        // Of no tools there is no file.
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
            "is not the catalog that its name says: it was altered",
        )),
    }
}
