//! The aliases that a pick uses: each use is logged, and deprecated aliases are reported.

use super::request::ResolvedRequest;
use crate::names::{ResolvedTool, ResolvedVia, log_use};
use crate::saved::SavedError;
use crate::select::{Decision, picks};
use crate::selection::{DeprecatedAlias, NameOrigin};

/// The largest number of deprecated aliases that are reported.
const MAX_REPORTED: usize = 50;

/// Returns the deprecated aliases that the request, the caller, the task, the picked skills
/// (`skill_tool_names`) and the picks use for tools, each once per user.
pub(super) fn deprecated_aliases(
    request: &ResolvedRequest<'_>,
    skill_tool_names: &[&str],
    decisions: &[Decision],
) -> Result<Vec<DeprecatedAlias>, SavedError> {
    let catalog = &request.index.catalog;
    let access = &request.options.access;
    let mut aliases: Vec<DeprecatedAlias> = Vec::new();
    let mut record_use = |name: &str, used_by: NameOrigin| {
        for &ResolvedTool {
            tool,
            via,
            deprecated,
        } in request.index.names.owners(name)
        {
            if via == ResolvedVia::Name {
                continue;
            }
            let tool = catalog.tool(tool)?;
            log_use(name, None, tool, deprecated);
            let alias = DeprecatedAlias {
                alias: name.to_owned(),
                tool_id: tool.id.clone(),
                used_by,
            };
            if deprecated && aliases.len() < MAX_REPORTED && !aliases.contains(&alias) {
                aliases.push(alias);
            }
        }
        Ok::<(), SavedError>(())
    };
    for mention in &request.named.mentions {
        record_use(&mention.name, NameOrigin::Request)?;
    }
    let options = request.options;
    let included = options.always_include.iter().chain(&options.fallbacks);
    // A pattern uses no alias, even if an alias is similar to it.
    let names = &request.index.names;
    for name in included.chain(access.named_tools().map(|(_, name)| name)) {
        if !names.is_pattern(name) {
            record_use(name, NameOrigin::Caller)?;
        }
    }
    for name in request.named.in_use.tools.values() {
        record_use(name, NameOrigin::Task)?;
    }
    for name in skill_tool_names {
        if !names.is_pattern(name) {
            record_use(name, NameOrigin::Skill)?;
        }
    }
    for (tool, _) in picks(decisions) {
        for name in &catalog.tool(tool)?.requires {
            record_use(name, NameOrigin::Tool)?;
        }
    }
    Ok(aliases)
}
