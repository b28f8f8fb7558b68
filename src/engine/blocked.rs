//! The best match that may not be used: whoever asks should learn that the tool exists, and why it
//! is not among the picks.

use super::ranked::Ranked;
use super::request::Request;
use crate::access::IneligibleReason;
use crate::options::TellBlocked;
use crate::ranking::ToolId;
use crate::selection::BlockedMatch;

/// Ranks the request again as if the ineligible tools that may be told of were eligible, and
/// returns the best of all where that is one of them and would have been picked.
pub(super) fn blocked_match(request: &Request<'_>, ranked: &Ranked<'_>) -> Option<BlockedMatch> {
    let Request {
        options,
        eligibility,
        index,
        ..
    } = request;
    let Ranked::Fused { fused, .. } = ranked else {
        return None;
    };
    let is_role = |reason: &IneligibleReason| matches!(reason, IneligibleReason::Role { .. });
    let may_tell = |tool: ToolId| match options.tell_blocked {
        TellBlocked::Never => false,
        TellBlocked::ExceptRoles => !eligibility.has_reason(tool, is_role),
        TellBlocked::Always => true,
    };
    if eligibility.ineligible_count() == 0 || !fused.may_be_beaten(request.rankable()) {
        return None;
    }
    // A copy of what is trusted is ranked in no case.
    let copies = index.copies.among(|_| true);
    let blocked = eligibility
        .ineligible()
        .filter(|&tool| may_tell(tool) && !copies.contains_key(&tool));
    let (best, score) = fused.best_beside(eligibility, &request.rankable().with(blocked))?;
    let reasons = eligibility.reasons(best);
    let tool_id = index.catalog.tool(best).id.clone();
    (score >= options.min_score).then_some(BlockedMatch {
        tool_id,
        score,
        reasons,
    })
}
