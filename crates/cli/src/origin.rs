//! What a saved index was made of, and whether that is still so.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use picktools::catalog::CatalogFile;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::reading::ReadingNote;

/// A file that was written so shortly before it was noted may have been written again without
/// showing.
const SETTLED: Duration = Duration::from_secs(2);

/// The files of a catalog and how they were read, as an index notes it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Origin {
    /// What was given: files and folders.
    pub(super) paths: Vec<PathBuf>,
    pub(super) reading: ReadingNote,
    files: Vec<NotedFile>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotedFile {
    path: PathBuf,
    bytes: u64,
    /// When it was written, in nanoseconds since 1970; `None` where that tells nothing.
    modified: Option<u64>,
    sha256: String,
}

impl Origin {
    /// Notes what is to be read now; to be called before it is read. Standard input cannot be
    /// looked at again.
    pub(super) fn note(paths: &[PathBuf], reading: ReadingNote) -> anyhow::Result<Self> {
        let paths = paths
            .iter()
            .filter(|path| *path != Path::new("-"))
            .map(std::path::absolute);
        let paths: Vec<PathBuf> = paths
            .collect::<io::Result<_>>()
            .context("the folder that this runs in is gone")?;
        let files = files(&paths, &reading)?
            .into_iter()
            .map(NotedFile::of)
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            paths,
            reading,
            files,
        })
    }

    /// Returns what is not as it was noted: a file that has changed, or one that has come to a
    /// folder or gone. Of a catalog of which no path is here the index was carried elsewhere.
    pub(super) fn changed(&self) -> Option<String> {
        if self.paths.iter().all(|path| !path.exists()) {
            return None;
        }
        let now = match files(&self.paths, &self.reading) {
            Ok(now) => now,
            Err(error) => return Some(format!("{error:#}")),
        };
        let is_noted = |path: &&PathBuf| self.files.iter().any(|file| file.path == **path);
        if let Some(new) = now.iter().find(|path| !is_noted(path)) {
            return Some(format!("{} is new", new.display()));
        }
        self.files.iter().find_map(|file| match file.has_changed() {
            Ok(false) if now.contains(&file.path) => None,
            Ok(_) => Some(format!("{} has changed", file.path.display())),
            Err(error) => Some(format!("{} cannot be read: {error}", file.path.display())),
        })
    }
}

impl NotedFile {
    fn of(path: PathBuf) -> anyhow::Result<Self> {
        let noted = || -> io::Result<_> {
            let (bytes, modified) = stamp(&path)?;
            let settled = SystemTime::now().checked_sub(SETTLED).and_then(since_1970);
            let modified =
                modified.filter(|modified| settled.is_some_and(|settled| *modified < settled));
            Ok((bytes, modified, sha256(&path)?))
        };
        let (bytes, modified, sha256) =
            noted().with_context(|| format!("cannot read {}", path.display()))?;
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

/// The files that are read, with that of the aliases.
fn files(paths: &[PathBuf], reading: &ReadingNote) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(CatalogFile::paths(path)?);
    }
    files.extend(reading.aliases_file().map(Path::to_owned));
    Ok(files)
}

fn stamp(path: &Path) -> io::Result<(u64, Option<u64>)> {
    let metadata = fs::metadata(path)?;
    Ok((
        metadata.len(),
        metadata.modified().ok().and_then(since_1970),
    ))
}

fn since_1970(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
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
            read => digest.update(&piece[..read]),
        }
    }
}
