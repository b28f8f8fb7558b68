//! Decisions on the tools that were picked, or excluded by a limit.

use crate::catalog::Detail;
use crate::ranking::{Candidate, ToolId};

/// The decision on one tool. Only tools that were picked, or would have been picked without a
/// limit, have one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decision {
    pub(crate) tool: ToolId,
    pub(crate) outcome: CutOutcome,
}

/// The outcome of a cut for one tool, in the order of reports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CutOutcome {
    Picked(PickDetails),
    /// The tool is mandatory, but `max_candidates` is reached.
    OverCutoff,
    /// Its source has reached `max_per_source`.
    OverSource,
    /// The picks require more tools than are added.
    OverRequired,
    /// It does not fit the token budget.
    OverBudget,
    /// It is a duplicate of this pick.
    SameAs(ToolId),
    /// It equals a pick from another source, for which no place is left.
    Account,
    /// It is an untrusted copy of a pick from a trusted source.
    Copy,
    /// Other picks cover the subqueries that it serves.
    Covered,
    /// It is required by a pick, but ineligible.
    Ineligible(IneligibleRequirement),
}

/// The requirement of an ineligible tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IneligibleRequirement {
    /// The name by which it is required first.
    pub(crate) name: String,
    /// The picks that require it.
    pub(crate) by: Vec<ToolId>,
}

/// The circumstances of a pick.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct PickDetails {
    /// The value that orders the picks.
    pub(crate) value: f32,
    /// The subquery that it was picked for although other tools rank higher.
    pub(crate) covers: Option<usize>,
    /// The picks that require it.
    pub(crate) required_by: Vec<ToolId>,
    /// `true` if it is added only because picks require it.
    pub(crate) only_required: bool,
    /// The detail of the shown definition and its tokens, if there is a token budget.
    pub(crate) definition: Option<(Detail, usize)>,
}

impl Decision {
    /// Picks a candidate by its rank.
    pub(crate) fn pick(candidate: Candidate) -> Self {
        let picked = PickDetails {
            value: candidate.score,
            ..PickDetails::default()
        };
        Self {
            tool: candidate.tool,
            outcome: CutOutcome::Picked(picked),
        }
    }

    /// Returns the circumstances of the pick, if the tool was picked.
    pub(crate) fn picked(&self) -> Option<&PickDetails> {
        match &self.outcome {
            CutOutcome::Picked(picked) => Some(picked),
            _ => None,
        }
    }

    pub(crate) fn picked_mut(&mut self) -> Option<&mut PickDetails> {
        match &mut self.outcome {
            CutOutcome::Picked(picked) => Some(picked),
            _ => None,
        }
    }

    /// Returns the tool if it is picked and others require it.
    pub(crate) fn required(&self) -> Option<ToolId> {
        let picked = self.picked()?;
        (!picked.required_by.is_empty()).then_some(self.tool)
    }

    /// Returns the tool and its requirement, if it is required but ineligible.
    pub(crate) fn ineligible_requirement(&self) -> Option<(ToolId, &IneligibleRequirement)> {
        match &self.outcome {
            CutOutcome::Ineligible(requirement) => Some((self.tool, requirement)),
            _ => None,
        }
    }

    /// Returns `true` if the tool only lacked a place among the picks.
    pub(crate) fn lost_its_place(&self) -> bool {
        matches!(
            self.outcome,
            CutOutcome::OverCutoff | CutOutcome::OverSource | CutOutcome::Covered
        )
    }
}

/// Returns the picked tools, in the order of the decisions.
pub(crate) fn picks(
    decisions: &[Decision],
) -> impl DoubleEndedIterator<Item = (ToolId, &PickDetails)> {
    decisions
        .iter()
        .filter_map(|decision| Some((decision.tool, decision.picked()?)))
}

/// Sorts decisions for reports: picks, best first; then tools that are only required; then excluded
/// tools, by outcome.
pub(crate) fn put_in_order(decisions: &mut [Decision]) {
    decisions.sort_by(|a, b| match (&a.outcome, &b.outcome) {
        (CutOutcome::Picked(one), CutOutcome::Picked(other)) => {
            let candidate = |tool, score| Candidate { tool, score };
            let by_value =
                candidate(a.tool, one.value).better_first(&candidate(b.tool, other.value));
            one.only_required.cmp(&other.only_required).then(by_value)
        }
        (CutOutcome::SameAs(one), CutOutcome::SameAs(other)) => one.cmp(other),
        (one, other) => one.order().cmp(&other.order()),
    });
}

impl CutOutcome {
    fn order(&self) -> u8 {
        match self {
            Self::Picked(_) => 0,
            Self::OverCutoff => 1,
            Self::OverSource => 2,
            Self::OverRequired => 3,
            Self::OverBudget => 4,
            Self::SameAs(_) => 5,
            Self::Account => 6,
            Self::Copy => 7,
            Self::Covered => 8,
            Self::Ineligible(_) => 9,
        }
    }
}
