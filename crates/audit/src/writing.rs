//! How records get onto the disk.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use picktools::Catalog;
use picktools_state::{StateError, folder_for_owner, write_for_owner};
use serde::Serialize;

use crate::chain::{CATALOGS, Chain, Files, Head, LOCK, NOTHING, VERSION, file_name, sha256};
use crate::settings::AuditSettings;

/// Where a person sees what is wrong, and how to go on.
const REMEDY: &str = "`picktools replay FOLDER --verify` tells what is wrong; move the folder aside to begin a new audit";

/// A folder that this process alone adds records to.
pub struct AuditWriter {
    settings: AuditSettings,
    /// Held while it is open.
    lock: Option<File>,
    /// The number of the last record, and the digest of its line.
    number: u64,
    digest: String,
    /// The file that records are added to, how long it is to be, and the file itself while all goes
    /// well.
    path: PathBuf,
    length: u64,
    file: Option<File>,
    /// The last record that the head names, and whether that is written.
    head: u64,
    has_head: bool,
    /// The lines after it, which the disk may not have.
    unsure: Vec<u8>,
    /// Whether what was there is gone, and all that holds is to be said again.
    is_lost: bool,
    /// The catalogs that are there.
    catalogs: HashSet<String>,
    remnant: Option<Remnant>,
    /// The number of the last record that a store has, where they go to one.
    sent: Option<Arc<AtomicU64>>,
}

/// Half a record, which a process left that ended while it wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remnant {
    /// The file that it was put into.
    pub file: String,
    /// Its length.
    pub bytes: usize,
}

/// A record as it is written.
#[derive(Serialize)]
struct Line<'a, T> {
    version: u32,
    number: u64,
    previous: &'a str,
    #[serde(flatten)]
    record: &'a T,
}

impl AuditWriter {
    /// Opens the audit of a folder, or begins one. What is half a line at its end is put aside.
    ///
    /// # Errors
    ///
    /// [`StateError`] when another process writes it, or it is not whole: then nothing is added to
    /// it.
    pub fn open(settings: AuditSettings) -> Result<Self, StateError> {
        let folder = settings.folder.clone();
        let lock = Some(prepare(&folder)?);
        let files = Files::of(&folder)?;
        let mut writer = Self {
            path: folder.join(file_name(1)),
            settings,
            lock,
            number: 0,
            digest: NOTHING.to_owned(),
            length: 0,
            file: None,
            head: 0,
            has_head: true,
            unsure: Vec::new(),
            is_lost: false,
            catalogs: HashSet::new(),
            remnant: None,
            sent: None,
        };
        let head = Head::read(&folder)?;
        match (head, files.audit.is_empty()) {
            (None, true) => Head::new(0, NOTHING).write(&folder)?,
            (Some(head), _) => writer.go_on(&files, &head)?,
            (None, false) => {
                let message = format!(
                    "has records and no head.json, so that its end may be missing; {REMEDY}"
                );
                return Err(StateError::new(&folder, message));
            }
        }
        writer.reopen()?;
        Ok(writer)
    }

    /// Takes up what is there.
    fn go_on(&mut self, files: &Files, head: &Head) -> Result<(), StateError> {
        for (first, path) in files.audit.iter().rev() {
            let bytes = fs::read(path)
                .map_err(|error| StateError::new(path, format!("cannot be read: {error}")))?;
            let whole = bytes
                .iter()
                .rposition(|&byte| byte == b'\n')
                .map_or(0, |end| end + 1);
            if self.number == 0 && whole < bytes.len() && self.remnant.is_none() {
                self.put_aside(path, whole, &bytes[whole..])?;
            }
            if whole == 0 {
                // It was begun, and no record got into it.
                fs::remove_file(path).map_err(|error| {
                    StateError::new(path, format!("is empty and cannot be removed: {error}"))
                })?;
                continue;
            }
            let mut chain = Chain::new();
            for (place, line) in bytes[..whole - 1].split(|&byte| byte == b'\n').enumerate() {
                let broken = |message: String| {
                    StateError::new(path, format!("line {} {message}; {REMEDY}", place + 1))
                };
                let number = chain.follow(line).map_err(broken)?;
                if place == 0 && number != *first {
                    return Err(broken(format!(
                        "has the number {number}, and not that of the file's name"
                    )));
                }
                if number == head.number
                    && chain
                        .last()
                        .is_some_and(|(_, digest)| digest != head.digest)
                {
                    return Err(broken("is not the record that head.json names".to_owned()));
                }
            }
            if let Some((number, digest)) = chain.last() {
                (self.number, self.digest) = (number, digest.to_owned());
            }
            self.path.clone_from(path);
            self.length = whole as u64;
            break;
        }
        if head.number > self.number {
            let message = format!(
                "ends with the record {}, and head.json names {}: its end was cut off; {REMEDY}",
                self.number, head.number
            );
            return Err(StateError::new(&self.settings.folder, message));
        }
        // What is there beyond it was read from the disk.
        self.head = self.number;
        self.has_head = self.number == head.number;
        Ok(())
    }

