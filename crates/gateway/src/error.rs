//! What can go wrong with a gateway.

/// Why there is no gateway.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// A server cannot stand behind it.
    #[error("the server {name:?}: {reason}")]
    Server {
        /// What the configuration calls it.
        name: String,
        /// Why.
        reason: String,
    },
    /// The settings do not fit the servers.
    #[error("{0}")]
    Settings(String),
    /// What is known cannot be used.
    #[error("{0}")]
    Snapshot(String),
    /// What is decided cannot be recorded.
    #[error("the audit: {0}")]
    Audit(String),
    /// A client could not be served.
    #[error("{0}")]
    Client(String),
}
