//! Calls that wait for a client's answer in a later request, as 2026-07-28 has it: a result says
//! what is asked, and the client sends the call again with the answers.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use picktools_call::ValidCall;
use picktools_state::{keys, lock};
use rmcp::model::InputResponses;
use sha2::{Digest, Sha256};

use crate::upstream::Owner;

/// How long a call waits.
const TIME: Duration = Duration::from_secs(300);
/// The most that wait.
const MAX_WAITING: usize = 10_000;

/// The answers that a client sends with a call that it sends again.
#[derive(Debug, Default)]
pub struct Again {
    pub(crate) answers: InputResponses,
    pub(crate) state: Option<String>,
}

/// What a call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// That a person allows it.
    Confirmation,
    /// What its upstream asks, with what the upstream wants to see again.
    Upstream(Option<String>),
}

/// The calls that wait. What a client is given says nothing, is good once, and only for the call
/// that it was given for.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Mutex<HashMap<String, Waiting>>);

#[derive(Debug)]
struct Waiting {
    of: [u8; 32],
    awaits: Awaits,
    until: Instant,
}

impl Rounds {
    /// Lets a call wait, and returns what the client is to send with it again; `None` where that
    /// cannot be.
    pub(crate) fn wait(&self, owner: &Owner, call: &ValidCall, awaits: Awaits) -> Option<String> {
        let state = keys::random().ok()?;
        let now = Instant::now();
        let mut waiting = lock(&self.0);
        if waiting.len() >= MAX_WAITING {
            waiting.retain(|_, waiting| waiting.until > now);
            if waiting.len() >= MAX_WAITING {
                return None;
            }
        }
        waiting.insert(
            state.clone(),
            Waiting {
                of: identity(owner, call),
                awaits,
                until: now + TIME,
            },
        );
        Some(state)
    }

    /// Returns what a call waited for, if it is this one.
    pub(crate) fn take(&self, owner: &Owner, call: &ValidCall, state: &str) -> Option<Awaits> {
        let waiting = lock(&self.0).remove(state)?;
        let is_it = waiting.of == identity(owner, call) && waiting.until > Instant::now();
        is_it.then_some(waiting.awaits)
    }
}

/// Who calls which tool, as it is defined now, with what.
pub(crate) fn identity(owner: &Owner, call: &ValidCall) -> [u8; 32] {
    let tool = call.tool();
    let mut digest = Sha256::new();
    for part in [
        &*owner.0,
        &tool.id,
        &tool.description,
        &call.arguments().to_string(),
    ] {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}
