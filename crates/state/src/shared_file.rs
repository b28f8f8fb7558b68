//! A JSON file that several processes read and change.

use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use picktools::disk;
use picktools::json::Json;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The age of a temporary file whose process was killed. Others write theirs in less time.
const LEFTOVER_AGE: Duration = Duration::from_secs(60);

/// An error of shared state.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", .path.display())]
pub struct StateError {
    /// The file or folder, or a description of a store's key.
    pub path: PathBuf,
    /// The cause, and what to do.
    pub message: String,
}

impl StateError {
    /// Creates an error about a file or folder.
    pub fn new(path: &Path, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            message: message.into(),
        }
    }
}

/// A stamp that changes with a file: modification time, length and inode number. Each change writes
/// another file.
pub type FileStamp = (SystemTime, u64, u64);

/// A JSON file in a folder that only its owner can read. Invalid content is an error; it never
/// counts as an empty file.
#[derive(Debug)]
pub struct SharedFile<T> {
    folder: PathBuf,
    name: &'static str,
    version: u32,
    remedy: &'static str,
    state: PhantomData<fn() -> T>,
}

impl<T> Clone for SharedFile<T> {
    fn clone(&self) -> Self {
        Self {
            folder: self.folder.clone(),
            state: PhantomData,
            ..*self
        }
    }
}

/// The content of a file.
#[derive(Clone, PartialEq, Serialize, serde::Deserialize)]
struct VersionedFile<T> {
    version: u32,
    #[serde(flatten)]
    state: T,
}

impl<T: Clone + Default + PartialEq + Serialize + DeserializeOwned> SharedFile<T> {
    /// Opens a file of a folder. The folder is created if it does not exist.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the folder cannot be created, or the file is invalid or has another
    /// version. Then `remedy` says what to do.
    pub fn open(
        folder: PathBuf,
        name: &'static str,
        version: u32,
        remedy: &'static str,
    ) -> Result<Self, StateError> {
        create_private_folder(&folder)?;
        remove_leftovers(&folder);
        let file = Self {
            folder,
            name,
            version,
            remedy,
            state: PhantomData,
        };
        file.read()?;
        Ok(file)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    /// Creates an error about the file.
    pub fn error(&self, message: impl Into<String>) -> StateError {
        StateError::new(&self.path(), message)
    }

    /// Reads the file; a missing file is an empty state.
    ///
    /// # Errors
    ///
    /// [`StateError`] if it cannot be read, is invalid or has another version.
    pub fn read(&self) -> Result<T, StateError> {
        let path = self.path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(StateError::new(&path, format!("cannot be read: {error}"))),
        };
        let invalid = |error: serde_json::Error| {
            StateError::new(&path, format!("invalid content ({error}); {}", self.remedy))
        };
        let json: Json = serde_json::from_slice(&bytes).map_err(invalid)?;
        if let Some(pointer) = json.repeated.first() {
            let message = format!("duplicate key {pointer:?}; {}", self.remedy);
            return Err(StateError::new(&path, message));
        }
        let file: VersionedFile<T> = serde_json::from_value(json.value).map_err(invalid)?;
        if file.version != self.version {
            let message = format!(
                "unsupported version {}, expected {}; {}",
                file.version, self.version, self.remedy
            );
            return Err(StateError::new(&path, message));
        }
        Ok(file.state)
    }

    /// Returns the current stamp without reading the file.
    pub fn stamp(&self) -> Option<FileStamp> {
        let metadata = fs::metadata(self.path()).ok()?;
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let number = 0;
        Some((metadata.modified().ok()?, metadata.len(), number))
    }

    /// Changes the file while other processes may change it too, and returns the stamp after the
    /// change. A different stamp later means that another process changed it.
    ///
    /// # Errors
    ///
    /// [`StateError`] with the message of `change`, or if the file cannot be locked, read or
    /// written.
    pub fn change_and_stamp<U>(
        &self,
        change: impl FnOnce(&mut T) -> Result<U, String>,
    ) -> Result<(U, Option<FileStamp>), StateError> {
        let path = self.path();
        let lock = path.with_extension("lock");
        let lock_error =
            |error: io::Error| StateError::new(&lock, format!("cannot be locked: {error}"));
        let lock_file = File::options()
            .create(true)
            .append(true)
            .open(&lock)
            .map_err(lock_error)?;
        lock_file.lock().map_err(lock_error)?;
        let previous = self.read()?;
        let mut state = previous.clone();
        let result = change(&mut state).map_err(|message| StateError::new(&path, message))?;
        if state != previous {
            let text = serde_json::to_vec_pretty(&VersionedFile {
                version: self.version,
                state,
            })
            .map_err(|error| StateError::new(&path, error.to_string()))?;
            write_private_file(&path, &text)
                .map_err(|error| StateError::new(&path, format!("cannot be written: {error}")))?;
        }
        // The stamp is taken before the lock is released: later writes of others have another
        // stamp.
        Ok((result, self.stamp()))
    }
}

