//! Atomic file writes: into a temporary file, then synchronised and renamed.
//!
//! A rename is atomic within one file system, so the temporary file is in the target folder. The
//! bytes are synchronised before the rename, and the folder's entry after it. So a crash leaves the
//! complete old file or the complete new file. A temporary file that was not placed is removed when
//! it is dropped.
//!
//! ```
//! use std::io::Write;
//! use picktools::disk::{self, StagedFile};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! disk::write(&folder.join("run.trec"), b"all bytes or none")?;
//!
//! // A file name that depends on the content:
//! let mut file = StagedFile::in_folder(folder)?;
//! file.write_all(b"content")?;
//! let name: String = file.sha256().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
//! file.persist_as(&name)?;
//! assert_eq!(std::fs::read(folder.join("ed7002b4"))?, b"content");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(unix)]
use std::fs::File;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

/// The extension of temporary files. Their names begin with a dot.
pub(crate) const TEMPORARY_EXTENSION: &str = "tmp";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// The Unix mode of a temporary file with the permissions of any new file, subject to the umask.
const NEW_FILE_MODE: u32 = 0o666;
/// The Unix mode of a temporary file that only its owner can read.
const OWNER_ONLY_MODE: u32 = 0o600;

/// A failed write. No temporary file remains.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
#[non_exhaustive]
pub struct DiskError {
    /// The file, or the folder if the file has no name yet.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

/// A temporary file that is being written and has no final name yet.
#[derive(Debug)]
pub struct StagedFile {
    file: NamedTempFile,
    digest: Sha256,
    folder: PathBuf,
}

impl StagedFile {
    /// Creates a temporary file in `folder`, which must exist.
    ///
    /// # Errors
    ///
    /// [`DiskError`] if the folder cannot be written to.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Result<Self, DiskError> {
        Self::with_mode(folder.into(), NEW_FILE_MODE, &mut tempfile::Builder::new())
    }

    /// Creates the temporary file that will replace `name` in `folder`. The caller must hold a lock
    /// on the folder.
    ///
    /// The temporary file of a writer that died is removed.
    pub(crate) fn create_exclusive(folder: &Path, name: &str) -> Result<Self, DiskError> {
        let prefix = format!(".{name}");
        let path = folder.join(format!("{prefix}{TEMPORARY_SUFFIX}"));
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(DiskError { path, source }),
            _ => {
                let mut builder = tempfile::Builder::new();
                Self::with_mode(
                    folder.to_owned(),
                    NEW_FILE_MODE,
                    builder.prefix(&prefix).rand_bytes(0),
                )
            }
        }
    }

    #[cfg_attr(
        not(unix),
        expect(unused_variables, reason = "other systems have no such modes")
    )]
    fn with_mode<'n>(
        mut folder: PathBuf,
        mode: u32,
        builder: &mut tempfile::Builder<'n, 'n>,
    ) -> Result<Self, DiskError> {
        if folder.as_os_str().is_empty() {
            // The parent of a bare file name is empty.
            folder.push(".");
        }
        builder.suffix(TEMPORARY_SUFFIX);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
        match builder.tempfile_in(&folder) {
            Ok(file) => Ok(Self {
                file,
                digest: Sha256::new(),
                folder,
            }),
            Err(source) => Err(DiskError {
                path: folder,
                source,
            }),
        }
    }

    /// Returns the SHA-256 of the bytes written so far.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        self.digest.clone().finalize().into()
    }

    /// Renames the file to `name` in its folder and replaces a file of that name.
    ///
    /// # Errors
    ///
    /// [`DiskError`] if the disk refuses the bytes or the name, or if `name` is not a file name. If
    /// the rename succeeds but the folder cannot be synchronised, the file has its name, and a
    /// crash may undo the rename.
    pub fn persist_as(self, name: impl AsRef<Path>) -> Result<(), DiskError> {
        let path = self.folder.join(name.as_ref());
        let result = if path.parent() == Some(self.folder.as_path()) && path.file_name().is_some() {
            self.sync_and_rename(&path)
        } else {
            Err(ErrorKind::InvalidFilename.into())
        };
        result.map_err(|source| DiskError { path, source })
    }

    fn sync_and_rename(self, path: &Path) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        // Closes the file before the rename, because some systems refuse to rename an open file.
        self.file.into_temp_path().persist(path)?;
        sync_folder(&self.folder)
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Replaces the file at `path` with `bytes` atomically.
///
/// # Errors
///
/// [`DiskError`] if the file cannot be written, for example because its folder is missing.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let (mut file, name) = stage_beside(path, NEW_FILE_MODE)?;
    file.write_all(bytes).map_err(|source| DiskError {
        path: path.to_owned(),
        source,
    })?;
    file.persist_as(name)
}

/// Replaces the file at `path` with `bytes` atomically, and gives it `permissions`.
///
/// Until the permissions are set, only the owner can read the file.
///
/// # Errors
///
/// [`DiskError`] if the file cannot be written, for example because its folder is missing.
pub fn write_as(path: &Path, bytes: &[u8], permissions: Permissions) -> Result<(), DiskError> {
    let (mut file, name) = stage_beside(path, OWNER_ONLY_MODE)?;
    file.write_all(bytes)
        .and_then(|()| file.file.as_file().set_permissions(permissions))
        .map_err(|source| DiskError {
            path: path.to_owned(),
            source,
        })?;
    file.persist_as(name)
}

