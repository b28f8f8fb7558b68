//! Embedding vectors kept on disk, so that no text is embedded twice.
//!
//! # What
//!
//! A [`VectorCache`] maps (model identity, [`Role`], text) to a vector. Opening one reads every
//! vector the model has on disk into memory; [`VectorCache::get`] then never touches the disk, and
//! [`VectorCache::insert_all`] adds a batch to both.
//!
//! On disk a model has one folder, named by a digest of (format version, dimensions, model
//! identity). In it lie *segments*: files that are written beside their final place, renamed into
//! it, and never changed. A segment is
//!
//! ```text
//! magic          8 bytes   "picktvec"
//! version        u32       all integers and floats are little-endian
//! dimensions     u32
//! count          u32
//! keys           count × 32 bytes, ascending: SHA-256(role ‖ 0x00 ‖ text)
//! vectors        count × dimensions × f32, in the order of the keys
//! digest         SHA-256 of all of the above
//! ```
//!
//! and is called `<generation, 16 hex digits>-<digest, 64 hex digits>.vec`. A new segment's
//! generation is one above the highest its writer knows. Where segments disagree about a key, the
//! higher generation wins.
//!
//! # Why so
//!
//! *No locks.* Segments never change and their names say what they hold, so two processes can only
//! add different files, or the same file twice. Merging keeps their number bounded: a writer that
//! finds sixteen writes the smaller ones into one and removes those. It removes a segment only once
//! all its keys stand in a segment of a higher generation. No two writers can therefore each remove
//! the other's copy, and a reader that meets a removed file finds its content by listing again. The
//! larger segments stay as they are, so a few new queries do not rewrite a whole catalog. Two
//! processes that miss the same text at the same moment both embed it: the price of having no lock.
//!
//! *Self-healing.* A segment that is not exactly what its header, name and digest say is removed
//! (or, if that fails, ignored) and counted; its texts are simply missing, are embedded again, and
//! land in a new segment. A header is held against the file's length before it is believed.
//!
//! *Never in the way.* A cache that cannot be read or written is still a cache in memory. The fact
//! is not silent: [`VectorCache::status`] carries it, and what could not be saved is tried again
//! with the next batch.
//!
//! Deliberately absent: a limit on entries, and the removal of folders of models no longer used.
//!
//! # How to use
//!
//! The model identity must name everything a vector depends on beside role and text: model,
//! revision, digest of the weights, quantisation, prefixes, normalisation.
//!
//! ```text
//! let mut cache = VectorCache::open(root, embedder.identity(), embedder.dimensions());
//! let mut missing = texts.clone();
//! missing.retain(|text| cache.get(Role::Document, text).is_none());
//! let vectors = embedder.embed(&missing)?;
//! cache.insert_all(Role::Document, missing.iter().zip(vectors))?;
//! if let Some(error) = cache.status().write_error { /* tell the user */ }
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::disk::{Staged, TEMPORARY_EXTENSION};

/// Version of the segment layout; a change leaves older folders unread.
const FORMAT_VERSION: u32 = 1;
/// First bytes of every segment.
const MAGIC: &[u8; 8] = b"picktvec";
/// Bytes of magic, version, dimensions and count.
const HEADER_BYTES: usize = 20;
/// Bytes of a SHA-256 digest, as a key and as a segment's end.
const DIGEST_BYTES: usize = 32;
/// A writer that finds this many segments merges.
const MAX_SEGMENTS: usize = 16;
/// The largest segments, which a merge leaves alone.
const KEPT_BY_MERGE: usize = MAX_SEGMENTS / 2;
/// Listings after which a refresh stops waiting for two that agree.
const MAX_LISTINGS: usize = 16;
/// Age at which a temporary file's writer is taken to have died.
const STALE_AFTER: Duration = Duration::from_secs(60 * 60);

/// SHA-256 of (role ‖ 0x00 ‖ text).
type Key = [u8; DIGEST_BYTES];

/// What a text is to the model; some models embed the two differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A text that is searched.
    Document,
    /// A text that is searched for.
    Query,
}

impl Role {
    /// Names the role as it enters the key; never changes within a format version.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Query => "query",
        }
    }
}

/// Why a batch was refused; nothing of it was taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CacheError {
    /// A vector's length is not the model's.
    #[error("vector {entry} of the batch has {found} dimensions, the cache holds {expected}")]
    Dimensions {
        /// Position in the batch, from 0.
        entry: usize,
        /// The cache's dimensions.
        expected: usize,
        /// The vector's length.
        found: usize,
    },
    /// A vector holds a NaN or an infinity.
    #[error("vector {entry} of the batch has a value that is not finite")]
    NotFinite {
        /// Position in the batch, from 0.
        entry: usize,
    },
}

