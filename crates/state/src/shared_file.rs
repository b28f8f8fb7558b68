//! A JSON file that several processes read and change.

use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use picktools::disk;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why what gateways keep cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", .path.display())]
pub struct StateError {
    /// The file or folder, or what of a store.
    pub path: PathBuf,
    /// What is wrong, and what to do.
    pub message: String,
}

impl StateError {
    /// Tells what is wrong with a file or folder.
    pub fn new(path: &Path, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            message: message.into(),
        }
    }
}

/// The sign by which is told that a file has changed: when it was written, its length, and which
/// file it is, as each change makes another.
pub type FileStamp = (SystemTime, u64, u64);

/// A file in a folder that only its owner can read. One that is not whole is an error, never an
/// empty one.
#[derive(Debug)]
pub struct SharedFile<T> {
    folder: PathBuf,
    name: &'static str,
    version: u32,
    remedy: &'static str,
    holds: PhantomData<fn() -> T>,
}

impl<T> Clone for SharedFile<T> {
    fn clone(&self) -> Self {
        Self {
            folder: self.folder.clone(),
            holds: PhantomData,
            ..*self
        }
    }
}

/// What a file holds, and how it is written.
#[derive(Clone, PartialEq, Serialize, serde::Deserialize)]
struct Whole<T> {
    version: u32,
    #[serde(flatten)]
    holds: T,
}

impl<T: Clone + Default + PartialEq + Serialize + DeserializeOwned> SharedFile<T> {
    /// Opens a file of a folder, which is made where it is not there.
    ///
    /// # Errors
    ///
    /// [`StateError`] when the folder cannot be made, or the file is not whole or of another
    /// version: then `remedy` says what to do.
    pub fn open(
        folder: PathBuf,
        name: &'static str,
        version: u32,
        remedy: &'static str,
    ) -> Result<Self, StateError> {
        folder_for_owner(&folder)?;
        let file = Self {
            folder,
            name,
            version,
            remedy,
            holds: PhantomData,
        };
        file.read()?;
        Ok(file)
    }

    /// Returns where it lies.
    pub fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    /// Tells what is wrong with the file.
    pub fn error(&self, message: impl Into<String>) -> StateError {
        StateError::new(&self.path(), message)
    }

    /// Reads the file; nothing where there is none.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be read, is not whole or is of another version.
    pub fn read(&self) -> Result<T, StateError> {
        let path = self.path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(StateError::new(&path, format!("cannot be read: {error}"))),
        };
        let file: Whole<T> = serde_json::from_slice(&bytes).map_err(|error| {
            StateError::new(&path, format!("is not whole ({error}); {}", self.remedy))
        })?;
        if file.version != self.version {
            let message = format!(
                "is of version {}, not {}; {}",
                file.version, self.version, self.remedy
            );
            return Err(StateError::new(&path, message));
        }
        Ok(file.holds)
    }

    /// Returns what is told of the file without reading it.
    pub fn stamp(&self) -> Option<FileStamp> {
        let metadata = fs::metadata(self.path()).ok()?;
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let number = 0;
        Some((metadata.modified().ok()?, metadata.len(), number))
    }

    /// Changes the file, as one of several who do, and tells how to know when somebody else has
    /// changed it after that.
    ///
    /// # Errors
    ///
    /// [`StateError`] with what `change` says, or when the file cannot be locked, read or written.
    pub fn change_and_stamp<U>(
        &self,
        change: impl FnOnce(&mut T) -> Result<U, String>,
    ) -> Result<(U, Option<FileStamp>), StateError> {
        let path = self.path();
        let lock = path.with_extension("lock");
        let failed =
            |error: io::Error| StateError::new(&lock, format!("cannot be locked: {error}"));
        let locked = File::options()
            .create(true)
            .append(true)
            .open(&lock)
            .map_err(failed)?;
        locked.lock().map_err(failed)?;
        let before = self.read()?;
        let mut holds = before.clone();
        let changed = change(&mut holds).map_err(|message| StateError::new(&path, message))?;
        if holds != before {
            let text = serde_json::to_vec_pretty(&Whole {
                version: self.version,
                holds,
            })
            .map_err(|error| StateError::new(&path, error.to_string()))?;
            write_for_owner(&path, &text)
                .map_err(|error| StateError::new(&path, format!("cannot be written: {error}")))?;
        }
        // Before the lock is free again: what others write from now on has another one.
        Ok((changed, self.stamp()))
    }
}

/// Makes a folder that its owner alone can read.
///
/// # Errors
///
/// [`StateError`] when it cannot be made.
pub fn folder_for_owner(folder: &Path) -> Result<(), StateError> {
    let failed = |error: io::Error| StateError::new(folder, format!("cannot be made: {error}"));
    fs::create_dir_all(folder).map_err(failed)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

/// Writes a file that its owner alone can read.
///
/// # Errors
///
/// When it cannot be written.
pub fn write_for_owner(path: &Path, text: &[u8]) -> Result<(), disk::DiskError> {
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
    fn what_another_writes_after_a_change_is_told_by_its_stamp() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || {
            SharedFile::<BTreeMap<String, u32>>::open(folder.path().to_owned(), "map.json", 1, "")
        };
        let (one, other) = (open().expect("a file"), open().expect("the same file"));
        let put = |number: u32| {
            move |map: &mut BTreeMap<String, u32>| Ok(map.insert("a".to_owned(), number))
        };
        let (_, stamp) = one.change_and_stamp(put(1)).expect("it is changed");
        assert_eq!(stamp, one.stamp(), "nobody else has written");
        // As long, and within the same tick of the clock.
        other.change_and_stamp(put(2)).expect("it is changed");
        assert_ne!(stamp, one.stamp());
    }
}
