//! The best match among ineligible tools. It tells the caller that the tool exists, and why it is
//! not a pick.

use super::ranking::{FusedRanking, RequestRanking};
use super::request::ResolvedRequest;
use crate::access::IneligibleReason;
use crate::options::BlockedReporting;
use crate::ranking::ToolId;
use crate::selection::BlockedMatch;

/// Ranks the request as if the ineligible tools that the options allow to report were eligible.
/// Returns the best tool if it is one of them and would have been picked.
pub(super) fn blocked_match(
    request: &ResolvedRequest<'_>,
    ranked: &dyn RequestRanking,
) -> Option<BlockedMatch> {
    let ResolvedRequest { options, index, .. } = request;
    let eligibility = request.eligibility();
    let FusedRanking { fused, .. } = ranked.fused()?;
    let is_role = |reason: &IneligibleReason| matches!(reason, IneligibleReason::Role { .. });
    let may_report = |tool: ToolId| match options.tell_blocked {
        BlockedReporting::Never => false,
        BlockedReporting::ExceptRoles => !eligibility.has_reason(tool, is_role),
        BlockedReporting::Always => true,
    };
    if eligibility.ineligible_count() == 0 || !fused.may_be_outranked(request.rankable()) {
        return None;
    }
    // Copies of trusted tools are never ranked.
    let copies = index.clones.among(|_| true);
    let blocked = eligibility
        .ineligible()
        .filter(|&tool| may_report(tool) && !copies.contains_key(&tool));
    let (best, score) = fused.best_additional(eligibility, &request.rankable().with(blocked))?;
    let reasons = eligibility.reasons(best);
    let tool_id = index.catalog.tool_id(best).to_owned();
    (score >= options.min_score).then_some(BlockedMatch {
        tool_id,
        score,
        reasons,
    })
}
