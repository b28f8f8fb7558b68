//! Writing an audit log to disk.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use picktools::Catalog;
use picktools_state::{StateError, create_private_folder, remove_leftovers, write_private_file};
use serde::Serialize;

use crate::chain::{
    CATALOGS, Chain, Files, GENESIS_DIGEST, Head, LOCK, VERSION, file_name, sha256,
};
use crate::settings::AuditSettings;

/// The advice in errors about an invalid audit log.
const REMEDY: &str = "run `picktools replay FOLDER --verify` for details, or move the folder away \
                      to start a new audit log";

/// A folder to which only this process adds records.
pub struct AuditWriter {
    settings: AuditSettings,
    /// The lock file, held while the writer is open.
    lock: File,
    /// The number of the last record, and the digest of its line.
    number: u64,
    digest: String,
    /// The current file: its path, its expected length, and its handle unless the last write
    /// failed.
    path: PathBuf,
    length: u64,
    file: Option<File>,
    /// The last record that the head names, and `true` if the head is on disk.
    head: u64,
    has_head: bool,
    /// The lines after the head, which may not be on disk yet.
    unsynced: Vec<u8>,
    /// `true` if earlier records are gone and the complete policy must be written again.
    is_lost: bool,
    /// The digests of the stored catalogs.
    catalogs: HashSet<String>,
    remnant: Option<Remnant>,
    /// The number of the last record that a store has, if records are sent to one.
    sent: Option<Arc<AtomicU64>>,
}

/// A partial record, left by a process that ended while it wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remnant {
    /// The file to which it was moved.
    pub file: String,
    /// The length in bytes.
    pub bytes: usize,
}

/// A record as it is written.
#[derive(Serialize)]
struct ChainedRecord<'a, T> {
    version: u32,
    number: u64,
    previous: &'a str,
    #[serde(flatten)]
    record: &'a T,
}

impl AuditWriter {
    /// Opens the audit log of a folder, or starts one. A partial line at its end is moved to
    /// another file.
    ///
    /// # Errors
    ///
    /// [`StateError`] if another process writes it, or the chain is broken; then nothing is
    /// changed.
    pub fn open(settings: AuditSettings) -> Result<Self, StateError> {
        let folder = settings.folder.clone();
        let lock = prepare_folder(&folder)?;
        let files = Files::list(&folder)?;
        let mut writer = Self {
            path: folder.join(file_name(1)),
            settings,
            lock,
            number: 0,
            digest: GENESIS_DIGEST.to_owned(),
            length: 0,
            file: None,
            head: 0,
            has_head: true,
            unsynced: Vec::new(),
            is_lost: false,
            catalogs: HashSet::new(),
            remnant: None,
            sent: None,
        };
        let head = Head::read(&folder)?;
        match (head, files.audit.is_empty()) {
            (None, true) => Head::new(0, GENESIS_DIGEST).write(&folder)?,
            (Some(head), _) => writer.resume(&files, &head)?,
            (None, false) => {
                let message =
                    format!("has records but no head.json, so its end may be missing; {REMEDY}");
                return Err(StateError::new(&folder, message));
            }
        }
        writer.reopen()?;
        Ok(writer)
    }

    /// Continues an existing audit log.
    fn resume(&mut self, files: &Files, head: &Head) -> Result<(), StateError> {
        for (first, path) in files.audit.iter().rev() {
            let bytes = fs::read(path)
                .map_err(|error| StateError::new(path, format!("cannot be read: {error}")))?;
            let complete_length = match bytes.iter().rposition(|&byte| byte == b'\n') {
                Some(end) => end + 1,
                None => 0,
            };
            if self.number == 0 && complete_length < bytes.len() && self.remnant.is_none() {
                self.put_aside(path, complete_length, &bytes[complete_length..])?;
            }
            if complete_length == 0 {
                // The file was created, but no record was written to it.
                fs::remove_file(path).map_err(|error| {
                    StateError::new(path, format!("is empty but cannot be removed: {error}"))
                })?;
                continue;
            }
            let mut chain = Chain::new();
            for (index, line) in bytes[..complete_length - 1]
                .split(|&byte| byte == b'\n')
                .enumerate()
            {
                let chain_error = |message: String| {
                    StateError::new(path, format!("line {} {message}; {REMEDY}", index + 1))
                };
                let number = chain.follow(line).map_err(chain_error)?;
                if index == 0 && number != *first {
                    return Err(chain_error(format!(
                        "has the number {number}, unlike the file's name"
                    )));
                }
                if number == head.number
                    && chain
                        .last()
                        .is_some_and(|(_, digest)| digest != head.digest)
                {
                    return Err(chain_error(
                        "is not the record that head.json names".to_owned(),
                    ));
                }
            }
            if let Some((number, digest)) = chain.last() {
                (self.number, self.digest) = (number, digest.to_owned());
            }
            self.path.clone_from(path);
            self.length = complete_length as u64;
            break;
        }
        if head.number > self.number {
            let message = format!(
                "ends with record {}, but head.json names {}: its end was cut off; {REMEDY}",
                self.number, head.number
            );
            return Err(StateError::new(&self.settings.folder, message));
        }
        // Records after the head were read back from the disk.
        self.head = self.number;
        self.has_head = self.number == head.number;
        Ok(())
    }

