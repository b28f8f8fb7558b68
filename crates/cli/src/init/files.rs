//! A client's file on disk: bounded reads, backups, and replacement.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use picktools::disk;
use picktools_state::keys::hex;
use picktools_state::remove_leftovers;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::clients::{ClientConfig, Scope};
use crate::output;

/// The largest size of a file, in MiB.
const MAX_MIB: u64 = 4;
/// The most copies of a file in one second.
const MAX_COPIES: usize = 20;
/// The part of a backup's name between the name of the file and the time.
const BACKUP: &str = ".picktools-backup-";
/// The same part for files that `--undo` replaced.
const UNDONE: &str = ".picktools-undone-";

/// A client's file as it was read.
#[derive(Debug)]
pub(super) struct ClientFile {
    /// The path with links resolved.
    pub(super) path: PathBuf,
    pub(super) text: String,
    permissions: Permissions,
    /// The folder of backups; `None` for the folder of the file.
    backups: Option<PathBuf>,
}

/// The record of a file that `init` wrote.
#[derive(Serialize, Deserialize)]
struct WriteRecord {
    /// The digest of the client's file.
    sha256: String,
    /// The digest of the file that the gateway reads.
    #[serde(default)]
    upstreams_sha256: String,
    /// The backup of the client's file, if it was the state without the gateway.
    #[serde(default)]
    backup: Option<PathBuf>,
    /// The digest of the backup. A backup with another digest is not restored.
    #[serde(default)]
    backup_sha256: String,
}

impl ClientFile {
    /// Reads the file, or returns `None` if it does not exist.
    pub(super) fn open(place: &ClientConfig) -> anyhow::Result<Option<Self>> {
        let link = match fs::symlink_metadata(&place.file) {
            Ok(metadata) => metadata,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error).context("cannot read the file"),
        };
        let path = place.file.canonicalize().context(if link.is_symlink() {
            "the file is a broken link"
        } else {
            "cannot read the file"
        })?;
        if !is_within(&path, &place.roots) || !has_folder_within(&place.file, &place.roots) {
            let root = match place.scope {
                Scope::User => "home folder",
                Scope::Project => "project",
            };
            bail!(
                "the file is a link out of the {root}, to {}; edit that file by hand",
                path.display()
            );
        }
        let metadata = fs::metadata(&path).context("cannot read the file")?;
        ensure!(metadata.is_file(), "it is not a file");
        let Some(bytes) = bounded(&path).context("cannot read the file")? else {
            bail!("the file is larger than {MAX_MIB} MiB");
        };
        let text = String::from_utf8(bytes)
            .ok()
            .context("the file is not valid UTF-8; save it as UTF-8")?;
        Ok(Some(Self {
            path,
            text,
            permissions: metadata.permissions(),
            backups: place.backups.clone(),
        }))
    }

    /// Checks that the file is writable.
    pub(super) fn check_writable(&self) -> anyhow::Result<()> {
        ensure!(
            !self.permissions.readonly(),
            "the file is read-only; make it writable first"
        );
        Ok(())
    }

    /// Writes a backup of the file, and returns its path.
    pub(super) fn back_up(&self) -> anyhow::Result<PathBuf> {
        self.copy(BACKUP)
    }

    /// Writes a copy of the file that `--undo` replaces, and returns its path.
    pub(super) fn keep_undone(&self) -> anyhow::Result<PathBuf> {
        self.copy(UNDONE)
    }

    fn copy(&self, infix: &str) -> anyhow::Result<PathBuf> {
        let name = self.path.file_name().context("the file has no name")?;
        if let Some(folder) = &self.backups {
            make_private(folder)?;
        }
        let time = utc(SystemTime::now());
        // Other copies of the same second have other numbers.
        for number in 1..=MAX_COPIES {
            let mut name = name.to_owned();
            name.push(match number {
                1 => format!("{infix}{time}"),
                _ => format!("{infix}{time}-{number}"),
            });
            let path = match &self.backups {
                Some(folder) => folder.join(name),
                None => self.path.with_file_name(name),
            };
            match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    disk::write_as(&path, self.text.as_bytes(), self.permissions.clone())?;
                    return Ok(path);
                }
                Ok(metadata) if metadata.is_file() && holds(&path, &self.text) => return Ok(path),
                _ => {}
            }
        }
        bail!("there are too many copies of the file; try again in a second");
    }

    /// Replaces the file, unless it has changed since it was read.
    pub(super) fn replace(&self, text: &str) -> anyhow::Result<()> {
        ensure!(
            holds(&self.path, &self.text),
            "the file was changed in the meantime; run the command again"
        );
        disk::write_as(&self.path, text.as_bytes(), self.permissions.clone())?;
        Ok(())
    }

    /// Returns the text of the backup, if neither the file nor that of the gateway has changed
    /// since `init` wrote them.
    pub(super) fn backup_of_unchanged(&self, place: &ClientConfig) -> Option<String> {
        let record = read_record(place)?;
        let upstreams = bounded_text(&place.upstreams)?;
        if record.sha256 != digest(&self.text) || record.upstreams_sha256 != digest(&upstreams) {
            return None;
        }
        let path = record.backup?;
        let backup = bounded_text(&path)?;
        if digest(&backup) != record.backup_sha256 {
            output::warn(format!(
                "the backup {} is not the one that `init` wrote; the servers are put back from the \
                 gateway's file instead",
                path.display()
            ));
            return None;
        }
        Some(backup)
    }
}

