//! Repairs of calls that wait for a person. A client sends such a call again with its original
//! arguments, which a language model may correct differently the second time.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use picktools::Tool;
use picktools_call::{FaultyCall, RepairFuture, Repairer};
use picktools_provider::Arguments;
use picktools_state::lock;

use crate::elicitations::{CallIdentity, call_identity};
use crate::queue::{PENDING_S, VALID_S};
use crate::upstream::Owner;

/// The time for which a repair is kept: as long as a call and the decision about it.
const KEEP_TIME: Duration = Duration::from_secs(PENDING_S + VALID_S);
/// The most repairs that are kept.
const MAX_REPAIRS: usize = 1_000;

/// The repaired arguments of waiting calls, by the identities of the calls as they were sent.
#[derive(Debug, Default)]
pub(crate) struct WaitingRepairs(Mutex<HashMap<CallIdentity, WaitingRepair>>);

#[derive(Debug)]
struct WaitingRepair {
    /// The arguments as JSON text.
    arguments: String,
    until: Instant,
}

impl WaitingRepairs {
    fn find(&self, identity: CallIdentity) -> Option<String> {
        let repairs = lock(&self.0);
        let repair = repairs.get(&identity)?;
        (repair.until > Instant::now()).then(|| repair.arguments.clone())
    }

    /// Adds a repair. If there are too many, the oldest one is removed.
    fn add(&self, identity: CallIdentity, arguments: String) {
        let mut repairs = lock(&self.0);
        if repairs.len() >= MAX_REPAIRS {
            let oldest = repairs.iter().min_by_key(|(_, repair)| repair.until);
            if let Some(identity) = oldest.map(|(identity, _)| *identity) {
                repairs.remove(&identity);
            }
        }
        let until = Instant::now() + KEEP_TIME;
        repairs.insert(identity, WaitingRepair { arguments, until });
    }

    /// Removes the repair of a call that does not wait.
    pub(crate) fn remove(&self, identity: CallIdentity) {
        lock(&self.0).remove(&identity);
    }
}

/// Returns the identity of a call as it was sent.
pub(crate) fn sent_identity(owner: &Owner, tool: &Tool, arguments: &Arguments) -> CallIdentity {
    match arguments {
        Arguments::Text(text) => call_identity(owner, tool, text),
        Arguments::Json(value) => call_identity(owner, tool, value),
    }
}

/// A repairer that repairs a waiting call in the same way each time.
pub(crate) struct SameRepairer<'a> {
    pub(crate) repairer: &'a dyn Repairer,
    pub(crate) waiting: &'a WaitingRepairs,
    pub(crate) owner: &'a Owner,
}

impl Repairer for SameRepairer<'_> {
    fn name(&self) -> &str {
        self.repairer.name()
    }

    fn repair<'a>(&'a self, call: FaultyCall<'a>) -> RepairFuture<'a> {
        Box::pin(async move {
            let identity = call_identity(self.owner, call.tool, &call.arguments);
            if let Some(arguments) = self.waiting.find(identity) {
                return Ok(arguments);
            }
            let arguments = self.repairer.repair(call).await?;
            self.waiting.add(identity, arguments.clone());
            Ok(arguments)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_repair_makes_room() {
        let repairs = WaitingRepairs::default();
        let identity = |number: usize| {
            let mut identity = [0; 32];
            identity[..8].copy_from_slice(&number.to_le_bytes());
            identity
        };
        for number in 0..=MAX_REPAIRS {
            repairs.add(identity(number), number.to_string());
        }
        assert_eq!(repairs.find(identity(0)), None);
        assert_eq!(repairs.find(identity(1)), Some("1".to_owned()));
        assert_eq!(lock(&repairs.0).len(), MAX_REPAIRS);
    }
}
