//! The origin of a saved index, and the check if it has changed.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use picktools::catalog::CatalogFile;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::recorded_reading::RecordedReading;

/// The age below which the modification time of a file proves nothing: a second write may leave the
/// same time.
const SETTLED: Duration = Duration::from_secs(2);

/// The files of a catalog and their reading options, as an index records them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Origin {
    /// The arguments: files and folders.
    pub(super) paths: Vec<PathBuf>,
    pub(super) reading: RecordedReading,
    files: Vec<RecordedFile>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedFile {
    path: PathBuf,
    bytes: u64,
    /// The modification time in nanoseconds since 1970; `None` if it proves nothing.
    modified: Option<u64>,
    sha256: String,
}

impl Origin {
    /// Records the files before they are read. Standard input cannot be recorded.
    pub(super) fn record(paths: &[PathBuf], reading: RecordedReading) -> anyhow::Result<Self> {
        let mut absolute_paths = Vec::new();
        for path in paths {
            if path != Path::new("-") {
                let path =
                    std::path::absolute(path).context("the working folder no longer exists")?;
                absolute_paths.push(path);
            }
        }
        let mut recorded = Vec::new();
        for path in files(&absolute_paths, &reading)? {
            recorded.push(RecordedFile::from_path(path)?);
        }
        Ok(Self {
            paths: absolute_paths,
            reading,
            files: recorded,
        })
    }

    /// Returns the first difference from the record: a changed, new or removed file.
    ///
    /// If none of the paths exists, the index was copied to another machine and does not count as
    /// changed.
    pub(super) fn changed(&self) -> Option<String> {
        if self.paths.iter().all(|path| !path.exists()) {
            return None;
        }
        let current = match files(&self.paths, &self.reading) {
            Ok(current) => current,
            Err(error) => return Some(format!("{error:#}")),
        };
        let is_recorded = |path: &&PathBuf| self.files.iter().any(|file| file.path == **path);
        if let Some(new) = current.iter().find(|path| !is_recorded(path)) {
            return Some(format!("{} is new", new.display()));
        }
        self.files.iter().find_map(|file| match file.has_changed() {
            Ok(false) if current.contains(&file.path) => None,
            Ok(_) => Some(format!("{} has changed", file.path.display())),
            Err(error) => Some(format!("{} cannot be read: {error}", file.path.display())),
        })
    }
}

impl RecordedFile {
    fn from_path(path: PathBuf) -> anyhow::Result<Self> {
        let read_properties = || -> io::Result<_> {
            let (bytes, modified) = stamp(&path)?;
            Ok((bytes, settled(modified), sha256(&path)?))
        };
        let (bytes, modified, sha256) =
            read_properties().with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self {
            path,
            bytes,
            modified,
            sha256,
        })
    }

    fn has_changed(&self) -> io::Result<bool> {
        let (bytes, modified) = stamp(&self.path)?;
        if bytes != self.bytes {
            return Ok(true);
        }
        let is_untouched = self.modified.is_some() && modified == self.modified;
        Ok(!is_untouched && sha256(&self.path)? != self.sha256)
    }
}

/// Returns the files of the catalog and the alias file.
fn files(paths: &[PathBuf], reading: &RecordedReading) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(CatalogFile::paths(path)?);
    }
    if let Some(path) = reading.aliases_file() {
        files.push(path.to_owned());
    }
    Ok(files)
}

fn stamp(path: &Path) -> io::Result<(u64, Option<u64>)> {
    let metadata = fs::metadata(path)?;
    Ok((
        metadata.len(),
        metadata.modified().ok().and_then(since_1970),
    ))
}

/// Returns the modification time of a file, or `None` if it is too recent to prove anything.
fn settled(modified: Option<u64>) -> Option<u64> {
    let modified = modified?;
    let limit = since_1970(SystemTime::now().checked_sub(SETTLED)?)?;
    if modified < limit {
        Some(modified)
    } else {
        None
    }
}

fn since_1970(time: SystemTime) -> Option<u64> {
    let duration = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(duration.as_nanos()).ok()
}

fn sha256(path: &Path) -> io::Result<String> {
    let (mut file, mut digest, mut piece) =
        (fs::File::open(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => {
                return Ok(digest
                    .finalize()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect());
            }
            count => digest.update(&piece[..count]),
        }
    }
}
