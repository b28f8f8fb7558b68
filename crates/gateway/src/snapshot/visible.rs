//! The decision which tools of a catalog a role may know. Everything that a caller reaches uses the
//! catalog of this decision, so a hidden tool is a missing tool.

use std::collections::BTreeSet;

use picktools::access::{AccessError, IneligibleReason};
use picktools::engine::IndexError;
use picktools::names::NameTable;
use picktools::{Access, Catalog, Engine};

/// The tools of a catalog that a role may know.
pub struct VisibleTools {
    /// The catalog without the other tools.
    pub catalog: Catalog,
    /// The access policy of the role in this catalog. It names no other tool.
    pub access: Access,
}

impl VisibleTools {
    /// Decides on the tools of a catalog. `access` is the complete access policy of the role.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if the policy is invalid for the catalog.
    pub fn new(catalog: &Catalog, access: &Access) -> Result<Self, AccessError> {
        let eligibility = access.decide(catalog, &NameTable::new(catalog)?)?;
        let is_visible = |id| !eligibility.reasons(id).iter().any(hides);
        let mut catalog = catalog.clone();
        if !catalog.ids().all(is_visible) {
            let mut ids = catalog.ids();
            catalog = catalog.filtered(|_| ids.next().is_some_and(is_visible))?;
        }
        let mut access = Access {
            exclude: BTreeSet::new(),
            deny_sources: BTreeSet::new(),
            ..access.clone()
        };
        access.quarantine.retain(|id| catalog.find(id).is_some());
        Ok(Self { catalog, access })
    }

    /// Returns the engine that picks among these tools. `complete` is the engine of the catalog that
    /// they come from.
    ///
    /// # Errors
    ///
    /// [`IndexError`] if a model fails on a tool.
    pub fn engine(&self, complete: &Engine) -> Result<Engine, IndexError> {
        if self.catalog.len() == complete.catalog().len() {
            return Ok(complete.clone());
        }
        complete.with_catalog(self.catalog.clone())
    }
}

/// Returns `true` if a role may not know a tool that is ineligible for this reason. Unsafe tools are
/// ineligible only for roles with `"unsafe": "deny"`.
fn hides(reason: &IneligibleReason) -> bool {
    use IneligibleReason::{Excluded, Role, Source, Unsafe};
    matches!(reason, Role { .. } | Source { .. } | Excluded | Unsafe)
}
