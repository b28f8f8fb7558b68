//! The tools and names among which a name is looked up.

use crate::catalog::Catalog;
use crate::ranking::ToolId;

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
}
