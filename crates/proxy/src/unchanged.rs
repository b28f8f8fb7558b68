//! Why a request goes on as it came.

/// Why a request goes on as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unchanged {
    /// It has no tools, or too few to be worth it.
    FewTools,
    /// It is compressed, no JSON, or an object with a name twice.
    Body,
    /// Its tools cannot be told apart, are too many, or are no tools.
    Tools,
    /// Its conversation cannot be read, is too long, or is kept by the provider.
    Conversation,
    /// It says itself among which tools the model shall choose, or which wait for a search.
    Choice,
    /// Something of ours failed.
    Failed,
}

impl Unchanged {
    /// The stable word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::FewTools => "few-tools",
            Self::Body => "body",
            Self::Tools => "tools",
            Self::Conversation => "conversation",
            Self::Choice => "choice",
            Self::Failed => "failed",
        }
    }
}
