//! Tools whose text is another source's.
//!
//! A copy is there to be taken for the original. Two tools that each name a subject of their own,
//! in their name and in their text (`cricket_matches` and `baseball_matches`), are made after one
//! pattern and are no copies of each other, however much of their text is the same.

use std::collections::{BTreeSet, HashSet};

use rayon::prelude::*;

use super::Found;
use super::rules::{NEAR_DUPLICATE, Severity};
use super::texts::{Kind, texts};
use picktools::catalog::Tool;
use picktools::names::words_of;
use picktools::text::likeness::{Bands, Sketch};

/// Shorter texts are the same by chance.
const LEAST_WORDS: usize = 9;
/// So are longer ones, such as "Returns the version of the service", of families that have names of
/// their own.
const LEAST_WORDS_OF_FAMILIES: usize = 40;
/// Shorter words of a name, such as a version, are no subject.
const LEAST_SUBJECT: usize = 2;

/// Finds tools whose text is nearly that of another source's tool, by MinHash with bands: linear in
/// the number of tools.
pub(super) fn check(tools: &[&Tool], found: &mut [Vec<Found>]) {
    let sources: HashSet<Option<&str>> = tools.iter().map(|tool| tool.source.as_deref()).collect();
    if sources.len() < 2 {
        return;
    }
    let told: Vec<Told<'_>> = tools.par_iter().map(|tool| Told::new(tool)).collect();
    // Who is trusted, and who came first, is not the copy.
    let mut order: Vec<usize> = (0..tools.len())
        .filter(|&at| told[at].text.len() >= LEAST_WORDS)
        .collect();
    order.sort_by_key(|&at| tools[at].untrusted);
    let mut bands = Bands::default();
    for at in order {
        let original = original_of(at, tools, &told, &bands);
        bands.add(at, &told[at].text);
        if let Some((other, severity)) = original {
            let message = format!(
                "the text is nearly that of {:?}",
                super::shown(&tools[other].id)
            );
            let finding = Found::new(&NEAR_DUPLICATE, "/description", &tools[at].description);
            found[at].push(Found {
                severity,
                message,
                ..finding
            });
        }
    }
}

/// A tool met before whose text a tool has, and how bad that is.
fn original_of(
    at: usize,
    tools: &[&Tool],
    told: &[Told<'_>],
    bands: &Bands,
) -> Option<(usize, Severity)> {
    let is_alike = |&other: &usize| {
        is_foreign(tools[at], tools[other]) && told[at].text.is_like(&told[other].text)
    };
    // Who is distrusted is taken for a copy where the other is trusted.
    let is_copy = |other: usize| {
        (tools[at].untrusted && !tools[other].untrusted)
            || !told[at].may_share_a_pattern(&told[other])
    };
    let mut first = None;
    for other in bands.near(&told[at].text).filter(is_alike) {
        if is_copy(other) {
            return Some((other, NEAR_DUPLICATE.severity));
        }
        first.get_or_insert((other, Severity::Note));
    }
    first
}

/// Returns the family of a tool in names such as `family.tool`.
pub(super) fn family(tool: &Tool) -> Option<&str> {
    tool.name.split_once('.').map(|(family, _)| family)
}

/// Returns `true` if two tools come from different hands: other sources, and not `family.one` and
/// `family.other`.
fn is_foreign(a: &Tool, b: &Tool) -> bool {
    a.source != b.source && (family(a).is_none() || family(a) != family(b))
}

/// What a tool says of itself and of its parameters.
struct Told<'a> {
    text: Sketch,
    name: BTreeSet<String>,
    family: Option<&'a str>,
}

impl<'a> Told<'a> {
    fn new(tool: &'a Tool) -> Self {
        let texts = texts(tool);
        let told = texts.iter().filter(|text| {
            matches!(
                text.kind,
                Kind::Description | Kind::Parameter | Kind::ParameterName
            )
        });
        Self {
            text: Sketch::new(told.map(|text| text.text)),
            name: words_of(&tool.name),
            family: family(tool),
        }
    }

    /// The words of the name that the other tool says nowhere.
    fn own(&self, other: &Self) -> impl Iterator<Item = &String> {
        self.name.iter().filter(|word| {
            let is_subject = word.trim_matches(char::is_numeric).chars().count() >= LEAST_SUBJECT;
            is_subject && !other.text.has(word) && !other.name.contains(*word)
        })
    }

    /// Returns `true` if the name has a word that the text has too, and the other says nowhere.
    fn has_own_subject(&self, other: &Self) -> bool {
        self.own(other).any(|word| self.text.has(word))
    }

    /// Returns `true` if the texts may be alike because both were made after one pattern: each tool
    /// names a subject of its own, or both have families of their own, and their texts are short or
    /// each has words of its own.
    fn may_share_a_pattern(&self, other: &Self) -> bool {
        let have_own_subjects = self.has_own_subject(other) && other.has_own_subject(self);
        let are_unlike = self.own(other).next().is_some() && other.own(self).next().is_some();
        let is_short = self.text.len().min(other.text.len()) < LEAST_WORDS_OF_FAMILIES;
        have_own_subjects
            || (self.family.is_some()
                && other.family.is_some()
                && are_unlike
                && (is_short
                    || !(self.text.is_part_of(&other.text) || other.text.is_part_of(&self.text))))
    }
}
