//! Authorising a call: the caller's role may use the tool, and a server of the gateway runs it.

use std::sync::Arc;

use picktools_provider::ToolCall;

use super::runner::CallRunner;
use crate::refusal::{Code, Refusal};
use crate::registry::FIRST_LISTING_TIMEOUT;
use crate::snapshot::{Snapshot, View};
use crate::upstream::Upstream;

/// The upstream of a call that its caller may make.
pub(super) struct AuthorisedCall {
    /// The snapshot with the current definition of the tool.
    pub(super) snapshot: Arc<Snapshot>,
    /// The view of the caller's role.
    pub(super) view: Arc<View>,
    pub(super) upstream: Arc<Upstream>,
}

impl CallRunner<'_> {
    /// Authorises a call, and waits until its upstream has listed its tools since the start.
    pub(super) async fn authorise(
        &self,
        mut snapshot: Arc<Snapshot>,
        mut view: Arc<View>,
        call: &ToolCall,
    ) -> Result<AuthorisedCall, Refusal> {
        loop {
            let tool = view
                .find_tool(&call.name)
                .map_err(Refusal::from_call_error)?;
            let source = tool.source.as_deref().unwrap_or_default();
            let Some(upstream) = self.gateway.upstreams.find(source) else {
                let message = format!(
                    "{} comes from a catalog, and no server of this gateway runs it",
                    call.name
                );
                return Err(Refusal::new(Code::NotCarried, message));
            };
            let has_waited = self
                .gateway
                .upstreams
                .wait_for_live_tools(&upstream, FIRST_LISTING_TIMEOUT)
                .await?;
            if !has_waited {
                return Ok(AuthorisedCall {
                    snapshot,
                    view,
                    upstream,
                });
            }
            // In the new list, the name may be that of another tool.
            snapshot = self.gateway.registry.snapshot();
            view = snapshot.view(&self.caller.role)?;
        }
    }
}
