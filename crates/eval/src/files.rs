//! Shared functions of the evaluation formats: numbered lines of a file, and complete writes.

use std::fs;
use std::path::Path;

use super::EvalError;
use picktools::disk;
use picktools::disk::DiskError;
use picktools::excerpt::cut;

/// The most characters of a file's own text that an error quotes.
const EXCERPT_CHARS: usize = 80;

/// Reads a complete file.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, EvalError> {
    fs::read(path).map_err(|source| EvalError::Read {
        path: path.to_path_buf(),
        source,
    })
}

/// Shortens a value for an error message.
pub(super) fn excerpt(value: &str) -> String {
    cut(value, EXCERPT_CHARS).into_owned()
}

/// Iterates over the lines of a file that are not blank, each with its number from 1.
///
/// A byte order mark, a carriage return before the line feed and blank lines are dropped: editors
/// and spreadsheets add them, and they have no meaning here. UTF-8 is checked line by line so that
/// an error can name the line.
pub(super) fn lines<'a>(
    bytes: &'a [u8],
    origin: &'a Path,
) -> impl Iterator<Item = Result<(usize, &'a str), EvalError>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes
        .split(|&byte| byte == b'\n')
        .enumerate()
        .filter_map(move |(index, raw)| {
            let line = index + 1;
            let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
            match str::from_utf8(raw) {
                Ok(text) if text.trim_matches(' ').is_empty() => None,
                Ok(text) => Some(Ok((line, text))),
                Err(error) => Some(Err(EvalError::NotUtf8 {
                    path: origin.to_path_buf(),
                    line,
                    byte: error.valid_up_to() + 1,
                })),
            }
        })
}

/// Returns the reason why an id cannot be used in a tab-separated column, if there is one.
///
/// Many readers treat a carriage return as a line end, and drop a byte order mark at the start of a
/// file. Neither would be read back as it was written.
fn id_problem(id: &str) -> Option<&'static str> {
    if id.trim().is_empty() {
        Some("is empty")
    } else if id.contains(['\t', '\n', '\r']) {
        Some("contains a tab or a line break")
    } else if id.starts_with('\u{feff}') {
        Some("starts with a byte order mark")
    } else {
        None
    }
}

/// Validates an id that was read.
pub(super) fn check_read_id(
    id: &str,
    column: &'static str,
    origin: &Path,
    line: usize,
) -> Result<(), EvalError> {
    match id_problem(id) {
        None => Ok(()),
        Some(problem) => Err(EvalError::BadId {
            path: origin.to_path_buf(),
            line,
            column,
            value: excerpt(id),
            problem,
        }),
    }
}

/// Validates an id before it is written.
pub(super) fn check_written_id(id: &str, column: &'static str) -> Result<(), EvalError> {
    match id_problem(id) {
        None => Ok(()),
        Some(problem) => Err(EvalError::UnwritableId {
            column,
            id: excerpt(id),
            problem,
        }),
    }
}

/// Replaces `path` with `bytes`, completely or not at all.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), EvalError> {
    disk::write(path, bytes).map_err(unwritable)
}

/// Fails if [`write_atomically`] would, so that a long evaluation does not fail at its end.
pub fn check_writable(path: &Path) -> Result<(), EvalError> {
    disk::check_writable(path).map_err(unwritable)
}

fn unwritable(DiskError { path, source, .. }: DiskError) -> EvalError {
    EvalError::Write { path, source }
}

/// A folder for one test, removed when dropped.
#[cfg(test)]
pub(super) mod scratch {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    static NEXT: AtomicU32 = AtomicU32::new(0);

    pub(in super::super) struct Scratch(PathBuf);

    impl Scratch {
        pub(in super::super) fn new() -> Self {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("picktools-eval-{}-{number}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
            Self(folder)
        }

        pub(in super::super) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_numbers_of_an_editor() {
        let text = b"\xef\xbb\xbfone\r\n\n  \r\nfour\nlast";
        let numbered: Vec<_> = lines(text, Path::new("f"))
            .map(|line| line.expect("UTF-8"))
            .collect();
        assert_eq!(numbered, [(1, "one"), (4, "four"), (5, "last")]);
    }

    #[test]
    fn invalid_utf8_is_reported_by_line_and_byte() {
        let error = lines(b"fine\nab\xffcd\n", Path::new("q.jsonl")).find_map(Result::err);
        let message = error.expect("the second line is invalid").to_string();
        assert!(
            message.starts_with("q.jsonl:2: not valid UTF-8 from byte 3"),
            "{message}"
        );
    }
}
