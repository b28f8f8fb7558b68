//! Checks of a call that was validated earlier, against the current definitions and access.

use std::sync::Arc;

use picktools::ToolId;
use picktools::catalog::{Effects, NoSchemaMode};

use super::definition::changed_members;
use super::{CallError, HydratedCall, Hydrator, PendingCall, PendingReason, ValidCall};

impl Hydrator {
    /// Checks a call again that was validated earlier, maybe by another hydrator.
    ///
    /// The tool must be in this catalog with the same definition, and this caller must be allowed
    /// to call it. The policy decides again if the call has to wait. A call that waited still
    /// waits, and a confirmed call waits only for a reason that its confirmation does not cover.
    ///
    /// # Errors
    ///
    /// [`CallError::Removed`] or [`CallError::Changed`] if the definition is not the one of the
    /// call, and those of [`Hydrator::hydrate`] about access and size.
    pub fn revalidate(&self, call: HydratedCall) -> Result<HydratedCall, CallError> {
        let (call, awaited) = match call {
            HydratedCall::Ready(call) => (call, None),
            HydratedCall::NeedsApproval(pending) => (pending.call, Some(pending.awaits)),
        };
        let id = self.find_unchanged(&call)?;
        self.check_size(&call.tool, &call.arguments)?;
        let tool = Arc::clone(self.tool(id));
        self.apply_policy(ValidCall { tool, ..call }, awaited)
    }

    /// Finds the tool of a call in this catalog.
    fn find_unchanged(&self, call: &ValidCall) -> Result<ToolId, CallError> {
        let tool = &call.tool.id;
        let id = self.callable.catalog.find(tool);
        let Some(id) = id.filter(|&id| self.was_shown(id)) else {
            return Err(CallError::Removed { tool: tool.clone() });
        };
        self.check_access(id)?;
        let current = self.tool(id);
        let members = changed_members(&call.tool, current);
        if members.is_empty() {
            return Ok(id);
        }
        Err(CallError::Changed {
            tool: tool.clone(),
            members,
        })
    }

    /// Applies the policy to a call with valid arguments. `awaited` is the reason for which it
    /// waited before.
    pub(super) fn apply_policy(
        &self,
        call: ValidCall,
        awaited: Option<PendingReason>,
    ) -> Result<HydratedCall, CallError> {
        let is_read_only = call.no_schema_mode == Some(NoSchemaMode::ReadOnly);
        if is_read_only && call.tool.effects() == Effects::Writes {
            return Err(CallError::NotReadOnly {
                tool: call.tool.id.clone(),
            });
        }
        let access = &self.callable.access;
        let required = PendingReason::from_policy(&call.tool, access, call.no_schema_mode);
        let confirmation = call.confirmation.as_ref();
        let is_confirmed =
            |reason: &PendingReason| confirmation.is_some_and(|known| known.covers(reason));
        Ok(match required.or(awaited) {
            Some(reason) if !is_confirmed(&reason) => {
                HydratedCall::NeedsApproval(PendingCall::new(call, reason))
            }
            _ => HydratedCall::Ready(call),
        })
    }
}
