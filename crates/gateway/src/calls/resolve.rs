//! Resolving a call: from the name that a model wrote to the tool that it means.

use std::sync::Arc;

use picktools::Tool;
use picktools_provider::ToolCall;

use crate::refusal::Refusal;
use crate::snapshot::View;

/// A call with the tool that it means.
pub(super) struct ResolvedCall {
    /// The name that the caller requested.
    pub(super) requested: String,
    /// The call; of a tool of several accounts, that of the right account.
    pub(super) call: ToolCall,
    /// The tool, if the name is known.
    pub(super) tool: Option<Arc<Tool>>,
    /// `true` if the name is a deprecated alias of the tool.
    pub(super) is_deprecated: bool,
    /// The reason why it is unknown which account the call means.
    refusal: Option<Refusal>,
}

impl ResolvedCall {
    /// Resolves a call.
    pub(super) fn new(view: &View, call: ToolCall) -> Self {
        let requested = call.name.clone();
        let (call, refusal) = match view.merged.route(call.clone()) {
            Ok(routed) => (routed, None),
            Err(refusal) => (call, Some(refusal)),
        };
        let resolved = view.hydrator.resolve(&call.name).ok();
        let resolved = resolved.filter(|_| refusal.is_none());
        let tool = resolved.map(|resolved| view.hydrator.tool(resolved.tool));
        let tool = tool.cloned();
        Self {
            requested,
            call,
            tool,
            is_deprecated: resolved.is_some_and(|resolved| resolved.deprecated),
            refusal,
        }
    }

    /// Returns the call, unless it is unknown which account it means.
    pub(super) fn routed(&mut self) -> Result<&ToolCall, Refusal> {
        match self.refusal.take() {
            None => Ok(&self.call),
            Some(refusal) => Err(refusal),
        }
    }
}
