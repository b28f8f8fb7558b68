//! The tools and names among which a name is looked up.

use super::resolution::ResolvedTool;
use crate::catalog::Catalog;
use crate::ranking::ToolId;
use crate::saved::SavedError;

/// Finds the tool that a model saw under exactly a name.
pub type ShownNames<'a> = &'a dyn Fn(&str) -> Option<ToolId>;

/// The tools that a name may mean.
#[derive(Clone, Copy)]
pub struct NameScope<'a> {
    /// The catalog of the table.
    pub catalog: &'a Catalog,
    /// The shown names; `None` if the model saw the canonical names.
    pub shown: Option<ShownNames<'a>>,
    /// `true` if clients may put their own name for picktools before a shown name, as in
    /// `mcp__picktools__read_file`.
    pub has_client_prefix: bool,
    /// Returns `true` if a name may mean the tool.
    pub may_mean: &'a dyn Fn(ToolId) -> bool,
    /// Returns `true` if the tool may be suggested for an unknown name.
    pub may_suggest: &'a dyn Fn(ToolId) -> bool,
}

impl<'a> NameScope<'a> {
    /// Creates the scope of all tools of a catalog, under their canonical names.
    pub fn all(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            shown: None,
            has_client_prefix: false,
            may_mean: &|_| true,
            may_suggest: &|_| true,
        }
    }

    pub(super) fn is_untrusted(&self, found: ResolvedTool) -> Result<bool, SavedError> {
        Ok(self.catalog.outline(found.tool)?.untrusted)
    }

    pub(super) fn count_untrusted(&self, found: &[ResolvedTool]) -> Result<usize, SavedError> {
        let mut untrusted = 0;
        for tool in found {
            untrusted += usize::from(self.is_untrusted(*tool)?);
        }
        Ok(untrusted)
    }

    /// Returns `true` if a name is the id or the qualified name of a tool.
    pub(super) fn has_id(&self, tool: ToolId, name: &str) -> Result<bool, SavedError> {
        if self.catalog.tool_id(tool) == name {
            return Ok(true);
        }
        Ok(name.contains('/') && self.catalog.outline(tool)?.qualified_name() == name)
    }
}
