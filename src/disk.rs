//! How bytes get onto a disk safely: written beside their place, digested, synchronised, renamed.
//!
//! A rename is atomic within one file system, so the file is written in the folder that it ends up
//! in. Its bytes reach the disk before the rename and the folder's entry after it: a crash leaves
//! the old file or the new one, whole. A file that was not placed is removed when it is dropped.
//!
//! ```
//! use std::io::Write;
//! use picktools::disk::{self, Staged};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! disk::write(&folder.join("run.trec"), b"whole, or not at all")?;
//!
//! // A name, or a decision, that depends on what was written:
//! let mut file = Staged::in_folder(folder)?;
//! file.write_all(b"content")?;
//! let name: String = file.sha256().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
//! file.place(&name)?;
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

/// What the names of temporary files end with. They begin with a dot.
pub(crate) const TEMPORARY_EXTENSION: &str = "tmp";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// Who may read a temporary file, as systems with such modes say it: whoever may read any new file,
/// or its owner.
const AS_ANY_NEW: u32 = 0o666;
const OWNER_ONLY: u32 = 0o600;

/// A file that could not be written; nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
#[non_exhaustive]
pub struct DiskError {
    /// The file, or the folder where the file has no name yet.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

/// A file that is being written and has no place yet.
#[derive(Debug)]
pub struct Staged {
    file: NamedTempFile,
    digest: Sha256,
    folder: PathBuf,
}

impl Staged {
    /// Creates a temporary file in `folder`, which is there.
    ///
    /// # Errors
    ///
    /// [`DiskError`] when the folder cannot be written to.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Result<Self, DiskError> {
        Self::with_mode(folder.into(), AS_ANY_NEW, &mut tempfile::Builder::new())
    }

