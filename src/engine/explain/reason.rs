//! The reason of a pick: short clauses, separated by `; `, that name the evidence.
//!
//! A clause starts in lower case and ends without a full stop. It puts fields before the words that
//! they match, and quotes everything that a catalog or a request contributes.

use std::borrow::{Borrow, Cow};

use super::super::ranking::{RankingEvidence, RequestRanking};
use crate::access::Access;
use crate::catalog::Tool;
use crate::excerpt::{list, one_line};
use crate::ranking::ToolId;
use crate::scorer::Score;
use crate::selection::{
    CallCooccurrence, CallFrequency, CoverEvidence, ExampleEvidence, ExampleOrigin, FusionEvidence,
    KeywordEvidence, Provenance, RerankEvidence, SemanticEvidence, TermEvidence, WordEvidence,
};
use crate::text::{Field, TermKind, ValueKind};

/// The most words that a reason quotes.
const QUOTED_WORDS: usize = 4;
/// The most kinds of values that a reason names.
const QUOTED_VALUES: usize = 2;
/// The most pairs of similar words that a reason quotes.
const QUOTED_PAIRS: usize = 2;
/// The most characters that a reason quotes of a subquery.
const QUOTED_CHARS: usize = 80;
/// The least share of a fused value with which examples are mentioned.
const MENTIONED_SHARE: f32 = 0.05;
/// The least similarity of two words that are mentioned as similar.
const SIMILAR_WORDS: f32 = 0.3;

/// Writes the reason of a pick.
pub(super) fn reason(
    ranked: &dyn RequestRanking,
    (id, tool): (ToolId, &Tool),
    access: &Access,
    provenance: &Provenance,
    reranker: Option<&str>,
) -> String {
    let mut clauses = inclusion_clauses(provenance);
    match ranked.evidence() {
        RankingEvidence::CatalogOrder => {
            clauses.push("in catalog order, because the ranking failed".to_owned());
        }
        RankingEvidence::Scorer(ranking) => match ranking.scores.get(&id) {
            Some(Score {
                reason: Some(reason),
                ..
            }) => clauses.push(reason.clone()),
            Some(score) => {
                clauses.push(format!("score {:.2} from {}", score.score, ranking.scorer));
            }
            None => {}
        },
        RankingEvidence::Fused(_) => match &provenance.covers {
            Some(cover) => clauses.extend(subquery_clauses(cover)),
            None => clauses.extend(evidence_clauses(provenance, tool)),
        },
    }
    if let (Some(reranker), Some(RerankEvidence { before, after, .. })) =
        (reranker, provenance.rerank)
        && before != after
    {
        clauses.push(format!(
            "reranked from place {before} to {after} by {reranker}"
        ));
    }
    clauses.extend(missing_requirements(provenance));
    if clauses.is_empty() {
        clauses.push("no evidence found".to_owned());
    }
    if tool.untrusted {
        clauses.push("untrusted source".to_owned());
    }
    clauses.extend(approval_clause(tool, access));
    clauses.join("; ")
}

/// Writes the clauses for everything except a score that keeps a tool among the picks.
fn inclusion_clauses(provenance: &Provenance) -> Vec<String> {
    let mut clauses = Vec::new();
    if let Some(name) = &provenance.named {
        clauses.push(format!("named in the request as {name:?}"));
    }
    if provenance.always_included {
        clauses.push("always included by the caller".to_owned());
    }
    if provenance.fallback {
        clauses.push("fallback, because no other tool is likely to fit".to_owned());
    }
    if let Some(name) = &provenance.in_use {
        clauses.push(format!("in use as {name:?}"));
    }
    match &provenance.needed_by[..] {
        [] => {}
        [skill] => clauses.push(format!("needed by the skill {skill:?}")),
        skills => clauses.push(format!("needed by the skills {}", quote_all(skills))),
    }
    if !provenance.required_by.is_empty() {
        clauses.push(format!(
            "required by {}",
            quote_all(&provenance.required_by)
        ));
    }
    clauses
}

/// `requires ineligible tool "a"`.
fn missing_requirements(provenance: &Provenance) -> Option<String> {
    let tools = &provenance.requires_ineligible;
    if tools.is_empty() {
        return None;
    }
    let noun = if tools.len() == 1 { "tool" } else { "tools" };
    Some(format!("requires ineligible {noun} {}", quote_all(tools)))
}

/// `calls need approval by owner`.
fn approval_clause(tool: &Tool, access: &Access) -> Option<String> {
    if let Some(safety) = &tool.safety
        && !safety.required_approvals.is_empty()
    {
        let approvers = list(&safety.required_approvals, ", ");
        return Some(format!("calls need approval by {approvers}"));
    }
    if access.must_be_approved(tool) {
        return Some("calls need approval: not known to be read-only".to_owned());
    }
    None
}

