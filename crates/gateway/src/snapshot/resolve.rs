//! The resolution of names that models write, for every path that accepts a name.

use std::borrow::Cow;
use std::sync::Arc;

use picktools::Tool;
use picktools_call::CallError;

use super::View;
use crate::naming;

impl View {
    /// Returns the id of a tool for the caller. The id of a quarantined tool is shortened if its
    /// name could be a text for the model.
    pub fn public_id<'i>(&self, id: &'i str) -> Cow<'i, str> {
        if self.options.access.quarantine.contains(id) {
            return naming::quarantined_id(id);
        }
        Cow::Borrowed(id)
    }

    /// Finds the tool for a name; see [`Hydrator::resolve`](picktools_call::Hydrator::resolve).
    ///
    /// # Errors
    ///
    /// [`CallError`] if no tool matches, several tools match, or the tool is visible but not
    /// eligible.
    pub fn find_tool(&self, name: &str) -> Result<&Arc<Tool>, CallError> {
        self.hydrator.find_tool(name)
    }
}
