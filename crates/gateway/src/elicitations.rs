//! Calls that wait for a client's answers in a later request, as revision 2026-07-28 defines it:
//! the result contains questions, and the client sends the call again with its answers.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use picktools::Tool;
use picktools_call::Confirmation;
use picktools_state::{keys, lock};
use rmcp::model::InputResponses;
use sha2::{Digest, Sha256};

use crate::fair_shares::largest_holder;
use crate::upstream::Owner;

/// The time that a call waits.
const WAIT_TIMEOUT: Duration = Duration::from_secs(300);
/// The most waiting calls.
const MAX_WAITING: usize = 10_000;

/// The answers that a client sends when it repeats a call.
#[derive(Debug, Default)]
pub struct InputAnswers {
    pub(crate) answers: InputResponses,
    pub(crate) state: Option<String>,
}

/// The answer for which a call waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AwaitedInput {
    /// The confirmation of a person.
    Confirmation,
    /// The answers to an upstream's questions.
    Upstream {
        /// The state that the upstream wants back.
        state: Option<String>,
        /// The confirmation of the call before the upstream asked, if it needed one.
        confirmation: Option<Confirmation>,
    },
}

/// A digest of a caller, a tool with its current description, and arguments.
pub(crate) type CallIdentity = [u8; 32];

/// The waiting calls. The state that a client gets is random, valid once, and only for its call.
#[derive(Debug, Default)]
pub(crate) struct PendingElicitations(Mutex<HashMap<String, PendingElicitation>>);

#[derive(Debug)]
struct PendingElicitation {
    /// The name of the caller's key.
    key: Arc<str>,
    identity: CallIdentity,
    awaited_input: AwaitedInput,
    until: Instant,
}

impl PendingElicitations {
    /// Registers a waiting call, and returns the state that the client must send back; `None` if
    /// that is not possible. The call takes a share of the key with this name.
    pub(crate) fn register(
        &self,
        key: &str,
        identity: CallIdentity,
        awaited_input: AwaitedInput,
    ) -> Option<String> {
        let state = keys::random().ok()?;
        let now = Instant::now();
        let mut waiting = lock(&self.0);
        if waiting.len() >= MAX_WAITING {
            waiting.retain(|_, waiting| waiting.until > now);
            if waiting.len() >= MAX_WAITING && !make_room(&mut waiting, key) {
                return None;
            }
        }
        waiting.insert(
            state.clone(),
            PendingElicitation {
                key: key.into(),
                identity,
                awaited_input,
                until: now + WAIT_TIMEOUT,
            },
        );
        Some(state)
    }

    /// Removes a waiting call, and returns the awaited answer if it is the same call.
    pub(crate) fn take(&self, identity: CallIdentity, state: &str) -> Option<AwaitedInput> {
        let waiting = lock(&self.0).remove(state)?;
        let is_same = waiting.identity == identity && waiting.until > Instant::now();
        is_same.then_some(waiting.awaited_input)
    }

    /// Removes a waiting call whose client is not asked.
    pub(crate) fn remove(&self, state: &str) {
        lock(&self.0).remove(state);
    }
}

/// Removes the oldest waiting call of the key that has the most, unless that is the key that needs
/// the room.
fn make_room(waiting: &mut HashMap<String, PendingElicitation>, key: &str) -> bool {
    let keys = waiting.values().map(|waiting| &*waiting.key);
    let Some(largest) = largest_holder(keys, &key).filter(|&largest| largest != key) else {
        return false;
    };
    let of_largest = waiting
        .iter()
        .filter(|(_, waiting)| &*waiting.key == largest);
    let oldest = of_largest.min_by_key(|(_, waiting)| waiting.until);
    let Some(state) = oldest.map(|(state, _)| state.clone()) else {
        return false;
    };
    waiting.remove(&state).is_some()
}

/// Returns the identity of a call with these arguments, which are JSON.
pub(crate) fn call_identity(
    owner: &Owner,
    tool: &Tool,
    arguments: &dyn fmt::Display,
) -> CallIdentity {
    let mut digest = Sha256::new();
    for part in [
        &*owner.0,
        &tool.id,
        &tool.description,
        &arguments.to_string(),
    ] {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_with_the_most_waiting_calls_makes_room() {
        let now = Instant::now();
        let waiting_call = |key: &str, seconds| PendingElicitation {
            key: key.into(),
            identity: [0; 32],
            awaited_input: AwaitedInput::Confirmation,
            until: now + Duration::from_secs(seconds),
        };
        let mut waiting = HashMap::new();
        for (number, key) in ["greedy", "greedy", "modest"].into_iter().enumerate() {
            let seconds = 10 - number as u64;
            waiting.insert(number.to_string(), waiting_call(key, seconds));
        }
        assert!(!make_room(&mut waiting, "greedy"), "it has the most itself");
        assert!(make_room(&mut waiting, "modest"));
        assert!(waiting.contains_key("0") && !waiting.contains_key("1"));
    }
}
