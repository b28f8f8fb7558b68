//! What became of each tool that was picked, or would have been.

use crate::catalog::Detail;
use crate::ranking::{Candidate, ToolId};

/// What became of one tool. Few tools have one: those that were picked, or would have been but for
/// a limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decision {
    pub(crate) tool: ToolId,
    pub(crate) fate: Fate,
}

/// Picked, or why not. In the order in which it is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fate {
    Picked(Picked),
    /// It must stay, and has no place among `max_candidates`.
    OverCutoff,
    /// Its source has its share.
    OverSource,
    /// It is required, beyond what is brought along.
    OverRequired,
    /// The token budget has no room for it.
    OverBudget,
    /// It is the same as this picked tool.
    SameAs(ToolId),
    /// It is untrusted, and a copy of a picked tool that is trusted.
    Copy,
    /// The parts that it fits are covered.
    Covered,
    /// It is required, and may not be seen.
    Refused(Refused),
}

/// How a tool is required that may not be seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refused {
    /// The first name by which it is required.
    pub(crate) name: String,
    /// The picked tools that require it.
    pub(crate) by: Vec<ToolId>,
}

/// How a tool was picked.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Picked {
    /// The value by which it is ordered.
    pub(crate) value: f32,
    /// The part of the request that it was picked for, although others outrank it.
    pub(crate) covers: Option<usize>,
    /// The picked tools that require it.
    pub(crate) required_by: Vec<ToolId>,
    /// Whether it is there for that alone, and so beside the picks.
    pub(crate) beside: bool,
    /// How much of it is shown, and the tokens of that, where there is a budget.
    pub(crate) shown: Option<(Detail, usize)>,
}

impl Decision {
    /// Picks a candidate for its rank.
    pub(crate) fn pick(candidate: Candidate) -> Self {
        let picked = Picked {
            value: candidate.score,
            ..Picked::default()
        };
        Self {
            tool: candidate.tool,
            fate: Fate::Picked(picked),
        }
    }

    /// Returns how the tool was picked; `None` where it was not.
    pub(crate) fn picked(&self) -> Option<&Picked> {
        match &self.fate {
            Fate::Picked(picked) => Some(picked),
            _ => None,
        }
    }

    pub(crate) fn picked_mut(&mut self) -> Option<&mut Picked> {
        match &mut self.fate {
            Fate::Picked(picked) => Some(picked),
            _ => None,
        }
    }

    /// Returns the tool if it is picked and others require it.
    pub(crate) fn required(&self) -> Option<ToolId> {
        self.picked()
            .filter(|picked| !picked.required_by.is_empty())
            .map(|_| self.tool)
    }

    /// Returns the tool and how it is required, if it may not be seen.
    pub(crate) fn refused(&self) -> Option<(ToolId, &Refused)> {
        match &self.fate {
            Fate::Refused(refused) => Some((self.tool, refused)),
            _ => None,
        }
    }

    /// Returns `true` if the tool only failed to get one of the places of the cut.
    pub(crate) fn lost_its_place(&self) -> bool {
        matches!(
            self.fate,
            Fate::OverCutoff | Fate::OverSource | Fate::Covered
        )
    }
}

/// Returns the picked tools, in the order of the decisions.
pub(crate) fn picks(decisions: &[Decision]) -> impl DoubleEndedIterator<Item = (ToolId, &Picked)> {
    decisions
        .iter()
        .filter_map(|decision| Some((decision.tool, decision.picked()?)))
}

/// Puts decisions in the order in which they are told: picks, best first, then what stands beside
/// them, and then what was dropped, by reason.
pub(crate) fn put_in_order(decisions: &mut [Decision]) {
    decisions.sort_by(|a, b| match (&a.fate, &b.fate) {
        (Fate::Picked(one), Fate::Picked(other)) => {
            let candidate = |tool, score| Candidate { tool, score };
            let by_value =
                candidate(a.tool, one.value).better_first(&candidate(b.tool, other.value));
            one.beside.cmp(&other.beside).then(by_value)
        }
        (Fate::SameAs(one), Fate::SameAs(other)) => one.cmp(other),
        (one, other) => one.place().cmp(&other.place()),
    });
}

impl Fate {
    fn place(&self) -> u8 {
        match self {
            Self::Picked(_) => 0,
            Self::OverCutoff => 1,
            Self::OverSource => 2,
            Self::OverRequired => 3,
            Self::OverBudget => 4,
            Self::SameAs(_) => 5,
            Self::Copy => 6,
            Self::Covered => 7,
            Self::Refused(_) => 8,
        }
    }
}