/// Checks that [`write()`] to `path` would succeed, before long work; changes nothing.
///
/// # Errors
///
/// [`DiskError`] if a file at `path` could not be written.
pub fn check_writable(path: &Path) -> Result<(), DiskError> {
    if path.is_dir() {
        return Err(DiskError {
            path: path.to_owned(),
            source: ErrorKind::IsADirectory.into(),
        });
    }
    stage_beside(path, NEW_FILE_MODE).map(drop)
}

/// Creates a temporary file next to `path`, and returns it with the final file name.
fn stage_beside(path: &Path, mode: u32) -> Result<(StagedFile, &Path), DiskError> {
    let disk_error = |source| DiskError {
        path: path.to_owned(),
        source,
    };
    let name = path
        .file_name()
        .ok_or_else(|| disk_error(ErrorKind::InvalidFilename.into()))?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let file = StagedFile::with_mode(folder, mode, &mut tempfile::Builder::new());
    Ok((
        file.map_err(|error| disk_error(error.source))?,
        Path::new(name),
    ))
}

/// Synchronises a folder's entries with the disk.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Does nothing: other systems have no such call.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn temporary_folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder can be made")
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).expect("the folder exists");
        entries
            .map(|entry| entry.expect("the entry is readable").file_name())
            .collect()
    }

    #[test]
    fn write_replaces_the_file_and_leaves_no_other() {
        let scratch = temporary_folder();
        let path = scratch.path().join("out.trec");
        write(&path, b"old").expect("a first write works");
        check_writable(&path).expect("a second write would work");
        assert_eq!(fs::read(&path).expect("the file was written"), b"old");
        write(&path, b"new").expect("a second write works");
        assert_eq!(fs::read(&path).expect("the file was written"), b"new");
        assert_eq!(names(scratch.path()), ["out.trec"]);
    }

    #[test]
    fn failed_write_names_the_file_and_changes_nothing() {
        let scratch = temporary_folder();
        let folder = scratch.path().join("folder");
        fs::create_dir(&folder).expect("the folder is new");
        let blocked = scratch.path().join("file");
        fs::write(&blocked, "no folder").expect("the file can be written");
        let absent = scratch.path().join("absent/out");
        for path in [
            folder.as_path(),
            &absent,
            &blocked.join("out"),
            Path::new("/"),
            Path::new(".."),
        ] {
            for error in [
                write(path, b"x").expect_err("refused"),
                check_writable(path).expect_err("refused"),
            ] {
                assert_eq!(error.path, path);
                assert_eq!(
                    error.to_string(),
                    format!("cannot write {}", path.display())
                );
            }
        }
        let mut remaining = names(scratch.path());
        remaining.sort();
        assert_eq!(remaining, ["file", "folder"]);
        assert!(names(&folder).is_empty());
    }

    #[test]
    fn staged_file_is_temporary_until_it_is_placed() {
        let scratch = temporary_folder();
        let mut file = StagedFile::in_folder(scratch.path()).expect("the folder exists");
        file.write_all(b"con").expect("the file can be written to");
        file.write_all(b"tent").expect("the file can be written to");
        assert_eq!(file.sha256(), <[u8; 32]>::from(Sha256::digest("content")));
        let temporary = names(scratch.path());
        assert!(
            temporary.len() == 1 && temporary[0] != "out",
            "{temporary:?}"
        );
        file.persist_as("out").expect("the file can be placed");
        assert_eq!(names(scratch.path()), ["out"]);
        assert_eq!(
            fs::read(scratch.path().join("out")).expect("the file exists"),
            b"content"
        );
    }

    #[test]
    fn dropped_or_misplaced_staged_file_is_removed() {
        let scratch = temporary_folder();
        let staged = || StagedFile::in_folder(scratch.path()).expect("the folder exists");
        staged()
            .write_all(b"half")
            .expect("the file can be written to");
        for name in ["../out", "absent/out", "/out", "", ".."] {
            let error = staged()
                .persist_as(name)
                .expect_err("the name is not one in the folder");
            assert_eq!(error.path, scratch.path().join(name));
        }
        assert!(names(scratch.path()).is_empty());
        let gone = scratch.path().join("gone");
        assert_eq!(
            StagedFile::in_folder(&gone)
                .expect_err("the folder does not exist")
                .path,
            gone
        );
    }

    #[cfg(unix)]
    #[test]
    fn written_file_has_the_mode_of_a_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = temporary_folder();
        let (plain, written) = (scratch.path().join("plain"), scratch.path().join("written"));
        fs::write(&plain, "x").expect("the file can be written");
        write(&written, b"x").expect("the file can be written");
        let mode = |path| {
            fs::metadata(path)
                .expect("the file exists")
                .permissions()
                .mode()
        };
        assert_eq!(mode(written), mode(plain));
    }

    #[cfg(unix)]
    #[test]
    fn file_is_owner_only_until_it_gets_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = temporary_folder();
        let path = scratch.path().join("out");
        let mode = |path: &Path| {
            fs::metadata(path)
                .expect("the file exists")
                .permissions()
                .mode()
                & 0o777
        };
        for wanted_mode in [0o600, 0o640, 0o666] {
            let permissions = Permissions::from_mode(wanted_mode);
            write_as(&path, b"x", permissions).expect("the file can be written");
            assert_eq!(mode(&path), wanted_mode);
        }
        let (staged, _) = stage_beside(&path, OWNER_ONLY_MODE).expect("the folder exists");
        assert_eq!(mode(staged.file.path()), 0o600);
    }
}
