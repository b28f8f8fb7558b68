//! The transfer of audit records to a stream in the shared store, where the records of all gateways
//! come together.
//!
//! Only records that are on the disk are sent, in order and once each. While the store is
//! unreachable they stay in the folder, even in files that `keep` would remove. The position of
//! each gateway, the number and digest of its last record, is stored beside the stream and changes
//! in the same step. After a lost reply or a rollback of the store, this position says from which
//! record to continue.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use picktools_state::keys::random;
use picktools_state::{
    Purpose, StateError, StateStore, StoreFailure, StoreFault, StoreReply, lock, write_private_file,
};

use crate::chain::{Files, GATEWAY, GENESIS_DIGEST, Head, Link, sha256};

/// The interval between checks for new records.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The most records and bytes in one transfer.
const MAX_RECORDS: usize = 256;
const MAX_BYTES: usize = 512 << 10;
/// The number of digits of a gateway's name in the stream.
const NAME_DIGITS: usize = 16;

/// Returns the position of a gateway. If the stream is gone, all positions are deleted.
const READ_POSITION: &str = "\
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('DEL', KEYS[2]) end
return redis.call('HGET', KEYS[2], ARGV[1])";
/// Adds records if the gateway's position is the expected one. Returns the new position.
const APPEND_RECORDS: &str = "\
local last = redis.call('HGET', KEYS[2], ARGV[1]) or ARGV[2]
if last ~= ARGV[3] then return last end
for place = 5, #ARGV do redis.call('XADD', KEYS[1], '*', 'gateway', ARGV[1], 'record', ARGV[place]) end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
return ARGV[4]";

/// A handle of the thread that sends the records of a folder, until it is dropped.
pub struct AuditUploader {
    stop_signal: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    sent: Arc<AtomicU64>,
}