fn read_record(place: &ClientConfig) -> Option<WriteRecord> {
    let bytes = bounded(&place.record).ok()??;
    serde_json::from_slice(&bytes).ok()
}

/// Returns the text of the file that the gateway reads, or `None` if the file does not exist.
pub(super) fn read_upstreams(place: &ClientConfig) -> anyhow::Result<Option<String>> {
    match fs::symlink_metadata(&place.upstreams) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // A link could lead to a file with other secrets.
        Ok(metadata) if !metadata.is_file() => {
            bail!("{} is not a file", place.upstreams.display())
        }
        _ => {
            let text = bounded_text(&place.upstreams);
            let text =
                text.with_context(|| format!("cannot read {}", place.upstreams.display()))?;
            Ok(Some(text))
        }
    }
}

/// Writes the file that the gateway reads as it was.
pub(super) fn rewrite_upstreams(place: &ClientConfig, text: &str) -> anyhow::Result<()> {
    let permissions = fs::metadata(&place.upstreams)
        .context("cannot read the upstreams file")?
        .permissions();
    disk::write_as(&place.upstreams, text.as_bytes(), permissions)?;
    Ok(())
}

/// Removes the file that the gateway read, and the record, after `--undo`.
pub(super) fn remove_upstreams(place: &ClientConfig) -> anyhow::Result<()> {
    for path in [&place.upstreams, &place.record] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that the upstreams file has no other content than `upstreams` or what it had `before`.
pub(super) fn check_upstreams(
    place: &ClientConfig,
    upstreams: &str,
    before: Option<&str>,
) -> anyhow::Result<()> {
    let path = place.upstreams.display();
    let is_known = |text| holds(&place.upstreams, text);
    match fs::symlink_metadata(&place.upstreams) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(metadata)
            if metadata.is_file() && (is_known(upstreams) || before.is_some_and(is_known)) =>
        {
            Ok(())
        }
        Ok(_) => bail!("the upstreams file {path} exists with other content; move it away"),
        Err(error) => Err(error).with_context(|| format!("cannot read {path}")),
    }
}

/// Writes the file that the gateway reads, and the record of the edited client's file. `backup` is
/// the client's file without the gateway.
pub(super) fn write_upstreams(
    place: &ClientConfig,
    file: &ClientFile,
    upstreams: &str,
    edited: &str,
    backup: Option<&Path>,
) -> anyhow::Result<()> {
    let folder = place.record.parent().context("the record has no folder")?;
    make_private(folder)?;
    remove_leftovers(folder);
    let permissions = match place.scope {
        Scope::User => owner_only(&file.permissions),
        Scope::Project => file.permissions.clone(),
    };
    disk::write_as(&place.upstreams, upstreams.as_bytes(), permissions)?;
    let record = serde_json::to_vec(&WriteRecord {
        sha256: digest(edited),
        upstreams_sha256: digest(upstreams),
        backup: backup.map(Path::to_owned),
        backup_sha256: backup.map_or_else(String::new, |_| digest(&file.text)),
    })?;
    disk::write_as(&place.record, &record, owner_only(&file.permissions))?;
    Ok(())
}

/// Returns `true` if one of the folders contains a path whose links are resolved.
fn is_within(path: &Path, roots: &[PathBuf]) -> bool {
    roots
        .iter()
        .any(|root| root.canonicalize().is_ok_and(|root| path.starts_with(root)))
}

/// Returns `true` if the folder of a file, with links resolved, is within one of the folders.
fn has_folder_within(file: &Path, roots: &[PathBuf]) -> bool {
    let Some(folder) = file.parent() else {
        return false;
    };
    let folder = folder.canonicalize();
    folder.is_ok_and(|folder| is_within(&folder, roots))
}

/// Reads a text of at most [`MAX_MIB`]. Returns `None` if it is larger or cannot be read.
pub(super) fn bounded_text(path: &Path) -> Option<String> {
    let bytes = bounded(path).ok()??;
    String::from_utf8(bytes).ok()
}

/// Reads a file of at most [`MAX_MIB`].
fn bounded(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let max_bytes = MAX_MIB << 20;
    let mut bytes = Vec::new();
    File::open(path)?
        .take(max_bytes + 1)
        .read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= max_bytes).then_some(bytes))
}

/// Returns `true` if a file can be read and has this text.
fn holds(path: &Path, text: &str) -> bool {
    bounded(path).is_ok_and(|bytes| bytes.as_deref() == Some(text.as_bytes()))
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// Creates a folder, with its parents, that only its owner can enter.
fn make_private(folder: &Path) -> anyhow::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let result = builder.create(folder);
    #[cfg(unix)]
    let result = result.and_then(|()| {
        fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))
    });
    result.with_context(|| format!("cannot create {}", folder.display()))
}

#[cfg(unix)]
fn owner_only(_: &Permissions) -> Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o600)
}

/// Returns the permissions unchanged: on other systems, files in the user's folder are private.
#[cfg(not(unix))]
fn owner_only(permissions: &Permissions) -> Permissions {
    permissions.clone()
}

/// Formats a time in UTC, as in `20261123T141500Z`.
fn utc(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [
        31,
        28 + u64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (day, hour, minute, second) = (days + 1, second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn utc_follows_the_calendar() {
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (4_107_542_400, "21000301T000000Z"),
            (1_795_443_300, "20261123T141500Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
