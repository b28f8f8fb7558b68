//! The state of a tool manager, and of its running calls.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use picktools::access::Access;
use picktools_call::{Hydrator, Repairer};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::super::changes::TurnChanges;
use super::super::confirmation::{Approvals, Confirm};
use super::super::events::Events;
use super::super::files::FileLedger;
use super::super::folders::SessionFolders;
use super::super::lock;
use super::super::tool::RunnableTool;
use super::super::turn::TurnCalls;

/// The tools that one caller can run, with the state of the calls so far. Clones share both.
///
/// It needs a Tokio runtime, which provides timers, processes and sockets to the tools.
#[derive(Clone)]
pub struct ToolManager {
    pub(super) hydrator: Hydrator,
    pub(super) shared: Arc<ManagerState>,
}

pub(super) struct ManagerState {
    /// The tools by id.
    pub(super) runners: HashMap<String, Arc<dyn RunnableTool>>,
    pub(super) confirm: Option<Box<dyn Confirm>>,
    /// Rewrites invalid arguments.
    pub(super) repairer: Option<Box<dyn Repairer>>,
    pub(super) approvals: Approvals,
    pub(super) events: Events,
    pub(super) files: FileLedger,
    pub(super) changes: TurnChanges,
    pub(super) folders: SessionFolders,
    pub(super) turn: TurnCalls,
    pub(super) root: Arc<Path>,
    pub(super) time_limit: Duration,
    pub(super) running: Semaphore,
    /// The name of the manager in its events.
    pub(super) name: Option<Arc<str>>,
    pub(super) access: Access,
    /// The number of agents that may be inside each other.
    pub(super) agent_depth: usize,
    /// The cancellation tokens of the running calls, by call id.
    pub(super) cancellations: Mutex<HashMap<String, CancellationToken>>,
}

/// A running call. When dropped, it is cancelled and its token is removed.
pub(super) struct RunningCall<'a> {
    pub(super) shared: &'a ManagerState,
    pub(super) call_id: String,
    pub(super) cancellation: CancellationToken,
}

impl<'a> RunningCall<'a> {
    pub(super) fn new(shared: &'a ManagerState) -> Self {
        let call_id = shared.events.next_call_id();
        let cancellation = CancellationToken::new();
        lock(&shared.cancellations).insert(call_id.clone(), cancellation.clone());
        Self {
            shared,
            call_id,
            cancellation,
        }
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.cancellation.cancel();
        lock(&self.shared.cancellations).remove(&self.call_id);
    }
}
