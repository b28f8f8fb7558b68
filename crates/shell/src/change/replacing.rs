//! Atomic replacement of a file: a temporary file in the same folder takes its place.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use cap_std::fs::OpenOptions;
#[cfg(unix)]
use cap_std::fs::OpenOptionsExt;
use picktools_runtime::{Context, ErrorType};

use crate::root::{FileFailure, WriteTarget};

/// The most attempts to find a free name for a temporary file.
const MAX_ATTEMPTS: usize = 100;

/// Writes a file and returns its new metadata. `before` is the metadata of the existing file;
/// `None` for a new file. If the file has changed since, nothing is written.
///
/// The new file has the owner and the mode of the existing one.
pub(super) fn replace(
    target: &WriteTarget,
    content: &[u8],
    before: Option<&Metadata>,
    context: &Context,
) -> Result<Metadata, FileFailure> {
    let (temporary_name, file) = create_temporary(target, before)?;
    let result = fill(file, content, before).and_then(|metadata| {
        if context.is_cancelled() {
            return Err(FileFailure::new(
                ErrorType::System,
                "writing was stopped, and nothing was changed",
                "",
            ));
        }
        publish(target, &temporary_name, before)?;
        Ok(metadata)
    });
    if result.is_err() {
        // The first error is the one to report.
        let _ignored = target.folder.remove_file(&temporary_name);
    }
    result
}

/// Checks that a file is the one that was read, and has not changed.
pub(super) fn check_current(target: &WriteTarget, before: &Metadata) -> Result<(), FileFailure> {
    match target.open()? {
        Some((_, current)) if is_same(before, &current) => Ok(()),
        _ => Err(changed_meanwhile()),
    }
}

fn create_temporary(
    target: &WriteTarget,
    before: Option<&Metadata>,
) -> Result<(OsString, File), FileFailure> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if before.is_some() {
        // Until it has the mode of the existing file, only its owner may read it.
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _ = before;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = now.map_or(0, |time| time.subsec_nanos());
    let mut last_error = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..MAX_ATTEMPTS {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(
            ".picktools-{}-{seed:x}-{number}.tmp",
            std::process::id()
        ));
        match target.folder.open_with(&name, &options) {
            Ok(file) => return Ok((name, file.into_std())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last_error = error,
            Err(error) => return Err(FileFailure::from_write(&error)),
        }
    }
    Err(FileFailure::from_write(&last_error))
}

/// Writes the content, and takes over the owner and the mode of the existing file.
fn fill(
    mut file: File,
    content: &[u8],
    before: Option<&Metadata>,
) -> Result<Metadata, FileFailure> {
    let from_write = |error: io::Error| FileFailure::from_write(&error);
    file.write_all(content).map_err(from_write)?;
    if let Some(before) = before {
        keep_owner(&file, before)?;
        let permissions = before.permissions();
        file.set_permissions(permissions).map_err(from_write)?;
    }
    file.sync_all().map_err(from_write)?;
    file.metadata().map_err(from_write)
}

#[cfg(unix)]
fn keep_owner(file: &File, before: &Metadata) -> Result<(), FileFailure> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let metadata = file
        .metadata()
        .map_err(|error| FileFailure::from_write(&error))?;
    if (metadata.uid(), metadata.gid()) == (before.uid(), before.gid()) {
        return Ok(());
    }
    fchown(file, Some(before.uid()), Some(before.gid())).map_err(|_| {
        FileFailure::new(
            ErrorType::Permission,
            "it belongs to another user or group, and would not keep its owner",
            "Change only files of your user.",
        )
    })
}

#[cfg(not(unix))]
fn keep_owner(_file: &File, _before: &Metadata) -> Result<(), FileFailure> {
    Ok(())
}

/// Gives the temporary file its final name.
fn publish(
    target: &WriteTarget,
    temporary_name: &OsString,
    before: Option<&Metadata>,
) -> Result<(), FileFailure> {
    let WriteTarget { folder, name, .. } = target;
    let Some(before) = before else {
        // In contrast to a rename, a link does not replace a file that was created meanwhile.
        return match folder.hard_link(temporary_name, folder, name) {
            Ok(()) => folder.remove_file(temporary_name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(changed_meanwhile());
            }
            // Some file systems have no links.
            Err(_) if folder.symlink_metadata(name).is_err() => {
                folder.rename(temporary_name, folder, name)
            }
            Err(error) => Err(error),
        }
        .map_err(|error| FileFailure::from_write(&error));
    };
    check_current(target, before)?;
    folder
        .rename(temporary_name, folder, name)
        .map_err(|error| FileFailure::from_write(&error))
}

fn changed_meanwhile() -> FileFailure {
    FileFailure::new(
        ErrorType::User,
        "it was changed meanwhile, and was not written",
        "Read the file again.",
    )
}

/// Returns `true` if two metadata are of the same file with the same content.
fn is_same(before: &Metadata, current: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if (before.dev(), before.ino()) != (current.dev(), current.ino()) {
            return false;
        }
    }
    before.len() == current.len() && before.modified().ok() == current.modified().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use tempfile::TempDir;

    use super::*;

    /// Writes `new` to the file `name` after `meanwhile` changed the folder.
    fn replace_after(
        name: &str,
        before: Option<&Metadata>,
        folder: &TempDir,
        meanwhile: impl FnOnce(),
    ) -> Result<(), FileFailure> {
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority());
        let target = WriteTarget {
            folder: dir.expect("it is there"),
            name: name.into(),
            relative_path: name.into(),
            path: folder.path().join(name),
        };
        let (temporary_name, file) = create_temporary(&target, before)?;
        fill(file, b"new", before)?;
        meanwhile();
        publish(&target, &temporary_name, before)
    }

    #[test]
    fn change_after_the_check_is_not_overwritten() {
        let folder = TempDir::new().expect("it is writable");
        let path = folder.path().join("a.txt");
        let put = |content: &str| fs::write(&path, content).expect("it is writable");
        let get = || fs::read_to_string(&path).unwrap_or_default();
        let metadata = || fs::metadata(&path).expect("it is there");

        let created = replace_after("a.txt", None, &folder, || put("other"));
        assert!(created.is_err_and(|failure| failure.message.contains("changed meanwhile")));
        assert_eq!(get(), "other");

        let earlier = metadata();
        let changed = replace_after("a.txt", Some(&earlier), &folder, || put("longer text"));
        assert!(changed.is_err());
        let earlier = metadata();
        let removed = replace_after("a.txt", Some(&earlier), &folder, || {
            fs::remove_file(&path).expect("it is there");
        });
        assert!(removed.is_err() && !path.exists());

        put("old");
        let earlier = metadata();
        assert!(replace_after("a.txt", Some(&earlier), &folder, || ()).is_ok());
        assert_eq!(get(), "new");
        fs::remove_file(&path).expect("it is there");
        assert!(replace_after("a.txt", None, &folder, || ()).is_ok());
        assert_eq!(get(), "new");
    }
}
