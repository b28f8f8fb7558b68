//! The repair of a tenant's keys before a publication.

use std::collections::BTreeSet;

use picktools_net::RedisConnection;

use super::number::parse_number;
use super::writing::{Publisher, WRITE_TIMEOUT};
use crate::StoreError;
use crate::head::CurrentSnapshot;

impl Publisher<'_> {
    /// Removes unreadable values of the tenant, and restores the set of generations if it is lost.
    pub(crate) fn repair(&self) -> Result<(), StoreError> {
        let keys = &self.store.keys;
        let (current, counter, generations) = (keys.current(), keys.counter(), keys.generations());
        let (removed, are_known) = self.store.execute(self.store.timeout, |connection| {
            let snapshot = match StoredValue::read(&current, connection)? {
                StoredValue::Missing => Some(None),
                StoredValue::Text(text) => serde_json::from_slice::<CurrentSnapshot>(&text)
                    .ok()
                    .map(Some),
                StoredValue::Set(_) | StoredValue::Other => None,
            };
            let is_counter = match StoredValue::read(&counter, connection)? {
                StoredValue::Missing => true,
                StoredValue::Text(text) => parse_number(&text).is_some(),
                StoredValue::Set(_) | StoredValue::Other => false,
            };
            let known: Option<BTreeSet<u64>> = match StoredValue::read(&generations, connection)? {
                StoredValue::Missing => Some(BTreeSet::new()),
                StoredValue::Set(members) => {
                    members.iter().map(|member| parse_number(member)).collect()
                }
                StoredValue::Text(_) | StoredValue::Other => None,
            };
            let mut removed = Vec::new();
            let checked = [
                (snapshot.is_some(), &current),
                (is_counter, &counter),
                (known.is_some(), &generations),
            ];
            for (is_readable, key) in checked {
                if !is_readable {
                    redis::cmd("DEL").arg(key).exec(connection)?;
                    removed.push(key);
                }
            }
            let generation = snapshot.flatten().map(|snapshot| snapshot.generation);
            let are_known = known.is_some_and(|known| {
                generation.is_some_and(|generation| known.contains(&generation))
            });
            Ok((removed, are_known))
        })?;
        for key in removed {
            tracing::warn!(target: "picktools::store", key, "removed an unreadable value");
        }
        if are_known {
            return Ok(());
        }
        let mut existing: BTreeSet<u64> = BTreeSet::new();
        self.for_each_key(keys.prefix(), |found| {
            existing.extend(found.iter().filter_map(|key| keys.parse_generation(key)));
            Ok(())
        })?;
        if existing.is_empty() {
            return Ok(());
        }
        self.store.execute(WRITE_TIMEOUT, |connection| {
            redis::cmd("SADD")
                .arg(&generations)
                .arg(&existing)
                .exec(connection)
        })
    }
}

/// The value of a key.
enum StoredValue {
    Missing,
    Text(Vec<u8>),
    Set(Vec<Vec<u8>>),
    Other,
}

impl StoredValue {
    fn read(key: &str, connection: &mut RedisConnection) -> redis::RedisResult<Self> {
        let kind: String = redis::cmd("TYPE").arg(key).query(connection)?;
        Ok(match kind.as_str() {
            "none" => Self::Missing,
            "string" => Self::Text(redis::cmd("GET").arg(key).query(connection)?),
            "set" => Self::Set(redis::cmd("SMEMBERS").arg(key).query(connection)?),
            _ => Self::Other,
        })
    }
}
