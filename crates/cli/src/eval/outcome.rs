//! The results of the configurations on a set.

use picktools_eval::{PerQuery, Qrels, QuerySet, SetReport};

use super::asking::{AnswerabilityEstimates, SetAnswers};

/// The results of one set.
pub(super) struct EvaluatedSet {
    pub(super) name: String,
    pub(super) queries: QuerySet,
    pub(super) qrels: Qrels,
    /// The outcomes, one for each configuration of the plan.
    pub(super) outcomes: Vec<ConfigurationOutcome>,
    pub(super) estimates: Option<AnswerabilityEstimates>,
    /// The warnings about the judgments.
    pub(super) warnings: Vec<String>,
}

/// The results of one configuration on one set.
pub(super) struct ConfigurationOutcome {
    pub(super) answers: SetAnswers,
    pub(super) scores: PerQuery,
    pub(super) report: SetReport,
}
