//! Settings of the API keys of callers over HTTP.

use serde::Deserialize;

/// An API key of a caller over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The name of the holder, for logs.
    pub name: String,
    /// SHA-256 of the key, in hexadecimal digits.
    pub sha256: String,
    /// The role; [`DEFAULT_ROLE`] by default.
    #[serde(default)]
    pub role: Option<String>,
    /// The largest average number of requests a minute.
    #[serde(default = "per_minute")]
    pub per_minute: u32,
    /// The most requests in a burst.
    #[serde(default = "burst")]
    pub burst: u32,
    /// The most concurrent requests.
    #[serde(default = "parallel")]
    pub parallel: usize,
    /// The time at which the key expires, in seconds since 1970.
    #[serde(default)]
    pub expires: Option<u64>,
}

fn per_minute() -> u32 {
    600
}

fn burst() -> u32 {
    120
}

fn parallel() -> usize {
    32
}

impl Key {
    /// Creates the settings of the console key, by its digest.
    pub(crate) fn console(sha256: &str) -> Self {
        Self {
            name: "console".to_owned(),
            sha256: sha256.to_owned(),
            role: None,
            per_minute: per_minute(),
            burst: burst(),
            parallel: parallel(),
            expires: None,
        }
    }

    /// Creates the settings that apply to callers without a key.
    pub(crate) fn anonymous(role: &str) -> Self {
        Self {
            name: "anonymous".to_owned(),
            // No key has this digest.
            sha256: "0".repeat(64),
            role: Some(role.to_owned()),
            per_minute: 600_000,
            burst: 100_000,
            parallel: 1_024,
            expires: None,
        }
    }
}
