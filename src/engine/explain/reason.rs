//! The reason of a pick: short clauses, separated by `; `, that name the evidence.
//!
//! A clause starts in lower case and ends without a full stop. It puts fields before the words that
//! they match, and quotes everything that a catalog or a request contributes.

use std::borrow::Cow;
use std::fmt;

use super::super::ranking::{RankingEvidence, RequestRanking};
use crate::access::Access;
use crate::catalog::Tool;
use crate::excerpt::{list, one_line};
use crate::ranking::ToolId;
use crate::retrieve::AlternativeKind;
use crate::scorer::Score;
use crate::selection::{
    CallCooccurrence, CallFrequency, CoverEvidence, ExampleEvidence, ExampleOrigin, FusionEvidence,
    KeywordEvidence, Provenance, RerankEvidence, SemanticEvidence, TermEvidence, WordEvidence,
    WordReading,
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
/// The usual length of a reason, in bytes.
const TYPICAL_BYTES: usize = 240;

/// The clauses of a reason, written one after the other.
#[derive(Default)]
pub(super) struct Clauses(String);

impl Clauses {
    fn add(&mut self, clause: fmt::Arguments<'_>) {
        if self.0.is_empty() {
            self.0.reserve(TYPICAL_BYTES);
        } else {
            self.0.push_str("; ");
        }
        fmt::write(&mut self.0, clause).expect("writing to a string cannot fail");
    }

    /// Returns the text; `None` if there are no clauses.
    pub(super) fn into_text(self) -> Option<String> {
        Some(self.0).filter(|text| !text.is_empty())
    }
}

/// Writes the reason of a pick.
pub(super) fn reason(
    ranked: &dyn RequestRanking,
    (id, tool): (ToolId, &Tool),
    access: &Access,
    provenance: &Provenance,
    reranker: Option<&str>,
) -> String {
    let mut clauses = Clauses::default();
    add_inclusion(provenance, &mut clauses);
    match ranked.evidence() {
        RankingEvidence::CatalogOrder => {
            clauses.add(format_args!("in catalog order, because the ranking failed"));
        }
        RankingEvidence::Scorer(ranking) => match ranking.scores.get(&id) {
            Some(Score {
                reason: Some(reason),
                ..
            }) if !reason.is_empty() => clauses.add(format_args!("{reason}")),
            Some(Score { score, .. }) => {
                clauses.add(format_args!("score {score:.2} from {}", ranking.scorer));
            }
            None => {}
        },
        RankingEvidence::Fused(_) => match &provenance.covers {
            Some(cover) => add_subquery(cover, &mut clauses),
            None => add_evidence(provenance, tool, &mut clauses),
        },
    }
    if let (Some(reranker), Some(RerankEvidence { before, after, .. })) =
        (reranker, provenance.rerank)
        && before != after
    {
        clauses.add(format_args!(
            "reranked from place {before} to {after} by {reranker}"
        ));
    }
    add_missing_requirements(provenance, &mut clauses);
    if clauses.0.is_empty() {
        clauses.add(format_args!("no evidence found"));
    }
    if tool.untrusted {
        clauses.add(format_args!("untrusted source"));
    }
    add_approval(tool, access, &mut clauses);
    clauses.0
}

/// Adds the clauses for everything except a score that keeps a tool among the picks.
fn add_inclusion(provenance: &Provenance, clauses: &mut Clauses) {
    if let Some(name) = &provenance.named {
        clauses.add(format_args!("named in the request as {name:?}"));
    }
    if provenance.always_included {
        clauses.add(format_args!("always included by the caller"));
    }
    if provenance.fallback {
        clauses.add(format_args!(
            "fallback, because no other tool is likely to fit"
        ));
    }
    if let Some(name) = &provenance.in_use {
        clauses.add(format_args!("in use as {name:?}"));
    }
    match &provenance.needed_by[..] {
        [] => {}
        [skill] => clauses.add(format_args!("needed by the skill {skill:?}")),
        skills => clauses.add(format_args!("needed by the skills {}", quote_all(skills))),
    }
    if !provenance.required_by.is_empty() {
        clauses.add(format_args!(
            "required by {}",
            quote_all(&provenance.required_by)
        ));
    }
}

/// `requires ineligible tool "a"`.
fn add_missing_requirements(provenance: &Provenance, clauses: &mut Clauses) {
    let tools = &provenance.requires_ineligible;
    if !tools.is_empty() {
        let noun = if tools.len() == 1 { "tool" } else { "tools" };
        clauses.add(format_args!(
            "requires ineligible {noun} {}",
            quote_all(tools)
        ));
    }
}

/// `calls need approval by owner`.
fn add_approval(tool: &Tool, access: &Access, clauses: &mut Clauses) {
    if let Some(safety) = &tool.safety
        && !safety.required_approvals.is_empty()
    {
        let approvers = list(&safety.required_approvals, ", ");
        clauses.add(format_args!("calls need approval by {approvers}"));
    } else if access.must_be_approved(tool) {
        clauses.add(format_args!(
            "calls need approval: not known to be read-only"
        ));
    }
}

/// Adds the clauses of a tool that was picked for one subquery.
fn add_subquery(
    CoverEvidence {
        part,
        score,
        keyword,
        semantic,
        examples,
    }: &CoverEvidence,
    clauses: &mut Clauses,
) {
    let part = one_line(part, QUOTED_CHARS);
    clauses.add(format_args!("serves the part {part:?} (score {score:.2})"));
    if let Some(examples) = examples {
        add_example(examples, clauses);
    }
    add_retrievers(keyword.as_ref(), semantic.as_slice(), clauses);
}

/// Adds the clauses for the evidence of the built-in ranking.
pub(super) fn add_evidence(provenance: &Provenance, tool: &Tool, clauses: &mut Clauses) {
    if let Some(examples) = &provenance.examples {
        add_example(examples, clauses);
    }
    add_retrievers(provenance.keyword.as_ref(), &provenance.semantic, clauses);
    add_source(provenance, tool, clauses);
    if provenance.in_use.is_none() && is_mostly_context(provenance) {
        clauses.add(format_args!("matches the earlier conversation"));
    }
    if let Some(CallCooccurrence {
        tool_id, together, ..
    }) = provenance.prior.iter().find_map(|prior| prior.by.first())
    {
        let tasks = if *together == 1 { "task" } else { "tasks" };
        clauses.add(format_args!(
            "called together with {tool_id:?} (in use) in {together} {tasks}"
        ));
    }
    if let Some(CallFrequency { tasks, .. }) = provenance
        .prior
        .iter()
        .find_map(|prior| prior.popular.as_ref())
    {
        clauses.add(format_args!(
            "called in {tasks} tasks, more than most tools"
        ));
    }
}

/// `similar to a request it served: "book me a flight"`, if the example contributes enough.
fn add_example(
    ExampleEvidence {
        share,
        nearest,
        origin,
        ..
    }: &ExampleEvidence,
    clauses: &mut Clauses,
) {
    let kind = match origin {
        ExampleOrigin::Definition => "an example in its definition",
        ExampleOrigin::Served => "a request it served",
        ExampleOrigin::Synthetic => "a synthetic example",
    };
    if *share >= MENTIONED_SHARE {
        let request = one_line(nearest, QUOTED_CHARS);
        clauses.add(format_args!("similar to {kind}: {request:?}"));
    }
}

/// `best-matching server: mail`.
fn add_source(provenance: &Provenance, tool: &Tool, clauses: &mut Clauses) {
    let evidence = provenance.fusion.as_ref().and_then(|fusion| fusion.source);
    if evidence.is_some_and(|evidence| evidence.best)
        && let Some(source) = &tool.source
    {
        let source = one_line(source, QUOTED_CHARS);
        let source = plain_or_quoted(&source);
        clauses.add(format_args!("best-matching server: {source}"));
    }
}

/// Adds the clauses for matching words, accepted values and semantic similarity.
fn add_retrievers(
    keyword: Option<&KeywordEvidence>,
    semantic: &[SemanticEvidence],
    clauses: &mut Clauses,
) {
    if let Some(keyword) = keyword {
        add_matching_words(keyword, clauses);
        add_accepted_values(keyword, clauses);
    }
    if let Some(last) = semantic.last() {
        // The contribution of examples has a clause of its own.
        let score = last.score - last.examples.unwrap_or_default();
        match (last.rank, last.stands_in.then_some(&last.model)) {
            (None, None) => clauses.add(format_args!("semantic similarity {score:.2}")),
            (Some(rank), None) => {
                clauses.add(format_args!("semantic similarity {score:.2} (rank {rank})"));
            }
            (None, Some(model)) => clauses.add(format_args!(
                "semantic similarity {score:.2} (fallback model {model:?})"
            )),
            (Some(rank), Some(model)) => clauses.add(format_args!(
                "semantic similarity {score:.2} (rank {rank}, fallback model {model:?})"
            )),
        }
        let words = semantic.iter().flat_map(|semantic| &semantic.words);
        add_similar_words(words, keyword, clauses);
    }
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
fn add_matching_words(evidence: &KeywordEvidence, clauses: &mut Clauses) {
    let is_word = |term: &&TermEvidence| term.kind == TermKind::Word;
    let mut terms: Vec<&TermEvidence> = evidence.terms.iter().filter(is_word).collect();
    if terms.is_empty() {
        return;
    }
    terms.sort_by(|a, b| b.contribution.total_cmp(&a.contribution));
    // The words of a meaning are mentioned once.
    let mut mentioned: Vec<(&str, &WordReading)> = Vec::new();
    terms.retain(|term| {
        let Some(reading) = &term.read_as else {
            return true;
        };
        let is_new = !mentioned.contains(&(term.word.as_str(), reading));
        mentioned.push((&term.word, reading));
        is_new
    });
    let hidden_words = terms.len().saturating_sub(QUOTED_WORDS);
    terms.truncate(QUOTED_WORDS);
    let fields: Vec<Field> = Field::ALL
        .into_iter()
        .chain([Field::Instructions])
        .filter(|field| terms.iter().any(|term| term.fields.contains(field)))
        .collect();
    let is_singular = matches!(
        fields[..],
        [Field::Name | Field::Title | Field::Description]
    );
    let verb = if is_singular { "matches" } else { "match" };
    let fields = enumerate(&fields, |field, f| f.write_str(field.label()));
    if hidden_words > 0 {
        let words = join(&terms, |term, f| quote_term(term, f));
        clauses.add(format_args!(
            "{fields} {verb} {words} and {hidden_words} more"
        ));
    } else {
        let words = enumerate(&terms, |term, f| quote_term(term, f));
        clauses.add(format_args!("{fields} {verb} {words}"));
    }
}

/// `"flights" (as "flight")`: the word of the request, and that of the tool if it differs.
fn quote_term(term: &TermEvidence, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let TermEvidence {
        word,
        meets,
        read_as,
        ..
    } = term;
    if let Some(WordReading { text, kind }) = read_as {
        return match kind {
            AlternativeKind::Typo => write!(f, "{word:?} (read as {text:?})"),
            AlternativeKind::Abbreviation => write!(f, "{word:?} (short for {text:?})"),
            AlternativeKind::Form => write!(f, "{word:?} (as {meets:?})"),
            AlternativeKind::Compound => write!(f, "{word:?} (contains {text:?})"),
        };
    }
    if is_same_word(word, meets) {
        write!(f, "{word:?}")
    } else {
        write!(f, "{word:?} (as {meets:?})")
    }
}

/// `accepts a path ("notes.txt") and a date ("3 June")`, the weightiest kinds first.
fn add_accepted_values(evidence: &KeywordEvidence, clauses: &mut Clauses) {
    let mut values: Vec<(&TermEvidence, ValueKind)> = Vec::new();
    for term in &evidence.terms {
        if let Some(kind) = term.value {
            values.push((term, kind));
        }
    }
    if values.is_empty() {
        return;
    }
    values.sort_by(|(a, _), (b, _)| b.contribution.total_cmp(&a.contribution));
    values.truncate(QUOTED_VALUES);
    let values = enumerate(&values, |(term, kind), f| {
        write!(f, "{} ({:?})", kind.label(), term.word)
    });
    clauses.add(format_args!("accepts {values}"));
}

/// `similar words: "smaller" ~ "size" in description`, the weightiest words first. Words that
/// match as keywords are left out, and so is the clause if no two words are similar enough.
fn add_similar_words<'a>(
    words: impl Iterator<Item = &'a WordEvidence>,
    keyword: Option<&KeywordEvidence>,
    clauses: &mut Clauses,
) {
    let terms = keyword.map_or(&[][..], |keyword| &keyword.terms);
    let is_keyword = |word: &str| terms.iter().any(|term| is_same_word(&term.word, word));
    let pairs: Vec<&WordEvidence> = words
        .filter(|pair| pair.similarity >= SIMILAR_WORDS && !is_keyword(&pair.word))
        .take(QUOTED_PAIRS)
        .collect();
    if !pairs.is_empty() {
        let pairs = join(&pairs, |pair, f| quote_pair(pair, f));
        clauses.add(format_args!("similar words: {pairs}"));
    }
}

/// `"smaller" ~ "size" in description`.
fn quote_pair(pair: &WordEvidence, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let WordEvidence {
        word, meets, field, ..
    } = pair;
    let field = field.label();
    if is_same_word(word, meets) {
        write!(f, "{word:?} in {field}")
    } else {
        write!(f, "{word:?} ~ {meets:?} in {field}")
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
fn quote_all(names: &[String]) -> impl fmt::Display {
    enumerate(names, |name, f| write!(f, "{name:?}"))
}

/// `a`, `a and b`, `a, b and c`.
fn enumerate<T>(
    items: &[T],
    write: impl Fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> impl fmt::Display {
    separated(items, " and ", write)
}

/// `a`, `a, b`, `a, b, c`.
fn join<T>(
    items: &[T],
    write: impl Fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> impl fmt::Display {
    separated(items, ", ", write)
}

/// Items with commas between them, and with `last_separator` before the last one.
fn separated<T>(
    items: &[T],
    last_separator: &str,
    write: impl Fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        for (position, item) in items.iter().enumerate() {
            if position > 0 {
                let is_last = position + 1 == items.len();
                f.write_str(if is_last { last_separator } else { ", " })?;
            }
            write(item, f)?;
        }
        Ok(())
    })
}
