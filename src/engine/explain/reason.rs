//! One sentence that says why a tool was picked.

use std::borrow::Borrow;

use super::super::ranked::{Custom, Ranked};
use crate::access::Access;
use crate::catalog::Tool;
use crate::excerpt::{list, one_line};
use crate::ranking::ToolId;
use crate::scorer::Score;
use crate::selection::{
    CalledOften, CalledTogether, CoverEvidence, ExampleEvidence, ExampleOrigin, FusionEvidence,
    KeywordEvidence, Provenance, RerankEvidence, SemanticEvidence, TermEvidence, WordEvidence,
};
use crate::text::{Field, TermKind, ValueKind};

/// The most words that a reason quotes.
const QUOTED_WORDS: usize = 4;
/// The most kinds of values that a reason names.
const QUOTED_VALUES: usize = 2;
/// The most pairs of near words that a reason quotes.
const QUOTED_PAIRS: usize = 2;
/// The most characters that a reason quotes of a part of the request.
const QUOTED_CHARS: usize = 80;
/// The least share that examples have of a value where a reason tells of them.
const TELLING_SHARE: f32 = 0.05;
/// The least similarity of two words that a reason calls close.
const CLOSE: f32 = 0.3;

/// One sentence that says why the tool was picked.
pub(super) fn reason(
    ranked: &Ranked<'_>,
    (id, tool): (ToolId, &Tool),
    access: &Access,
    provenance: &Provenance,
    reranker: Option<&str>,
) -> String {
    let mut clauses = stays(provenance);
    match ranked {
        Ranked::Registration { .. } => {
            clauses.push("the ranking failed, and it comes early in the catalog".to_owned())
        }
        Ranked::Custom(Custom { scorer, scores, .. }) => match scores.get(&id) {
            Some(Score {
                reason: Some(reason),
                ..
            }) => clauses.push(reason.clone()),
            Some(score) => clauses.push(format!("{scorer} scores it {:.2}", score.score)),
            None => {}
        },
        Ranked::Fused { .. } => match &provenance.covers {
            Some(covers) => clauses.push(fits_part(covers)),
            None => clauses.extend(fits(provenance, tool)),
        },
    }
    if let (Some(reranker), Some(RerankEvidence { before, after, .. })) =
        (reranker, provenance.rerank)
        && before != after
    {
        clauses.push(format!(
            "{reranker} moves it from place {before} to {after}"
        ));
    }
    clauses.extend(lacks(provenance));
    if clauses.is_empty() {
        clauses.push("nothing else was found".to_owned());
    }
    if tool.untrusted {
        clauses.push("its source is untrusted".to_owned());
    }
    if let Some(safety) = tool
        .safety
        .as_ref()
        .filter(|safety| !safety.required_approvals.is_empty())
    {
        clauses.push(format!(
            "a call must be approved by {}",
            list(&safety.required_approvals, ", ")
        ));
    } else if access.must_be_approved(tool) {
        clauses.push("a call must be approved, as it is not known to change nothing".to_owned());
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

/// What keeps the tool among the picks beside its score.
fn stays(provenance: &Provenance) -> Vec<String> {
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
        let tools: Vec<String> = provenance
            .required_by
            .iter()
            .map(|tool| format!("{tool:?}"))
            .collect();
        clauses.push(format!(
            "{} {} it",
            enumerate(&tools),
            if tools.len() == 1 {
                "requires"
            } else {
                "require"
            }
        ));
    }
    clauses
}

/// `it requires "a", which may not be used here`.
fn lacks(
    Provenance {
        requires_ineligible,
        ..
    }: &Provenance,
) -> Option<String> {
    let tools: Vec<String> = requires_ineligible
        .iter()
        .map(|tool| format!("{tool:?}"))
        .collect();
    (!tools.is_empty()).then(|| {
        format!(
            "it requires {}, which may not be used here",
            enumerate(&tools)
        )
    })
}

/// What the retrievers found in the tool for the part of the request that it was picked for.
fn fits_part(
    CoverEvidence {
        part,
        score,
        keyword,
        semantic,
        examples,
    }: &CoverEvidence,
) -> String {
    let found = found(keyword.as_ref(), semantic.as_slice());
    let found = examples
        .iter()
        .filter_map(served)
        .chain(found)
        .collect::<Vec<_>>()
        .join("; ");
    format!(
        "it is for the part {:?}, with a score of {score:.2} there: {found}",
        one_line(part, QUOTED_CHARS)
    )
}

/// What the built-in ranking found in the tool.
pub(super) fn fits(provenance: &Provenance, tool: &Tool) -> Vec<String> {
    let mut clauses: Vec<String> = provenance.examples.iter().filter_map(served).collect();
    clauses.extend(found(provenance.keyword.as_ref(), &provenance.semantic));
    clauses.extend(source_fits(provenance, tool));
    if provenance.in_use.is_none() && is_from_context(provenance) {
        clauses.push("what was said before calls for it".to_owned());
    }
    if let Some(CalledTogether {
        tool_id, together, ..
    }) = provenance.prior.iter().find_map(|prior| prior.by.first())
    {
        let tasks = if *together == 1 { "task" } else { "tasks" };
        clauses.push(format!(
            "{together} {tasks} called it with {tool_id:?}, which is in use"
        ));
    }
    if let Some(CalledOften { tasks, .. }) = provenance
        .prior
        .iter()
        .find_map(|prior| prior.popular.as_ref())
    {
        clauses.push(format!("{tasks} tasks called it, more than most tools"));
    }
    clauses
}

/// `like "book me a flight", which it served before`, where that counts for something.
fn served(
    ExampleEvidence {
        share,
        nearest,
        origin,
        ..
    }: &ExampleEvidence,
) -> Option<String> {
    let what = match origin {
        ExampleOrigin::Definition => "an example in its definition",
        ExampleOrigin::Served => "which it served before",
        ExampleOrigin::Synthetic => "a request that a model wrote for it",
    };
    (*share >= TELLING_SHARE).then(|| format!("like {:?}, {what}", one_line(nearest, QUOTED_CHARS)))
}

/// `of all sources "mail" fits best`.
fn source_fits(provenance: &Provenance, tool: &Tool) -> Option<String> {
    let best = provenance
        .fusion
        .as_ref()?
        .source
        .is_some_and(|source| source.best);
    let source = tool.source.as_deref().filter(|_| best)?;
    Some(format!(
        "of all sources {:?} fits best",
        one_line(source, QUOTED_CHARS)
    ))
}

/// Which words match and how similar the meaning is.
fn found(keyword: Option<&KeywordEvidence>, semantic: &[SemanticEvidence]) -> Vec<String> {
    let mut clauses: Vec<String> = keyword.and_then(matched_words).into_iter().collect();
    clauses.extend(keyword.and_then(taken_values));
    if let Some(SemanticEvidence {
        score,
        rank,
        model,
        stands_in,
        examples,
        ..
    }) = semantic.last()
    {
        // What examples add is told of them.
        let score = score - examples.unwrap_or_default();
        let rank = rank.map_or(String::new(), |rank| format!(" and ranks {rank}"));
        let near = near_words(
            semantic.iter().flat_map(|semantic| &semantic.words),
            keyword,
        );
        let by = if *stands_in {
            format!(" by {model:?}, which stands in,")
        } else {
            String::new()
        };
        clauses.push(format!("its meaning is {score:.2} similar{by}{rank}{near}"));
    }
    clauses
}

/// Returns `true` if at least half of a weighted sum comes from the context of the request.
fn is_from_context(provenance: &Provenance) -> bool {
    let Some(FusionEvidence { parts, .. }) = &provenance.fusion else {
        return false;
    };
    let of = |name: &str| parts.get(name).map_or(0.0, |part| part.weight);
    let keyword = provenance
        .keyword
        .iter()
        .map(|keyword| of("keyword") * keyword.context.unwrap_or_default());
    let semantic = provenance
        .semantic
        .iter()
        .map(|model| of(&model.model) * model.context.unwrap_or_default());
    let context: f32 = keyword.chain(semantic).sum();
    let sum: f32 = parts.values().map(|part| part.weight * part.score).sum();
    context > 0.0 && context >= sum / 2.0
}

/// `"flights" as "flight" and "Oslo" match in its name and description`, with the weightiest words
/// first.
fn matched_words(evidence: &KeywordEvidence) -> Option<String> {
    let mut terms: Vec<&TermEvidence> = evidence
        .terms
        .iter()
        .filter(|term| term.kind == TermKind::Word)
        .collect();
    terms.sort_by(|a, b| b.contribution.total_cmp(&a.contribution));
    let quoted = |TermEvidence { word, meets, .. }: &TermEvidence| {
        if is_same(word, meets) {
            format!("{word:?}")
        } else {
            format!("{word:?} as {meets:?}")
        }
    };
    let words: Vec<String> = terms
        .iter()
        .take(QUOTED_WORDS)
        .map(|term| quoted(term))
        .collect();
    let is_quoted = |field: &&Field| {
        terms
            .iter()
            .take(QUOTED_WORDS)
            .any(|term| term.fields.contains(field))
    };
    let fields: Vec<&str> = Field::ALL
        .iter()
        .filter(is_quoted)
        .map(|field| field.label())
        .collect();
    let more = terms.len().saturating_sub(QUOTED_WORDS);
    let verb = if terms.len() == 1 { "matches" } else { "match" };
    let words = if more > 0 {
        format!("{} and {more} more", words.join(", "))
    } else {
        enumerate(&words)
    };
    (!terms.is_empty()).then(|| format!("{words} {verb} in its {}", enumerate(&fields)))
}

/// `it takes a path, like "notes.txt", and a date, like "3 June"`, with the weightiest kinds first.
fn taken_values(evidence: &KeywordEvidence) -> Option<String> {
    let mut values: Vec<(&TermEvidence, ValueKind)> = evidence
        .terms
        .iter()
        .filter_map(|term| Some((term, term.value?)))
        .collect();
    values.sort_by(|(a, _), (b, _)| b.contribution.total_cmp(&a.contribution));
    let said = |(term, kind): &(&TermEvidence, ValueKind)| {
        format!("{}, like {:?}", kind.label(), term.word)
    };
    let values: Vec<String> = values.iter().take(QUOTED_VALUES).map(said).collect();
    let values = values.join(", and ");
    (!values.is_empty()).then(|| format!("it takes {values}"))
}

/// `: "smaller" is close to "resize" in its name`, with the weightiest words first and without
/// those that match as keywords; nothing where no two words are close.
fn near_words<'a>(
    words: impl Iterator<Item = &'a WordEvidence>,
    keyword: Option<&KeywordEvidence>,
) -> String {
    let matched = |word: &str| {
        keyword.is_some_and(|keyword| keyword.terms.iter().any(|term| is_same(&term.word, word)))
    };
    let close = words.filter(|near| near.similarity >= CLOSE && !matched(&near.word));
    let pairs = close.take(QUOTED_PAIRS).map(
        |WordEvidence {
             word, meets, field, ..
         }| {
            let how = if is_same(word, meets) {
                String::new()
            } else {
                format!("close to {meets:?} ")
            };
            format!("{word:?} is {how}in its {}", field.label())
        },
    );
    let pairs: Vec<String> = pairs.collect();
    if pairs.is_empty() {
        String::new()
    } else {
        format!(": {}", enumerate(&pairs))
    }
}

/// Returns `true` if two words differ in case at most.
fn is_same(a: &str, b: &str) -> bool {
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

/// `a`, `a and b`, `a, b and c`.
fn enumerate<T: Borrow<str>>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [one] => one.borrow().to_owned(),
        [first @ .., last] => format!("{} and {}", first.join(", "), last.borrow()),
    }
}
