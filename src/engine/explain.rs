//! From numbers and decisions to reasons: evidence for what is returned, and one sentence for
//! people.
//!
//! Nothing here changes a ranking or a decision, and nothing here is computed for a tool that is
//! not returned (or, with `debug`, considered).

mod reason;
mod words;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::reason::{fits, reason};
use self::words::RequestWords;
use super::candidates::MAX_CONSIDERED;
use super::parts::Part;
use super::ranked::{Custom, Ranked};
use super::request::Request;
use super::rerank::Reranked;
use crate::access::MAX_LISTED_INELIGIBLE;
use crate::examples::Counting;
use crate::excerpt::one_line;
use crate::fuse::{Fused, Fusion, Part as Summand, Raised, Retriever};
use crate::index::{Index, Vectors};
use crate::query::MAX_SENTENCES;
use crate::ranking::{Candidate, ToolId};
use crate::retrieve::FoundTerm;
use crate::select::{Decision, Fate, Refused, picks};
use crate::selection::{
    AskedBy, CalledOften, CalledTogether, Considered, CoverEvidence, Definition, DropReason,
    Dropped, ExampleEvidence, FusionEvidence, FusionPart, Ineligible, IneligibleTool,
    KeywordEvidence, Pick, PriorEvidence, Provenance, SemanticEvidence, SourceEvidence,
    TermEvidence,
};
use crate::sequences::Gain;

/// The most characters that are kept of a tool's words where they meet a term: a pair may have
/// others in between.
const MAX_MEETS_CHARS: usize = 80;

/// Explains one pick.
pub(super) struct Explainer<'a> {
    request: &'a Request<'a>,
    ranked: &'a Ranked<'a>,
    reranked: Option<&'a Reranked>,
    decisions: &'a [Decision],
    /// Whether a model failed and another stands in for it.
    stands_in: bool,
    /// The parts of the request that picks may be for.
    parts: &'a [Part<'a>],
    /// The request's words, where a part of the ranking is the similarity of a model that can tell
    /// them apart.
    words: Option<(&'a Vectors, RequestWords<'a>)>,
    /// The most that a source adds to the value of an eligible tool.
    best_source: f32,
    /// Of each tool with a value whether it is ranked.
    admitted: Cow<'a, [bool]>,
}

impl<'a> Explainer<'a> {
    pub(super) fn new(
        request: &'a Request<'a>,
        ranked: &'a Ranked<'a>,
        decisions: &'a [Decision],
    ) -> Self {
        let mut why = Self {
            request,
            ranked,
            reranked: None,
            decisions,
            stands_in: false,
            parts: &[],
            words: None,
            best_source: f32::NEG_INFINITY,
            admitted: Cow::default(),
        };
        if let (Ranked::Fused { fused, .. }, true) = (ranked, request.options.reasons) {
            why.words = words(request.index, fused, request.query.wanted());
            why.admitted = fused.scored.of(request.rankable().flags());
            why.best_source = fused.best_source(&why.admitted);
        }
        why
    }

