//! The state that the handlers share.

use std::sync::Arc;

use picktools_gateway::hub::Hub;
use picktools_gateway::snapshot::{Snapshot, View};

use crate::problem::Problem;

/// The state that the handlers share.
pub(crate) struct Api {
    pub(super) hub: Arc<Hub>,
}

impl Api {
    /// Returns the current snapshot, and the view of a role.
    ///
    /// A request waits a short time for upstreams that have not listed their tools yet.
    pub(super) async fn view(&self, role: &str) -> Result<(Arc<Snapshot>, Arc<View>), Problem> {
        self.hub.registry.wait_for_listings().await;
        let snapshot = self.hub.registry.snapshot();
        let view = snapshot.view(role)?;
        Ok((snapshot, view))
    }
}
