//! Errors of work with a deadline.

use std::io;

/// An error of a job with a deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeadlineError {
    /// The deadline passed.
    Expired,
    /// The job panicked, or no thread was free for it. Has the reason.
    Lost(String),
}

impl DeadlineError {
    pub(crate) fn panicked() -> Self {
        Self::Lost("it panicked".to_owned())
    }

    #[expect(clippy::needless_pass_by_value, reason = "errors are mapped by it")]
    pub(super) fn no_thread(error: io::Error) -> Self {
        Self::Lost(format!("no thread could be started: {error}"))
    }
}
