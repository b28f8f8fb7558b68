//! The kinds of handshakes with a server.

/// The order in which protocol revisions are tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handshake {
    /// Tries the newest revision first, and falls back to the one that the server knows.
    #[default]
    NewestFirst,
    /// Tries the handshake of revisions before 2026-07-28 first, and the newest one if the server
    /// refuses it. With the older revisions a server can send requests during a call and report
    /// changes without a subscription.
    LegacyFirst,
}

impl Handshake {
    pub(super) fn other(self) -> Self {
        match self {
            Self::NewestFirst => Self::LegacyFirst,
            Self::LegacyFirst => Self::NewestFirst,
        }
    }
}
