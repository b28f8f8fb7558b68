//! From numbers to reasons: evidence for what is returned, and one sentence for people.
//!
//! Nothing here changes a ranking, and nothing here is computed for a tool that is not returned (or, with
//! `debug`, considered).

mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::words::RequestWords;
use super::request::Request;
use crate::access::{Eligibility, MAX_LISTED_INELIGIBLE};
use crate::error::ScorerError;
use crate::excerpt::one_line;
use crate::fuse::{Fused, Fusion, Mode, Part, Raised, Retriever};
use crate::index::{Index, Vectors};
use crate::query::MAX_SENTENCES;
use crate::ranking::{Candidate, ToolId};
use crate::retrieve::FoundTerm;
use crate::scorer::Score;
use crate::select::Kept;
use crate::selection::{
    CalledTogether, Considered, Definition, DropReason, Dropped, FusionEvidence, FusionPart, Ineligible,
    IneligibleTool, KeywordEvidence, Pick, PriorEvidence, Provenance, RerankEvidence, RerankReport, SemanticEvidence,
    TermEvidence, WordEvidence,
};
use crate::sequences::Gain;
use crate::text::{Field, TermKind};

/// How many candidates an outcome shows the evidence of, beside the picked ones.
pub(crate) const MAX_CONSIDERED: usize = 100;
/// The most words that a reason quotes.
const QUOTED_WORDS: usize = 4;
/// The most pairs of near words that a reason quotes.
const QUOTED_PAIRS: usize = 2;
/// The most characters that a reason quotes of a part of the request.
const QUOTED_CHARS: usize = 80;
/// The least similarity of two words that a reason calls close.
const CLOSE: f32 = 0.3;

/// What a ranking rests on.
pub(crate) enum Basis {
    /// The built-in retrievers.
    Fused { mode: Mode, terms: Vec<FoundTerm>, fused: Fused },
    /// A custom scorer.
    Custom { scorer: String, scores: BTreeMap<ToolId, Score>, errors: Vec<ScorerError> },
    /// Nothing but the order of the catalog, because what should have ranked failed.
    Registration { scorer: String },
}

impl Basis {
    pub(crate) fn registration(scorer: &str) -> Self {
        Self::Registration { scorer: scorer.to_owned() }
    }

    /// Checks a scorer's answer, one score an eligible tool in order; a tool whose score is none is left out.
    pub(crate) fn custom(scorer: &str, index: &Index, eligibility: &Eligibility, answer: Vec<Score>) -> Self {
        let mut scores = BTreeMap::new();
        let mut errors = Vec::new();
        for (tool, score) in eligibility.admitted().zip(answer) {
            if (0.0..=1.0).contains(&score.score) {
                scores.insert(tool, score);
            } else {
                errors.push(ScorerError::InvalidScore {
                    scorer: scorer.to_owned(),
                    tool: index.catalog.tool(tool).id.clone(),
                    score: score.score.to_string(),
                });
            }
        }
        Self::Custom { scorer: scorer.to_owned(), scores, errors }
    }

    /// Names what ranked.
    pub(crate) fn scorer(&self) -> &str {
        match self {
            Self::Fused { mode, .. } => mode.name(),
            Self::Custom { scorer, .. } | Self::Registration { scorer } => scorer,
        }
    }

    /// Returns the eligible tools that it has something to say of, in registration order.
    pub(crate) fn candidates<'a>(&'a self, eligibility: &'a Eligibility) -> Box<dyn Iterator<Item = Candidate> + 'a> {
        match self {
            Self::Fused { fused, .. } => Box::new(fused.candidates(eligibility)),
            Self::Custom { scores, .. } => {
                Box::new(scores.iter().map(|(&tool, score)| Candidate { tool, score: score.score }))
            }
            Self::Registration { .. } => Box::new(eligibility.admitted().map(|tool| Candidate { tool, score: 0.0 })),
        }
    }

