//! Settings of the API keys of callers over HTTP.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::roles::{DEFAULT_ROLE, Role};

/// SHA-256 of the empty text. A key with it would accept a request with an empty key.
const EMPTY_DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

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
    /// Returns the digits of the digest.
    pub(crate) fn digits(&self) -> &str {
        self.sha256.strip_prefix("sha256:").unwrap_or(&self.sha256)
    }

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

/// Checks that the keys are different and have known roles. Returns the fault.
pub(super) fn check(keys: &[Key], roles: &BTreeMap<String, Role>) -> Result<(), String> {
    let mut by_name = BTreeMap::new();
    let mut by_digest = BTreeMap::new();
    for (index, key) in keys.iter().enumerate() {
        let name = &key.name;
        if let Some(first) = by_name.insert(name, index) {
            return Err(format!(
                "/keys/{index}/name: duplicate key name {name:?}, as in /keys/{first}; rename one \
                 of the keys"
            ));
        }
        let digest = key.digits().to_ascii_lowercase();
        if digest == EMPTY_DIGEST {
            return Err(format!(
                "/keys/{index}/sha256: the key {name:?} is the empty text; create a key with \
                 `picktools serve --new-key NAME`"
            ));
        }
        if let Some(first) = by_digest.insert(digest, index) {
            return Err(format!(
                "/keys/{index}/sha256: the keys {:?} and {name:?} are the same key; remove one of \
                 them",
                keys[first].name
            ));
        }
        let role = key.role.as_deref().unwrap_or(DEFAULT_ROLE);
        if role != DEFAULT_ROLE && !roles.contains_key(role) {
            return Err(format!("the key {name:?} has the unknown role {role:?}"));
        }
    }
    Ok(())
}