    /// Moves a partial line to another file, and removes it from its file.
    fn put_aside(
        &mut self,
        path: &Path,
        complete_length: usize,
        partial: &[u8],
    ) -> Result<(), StateError> {
        let name = path
            .file_stem()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let name = format!("remnant-{name}-{complete_length}.txt");
        let aside = self.settings.folder.join(&name);
        write_private_file(&aside, partial)
            .map_err(|error| StateError::new(&aside, error.to_string()))?;
        let cut = File::options().write(true).open(path).and_then(|file| {
            file.set_len(complete_length as u64)?;
            file.sync_all()
        });
        cut.map_err(|error| {
            StateError::new(path, format!("cannot remove an incomplete line: {error}"))
        })?;
        self.remnant = Some(Remnant {
            file: name,
            bytes: partial.len(),
        });
        Ok(())
    }

    /// Returns the partial record that was found when the log was opened.
    pub fn remnant(&self) -> Option<&Remnant> {
        self.remnant.as_ref()
    }

    /// Keeps files with records that a store does not have yet, whatever the settings say.
    pub fn keep_unsent(&mut self, sent: Arc<AtomicU64>) {
        self.sent = Some(sent);
    }

    /// Returns the number of the next record.
    pub fn next(&self) -> u64 {
        self.number + 1
    }

    /// Returns `true` if the next record belongs in a new file.
    pub fn is_full(&self) -> bool {
        self.length >= self.settings.max_bytes
    }

    /// Begins a new file with the next record.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the current file cannot be synced to disk.
    pub fn begin_file(&mut self) -> Result<(), StateError> {
        self.sync()?;
        self.file = None;
        self.set_file(self.number + 1);
        Ok(())
    }

    fn set_file(&mut self, number: u64) {
        self.path = self.settings.folder.join(file_name(number));
        self.length = 0;
    }