/// What a cache of embeddings holds and what went wrong around it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheStatus {
    /// Vectors held in memory.
    pub entries: usize,
    /// Of these, vectors that are not on disk because writing failed.
    pub unsaved: usize,
    /// Sound segments on disk, as last seen.
    pub segments: usize,
    /// Damaged segments met since opening; removed where possible, ignored otherwise.
    pub damaged_segments: usize,
    /// Why the folder or a segment could not be read, the last time that was tried.
    pub read_error: Option<String>,
    /// Why the folder or a segment could not be created or removed, the last time that was tried.
    pub write_error: Option<String>,
}

/// The cached vectors of one model.
///
/// Any number of handles, in any number of processes, may have the same model open. A handle sees
/// what others wrote when it is opened and with each [`insert_all`](Self::insert_all).
#[derive(Debug)]
pub(crate) struct VectorCache {
    folder: PathBuf,
    dimensions: usize,
    /// One row of `dimensions` values after the other.
    vectors: Vec<f32>,
    slots: HashMap<Key, Slot>,
    unsaved: BTreeSet<Key>,
    /// The keys of each sound segment, by file name.
    segments: BTreeMap<String, Vec<Key>>,
    /// Damaged segments that could not be removed.
    ignored: BTreeSet<String>,
    /// Highest generation met or given.
    generation: u64,
    /// What went wrong; the counts are filled in when asked for.
    trouble: CacheStatus,
}

/// Where a vector is held, and the generation it came with.
#[derive(Debug, Clone, Copy)]
struct Slot {
    row: usize,
    generation: u64,
}

impl VectorCache {
    /// Opens the cache of one model below `root`, creating its folder and reading what it holds.
    ///
    /// Never fails: a folder that cannot be created or read leaves a cache that works in memory,
    /// and [`status`](Self::status) says so.
    #[must_use]
    pub(crate) fn open(root: &Path, model_identity: &str, dimensions: usize) -> Self {
        let mut cache = Self {
            folder: root.join(folder_name(model_identity, dimensions)),
            dimensions,
            vectors: Vec::new(),
            slots: HashMap::new(),
            unsaved: BTreeSet::new(),
            segments: BTreeMap::new(),
            ignored: BTreeSet::new(),
            generation: 0,
            trouble: CacheStatus::default(),
        };
        if let Err(error) = fs::create_dir_all(&cache.folder) {
            cache.trouble.write_error = Some(cache.describe("create", &error));
        }
        cache.refresh();
        cache
    }

    /// Returns the vector of `text`, if it is held.
    ///
    /// # Complexity
    ///
    /// One SHA-256 over the text and one look-up; no disk access.
    #[must_use]
    pub(crate) fn get(&self, role: Role, text: &str) -> Option<&[f32]> {
        self.vector(&key(role, text))
    }

