//! What the keyword index reads of a tool: which terms, how often, in which fields, and how long
//! the tool is.
//!
//! All fields of a tool fold into one indexed field. A field's weight multiplies its term
//! frequencies and its length alike, as in BM25F (Robertson, Zaragoza, Taylor 2004), and is
//! realised by counting each term that many times.

use super::terms::TermKey;
use crate::catalog::Tool;
use crate::text::{AnalyzedTerm, Analyzer, Field, Taken, TermKind, taken, texts, words};

/// Field weights are multiples of this.
pub(super) const WEIGHT_UNIT: f32 = 0.5;

/// How many times the words of a name are counted together.
const NAME_REPEATS: u8 = 16;

/// How many times a term of the field, in this text, is counted, in units of [`WEIGHT_UNIT`].
///
/// Set by a coarse search over the benchmarks; see `docs/results.md`. Titles and aliases are absent
/// there and stand with descriptions and between them and names. What a name weighs is shared by
/// its words: in `send_mail` each says half of what the tool is, in
/// `list_merge_requests_of_repository` a fifth.
pub(super) fn repeats(field: Field, text: &str) -> u8 {
    match field {
        Field::Name => {
            let words = words(text).take(usize::from(NAME_REPEATS)).count().max(1);
            // At most what there is to share.
            u8::try_from((2 * usize::from(NAME_REPEATS) + words) / (2 * words))
                .unwrap_or(NAME_REPEATS)
        }
        Field::Aliases => 4,
        Field::Title | Field::Description | Field::EnumValues | Field::ParameterNames => 2,
        Field::Tags | Field::ParameterDescriptions => 1,
    }
}

/// How many times a kind of value is counted that a tool takes.
const VALUE_REPEATS: u8 = 2;

/// How many times a term is counted. Pairs are formed of names and prose only.
fn term_repeats(field: Field, repeats: u8, kind: TermKind) -> u8 {
    match (kind, field) {
        (
            TermKind::Pair,
            Field::Tags | Field::ParameterNames | Field::ParameterDescriptions | Field::EnumValues,
        ) => 0,
        _ => repeats,
    }
}

/// What a term adds to the length of its document, in units of [`WEIGHT_UNIT`]: only words make it
/// longer.
fn term_length(repeats: u8, kind: TermKind) -> u32 {
    if kind == TermKind::Word {
        u32::from(repeats)
    } else {
        0
    }
}

/// One place where a tool has a term, or several that were counted together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Occurrence {
    pub(super) term: TermKey,
    /// The place of the tool among those that are read together.
    pub(super) tool: u32,
    /// How often the term is counted, in units of [`WEIGHT_UNIT`].
    pub(super) frequency: u16,
    pub(super) fields: Fields,
}

/// Tells `each` the terms of a tool, which may repeat, and returns the tool's length in units of
/// [`WEIGHT_UNIT`].
pub(super) fn occurrences(
    tool: &Tool,
    analyzer: &mut Analyzer,
    mut each: impl FnMut(TermKey, u8, Field),
) -> u32 {
    let mut length = 0;
    for (field, text) in texts(tool) {
        let repeats = repeats(field, text);
        analyzer.terms(text, |AnalyzedTerm { term, kind, .. }| {
            length += term_length(repeats, kind);
            let repeats = term_repeats(field, repeats, kind);
            if repeats > 0 {
                each(TermKey::of(term), repeats, field);
            }
        });
    }
    for Taken { kind, field, .. } in taken(tool) {
        each(TermKey::of(kind.term()), VALUE_REPEATS, field);
    }
    length
}

/// A set of fields: a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Fields(u8);

const _: () = assert!(Field::ALL.len() <= u8::BITS as usize, "a field has a bit");

impl Fields {
    pub(super) fn one(field: Field) -> Self {
        Self(1 << field as u8)
    }

    pub(super) fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Returns the set as it is kept in a file, and the set that is kept so.
    pub(super) fn bits(self) -> u8 {
        self.0
    }

    pub(super) fn of_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns the fields in the order in which they are reported.
    pub(super) fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL
            .into_iter()
            .filter(move |&field| self.0 & (1 << field as u8) != 0)
    }
}