/// Creates a folder that only its owner can read.
///
/// # Errors
///
/// [`StateError`] if it cannot be created.
pub fn create_private_folder(folder: &Path) -> Result<(), StateError> {
    let create_error =
        |error: io::Error| StateError::new(folder, format!("cannot be created: {error}"));
    fs::create_dir_all(folder).map_err(create_error)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(create_error)?;
    }
    Ok(())
}

/// Removes the temporary files of processes that were killed while they wrote to a folder of
/// picktools. They may contain secrets. A file that cannot be removed is reported.
pub fn remove_leftovers(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let is_temporary = name
            .to_str()
            .is_some_and(|name| name.starts_with(".tmp") && name.ends_with(".tmp"));
        let is_old = || {
            let metadata = entry.metadata().ok()?;
            let age = metadata.modified().ok()?.elapsed().ok()?;
            Some(metadata.is_file() && age > LEFTOVER_AGE)
        };
        if is_temporary
            && is_old() == Some(true)
            && let Err(error) = fs::remove_file(entry.path())
        {
            tracing::warn!(
                target: "picktools::state", file = %entry.path().display(), %error,
                "a temporary file of an earlier process cannot be removed"
            );
        }
    }
}

/// Writes a file that only its owner can read.
///
/// # Errors
///
/// [`picktools::disk::DiskError`] if it cannot be written.
pub fn write_private_file(path: &Path, text: &[u8]) -> Result<(), disk::DiskError> {
    #[cfg(unix)]
    return disk::write_as(
        path,
        text,
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    );
    #[cfg(not(unix))]
    return disk::write(path, text);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn temporary_files_of_killed_processes_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in [".tmpAbC123.tmp", ".tmpNew456.tmp", "notes.tmp"] {
            fs::write(path(name), "secret").expect("a file");
        }
        let old = SystemTime::now() - Duration::from_secs(600);
        for name in [".tmpAbC123.tmp", "notes.tmp"] {
            let file = File::options()
                .write(true)
                .open(path(name))
                .expect("it exists");
            file.set_modified(old).expect("a time");
        }
        remove_leftovers(folder.path());
        assert!(!path(".tmpAbC123.tmp").exists());
        assert!(
            path(".tmpNew456.tmp").exists(),
            "another process may write it"
        );
        assert!(path("notes.tmp").exists(), "it is not of picktools");
    }

    #[test]
    fn stamp_differs_after_another_process_writes() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || {
            SharedFile::<BTreeMap<String, u32>>::open(folder.path().to_owned(), "map.json", 1, "")
        };
        let (one, other) = (open().expect("a file"), open().expect("the same file"));
        let put = |number: u32| {
            move |map: &mut BTreeMap<String, u32>| Ok(map.insert("a".to_owned(), number))
        };
        let (_, stamp) = one.change_and_stamp(put(1)).expect("it is changed");
        assert_eq!(stamp, one.stamp(), "no other process has written");
        // Both writes have the same length and happen within one tick of the clock.
        other.change_and_stamp(put(2)).expect("it is changed");
        assert_ne!(stamp, one.stamp());
    }

    #[test]
    fn duplicate_keys_are_refused_with_their_pointer() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = r#"{"version": 1, "a": {"b": 1, "b": 2}}"#;
        fs::write(folder.path().join("map.json"), text).expect("a file");
        type State = BTreeMap<String, BTreeMap<String, u32>>;
        let opened =
            SharedFile::<State>::open(folder.path().to_owned(), "map.json", 1, "remove the file");
        let error = opened.expect_err("it is ambiguous").to_string();
        assert!(
            error.contains("duplicate key \"/a/b\"; remove the file"),
            "{error}"
        );
    }
}