    /// Tells whether it has an opinion of the tool, or may do without; a tool whose score is no score has none.
    pub(crate) fn ranks(&self, tool: ToolId) -> bool {
        match self {
            Self::Custom { scores, .. } => scores.contains_key(&tool),
            Self::Fused { .. } | Self::Registration { .. } => true,
        }
    }

    /// Returns why it leaves out tools whose score is no score, one error a tool.
    pub(crate) fn errors(&self) -> &[ScorerError] {
        match self {
            Self::Custom { errors, .. } => errors,
            Self::Fused { .. } | Self::Registration { .. } => &[],
        }
    }

    /// Returns the value by which the tool is ordered.
    pub(crate) fn candidate(&self, tool: ToolId) -> Candidate {
        let score = match self {
            Self::Fused { fused, .. } => fused.value(tool),
            Self::Custom { scores, .. } => scores.get(&tool).map_or(0.0, |score| score.score),
            Self::Registration { .. } => 0.0,
        };
        Candidate { tool, score }
    }

    /// Returns the tool's score, 0..1.
    pub(crate) fn score(&self, tool: ToolId) -> f32 {
        match self {
            Self::Fused { fused, .. } => fused.score_of(tool),
            Self::Custom { .. } | Self::Registration { .. } => self.candidate(tool).score,
        }
    }

    /// Tells whether the tool scores at least as much as one of the value `least`, without what it has gained by those
    /// in use: a habit may put tools in another order, and is no evidence that one is wanted at all.
    pub(crate) fn reaches(&self, candidate: Candidate, least: f32) -> bool {
        candidate.score >= least
            && match self {
                Self::Fused { fused, .. } => fused.own_value(candidate.tool) >= least,
                Self::Custom { .. } | Self::Registration { .. } => true,
            }
    }

    /// Returns the estimated probability that any eligible tool answers the request.
    pub(crate) fn answerable(&self) -> Option<f32> {
        match self {
            Self::Fused { fused, .. } => Some(fused.answerable()),
            Self::Custom { .. } | Self::Registration { .. } => None,
        }
    }

    /// Returns the least value of a candidate that scores at least `min_score`.
    pub(crate) fn value_at(&self, min_score: f32) -> f32 {
        match self {
            Self::Fused { fused, .. } => fused.value_at(min_score),
            Self::Custom { .. } => min_score,
            Self::Registration { .. } => f32::NEG_INFINITY,
        }
    }
}

/// What reranking came to: the decision, and the places of the tools that it moved or left.
pub(crate) struct Reranked {
    pub(crate) report: RerankReport,
    pub(crate) evidence: BTreeMap<ToolId, RerankEvidence>,
}

/// Explains one pick.
pub(crate) struct Explainer<'a> {
    index: &'a Index,
    request: &'a Request<'a>,
    basis: &'a Basis,
    reranked: Option<&'a Reranked>,
    /// The request's words, where a part of the basis is the similarity of a model that can tell them apart.
    words: Option<(&'a Vectors, RequestWords<'a>)>,
}

impl<'a> Explainer<'a> {
    pub(crate) fn new(index: &'a Index, request: &'a Request<'a>, basis: &'a Basis) -> Self {
        let words = match basis {
            Basis::Fused { fused, .. } => fused.parts.iter().find_map(|part| {
                let vectors = vectors(index, part.retriever)?;
                Some((vectors, RequestWords::new(vectors.embedder().as_ref(), request.query.text())?))
            }),
            _ => None,
        };
        Self { index, request, basis, reranked: None, words }
    }

    /// Tells of reranking too.
    pub(crate) fn reranked(self, reranked: Option<&'a Reranked>) -> Self {
        Self { reranked, ..self }
    }

