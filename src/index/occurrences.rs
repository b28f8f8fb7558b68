//! The keyword documents: the terms of a tool with their frequencies and fields, and its length.
//!
//! All fields of a tool form one indexed field. A field's weight multiplies its term frequencies
//! and its length alike, as in BM25F (Robertson, Zaragoza, Taylor 2004). Counting each term that
//! many times has the same effect.

use super::terms::TermKey;
use crate::catalog::Tool;
use crate::text::abbreviations::definitions;
use crate::text::{
    AcceptedValue, AnalyzedTerm, Analyzer, Field, TermKind, accepted_values, texts, words,
};

/// The unit of field weights.
pub(super) const WEIGHT_UNIT: f32 = 0.5;

/// The total count that the words of a name share.
const NAME_REPEATS: u8 = 16;

/// Returns the count of each term of this text in this field, in units of [`WEIGHT_UNIT`].
///
/// The values come from a coarse search over the benchmarks; see `docs/results.md`. The benchmarks
/// have no titles and no aliases. A title counts like a description, an alias more, but less than a
/// short name. The words of a name share its weight: in `send_mail` each word describes half of the
/// tool, in `list_merge_requests_of_repository` a fifth.
pub(super) fn repeats(field: Field, text: &str) -> u8 {
    match field {
        Field::Name => {
            let words = words(text).take(usize::from(NAME_REPEATS)).count().max(1);
            // The result is at most `NAME_REPEATS`.
            u8::try_from((2 * usize::from(NAME_REPEATS) + words) / (2 * words))
                .unwrap_or(NAME_REPEATS)
        }
        Field::Aliases => 4,
        Field::Title | Field::Description | Field::EnumValues | Field::ParameterNames => 2,
        Field::Tags | Field::ParameterDescriptions | Field::Instructions => 1,
    }
}

/// The count of each kind of value that a tool accepts.
const VALUE_REPEATS: u8 = 2;

/// Returns the count of a term. Only names and prose form word pairs.
fn term_repeats(field: Field, repeats: u8, kind: TermKind) -> u8 {
    match (kind, field) {
        (
            TermKind::Pair,
            Field::Tags | Field::ParameterNames | Field::ParameterDescriptions | Field::EnumValues,
        ) => 0,
        _ => repeats,
    }
}

/// Returns the contribution of a term to the length of its document, in units of [`WEIGHT_UNIT`].
/// Only words contribute.
fn term_length(repeats: u8, kind: TermKind) -> u32 {
    if kind == TermKind::Word {
        u32::from(repeats)
    } else {
        0
    }
}

/// Calls `each` with every term of a tool; terms may repeat. Returns the tool's length in units of
/// [`WEIGHT_UNIT`].
pub(super) fn occurrences(
    tool: &Tool,
    analyzer: &mut Analyzer,
    mut each: impl FnMut(TermKey, u8, Field),
) -> u32 {
    let mut length = 0;
    for (field, text) in texts(tool) {
        definitions(text, |definition| analyzer.count_definition(definition));
        let repeats = repeats(field, text);
        analyzer.terms(text, |AnalyzedTerm { term, kind, .. }| {
            length += term_length(repeats, kind);
            let repeats = term_repeats(field, repeats, kind);
            if repeats > 0 {
                each(TermKey::new(term), repeats, field);
            }
        });
    }
    for AcceptedValue { kind, field, .. } in accepted_values(tool) {
        each(TermKey::new(kind.term()), VALUE_REPEATS, field);
    }
    length
}
