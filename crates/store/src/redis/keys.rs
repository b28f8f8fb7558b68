//! The names of a tenant's keys.
//!
//! The braces put all keys of a tenant in one slot of a cluster. An access list can limit a user to
//! `~picktools:{TENANT}:*`.

use crate::StoreError;
use picktools::shard::{RowKey, SourceKey};

/// The names of the keys of a tenant.
#[derive(Debug, Clone)]
pub(super) struct TenantKeys {
    pub(super) tenant: String,
    prefix: String,
}

/// The names of the keys of a generation.
pub(super) struct GenerationKeys {
    pub(super) prefix: String,
}

impl TenantKeys {
    pub(super) fn new(tenant: &str) -> Result<Self, StoreError> {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=64).contains(&tenant.len()) || !tenant.bytes().all(is_allowed) {
            return Err(StoreError::Tenant {
                tenant: tenant.chars().take(80).collect(),
            });
        }
        Ok(Self {
            tenant: tenant.to_owned(),
            prefix: format!("picktools:{{{tenant}}}:"),
        })
    }

    /// Returns the prefix of all keys.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the generation of a key, if the key belongs to one.
    pub(super) fn parse_generation(&self, key: &str) -> Option<u64> {
        let (number, _) = key
            .strip_prefix(&self.prefix)?
            .strip_prefix('g')?
            .split_once(':')?;
        number.parse().ok()
    }

    /// Returns the key of the current snapshot.
    pub(super) fn current(&self) -> String {
        format!("{}current", self.prefix)
    }

    /// Returns the key of the stream on which gateways wait for changes.
    pub(super) fn changes(&self) -> String {
        format!("{}gateway:changes", self.prefix)
    }

    /// Returns the key of the publishers' lock.
    pub(super) fn lock(&self) -> String {
        format!("{}lock", self.prefix)
    }

    /// Returns the key of the counter of versions and generations.
    pub(super) fn counter(&self) -> String {
        format!("{}counter", self.prefix)
    }

    /// Returns the key of the set of generations that may have keys.
    pub(super) fn generations(&self) -> String {
        format!("{}generations", self.prefix)
    }

    pub(super) fn generation(&self, generation: u64) -> GenerationKeys {
        GenerationKeys {
            prefix: format!("{}g{generation}:", self.prefix),
        }
    }
}

impl GenerationKeys {
    /// Returns the name of the index.
    pub(super) fn index(&self) -> String {
        self.prefix.trim_end_matches(':').to_owned()
    }

    /// Returns the key of the head.
    pub(super) fn head(&self) -> String {
        format!("{}head", self.prefix)
    }

    /// Returns the key of the set of row keys of the snapshot.
    pub(super) fn tools(&self) -> String {
        format!("{}tools", self.prefix)
    }

    /// Returns the key of the set of row keys that an unfinished publication writes or removes.
    pub(super) fn staged(&self) -> String {
        format!("{}staged", self.prefix)
    }

    /// Returns the prefix of the keys of tools.
    pub(super) fn tool_prefix(&self) -> String {
        format!("{}t:", self.prefix)
    }

    pub(super) fn tool(&self, key: RowKey) -> String {
        format!("{}t:{key}", self.prefix)
    }

    pub(super) fn source(&self, key: SourceKey) -> String {
        format!("{}s:{key}", self.prefix)
    }

    /// Returns the keys of the counts of terms: by tools, by sources and by examples.
    pub(super) fn term_counts(&self, bucket: u64) -> [String; 3] {
        ["df", "sf", "ef"].map(|kind| format!("{}{kind}:{bucket}", self.prefix))
    }

    /// Parses the key of a tool, and returns the key of its row.
    pub(super) fn parse_row_key(&self, key: &[u8]) -> Option<RowKey> {
        let text = std::str::from_utf8(key)
            .ok()?
            .strip_prefix(&self.tool_prefix())?;
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let mut bytes = [0; 16];
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(RowKey(bytes))
    }
}

/// Returns the bytes of row keys as arguments of a command.
pub(super) fn row_arguments(keys: &[RowKey]) -> Vec<&[u8]> {
    keys.iter().map(|key| &key.0[..]).collect()
}
