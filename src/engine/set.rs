//! What makes the picks a set: the parts of the request that they cover, and the tools that they require.

use std::collections::{BTreeSet, HashMap};

#[cfg(feature = "tokens")]
use std::sync::Arc;

use super::explain::Basis;
use super::request::Request;
use super::{Trace, guarded};
#[cfg(feature = "tokens")]
use crate::budget::{self, Costs, Wanted};
#[cfg(feature = "tokens")]
use crate::deadline::Deadline;
use crate::index::{Index, Vectors};
use crate::options::{Choice, PickError};
use crate::ranking::{Candidate, ToolId};
use crate::select::{Cover, Kept, POOL, static_vectors};
use crate::selection::Stage;
#[cfg(feature = "tokens")]
use crate::selection::TokenReport;

/// The most tools that the picks bring along because they require them: a tool is not to fill a model's context with others.
const MAX_REQUIRED: usize = 16;
/// The most names of required tools that are read of one tool.
const MAX_NAMES: usize = 64;

/// The parts of the request, where there are several, and the picks are to cover them.
pub(super) fn parts<'q>(request: &Request<'q>, basis: &Basis) -> Vec<&'q str> {
    let Basis::Fused { fused, .. } = basis else { return Vec::new() };
    if request.options.choice != Choice::Set || request.options.max_candidates < 2 || fused.quick_weights().is_empty() {
        return Vec::new();
    }
    let parts = request.query.clauses();
    if parts.len() < 2 { Vec::new() } else { parts }
}

/// How many candidates are compared to cover these parts.
pub(super) fn pool(parts: &[&str]) -> usize {
    if parts.is_empty() { 0 } else { POOL }
}

/// What the parts want of the candidates, where there is a choice between them.
pub(super) fn cover(
    index: &Index,
    request: &Request<'_>,
    parts: &[&str],
    basis: &Basis,
    ranking: &[Candidate],
    trace: &mut Trace,
) -> Result<Option<Cover>, PickError> {
    let Basis::Fused { fused, .. } = basis else { return Ok(None) };
    if parts.is_empty() || ranking.len() <= request.options.max_candidates {
        return Ok(None);
    }
    let embedded = match static_vectors(index).filter(|_| request.mode.uses_semantic()) {
        None => None,
        Some(vectors) => {
            let texts: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
            let embedded = guarded(vectors, trace.deadline, move |embedder| {
                Vectors::embed_queries(embedder, &texts.iter().map(String::as_str).collect::<Vec<_>>())
            });
            match embedded {
                Ok(embedded) => Some(embedded),
                Err(reason) => {
                    trace.degraded(Stage::Select, format!("{reason}; the parts of the request are not told apart"));
                    return Ok(None);
                }
            }
        }
    };
    Ok(Some(Cover::new(index, parts, fused, embedded.as_ref(), ranking)?))
}

/// Brings the tools along that the picks require, and those that these require, as far as they may be seen.
pub(super) fn bring_required(index: &Index, request: &Request<'_>, basis: &Basis, kept: &mut Kept) {
    let mut picked: BTreeSet<ToolId> = kept.picks.iter().map(|candidate| candidate.tool).collect();
    let mut per_source: HashMap<Option<&str>, usize> = HashMap::new();
    let source = |tool: ToolId| index.catalog.tool(tool).source.as_deref();
    let counted = picked.iter().filter(|tool| !request.in_use.tools.contains_key(tool));
    counted.for_each(|&tool| *per_source.entry(source(tool)).or_default() += 1);
    let mut left: Vec<ToolId> = kept.picks.iter().rev().map(|candidate| candidate.tool).collect();
    let (mut brought, mut over_source, options) = (0, BTreeSet::new(), request.options);
    while let Some(tool) = left.pop() {
        let definition = index.catalog.tool(tool);
        for name in definition.requires.iter().take(MAX_NAMES) {
            let Some(required) = index.names.of_source(name, definition.source.as_deref(), &index.catalog) else {
                continue;
            };
            if required == tool {
                continue;
            }
            if !request.eligibility.admits(required) || !basis.ranks(required) {
                kept.refused.entry(required).or_insert_with(|| name.clone());
                continue;
            }
            if !picked.contains(&required) {
                let trusted = source(required).is_some_and(|source| options.trusted_sources.contains(source));
                let share = per_source.entry(source(required)).or_default();
                if options.max_per_source.is_some_and(|most| !trusted && *share >= most) {
                    over_source.insert(required);
                    continue;
                }
                if brought == MAX_REQUIRED {
                    kept.over_required.insert(required);
                    continue;
                }
                *share += 1;
                brought += 1;
                picked.insert(required);
                left.push(required);
                kept.picks.push(basis.candidate(required));
            }
            let by = kept.required.entry(required).or_default();
            if !by.contains(&tool) {
                by.push(tool);
            }
        }
    }
    kept.picks.sort_by(Candidate::better_first);
    over_source.retain(|tool| !kept.over_source.contains(tool));
    kept.over_source.extend(over_source);
    for dropped in [&mut kept.over_source, &mut kept.over_cutoff, &mut kept.covered] {
        dropped.retain(|tool| !picked.contains(tool));
    }
}

/// Shows as much of the picks as fits `tokens`, takes the others away, and counts. What the whole catalog costs is counted
/// once, and where there is a deadline on a thread that may be left behind.
#[cfg(feature = "tokens")]
pub(super) fn fit(
    costs: &Arc<Costs>,
    tokens: usize,
    request: &Request<'_>,
    basis: &Basis,
    kept: &mut Kept,
    deadline: Deadline,
) -> Result<TokenReport, PickError> {
    let musts: BTreeSet<ToolId> = request.musts().union(&request.held()).copied().collect();
    let wanted: Vec<Wanted> = kept
        .picks
        .iter()
        .map(|candidate| candidate.tool)
        .map(|tool| Wanted { tool, score: basis.score(tool), must: musts.contains(&tool) })
        .collect();
    let fitted = budget::fit(costs, &wanted, tokens)?;
    for (wanted, shown) in wanted.iter().zip(&fitted.shown) {
        match *shown {
            Some(shown) => drop(kept.shown.insert(wanted.tool, shown)),
            None => kept.over_budget.push(wanted.tool),
        }
    }
    let shown = &kept.shown;
    kept.picks.retain(|candidate| shown.contains_key(&candidate.tool));
    let catalog = match deadline.instant() {
        None => Some(costs.whole()?),
        Some(_) => {
            let costs = Arc::clone(costs);
            deadline.run(move || costs.whole()).ok().transpose()?
        }
    };
    Ok(TokenReport {
        budget: tokens,
        provider: costs.provider(),
        tokenizer: budget::TOKENIZER.1,
        catalog,
        picks: fitted.tokens,
        saved: catalog.map(|catalog| catalog.saturating_sub(fitted.tokens)),
    })
}