/// Writes the clauses of a tool that was picked for one subquery.
fn subquery_clauses(
    CoverEvidence {
        part,
        score,
        keyword,
        semantic,
        examples,
    }: &CoverEvidence,
) -> Vec<String> {
    let part = one_line(part, QUOTED_CHARS);
    let mut clauses = vec![format!("serves the part {part:?} (score {score:.2})")];
    if let Some(examples) = examples {
        clauses.extend(example_clause(examples));
    }
    clauses.extend(retriever_clauses(keyword.as_ref(), semantic.as_slice()));
    clauses
}

/// Writes the clauses for the evidence of the built-in ranking.
pub(super) fn evidence_clauses(provenance: &Provenance, tool: &Tool) -> Vec<String> {
    let mut clauses = Vec::new();
    if let Some(examples) = &provenance.examples {
        clauses.extend(example_clause(examples));
    }
    clauses.extend(retriever_clauses(
        provenance.keyword.as_ref(),
        &provenance.semantic,
    ));
    clauses.extend(source_clause(provenance, tool));
    if provenance.in_use.is_none() && is_mostly_context(provenance) {
        clauses.push("matches the earlier conversation".to_owned());
    }
    if let Some(CallCooccurrence {
        tool_id, together, ..
    }) = provenance.prior.iter().find_map(|prior| prior.by.first())
    {
        let tasks = if *together == 1 { "task" } else { "tasks" };
        clauses.push(format!(
            "called together with {tool_id:?} (in use) in {together} {tasks}"
        ));
    }
    if let Some(CallFrequency { tasks, .. }) = provenance
        .prior
        .iter()
        .find_map(|prior| prior.popular.as_ref())
    {
        clauses.push(format!("called in {tasks} tasks, more than most tools"));
    }
    clauses
}

/// `similar to a request it served: "book me a flight"`, if the example contributes enough.
fn example_clause(
    ExampleEvidence {
        share,
        nearest,
        origin,
        ..
    }: &ExampleEvidence,
) -> Option<String> {
    let kind = match origin {
        ExampleOrigin::Definition => "an example in its definition",
        ExampleOrigin::Served => "a request it served",
        ExampleOrigin::Synthetic => "a synthetic example",
    };
    let is_mentioned = *share >= MENTIONED_SHARE;
    if !is_mentioned {
        return None;
    }
    let request = one_line(nearest, QUOTED_CHARS);
    Some(format!("similar to {kind}: {request:?}"))
}

/// `best-matching server: mail`.
fn source_clause(provenance: &Provenance, tool: &Tool) -> Option<String> {
    let evidence = provenance.fusion.as_ref()?.source?;
    if !evidence.best {
        return None;
    }
    let source = one_line(tool.source.as_deref()?, QUOTED_CHARS);
    Some(format!(
        "best-matching server: {}",
        plain_or_quoted(&source)
    ))
}

/// Writes the clauses for matching words, accepted values and semantic similarity.
fn retriever_clauses(
    keyword: Option<&KeywordEvidence>,
    semantic: &[SemanticEvidence],
) -> Vec<String> {
    let mut clauses = Vec::new();
    if let Some(keyword) = keyword {
        clauses.extend(matching_words(keyword));
        clauses.extend(accepted_values(keyword));
    }
    if let Some(SemanticEvidence {
        score,
        rank,
        model,
        stands_in,
        examples,
        ..
    }) = semantic.last()
    {
        // The contribution of examples has a clause of its own.
        let score = score - examples.unwrap_or_default();
        let mut details = Vec::new();
        if let Some(rank) = rank {
            details.push(format!("rank {rank}"));
        }
        if *stands_in {
            details.push(format!("fallback model {model:?}"));
        }
        let details = if details.is_empty() {
            String::new()
        } else {
            format!(" ({})", details.join(", "))
        };
        clauses.push(format!("semantic similarity {score:.2}{details}"));
        let words = semantic.iter().flat_map(|semantic| &semantic.words);
        clauses.extend(similar_words(words, keyword));
    }
    clauses
}

/// Returns `true` if at least half of a weighted sum comes from the context of the request.
fn is_mostly_context(provenance: &Provenance) -> bool {
    let Some(FusionEvidence { parts, .. }) = &provenance.fusion else {
        return false;
    };
    let weight = |name: &str| parts.get(name).map_or(0.0, |part| part.weight);
    let mut context = 0.0;
    if let Some(keyword) = &provenance.keyword {
        context += weight("keyword") * keyword.context.unwrap_or_default();
    }
    for model in &provenance.semantic {
        context += weight(&model.model) * model.context.unwrap_or_default();
    }
    let sum: f32 = parts.values().map(|part| part.weight * part.score).sum();
    context > 0.0 && context >= sum / 2.0
}

