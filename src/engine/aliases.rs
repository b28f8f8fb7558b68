//! By which aliases a pick uses tools: each is logged, and the deprecated ones are told.

use super::request::Request;
use crate::names::{Resolved, ResolvedVia, log_use};
use crate::select::{Decision, picks};
use crate::selection::{AskedBy, DeprecatedAlias};

/// The most deprecated aliases that are told.
const MAX_TOLD: usize = 50;

/// Returns the deprecated aliases that the request, the caller, the task, the picked skills
/// (`of_skills`) and the picks name tools by, each once per user.
pub(super) fn used(
    request: &Request<'_>,
    of_skills: &[&str],
    decisions: &[Decision],
) -> Vec<DeprecatedAlias> {
    let catalog = &request.index.catalog;
    let access = &request.options.access;
    let mut told: Vec<DeprecatedAlias> = Vec::new();
    let mut look_at = |name: &str, used_by: AskedBy| {
        for &Resolved {
            tool,
            via,
            deprecated,
        } in request.index.names.owners(name)
        {
            if via == ResolvedVia::Name {
                continue;
            }
            let tool = catalog.tool(tool);
            log_use(name, None, tool, deprecated);
            let found = DeprecatedAlias {
                alias: name.to_owned(),
                tool_id: tool.id.clone(),
                used_by,
            };
            if deprecated && told.len() < MAX_TOLD && !told.contains(&found) {
                told.push(found);
            }
        }
    };
    request
        .mentions
        .iter()
        .for_each(|mention| look_at(&mention.name, AskedBy::Request));
    let excluded = access
        .exclude
        .iter()
        .chain(access.quotas.keys())
        .chain(&access.quarantine);
    request
        .options
        .always_include
        .iter()
        .chain(excluded)
        .for_each(|name| look_at(name, AskedBy::Caller));
    request
        .in_use
        .tools
        .values()
        .for_each(|name| look_at(name, AskedBy::Task));
    of_skills
        .iter()
        .for_each(|name| look_at(name, AskedBy::Skill));
    for (tool, _) in picks(decisions) {
        catalog
            .tool(tool)
            .requires
            .iter()
            .for_each(|name| look_at(name, AskedBy::Tool));
    }
    told
}
