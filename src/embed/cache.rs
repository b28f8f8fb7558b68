//! A cache of embedding vectors on disk, so that no text is embedded twice.
//!
//! # Layout
//!
//! A [`VectorCache`] maps (model identity, [`TextRole`], text) to a vector. Opening a cache reads
//! all vectors of the model from disk into memory. [`VectorCache::get`] then never touches the
//! disk, and [`VectorCache::insert_all`] adds a batch to both.
//!
//! On disk a model has one folder, named by a digest of (format version, dimensions, model
//! identity). It contains *segments*: files that are written under a temporary name, renamed, and
//! never changed. A segment is
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
//! and is called `<generation, 16 hex digits>-<digest, 64 hex digits>.vec`. The generation of a new
//! segment is one above the highest generation that its writer knows. If segments disagree about a
//! key, the higher generation wins.
//!
//! # Design
//!
//! *No locks.* Segments never change and their names contain their digests, so two processes can
//! only add different files, or the same file twice. Merging bounds their number: a writer that
//! finds sixteen segments writes the smaller ones into one new segment and removes them. It removes
//! a segment only after all its keys are in a segment of a higher generation. So two writers can
//! never each remove the other's copy, and a reader that misses a removed file finds its content by
//! listing again. The larger segments stay, so a few new queries do not rewrite a catalog. Two
//! processes that miss the same text at the same time both embed it: the price of having no lock.
//!
//! *Self-healing.* A segment that does not match its header, name and digest is removed (or
//! ignored, if that fails) and counted. Its texts are then missing, are embedded again, and go into
//! a new segment. A header is compared with the file's length before it is used.
//!
//! *Failures are not fatal.* A cache that cannot be read or written still works in memory.
//! [`VectorCache::status`] reports the failure, and the next batch retries the write.
//!
//! Deliberately missing: a limit on entries, and the removal of folders of unused models.
//!
//! # Usage
//!
//! The model identity must contain everything that a vector depends on apart from role and text:
//! model, revision, digest of the weights, quantisation, prefixes, normalisation.
//!
//! ```text
//! let mut cache = VectorCache::open(root, embedder.identity(), embedder.dimensions());
//! let mut missing = texts.clone();
//! missing.retain(|text| cache.get(TextRole::Document, text).is_none());
//! let vectors = embedder.embed(&missing)?;
//! cache.insert_all(TextRole::Document, missing.iter().zip(vectors))?;
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

use crate::disk::{StagedFile, TEMPORARY_EXTENSION};

/// The version of the segment layout; after a change, older folders are not read.
const FORMAT_VERSION: u32 = 1;
/// The first bytes of every segment.
const MAGIC: &[u8; 8] = b"picktvec";
/// The length of magic, version, dimensions and count, in bytes.
const HEADER_BYTES: usize = 20;
/// The length of a SHA-256 digest, in bytes.
const DIGEST_BYTES: usize = 32;
/// The number of segments at which a writer merges.
const MAX_SEGMENTS: usize = 16;
/// The number of largest segments that a merge leaves alone.
const KEPT_BY_MERGE: usize = MAX_SEGMENTS / 2;
/// The number of listings after which a refresh stops waiting for two equal ones.
const MAX_LISTINGS: usize = 16;
/// The age after which a temporary file is considered abandoned by its writer.
const STALE_AFTER: Duration = Duration::from_secs(60 * 60);

/// The SHA-256 of (role ‖ 0x00 ‖ text).
type CacheKey = [u8; DIGEST_BYTES];

/// The role of a text; some models embed queries and documents differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextRole {
    /// A text that is searched.
    Document,
    /// A text that is searched for.
    Query,
}

impl TextRole {
    /// Returns the name of the role in the key; it never changes within a format version.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Query => "query",
        }
    }
}

/// An error that rejects a complete batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CacheError {
    /// A vector has another number of dimensions than the cache.
    #[error("vector {entry} of the batch has {actual} dimensions; expected {expected}")]
    Dimensions {
        /// The index in the batch, from 0.
        entry: usize,
        /// The number of dimensions of the cache.
        expected: usize,
        /// The number of dimensions of the vector.
        actual: usize,
    },
    /// A vector has a NaN or an infinite value.
    #[error("vector {entry} of the batch has a value that is not finite")]
    NotFinite {
        /// The index in the batch, from 0.
        entry: usize,
    },
}

