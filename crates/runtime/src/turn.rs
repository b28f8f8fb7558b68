//! Which calls were made in a turn, so that none is made twice.

use std::collections::HashSet;
use std::sync::Mutex;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::lock;

/// The calls of a turn. One that failed may be made again.
#[derive(Debug, Default)]
pub(super) struct Turn(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    made: HashSet<Key>,
    /// How many turns there were.
    number: u64,
}

/// A tool and its arguments, whatever the order of their members.
type Key = [u8; 32];

/// A call that is being made. It counts as made unless it is let go of before [`Claim::keep`].
pub(super) struct Claim<'a> {
    turn: &'a Turn,
    key: Key,
    number: u64,
    kept: bool,
}

impl Turn {
    /// Begins a call; `None` where it was made or is being made in this turn.
    pub(super) fn claim(&self, tool: &str, arguments: &Value) -> Option<Claim<'_>> {
        let mut hasher = Sha256::new();
        hasher.update(tool);
        hasher.update([0]);
        digest(arguments, &mut hasher);
        let key = hasher.finalize().into();
        let mut calls = lock(&self.0);
        if !calls.made.insert(key) {
            return None;
        }
        Some(Claim {
            turn: self,
            key,
            number: calls.number,
            kept: false,
        })
    }

    /// Forgets all calls.
    pub(super) fn clear(&self) {
        let mut calls = lock(&self.0);
        calls.made.clear();
        calls.number += 1;
    }
}

impl Claim<'_> {
    /// The call was made: it shall not be made again in this turn.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut calls = lock(&self.turn.0);
        if !self.kept && calls.number == self.number {
            calls.made.remove(&self.key);
        }
    }
}

/// Digests a value so that equal ones have one digest; `1` and `1.0` are equal. Validated arguments
/// are not deep.
fn digest(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            hasher.update(format!("{{{}:", members.len()));
            for (name, member) in members {
                text(name, hasher);
                digest(member, hasher);
            }
        }
        Value::Array(items) => {
            hasher.update(format!("[{}:", items.len()));
            items.iter().for_each(|item| digest(item, hasher));
        }
        Value::String(string) => text(string, hasher),
        Value::Number(number) => match number
            .as_f64()
            .filter(|float| float.fract() == 0.0 && float.abs() < 1e15)
        {
            Some(float) => hasher.update(format!("#{float};")),
            None => hasher.update(format!("#{number};")),
        },
        Value::Bool(_) | Value::Null => hasher.update(value.to_string()),
    }
}

fn text(string: &str, hasher: &mut Sha256) {
    hasher.update(format!("\"{}:", string.len()));
    hasher.update(string);
}
