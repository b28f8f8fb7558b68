//! Reading an index: nothing that stands in the file is believed before it is checked.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use twox_hash::XxHash3_64;

use super::writer::header_checksum;
use super::{
    FORMAT_VERSION, Header, MAGIC, MAX_HEADER, Number, START, SavedError, TRAILER, checksum_text,
    index_path,
};
#[cfg(not(unix))]
use crate::sync::lock;

/// An open index. Its sections are read and checked one by one, when somebody asks for them.
#[derive(Debug)]
pub(crate) struct SavedFile {
    path: PathBuf,
    file: File,
    /// Held by who moves the place that is read from, where reading does.
    #[cfg(not(unix))]
    reading: std::sync::Mutex<()>,
    pub(crate) header: Header,
    /// By name: the number of the section in the header, and where it is.
    places: HashMap<String, (usize, Range<u64>)>,
}

impl SavedFile {
    /// Opens the index of a folder, and checks that its sections are all there.
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
        let found = u32::from_le_bytes(*version);
        if found != FORMAT_VERSION {
            return Err(SavedError::Version { path, found });
        }
        let cut_short = || damaged("it is cut short, or something was added");
        let trailer_at = length
            .checked_sub(TRAILER as u64)
            .filter(|at| *at >= START as u64)
            .ok_or_else(cut_short)?;
        let trailer = read_at(&mut file, trailer_at, TRAILER).map_err(unreadable)?;
        let (numbers, _) = trailer.as_chunks::<8>();
        let &[at, bytes, checksum] = numbers else {
            return Err(cut_short());
        };
        let [at, bytes, checksum] = [at, bytes, checksum].map(u64::from_le_bytes);
        if at < START as u64 || bytes > MAX_HEADER || at.checked_add(bytes) != Some(trailer_at) {
            return Err(cut_short());
        }
        let text = read_at(&mut file, at, usize::try_from(bytes).unwrap_or_default())
            .map_err(unreadable)?;
        if header_checksum(&start, &text) != checksum {
            return Err(damaged("its header does not have its checksum"));
        }
        let header: Header = serde_json::from_slice(&text)
            .map_err(|error| damaged(&format!("its header: {error}")))?;
        let (mut places, mut next) = (HashMap::new(), START as u64);
        for (number, section) in header.sections.iter().enumerate() {
            let end = next.checked_add(section.bytes).filter(|end| *end <= at);
            let end = end.ok_or_else(|| damaged("a section is longer than the file"))?;
            if places
                .insert(section.name.clone(), (number, next..end))
                .is_some()
            {
                return Err(damaged("a section stands twice"));
            }
            next = end;
        }
        if next != at {
            return Err(damaged("its sections are not all of it"));
        }
        Ok(Self {
            path,
            file,
            #[cfg(not(unix))]
            reading: std::sync::Mutex::default(),
            header,
            places,
        })
    }

    /// Returns `true` if there is a section of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Reads an array of numbers.
    pub(crate) fn numbers<T: Number>(&self, name: &str) -> Result<Vec<T>, SavedError> {
        let (section, place) = self.place(name)?;
        let bytes = usize::try_from(place.end - place.start).map_err(|_| self.no_sense(name))?;
        if !bytes.is_multiple_of(size_of::<T>()) {
            return Err(self.no_sense(name));
        }
        let mut values = vec![T::zeroed(); bytes / size_of::<T>()];
        self.read(place.start, bytemuck::cast_slice_mut(&mut values))?;
        self.check(section, XxHash3_64::oneshot(bytemuck::cast_slice(&values)))?;
        if cfg!(target_endian = "big") {
            values
                .iter_mut()
                .for_each(|value| *value = value.little_endian());
        }
        Ok(values)
    }

    /// Reads a text.
    pub(crate) fn text(&self, name: &str) -> Result<String, SavedError> {
        String::from_utf8(self.numbers(name)?).map_err(|_| self.no_sense(name))
    }

    /// Reads what was serialised.
    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, SavedError> {
        let text: Vec<u8> = self.numbers(name)?;
        serde_json::from_slice(&text).map_err(|error| self.damaged(format!("{name}: {error}")))
    }

    /// Reads a part of a section, which is not held to the section's checksum.
    pub(crate) fn part(&self, name: &str, part: Range<u64>) -> Result<Vec<u8>, SavedError> {
        let (_, place) = self.place(name)?;
        let start = place.start.checked_add(part.start);
        let is_within = part.start <= part.end && part.end <= place.end - place.start;
        let start = start
            .filter(|_| is_within)
            .ok_or_else(|| self.no_sense(name))?;
        let mut bytes =
            vec![0; usize::try_from(part.end - part.start).map_err(|_| self.no_sense(name))?];
        self.read(start, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the length of a section in bytes.
    pub(crate) fn bytes(&self, name: &str) -> Result<u64, SavedError> {
        self.place(name).map(|(_, place)| place.end - place.start)
    }

    /// Says that the file is not as it was written.
    pub(crate) fn damaged(&self, reason: impl Into<String>) -> SavedError {
        SavedError::Damaged {
            path: self.path.clone(),
            reason: reason.into(),
        }
    }

    /// Says that what stands in a section makes no sense, by itself or with others.
    pub(crate) fn no_sense(&self, name: &str) -> SavedError {
        self.damaged(format!("what stands in {name} makes no sense"))
    }

    /// As [`no_sense`](Self::no_sense), where something does not hold.
    pub(crate) fn ensure(&self, holds: bool, name: &str) -> Result<(), SavedError> {
        if holds {
            Ok(())
        } else {
            Err(self.no_sense(name))
        }
    }

    fn place(&self, name: &str) -> Result<(usize, Range<u64>), SavedError> {
        self.places
            .get(name)
            .cloned()
            .ok_or_else(|| self.damaged(format!("{name} is missing")))
    }

    fn check(&self, section: usize, checksum: u64) -> Result<(), SavedError> {
        let section = &self.header.sections[section];
        if section.checksum == checksum_text(checksum) {
            return Ok(());
        }
        Err(self.damaged(format!("{} does not have its checksum", section.name)))
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), SavedError> {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_exact_at(&self.file, into, at);
        #[cfg(not(unix))]
        let read = {
            let _reading = lock(&self.reading);
            let mut file = &self.file;
            file.seek(SeekFrom::Start(at))
                .and_then(|_| file.read_exact(into))
        };
        read.map_err(|source| SavedError::Read {
            path: self.path.clone(),
            source,
        })
    }
}

fn read_at(file: &mut File, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut read = vec![0; bytes];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut read)?;
    Ok(read)
}
