//! A mount namespace in which everything outside the writable folders is read-only.
//!
//! Landlock restricts neither modes, owners, times nor extended attributes of files. A read-only
//! mount does.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount_bind_recursive, mount_change, mount_remount,
};

/// A mount of this thread.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    path: PathBuf,
    /// The flags that a remount must repeat.
    flags: MountFlags,
}

/// Makes everything outside the writable folders read-only for this thread and its child processes.
/// It fails without the capability `CAP_SYS_ADMIN`.
pub(super) fn make_read_only(writable: &[PathBuf]) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    let mut folders = Vec::new();
    for path in writable {
        let Ok(folder) = path.canonicalize() else {
            continue;
        };
        if folder.is_dir() && folder != Path::new("/") {
            mount_bind_recursive(&folder, &folder)?;
        }
        folders.push(folder);
    }
    let mounts = parse_mounts(&fs::read("/proc/thread-self/mountinfo")?);
    if !mounts.iter().any(|mount| mount.path == Path::new("/")) {
        return Err(io::Error::other("the root folder is not a mount"));
    }
    for mount in mounts {
        if folders.iter().any(|folder| mount.path.starts_with(folder)) {
            continue;
        }
        let flags = MountFlags::BIND | MountFlags::RDONLY | mount.flags;
        match mount_remount(&mount.path, flags, "") {
            // Another mount hides this one.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads the lines of `/proc/PID/mountinfo`.
fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ').skip(4);
        let (Some(path), Some(options)) = (fields.next(), fields.next()) else {
            continue;
        };
        let mut flags = MountFlags::empty();
        for option in options.split(|byte| *byte == b',') {
            flags |= match option {
                b"nodev" => MountFlags::NODEV,
                b"noexec" => MountFlags::NOEXEC,
                b"nosuid" => MountFlags::NOSUID,
                _ => MountFlags::empty(),
            };
        }
        mounts.push(Mount {
            path: unescape(path),
            flags,
        });
    }
    mounts
}

/// Replaces escapes such as `\040` with their characters.
fn unescape(text: &[u8]) -> PathBuf {
    let mut path = Vec::new();
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|_| *byte == b'\\');
        let octal = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(character) => {
                path.push(character);
                rest = &after[3..];
            }
            None => {
                path.push(*byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(path).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_have_unescaped_paths_and_their_flags() {
        let text = b"22 1 0:5 / /a\\040b\\134 rw,nosuid,nodev,relatime shared:1 - ext4 x rw\n\
                     23 22 0:6 / / ro - tmpfs y rw\n\nbroken";
        let mounts = parse_mounts(text);
        let expected = [
            ("/a b\\", MountFlags::NOSUID | MountFlags::NODEV),
            ("/", MountFlags::empty()),
        ];
        let expected = expected.map(|(path, flags)| Mount {
            path: path.into(),
            flags,
        });
        assert_eq!(mounts, expected);
    }
}
