//! Managers inside a running call, such as that of an agent.

use std::fmt;
use std::sync::Arc;

use super::super::confirmation::{Confirm, ConfirmationDecision, DecisionFuture};
use super::super::context::{Context, OuterManager};
use super::super::events::Events;
use super::builder::ToolManagerBuilder;
use super::state::ToolManager;
use picktools::access::Access;
use picktools_call::PendingCall;
use picktools_provider::ToolCall;

impl ToolManagerBuilder {
    /// Makes the manager a part of a running call. It works in the folder of the call, and its
    /// events and confirmations go to the manager that runs the call. `agent_depth` is the number
    /// of agents that may be inside each other in it.
    pub(crate) fn nested_in(
        mut self,
        outer: &Arc<dyn OuterManager>,
        context: &Context,
        agent_depth: usize,
    ) -> Self {
        self.agent_depth = agent_depth;
        self.events(Events::inside(Arc::new(context.clone())))
            .root(context.root())
            .confirm(OuterConfirmation(Arc::clone(outer)))
    }
}

impl ToolManager {
    /// Returns the access policy of the caller.
    pub fn access(&self) -> &Access {
        &self.shared.access
    }

    /// Returns the calls as [`execute_all`](Self::execute_all) runs them: a call that contains
    /// several is replaced by them.
    pub(crate) fn expand(&self, calls: Vec<ToolCall>) -> Vec<ToolCall> {
        self.hydrator.expand_parallel(calls)
    }
}

impl OuterManager for ToolManager {
    fn access(&self) -> &Access {
        &self.shared.access
    }

    fn agent_depth(&self) -> usize {
        self.shared.agent_depth
    }

    fn decide<'a>(&'a self, call: &'a PendingCall) -> DecisionFuture<'a> {
        Box::pin(async move {
            match self.decide(call.clone()).await {
                Ok(_) => ConfirmationDecision::Allow,
                Err(reason) => ConfirmationDecision::Deny(reason),
            }
        })
    }
}

impl fmt::Debug for ToolManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolManager")
            .field("tools", &self.catalog().len())
            .finish_non_exhaustive()
    }
}

/// Lets the manager that runs the call decide.
struct OuterConfirmation(Arc<dyn OuterManager>);

impl Confirm for OuterConfirmation {
    fn decide<'a>(&'a self, call: &'a PendingCall) -> DecisionFuture<'a> {
        self.0.decide(call)
    }
}
