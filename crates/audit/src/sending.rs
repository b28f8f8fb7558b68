//! How the records of all gateways come to lie in one place: what is on the disk goes to a stream
//! of the store, in order and each once.
//!
//! The folder stays what holds a record: nothing is sent that is not on the disk, and while the
//! store is away records stay there, also those of files that `keep` would remove. How far a
//! gateway's records were taken stands beside the stream, as the number and digest of the last, and
//! is changed in the same step: where an answer is lost, or the store comes back with an older
//! copy, it tells itself where to go on.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use picktools_state::keys::random;
use picktools_state::{Answer, Failure, Fault, Purpose, StateError, Store, lock, write_for_owner};

use crate::chain::{Files, GATEWAY, Head, Link, NOTHING, sha256};

/// How often is looked what there is to send.
const LOOK: Duration = Duration::from_millis(500);
/// The most records and bytes that are sent together.
const MAX_RECORDS: usize = 256;
const MAX_BYTES: usize = 512 << 10;
/// The digits of what a gateway is called in the stream.
const DIGITS: usize = 16;

/// Tells which record of a gateway is the last one. Where the stream is gone, all gateways begin
/// anew.
const LAST: &str = "\
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('DEL', KEYS[2]) end
return redis.call('HGET', KEYS[2], ARGV[1])";
/// Takes records where the last one before them is the one that is said. Tells which the last one
/// is then.
const TAKE: &str = "\
local last = redis.call('HGET', KEYS[2], ARGV[1]) or ARGV[2]
if last ~= ARGV[3] then return last end
for place = 5, #ARGV do redis.call('XADD', KEYS[1], '*', 'gateway', ARGV[1], 'record', ARGV[place]) end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
return ARGV[4]";

/// The sender of what a folder holds, until it is dropped.
pub struct Sending {
    ends: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    sent: Arc<AtomicU64>,
}