/// The content of an embedding cache, and its failures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheStatus {
    /// The number of vectors in memory.
    pub entries: usize,
    /// The number of these vectors that are not on disk because a write failed.
    pub unsaved: usize,
    /// The number of intact segments in the last listing of the disk.
    pub segments: usize,
    /// The number of damaged segments found since opening; they were removed if possible, and are
    /// ignored otherwise.
    pub damaged_segments: usize,
    /// The error of the last read of the folder or a segment, if it failed.
    pub read_error: Option<String>,
    /// The error of the last creation or removal of the folder or a segment, if it failed.
    pub write_error: Option<String>,
}

/// The cached vectors of one model.
///
/// Any number of handles in any number of processes may open the cache of one model. A handle sees
/// the writes of others when it is opened and with each [`insert_all`](Self::insert_all).
#[derive(Debug)]
pub(crate) struct VectorCache {
    folder: PathBuf,
    dimensions: usize,
    /// Rows of `dimensions` values.
    vectors: Vec<f32>,
    entries: HashMap<CacheKey, CachedVector>,
    unsaved: BTreeSet<CacheKey>,
    /// The keys of each intact segment, by file name.
    segments: BTreeMap<String, Vec<CacheKey>>,
    /// Damaged segments that could not be removed.
    ignored: BTreeSet<String>,
    /// The highest generation that was read or written.
    generation: u64,
    /// The failures; [`status`](Self::status) adds the counts.
    failures: CacheStatus,
}

/// The row of a cached vector, and the generation of its segment.
#[derive(Debug, Clone, Copy)]
struct CachedVector {
    row: usize,
    generation: u64,
}

impl VectorCache {
    /// Opens the cache of one model below `root`: creates its folder and reads its vectors.
    ///
    /// Never fails: if the folder cannot be created or read, the cache works in memory, and
    /// [`status`](Self::status) reports the error.
    #[must_use]
    pub(crate) fn open(root: &Path, model_identity: &str, dimensions: usize) -> Self {
        let mut cache = Self {
            folder: root.join(folder_name(model_identity, dimensions)),
            dimensions,
            vectors: Vec::new(),
            entries: HashMap::new(),
            unsaved: BTreeSet::new(),
            segments: BTreeMap::new(),
            ignored: BTreeSet::new(),
            generation: 0,
            failures: CacheStatus::default(),
        };
        if let Err(error) = fs::create_dir_all(&cache.folder) {
            cache.failures.write_error = Some(cache.describe("create", &error));
        }
        cache.refresh();
        cache
    }

    /// Returns the vector of `text`, if it is cached.
    ///
    /// # Complexity
    ///
    /// One SHA-256 over the text and one look-up; no disk access.
    #[must_use]
    pub(crate) fn get(&self, role: TextRole, text: &str) -> Option<&[f32]> {
        self.vector(&key(role, text))
    }

