//! What is put right before anything is published: keys of a tenant that somebody, or a loss, has
//! left unreadable.

use std::collections::BTreeSet;

use redis::Connection;

use super::writing::{Publishing, WRITE};
use crate::StoreError;
use crate::head::Current;

/// The largest number of a version or generation that is believed.
const MOST_NUMBER: u64 = 1 << 53;

impl Publishing<'_> {
    /// Removes what stands under keys of the tenant that cannot be read, as nobody can go on from
    /// that, and notes all generations that there are keys of, where they are not known.
    pub(crate) fn mend(&self) -> Result<(), StoreError> {
        let keys = &self.store.keys;
        let (current, counter, generations) = (keys.current(), keys.counter(), keys.generations());
        let (mended, are_known) = self.store.ask(self.store.timeout, |connection| {
            let snapshot = match Lies::under(&current, connection)? {
                Lies::Nothing => Some(None),
                Lies::Text(text) => serde_json::from_slice::<Current>(&text).ok().map(Some),
                Lies::Set(_) | Lies::Else => None,
            };
            let is_counter = match Lies::under(&counter, connection)? {
                Lies::Nothing => true,
                Lies::Text(text) => number(&text).is_some(),
                Lies::Set(_) | Lies::Else => false,
            };
            let known: Option<BTreeSet<u64>> = match Lies::under(&generations, connection)? {
                Lies::Nothing => Some(BTreeSet::new()),
                Lies::Set(members) => members.iter().map(|member| number(member)).collect(),
                Lies::Text(_) | Lies::Else => None,
            };
            let mut mended = Vec::new();
            let sound = [
                (snapshot.is_some(), &current),
                (is_counter, &counter),
                (known.is_some(), &generations),
            ];
            for (_, key) in sound.into_iter().filter(|(is_sound, _)| !is_sound) {
                redis::cmd("DEL").arg(key).exec(connection)?;
                mended.push(key);
            }
            let of_snapshot = snapshot.flatten().map(|snapshot| snapshot.generation);
            let are_known = known.is_some_and(|known| {
                of_snapshot.is_some_and(|generation| known.contains(&generation))
            });
            Ok((mended, are_known))
        })?;
        for key in mended {
            tracing::warn!(target: "picktools::store", key, "what stood there could not be read, and was removed");
        }
        if are_known {
            return Ok(());
        }
        let mut there: BTreeSet<u64> = BTreeSet::new();
        self.each_key(keys.all(), |found| {
            there.extend(found.iter().filter_map(|key| keys.generation_of(key)));
            Ok(())
        })?;
        if there.is_empty() {
            return Ok(());
        }
        self.store.ask(WRITE, |connection| {
            redis::cmd("SADD")
                .arg(&generations)
                .arg(&there)
                .exec(connection)
        })
    }
}

/// What lies under a key.
enum Lies {
    Nothing,
    Text(Vec<u8>),
    Set(Vec<Vec<u8>>),
    Else,
}

impl Lies {
    fn under(key: &str, connection: &mut Connection) -> redis::RedisResult<Self> {
        let kind: String = redis::cmd("TYPE").arg(key).query(connection)?;
        Ok(match kind.as_str() {
            "none" => Self::Nothing,
            "string" => Self::Text(redis::cmd("GET").arg(key).query(connection)?),
            "set" => Self::Set(redis::cmd("SMEMBERS").arg(key).query(connection)?),
            _ => Self::Else,
        })
    }
}

/// Reads a number as the store itself would count on from it.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse()
        .ok()
        .filter(|number: &u64| *number <= MOST_NUMBER && number.to_string() == text)
}
