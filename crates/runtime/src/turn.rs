//! The calls of a turn, recorded so that the same call does not run twice.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::lock;

/// The calls of the current turn. A call that failed may be repeated.
#[derive(Debug, Default)]
pub(super) struct TurnCalls(Mutex<TurnState>);

#[derive(Debug, Default)]
struct TurnState {
    claimed: HashMap<CallDigest, ClaimState>,
    /// The number of turns that have ended.
    number: u64,
    /// The number of calls so far that may have changed something.
    changes: u64,
}

/// The state of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimState {
    /// The call runs, or its result stays valid for the turn.
    Taken,
    /// The call has read something, and its result is valid until a call changes something.
    HasRead,
}

/// The effect of a call, which decides if it may be repeated in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEffect {
    /// It only reads, and may be repeated after a call that may have changed something.
    Reads,
    /// It may change something, and may not be repeated.
    Changes,
    /// It changes something else each time, and may be repeated.
    ChangesAgain,
}

/// A digest of a tool and its arguments; the order of members does not matter.
type CallDigest = [u8; 32];

/// The right to run a call in this turn. Dropped before [`CallClaim::keep`], it is released.
pub(super) struct CallClaim<'a> {
    turn: &'a TurnCalls,
    key: CallDigest,
    effect: CallEffect,
    number: u64,
    changes: u64,
    is_kept: bool,
}

impl TurnCalls {
    /// Claims a call; `None` if the same call ran or is running in this turn.
    pub(super) fn claim(
        &self,
        tool: &str,
        arguments: &Value,
        effect: CallEffect,
    ) -> Option<CallClaim<'_>> {
        let mut hasher = Sha256::new();
        hasher.update(tool);
        hasher.update([0]);
        digest(arguments, &mut hasher);
        let key = hasher.finalize().into();
        let mut state = lock(&self.0);
        if effect != CallEffect::ChangesAgain {
            if state.claimed.contains_key(&key) {
                return None;
            }
            state.claimed.insert(key, ClaimState::Taken);
        }
        Some(CallClaim {
            turn: self,
            key,
            effect,
            number: state.number,
            changes: state.changes,
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
        if state.number != self.number {
            return;
        }
        if self.effect != CallEffect::Reads {
            // Even a call that failed may have changed something.
            state.changes += 1;
            state.claimed.retain(|_, claim| *claim == ClaimState::Taken);
        }
        if self.effect == CallEffect::ChangesAgain {
            return;
        }
        if !self.is_kept {
            state.claimed.remove(&self.key);
        } else if self.effect == CallEffect::Reads {
            match state.changes == self.changes {
                true => drop(state.claimed.insert(self.key, ClaimState::HasRead)),
                false => drop(state.claimed.remove(&self.key)),
            }
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
