//! The tool that a called name means, if the caller may run it.

use picktools::ToolId;
use picktools::excerpt::{cut, escape, marked, shows};
use picktools::names::{NameScope, Resolution, ResolvedTool, ResolvedVia, log_unknown};
use picktools_provider::Provider;

use super::{CallError, Hydrator};

impl Hydrator {
    /// Resolves a called name to a tool that the caller may run. Names that the model was shown
    /// take precedence.
    pub fn resolve(&self, name: &str) -> Result<ResolvedTool, CallError> {
        self.resolve_unlogged(name).inspect_err(|error| {
            if let CallError::UnknownTool { name, .. } = error {
                log_unknown(name);
            }
        })
    }

    pub(super) fn resolve_unlogged(&self, name: &str) -> Result<ResolvedTool, CallError> {
        let resolved = self.find(name)?;
        if !self.was_shown(resolved.tool) {
            return Err(CallError::UnknownTool {
                name: marked(name, 100).into_owned(),
                suggestions: Vec::new(),
            });
        }
        self.check_access(resolved.tool)?;
        Ok(resolved)
    }

    /// Checks that the access policy of the caller allows the tool.
    pub(super) fn check_access(&self, id: ToolId) -> Result<(), CallError> {
        if self.callable.eligibility.admits(id) {
            return Ok(());
        }
        Err(CallError::Ineligible {
            tool: self.tool(id).id.clone(),
            reasons: self.callable.eligibility.reasons(id),
        })
    }

    fn find(&self, name: &str) -> Result<ResolvedTool, CallError> {
        let requested = || marked(name, 100).into_owned();
        let is_invisible = |c: char| c != ' ' && !shows(c);
        let shown = |name: &str| self.advertised.get(name).copied();
        let scope = NameScope {
            catalog: &self.callable.catalog,
            shown: self.provider.is_some().then_some(&shown),
            has_client_prefix: self.provider == Some(Provider::Mcp),
            may_mean: &|tool| self.was_shown(tool) || self.is_quarantined(tool),
            may_suggest: &|tool| self.admits(tool),
        };
        let resolution = self.callable.names.resolve_in(name, &scope);
        match resolution.expect("all definitions are in memory") {
            Resolution::Tool(resolved) if resolved.via != ResolvedVia::Normalised => Ok(resolved),
            Resolution::Tool(resolved) => match name.trim().chars().find(|&c| is_invisible(c)) {
                None => Ok(resolved),
                Some(invisible) => Err(CallError::HiddenCharacter {
                    name: cut(&escape(name, is_invisible), 100).into_owned(),
                    character: format!("U+{:04X}", u32::from(invisible)),
                }),
            },
            Resolution::Ambiguous(tools) => {
                let mut candidates = Vec::with_capacity(tools.len());
                for tool in tools {
                    candidates.push(self.tool(tool).id.clone());
                }
                Err(CallError::AmbiguousTool {
                    name: requested(),
                    candidates,
                })
            }
            Resolution::Unknown { suggestions } => Err(CallError::UnknownTool {
                name: requested(),
                suggestions,
            }),
        }
    }
}
