//! Explanations: the evidence and the reason of each returned tool.
//!
//! This stage changes neither the ranking nor the decisions. It computes nothing for tools that are
//! not returned (or, with `debug`, considered).

mod reason;
mod words;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::reason::{Clauses, add_evidence, reason};
use self::words::RequestWords;
use super::named::NamedTools;
use super::ranking::{FusedRanking, RankingEvidence, RequestRanking, Subquery};
use super::request::ResolvedRequest;
use super::rerank::RerankOutcome;
use super::shortlist::{MAX_CONSIDERED, Shortlist};
use crate::access::MAX_LISTED_INELIGIBLE;
use crate::examples::ActiveExample;
use crate::excerpt::one_line;
use crate::fuse::{FusedScores, Fusion, Retriever, ValueIncrease, WeightedSignal as Summand};
use crate::index::{Index, Vectors};
use crate::query::MAX_SENTENCES;
use crate::ranking::{Candidate, ToolId};
use crate::retrieve::FoundTerm;
use crate::saved::SavedError;
use crate::select::{CutOutcome, Decision, IneligibleRequirement, PickDetails, picks};
use crate::selection::{
    CallCooccurrence, CallFrequency, ConsideredCandidate, CoverEvidence, DropReason, DroppedTool,
    ExampleEvidence, FusionEvidence, FusionPart, IneligibleSummary, IneligibleTool,
    KeywordEvidence, NameOrigin, Pick, PriorEvidence, Provenance, SemanticEvidence,
    ShownDefinition, SourceEvidence, TermEvidence, WordReading,
};

/// The largest number of characters of a matching term; a pair of words may have others in between.
const MAX_MEETS_CHARS: usize = 80;

/// An explainer for the decisions of a pick.
pub(super) struct Explainer<'a> {
    request: &'a ResolvedRequest<'a>,
    ranked: &'a dyn RequestRanking,
    reranked: Option<&'a RerankOutcome>,
    decisions: &'a [Decision],
    /// `true` if the semantic evidence comes from a fallback model.
    uses_fallback: bool,
    /// The candidates, if tools were picked.
    shortlist: Option<&'a Shortlist>,
    /// The vectors of a model and the request's words, if the ranking includes a model with word
    /// vectors.
    words: Option<(&'a Vectors, RequestWords<'a>)>,
    /// The largest contribution of a source to the value of an eligible tool.
    best_source: f32,
    /// A flag for each tool with a value: `true` if it is ranked.
    admitted: Cow<'a, [bool]>,
}

impl<'a> Explainer<'a> {
    pub(super) fn new(
        request: &'a ResolvedRequest<'a>,
        ranked: &'a dyn RequestRanking,
        decisions: &'a [Decision],
    ) -> Self {
        let mut explainer = Self {
            request,
            ranked,
            reranked: None,
            decisions,
            uses_fallback: false,
            shortlist: None,
            words: None,
            best_source: f32::NEG_INFINITY,
            admitted: Cow::default(),
        };
        if let (Some(FusedRanking { fused, .. }), true) = (ranked.fused(), request.options.reasons)
        {
            explainer.words =
                request_words(request.index, &fused.scores, request.query.search_text());
            explainer.admitted = fused.scores.scored.select(request.rankable().flags());
            explainer.best_source = fused.scores.best_source(&explainer.admitted);
        }
        explainer
    }

    /// Adds the candidates, some of which are fallbacks or tools of skills.
    pub(super) fn candidates(self, shortlist: &'a Shortlist) -> Self {
        Self {
            shortlist: Some(shortlist),
            ..self
        }
    }

    /// Marks the semantic evidence as coming from a fallback model.
    pub(super) fn fallback(self, uses_fallback: bool) -> Self {
        Self {
            uses_fallback,
            ..self
        }
    }

    /// Adds the outcome of reranking.
    pub(super) fn reranked(self, reranked: Option<&'a RerankOutcome>) -> Self {
        Self { reranked, ..self }
    }

    /// Returns the picks with their reasons, and after them the tools that they require.
    pub(super) fn picks(&self) -> Result<Vec<Pick>, SavedError> {
        let mut explained = Vec::new();
        for (tool, details) in picks(self.decisions) {
            explained.push(self.explain_pick(tool, details)?);
        }
        Ok(explained)
    }

