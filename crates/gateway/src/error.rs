//! Errors of a gateway.

/// An error of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// A server cannot be used.
    #[error("the server {name:?}: {reason}")]
    Server {
        /// The name in the configuration.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The settings do not fit the servers.
    #[error("{0}")]
    Settings(String),
    /// No snapshot could be built.
    #[error("{0}")]
    Snapshot(String),
    /// The audit log cannot be used.
    #[error("the audit log: {0}")]
    Audit(String),
    /// A client could not be served.
    #[error("{0}")]
    Client(String),
}