    /// Returns `true` once after earlier records were lost.
    pub fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.is_lost)
    }

    /// Returns the number of the oldest record to keep when a file begins with the next record.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the folder cannot be read.
    pub fn first_to_keep(&self) -> Result<u64, StateError> {
        let files = Files::list(&self.settings.folder)?.audit;
        let older_files = match self.settings.keep {
            0 => files.len(),
            keep => keep - 1,
        };
        let earlier_files = files.iter().rev().filter(|(_, path)| *path != self.path);
        let first_kept = match earlier_files.take(older_files).last() {
            Some((first, _)) => *first,
            None => self.number + 1,
        };
        let Some(sent) = &self.sent else {
            return Ok(first_kept);
        };
        let next = sent.load(Ordering::Relaxed) + 1;
        let unsent = files
            .iter()
            .rfind(|(first, _)| *first <= next)
            .or(files.first());
        Ok(match unsent {
            Some((first, _)) => first_kept.min(*first),
            None => first_kept,
        })
    }

    /// Removes the files before the one that begins with a record.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the folder cannot be read or a file cannot be removed.
    pub fn remove_before(&self, first: u64) -> Result<(), StateError> {
        for (number, path) in Files::list(&self.settings.folder)?.audit {
            if number < first {
                fs::remove_file(&path).map_err(|error| {
                    StateError::new(&path, format!("cannot be removed: {error}"))
                })?;
            }
        }
        Ok(())
    }

    /// Appends a record, an object, to the chain. If that fails, nothing of it stays, and the next
    /// attempt starts again.
    ///
    /// # Errors
    ///
    /// [`StateError`] if it cannot be written.
    pub fn append<T: Serialize>(&mut self, record: &T) -> Result<(), StateError> {
        let number = self.number + 1;
        let line = ChainedRecord {
            version: VERSION,
            number,
            previous: &self.digest,
            record,
        };
        let mut line = serde_json::to_vec(&line)
            .map_err(|error| StateError::new(&self.path, error.to_string()))?;
        let digest = sha256(&line);
        line.push(b'\n');
        let Some(mut file) = self.file.take() else {
            self.reopen()?;
            return self.append(record);
        };
        file.write_all(&line)
            .map_err(|error| StateError::new(&self.path, format!("cannot be written: {error}")))?;
        self.file = Some(file);
        self.length += line.len() as u64;
        self.unsynced.append(&mut line);
        (self.number, self.digest) = (number, digest);
        Ok(())
    }

    /// Syncs the records to disk, then the head.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the disk refuses.
    pub fn sync(&mut self) -> Result<(), StateError> {
        if self.file.is_none() {
            self.reopen()?;
        }
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        // Writes to a removed file would succeed, so the path is checked.
        if !is_same_file(&file, &self.path) {
            return Err(StateError::new(&self.path, "was removed or replaced"));
        }
        self.check_lock()?;
        let failed = |message: String| StateError::new(&self.path, message);
        if self.head < self.number || !self.has_head {
            file.sync_data()
                .map_err(|error| failed(format!("cannot be synced to disk: {error}")))?;
            Head::new(self.number, &self.digest).write(&self.settings.folder)?;
            (self.head, self.has_head) = (self.number, true);
            self.unsynced.clear();
        }
        self.file = Some(file);
        Ok(())
    }

    /// Takes the lock again if its file was removed or replaced, because another process could
    /// write then.
    fn check_lock(&mut self) -> Result<(), StateError> {
        // A lock that is released and taken again can be lost: a child process that is being
        // started holds a copy of the released one for a moment.
        let lock_path = self.settings.folder.join(LOCK);
        if !is_same_file(&self.lock, &lock_path) {
            tracing::warn!(
                target: "picktools::audit", file = %lock_path.display(),
                "the lock file of the audit log was removed or replaced; it is locked again"
            );
            self.lock = prepare_folder(&self.settings.folder)?;
        }
        Ok(())
    }

    /// Opens the current file and cuts it to its expected length.
    fn reopen(&mut self) -> Result<(), StateError> {
        self.check_lock()?;
        let mut file = self.open_file()?;
        let length = file
            .metadata()
            .map(|metadata| metadata.len())
            .unwrap_or_default();
        if length < self.length {
            // Earlier records are gone. The numbers continue, so that the gap is visible; lines
            // that may not have reached the disk are written again.
            self.set_file(self.head + 1);
            self.catalogs.clear();
            (self.has_head, self.is_lost) = (false, true);
            file = self.open_file()?;
        }
        let failed = |what, error| StateError::new(&self.path, format!("{what}: {error}"));
        file.set_len(self.length)
            .map_err(|error| failed("cannot remove an incomplete line", error))?;
        if self.length == 0 && self.head < self.number {
            file.write_all(&self.unsynced)
                .map_err(|error| failed("cannot be written", error))?;
            self.length = self.unsynced.len() as u64;
        }
        self.file = Some(file);
        Ok(())
    }

    fn open_file(&self) -> Result<File, StateError> {
        let mut options = File::options();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options
            .open(&self.path)
            .map_err(|error| StateError::new(&self.path, format!("cannot be opened: {error}")))
    }

    /// Stores a catalog, once.
    ///
    /// # Errors
    ///
    /// [`StateError`] if it cannot be written.
    pub fn put_catalog(&mut self, catalog: &Catalog) -> Result<(), StateError> {
        let digest = catalog.digest();
        if self.catalogs.contains(digest) || catalog.is_empty() {
            return Ok(());
        }
        let folder = self.settings.folder.join(CATALOGS);
        let path = folder.join(format!("{digest}.jsonl"));
        let failed = |error: &dyn std::fmt::Display| {
            StateError::new(&path, format!("cannot be written: {error}"))
        };
        if !path.is_file() {
            fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
            let mut lines = Vec::new();
            for tool in catalog.tools().map_err(|error| failed(&error))? {
                serde_json::to_writer(&mut lines, tool).map_err(|error| failed(&error))?;
                lines.push(b'\n');
            }
            write_private_file(&path, &lines).map_err(|error| failed(&error))?;
        }
        self.catalogs.insert(digest.to_owned());
        Ok(())
    }
}