    fn explain_pick(&self, tool: ToolId, details: &PickDetails) -> Result<Pick, SavedError> {
        let definition = self.request.index.catalog.tool(tool)?;
        let options = self.request.options;
        let mut provenance = self.provenance(tool)?;
        let mut same_as = Vec::new();
        for decision in self.decisions {
            if let Some((required, requirement)) = decision.ineligible_requirement()
                && requirement.by.contains(&tool)
            {
                provenance.requires_ineligible.push(self.id(required));
            }
            if decision.outcome == CutOutcome::SameAs(tool) {
                same_as.push(self.id(decision.tool));
            }
        }
        for &requiring_tool in &details.required_by {
            provenance.required_by.push(self.id(requiring_tool));
        }
        let mut pick_reason = String::new();
        if options.reasons {
            if let Some(subquery) = details.covers {
                provenance.covers = Some(self.cover_evidence(subquery, tool)?);
            }
            let reranker = self.reranked.map(|reranked| &*reranked.report.reranker);
            pick_reason = reason(
                self.ranked,
                (tool, definition),
                &options.access,
                &provenance,
                reranker,
            );
        }
        Ok(Pick {
            tool: Arc::clone(definition),
            score: self.ranked.score(tool),
            reason: pick_reason,
            provenance,
            same_as,
            definition: details
                .definition
                .map(|(detail, tokens)| ShownDefinition { detail, tokens }),
        })
    }

    /// Returns the evidence of the retrievers for a tool as clauses; `None` without evidence.
    pub(super) fn evidence_text(&self, tool: ToolId) -> Result<Option<String>, SavedError> {
        let definition = self.request.index.catalog.tool(tool)?;
        let mut clauses = Clauses::default();
        add_evidence(&self.provenance(tool)?, definition, &mut clauses);
        Ok(clauses.into_text())
    }

    /// Returns the evidence of the best [`MAX_CONSIDERED`] candidates and of every pick. The
    /// evidence of picks is taken from `explained`.
    pub(super) fn considered(
        &self,
        ranking: &[Candidate],
        explained: &[Pick],
    ) -> Result<Vec<ConsideredCandidate>, SavedError> {
        let mut considered = Vec::new();
        for (position, &Candidate { tool, .. }) in ranking.iter().enumerate() {
            let pick_position = picks(self.decisions).position(|(pick, _)| pick == tool);
            let (picked, provenance) = match pick_position {
                Some(pick) => {
                    let provenance = explained[pick].provenance.clone();
                    (!self.is_only_required(tool), provenance)
                }
                None if position < MAX_CONSIDERED => (false, self.provenance(tool)?),
                None => continue,
            };
            considered.push(ConsideredCandidate {
                tool_id: self.id(tool),
                score: self.ranked.score(tool),
                picked,
                untrusted: self.request.index.catalog.outline(tool)?.untrusted,
                provenance,
            });
        }
        Ok(considered)
    }

    /// Returns `true` if the tool is returned only because picks require it.
    pub(super) fn is_only_required(&self, tool: ToolId) -> bool {
        picks(self.decisions).any(|(pick, picked)| pick == tool && picked.only_required)
    }

    /// Returns the number of picks without the tools that are only required.
    pub(super) fn pick_count(&self) -> usize {
        picks(self.decisions)
            .filter(|(_, picked)| !picked.only_required)
            .count()
    }

    /// Returns the tools that only a limit excluded.
    pub(super) fn dropped(&self) -> Vec<DroppedTool> {
        let mut dropped: Vec<DroppedTool> = Vec::new();
        for decision in self.decisions {
            let reason = match decision.outcome {
                CutOutcome::Picked(_) | CutOutcome::Ineligible(_) => continue,
                CutOutcome::OverCutoff => DropReason::MaxCandidates,
                CutOutcome::OverSource => DropReason::MaxPerSource,
                CutOutcome::OverRequired => DropReason::MaxRequired,
                CutOutcome::OverBudget => DropReason::TokenBudget,
                CutOutcome::SameAs(_) => DropReason::Same,
                CutOutcome::Account => DropReason::Account,
                CutOutcome::Copy => DropReason::Copy,
                CutOutcome::Covered => DropReason::Covered,
            };
            dropped.push(DroppedTool {
                tool_id: self.id(decision.tool),
                reason,
            });
        }
        let position = dropped.partition_point(|tool| tool.reason == DropReason::MaxCandidates);
        let surplus_in_use = self.request.named.in_use.surplus.iter().filter(|tool| {
            self.request.eligibility().admits(**tool)
                && picks(self.decisions).all(|(pick, _)| pick != **tool)
        });
        dropped.splice(
            position..position,
            surplus_in_use.map(|&tool| DroppedTool {
                tool_id: self.id(tool),
                reason: DropReason::MaxInUse,
            }),
        );
        dropped
    }

