//! Errors of a [`ToolClient`](super::ToolClient).

use std::error::Error;

/// An error from a [`ToolClient`](super::ToolClient).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The client cannot be created: its URL, key or provider is invalid.
    #[error("{reason}")]
    Configuration {
        /// The cause and the remedy.
        reason: String,
    },
    /// The API request cannot be sent as it is.
    #[error("{reason}")]
    Body {
        /// The cause and the remedy.
        reason: String,
    },
    /// The connection or the complete answer took too long.
    #[error("{reason}")]
    Timeout {
        /// A description of the timeout.
        reason: String,
    },
    /// The connection failed.
    // The reason is text, because the source error is foreign and may contain the key.
    #[error("{reason}")]
    Connection {
        /// The cause, without the key.
        reason: String,
    },
    /// The provider answered with a status other than success.
    #[error("the provider answered {answer}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// The status and the body of the answer, shortened and without the key.
        answer: String,
    },
    /// The answer exceeds the size limit.
    #[error("the answer is longer than {} MiB", limit >> 20)]
    TooLarge {
        /// The size limit, in bytes.
        limit: u64,
    },
    /// The answer is not JSON.
    #[error("the answer is not JSON: {excerpt}")]
    NotJson {
        /// The answer, shortened and without the key.
        excerpt: String,
        /// The error of the parser.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The client failed for its own reason.
    #[error("the client failed")]
    Failed {
        /// The error of the client.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl ClientError {
    /// Returns `true` if a retry may succeed: after a failed connection, a timeout, or the statuses
    /// 408, 429 and 5xx.
    ///
    /// The provider may still have processed, and billed, an API request that timed out.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Connection { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retryable_holds_for_transient_failures_only() {
        let status = |status| ClientError::Status {
            status,
            answer: status.to_string(),
        };
        for error in [
            status(408),
            status(429),
            status(503),
            ClientError::Timeout {
                reason: "slow".into(),
            },
        ] {
            assert!(error.retryable(), "{error}");
        }
        for error in [
            status(307),
            status(400),
            status(401),
            ClientError::TooLarge { limit: 1 << 20 },
        ] {
            assert!(!error.retryable(), "{error}");
        }
    }
}
