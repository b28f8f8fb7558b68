//! The owners of connections and of other state that must stay separate.

use std::sync::Arc;

/// The owner of state that must stay separate: a session, or a key if there are no sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner(pub Arc<str>);

/// The prefixes of owners that all gateways of a store know by the same name.
const KEY_PREFIX: &str = "key ";
const SHARED_SESSION_PREFIX: &str = "session of all ";

impl Owner {
    /// Creates the owner for a key, if there are no sessions.
    pub fn from_key(name: &str) -> Self {
        Self(format!("{KEY_PREFIX}{name}").into())
    }

    /// Creates the owner for a session that can continue at another gateway, by the digest of its
    /// secret id.
    pub(crate) fn from_shared_session(digest: &str) -> Self {
        Self(format!("{SHARED_SESSION_PREFIX}{digest}").into())
    }

    /// Returns `true` if it is a session, not a key.
    pub(crate) fn is_session(&self) -> bool {
        !self.0.starts_with(KEY_PREFIX)
    }

    /// Returns `true` if all gateways of a store know the owner by this name.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.starts_with(KEY_PREFIX) || self.0.starts_with(SHARED_SESSION_PREFIX)
    }
}
