//! Files that only their owner can read and write.

use std::fs;
use std::io;
use std::path::Path;

use picktools::disk;

/// Creates a folder that only its owner can use.
pub(super) fn create_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    #[cfg(unix)]
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}

/// Writes a file that only its owner can use.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), disk::DiskError> {
    #[cfg(unix)]
    return disk::write_as(
        path,
        bytes,
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    );
    #[cfg(not(unix))]
    return disk::write(path, bytes);
}

/// Returns `true` for a folder in which only this user could have written.
pub(super) fn is_own_folder(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_dir() && is_own(&metadata))
}

/// Returns `true` for a file, not a link, that only this user could have written.
pub(super) fn is_own_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() && is_own(&metadata))
}

/// Returns `true` if this user owns a file, and neither its group nor others may write it.
#[cfg(unix)]
fn is_own(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.mode() & WRITABLE_BY_OTHERS == 0
}

#[cfg(not(unix))]
fn is_own(_: &fs::Metadata) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn files_of_others_and_links_are_not_own() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path().join("cache");
        create_folder(&folder).expect("a folder");
        let path = folder.join("list.json");
        write(&path, b"{}").expect("a file");
        let mode = |path: &Path| fs::metadata(path).expect("it exists").mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        assert!(is_own_folder(&folder) && is_own_file(&path));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).expect("a mode");
        assert!(!is_own_file(&path), "the group could write it");
        let link = folder.join("link.json");
        symlink("/dev/zero", &link).expect("a link");
        assert!(!is_own_file(&link));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("a mode");
        assert!(!is_own_folder(&folder));
    }
}
