//! The built-in tools that search files: `grep` and `glob`.

mod glob;
mod grep;
mod ignoring;
mod walk;

use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use picktools_runtime::{Context, ErrorType};

pub use self::glob::Glob;
pub use self::grep::Grep;

use crate::root::FileFailure;

/// The time before the deadline of a call at which a search stops, so that its results are returned.
const MARGIN: Duration = Duration::from_millis(250);

/// The limits of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchOptions {
    /// The most matching lines, or files, of one result.
    pub max_results: usize,
    /// The most bytes of one result.
    pub max_bytes: usize,
    /// The longest time of a search. A search that is stopped returns its results so far.
    pub max_time: Duration,
    /// The largest file to search, in bytes. Larger files are skipped and counted.
    pub max_file_bytes: u64,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            max_results: 1_000,
            max_bytes: 64 << 10,
            max_time: Duration::from_secs(20),
            max_file_bytes: 64 << 20,
        }
    }
}

/// The end of the time of a search.
#[derive(Clone, Copy)]
struct TimeLimit<'a> {
    end: Instant,
    context: &'a Context,
}

impl<'a> TimeLimit<'a> {
    fn new(options: &SearchOptions, context: &'a Context) -> Self {
        let now = Instant::now();
        let deadline = context.deadline().checked_sub(MARGIN).unwrap_or(now);
        let end = match now.checked_add(options.max_time) {
            Some(end) => end.min(deadline),
            None => deadline,
        };
        Self { end, context }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end || self.context.is_cancelled()
    }
}

/// The limit that stopped a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchLimit {
    Results(usize),
    Bytes(usize),
    Time,
}

impl SearchLimit {
    /// Returns a note for the model.
    fn note(self) -> String {
        match self {
            Self::Results(most) => {
                format!("stopped after {most} results; there may be more, narrow the search")
            }
            Self::Bytes(most) => {
                format!("stopped after {most} bytes; there may be more, narrow the search")
            }
            Self::Time => "stopped by the time limit; there may be more, narrow the search".into(),
        }
    }
}

/// Compiles a glob. A pattern without `/` matches names at any depth.
fn compile_glob(pattern: &str) -> Result<GlobMatcher, FileFailure> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let anywhere = match pattern.contains('/') {
        true => pattern.to_owned(),
        false => format!("**/{pattern}"),
    };
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
    let glob = glob.map_err(|error| {
        FileFailure::new(
            ErrorType::Validation,
            format!("the glob is invalid: {}", error.kind()),
            "Give a glob such as **/*.rs or *.{md,txt}.",
        )
    })?;
    Ok(glob.compile_matcher())
}