impl AuditUploader {
    /// Starts to send the audit log of a folder.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the folder belongs to another tenant or cannot be read.
    pub fn begin(folder: &Path, store: StateStore) -> Result<Self, StateError> {
        let (stop_signal, sent) = (
            Arc::new((Mutex::new(false), Condvar::new())),
            Arc::new(AtomicU64::new(0)),
        );
        let mut sender = Sender {
            gateway: gateway_name(folder, store.tenant())?,
            folder: folder.to_owned(),
            keys: [store.key("audit"), store.key("audit:sent")],
            store,
            last: None,
            tail: None,
            sent: Arc::clone(&sent),
        };
        let thread_signal = Arc::clone(&stop_signal);
        let run = move || {
            loop {
                let has_ended = {
                    let (has_ended, wakes) = &*thread_signal;
                    let result =
                        wakes.wait_timeout_while(lock(has_ended), POLL_INTERVAL, |has_ended| {
                            !*has_ended
                        });
                    result.map_or(true, |(has_ended, _)| *has_ended)
                };
                sender.send();
                if has_ended {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("audit store".to_owned())
            .spawn(run);
        let thread = thread.map_err(|error| {
            StateError::new(
                folder,
                format!("cannot start the thread that sends it: {error}"),
            )
        })?;
        Ok(Self {
            stop_signal,
            thread: Some(thread),
            sent,
        })
    }

    /// Returns the number of the last record that the store has; it is updated.
    pub fn sent_number(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }

    /// Sends the remaining records and stops. It blocks.
    pub fn end(mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }

    fn stop(&self) {
        *lock(&self.stop_signal.0) = true;
        self.stop_signal.1.notify_all();
    }
}

impl Drop for AuditUploader {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the name of a folder's gateway in the stream. It is a random word that stays with the
/// folder, together with the tenant's name.
fn gateway_name(folder: &Path, tenant: &str) -> Result<String, StateError> {
    let path = folder.join(GATEWAY);
    let failed =
        |error: &dyn std::fmt::Display| StateError::new(&path, format!("cannot be used: {error}"));
    let is_name =
        |name: &str| name.len() == NAME_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    match std::fs::read_to_string(&path) {
        Ok(text) => match text.trim().split_once(' ') {
            Some((name, owner)) if is_name(name) && owner == tenant => Ok(name.to_owned()),
            Some((name, owner)) if is_name(name) => Err(failed(&format!(
                "the records belong to the tenant {owner:?}; give each tenant its own folder"
            ))),
            _ => Err(failed(&"it contains no name; restore a copy")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut name = random().map_err(|error| failed(&error))?;
            name.truncate(NAME_DIGITS);
            write_private_file(&path, format!("{name} {tenant}").as_bytes())
                .map_err(|error| failed(&error))?;
            Ok(name)
        }
        Err(error) => Err(failed(&error)),
    }
}

struct Sender {
    store: StateStore,
    folder: PathBuf,
    gateway: String,
    /// The key of the stream, and the key of the positions.
    keys: [String; 2],
    /// The last record that the store has; `None` if unknown.
    last: Option<StreamPosition>,
    tail: Option<Tail>,
    sent: Arc<AtomicU64>,
}

/// A position in the chain: a record that the store has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StreamPosition {
    number: u64,
    digest: String,
}

impl StreamPosition {
    fn parse(text: &str) -> Option<Self> {
        let (number, digest) = text.split_once(' ')?;
        Some(Self {
            number: number.parse().ok()?,
            digest: digest.to_owned(),
        })
    }

    fn text(&self) -> String {
        format!("{} {}", self.number, self.digest)
    }
}

/// The records after a position.
struct Tail {
    after: StreamPosition,
    /// The number of the first record in the current file.
    first: u64,
    lines: BufReader<File>,
    /// A line that was read but not sent yet.
    next: Option<NumberedLine>,
}

/// A line with the number of its record.
type NumberedLine = (u64, Vec<u8>);

impl Sender {
    /// Sends everything that is on the disk. A failure is reported, and the next round tries again.
    fn send(&mut self) {
        loop {
            match self.send_some() {
                Ok(true) => {}
                Ok(false) => return,
                Err(failure) => {
                    self.tail = None;
                    if let Some(failure) = failure {
                        self.store.report_fault(Purpose::Audit, Some(&failure));
                    }
                    return;
                }
            }
        }
    }

    /// Sends one batch, and returns `true` if there may be more. The store reports its own
    /// failures.
    fn send_some(&mut self) -> Result<bool, Option<StoreFailure>> {
        // The writer reports a missing folder.
        let Ok(Some(head)) = Head::read(&self.folder) else {
            return Ok(false);
        };
        let last = match &self.last {
            Some(last) => last.clone(),
            None => self.read_position()?,
        };
        if last.number >= head.number {
            if last.number > head.number {
                let message = format!(
                    "the store has record {} of this gateway, but the folder ends with {}: the \
                     folder is an older copy, or another gateway uses a copy of it",
                    last.number, head.number
                );
                self.last = None;
                return Err(Some(StoreFailure::new(StoreFault::Foreign, message)));
            }
            self.store.report_fault(Purpose::Audit, None);
            // The position is read again each time: a store that was rolled back or emptied gets
            // the missing records.
            self.last = None;
            return Ok(false);
        }
        let (records, end) = self.records(&last, head.number).map_err(Some)?;
        let (Some(end), Some((first, _))) = (end, records.first()) else {
            return Ok(false);
        };
        let first = *first;
        let (expected, next) = (last.text(), end.text());
        let start = StreamPosition {
            number: 0,
            digest: GENESIS_DIGEST.to_owned(),
        }
        .text();
        let mut values: Vec<&[u8]> = vec![
            self.gateway.as_bytes(),
            start.as_bytes(),
            expected.as_bytes(),
            next.as_bytes(),
        ];
        values.extend(records.iter().map(|(_, line)| line.as_slice()));
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        // Without a reply the position is unknown.
        self.last = None;
        let answer = self
            .store
            .run_script(Purpose::Audit, APPEND_RECORDS, &keys, &values)
            .map_err(|_| None)?;
        match answer.text() {
            Some(text) if text == next => {
                if first > last.number + 1 {
                    let (from, to) = (last.number + 1, first - 1);
                    tracing::error!(
                        target: "picktools::audit", from, to,
                        "records are missing in the store, and the folder no longer has them"
                    );
                }
                self.remember(end);
                Ok(true)
            }
            // The store has another position than expected; read it again.
            _ => Ok(true),
        }
    }

    fn remember(&mut self, last: StreamPosition) {
        self.sent.store(last.number, Ordering::Relaxed);
        self.last = Some(last);
    }

    /// Reads the position of this gateway from the store.
    fn read_position(&mut self) -> Result<StreamPosition, Option<StoreFailure>> {
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        let answer = self
            .store
            .run_script(
                Purpose::Audit,
                READ_POSITION,
                &keys,
                &[self.gateway.as_bytes()],
            )
            .map_err(|_| None)?;
        let last = match &answer {
            StoreReply::Nothing => Some(StreamPosition {
                number: 0,
                digest: GENESIS_DIGEST.to_owned(),
            }),
            answer => answer.text().and_then(StreamPosition::parse),
        };
        let invalid_position = || {
            StoreFailure::new(
                StoreFault::Foreign,
                format!("{} contains no position of an audit log", self.keys[1]),
            )
        };
        let last = last.ok_or_else(|| Some(invalid_position()))?;
        self.remember(last.clone());
        Ok(last)
    }

    /// Reads the next batch after a position, up to the head. Returns the position after the batch.
    fn records(
        &mut self,
        last: &StreamPosition,
        head: u64,
    ) -> Result<(Vec<NumberedLine>, Option<StreamPosition>), StoreFailure> {
        let mut tail = match self.tail.take() {
            Some(tail) if tail.after == *last => tail,
            _ => self.open(last)?,
        };
        let (mut records, mut bytes, mut end) = (Vec::new(), 0, None);
        while records.len() < MAX_RECORDS && bytes < MAX_BYTES {
            let next = match tail.next.take() {
                Some(next) => Some(next),
                None => self.next_line(&mut tail)?,
            };
            let Some((number, line)) = next else { break };
            if number > head {
                // The disk may not have this record yet.
                tail.next = Some((number, line));
                break;
            }
            bytes += line.len();
            end = Some(StreamPosition {
                number,
                digest: sha256(&line),
            });
            records.push((number, line));
        }
        tail.after = end.clone().unwrap_or(tail.after);
        self.tail = Some(tail);
        Ok((records, end))
    }

    /// Returns the next complete line, from the next file if the current one has ended.
    fn next_line(&self, tail: &mut Tail) -> Result<Option<NumberedLine>, StoreFailure> {
        loop {
            let mut line = Vec::new();
            let length = tail
                .lines
                .read_until(b'\n', &mut line)
                .map_err(|error| self.unreadable(&error))?;
            if line.last() == Some(&b'\n') {
                line.pop();
                let link: Link =
                    serde_json::from_slice(&line).map_err(|error| self.unreadable(&error))?;
                return Ok(Some((link.number, line)));
            }
            if length > 0 {
                // The line is still being written.
                let back = i64::try_from(length).unwrap_or(0);
                tail.lines
                    .seek_relative(-back)
                    .map_err(|error| self.unreadable(&error))?;
                return Ok(None);
            }
            let files = Files::list(&self.folder)
                .map_err(|error| self.unreadable(&error))?
                .audit;
            let Some((first, path)) = files.into_iter().find(|(first, _)| *first > tail.first)
            else {
                return Ok(None);
            };
            let file = File::open(path).map_err(|error| self.unreadable(&error))?;
            (tail.first, tail.lines) = (first, BufReader::new(file));
        }
    }

    /// Opens the files after a position. If the record at the position still exists, its digest
    /// must match.
    fn open(&self, last: &StreamPosition) -> Result<Tail, StoreFailure> {
        let files = Files::list(&self.folder)
            .map_err(|error| self.unreadable(&error))?
            .audit;
        let index = files
            .iter()
            .rposition(|(first, _)| *first <= last.number.max(1))
            .unwrap_or(0);
        let Some((first, path)) = files.get(index) else {
            return Err(self.unreadable(&"it contains no records"));
        };
        let file = File::open(path).map_err(|error| self.unreadable(&error))?;
        let mut tail = Tail {
            after: last.clone(),
            first: *first,
            lines: BufReader::new(file),
            next: None,
        };
        while let Some((number, line)) = self.next_line(&mut tail)? {
            if number == last.number && sha256(&line) != last.digest {
                let message = format!(
                    "record {number} of this gateway differs in the store: another gateway uses a \
                     copy of the folder; remove the file {GATEWAY:?} from one of them"
                );
                return Err(StoreFailure::new(StoreFault::Foreign, message));
            }
            if number > last.number {
                tail.next = Some((number, line));
                break;
            }
        }
        Ok(tail)
    }

    fn unreadable(&self, error: &dyn std::fmt::Display) -> StoreFailure {
        StoreFailure::new(
            StoreFault::Refused,
            format!(
                "cannot read the audit log in {}: {error}",
                self.folder.display()
            ),
        )
    }
}
