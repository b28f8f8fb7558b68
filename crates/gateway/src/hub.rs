//! The state that all clients of a gateway share, by its owners.

use std::sync::Arc;

use picktools_call::Repairer;
use picktools_state::StateStore;

use crate::active_requests::ActiveRequests;
use crate::approvals::Approvals;
use crate::elicitations::PendingElicitations;
use crate::journal::Journal;
use crate::large_results::LargeResults;
use crate::metrics::Meter;
use crate::registry::Registry;
use crate::repairs::WaitingRepairs;
use crate::sessions::Sessions;
use crate::snapshot::View;
use crate::upstream::{Environment, Owner, ServerDown};
use crate::upstreams::Upstreams;

/// The state that all clients of a gateway share.
pub struct Hub {
    /// The servers behind the gateway.
    pub upstreams: Upstreams,
    /// The tools of the gateway.
    pub registry: Registry,
    /// The approvals of definitions and of calls.
    pub approvals: Approvals,
    /// The state of calls that outlives their requests.
    pub(crate) calls: CallState,
    /// The requests under way, which the gateway finishes before it ends.
    pub active: ActiveRequests,
    /// The sessions of all gateways.
    pub sessions: Option<Sessions>,
    /// The store for shared state other than approvals and calls.
    pub store: Option<StateStore>,
    /// The receiver of events.
    pub meter: Arc<dyn Meter>,
    /// The journal of decisions.
    pub journal: Journal,
    /// The environment, for provider keys and for the programs of servers.
    pub environment: Arc<Environment>,
}

/// The state of calls that outlives their requests.
pub(crate) struct CallState {
    /// The calls that wait for an answer of their client.
    pub(crate) elicitations: PendingElicitations,
    /// The results of which clients read the rest.
    pub(crate) large_results: LargeResults,
    /// Rewrites invalid arguments.
    pub(crate) repairer: Option<Arc<dyn Repairer>>,
    /// The repairs of calls that are pending approval.
    pub(crate) waiting_repairs: WaitingRepairs,
}

impl CallState {
    /// Creates the state before the first call.
    pub(crate) fn new(repairer: Option<Arc<dyn Repairer>>) -> Self {
        Self {
            elicitations: PendingElicitations::default(),
            large_results: LargeResults::default(),
            repairer,
            waiting_repairs: WaitingRepairs::default(),
        }
    }
}

impl Hub {
    /// Returns the servers that cannot be used and that the role of a view may know.
    pub fn servers_down(&self, view: &View) -> Vec<ServerDown> {
        let mut down = Vec::new();
        for upstream in self.upstreams.all() {
            let server = &upstream.server.name;
            if !view.servers.may_know(server) {
                continue;
            }
            match upstream.server_down() {
                None if self.is_starting(server) => {
                    down.push(ServerDown::starting(server, self.upstreams.started()));
                }
                state => down.extend(state),
            }
        }
        down
    }

    /// Returns `true` if a server has sent no tools yet, and has not failed either.
    fn is_starting(&self, server: &str) -> bool {
        if self.registry.is_complete() || self.upstreams.live_result(server).is_some() {
            return false;
        }
        let snapshot = self.registry.snapshot();
        let catalog = snapshot.engine.catalog();
        !catalog
            .ids()
            .any(|tool| catalog.source(tool) == Some(server))
    }

    /// Forgets the state of an owner.
    pub(crate) fn forget(&self, owner: &Owner) {
        self.approvals.sessions.forget(owner);
        self.upstreams.forget(owner);
    }
}
