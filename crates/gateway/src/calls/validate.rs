//! Validating a call against the tool's definition, after repairs of its arguments.

use picktools_call::{HydratedCall, PendingCall, PendingReason};
use picktools_provider::ToolCall;

use super::runner::CallRunner;
use crate::refusal::{Code, Refusal};
use crate::relay::cancelled_by;
use crate::repairs::SameRepairer;
use crate::settings::Unsafe;
use crate::snapshot::View;

impl CallRunner<'_> {
    /// Validates a call, and lets the repairer rewrite invalid arguments once. A call of an unsafe
    /// tool needs an approval, if the role asks for one.
    pub(super) async fn validate(
        &self,
        view: &View,
        call: &ToolCall,
    ) -> Result<HydratedCall, Refusal> {
        let calls = &self.gateway.calls;
        let hydrated = match &calls.repairer {
            None => view.hydrator.hydrate(call),
            Some(repairer) => {
                let repairer = SameRepairer {
                    repairer: repairer.as_ref(),
                    waiting: &calls.waiting_repairs,
                    owner: &self.caller.owner,
                };
                tokio::select! {
                    biased;
                    hydrated = view.hydrator.hydrate_with(call, &repairer) => hydrated,
                    () = cancelled_by(self.context) => {
                        return Err(Refusal::new(Code::Cancelled, "the call was cancelled"));
                    }
                }
            }
        };
        match hydrated.map_err(Refusal::from_call_error)? {
            HydratedCall::Ready(call)
                if call.tool().is_unsafe() && view.marked_unsafe == Unsafe::Confirm =>
            {
                let pending = PendingCall::new(call, PendingReason::Confirmation);
                Ok(HydratedCall::NeedsApproval(pending))
            }
            other => Ok(other),
        }
    }
}
