//! What a caller may be told of a selection: nothing of tools that are not there for it.

use picktools::access::AccessError;
use picktools::{PickOptions, Selection};
use picktools_gateway::refusal::is_hidden;
use picktools_gateway::snapshot::View;

use crate::problem::Problem;

/// What a caller asks for, within what its role allows. Names are looked up in what it may see
/// alone, so that no error and no suggestion tells of anything else.
pub(crate) fn within(view: &View, asked: PickOptions) -> Result<PickOptions, Problem> {
    let named = [
        (
            "options.always_include",
            &mut asked.always_include.iter() as &mut dyn Iterator<Item = &String>,
        ),
        ("options.access.exclude", &mut asked.access.exclude.iter()),
        (
            "options.access.quarantine",
            &mut asked.access.quarantine.iter(),
        ),
        ("options.access.quotas", &mut asked.access.quotas.keys()),
    ];
    for (place, names) in named {
        for name in names {
            view.tool_of(name)
                .map_err(|error| Problem::invalid(error.to_string()).at(place))?;
        }
    }
    let access = asked
        .access
        .within(&view.options.access)
        .map_err(|error| match error {
            AccessError::NotWithin { .. } => Problem::new(
                axum::http::StatusCode::FORBIDDEN,
                "not_allowed",
                error.to_string(),
            ),
            error => Problem::invalid(error.to_string()),
        });
    let access = access.map_err(|problem| problem.at("options.access"))?;
    let limits = &view.options;
    let max_per_source = [asked.max_per_source, limits.max_per_source]
        .into_iter()
        .flatten()
        .min();
    // Which sources are the operator's own is for the operator to say.
    let trusted_sources = match asked.max_per_source {
        Some(_) => asked
            .trusted_sources
            .intersection(&limits.trusted_sources)
            .cloned()
            .collect(),
        None => limits.trusted_sources.clone(),
    };
    let timeout = asked
        .timeout
        .unwrap_or(super::pick::TIME)
        .min(super::pick::TIME);
    Ok(PickOptions {
        access,
        max_per_source,
        trusted_sources,
        timeout: Some(timeout),
        ..asked
    })
}

/// Takes out of a selection what tells of tools that are not there for the caller. What is not
/// eligible is then counted among the tools that are listed.
pub(super) fn hide(view: &View, selection: &mut Selection) {
    if !view.hides {
        return;
    }
    let is_there = |id: &str| !view.is_hidden(id);
    let ineligible = &mut selection.ineligible;
    ineligible
        .tools
        .retain(|tool| is_there(&tool.tool_id) && !is_hidden(&tool.reasons));
    ineligible.total = ineligible.tools.len();
    ineligible.counts.clear();
    for reason in ineligible.tools.iter().flat_map(|tool| &*tool.reasons) {
        *ineligible.counts.entry(reason.code()).or_default() += 1;
    }
    selection.blocked = selection
        .blocked
        .take()
        .filter(|blocked| is_there(&blocked.tool_id));
    selection
        .deprecated_aliases
        .retain(|alias| is_there(&alias.tool_id));
    selection
        .dropped
        .retain(|dropped| is_there(&dropped.tool_id));
    // Whether a name is no tool, or one that is not for the caller, must look the same.
    selection.unknown_in_use.clear();
    selection.unknown_values.clear();
    for pick in selection.picks.iter_mut().chain(&mut selection.required) {
        pick.same_as.retain(|id| is_there(id));
    }
}
