//! The limits of a caller's role: pick options, and the ids of quarantined tools in selections.

use std::borrow::Cow;
use std::time::Duration;

use picktools::access::AccessError;
use picktools::names::is_glob;
use picktools::{PickOptions, Selection};
use picktools_gateway::snapshot::View;

use crate::problem::Problem;

/// The largest timeout of a pick.
const MAX_PICK_TIME: Duration = Duration::from_secs(5);

/// Restricts the requested options to those that the caller's role allows.
///
/// Tool names are looked up in the view of the role only. So no error and no suggestion reveals
/// another tool.
pub(crate) fn restrict_options(
    view: &View,
    requested: PickOptions,
) -> Result<PickOptions, Problem> {
    let look_up = |name: &str, place: String| {
        let found = view.find_tool(name).map(drop);
        found.map_err(|error| Problem::invalid(error.to_string()).at(place))
    };
    for (option, names) in requested.floors() {
        // A pattern matches tools of the view only, so it is not looked up.
        for name in names.iter().filter(|name| !is_glob(name)) {
            look_up(name, format!("options.{option}"))?;
        }
    }
    for (field, name) in requested.access.named_tools() {
        if !is_glob(name) {
            look_up(name, format!("options.access.{field}"))?;
        }
    }
    let access = requested
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
    let max_per_source = [requested.max_per_source, limits.max_per_source]
        .into_iter()
        .flatten()
        .min();
    // Only the operator decides which sources are trusted.
    let trusted_sources = match requested.max_per_source {
        Some(_) => requested
            .trusted_sources
            .intersection(&limits.trusted_sources)
            .cloned()
            .collect(),
        None => limits.trusted_sources.clone(),
    };
    let timeout = requested
        .timeout
        .unwrap_or(MAX_PICK_TIME)
        .min(MAX_PICK_TIME);
    let mut always_include = requested.always_include;
    for id in &limits.always_include {
        if !always_include.contains(id) {
            always_include.push(id.clone());
        }
    }
    let mut fallbacks = requested.fallbacks;
    if fallbacks.is_empty() {
        fallbacks.clone_from(&limits.fallbacks);
    }
    Ok(PickOptions {
        always_include,
        fallbacks,
        access,
        max_per_source,
        trusted_sources,
        timeout: Some(timeout),
        ..requested
    })
}

/// Replaces the ids of quarantined tools with those that callers may read.
pub(super) fn shorten_quarantined(view: &View, selection: &mut Selection) {
    if view.options.access.quarantine.is_empty() {
        return;
    }
    let shorten = |id: &mut String| {
        if let Cow::Owned(public_id) = view.public_id(id) {
            *id = public_id;
        }
    };
    let ineligible = &mut selection.ineligible.tools;
    ineligible
        .iter_mut()
        .for_each(|tool| shorten(&mut tool.tool_id));
    selection
        .blocked
        .iter_mut()
        .for_each(|tool| shorten(&mut tool.tool_id));
    let aliases = &mut selection.deprecated_aliases;
    aliases
        .iter_mut()
        .for_each(|alias| shorten(&mut alias.tool_id));
    selection
        .dropped
        .iter_mut()
        .for_each(|tool| shorten(&mut tool.tool_id));
    for pick in selection.picks.iter_mut().chain(&mut selection.required) {
        pick.same_as.iter_mut().for_each(shorten);
    }
}
