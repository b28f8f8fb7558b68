//! How an index lies in a file, and whether that file is whole.
//!
//! A saved index is one file, `picktools.index` in a folder of its own, so that replacing it is one
//! rename: a reader sees the old index or the new one, and one that has opened the old one goes on
//! with it. `docs/index-format.md` describes the file.
//!
//! It holds *sections*: arrays of numbers, texts and JSON, each with a name, a length and a
//! checksum. What a section means, and whether its numbers make sense together, is the room's to
//! know that writes and reads it. Sections are read into memory and not mapped: what was checked
//! cannot change afterwards, a file that is cut short cannot end the process, and no unsafe code is
//! needed; copying costs a tenth of what checking does. Definitions of tools, which take most of
//! the file, stay in it until they are needed, and are then held to the tool's SHA-256.
//!
//! Checksums tell damage and not intent: who can write the file can write tools. But whatever
//! stands in it, reading gives an error and never a panic.

mod error;
mod file;
pub mod texts;
mod writer;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use error::SavedError;
pub(crate) use file::SavedFile;
pub use texts::{FEW, Texts, fnv1a, smaller};
pub(crate) use writer::Writer;

/// What a saved index begins with.
const MAGIC: &[u8; 16] = b"picktools index\n";
/// The version of the format, and of how tools are read into words: raised whenever an index that
/// was saved before would answer otherwise than one that is built now.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// The name of the file within its folder.
const FILE_NAME: &str = "picktools.index";
/// The name of the file that a writer locks.
const LOCK_NAME: &str = "lock";
/// The length of what stands before the sections: [`MAGIC`], the version and four bytes of zero.
const START: usize = 24;
/// The length of what stands behind the header: its place, length and checksum.
const TRAILER: usize = 24;
/// The longest header that is read.
const MAX_HEADER: u64 = 16 << 20;

/// What a saved index says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// The version of the program that wrote it, for messages.
    pub(crate) program: String,
    /// Digest of the catalog.
    pub(crate) catalog: String,
    pub(crate) tools: usize,
    /// The models whose vectors it holds, in the order of the engine.
    pub(crate) models: Vec<SavedModel>,
    /// Whatever the writer wants to find again.
    pub(crate) note: serde_json::Value,
    /// In the order of the file.
    sections: Vec<Section>,
}

/// A model whose vectors a saved index holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SavedModel {
    /// The model's identity.
    pub identity: String,
    /// Dimensions of its vectors.
    pub dimensions: usize,
}

/// A run of bytes of the file. It begins where the one before ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    name: String,
    bytes: u64,
    /// XXH3 of 64 bits, as 16 hexadecimal digits.
    checksum: String,
}

fn checksum_text(checksum: u64) -> String {
    format!("{checksum:016x}")
}

/// Where the index of a folder is.
pub(crate) fn index_path(folder: &Path) -> PathBuf {
    folder.join(FILE_NAME)
}

/// Numbers that arrays consist of; in the file the low byte stands first.
pub(crate) trait Number: bytemuck::Pod {
    /// Swaps the bytes where this processor puts the high one first.
    fn little_endian(self) -> Self;
}

impl Number for u8 {
    fn little_endian(self) -> Self {
        self
    }
}

impl Number for i8 {
    fn little_endian(self) -> Self {
        self
    }
}

impl Number for [u8; 32] {
    fn little_endian(self) -> Self {
        self
    }
}

impl Number for u16 {
    fn little_endian(self) -> Self {
        self.to_le()
    }
}

impl Number for u32 {
    fn little_endian(self) -> Self {
        self.to_le()
    }
}

impl Number for u64 {
    fn little_endian(self) -> Self {
        self.to_le()
    }
}

impl Number for f32 {
    fn little_endian(self) -> Self {
        Self::from_bits(self.to_bits().to_le())
    }
}
