//! The writer of a saved index: first the sections, then the header that describes them.

use std::fs::{self, File, TryLockError};
use std::hash::Hasher;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use twox_hash::XxHash3_64;

use super::codec::put_numbers;
use super::{
    FILE_NAME, FORMAT_VERSION, Header, LOCK_NAME, MAGIC, MAX_HEADER, Number, SavedError,
    SavedModel, Section, checksum_text, index_path,
};
use crate::disk::{DiskError, StagedFile};

/// The number of values that a big-endian processor converts at once.
const CONVERTED_AT_ONCE: usize = 4096;

/// An index that is being written. [`finish`](Self::finish) moves it to its place. Until then no
/// other process can write an index into the same folder.
pub(crate) struct Writer {
    path: PathBuf,
    file: BufWriter<StagedFile>,
    /// The number of bytes written so far.
    position: u64,
    sections: Vec<Section>,
    /// The lock of the folder, until the writer is dropped.
    _lock: File,
}

impl Writer {
    /// Creates the folder if it does not exist, locks it, and begins a file.
    pub(crate) fn begin(folder: &Path) -> Result<Self, SavedError> {
        let path = index_path(folder);
        let failed = |source| {
            SavedError::Write(DiskError {
                path: folder.to_owned(),
                source,
            })
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(folder.join(LOCK_NAME));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SavedError::Locked { path }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let file =
            BufWriter::with_capacity(1 << 20, StagedFile::create_exclusive(folder, FILE_NAME)?);
        let mut writer = Self {
            path,
            file,
            position: 0,
            sections: Vec::new(),
            _lock: lock,
        };
        writer.put(&start())?;
        Ok(writer)
    }

    /// Writes an array of numbers.
    pub(crate) fn numbers<T: Number>(
        &mut self,
        name: &str,
        values: &[T],
    ) -> Result<(), SavedError> {
        if cfg!(target_endian = "little") {
            return self.bytes(name, bytemuck::cast_slice(values));
        }
        self.streamed(
            name,
            values.chunks(CONVERTED_AT_ONCE).map(|chunk| {
                let mut bytes = Vec::with_capacity(size_of_val(chunk));
                put_numbers(&mut bytes, chunk);
                bytes
            }),
        )
    }

    /// Writes a value as JSON.
    pub(crate) fn json(&mut self, name: &str, value: &impl Serialize) -> Result<(), SavedError> {
        let text = serde_json::to_vec(value).map_err(|error| self.failed(error.into()))?;
        self.bytes(name, &text)
    }

    /// Writes bytes.
    pub(crate) fn bytes(&mut self, name: &str, bytes: &[u8]) -> Result<(), SavedError> {
        self.streamed(name, std::iter::once(bytes))
    }

    /// Writes bytes that come in several pieces.
    pub(crate) fn streamed<B: AsRef<[u8]>>(
        &mut self,
        name: &str,
        pieces: impl IntoIterator<Item = B>,
    ) -> Result<(), SavedError> {
        let (section_start, mut checksum) = (self.position, XxHash3_64::new());
        for piece in pieces {
            checksum.write(piece.as_ref());
            self.put(piece.as_ref())?;
        }
        let (name, checksum) = (name.to_owned(), checksum_text(checksum.finish()));
        self.sections.push(Section {
            name,
            bytes: self.position - section_start,
            checksum,
        });
        Ok(())
    }

    /// Writes the header, and moves the file to its place.
    pub(crate) fn finish(
        mut self,
        catalog: &str,
        tools: usize,
        models: Vec<SavedModel>,
        note: serde_json::Value,
    ) -> Result<(), SavedError> {
        let sections = std::mem::take(&mut self.sections);
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let header = Header {
            program,
            catalog: catalog.to_owned(),
            tools,
            models,
            note,
            sections,
        };
        let header = serde_json::to_vec(&header).map_err(|error| self.failed(error.into()))?;
        if header.len() as u64 > MAX_HEADER {
            return Err(SavedError::TooLarge { what: "the note" });
        }
        let (header_start, length) = (self.position, header.len() as u64);
        self.put(&header)?;
        for number in [header_start, length, header_checksum(&start(), &header)] {
            self.put(&number.to_le_bytes())?;
        }
        let staged = self.file.into_inner().map_err(|error| {
            let source = error.into_error();
            SavedError::Write(DiskError {
                path: self.path.clone(),
                source,
            })
        })?;
        Ok(staged.persist_as(FILE_NAME)?)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), SavedError> {
        self.position += bytes.len() as u64;
        self.file
            .write_all(bytes)
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> SavedError {
        SavedError::Write(DiskError {
            path: self.path.clone(),
            source,
        })
    }
}

/// Returns the bytes before the sections.
fn start() -> Vec<u8> {
    [&MAGIC[..], &FORMAT_VERSION.to_le_bytes(), &[0; 4]].concat()
}

/// Computes the checksum of the start of the file and the header.
pub(super) fn header_checksum(start: &[u8], header: &[u8]) -> u64 {
    let mut checksum = XxHash3_64::new();
    checksum.write(start);
    checksum.write(header);
    checksum.finish()
}