    /// Inserts a batch of texts and vectors into memory, and writes the new ones as one segment.
    ///
    /// A cached text gets the new vector. A vector that cannot be written stays in memory, is
    /// reported by [`status`](Self::status), and is written with the next batch.
    ///
    /// # Errors
    ///
    /// [`CacheError`], which rejects the complete batch, if a vector cannot come from the model. A
    /// failed write is not an error here.
    ///
    /// # Complexity
    ///
    /// Lists the folder twice and writes one file for any size of batch; so large batches are
    /// cheaper.
    pub(crate) fn insert_all(
        &mut self,
        role: TextRole,
        entries: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<[f32]>)>,
    ) -> Result<(), CacheError> {
        let mut batch = Vec::new();
        for (entry, (text, vector)) in entries.into_iter().enumerate() {
            check(entry, vector.as_ref(), self.dimensions)?;
            batch.push((key(role, text.as_ref()), vector));
        }
        // The writes of others are read first, so that this batch is the later one in memory and on
        // disk.
        self.refresh();
        self.generation = self.generation.saturating_add(1);
        for (key, vector) in batch {
            let vector = vector.as_ref();
            if !self
                .vector(&key)
                .is_some_and(|cached| same_bits(cached, vector))
            {
                self.store(key, vector, self.generation);
                self.unsaved.insert(key);
            }
        }
        if !self.unsaved.is_empty() {
            let saved = self.save();
            self.failures.write_error = saved.err().map(|error| self.describe("write to", &error));
        }
        Ok(())
    }

    /// Returns the content of the cache and its failures.
    #[must_use]
    pub(crate) fn status(&self) -> CacheStatus {
        CacheStatus {
            entries: self.entries.len(),
            unsaved: self.unsaved.len(),
            segments: self.segments.len(),
            ..self.failures.clone()
        }
    }

    fn vector(&self, key: &CacheKey) -> Option<&[f32]> {
        let entry = self.entries.get(key)?;
        Some(row(&self.vectors, entry.row, self.dimensions))
    }

    fn store(&mut self, key: CacheKey, vector: &[f32], generation: u64) {
        let row = self.entries.len();
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.generation = generation;
            let start = entry.row * self.dimensions;
            self.vectors[start..start + self.dimensions].copy_from_slice(vector);
        } else {
            self.entries.insert(key, CachedVector { row, generation });
            self.vectors.extend_from_slice(vector);
        }
    }

    /// Reads the segments added since the last refresh, oldest first.
    ///
    /// A merge in another process may remove a file before it is read, and a listing may miss both
    /// the file and its replacement. So it lists until two listings agree.
    fn refresh(&mut self) {
        self.failures.read_error = None;
        let mut previous = None;
        for _ in 0..MAX_LISTINGS {
            let listing = match list_segments(&self.folder) {
                Ok(listing) => listing,
                Err(error) => {
                    self.failures.read_error = Some(self.describe("list", &error));
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
                    self.read_segment(name);
                }
            }
            previous = Some(listing);
        }
    }

    fn read_segment(&mut self, name: &str) {
        let path = self.folder.join(name);
        match read_segment(&path, name, self.dimensions) {
            Ok(segment) => self.add_segment(name, segment),
            // Another process merged the segment.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidData | ErrorKind::UnexpectedEof
                ) =>
            {
                tracing::warn!(path = %path.display(), %error, "damaged embedding cache segment");
                self.failures.damaged_segments += 1;
                if remove(&path).is_err() {
                    self.ignored.insert(name.to_owned());
                }
            }
            // The error says nothing about the content, so the file stays, and the next refresh
            // retries.
            Err(error) => {
                self.failures.read_error = Some(self.describe("read a segment in", &error));
            }
        }
    }

    fn add_segment(&mut self, name: &str, segment: CacheSegment) {
        let generation = segment.generation;
        self.generation = self.generation.max(generation);
        for (index, key) in segment.keys.iter().enumerate() {
            let cached = self.entries.get(key);
            if cached.is_none_or(|entry| entry.generation <= generation) {
                let vector = row(&segment.vectors, index, self.dimensions);
                self.store(*key, vector, generation);
            }
        }
        self.segments.insert(name.to_owned(), segment.keys);
    }

    /// Writes the unsaved vectors together with the segments to merge, and removes these segments.
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

    /// Returns all but the largest segments if there are too many, else none.
    fn segments_to_merge(&self) -> Vec<String> {
        if self.segments.len() < MAX_SEGMENTS {
            return Vec::new();
        }
        let mut names: Vec<String> = self.segments.keys().cloned().collect();
        names.sort_by_key(|name| Reverse(self.segments[name].len()));
        names.split_off(KEPT_BY_MERGE)
    }

    /// Writes the vectors of `keys` as one segment and returns its name.
    fn write(&self, keys: &BTreeSet<CacheKey>) -> io::Result<String> {
        let mut bytes = header(self.dimensions, keys.len()).ok_or(ErrorKind::FileTooLarge)?;
        bytes.extend(keys.iter().flatten());
        for value in keys.iter().filter_map(|key| self.vector(key)).flatten() {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        let digest = Sha256::digest(&bytes);
        let name = segment_name(self.generation, &digest);
        fs::create_dir_all(&self.folder)?;
        let mut file = StagedFile::in_folder(&self.folder).map_err(|error| error.source)?;
        file.write_all(&bytes)?;
        file.write_all(&digest)?;
        // A merge removes the files that this file replaces. So this file must be on disk first;
        // placing it ensures that.
        file.persist_as(&name).map_err(|error| error.source)?;
        Ok(name)
    }

    fn describe(&self, action: &str, error: &io::Error) -> String {
        format!("cannot {action} {}: {error}", self.folder.display())
    }
}