    /// Explains picks for parts of the request too.
    pub(super) fn parts(self, parts: &'a [Part<'a>]) -> Self {
        Self { parts, ..self }
    }

    /// Says of what a model finds whether that stands in for another that failed.
    pub(super) fn standing_in(self, stands_in: bool) -> Self {
        Self { stands_in, ..self }
    }

    /// Explains reranking too.
    pub(super) fn reranked(self, reranked: Option<&'a Reranked>) -> Self {
        Self { reranked, ..self }
    }

    /// Returns the picked tools with their reasons, and after them those beside the picks.
    pub(super) fn picks(&self) -> Vec<Pick> {
        let reranker = self
            .reranked
            .map(|reranked| reranked.report.reranker.as_str());
        let reasons = self.request.options.reasons;
        let picks = picks(self.decisions).map(|(tool, picked)| {
            let mut provenance = self.provenance(tool);
            let requires = |(refused, how): (ToolId, &Refused)| {
                how.by.contains(&tool).then(|| self.id(refused))
            };
            provenance.requires_ineligible = self
                .decisions
                .iter()
                .filter_map(Decision::refused)
                .filter_map(requires)
                .collect();
            provenance.required_by = picked
                .required_by
                .iter()
                .map(|&tool| self.id(tool))
                .collect();
            provenance.covers = picked
                .covers
                .filter(|_| reasons)
                .map(|part| self.cover_evidence(part, tool));
            let twins = self
                .decisions
                .iter()
                .filter(|decision| decision.fate == Fate::SameAs(tool));
            let definition = self.request.index.catalog.tool(tool);
            Pick {
                tool: Arc::clone(definition),
                score: self.ranked.score(tool),
                reason: if reasons {
                    reason(
                        self.ranked,
                        (tool, definition),
                        &self.request.options.access,
                        &provenance,
                        reranker,
                    )
                } else {
                    String::new()
                },
                provenance,
                same_as: twins.map(|twin| self.id(twin.tool)).collect(),
                definition: picked
                    .shown
                    .map(|(detail, tokens)| Definition { detail, tokens }),
            }
        });
        picks.collect()
    }

    /// Says what the retrievers found in a tool; `None` where that is nothing.
    pub(super) fn found_in(&self, tool: ToolId) -> Option<String> {
        let found = fits(
            &self.provenance(tool),
            self.request.index.catalog.tool(tool),
        );
        (!found.is_empty()).then(|| found.join("; "))
    }

    /// Returns the evidence of the best [`MAX_CONSIDERED`] candidates, picked or not, and of every
    /// picked one, which `picks` explain already.
    pub(super) fn considered(&self, ranking: &[Candidate], explained: &[Pick]) -> Vec<Considered> {
        let considered =
            ranking
                .iter()
                .enumerate()
                .filter_map(|(place, &Candidate { tool, .. })| {
                    let picked = picks(self.decisions)
                        .position(|(pick, _)| pick == tool)
                        .map(|pick| &explained[pick]);
                    (picked.is_some() || place < MAX_CONSIDERED).then(|| Considered {
                        tool_id: self.id(tool),
                        score: self.ranked.score(tool),
                        picked: picked.is_some_and(|_| !self.is_beside(tool)),
                        untrusted: self.request.index.catalog.outline(tool).untrusted,
                        provenance: picked
                            .map_or_else(|| self.provenance(tool), |pick| pick.provenance.clone()),
                    })
                });
        considered.collect()
    }

    /// Returns `true` if the tool stands beside the picks, which require it.
    pub(super) fn is_beside(&self, tool: ToolId) -> bool {
        picks(self.decisions).any(|(pick, picked)| pick == tool && picked.beside)
    }

    /// Returns how many tools are picks, and do not stand beside them.
    pub(super) fn pick_count(&self) -> usize {
        picks(self.decisions)
            .filter(|(_, picked)| !picked.beside)
            .count()
    }

    /// Returns what was not picked although it would have been, but for a limit.
    pub(super) fn dropped(&self) -> Vec<Dropped> {
        let dropped = |decision: &Decision| {
            let reason = match decision.fate {
                Fate::Picked(_) | Fate::Refused(_) => return None,
                Fate::OverCutoff => DropReason::MaxCandidates,
                Fate::OverSource => DropReason::MaxPerSource,
                Fate::OverRequired => DropReason::MaxRequired,
                Fate::OverBudget => DropReason::TokenBudget,
                Fate::SameAs(_) => DropReason::Same,
                Fate::Copy => DropReason::Copy,
                Fate::Covered => DropReason::Covered,
            };
            Some((decision.tool, reason))
        };
        let mut dropped: Vec<(ToolId, DropReason)> =
            self.decisions.iter().filter_map(dropped).collect();
        let over_in_use = self.request.in_use.over.iter().filter(|tool| {
            self.request.eligibility.admits(**tool)
                && picks(self.decisions).all(|(pick, _)| pick != **tool)
        });
        let place = dropped.partition_point(|(_, reason)| *reason == DropReason::MaxCandidates);
        dropped.splice(
            place..place,
            over_in_use.map(|&tool| (tool, DropReason::MaxInUse)),
        );
        dropped
            .into_iter()
            .map(|(tool, reason)| Dropped {
                tool_id: self.id(tool),
                reason,
            })
            .collect()
    }

    /// Returns what the caller may not see; tools that are asked for by name come first, and then
    /// what picked tools require.
    pub(super) fn ineligible(&self) -> Ineligible {
        let Request {
            eligibility,
            mentions,
            always,
            in_use,
            ..
        } = self.request;
        let named = mentions.iter().map(|mention| mention.tool);
        let asked_for: BTreeSet<ToolId> = named
            .chain(always.keys().copied())
            .chain(in_use.tools.keys().copied())
            .collect();
        let refused: BTreeMap<ToolId, &Refused> = self
            .decisions
            .iter()
            .filter_map(Decision::refused)
            .collect();
        let explain = |tool: ToolId| {
            let required = refused.get(&tool);
            let name_of = |names: &BTreeMap<ToolId, String>| names.get(&tool).cloned();
            let asked = (self
                .request
                .mention(tool)
                .map(|name| (name.to_owned(), AskedBy::Request)))
            .or_else(|| Some((name_of(always)?, AskedBy::Caller)))
            .or_else(|| Some((name_of(&in_use.tools)?, AskedBy::Task)))
            .or_else(|| Some((required?.name.clone(), AskedBy::Tool)));
            let (named, asked_by) = asked.unzip();
            let required_by = required
                .iter()
                .flat_map(|required| &required.by)
                .map(|&by| self.id(by))
                .collect();
            IneligibleTool {
                tool_id: self.id(tool),
                named,
                asked_by,
                required_by,
                reasons: eligibility.reasons(tool),
            }
        };
        let named = asked_for
            .iter()
            .copied()
            .filter(|&tool| !eligibility.admits(tool));
        let required = refused
            .keys()
            .copied()
            .filter(|tool| !asked_for.contains(tool));
        let listed = |tool: &ToolId| asked_for.contains(tool) || refused.contains_key(tool);
        let others = eligibility.ineligible().filter(|tool| !listed(tool));
        // Nobody asked for the others.
        let other = |tool: ToolId| IneligibleTool {
            tool_id: self.id(tool),
            named: None,
            asked_by: None,
            required_by: Vec::new(),
            reasons: eligibility.reasons(tool),
        };
        let mut tools =
            Vec::with_capacity(MAX_LISTED_INELIGIBLE.min(eligibility.ineligible_count()));
        tools.extend(
            named
                .chain(required)
                .map(explain)
                .chain(others.map(other))
                .take(MAX_LISTED_INELIGIBLE),
        );
        Ineligible {
            total: eligibility.ineligible_count(),
            counts: eligibility.counts().clone(),
            tools,
        }
    }

    fn id(&self, tool: ToolId) -> String {
        self.request.index.catalog.outline(tool).id.clone()
    }

    fn provenance(&self, tool: ToolId) -> Provenance {
        let mut provenance = Provenance {
            scorer: self.ranked.scorer().to_owned(),
            named: self.request.mention(tool).map(str::to_owned),
            always_included: self.request.always.contains_key(&tool),
            in_use: self.request.in_use.tools.get(&tool).cloned(),
            needed_by: self.request.needed.get(&tool).cloned().unwrap_or_default(),
            required_by: Vec::new(),
            requires_ineligible: Vec::new(),
            covers: None,
            keyword: None,
            semantic: Vec::new(),
            fusion: None,
            examples: None,
            prior: None,
            rerank: self
                .reranked
                .and_then(|reranked| reranked.evidence.get(&tool).copied()),
            details: None,
        };
        match self.ranked {
            _ if !self.request.options.reasons => {}
            Ranked::Registration { .. } => {}
            Ranked::Custom(Custom { scores, .. }) => {
                provenance.details = scores.get(&tool).and_then(|score| score.details.clone());
            }
            Ranked::Fused { terms, fused, .. } => {
                for part in &fused.parts {
                    match vectors(self.request.index, part.retriever) {
                        Some(vectors) => {
                            let words = self.words.as_ref();
                            provenance.semantic.push(self.semantic_evidence(
                                (part, &self.admitted),
                                vectors,
                                words,
                                tool,
                            ));
                        }
                        None => {
                            provenance.keyword =
                                Some(self.keyword_evidence((part, &self.admitted), terms, tool))
                        }
                    }
                }
                provenance.fusion = Some(FusionEvidence {
                    method: fused.method,
                    parts: self.summands(fused, tool),
                    source: fused.of_source(tool).map(|gain| SourceEvidence {
                        gain,
                        best: gain >= self.best_source,
                    }),
                    value: fused.value(tool),
                });
                provenance.examples = self.example_evidence(fused, tool);
                provenance.prior = fused
                    .gains
                    .get(&tool)
                    .map(|raised| self.prior_evidence(raised));
            }
        }
        provenance
    }

    /// What the tool's examples add, where they add something.
    fn example_evidence(&self, fused: &Fused, tool: ToolId) -> Option<ExampleEvidence> {
        let examples = self.request.examples?;
        let gain = fused.of_examples(tool);
        let value = |place: &usize| fused.of_example(*place);
        // Of equal examples the first.
        let nearest = examples
            .of(tool)
            .rev()
            .max_by(|a, b| value(a).total_cmp(&value(b)))
            .filter(|_| gain > 0.0)?;
        let Counting {
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

    fn prior_evidence(&self, raised: &Raised) -> PriorEvidence {
        let by = raised.gains.iter().map(
            |&Gain {
                 with,
                 together,
                 expected,
                 log_ratio,
             }| CalledTogether {
                tool_id: self.id(with),
                together,
                expected,
                log_ratio,
            },
        );
        let popular = raised.popular.map(|popular| CalledOften {
            tasks: popular.called,
            expected: popular.expected,
            log_ratio: popular.log_ratio,
        });
        PriorEvidence {
            gain: raised.value,
            by: by.collect(),
            popular,
        }
    }

    /// What the retrievers say of the tool for a part of the request alone.
    fn cover_evidence(&self, part: usize, tool: ToolId) -> CoverEvidence {
        let Part { text, terms, fused } = &self.parts[part];
        let words = words(self.request.index, fused, text);
        let mut evidence = CoverEvidence {
            part: (*text).to_owned(),
            score: fused.score_of(tool),
            keyword: None,
            semantic: None,
            examples: None,
        };
        evidence.examples = self.example_evidence(fused, tool);
        let admitted = fused.scored.of(self.request.rankable().flags());
        for part in &fused.parts {
            match vectors(self.request.index, part.retriever) {
                Some(vectors) => {
                    evidence.semantic = Some(self.semantic_evidence(
                        (part, &admitted),
                        vectors,
                        words.as_ref(),
                        tool,
                    ));
                }
                None => {
                    evidence.keyword = Some(self.keyword_evidence((part, &admitted), terms, tool))
                }
            }
        }
        evidence
    }

    fn semantic_evidence(
        &self,
        (part, admitted): (&Summand, &[bool]),
        vectors: &Vectors,
        words: Option<&(&Vectors, RequestWords<'_>)>,
        tool: ToolId,
    ) -> SemanticEvidence {
        let words = words.filter(|(told, _)| std::ptr::eq(*told, vectors));
        SemanticEvidence {
            rank: part.signal.rank(tool, admitted),
            score: part.signal.of(tool),
            context: part.signal.of_context(tool),
            examples: part.signal.of_examples(tool),
            model: vectors.embedder().identity().to_owned(),
            stands_in: self.stands_in,
            words: words.map_or_else(Vec::new, |(_, words)| {
                words.evidence(vectors, self.request.index.catalog.tool(tool), tool)
            }),
        }
    }

    /// The summands of a weighted sum; ranks, which the other method adds up, stand with the
    /// retrievers.
    fn summands(&self, fused: &Fused, tool: ToolId) -> BTreeMap<String, FusionPart> {
        if fused.method != Fusion::Weighted {
            return BTreeMap::new();
        }
        let parts = fused.parts.iter().map(|part| {
            let model = vectors(self.request.index, part.retriever)
                .map(|vectors| vectors.embedder().identity());
            let summand = FusionPart {
                weight: part.weight,
                score: part.signal.of(tool),
            };
            (model.unwrap_or("keyword").to_owned(), summand)
        });
        parts.collect()
    }

    fn keyword_evidence(
        &self,
        (part, admitted): (&Summand, &[bool]),
        terms: &[FoundTerm<'_>],
        tool: ToolId,
    ) -> KeywordEvidence {
        let mut by_sentence = [0.0; MAX_SENTENCES];
        let mut matches = Vec::new();
        for FoundTerm { query, indexed } in terms {
            if let Some((contribution, fields)) = self.request.index.keyword.explain(tool, indexed)
            {
                query
                    .sentences()
                    .for_each(|sentence| by_sentence[sentence] += contribution);
                matches.push((query, contribution, fields));
            }
        }
        // Of equal sentences any will do: what counts is the sum.
        let best = (0..MAX_SENTENCES).max_by(|&a, &b| by_sentence[a].total_cmp(&by_sentence[b]));
        let own = self.request.index.own_words(tool);
        let definition = self.request.index.catalog.tool(tool);
        let evidence = matches.into_iter().map(|(query, contribution, fields)| {
            let within = query.sentences().any(|sentence| Some(sentence) == best);
            let own = own.find(definition, (query.key, query.value), query.word, fields[0]);
            TermEvidence {
                word: one_line(query.word, MAX_MEETS_CHARS),
                value: query.value,
                meets: one_line(own.unwrap_or(query.word), MAX_MEETS_CHARS),
                kind: query.kind,
                contribution: if within {
                    contribution
                } else {
                    contribution / 2.0
                },
                fields,
            }
        });
        KeywordEvidence {
            rank: part.signal.rank(tool, admitted),
            score: part.signal.of(tool),
            context: part.signal.of_context(tool),
            examples: part.signal.of_examples(tool),
            terms: evidence.collect(),
        }
    }
}

/// The words of a text, where a summand is the similarity of a model that can tell them apart, with
/// that model's vectors.
fn words<'a>(
    index: &'a Index,
    fused: &Fused,
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

/// The vectors that a semantic retriever searched.
fn vectors(index: &Index, retriever: Retriever) -> Option<&Vectors> {
    index
        .vectors
        .iter()
        .find(|vectors| Retriever::of(vectors.embedder().as_ref()) == retriever)
}
