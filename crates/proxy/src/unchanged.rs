//! The reasons for which a request is forwarded unchanged.

/// The reason for which a request is forwarded unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnchangedReason {
    /// The request has no tools, or fewer than `proxy.from_tools`.
    FewTools,
    /// The body is compressed, not JSON, or has a duplicate key.
    Body,
    /// The tools have duplicate names, are too many, or are malformed.
    Tools,
    /// The conversation is malformed, too long, or stored by the provider.
    Conversation,
    /// The request itself restricts the choice of tools, or defers tools.
    Choice,
    /// No tool fits the conversation, but the provider refuses such a request without tools.
    NoTools,
    /// The proxy failed.
    Failed,
}

impl UnchangedReason {
    /// Returns the stable name of the reason.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FewTools => "few-tools",
            Self::Body => "body",
            Self::Tools => "tools",
            Self::Conversation => "conversation",
            Self::Choice => "choice",
            Self::NoTools => "no-tools",
            Self::Failed => "failed",
        }
    }
}
