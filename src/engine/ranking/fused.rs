//! The built-in ranking: the fused scores of the retrievers, for the request and its subqueries.

use std::collections::BTreeSet;

use super::super::request::ResolvedRequest;
use super::super::retrieval::{NearSearch, Retrieval, SubqueryRetrieval};
use crate::fuse::{CalibratedScores, Fusion, Mode};
use crate::ranking::{Ranking, ToolId};
use crate::reading::scope;
use crate::retrieve::FoundTerm;
use crate::sequences::Prior;

/// The ranking by the built-in retrievers.
pub(in super::super) struct FusedRanking<'q> {
    pub(in super::super) mode: Mode,
    /// The terms of the request that the index contains.
    pub(in super::super) terms: Vec<FoundTerm<'q>>,
    pub(in super::super) fused: CalibratedScores,
    pub(in super::super) subqueries: Vec<Subquery<'q>>,
    /// The search for further tools, if some tools have no scores.
    near: Option<NearSearch<'q>>,
}

/// A subquery with the ranking of the quick retrievers.
pub(in super::super) struct Subquery<'q> {
    pub(in super::super) text: &'q str,
    pub(in super::super) terms: Vec<FoundTerm<'q>>,
    pub(in super::super) fused: CalibratedScores,
}

impl Subquery<'_> {
    /// Returns the best tools that reach `min_score`; none if no tool is likely to serve it.
    pub(in super::super) fn candidates(&self, request: &ResolvedRequest<'_>) -> Ranking {
        let options = request.options;
        if self.fused.calibration.is_unsupported() {
            return Ranking::new();
        }
        let least = self.fused.calibration.value_at(options.min_score);
        let scores = &self.fused.scores;
        scores.best_candidates(request.rankable(), least, options.max_candidates)
    }
}

impl<'q> FusedRanking<'q> {
    /// Fuses the signals of the request and of each subquery.
    pub(in super::super) fn new(request: &ResolvedRequest<'_>, retrieval: Retrieval<'q>) -> Self {
        let (rankable, options) = (request.rankable(), request.options);
        let asks = request.query.scope();
        let fused = CalibratedScores::new(retrieval.signals, options.fusion, rankable, asks);
        let mut subqueries = Vec::with_capacity(retrieval.subqueries.len());
        for SubqueryRetrieval {
            text,
            terms,
            signals,
        } in retrieval.subqueries
        {
            subqueries.push(Subquery {
                text,
                terms,
                fused: CalibratedScores::new(signals, Fusion::Weighted, rankable, scope(text)),
            });
        }
        Self {
            mode: request.mode,
            terms: retrieval.terms,
            fused,
            subqueries,
            near: retrieval.near,
        }
    }

    /// Makes a ranking from the scores of all tools.
    pub(in super::super) fn undivided(
        mode: Mode,
        terms: Vec<FoundTerm<'q>>,
        fused: CalibratedScores,
    ) -> Self {
        Self {
            mode,
            terms,
            fused,
            subqueries: Vec::new(),
            near: None,
        }
    }

    /// Returns those of the tools that have no score.
    pub(super) fn unscored(&self, tools: &BTreeSet<ToolId>) -> Vec<ToolId> {
        let scores = &self.fused.scores;
        let unscored = tools.iter().filter(|&&tool| !scores.has(tool));
        unscored.copied().collect()
    }

    /// Returns the ranking with scores for these tools as well.
    pub(super) fn with_scores(self, request: &ResolvedRequest<'_>, tools: &[ToolId]) -> Self {
        Self::new(request, self.into_retrieval().extend(tools))
    }

    /// Returns the retrieval that the ranking was made from.
    fn into_retrieval(self) -> Retrieval<'q> {
        let mut subqueries = Vec::with_capacity(self.subqueries.len());
        for Subquery { text, terms, fused } in self.subqueries {
            subqueries.push(SubqueryRetrieval {
                text,
                terms,
                signals: fused.into_signals(),
            });
        }
        Retrieval {
            terms: self.terms,
            scored: self.fused.scores.scored.clone(),
            signals: self.fused.into_signals(),
            subqueries,
            near: self.near,
        }
    }

    /// Returns the ranking with raised tools: those that go with the tools in use and, with the
    /// option `popularity`, those that are called often.
    pub(super) fn raised(self, prior: &Prior, request: &ResolvedRequest<'_>) -> Self {
        let mut fused = self.fused.raised(prior.gains(&request.tools_in_use()));
        if request.options.popularity {
            fused = fused.raised_by_popularity(prior.popular());
        }
        Self { fused, ..self }
    }
}