    /// Returns the picked tools with their reasons.
    pub(crate) fn picks(&self, kept: &Kept) -> Vec<Pick> {
        // The request is cut into its parts only where tools were chosen for them.
        let clauses = if kept.covering.is_empty() { Vec::new() } else { self.request.query.clauses() };
        let ids = |tools: Option<&Vec<ToolId>>| tools.into_iter().flatten().map(|&tool| self.id(tool)).collect();
        let picks = kept.picks.iter().map(|&Candidate { tool, .. }| {
            let mut provenance = self.provenance(tool);
            provenance.required_by = ids(kept.required.get(&tool));
            provenance.covers = kept.covering.get(&tool).map(|&part| clauses[part].to_owned());
            let reranker = self.reranked.map(|reranked| reranked.report.reranker.as_str());
            let reason = reason(self.basis, tool, &provenance, reranker);
            let score = self.basis.score(tool);
            let same_as = ids(kept.twins.get(&tool));
            let definition = kept.shown.get(&tool).map(|&(detail, tokens)| Definition { detail, tokens });
            Pick { tool: Arc::clone(self.index.catalog.tool(tool)), score, reason, provenance, same_as, definition }
        });
        picks.collect()
    }

    /// Returns the evidence of the best [`MAX_CONSIDERED`] candidates, picked or not, and of every picked one,
    /// which `picks` explain already.
    pub(crate) fn considered(&self, ranking: &[Candidate], kept: &Kept, picks: &[Pick]) -> Vec<Considered> {
        let considered = ranking.iter().enumerate().filter_map(|(place, &Candidate { tool, .. })| {
            let picked = kept.picks.iter().position(|pick| pick.tool == tool).map(|pick| &picks[pick]);
            (picked.is_some() || place < MAX_CONSIDERED).then(|| Considered {
                tool: self.id(tool),
                score: self.basis.score(tool),
                picked: picked.is_some(),
                provenance: picked.map_or_else(|| self.provenance(tool), |pick| pick.provenance.clone()),
            })
        });
        considered.collect()
    }

    /// Returns what the cut took away.
    pub(crate) fn dropped(&self, kept: &Kept) -> Vec<Dropped> {
        let over_cutoff = kept.over_cutoff.iter().map(|&tool| (tool, DropReason::MaxCandidates));
        let over_source = kept.over_source.iter().map(|&tool| (tool, DropReason::MaxPerSource));
        let over_required = kept.over_required.iter().map(|&tool| (tool, DropReason::MaxRequired));
        let over_in_use = self.request.in_use.over.iter().filter(|tool| {
            self.request.eligibility.admits(**tool) && kept.picks.iter().all(|pick| pick.tool != **tool)
        });
        let over_in_use = over_in_use.map(|&tool| (tool, DropReason::MaxInUse));
        let over_budget = kept.over_budget.iter().map(|&tool| (tool, DropReason::TokenBudget));
        let same = kept.twins.values().flatten().map(|&tool| (tool, DropReason::Same));
        let covered = kept.covered.iter().map(|&tool| (tool, DropReason::Covered));
        let dropped = over_cutoff
            .chain(over_in_use)
            .chain(over_source)
            .chain(over_required)
            .chain(over_budget)
            .chain(same)
            .chain(covered);
        dropped.map(|(tool, reason)| Dropped { tool: self.id(tool), reason }).collect()
    }

    /// Returns what the caller may not see; tools that are asked for by name come first, and then what picked tools require.
    pub(crate) fn ineligible(&self, kept: &Kept) -> Ineligible {
        let Request { eligibility, mentions, always, in_use, .. } = self.request;
        let named = mentions.iter().map(|mention| mention.tool);
        let asked_for: BTreeSet<ToolId> =
            named.chain(always.keys().copied()).chain(in_use.tools.keys().copied()).collect();
        let wanted = |tool: ToolId| always.get(&tool).or(in_use.tools.get(&tool)).map(String::as_str);
        let named = asked_for.iter().filter(|&&tool| !eligibility.admits(tool)).map(|&tool| IneligibleTool {
            tool: self.id(tool),
            named: self.request.mention(tool).or(wanted(tool)).map(str::to_owned),
            reasons: eligibility.reasons(tool),
        });
        let required = kept.refused.iter().filter(|(tool, _)| !asked_for.contains(tool)).map(|(&tool, name)| {
            let reasons = eligibility.reasons(tool);
            IneligibleTool { tool: self.id(tool), named: Some(name.clone()), reasons }
        });
        let listed = |tool: &ToolId| asked_for.contains(tool) || kept.refused.contains_key(tool);
        let others = eligibility.ineligible().filter(|tool| !listed(tool));
        let others =
            others.map(|tool| IneligibleTool { tool: self.id(tool), named: None, reasons: eligibility.reasons(tool) });
        let tools = named.chain(required).chain(others).take(MAX_LISTED_INELIGIBLE).collect();
        Ineligible { total: eligibility.ineligible_count(), counts: eligibility.counts().clone(), tools }
    }