/// An intact segment.
struct CacheSegment {
    generation: u64,
    keys: Vec<CacheKey>,
    vectors: Vec<f32>,
}

/// Reads a segment and checks it completely.
///
/// Damage is an error of the kind `InvalidData` or `UnexpectedEof`.
fn read_segment(path: &Path, name: &str, dimensions: usize) -> io::Result<CacheSegment> {
    // The check comes before opening, because opening a named pipe would wait for its other end.
    ensure(fs::metadata(path)?.is_file(), "not a regular file")?;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut header_bytes = [0; HEADER_BYTES];
    file.read_exact(&mut header_bytes)?;
    let [.., a, b, c, d] = header_bytes;
    let count = u32::from_le_bytes([a, b, c, d]) as usize;
    ensure(
        header(dimensions, count).is_some_and(|header| header == header_bytes),
        "header",
    )?;
    // In 128 bits no product of two 32-bit numbers overflows.
    let entries = count as u128 * (DIGEST_BYTES as u128 + 4 * dimensions as u128);
    let expected = entries + (HEADER_BYTES + DIGEST_BYTES) as u128;
    ensure(expected == u128::from(length), "length")?;

    let mut bytes = header_bytes.to_vec();
    file.take(length).read_to_end(&mut bytes)?;
    ensure(bytes.len() as u64 == length, "length changed")?;
    let (content, digest) = bytes.split_at(bytes.len() - DIGEST_BYTES);
    ensure(Sha256::digest(content)[..] == *digest, "digest")?;
    let generation = name
        .get(..16)
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .unwrap_or(0);
    ensure(segment_name(generation, digest) == name, "name")?;
    let (keys, values) = content[HEADER_BYTES..].split_at(count * DIGEST_BYTES);
    let vectors: Vec<f32> = values
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect();
    ensure(
        vectors.iter().all(|value| value.is_finite()),
        "a value is not finite",
    )?;
    let keys = keys.as_chunks().0.to_vec();
    Ok(CacheSegment {
        generation,
        keys,
        vectors,
    })
}

fn ensure(condition: bool, fault: &'static str) -> io::Result<()> {
    if condition {
        Ok(())
    } else {
        Err(io::Error::new(ErrorKind::InvalidData, fault))
    }
}

/// Returns the header of a segment; `None` if a number exceeds its field.
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

/// Returns the names of the segments in `folder`, oldest first; none if the folder does not exist.
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

/// Removes the temporary files that dead writers left.
///
/// The current time is the modification time of `written`, by the file system's clock.
fn remove_stale_temporaries(folder: &Path, written: &str) -> io::Result<()> {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    // If another process removed the file, that process also removes the temporary files.
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

/// Removes a file; a missing file is not an error.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Rejects a vector that cannot come from the model.
fn check(entry: usize, vector: &[f32], expected: usize) -> Result<(), CacheError> {
    let actual = vector.len();
    if actual != expected {
        return Err(CacheError::Dimensions {
            entry,
            expected,
            actual,
        });
    }
    if !vector.iter().all(|value| value.is_finite()) {
        return Err(CacheError::NotFinite { entry });
    }
    Ok(())
}

fn key(role: TextRole, text: &str) -> CacheKey {
    Sha256::digest([role.as_str(), "\0", text].concat()).into()
}

/// Returns the name of a model's folder. The dimensions are part of it, so that vectors of two
/// lengths do not count as damage of each other.
fn folder_name(model_identity: &str, dimensions: usize) -> String {
    let identity = format!("{FORMAT_VERSION}\0{dimensions}\0{model_identity}");
    hex(&Sha256::digest(identity)[..16])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn row(vectors: &[f32], index: usize, dimensions: usize) -> &[f32] {
    &vectors[index * dimensions..(index + 1) * dimensions]
}

fn same_bits(left: &[f32], right: &[f32]) -> bool {
    left.iter()
        .map(|value| value.to_bits())
        .eq(right.iter().map(|value| value.to_bits()))
}

#[cfg(test)]
mod tests;