    /// Puts half a line aside, and takes it off its file.
    fn put_aside(&mut self, path: &Path, whole: usize, rest: &[u8]) -> Result<(), StateError> {
        let name = path
            .file_stem()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let name = format!("remnant-{name}-{whole}.txt");
        let aside = self.settings.folder.join(&name);
        write_for_owner(&aside, rest)
            .map_err(|error| StateError::new(&aside, error.to_string()))?;
        let cut = File::options().write(true).open(path).and_then(|file| {
            file.set_len(whole as u64)?;
            file.sync_all()
        });
        cut.map_err(|error| {
            StateError::new(path, format!("half a line cannot be taken off it: {error}"))
        })?;
        self.remnant = Some(Remnant {
            file: name,
            bytes: rest.len(),
        });
        Ok(())
    }

    /// Returns what was put aside when it was opened.
    pub fn remnant(&self) -> Option<&Remnant> {
        self.remnant.as_ref()
    }

    /// Keeps what a store does not have yet, whatever the settings say of files.
    pub fn keep_unsent(&mut self, sent: Arc<AtomicU64>) {
        self.sent = Some(sent);
    }

    /// Returns the number of the next record.
    pub fn next(&self) -> u64 {
        self.number + 1
    }

    /// Returns `true` if the next record belongs into a new file.
    pub fn is_full(&self) -> bool {
        self.length >= self.settings.max_bytes
    }

    /// Begins a new file with the next record.
    ///
    /// # Errors
    ///
    /// [`StateError`] when the file before it cannot be brought onto the disk.
    pub fn begin_file(&mut self) -> Result<(), StateError> {
        self.sync()?;
        self.file = None;
        self.begin_at(self.number + 1);
        Ok(())
    }

    fn begin_at(&mut self, number: u64) {
        self.path = self.settings.folder.join(file_name(number));
        self.length = 0;
    }