    fn id(&self, tool: ToolId) -> String {
        self.index.catalog.tool(tool).id.clone()
    }

    fn provenance(&self, tool: ToolId) -> Provenance {
        let mut provenance = Provenance {
            scorer: self.basis.scorer().to_owned(),
            named: self.request.mention(tool).map(str::to_owned),
            always_included: self.request.always.contains_key(&tool),
            in_use: self.request.in_use.tools.get(&tool).cloned(),
            needed_by: self.request.needed.get(&tool).cloned().unwrap_or_default(),
            required_by: Vec::new(),
            covers: None,
            keyword: None,
            semantic: Vec::new(),
            fusion: None,
            prior: None,
            rerank: self.reranked.and_then(|reranked| reranked.evidence.get(&tool).copied()),
            details: None,
        };
        match self.basis {
            Basis::Registration { .. } => {}
            Basis::Custom { scores, .. } => {
                provenance.details = scores.get(&tool).and_then(|score| score.details.clone());
            }
            Basis::Fused { terms, fused, .. } => {
                for part in &fused.parts {
                    match vectors(self.index, part.retriever) {
                        Some(vectors) => provenance.semantic.push(self.semantic_evidence(part, vectors, tool)),
                        None => provenance.keyword = Some(self.keyword_evidence(part, terms, tool)),
                    }
                }
                provenance.fusion = Some(FusionEvidence {
                    method: fused.method,
                    parts: self.parts(fused, tool),
                    value: fused.value(tool),
                });
                provenance.prior = fused.gains.get(&tool).map(|raised| self.prior_evidence(raised));
            }
        }
        provenance
    }

    fn prior_evidence(&self, raised: &Raised) -> PriorEvidence {
        let by = raised.gains.iter().map(|&Gain { with, together, expected, log_ratio }| CalledTogether {
            with: self.id(with),
            together,
            expected,
            log_ratio,
        });
        PriorEvidence { gain: raised.value, by: by.collect() }
    }

    fn semantic_evidence(&self, part: &Part, vectors: &Vectors, tool: ToolId) -> SemanticEvidence {
        let words = self.words.as_ref().filter(|(told, _)| std::ptr::eq(*told, vectors));
        SemanticEvidence {
            rank: part.signal.rank(tool, &self.request.eligibility),
            score: part.signal.of(tool),
            context: part.signal.of_context(tool),
            model: vectors.embedder().identity().to_owned(),
            words: words
                .map_or_else(Vec::new, |(_, words)| words.evidence(vectors, self.index.catalog.tool(tool), tool)),
        }
    }

    /// The summands of a weighted sum; ranks, which the other method adds up, stand with the retrievers.
    fn parts(&self, fused: &Fused, tool: ToolId) -> BTreeMap<String, FusionPart> {
        if fused.method != Fusion::Weighted {
            return BTreeMap::new();
        }
        let parts = fused.parts.iter().map(|part| {
            let model = vectors(self.index, part.retriever).map(|vectors| vectors.embedder().identity());
            let summand = FusionPart { weight: part.weight, score: part.signal.of(tool) };
            (model.unwrap_or("keyword").to_owned(), summand)
        });
        parts.collect()
    }

