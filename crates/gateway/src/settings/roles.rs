//! Settings of the roles of callers.

use picktools::Access;
use serde::Deserialize;

/// The role of callers without another role.
pub const DEFAULT_ROLE: &str = "default";

/// An access policy with a name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Role {
    /// The tools that may be seen and run. `exclude`, `quarantine` and `quotas` are not allowed in
    /// settings, because they name tools that may not exist.
    pub access: Access,
    /// Names and patterns of tools that may be neither seen nor run, such as `mail/*`.
    pub deny: Vec<String>,
    /// The treatment of calls of unsafe tools.
    #[serde(rename = "unsafe")]
    pub marked_unsafe: Unsafe,
    /// `true` for operators: they may use the console and the metrics and decide about approvals.
    pub operator: bool,
}

/// The treatment of calls of unsafe tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Unsafe {
    /// The tools are hidden.
    Deny,
    /// A person must confirm each call.
    #[default]
    Confirm,
    /// The calls run.
    Allow,
}
