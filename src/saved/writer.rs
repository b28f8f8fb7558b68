//! Writing an index: sections one after the other, then what they are.

use std::fs::{self, File, TryLockError};
use std::hash::Hasher;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use twox_hash::XxHash3_64;

use super::{
    FILE_NAME, FORMAT_VERSION, Header, LOCK_NAME, MAGIC, MAX_HEADER, Number, SavedError,
    SavedModel, Section, checksum_text, index_path,
};
use crate::disk::{DiskError, Staged};

/// How many numbers are turned around together, where this processor puts the high byte first.
const SWAPPED: usize = 4096;

/// An index that is being written. It takes its place when it is [finished](Self::finish), and no
/// other process writes one into the same folder until then.
pub(crate) struct Writer {
    path: PathBuf,
    file: BufWriter<Staged>,
    at: u64,
    sections: Vec<Section>,
    /// Held until this is dropped.
    _lock: File,
}

impl Writer {
    /// Makes the folder where it is not there, locks it, and begins a file.
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
        let file = BufWriter::with_capacity(1 << 20, Staged::alone(folder, FILE_NAME)?);
        let mut writer = Self {
            path,
            file,
            at: 0,
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
            values.chunks(SWAPPED).map(|chunk| {
                let swapped: Vec<T> = chunk.iter().map(|value| value.little_endian()).collect();
                bytemuck::cast_slice::<T, u8>(&swapped).to_vec()
            }),
        )
    }

    /// Writes what serialises.
    pub(crate) fn json(&mut self, name: &str, value: &impl Serialize) -> Result<(), SavedError> {
        let text = serde_json::to_vec(value).map_err(|error| self.failed(error.into()))?;
        self.bytes(name, &text)
    }

    /// Writes bytes.
    pub(crate) fn bytes(&mut self, name: &str, bytes: &[u8]) -> Result<(), SavedError> {
        self.streamed(name, std::iter::once(bytes))
    }

    /// Writes bytes that come in pieces.
    pub(crate) fn streamed<B: AsRef<[u8]>>(
        &mut self,
        name: &str,
        pieces: impl IntoIterator<Item = B>,
    ) -> Result<(), SavedError> {
        let (before, mut checksum) = (self.at, XxHash3_64::new());
        for piece in pieces {
            checksum.write(piece.as_ref());
            self.put(piece.as_ref())?;
        }
        let (name, checksum) = (name.to_owned(), checksum_text(checksum.finish()));
        self.sections.push(Section {
            name,
            bytes: self.at - before,
            checksum,
        });
        Ok(())
    }

    /// Writes what the sections are, and puts the file in its place.
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
            return Err(SavedError::TooLarge { what: "its note" });
        }
        let (at, length) = (self.at, header.len() as u64);
        self.put(&header)?;
        for number in [at, length, header_checksum(&start(), &header)] {
            self.put(&number.to_le_bytes())?;
        }
        let staged = self.file.into_inner().map_err(|error| {
            let source = error.into_error();
            SavedError::Write(DiskError {
                path: self.path.clone(),
                source,
            })
        })?;
        Ok(staged.place(FILE_NAME)?)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), SavedError> {
        self.at += bytes.len() as u64;
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

/// What stands before the sections.
fn start() -> Vec<u8> {
    [&MAGIC[..], &FORMAT_VERSION.to_le_bytes(), &[0; 4]].concat()
}

/// The checksum of what stands before and behind the sections.
pub(super) fn header_checksum(start: &[u8], header: &[u8]) -> u64 {
    let mut checksum = XxHash3_64::new();
    checksum.write(start);
    checksum.write(header);
    checksum.finish()
}
