//! The calls of a turn, recorded so that the same call does not run twice.

use std::collections::HashSet;
use std::sync::Mutex;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::lock;

/// The calls of the current turn. A call that failed may be repeated.
#[derive(Debug, Default)]
pub(super) struct TurnCalls(Mutex<TurnState>);

#[derive(Debug, Default)]
struct TurnState {
    claimed: HashSet<CallDigest>,
    /// The number of turns that have ended.
    number: u64,
}

/// A digest of a tool and its arguments; the order of members does not matter.
type CallDigest = [u8; 32];

/// The right to run a call in this turn. Dropped before [`CallClaim::keep`], it is released.
pub(super) struct CallClaim<'a> {
    turn: &'a TurnCalls,
    key: CallDigest,
    number: u64,
    is_kept: bool,
}

impl TurnCalls {
    /// Claims a call; `None` if the same call ran or is running in this turn.
    pub(super) fn claim(&self, tool: &str, arguments: &Value) -> Option<CallClaim<'_>> {
        let mut hasher = Sha256::new();
        hasher.update(tool);
        hasher.update([0]);
        digest(arguments, &mut hasher);
        let key = hasher.finalize().into();
        let mut state = lock(&self.0);
        if !state.claimed.insert(key) {
            return None;
        }
        Some(CallClaim {
            turn: self,
            key,
            number: state.number,
            is_kept: false,
        })
    }

    /// Forgets all calls.
    pub(super) fn clear(&self) {
        let mut state = lock(&self.0);
        state.claimed.clear();
        state.number += 1;
    }
}

impl CallClaim<'_> {
    /// Keeps the claim, so that the call does not run again in this turn.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for CallClaim<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.turn.0);
        if !self.is_kept && state.number == self.number {
            state.claimed.remove(&self.key);
        }
    }
}

/// Digests a value so that equal values have equal digests; `1` and `1.0` are equal. The recursion
/// is bounded because validated arguments have a bounded depth.
fn digest(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            hasher.update(format!("{{{}:", members.len()));
            for (name, member) in members {
                digest_text(name, hasher);
                digest(member, hasher);
            }
        }
        Value::Array(items) => {
            hasher.update(format!("[{}:", items.len()));
            items.iter().for_each(|item| digest(item, hasher));
        }
        Value::String(string) => digest_text(string, hasher),
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 1e15 => {
                hasher.update(format!("#{float};"));
            }
            _ => hasher.update(format!("#{number};")),
        },
        Value::Bool(_) | Value::Null => hasher.update(value.to_string()),
    }
}

fn digest_text(string: &str, hasher: &mut Sha256) {
    hasher.update(format!("\"{}:", string.len()));
    hasher.update(string);
}