/// Creates a folder for its owner only, and locks it.
fn prepare_folder(folder: &Path) -> Result<File, StateError> {
    create_private_folder(folder)?;
    remove_leftovers(folder);
    let path = folder.join(LOCK);
    let lock_error = |message: String| StateError::new(&path, message);
    let file = File::options().create(true).append(true).open(&path);
    let file = file.map_err(|error| lock_error(format!("cannot be opened: {error}")))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(lock_error(
            "is locked: another process writes this audit log; give each gateway its own folder"
                .to_owned(),
        )),
        Err(TryLockError::Error(error)) => Err(lock_error(format!("cannot be locked: {error}"))),
    }
}

/// Returns `true` if an open file is the one at a path.
fn is_same_file(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(current)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        open.ino() == current.ino() && open.dev() == current.dev() && open.len() == current.len()
    }
    #[cfg(not(unix))]
    return open.len() == current.len();
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::verify;

    fn settings(folder: &Path) -> AuditSettings {
        AuditSettings::new(folder.join("audit"))
    }

    fn record(text: &str) -> Value {
        json!({"at_ms": 1, "kind": "call", "requested": text})
    }

    #[test]
    fn failed_write_leaves_no_partial_record_and_is_retried() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = AuditWriter::open(settings(folder.path())).expect("a new audit");
        writer.append(&record("one")).expect("it is written");
        if let Ok(full) = File::options().append(true).open("/dev/full") {
            writer.file = Some(full);
            let error = writer
                .append(&record("two"))
                .expect_err("the disk is full")
                .to_string();
            assert!(error.contains("cannot be written"), "{error}");
        }
        // A partial line reached the disk.
        let mut half = File::options()
            .append(true)
            .open(&writer.path)
            .expect("the file");
        half.write_all(b"{\"version\":1,\"num")
            .expect("it is written");
        writer.file = None;
        writer.append(&record("two")).expect("it is written now");
        writer.sync().expect("it is on the disk");
        drop(writer);
        let verified = verify(&folder.path().join("audit"), &mut |_| ()).expect("an audit");
        assert_eq!((verified.records, verified.broken), (2, vec![]));
    }

    #[test]
    fn removed_lock_is_taken_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path());
        let lock_path = settings.folder.join(LOCK);
        let mut writer = AuditWriter::open(settings).expect("a new audit");
        fs::remove_file(&lock_path).expect("it exists");
        writer.append(&record("one")).expect("it is written");
        writer.sync().expect("the lock is free");
        assert!(lock_path.exists());
        fs::remove_file(&lock_path).expect("it exists");
        let other = File::options().create(true).append(true).open(&lock_path);
        let other = other.expect("another process");
        other.lock().expect("it locks the file");
        writer.append(&record("two")).expect("it is written");
        writer.sync().expect_err("another process writes");
    }

    #[test]
    fn next_file_keeps_the_lock_of_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = AuditWriter::open(settings(folder.path())).expect("a new audit");
        writer.append(&record("one")).expect("it is written");
        // A child process that is being started holds the same lock.
        let _held_by_child = writer.lock.try_clone().expect("a copy");
        writer.begin_file().expect("it is synced");
        writer.append(&record("two")).expect("it is written");
    }

    #[test]
    fn removed_folder_is_detected_and_numbers_continue() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path());
        let mut writer = AuditWriter::open(settings.clone()).expect("a new audit");
        writer.append(&record("one")).expect("it is written");
        writer.sync().expect("it is on the disk");
        fs::remove_dir_all(&settings.folder).expect("it is removed");
        writer.sync().expect_err("there is no such file");
        fs::write(&settings.folder, "in its place").expect("a file");
        writer
            .append(&record("two"))
            .expect_err("it cannot be made");
        fs::remove_file(&settings.folder).expect("it is removed");
        writer
            .append(&record("two"))
            .expect("there is a folder again");
        assert!(writer.take_lost() && !writer.take_lost());
        // A record that is not on disk yet is not lost with its file.
        fs::remove_dir_all(&settings.folder).expect("it is removed");
        writer.append(&record("three")).expect("the file is open");
        writer.sync().expect_err("it is not there");
        writer.sync().expect("there is a folder again");
        assert_eq!(writer.next(), 4);
        let verified = verify(&settings.folder, &mut |_| ()).expect("an audit");
        assert_eq!((verified.first, verified.last, verified.records), (2, 3, 2));
        assert!(
            verified.broken[0]
                .message
                .contains("before it were removed"),
            "{:?}",
            verified.broken
        );
        AuditWriter::open(settings)
            .err()
            .expect("a second writer is refused");
    }
}