impl Sending {
    /// Begins to send what the audit of a folder holds.
    ///
    /// # Errors
    ///
    /// [`StateError`] when the folder is another tenant's, or cannot be read.
    pub fn begin(folder: &Path, store: Store) -> Result<Self, StateError> {
        let (ends, sent) = (
            Arc::new((Mutex::new(false), Condvar::new())),
            Arc::new(AtomicU64::new(0)),
        );
        let mut sender = Sender {
            gateway: name(folder, store.tenant())?,
            folder: folder.to_owned(),
            keys: [store.key("audit"), store.key("audit:sent")],
            store,
            last: None,
            tail: None,
            sent: Arc::clone(&sent),
        };
        let told = Arc::clone(&ends);
        let run = move || {
            loop {
                let has_ended = {
                    let (has_ended, wakes) = &*told;
                    let waited =
                        wakes.wait_timeout_while(lock(has_ended), LOOK, |has_ended| !*has_ended);
                    waited.map_or(true, |(has_ended, _)| *has_ended)
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
        let thread = thread
            .map_err(|error| StateError::new(folder, format!("nothing can send it: {error}")))?;
        Ok(Self {
            ends,
            thread: Some(thread),
            sent,
        })
    }

    /// Returns the number of the last record that the store has, as it grows.
    pub fn sent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }

    /// Sends what there is, and ends. It blocks.
    pub fn end(mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }

    fn stop(&self) {
        *lock(&self.ends.0) = true;
        self.ends.1.notify_all();
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the gateway of a folder is called in the stream: a random word, which stays with the
/// folder, as does whose records it holds.
fn name(folder: &Path, tenant: &str) -> Result<String, StateError> {
    let path = folder.join(GATEWAY);
    let failed =
        |error: &dyn std::fmt::Display| StateError::new(&path, format!("cannot be used: {error}"));
    let is_name =
        |name: &str| name.len() == DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    match std::fs::read_to_string(&path) {
        Ok(text) => match text.trim().split_once(' ') {
            Some((name, of)) if is_name(name) && of == tenant => Ok(name.to_owned()),
            Some((name, of)) if is_name(name) => Err(failed(&format!(
                "the records are those of the tenant {of:?}; give each tenant a folder of its own"
            ))),
            _ => Err(failed(&"it holds no name; put back a copy")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut name = random().map_err(|error| failed(&error))?;
            name.truncate(DIGITS);
            write_for_owner(&path, format!("{name} {tenant}").as_bytes())
                .map_err(|error| failed(&error))?;
            Ok(name)
        }
        Err(error) => Err(failed(&error)),
    }
}

struct Sender {
    store: Store,
    folder: PathBuf,
    gateway: String,
    /// The stream, and how far each gateway's records were taken.
    keys: [String; 2],
    /// The last record that the store has; `None` where that is not known.
    last: Option<Last>,
    tail: Option<Tail>,
    sent: Arc<AtomicU64>,
}

/// A record that the store has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Last {
    number: u64,
    digest: String,
}

impl Last {
    fn read(text: &str) -> Option<Self> {
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

/// The records after one.
struct Tail {
    after: Last,
    /// The first record of the file that is read.
    first: u64,
    lines: BufReader<File>,
    /// What comes next, where it was read already.
    next: Option<Numbered>,
}

/// A line, with the number of its record.
type Numbered = (u64, Vec<u8>);

impl Sender {
    /// Sends all that is on the disk. What fails is told, and tried again later.
    fn send(&mut self) {
        loop {
            match self.send_some() {
                Ok(true) => {}
                Ok(false) => return,
                Err(failure) => {
                    self.tail = None;
                    if let Some(failure) = failure {
                        self.store.note(Purpose::Audit, Some(&failure));
                    }
                    return;
                }
            }
        }
    }

    /// Sends a number of records, and tells whether there may be more. The store itself tells of
    /// its own failures.
    fn send_some(&mut self) -> Result<bool, Option<Failure>> {
        // A folder that is not there now is told of by what writes it.
        let Ok(Some(head)) = Head::read(&self.folder) else {
            return Ok(false);
        };
        let last = match &self.last {
            Some(last) => last.clone(),
            None => self.learn()?,
        };
        if last.number >= head.number {
            if last.number > head.number {
                let message = format!(
                    "it has the record {} of this gateway, and the folder ends with {}: the folder is an older copy, or another gateway \
                     uses a copy of it",
                    last.number, head.number
                );
                self.last = None;
                return Err(Some(Failure::new(Fault::Foreign, message)));
            }
            self.store.note(Purpose::Audit, None);
            // It is asked each time: where it came back with an older copy, or empty, it gets what
            // it lacks.
            self.last = None;
            return Ok(false);
        }
        let (records, end) = self.records(&last, head.number).map_err(Some)?;
        let (Some(end), Some((first, _))) = (end, records.first()) else {
            return Ok(false);
        };
        let first = *first;
        let (expected, next) = (last.text(), end.text());
        let none = Last {
            number: 0,
            digest: NOTHING.to_owned(),
        }
        .text();
        let mut values: Vec<&[u8]> = vec![
            self.gateway.as_bytes(),
            none.as_bytes(),
            expected.as_bytes(),
            next.as_bytes(),
        ];
        values.extend(records.iter().map(|(_, line)| line.as_slice()));
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        // What comes after an answer that is lost is not known.
        self.last = None;
        let answer = self
            .store
            .run(Purpose::Audit, TAKE, &keys, &values)
            .map_err(|_| None)?;
        match answer.text() {
            Some(text) if text == next => {
                if first > last.number + 1 {
                    let (from, to) = (last.number + 1, first - 1);
                    tracing::error!(target: "picktools::audit", from, to, "the store lacks records that the folder no longer has");
                }
                self.note(end);
                Ok(true)
            }
            // It has other records than was thought: what it says is looked at anew.
            _ => Ok(true),
        }
    }

    fn note(&mut self, last: Last) {
        self.sent.store(last.number, Ordering::Relaxed);
        self.last = Some(last);
    }

    /// Asks which record of this gateway the store has last.
    fn learn(&mut self) -> Result<Last, Option<Failure>> {
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        let answer = self
            .store
            .run(Purpose::Audit, LAST, &keys, &[self.gateway.as_bytes()])
            .map_err(|_| None)?;
        let last = match &answer {
            Answer::Nothing => Some(Last {
                number: 0,
                digest: NOTHING.to_owned(),
            }),
            answer => answer.text().and_then(Last::read),
        };
        let foreign = || {
            Failure::new(
                Fault::Foreign,
                format!("{} holds no place of an audit", self.keys[1]),
            )
        };
        let last = last.ok_or_else(|| Some(foreign()))?;
        self.note(last.clone());
        Ok(last)
    }

    /// The records after one, up to that of the head, and the last of them.
    fn records(
        &mut self,
        last: &Last,
        head: u64,
    ) -> Result<(Vec<Numbered>, Option<Last>), Failure> {
        let mut tail = match self.tail.take() {
            Some(tail) if tail.after == *last => tail,
            _ => self.open(last)?,
        };
        let (mut records, mut bytes, mut end) = (Vec::new(), 0, None);
        while records.len() < MAX_RECORDS && bytes < MAX_BYTES {
            let next = match tail.next.take() {
                Some(next) => Some(next),
                None => self.read(&mut tail)?,
            };
            let Some((number, line)) = next else { break };
            if number > head {
                // The disk may not have it yet.
                tail.next = Some((number, line));
                break;
            }
            bytes += line.len();
            end = Some(Last {
                number,
                digest: sha256(&line),
            });
            records.push((number, line));
        }
        tail.after = end.clone().unwrap_or(tail.after);
        self.tail = Some(tail);
        Ok((records, end))
    }

    /// The next whole line, of the next file where one has ended.
    fn read(&self, tail: &mut Tail) -> Result<Option<Numbered>, Failure> {
        loop {
            let mut line = Vec::new();
            let read = tail
                .lines
                .read_until(b'\n', &mut line)
                .map_err(|error| self.unreadable(&error))?;
            if line.last() == Some(&b'\n') {
                line.pop();
                let link: Link =
                    serde_json::from_slice(&line).map_err(|error| self.unreadable(&error))?;
                return Ok(Some((link.number, line)));
            }
            if read > 0 {
                // It is being written.
                let back = i64::try_from(read).unwrap_or(0);
                tail.lines
                    .seek_relative(-back)
                    .map_err(|error| self.unreadable(&error))?;
                return Ok(None);
            }
            let files = Files::of(&self.folder)
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

    /// Finds the record after one. Where that one is still there, it must be the same.
    fn open(&self, last: &Last) -> Result<Tail, Failure> {
        let files = Files::of(&self.folder)
            .map_err(|error| self.unreadable(&error))?
            .audit;
        let at = files
            .iter()
            .rposition(|(first, _)| *first <= last.number.max(1))
            .unwrap_or(0);
        let Some((first, path)) = files.get(at) else {
            return Err(self.unreadable(&"it holds no records"));
        };
        let file = File::open(path).map_err(|error| self.unreadable(&error))?;
        let mut tail = Tail {
            after: last.clone(),
            first: *first,
            lines: BufReader::new(file),
            next: None,
        };
        while let Some((number, line)) = self.read(&mut tail)? {
            if number == last.number && sha256(&line) != last.digest {
                let message = format!(
                    "the record {number} of this gateway that it has is another one: a copy of the folder is used by another gateway; \
                     remove the file {GATEWAY:?} from one of them"
                );
                return Err(Failure::new(Fault::Foreign, message));
            }
            if number > last.number {
                tail.next = Some((number, line));
                break;
            }
        }
        Ok(tail)
    }

    fn unreadable(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::new(
            Fault::Refused,
            format!(
                "the audit in {} cannot be read to be sent: {error}",
                self.folder.display()
            ),
        )
    }
}