    /// Takes a batch of texts and their vectors into memory and writes what is new as one segment.
    ///
    /// A text that is already held gets the new vector. What the disk refuses stays in memory, is
    /// reported by [`status`](Self::status), and is written with the next batch.
    ///
    /// # Errors
    ///
    /// Refuses the whole batch, as [`CacheError`] says, when a vector is not one the model can have
    /// made. A failure to write is not an error here.
    ///
    /// # Complexity
    ///
    /// Lists the folder twice and writes one file, however large the batch; so make batches large.
    pub(crate) fn insert_all(
        &mut self,
        role: Role,
        entries: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<[f32]>)>,
    ) -> Result<(), CacheError> {
        let mut batch = Vec::new();
        for (entry, (text, vector)) in entries.into_iter().enumerate() {
            check(entry, vector.as_ref(), self.dimensions)?;
            batch.push((key(role, text.as_ref()), vector));
        }
        // What others wrote comes first: this batch is then the later one in memory as on disk.
        self.refresh();
        self.generation = self.generation.saturating_add(1);
        for (key, vector) in batch {
            let vector = vector.as_ref();
            if !self
                .vector(&key)
                .is_some_and(|held| same_bits(held, vector))
            {
                self.hold(key, vector, self.generation);
                self.unsaved.insert(key);
            }
        }
        if !self.unsaved.is_empty() {
            let saved = self.save();
            self.trouble.write_error = saved.err().map(|error| self.describe("write to", &error));
        }
        Ok(())
    }

    /// Reports what is held and what went wrong.
    #[must_use]
    pub(crate) fn status(&self) -> CacheStatus {
        CacheStatus {
            entries: self.slots.len(),
            unsaved: self.unsaved.len(),
            segments: self.segments.len(),
            ..self.trouble.clone()
        }
    }

    fn vector(&self, key: &Key) -> Option<&[f32]> {
        let slot = self.slots.get(key)?;
        Some(row(&self.vectors, slot.row, self.dimensions))
    }

    fn hold(&mut self, key: Key, vector: &[f32], generation: u64) {
        let row = self.slots.len();
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.generation = generation;
            let start = slot.row * self.dimensions;
            self.vectors[start..start + self.dimensions].copy_from_slice(vector);
        } else {
            self.slots.insert(key, Slot { row, generation });
            self.vectors.extend_from_slice(vector);
        }
    }

    /// Reads the segments that are new since the last time, oldest first.
    ///
    /// A merge in another process may remove a file before it is read, and a listing may miss both
    /// it and what replaced it; hence listing until two listings agree.
    fn refresh(&mut self) {
        self.trouble.read_error = None;
        let mut previous = None;
        for _ in 0..MAX_LISTINGS {
            let listing = match list_segments(&self.folder) {
                Ok(listing) => listing,
                Err(error) => {
                    self.trouble.read_error = Some(self.describe("list", &error));
                    return;
                }
            };
            if previous.as_ref() == Some(&listing) {
                return;
            }
            self.segments.retain(|name, _| listing.contains(name));
            self.ignored.retain(|name| listing.contains(name));
            for name in &listing {
                if !self.segments.contains_key(name) && !self.ignored.contains(name) {
                    self.read(name);
                }
            }
            previous = Some(listing);
        }
    }

    fn read(&mut self, name: &str) {
        let path = self.folder.join(name);
        match read_segment(&path, name, self.dimensions) {
            Ok(segment) => self.absorb(name, segment),
            // Merged away by another process.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidData | ErrorKind::UnexpectedEof
                ) =>
            {
                tracing::warn!(path = %path.display(), %error, "damaged embedding cache segment");
                self.trouble.damaged_segments += 1;
                if remove(&path).is_err() {
                    self.ignored.insert(name.to_owned());
                }
            }
            // Says nothing about the content; the file stays and is tried again.
            Err(error) => {
                self.trouble.read_error = Some(self.describe("read a segment in", &error));
            }
        }
    }

    fn absorb(&mut self, name: &str, segment: Segment) {
        let generation = segment.generation;
        self.generation = self.generation.max(generation);
        for (n, key) in segment.keys.iter().enumerate() {
            let held = self.slots.get(key);
            if held.is_none_or(|slot| slot.generation <= generation) {
                self.hold(*key, row(&segment.vectors, n, self.dimensions), generation);
            }
        }
        self.segments.insert(name.to_owned(), segment.keys);
    }

    /// Writes what is unsaved, and with it the segments that are due for merging; removes those.
    fn save(&mut self) -> io::Result<()> {
        let merged = self.segments_to_merge();
        let mut keys = self.unsaved.clone();
        keys.extend(merged.iter().flat_map(|name| &self.segments[name]));
        let written = self.write(&keys)?;
        self.unsaved.clear();
        self.ignored.remove(&written);
        self.segments
            .insert(written.clone(), keys.into_iter().collect());
        for name in merged.iter().filter(|name| **name != written) {
            remove(&self.folder.join(name))?;
            self.segments.remove(name);
        }
        if !merged.is_empty() {
            remove_stale_temporaries(&self.folder, &written)?;
        }
        Ok(())
    }

    /// All but the largest segments, once there are too many.
    fn segments_to_merge(&self) -> Vec<String> {
        if self.segments.len() < MAX_SEGMENTS {
            return Vec::new();
        }
        let mut names: Vec<String> = self.segments.keys().cloned().collect();
        names.sort_by_key(|name| Reverse(self.segments[name].len()));
        names.split_off(KEPT_BY_MERGE)
    }

    /// Writes the vectors of `keys` as one segment and returns its name.
    fn write(&self, keys: &BTreeSet<Key>) -> io::Result<String> {
        let mut bytes = header(self.dimensions, keys.len()).ok_or(ErrorKind::FileTooLarge)?;
        bytes.extend(keys.iter().flatten());
        for value in keys.iter().filter_map(|key| self.vector(key)).flatten() {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        let digest = Sha256::digest(&bytes);
        let name = segment_name(self.generation, &digest);
        fs::create_dir_all(&self.folder)?;
        let mut file = Staged::in_folder(&self.folder).map_err(|error| error.source)?;
        file.write_all(&bytes)?;
        file.write_all(&digest)?;
        // A merge removes what this file replaces, so this file must have reached the disk: it has
        // once it is placed.
        file.place(&name).map_err(|error| error.source)?;
        Ok(name)
    }

    fn describe(&self, action: &str, error: &io::Error) -> String {
        format!("cannot {action} {}: {error}", self.folder.display())
    }
}

