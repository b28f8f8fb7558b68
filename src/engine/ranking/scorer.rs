//! The ranking of a custom scorer.

use std::collections::BTreeMap;

use crate::catalog::Catalog;
use crate::ranking::ToolId;
use crate::scorer::{Score, ScorerError};

/// The scores of a custom scorer.
pub(in super::super) struct ScorerRanking {
    pub(in super::super) scorer: String,
    pub(in super::super) scores: BTreeMap<ToolId, Score>,
    /// Tools with an invalid score, which are excluded.
    pub(super) invalid: BTreeMap<ToolId, ScorerError>,
    /// The number of tools that it received, if a shortlist limits them.
    pub(super) shortlisted: Option<usize>,
}

impl ScorerRanking {
    /// Validates a scorer's answer: the tools that it received, each with its score.
    pub(super) fn new(
        catalog: &Catalog,
        scorer: &str,
        answer: impl Iterator<Item = (ToolId, Score)>,
        shortlisted: Option<usize>,
    ) -> Self {
        let (mut scores, mut invalid) = (BTreeMap::new(), BTreeMap::new());
        for (tool, score) in answer {
            if (0.0..=1.0).contains(&score.score) {
                scores.insert(tool, score);
            } else {
                let error = ScorerError::InvalidScore {
                    scorer: scorer.to_owned(),
                    tool: catalog.tool_id(tool).to_owned(),
                    score: score.score.to_string(),
                };
                invalid.insert(tool, error);
            }
        }
        Self {
            scorer: scorer.to_owned(),
            scores,
            invalid,
            shortlisted,
        }
    }
}