    fn keyword_evidence(&self, part: &Part, terms: &[FoundTerm], tool: ToolId) -> KeywordEvidence {
        let mut by_sentence = [0.0; MAX_SENTENCES];
        let mut matches = Vec::new();
        for FoundTerm { query, indexed } in terms {
            if let Some((contribution, fields)) = self.index.keyword.explain(tool, indexed) {
                query.sentences().for_each(|sentence| by_sentence[sentence] += contribution);
                matches.push((query, contribution, fields));
            }
        }
        // Of equal sentences any will do: what counts is the sum.
        let best = (0..MAX_SENTENCES).max_by(|&a, &b| by_sentence[a].total_cmp(&by_sentence[b]));
        let evidence = matches.into_iter().map(|(query, contribution, fields)| {
            let within = query.sentences().any(|sentence| Some(sentence) == best);
            TermEvidence {
                word: query.word.clone(),
                kind: query.kind,
                contribution: if within { contribution } else { contribution / 2.0 },
                fields,
            }
        });
        KeywordEvidence {
            rank: part.signal.rank(tool, &self.request.eligibility),
            score: part.signal.of(tool),
            context: part.signal.of_context(tool),
            terms: evidence.collect(),
        }
    }
}

/// The vectors that a semantic retriever searched.
fn vectors(index: &Index, retriever: Retriever) -> Option<&Vectors> {
    index.vectors.iter().find(|vectors| Retriever::of(vectors.embedder().as_ref()) == retriever)
}

/// One sentence that says why the tool was picked.
fn reason(basis: &Basis, tool: ToolId, provenance: &Provenance, reranker: Option<&str>) -> String {
    let mut clauses = Vec::new();
    if let Some(name) = &provenance.named {
        clauses.push(format!("the request names it as {name:?}"));
    }
    if provenance.always_included {
        clauses.push("the caller always includes it".to_owned());
    }
    if let Some(name) = &provenance.in_use {
        clauses.push(format!("the task uses it already as {name:?}"));
    }
    match &provenance.needed_by[..] {
        [] => {}
        [skill] => clauses.push(format!("the skill {skill:?} needs it")),
        skills => {
            let skills: Vec<String> = skills.iter().map(|skill| format!("{skill:?}")).collect();
            clauses.push(format!("the skills {} need it", enumerate(&skills)));
        }
    }
    if !provenance.required_by.is_empty() {
        let tools: Vec<String> = provenance.required_by.iter().map(|tool| format!("{tool:?}")).collect();
        clauses.push(format!("{} {} it", enumerate(&tools), if tools.len() == 1 { "requires" } else { "require" }));
    }
    if let Some(part) = &provenance.covers {
        clauses.push(format!("it is for the part {:?}", one_line(part, QUOTED_CHARS)));
    }
    match basis {
        Basis::Registration { .. } => clauses.push("the ranking failed, and it comes early in the catalog".to_owned()),
        Basis::Custom { scorer, scores, .. } => match scores.get(&tool) {
            Some(Score { reason: Some(reason), .. }) => clauses.push(reason.clone()),
            Some(score) => clauses.push(format!("{scorer} scores it {:.2}", score.score)),
            None => {}
        },
        Basis::Fused { .. } => {
            clauses.extend(provenance.keyword.as_ref().and_then(matched_words));
            if let Some(semantic) = provenance.semantic.last() {
                let rank = semantic.rank.map_or(String::new(), |rank| format!(" and ranks {rank}"));
                let told = provenance.semantic.iter().flat_map(|semantic| &semantic.words);
                let near = near_words(told, provenance.keyword.as_ref());
                clauses.push(format!("its meaning is {:.2} similar{rank}{near}", semantic.score));
            }
            if provenance.in_use.is_none() && is_from_context(provenance) {
                clauses.push("what was said before calls for it".to_owned());
            }
            if let Some(CalledTogether { with, together, .. }) =
                provenance.prior.iter().find_map(|prior| prior.by.first())
            {
                let tasks = if *together == 1 { "task" } else { "tasks" };
                clauses.push(format!("{together} {tasks} called it with {with:?}, which is in use"));
            }
        }
    }
    if let (Some(reranker), Some(RerankEvidence { before, after, .. })) = (reranker, provenance.rerank)
        && before != after
    {
        clauses.push(format!("{reranker} moves it from place {before} to {after}"));
    }
    if clauses.is_empty() {
        clauses.push("nothing else was found".to_owned());
    }
    let mut sentence = clauses.join("; ");
    if let Some(first) = sentence.chars().next() {
        sentence.replace_range(..first.len_utf8(), &first.to_uppercase().to_string());
    }
    if !sentence.ends_with(['.', '!', '?', '。']) {
        sentence.push('.');
    }
    sentence
}

