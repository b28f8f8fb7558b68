//! The selection of a pick: the decisions within the token budget, with their explanations.

use super::aliases::deprecated_aliases;
use super::blocked::blocked_match;
use super::decisions::Decisions;
use super::explain::Explainer;
use super::ranking::RequestRanking;
use super::report::Report;
use super::request::ResolvedRequest;
use super::rerank::RerankOutcome;
use super::shortlist::Shortlist;
use super::skills::PickedSkills;
use crate::budget::CostTable;
use crate::options::PickError;
use crate::selection::{SELECTION_VERSION, Selection, Stage, TokenReport};

/// The results of the stages before the token budget.
pub(super) struct PickOutcome<'a> {
    pub(super) request: &'a ResolvedRequest<'a>,
    pub(super) ranking: &'a dyn RequestRanking,
    pub(super) shortlist: &'a Shortlist,
    pub(super) reranked: Option<RerankOutcome>,
    /// The picked skills, if the engine has skills.
    pub(super) skills: Option<PickedSkills<'a>>,
    pub(super) decisions: Decisions,
    pub(super) report: Report,
}

impl PickOutcome<'_> {
    /// Fits the picks into the token budget, and explains them.
    pub(super) fn into_selection(self, costs: Option<&CostTable>) -> Result<Selection, PickError> {
        let Self {
            request,
            ranking,
            shortlist,
            reranked,
            skills,
            decisions,
            report,
        } = self;
        let (catalog, options) = (&request.index.catalog, request.options);
        // A pick that exceeds the token budget still counts as required, and as a use of aliases.
        let below_threshold = shortlist.below_threshold(request, &decisions);
        let skill_tool_names = skills.as_ref().map(PickedSkills::tool_names);
        let deprecated_aliases =
            deprecated_aliases(request, &skill_tool_names.unwrap_or_default(), &decisions)?;
        let (decisions, tokens) = fit(request, ranking, decisions, costs)?;
        let uses_fallback = report
            .degraded
            .iter()
            .any(|degraded| degraded.stage == Stage::Semantic);
        let explainer = Explainer::new(request, ranking, &decisions)
            .candidates(shortlist)
            .fallback(uses_fallback)
            .reranked(reranked.as_ref());
        let mut picks = explainer.picks()?;
        let uncalibrated = ranking.uncalibrated();
        let dropped = explainer.dropped();
        let only_fallbacks = picks.iter().all(|pick| pick.provenance.fallback);
        let mut nothing_fits = None;
        if only_fallbacks && dropped.is_empty() && uncalibrated.is_none() {
            nothing_fits = ranking.nothing_fits(catalog);
        }
        let mut considered = None;
        if options.debug {
            considered = Some(explainer.considered(&shortlist.ranking, &picks)?);
        }
        Ok(Selection {
            version: SELECTION_VERSION,
            catalog_digest: catalog.digest().to_owned(),
            snapshot: None,
            scorer: ranking.name().to_owned(),
            shortlisted: ranking.shortlisted(),
            answerable: ranking.answerable(&picks),
            nothing_fits,
            skills: skills.map(|skills| skills.explain(request, &picks)),
            uncalibrated,
            ineligible: explainer.ineligible(),
            blocked: blocked_match(request, ranking),
            above_threshold: shortlist.not_picked(request, &decisions),
            below_threshold,
            deprecated_aliases,
            unknown_in_use: request.named.in_use.unknown.clone(),
            unknown_values: options.unknown_values(catalog)?,
            dropped,
            scorer_errors: ranking.errors().iter().map(ToString::to_string).collect(),
            considered,
            required: picks.split_off(explainer.pick_count()),
            picks,
            rerank: reranked.map(|reranked| reranked.report),
            tokens,
            stages: report.stages,
            degraded: report.degraded,
            timings: report.timings,
        })
    }
}

/// Fits the picks into the token budget and counts the tokens.
fn fit(
    request: &ResolvedRequest<'_>,
    ranking: &dyn RequestRanking,
    decisions: Decisions,
    costs: Option<&CostTable>,
) -> Result<(Decisions, Option<TokenReport>), PickError> {
    let Some(budget) = &request.options.token_budget else {
        return Ok((decisions, None));
    };
    let Some(costs) = costs else {
        let remedy = "give the engine a token counter (EngineBuilder::token_counter)";
        let value = budget.tokens.to_string();
        return Err(PickError::InvalidOption {
            option: "token_budget",
            value,
            remedy,
        });
    };
    let costs = costs.costs(request.index.catalog.tools()?, budget);
    let (decisions, report) = decisions.fit(&costs, budget.tokens, request, ranking)?;
    Ok((decisions, Some(report)))
}