    /// Returns the ineligible tools. Tools that are requested by name come first, then tools that
    /// picks require.
    pub(super) fn ineligible(&self) -> IneligibleSummary {
        let eligibility = self.request.eligibility();
        let NamedTools {
            mentions,
            always,
            in_use,
            ..
        } = &self.request.named;
        let mut requested: BTreeSet<ToolId> = always.keys().copied().collect();
        requested.extend(in_use.tools.keys());
        for mention in mentions {
            requested.insert(mention.tool);
        }
        let mut requirements: BTreeMap<ToolId, &IneligibleRequirement> = BTreeMap::new();
        for decision in self.decisions {
            if let Some((tool, requirement)) = decision.ineligible_requirement() {
                requirements.insert(tool, requirement);
            }
        }
        let ineligible_count = eligibility.ineligible_count();
        let mut tools = Vec::with_capacity(MAX_LISTED_INELIGIBLE.min(ineligible_count));
        for &tool in &requested {
            if !eligibility.admits(tool) {
                tools.push(self.explain_ineligible(tool, requirements.get(&tool).copied()));
            }
        }
        for (&tool, &requirement) in &requirements {
            if !requested.contains(&tool) {
                tools.push(self.explain_ineligible(tool, Some(requirement)));
            }
        }
        for tool in eligibility.ineligible() {
            if tools.len() >= MAX_LISTED_INELIGIBLE {
                break;
            }
            if !requested.contains(&tool) && !requirements.contains_key(&tool) {
                tools.push(self.explain_ineligible(tool, None));
            }
        }
        tools.truncate(MAX_LISTED_INELIGIBLE);
        IneligibleSummary {
            total: ineligible_count,
            counts: eligibility.counts().clone(),
            tools,
        }
    }

    fn explain_ineligible(
        &self,
        tool: ToolId,
        requirement: Option<&IneligibleRequirement>,
    ) -> IneligibleTool {
        let (named, asked_by) = self.name_and_origin(tool, requirement).unzip();
        let mut required_by = Vec::new();
        if let Some(requirement) = requirement {
            for &requiring_tool in &requirement.by {
                required_by.push(self.id(requiring_tool));
            }
        }
        IneligibleTool {
            tool_id: self.id(tool),
            named,
            asked_by,
            required_by,
            reasons: self.request.eligibility().reasons(tool),
        }
    }

    /// Returns the name by which a tool is requested or required, and the origin of the name.
    fn name_and_origin(
        &self,
        tool: ToolId,
        requirement: Option<&IneligibleRequirement>,
    ) -> Option<(String, NameOrigin)> {
        let names = &self.request.named;
        if let Some(name) = names.mention(tool) {
            return Some((name.to_owned(), NameOrigin::Request));
        }
        if let Some(name) = names.always.get(&tool) {
            return Some((name.clone(), NameOrigin::Caller));
        }
        if let Some(name) = names.in_use.tools.get(&tool) {
            return Some((name.clone(), NameOrigin::Task));
        }
        Some((requirement?.name.clone(), NameOrigin::Tool))
    }

    fn id(&self, tool: ToolId) -> String {
        self.request.index.catalog.tool_id(tool).to_owned()
    }

    fn provenance(&self, tool: ToolId) -> Result<Provenance, SavedError> {
        let names = &self.request.named;
        let mut provenance = Provenance {
            scorer: self.ranked.name().to_owned(),
            named: names.mention(tool).map(str::to_owned),
            always_included: names.always.contains_key(&tool),
            fallback: self
                .shortlist
                .is_some_and(|shortlist| shortlist.fallbacks.contains(&tool)),
            in_use: names.in_use.tools.get(&tool).cloned(),
            needed_by: self
                .shortlist
                .map(|shortlist| shortlist.skills.skill_names(tool))
                .unwrap_or_default(),
            required_by: Vec::new(),
            requires_ineligible: Vec::new(),
            covers: None,
            keyword: None,
            semantic: Vec::new(),
            fusion: None,
            examples: None,
            prior: None,
            rerank: None,
            details: None,
        };
        if let Some(reranked) = self.reranked {
            provenance.rerank = reranked.evidence.get(&tool).copied();
        }
        match self.ranked.evidence() {
            _ if !self.request.options.reasons => {}
            RankingEvidence::CatalogOrder => {}
            RankingEvidence::Scorer(ranking) => {
                if let Some(score) = ranking.scores.get(&tool) {
                    provenance.details = score.details.clone();
                }
            }
            RankingEvidence::Fused(FusedRanking { terms, fused, .. }) => {
                self.add_fused_evidence(terms, &fused.scores, tool, &mut provenance)?;
            }
        }
        Ok(provenance)
    }