/// A segment that was read and found sound.
struct Segment {
    generation: u64,
    keys: Vec<Key>,
    vectors: Vec<f32>,
}

/// Reads a segment and checks all that can be checked.
///
/// Damage is an error of kind `InvalidData` or `UnexpectedEof`.
fn read_segment(path: &Path, name: &str, dimensions: usize) -> io::Result<Segment> {
    // Asked before opening, since opening a named pipe would wait for its other end.
    sound(fs::metadata(path)?.is_file(), "not a regular file")?;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut start = [0; HEADER_BYTES];
    file.read_exact(&mut start)?;
    let [.., a, b, c, d] = start;
    let count = u32::from_le_bytes([a, b, c, d]) as usize;
    sound(
        header(dimensions, count).is_some_and(|header| header == start),
        "header",
    )?;
    // In 128 bits no product of two 32-bit numbers overflows.
    let entries = count as u128 * (DIGEST_BYTES as u128 + 4 * dimensions as u128);
    let expected = entries + (HEADER_BYTES + DIGEST_BYTES) as u128;
    sound(expected == u128::from(length), "length")?;

    let mut bytes = start.to_vec();
    file.take(length).read_to_end(&mut bytes)?;
    sound(bytes.len() as u64 == length, "length changed")?;
    let (content, end) = bytes.split_at(bytes.len() - DIGEST_BYTES);
    sound(Sha256::digest(content)[..] == *end, "digest")?;
    let generation = name
        .get(..16)
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .unwrap_or(0);
    sound(segment_name(generation, end) == name, "name")?;
    let (keys, values) = content[HEADER_BYTES..].split_at(count * DIGEST_BYTES);
    let vectors: Vec<f32> = values
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect();
    sound(
        vectors.iter().all(|value| value.is_finite()),
        "a value is not finite",
    )?;
    let keys = keys.as_chunks().0.to_vec();
    Ok(Segment {
        generation,
        keys,
        vectors,
    })
}

fn sound(holds: bool, otherwise: &'static str) -> io::Result<()> {
    if holds {
        Ok(())
    } else {
        Err(io::Error::new(ErrorKind::InvalidData, otherwise))
    }
}

/// The first bytes of a segment, unless a number does not fit.
fn header(dimensions: usize, count: usize) -> Option<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    for word in [
        FORMAT_VERSION,
        u32::try_from(dimensions).ok()?,
        u32::try_from(count).ok()?,
    ] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    Some(bytes)
}

fn segment_name(generation: u64, digest: &[u8]) -> String {
    format!("{generation:016x}-{}.vec", hex(digest))
}

/// Names of the segments in `folder`, oldest first; none where there is no folder.
fn list_segments(folder: &Path) -> io::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name().into_string();
        names.extend(name.ok().filter(|name| name.ends_with(".vec")));
    }
    Ok(names)
}

/// Removes what writers that died left behind.
///
/// The time is the file system's own, at which `written` was written.
fn remove_stale_temporaries(folder: &Path, written: &str) -> io::Result<()> {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    // A file that another process removes in the meantime is as good as removed here.
    let Ok(now) = modified(&folder.join(written)) else {
        return Ok(());
    };
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == TEMPORARY_EXTENSION)
            && let Ok(then) = modified(&path)
            && now.duration_since(then).is_ok_and(|age| age > STALE_AFTER)
        {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a file; one that is gone already is no failure.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Refuses a vector that the model cannot have made.
fn check(entry: usize, vector: &[f32], expected: usize) -> Result<(), CacheError> {
    let found = vector.len();
    if found != expected {
        return Err(CacheError::Dimensions {
            entry,
            expected,
            found,
        });
    }
    if !vector.iter().all(|value| value.is_finite()) {
        return Err(CacheError::NotFinite { entry });
    }
    Ok(())
}

fn key(role: Role, text: &str) -> Key {
    Sha256::digest([role.as_str(), "\0", text].concat()).into()
}

/// Dimensions take part, so that two lengths of one model's vectors are not each other's damage.
fn folder_name(model_identity: &str, dimensions: usize) -> String {
    let identity = format!("{FORMAT_VERSION}\0{dimensions}\0{model_identity}");
    hex(&Sha256::digest(identity)[..16])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn row(vectors: &[f32], n: usize, dimensions: usize) -> &[f32] {
    &vectors[n * dimensions..(n + 1) * dimensions]
}

fn same_bits(left: &[f32], right: &[f32]) -> bool {
    left.iter()
        .map(|value| value.to_bits())
        .eq(right.iter().map(|value| value.to_bits()))
}

#[cfg(test)]
mod tests;
