//! Why a model was not asked, or did not answer.

use std::error::Error;

/// An error from a [`ToolClient`](super::ToolClient).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The client cannot be made: its URL, key or provider is invalid.
    #[error("{reason}")]
    Configuration {
        /// What is wrong, and how to mend it.
        reason: String,
    },
    /// The API request cannot be sent as it is.
    #[error("{reason}")]
    Body {
        /// What is wrong, and how to mend it.
        reason: String,
    },
    /// There was no connection, or no whole answer, in time.
    #[error("{reason}")]
    Timeout {
        /// What did not come in time.
        reason: String,
    },
    /// The connection failed.
    // The reason is text: what lies below it is foreign, and may hold the key.
    #[error("{reason}")]
    Connection {
        /// Why, without the key.
        reason: String,
    },
    /// The provider answered with a status other than success.
    #[error("it answered {answer}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// The status and what the answer says, shortened and without the key.
        answer: String,
    },
    /// The answer is longer than is read.
    #[error("its answer is longer than {} MiB", limit >> 20)]
    TooLarge {
        /// The most bytes that are read.
        limit: u64,
    },
    /// The answer is not JSON.
    #[error("its answer is not JSON: {excerpt}")]
    NotJson {
        /// What it says, shortened and without the key.
        excerpt: String,
        /// What the parser said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The client itself failed.
    #[error("the client failed")]
    Failed {
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl ClientError {
    /// Returns `true` if the same request may be answered when it is sent again: after a failed
    /// connection, a timeout, and the statuses 408, 429 and 5xx. An API request that timed out may
    /// have been answered, and paid for, all the same.
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
    fn what_may_pass_is_worth_another_try() {
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