    /// Adds the evidence of the built-in ranking.
    fn add_fused_evidence(
        &self,
        terms: &[FoundTerm<'_>],
        fused: &FusedScores,
        tool: ToolId,
        provenance: &mut Provenance,
    ) -> Result<(), SavedError> {
        for part in &fused.parts {
            let signal = (part, &*self.admitted);
            match vectors(self.request.index, part.retriever) {
                Some(vectors) => {
                    let words = self.words.as_ref();
                    let evidence = self.semantic_evidence(signal, vectors, words, tool)?;
                    provenance.semantic.push(evidence);
                }
                None => provenance.keyword = Some(self.keyword_evidence(signal, terms, tool)?),
            }
        }
        provenance.fusion = Some(FusionEvidence {
            method: fused.method,
            parts: self.summands(fused, tool),
            source: fused.source_gain(tool).map(|gain| SourceEvidence {
                gain,
                best: gain >= self.best_source,
            }),
            value: fused.value(tool),
        });
        provenance.examples = self.example_evidence(fused, tool);
        if let Some(raised) = fused.gains.get(&tool) {
            provenance.prior = Some(self.prior_evidence(raised));
        }
        Ok(())
    }

    /// Returns the contribution of the tool's examples, if there is one.
    fn example_evidence(&self, fused: &FusedScores, tool: ToolId) -> Option<ExampleEvidence> {
        let examples = self.request.examples?;
        let gain = fused.example_gain(tool);
        let is_raised = gain > 0.0;
        if !is_raised {
            return None;
        }
        let value = |place: &usize| fused.example_value(*place);
        // Of equal examples, the first is chosen.
        let nearest = examples
            .positions(tool)
            .rev()
            .max_by(|a, b| value(a).total_cmp(&value(b)))?;
        let ActiveExample {
            request, origin, ..
        } = examples.example(nearest);
        let share = (gain / fused.value(tool).max(gain)).clamp(0.0, 1.0);
        Some(ExampleEvidence {
            gain,
            share,
            nearest: request.clone(),
            origin: *origin,
        })
    }

    fn prior_evidence(&self, raised: &ValueIncrease) -> PriorEvidence {
        let mut by = Vec::with_capacity(raised.gains.len());
        for gain in &raised.gains {
            by.push(CallCooccurrence {
                tool_id: self.id(gain.with),
                together: gain.together,
                expected: gain.expected,
                log_ratio: gain.log_ratio,
            });
        }
        let popular = raised.popular.map(|popular| CallFrequency {
            tasks: popular.called,
            expected: popular.expected,
            log_ratio: popular.log_ratio,
        });
        PriorEvidence {
            gain: raised.value,
            by,
            popular,
        }
    }

    /// Returns the evidence of the quick retrievers for a tool and one subquery.
    fn cover_evidence(&self, subquery: usize, tool: ToolId) -> Result<CoverEvidence, SavedError> {
        let Subquery { text, terms, fused } = &self.ranked.subqueries()[subquery];
        let scores = &fused.scores;
        let words = request_words(self.request.index, scores, text);
        let mut evidence = CoverEvidence {
            part: (*text).to_owned(),
            score: fused.score(tool),
            keyword: None,
            semantic: None,
            examples: None,
        };
        evidence.examples = self.example_evidence(scores, tool);
        let admitted = scores.scored.select(self.request.rankable().flags());
        for part in &scores.parts {
            match vectors(self.request.index, part.retriever) {
                Some(vectors) => {
                    evidence.semantic = Some(self.semantic_evidence(
                        (part, &admitted),
                        vectors,
                        words.as_ref(),
                        tool,
                    )?);
                }
                None => {
                    evidence.keyword =
                        Some(self.keyword_evidence((part, &admitted), terms, tool)?);
                }
            }
        }
        Ok(evidence)
    }

    fn semantic_evidence(
        &self,
        (part, admitted): (&Summand, &[bool]),
        vectors: &Vectors,
        words: Option<&(&Vectors, RequestWords<'_>)>,
        tool: ToolId,
    ) -> Result<SemanticEvidence, SavedError> {
        let mut word_evidence = Vec::new();
        if let Some((word_vectors, words)) = words
            && std::ptr::eq(*word_vectors, vectors)
        {
            let definition = self.request.index.catalog.tool(tool)?;
            word_evidence = words.evidence(vectors, definition, tool);
        }
        Ok(SemanticEvidence {
            rank: part.signal.rank(tool, admitted),
            score: part.signal.score(tool),
            context: part.signal.context_change(tool),
            examples: part.signal.example_gain(tool),
            model: vectors.embedder().identity().to_owned(),
            stands_in: self.uses_fallback,
            words: word_evidence,
        })
    }

    /// Returns the parts of a weighted sum. Reciprocal ranks have none: the ranks are in the
    /// retrievers' evidence.
    fn summands(&self, fused: &FusedScores, tool: ToolId) -> BTreeMap<String, FusionPart> {
        if fused.method != Fusion::Weighted {
            return BTreeMap::new();
        }
        let mut parts = BTreeMap::new();
        for part in &fused.parts {
            let name = match vectors(self.request.index, part.retriever) {
                Some(vectors) => vectors.embedder().identity(),
                None => "keyword",
            };
            let summand = FusionPart {
                weight: part.weight,
                score: part.signal.score(tool),
            };
            parts.insert(name.to_owned(), summand);
        }
        parts
    }

    fn keyword_evidence(
        &self,
        (part, admitted): (&Summand, &[bool]),
        terms: &[FoundTerm<'_>],
        tool: ToolId,
    ) -> Result<KeywordEvidence, SavedError> {
        let mut by_sentence = [0.0; MAX_SENTENCES];
        let mut matches = Vec::new();
        for FoundTerm { query, indexed } in terms {
            if let Some((contribution, fields)) = self.request.index.keyword.explain(tool, indexed)
            {
                for sentence in query.sentences() {
                    by_sentence[sentence] += contribution;
                }
                matches.push((query, contribution, fields));
            }
        }
        // Any of several equal sentences gives the same sum.
        let best = (0..MAX_SENTENCES).max_by(|&a, &b| by_sentence[a].total_cmp(&by_sentence[b]));
        let tool_words = self.request.index.original_words(tool);
        let definition = self.request.index.catalog.tool(tool)?;
        let mut evidence = Vec::with_capacity(matches.len());
        for (query, contribution, mut fields) in matches {
            let is_in_best = query.sentences().any(|sentence| Some(sentence) == best);
            let matching_word =
                tool_words.find(definition, (query.key, query.value), query.word, fields[0]);
            for field in &mut fields {
                *field = self.request.documents.field(*field);
            }
            evidence.push(TermEvidence {
                word: one_line(query.word, MAX_MEETS_CHARS),
                read_as: query.alternative.as_ref().map(|alternative| WordReading {
                    text: alternative.text.clone(),
                    kind: alternative.kind,
                }),
                value: query.value,
                meets: one_line(matching_word.unwrap_or(query.word), MAX_MEETS_CHARS),
                kind: query.kind,
                contribution: if is_in_best {
                    contribution
                } else {
                    contribution / 2.0
                },
                fields,
            });
        }
        Ok(KeywordEvidence {
            rank: part.signal.rank(tool, admitted),
            score: part.signal.score(tool),
            context: part.signal.context_change(tool),
            examples: part.signal.example_gain(tool),
            terms: evidence,
        })
    }
}

/// Returns the words of a text and the vectors of a model, if the fusion includes a model with word
/// vectors.
fn request_words<'a>(
    index: &'a Index,
    fused: &FusedScores,
    text: &'a str,
) -> Option<(&'a Vectors, RequestWords<'a>)> {
    fused.parts.iter().find_map(|part| {
        let vectors = vectors(index, part.retriever)?;
        Some((
            vectors,
            RequestWords::new(vectors.embedder().as_ref(), text)?,
        ))
    })
}

/// Returns the vectors that a semantic retriever searched.
fn vectors(index: &Index, retriever: Retriever) -> Option<&Vectors> {
    index
        .vectors
        .iter()
        .find(|vectors| Retriever::from_embedder(vectors.embedder().as_ref()) == retriever)
}