    /// Returns `true` if what was written before is gone, which is told once.
    pub fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.is_lost)
    }

    /// Returns the number of the first record that is to be kept when a file begins with the next
    /// one.
    ///
    /// # Errors
    ///
    /// [`StateError`] when the folder cannot be read.
    pub fn first_kept(&self) -> Result<u64, StateError> {
        let files = Files::of(&self.settings.folder)?.audit;
        let before = match self.settings.keep {
            0 => files.len(),
            keep => keep - 1,
        };
        let kept = files
            .iter()
            .rev()
            .filter(|(_, path)| *path != self.path)
            .take(before)
            .last();
        let kept = kept.map_or(self.number + 1, |(first, _)| *first);
        let Some(sent) = &self.sent else {
            return Ok(kept);
        };
        let next = sent.load(Ordering::Relaxed) + 1;
        let unsent = files
            .iter()
            .rfind(|(first, _)| *first <= next)
            .or(files.first());
        Ok(unsent.map_or(kept, |(first, _)| kept.min(*first)))
    }

    /// Removes the files before that of a record.
    ///
    /// # Errors
    ///
    /// [`StateError`] when the folder cannot be read, or a file not removed.
    pub fn remove_before(&self, first: u64) -> Result<(), StateError> {
        for (_, path) in Files::of(&self.settings.folder)?
            .audit
            .into_iter()
            .filter(|(number, _)| *number < first)
        {
            fs::remove_file(&path)
                .map_err(|error| StateError::new(&path, format!("cannot be removed: {error}")))?;
        }
        Ok(())
    }

    /// Adds a record: an object, which gets its place in the chain. Where that fails nothing of it
    /// stays, and the next attempt begins anew.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be written.
    pub fn append<T: Serialize>(&mut self, record: &T) -> Result<(), StateError> {
        let number = self.number + 1;
        let line = Line {
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
        self.unsure.append(&mut line);
        (self.number, self.digest) = (number, digest);
        Ok(())
    }

    /// Brings what was written onto the disk, and the head after it.
    ///
    /// # Errors
    ///
    /// [`StateError`] when the disk does not take it.
    pub fn sync(&mut self) -> Result<(), StateError> {
        if self.file.is_none() {
            self.reopen()?;
        }
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let failed = |message: String| StateError::new(&self.path, message);
        // A file that somebody removed can be written to all the same.
        if !is_at(&file, &self.path) {
            return Err(failed(
                "is not there any longer, or is another file now".to_owned(),
            ));
        }
        if self.head < self.number || !self.has_head {
            file.sync_data()
                .map_err(|error| failed(format!("cannot be brought onto the disk: {error}")))?;
            Head::new(self.number, &self.digest).write(&self.settings.folder)?;
            (self.head, self.has_head) = (self.number, true);
            self.unsure.clear();
        }
        self.file = Some(file);
        Ok(())
    }

    /// Opens the file that records are added to, as long as it is to be.
    fn reopen(&mut self) -> Result<(), StateError> {
        self.lock = None;
        self.lock = Some(prepare(&self.settings.folder)?);
        let mut file = self.open_file()?;
        let length = file.metadata().map(|about| about.len()).unwrap_or_default();
        if length < self.length {
            // What was there is gone. The numbers go on, so that it is seen; what may not have
            // reached the disk does now.
            self.begin_at(self.head + 1);
            self.catalogs.clear();
            (self.has_head, self.is_lost) = (false, true);
            file = self.open_file()?;
        }
        let failed = |what, error| StateError::new(&self.path, format!("{what}: {error}"));
        file.set_len(self.length)
            .map_err(|error| failed("half a line cannot be taken off it", error))?;
        if self.length == 0 && self.head < self.number {
            file.write_all(&self.unsure)
                .map_err(|error| failed("cannot be written", error))?;
            self.length = self.unsure.len() as u64;
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

    /// Writes a catalog, once, as it is read again.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be written.
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
            for tool in catalog.tools() {
                serde_json::to_writer(&mut lines, tool).map_err(|error| failed(&error))?;
                lines.push(b'\n');
            }
            write_for_owner(&path, &lines).map_err(|error| failed(&error))?;
        }
        self.catalogs.insert(digest.to_owned());
        Ok(())
    }
}

/// Makes a folder that its owner alone can read, and locks it.
fn prepare(folder: &Path) -> Result<File, StateError> {
    folder_for_owner(folder)?;
    let path = folder.join(LOCK);
    let refused = |message: String| StateError::new(&path, message);
    let file = File::options().create(true).append(true).open(&path);
    let file = file.map_err(|error| refused(format!("cannot be opened: {error}")))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(refused(
            "is held: another process writes this audit; give each gateway a folder of its own"
                .to_owned(),
        )),
        Err(TryLockError::Error(error)) => Err(refused(format!("cannot be locked: {error}"))),
    }
}

/// Whether an open file is the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        open.ino() == there.ino() && open.dev() == there.dev() && open.len() == there.len()
    }
    #[cfg(not(unix))]
    return open.len() == there.len();
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
    fn a_disk_that_refuses_leaves_nothing_half_and_the_record_is_written_when_it_no_longer_does() {
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
        // Half of a line reached the disk.
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
    fn a_folder_that_is_gone_is_noticed_and_numbers_go_on_after_it() {
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
        // One that no disk has yet is not lost with its file.
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
            .expect("it is written by another, were it in the same process");
    }
}