    /// Creates the temporary file that is to take the place of `name` in `folder`, for whoever
    /// holds a lock on it: one that a writer left behind that died is removed.
    pub(crate) fn alone(folder: &Path, name: &str) -> Result<Self, DiskError> {
        let prefix = format!(".{name}");
        let path = folder.join(format!("{prefix}{TEMPORARY_SUFFIX}"));
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(DiskError { path, source }),
            _ => {
                let mut builder = tempfile::Builder::new();
                Self::with_mode(
                    folder.to_owned(),
                    AS_ANY_NEW,
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
            // What the parent of a bare file name is.
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

    /// Returns the SHA-256 of what was written so far.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        self.digest.clone().finalize().into()
    }

    /// Puts the file in its place, under `name` in its folder; a file of that name is replaced.
    ///
    /// # Errors
    ///
    /// [`DiskError`] when the disk refuses the bytes or the name, or `name` is not that of a file.
    /// Where the rename succeeds and the folder cannot be synchronised, the file is in its place
    /// and a crash may undo that.
    pub fn place(self, name: impl AsRef<Path>) -> Result<(), DiskError> {
        let path = self.folder.join(name.as_ref());
        let placed = if path.parent() == Some(self.folder.as_path()) && path.file_name().is_some() {
            self.persist(&path)
        } else {
            Err(ErrorKind::InvalidFilename.into())
        };
        placed.map_err(|source| DiskError { path, source })
    }

    fn persist(self, path: &Path) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        // Closed before the rename: some systems refuse to rename an open file.
        self.file.into_temp_path().persist(path)?;
        sync_folder(&self.folder)
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Replaces the file at `path` with `bytes`, wholly or not at all.
///
/// # Errors
///
/// [`DiskError`] when the file cannot be written, as where its folder is missing.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let (mut file, name) = beside(path, AS_ANY_NEW)?;
    file.write_all(bytes).map_err(|source| DiskError {
        path: path.to_owned(),
        source,
    })?;
    file.place(name)
}

/// Replaces the file at `path` with `bytes`, wholly or not at all, and gives it `permissions`.
///
/// Until it has them only its owner can read it.
///
/// # Errors
///
/// [`DiskError`] when the file cannot be written, as where its folder is missing.
pub fn write_as(path: &Path, bytes: &[u8], permissions: Permissions) -> Result<(), DiskError> {
    let (mut file, name) = beside(path, OWNER_ONLY)?;
    file.write_all(bytes)
        .and_then(|()| file.file.as_file().set_permissions(permissions))
        .map_err(|source| DiskError {
            path: path.to_owned(),
            source,
        })?;
    file.place(name)
}

/// Fails where [`write()`] would, so that long work is not for nothing; changes nothing.
///
/// # Errors
///
/// [`DiskError`] when a file at `path` could not be written.
pub fn check_writable(path: &Path) -> Result<(), DiskError> {
    if path.is_dir() {
        return Err(DiskError {
            path: path.to_owned(),
            source: ErrorKind::IsADirectory.into(),
        });
    }
    beside(path, AS_ANY_NEW).map(drop)
}

/// Creates a temporary file beside `path`, and returns it with the name that is to be its own.
fn beside(path: &Path, mode: u32) -> Result<(Staged, &Path), DiskError> {
    let because = |source| DiskError {
        path: path.to_owned(),
        source,
    };
    let name = path
        .file_name()
        .ok_or_else(|| because(ErrorKind::InvalidFilename.into()))?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let file = Staged::with_mode(folder, mode, &mut tempfile::Builder::new());
    Ok((
        file.map_err(|error| because(error.source))?,
        Path::new(name),
    ))
}

/// Lets a folder's new entry reach the disk.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Other systems have no such call, and write entries as they see fit.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn scratch() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder can be made")
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).expect("the folder exists");
        entries
            .map(|entry| entry.expect("the entry is readable").file_name())
            .collect()
    }

    #[test]
    fn a_write_replaces_the_file_and_leaves_nothing_else() {
        let scratch = scratch();
        let path = scratch.path().join("out.trec");
        write(&path, b"old").expect("a first write works");
        check_writable(&path).expect("another would");
        assert_eq!(fs::read(&path).expect("it was written"), b"old");
        write(&path, b"new").expect("a second write works");
        assert_eq!(fs::read(&path).expect("it was written"), b"new");
        assert_eq!(names(scratch.path()), ["out.trec"]);
    }

    #[test]
    fn a_failed_write_names_the_file_and_leaves_what_was_there() {
        let scratch = scratch();
        let folder = scratch.path().join("folder");
        fs::create_dir(&folder).expect("the folder is new");
        let blocked = scratch.path().join("file");
        fs::write(&blocked, "no folder").expect("it can be written");
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
        let mut left = names(scratch.path());
        left.sort();
        assert_eq!(left, ["file", "folder"]);
        assert!(names(&folder).is_empty());
    }

    #[test]
    fn a_staged_file_has_no_place_until_it_is_given_one() {
        let scratch = scratch();
        let mut file = Staged::in_folder(scratch.path()).expect("the folder is there");
        file.write_all(b"con").expect("it can be written to");
        file.write_all(b"tent").expect("it can be written to");
        assert_eq!(file.sha256(), <[u8; 32]>::from(Sha256::digest("content")));
        let temporary = names(scratch.path());
        assert!(
            temporary.len() == 1 && temporary[0] != "out",
            "{temporary:?}"
        );
        file.place("out").expect("it can be placed");
        assert_eq!(names(scratch.path()), ["out"]);
        assert_eq!(
            fs::read(scratch.path().join("out")).expect("it is there"),
            b"content"
        );
    }

    #[test]
    fn a_staged_file_that_is_dropped_or_misplaced_is_removed() {
        let scratch = scratch();
        let staged = || Staged::in_folder(scratch.path()).expect("the folder is there");
        staged().write_all(b"half").expect("it can be written to");
        for name in ["../out", "absent/out", "/out", "", ".."] {
            let error = staged()
                .place(name)
                .expect_err("this is no file of the folder");
            assert_eq!(error.path, scratch.path().join(name));
        }
        assert!(names(scratch.path()).is_empty());
        let gone = scratch.path().join("gone");
        assert_eq!(
            Staged::in_folder(&gone)
                .expect_err("there is no such folder")
                .path,
            gone
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_file_may_be_read_by_whoever_may_read_new_files() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = scratch();
        let (plain, written) = (scratch.path().join("plain"), scratch.path().join("written"));
        fs::write(&plain, "x").expect("it can be written");
        write(&written, b"x").expect("it can be written");
        let mode = |path| {
            fs::metadata(path)
                .expect("it is there")
                .permissions()
                .mode()
        };
        assert_eq!(mode(written), mode(plain));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_gets_the_permissions_that_it_is_to_have_and_is_its_owners_until_then() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = scratch();
        let path = scratch.path().join("out");
        let mode = |path: &Path| {
            fs::metadata(path)
                .expect("it is there")
                .permissions()
                .mode()
                & 0o777
        };
        for asked in [0o600, 0o640, 0o666] {
            write_as(&path, b"x", Permissions::from_mode(asked)).expect("it can be written");
            assert_eq!(mode(&path), asked);
        }
        let (staged, _) = beside(&path, OWNER_ONLY).expect("the folder is there");
        assert_eq!(mode(staged.file.path()), 0o600);
    }
}
