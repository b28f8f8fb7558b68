//! The file format of saved indexes, with checks against damage.
//!
//! A saved index is one file, `picktools.index`, in a folder of its own, so replacing it is one
//! rename. A reader sees the old index or the new one. A reader that has opened the old one can
//! continue to use it. `docs/reference/index-format.md` describes the file.
//!
//! The file has *sections*: arrays of numbers, texts and JSON, each with a name, a length and a
//! checksum. The module that writes and reads a section knows its meaning and checks its values.
//! Sections are read into memory, not mapped. So checked values cannot change afterwards, a
//! truncated file cannot crash the process, and no unsafe code is needed. Copying costs a tenth of
//! the checks. Tool definitions take most of the file. They are read on first use and are then
//! checked against the tool's SHA-256.
//!
//! Checksums detect damage, not intent: a process that can write the file can change the tools.
//! Reading any file returns an error, never panics.

mod codec;
mod error;
mod file;
pub mod texts;
mod writer;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use codec::DamagedBytes;
pub(crate) use codec::{ByteReader, Number, put_length, put_number, put_numbers, seal};
pub use error::SavedError;
pub(crate) use file::SavedFile;
pub use texts::{MIN_PARALLEL, TextTable, count_smaller, fnv1a};
pub(crate) use writer::Writer;

/// The first bytes of a saved index.
const MAGIC: &[u8; 16] = b"picktools index\n";
/// The version of the file format and of text analysis. It is raised whenever an existing index
/// would give other answers than a newly built one.
pub(crate) const FORMAT_VERSION: u32 = 2;
/// The name of the file within its folder.
const FILE_NAME: &str = "picktools.index";
/// The name of the file that a writer locks.
const LOCK_NAME: &str = "lock";
/// The length of the start of the file: [`MAGIC`], the version and four zero bytes.
const START: usize = 24;
/// The length of the trailer after the header: the header's position, length and checksum.
const TRAILER: usize = 24;
/// The longest header, in bytes.
const MAX_HEADER: u64 = 16 << 20;

/// The header of a saved index.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// The version of the program that wrote it, for messages.
    pub(crate) program: String,
    /// Digest of the catalog.
    pub(crate) catalog: String,
    pub(crate) tools: usize,
    /// The models whose vectors the index has, in the order of the engine.
    pub(crate) models: Vec<SavedModel>,
    /// Data of the application that saved the index.
    pub(crate) note: serde_json::Value,
    /// In the order of the file.
    sections: Vec<Section>,
}

/// A model whose vectors a saved index has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SavedModel {
    /// The model's identity.
    pub identity: String,
    /// Dimensions of its vectors.
    pub dimensions: usize,
}

/// A section of the file. It begins at the end of the previous section.
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

/// Returns the path of the index in a folder.
pub(crate) fn index_path(folder: &Path) -> PathBuf {
    folder.join(FILE_NAME)
}
