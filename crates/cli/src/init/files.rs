//! A client's file on the disk: read with bounds, and replaced after what was there stands beside
//! it.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use picktools::disk;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::places::{Place, Scope};

/// The most bytes of a file, in MiB.
const MAX_MIB: u64 = 4;
/// Between the name of a file and the time, in the name of a backup.
const BACKUP: &str = ".picktools-backup-";
/// The same for what `--undo` replaced.
const UNDONE: &str = ".picktools-undone-";

/// A client's file as it was read.
#[derive(Debug)]
pub(super) struct ClientFile {
    /// Where it is, links followed.
    pub(super) path: PathBuf,
    pub(super) text: String,
    permissions: Permissions,
}

/// What `init` remembers of what it wrote.
#[derive(Serialize, Deserialize)]
struct Record {
    /// The digest of the client's file.
    sha256: String,
}

impl ClientFile {
    /// Reads the file of a place, where there is one.
    pub(super) fn read(place: &Place) -> anyhow::Result<Option<Self>> {
        let link = match fs::symlink_metadata(&place.file) {
            Ok(metadata) => metadata,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error).context("it cannot be read"),
        };
        let path = place.file.canonicalize().context(if link.is_symlink() {
            "it is a link that leads nowhere"
        } else {
            "it cannot be read"
        })?;
        let is_within = |path: &Path| {
            place
                .roots
                .iter()
                .filter_map(|root| root.canonicalize().ok())
                .any(|root| path.starts_with(root))
        };
        let folder = place
            .file
            .parent()
            .and_then(|folder| folder.canonicalize().ok());
        if !is_within(&path) || !folder.is_some_and(|folder| is_within(&folder)) {
            let left = match place.scope {
                Scope::User => "home folder",
                Scope::Project => "project",
            };
            bail!(
                "it is a link that leads out of the {left}, to {}; edit that file by hand",
                path.display()
            );
        }
        let metadata = fs::metadata(&path).context("it cannot be read")?;
        ensure!(metadata.is_file(), "it is no file");
        let Some(bytes) = bounded(&path).context("it cannot be read")? else {
            bail!("it has more than {MAX_MIB} MiB");
        };
        let text = String::from_utf8(bytes)
            .ok()
            .context("it is not UTF-8; write it anew in UTF-8")?;
        Ok(Some(Self {
            path,
            text,
            permissions: metadata.permissions(),
        }))
    }

    /// Fails where the file may not be written.
    pub(super) fn check_writable(&self) -> anyhow::Result<()> {
        ensure!(
            !self.permissions.readonly(),
            "it is read-only; make it writable first"
        );
        Ok(())
    }

    /// Puts a copy beside the file, and returns where.
    pub(super) fn back_up(&self) -> anyhow::Result<PathBuf> {
        self.copy_beside(BACKUP)
    }

    /// Puts a copy of what `--undo` replaces beside the file, and returns where.
    pub(super) fn keep_undone(&self) -> anyhow::Result<PathBuf> {
        self.copy_beside(UNDONE)
    }

    fn copy_beside(&self, infix: &str) -> anyhow::Result<PathBuf> {
        let mut name = self.path.file_name().context("it has no name")?.to_owned();
        name.push(format!("{infix}{}", utc(SystemTime::now())));
        let path = self.path.with_file_name(name);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // From a run in the same second.
            Ok(there) if there.is_file() && holds(&path, &self.text) => return Ok(path),
            _ => bail!("{} is there already; try again in a second", path.display()),
        }
        disk::write_as(&path, self.text.as_bytes(), self.permissions.clone())?;
        Ok(path)
    }

    /// Returns the newest backup and its text.
    pub(super) fn newest_backup(&self) -> anyhow::Result<Option<(PathBuf, String)>> {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Ok(None);
        };
        let start = format!(
            "{}{BACKUP}",
            name.to_str().context("its name is not UTF-8")?
        );
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).context("its folder cannot be read")? {
            let entry = entry.context("its folder cannot be read")?;
            let is_backup = entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(&start));
            if is_backup && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                names.push(entry.path());
            }
        }
        let Some(path) = names.into_iter().max() else {
            return Ok(None);
        };
        let read = bounded(&path)
            .ok()
            .flatten()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let text = read.with_context(|| format!("its backup {} cannot be read", path.display()))?;
        Ok(Some((path, text)))
    }

    /// Replaces the file, unless it is no longer what was read.
    pub(super) fn replace(&self, text: &str) -> anyhow::Result<()> {
        ensure!(
            holds(&self.path, &self.text),
            "it was changed in the meantime; run it again"
        );
        disk::write_as(&self.path, text.as_bytes(), self.permissions.clone())?;
        Ok(())
    }

    /// Returns `true` if the file is what `init` wrote.
    pub(super) fn is_as_written(&self, place: &Place) -> bool {
        let record = bounded(&place.record).ok().flatten();
        let record = record.and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok());
        record.is_some_and(|record| record.sha256 == digest(&self.text))
    }
}

/// Fails where something else stands in the place of the upstreams.
pub(super) fn check_upstreams(place: &Place, upstreams: &str) -> anyhow::Result<()> {
    let path = place.upstreams.display();
    match fs::symlink_metadata(&place.upstreams) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(metadata) if metadata.is_file() && holds(&place.upstreams, upstreams) => Ok(()),
        Ok(_) => bail!("its upstreams file {path} is there with other content; move that away"),
        Err(error) => Err(error).with_context(|| format!("{path} cannot be read")),
    }
}

/// Writes the file that the gateway reads, and what the client's file is going to be.
pub(super) fn write_upstreams(
    place: &Place,
    file: &ClientFile,
    upstreams: &str,
    edited: &str,
) -> anyhow::Result<()> {
    if place.scope == Scope::User {
        make_private(place.upstreams.parent().context("it is in a folder")?)?;
    }
    let permissions = match place.scope {
        Scope::User => owner_only(&file.permissions),
        Scope::Project => file.permissions.clone(),
    };
    disk::write_as(&place.upstreams, upstreams.as_bytes(), permissions.clone())?;
    let record = serde_json::to_vec(&Record {
        sha256: digest(edited),
    })?;
    disk::write_as(&place.record, &record, permissions)?;
    Ok(())
}

/// Reads a file of at most [`MAX_MIB`].
fn bounded(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let most = MAX_MIB << 20;
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// Returns `true` if a file can be read and has this text.
fn holds(path: &Path, text: &str) -> bool {
    bounded(path).is_ok_and(|found| found.as_deref() == Some(text.as_bytes()))
}

fn digest(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Makes a folder that only its owner can enter, and those above it.
fn make_private(folder: &Path) -> anyhow::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.create(folder);
    #[cfg(unix)]
    let made = made.and_then(|()| {
        fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))
    });
    made.with_context(|| format!("{} cannot be made", folder.display()))
}

#[cfg(unix)]
fn owner_only(_: &Permissions) -> Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o600)
}

/// Elsewhere a file of the user's own folder is the user's alone.
#[cfg(not(unix))]
fn owner_only(permissions: &Permissions) -> Permissions {
    permissions.clone()
}

/// A time in UTC, as in `20261123T141500Z`.
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
    fn times_are_those_of_the_calendar() {
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
