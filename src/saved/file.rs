//! The reader of a saved index. It uses no value from the file before it has checked it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::codec::{ByteReader, checksum};
use super::writer::header_checksum;
use super::{
    FORMAT_VERSION, Header, MAGIC, MAX_HEADER, Number, START, SavedError, TRAILER, checksum_text,
    index_path,
};
#[cfg(not(unix))]
use crate::sync::lock;

/// An open index. Each section is read and checked on request.
#[derive(Debug)]
pub(crate) struct SavedFile {
    path: PathBuf,
    file: File,
    /// Serialises reads on systems on which a read moves the file position.
    #[cfg(not(unix))]
    reading: std::sync::Mutex<()>,
    pub(crate) header: Header,
    /// By section name: the number of the section in the header, and its byte range.
    ranges: HashMap<String, (usize, Range<u64>)>,
}

impl SavedFile {
    /// Opens the index of a folder, and checks that all its sections are present.
    pub(crate) fn open(folder: &Path) -> Result<Self, SavedError> {
        let path = index_path(folder);
        let mut file = File::open(&path).map_err(|source| match source.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                SavedError::Missing { path: path.clone() }
            }
            _ => SavedError::Read {
                path: path.clone(),
                source,
            },
        })?;
        let unreadable = |source| SavedError::Read {
            path: path.clone(),
            source,
        };
        let damaged = |reason: &str| SavedError::Damaged {
            path: path.clone(),
            reason: reason.to_owned(),
        };
        let length = file.metadata().map_err(unreadable)?.len();
        let mut start = Vec::with_capacity(START);
        file.by_ref()
            .take(START as u64)
            .read_to_end(&mut start)
            .map_err(unreadable)?;
        let Some(version) = start
            .strip_prefix(MAGIC)
            .and_then(|rest| rest.first_chunk::<4>())
        else {
            return Err(SavedError::Foreign { path });
        };
        let version = u32::from_le_bytes(*version);
        if version != FORMAT_VERSION {
            return Err(SavedError::Version {
                path,
                found: version,
            });
        }
        let wrong_length = || damaged("the file is truncated, or has extra bytes");
        let trailer_start = match length.checked_sub(TRAILER as u64) {
            Some(start) if start >= START as u64 => start,
            _ => return Err(wrong_length()),
        };
        let trailer = read_at(&mut file, trailer_start, TRAILER).map_err(unreadable)?;
        let numbers = ByteReader::new(&trailer).numbers::<u64>(TRAILER / size_of::<u64>());
        let Ok(&[header_start, bytes, checksum]) = numbers.as_deref() else {
            return Err(wrong_length());
        };
        if header_start < START as u64
            || bytes > MAX_HEADER
            || header_start.checked_add(bytes) != Some(trailer_start)
        {
            return Err(wrong_length());
        }
        let header_bytes = usize::try_from(bytes).unwrap_or_default();
        let text = read_at(&mut file, header_start, header_bytes).map_err(unreadable)?;
        if header_checksum(&start, &text) != checksum {
            return Err(damaged("wrong checksum of the header"));
        }
        let header: Header = serde_json::from_slice(&text)
            .map_err(|error| damaged(&format!("invalid header: {error}")))?;
        let (mut ranges, mut next) = (HashMap::new(), START as u64);
        for (number, section) in header.sections.iter().enumerate() {
            let end = match next.checked_add(section.bytes) {
                Some(end) if end <= header_start => end,
                _ => return Err(damaged("a section is longer than the file")),
            };
            if ranges
                .insert(section.name.clone(), (number, next..end))
                .is_some()
            {
                return Err(damaged("duplicate section"));
            }
            next = end;
        }
        if next != header_start {
            return Err(damaged("the sections do not end at the header"));
        }
        Ok(Self {
            path,
            file,
            #[cfg(not(unix))]
            reading: std::sync::Mutex::default(),
            header,
            ranges,
        })
    }

    /// Returns `true` if there is a section of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.ranges.contains_key(name)
    }

    /// Reads an array of numbers.
    pub(crate) fn numbers<T: Number>(&self, name: &str) -> Result<Vec<T>, SavedError> {
        let (section, range) = self.section_range(name)?;
        let bytes = usize::try_from(range.end - range.start).map_err(|_| self.invalid(name))?;
        if !bytes.is_multiple_of(size_of::<T>()) {
            return Err(self.invalid(name));
        }
        let mut values = vec![T::zeroed(); bytes / size_of::<T>()];
        self.read_exact_at(range.start, bytemuck::cast_slice_mut(&mut values))?;
        self.check(section, checksum(bytemuck::cast_slice(&values)))?;
        if cfg!(target_endian = "big") {
            values
                .iter_mut()
                .for_each(|value| *value = value.little_endian());
        }
        Ok(values)
    }

    /// Reads a text.
    pub(crate) fn text(&self, name: &str) -> Result<String, SavedError> {
        String::from_utf8(self.numbers(name)?).map_err(|_| self.invalid(name))
    }

    /// Reads a value that was serialised as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, SavedError> {
        let text: Vec<u8> = self.numbers(name)?;
        serde_json::from_slice(&text).map_err(|error| self.damaged(format!("{name}: {error}")))
    }

    /// Reads a part of a section, without checking the section's checksum.
    pub(crate) fn part(&self, name: &str, part: Range<u64>) -> Result<Vec<u8>, SavedError> {
        let (_, range) = self.section_range(name)?;
        let is_within = part.start <= part.end && part.end <= range.end - range.start;
        let start = match range.start.checked_add(part.start) {
            Some(start) if is_within => start,
            _ => return Err(self.invalid(name)),
        };
        let length = usize::try_from(part.end - part.start).map_err(|_| self.invalid(name))?;
        let mut bytes = vec![0; length];
        self.read_exact_at(start, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the length of a section in bytes.
    pub(crate) fn bytes(&self, name: &str) -> Result<u64, SavedError> {
        let (_, range) = self.section_range(name)?;
        Ok(range.end - range.start)
    }

    /// Returns the error for a damaged file.
    pub(crate) fn damaged(&self, reason: impl Into<String>) -> SavedError {
        SavedError::Damaged {
            path: self.path.clone(),
            reason: reason.into(),
        }
    }

    /// Returns the error for a section whose values are invalid, alone or together with others.
    pub(crate) fn invalid(&self, name: &str) -> SavedError {
        self.damaged(format!("invalid values in {name}"))
    }

    /// Returns the error of [`invalid`](Self::invalid) unless a condition on the section is met.
    pub(crate) fn ensure(&self, is_valid: bool, name: &str) -> Result<(), SavedError> {
        if is_valid {
            Ok(())
        } else {
            Err(self.invalid(name))
        }
    }

    fn section_range(&self, name: &str) -> Result<(usize, Range<u64>), SavedError> {
        self.ranges
            .get(name)
            .cloned()
            .ok_or_else(|| self.damaged(format!("the section {name} is missing")))
    }

    fn check(&self, section: usize, checksum: u64) -> Result<(), SavedError> {
        let section = &self.header.sections[section];
        if section.checksum == checksum_text(checksum) {
            return Ok(());
        }
        Err(self.damaged(format!("wrong checksum of {}", section.name)))
    }

    fn read_exact_at(&self, start: u64, buffer: &mut [u8]) -> Result<(), SavedError> {
        #[cfg(unix)]
        let result = std::os::unix::fs::FileExt::read_exact_at(&self.file, buffer, start);
        #[cfg(not(unix))]
        let result = {
            let _reading = lock(&self.reading);
            let mut file = &self.file;
            file.seek(SeekFrom::Start(start))
                .and_then(|_| file.read_exact(buffer))
        };
        result.map_err(|source| SavedError::Read {
            path: self.path.clone(),
            source,
        })
    }
}

fn read_at(file: &mut File, start: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; bytes];
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(&mut buffer)?;
    Ok(buffer)
}
