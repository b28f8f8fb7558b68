//! Problems of server entries.

/// The cause and the remedy of an invalid server entry.
pub(crate) struct EntryProblem {
    pub(crate) message: String,
    pub(crate) remedy: String,
}

pub(crate) fn problem(message: impl Into<String>, remedy: impl Into<String>) -> EntryProblem {
    EntryProblem {
        message: message.into(),
        remedy: remedy.into(),
    }
}
