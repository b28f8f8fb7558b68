//! What a tenant's keys are called.
//!
//! The braces make all keys of a tenant lie in one slot of a cluster, and an access list can hold a
//! user to `~picktools:{TENANT}:*`.

use crate::StoreError;
use picktools::shard::{RowKey, SourceKey};

/// The keys of a tenant.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) tenant: String,
    prefix: String,
}

/// The keys of a generation.
pub(super) struct Generation {
    pub(super) prefix: String,
}

impl Keys {
    pub(super) fn new(tenant: &str) -> Result<Self, StoreError> {
        let is_sign = |sign: u8| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == b'-';
        if !(1..=64).contains(&tenant.len()) || !tenant.bytes().all(is_sign) {
            return Err(StoreError::Tenant {
                tenant: tenant.chars().take(80).collect(),
            });
        }
        Ok(Self {
            tenant: tenant.to_owned(),
            prefix: format!("picktools:{{{tenant}}}:"),
        })
    }

    /// What all of them begin with.
    pub(super) fn all(&self) -> &str {
        &self.prefix
    }

    /// Returns the generation that a key is of, if it is of one.
    pub(super) fn generation_of(&self, key: &str) -> Option<u64> {
        let (number, _) = key
            .strip_prefix(&self.prefix)?
            .strip_prefix('g')?
            .split_once(':')?;
        number.parse().ok()
    }

    /// Which snapshot is the current one.
    pub(super) fn current(&self) -> String {
        format!("{}current", self.prefix)
    }

    /// Who publishes just now.
    pub(super) fn lock(&self) -> String {
        format!("{}lock", self.prefix)
    }

    /// Counts versions, and generations.
    pub(super) fn counter(&self) -> String {
        format!("{}counter", self.prefix)
    }

    /// The generations that there may be keys of.
    pub(super) fn generations(&self) -> String {
        format!("{}generations", self.prefix)
    }

    pub(super) fn generation(&self, generation: u64) -> Generation {
        Generation {
            prefix: format!("{}g{generation}:", self.prefix),
        }
    }
}

impl Generation {
    /// The index.
    pub(super) fn index(&self) -> String {
        self.prefix.trim_end_matches(':').to_owned()
    }

    /// What the snapshot says of all tools.
    pub(super) fn head(&self) -> String {
        format!("{}head", self.prefix)
    }

    /// The keys of the rows that are of the snapshot.
    pub(super) fn tools(&self) -> String {
        format!("{}tools", self.prefix)
    }

    /// The keys of rows that a publication writes, until it is done.
    pub(super) fn staged(&self) -> String {
        format!("{}staged", self.prefix)
    }

    /// What the keys of tools begin with.
    pub(super) fn of_tools(&self) -> String {
        format!("{}t:", self.prefix)
    }

    pub(super) fn tool(&self, key: RowKey) -> String {
        format!("{}t:{key}", self.prefix)
    }

    pub(super) fn source(&self, key: SourceKey) -> String {
        format!("{}s:{key}", self.prefix)
    }

    /// How many tools, sources, and examples hold terms.
    pub(super) fn counts_of_terms(&self, bucket: u64) -> [String; 3] {
        ["df", "sf", "ef"].map(|of| format!("{}{of}:{bucket}", self.prefix))
    }

    /// Reads the key of a row out of that of a tool.
    pub(super) fn row_key(&self, key: &[u8]) -> Option<RowKey> {
        let text = std::str::from_utf8(key)
            .ok()?
            .strip_prefix(&self.of_tools())?;
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

/// Returns the keys of rows as arguments of a command.
pub(super) fn row_arguments(keys: &[RowKey]) -> Vec<&[u8]> {
    keys.iter().map(|key| &key.0[..]).collect()
}