/// `name and description match "flights" (as "flight") and "Oslo"`, the weightiest words first.
fn matching_words(evidence: &KeywordEvidence) -> Option<String> {
    let mut terms: Vec<&TermEvidence> = evidence
        .terms
        .iter()
        .filter(|term| term.kind == TermKind::Word)
        .collect();
    if terms.is_empty() {
        return None;
    }
    terms.sort_by(|a, b| b.contribution.total_cmp(&a.contribution));
    let hidden_words = terms.len().saturating_sub(QUOTED_WORDS);
    terms.truncate(QUOTED_WORDS);
    let mut fields = Vec::new();
    let mut labels = Vec::new();
    for field in Field::ALL.into_iter().chain([Field::Instructions]) {
        if terms.iter().any(|term| term.fields.contains(&field)) {
            fields.push(field);
            labels.push(field.label());
        }
    }
    let is_singular = matches!(
        fields[..],
        [Field::Name | Field::Title | Field::Description]
    );
    let verb = if is_singular { "matches" } else { "match" };
    let mut words = Vec::with_capacity(terms.len());
    for term in terms {
        words.push(quote_term(term));
    }
    let words = if hidden_words > 0 {
        format!("{} and {hidden_words} more", words.join(", "))
    } else {
        enumerate(&words)
    };
    Some(format!("{} {verb} {words}", enumerate(&labels)))
}

/// `"flights" (as "flight")`: the word of the request, and that of the tool if it differs.
fn quote_term(TermEvidence { word, meets, .. }: &TermEvidence) -> String {
    if is_same_word(word, meets) {
        format!("{word:?}")
    } else {
        format!("{word:?} (as {meets:?})")
    }
}

/// `accepts a path ("notes.txt") and a date ("3 June")`, the weightiest kinds first.
fn accepted_values(evidence: &KeywordEvidence) -> Option<String> {
    let mut values: Vec<(&TermEvidence, ValueKind)> = Vec::new();
    for term in &evidence.terms {
        if let Some(kind) = term.value {
            values.push((term, kind));
        }
    }
    if values.is_empty() {
        return None;
    }
    values.sort_by(|(a, _), (b, _)| b.contribution.total_cmp(&a.contribution));
    values.truncate(QUOTED_VALUES);
    let mut labels = Vec::with_capacity(values.len());
    for (term, kind) in values {
        labels.push(format!("{} ({:?})", kind.label(), term.word));
    }
    Some(format!("accepts {}", enumerate(&labels)))
}

/// `similar words: "smaller" ~ "size" in description`, the weightiest words first. Words that
/// match as keywords are left out; `None` if no two words are similar enough.
fn similar_words<'a>(
    words: impl Iterator<Item = &'a WordEvidence>,
    keyword: Option<&KeywordEvidence>,
) -> Option<String> {
    let is_keyword = |word: &str| {
        keyword.is_some_and(|keyword| {
            keyword
                .terms
                .iter()
                .any(|term| is_same_word(&term.word, word))
        })
    };
    let mut pairs = Vec::new();
    for pair in words {
        if pair.similarity >= SIMILAR_WORDS && !is_keyword(&pair.word) {
            pairs.push(quote_pair(pair));
        }
        if pairs.len() == QUOTED_PAIRS {
            break;
        }
    }
    if pairs.is_empty() {
        return None;
    }
    Some(format!("similar words: {}", pairs.join(", ")))
}

/// `"smaller" ~ "size" in description`.
fn quote_pair(
    WordEvidence {
        word, meets, field, ..
    }: &WordEvidence,
) -> String {
    let field = field.label();
    if is_same_word(word, meets) {
        format!("{word:?} in {field}")
    } else {
        format!("{word:?} ~ {meets:?} in {field}")
    }
}

/// Returns `true` if two words differ in case at most.
fn is_same_word(a: &str, b: &str) -> bool {
    let lower = |text: &str| {
        text.chars()
            .flat_map(char::to_lowercase)
            .collect::<String>()
    };
    if a.is_ascii() && b.is_ascii() {
        a.eq_ignore_ascii_case(b)
    } else {
        lower(a) == lower(b)
    }
}

/// Returns a name as it is if it cannot be mistaken for other text of a reason, else quoted.
fn plain_or_quoted(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        name.into()
    } else {
        format!("{name:?}").into()
    }
}

/// `"a"`, `"a" and "b"`, `"a", "b" and "c"`.
fn quote_all(names: &[String]) -> String {
    let mut quoted = Vec::with_capacity(names.len());
    for name in names {
        quoted.push(format!("{name:?}"));
    }
    enumerate(&quoted)
}

/// `a`, `a and b`, `a, b and c`.
fn enumerate<T: Borrow<str>>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [one] => one.borrow().to_owned(),
        [first @ .., last] => format!("{} and {}", first.join(", "), last.borrow()),
    }
}