/// Tells whether at least half of a weighted sum comes from the context of the request.
fn is_from_context(provenance: &Provenance) -> bool {
    let Some(FusionEvidence { parts, .. }) = &provenance.fusion else { return false };
    let of = |name: &str| parts.get(name).map_or(0.0, |part| part.weight);
    let keyword = provenance.keyword.iter().map(|keyword| of("keyword") * keyword.context.unwrap_or_default());
    let semantic = provenance.semantic.iter().map(|model| of(&model.model) * model.context.unwrap_or_default());
    let context: f32 = keyword.chain(semantic).sum();
    let sum: f32 = parts.values().map(|part| part.weight * part.score).sum();
    context > 0.0 && context >= sum / 2.0
}

/// `"flight" and "Oslo" match in its name and description`, with the weightiest words first.
fn matched_words(evidence: &KeywordEvidence) -> Option<String> {
    let mut terms: Vec<&TermEvidence> = evidence.terms.iter().filter(|term| term.kind == TermKind::Word).collect();
    terms.sort_by(|a, b| b.contribution.total_cmp(&a.contribution));
    let words: Vec<String> = terms.iter().take(QUOTED_WORDS).map(|term| format!("{:?}", term.word)).collect();
    let found: BTreeSet<Field> = terms.iter().take(QUOTED_WORDS).flat_map(|term| term.fields.iter().copied()).collect();
    let fields: Vec<String> =
        Field::ALL.iter().filter(|field| found.contains(field)).map(|field| field.label().to_owned()).collect();
    let more = terms.len().saturating_sub(QUOTED_WORDS);
    let verb = if terms.len() == 1 { "matches" } else { "match" };
    let words = if more > 0 { format!("{} and {more} more", words.join(", ")) } else { enumerate(&words) };
    (!terms.is_empty()).then(|| format!("{words} {verb} in its {}", enumerate(&fields)))
}

/// `: "smaller" is close to "resize" in its name`, with the weightiest words first and without those that match as
/// keywords; nothing where no two words are close.
fn near_words<'a>(words: impl Iterator<Item = &'a WordEvidence>, keyword: Option<&KeywordEvidence>) -> String {
    let same = |a: &str, b: &str| {
        let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
        if a.is_ascii() && b.is_ascii() { a.eq_ignore_ascii_case(b) } else { lower(a) == lower(b) }
    };
    let matched = |word: &str| keyword.is_some_and(|keyword| keyword.terms.iter().any(|term| same(&term.word, word)));
    let close = words.filter(|near| near.similarity >= CLOSE && !matched(&near.word));
    let pairs = close.take(QUOTED_PAIRS).map(|WordEvidence { word, meets, field, .. }| {
        let how = if same(word, meets) { String::new() } else { format!("close to {meets:?} ") };
        format!("{word:?} is {how}in its {}", field.label())
    });
    let pairs: Vec<String> = pairs.collect();
    if pairs.is_empty() { String::new() } else { format!(": {}", enumerate(&pairs)) }
}

/// `a`, `a and b`, `a, b and c`.
fn enumerate(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
