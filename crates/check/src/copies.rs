//! Tools whose text is copied from a tool of another source.
//!
//! A copy is made to be mistaken for the original. Two tools that name different subjects in their
//! name and text (`cricket_matches` and `baseball_matches`) follow one pattern. They are not copies
//! of each other, even if most of their text is the same.

use std::collections::{BTreeSet, HashSet};

use rayon::prelude::*;

use super::finding::{ToolFinding, shorten};
use super::rules::{NEAR_DUPLICATE, Severity};
use super::texts::{TextKind, texts};
use picktools::catalog::Tool;
use picktools::names::split_words;
use picktools::text::likeness::{Bands, TextSketch};

/// The smallest number of words of a compared text; shorter texts are equal by chance.
const MIN_WORDS: usize = 9;
/// The same limit for tools of different families: texts such as "Returns the version of the
/// service" are common there.
const MIN_WORDS_OF_FAMILIES: usize = 40;
/// The shortest word of a name that counts as a subject, in characters; a version is shorter.
const MIN_SUBJECT_CHARS: usize = 2;

/// Finds tools with nearly the same text as a tool of another source. MinHash with bands keeps the
/// time linear in the number of tools.
pub(super) fn check(tools: &[&Tool], findings: &mut [Vec<ToolFinding>]) {
    let sources: HashSet<Option<&str>> = tools.iter().map(|tool| tool.source.as_deref()).collect();
    if sources.len() < 2 {
        return;
    }
    let vocabularies: Vec<ToolVocabulary<'_>> = tools
        .par_iter()
        .map(|tool| ToolVocabulary::new(tool))
        .collect();
    // Trusted tools come first, then the order of the catalog; a later tool is the copy.
    let mut order: Vec<usize> = (0..tools.len()).collect();
    order.retain(|&index| vocabularies[index].text.len() >= MIN_WORDS);
    order.sort_by_key(|&index| tools[index].untrusted);
    let mut bands = Bands::default();
    for index in order {
        let original = find_original(index, tools, &vocabularies, &bands);
        bands.add(index, &vocabularies[index].text);
        if let Some((other, severity)) = original {
            let message = format!(
                "the text is nearly the same as that of {:?}",
                shorten(&tools[other].id)
            );
            let description = &tools[index].description;
            findings[index].push(ToolFinding {
                severity,
                message,
                ..ToolFinding::new(&NEAR_DUPLICATE, "/description", description)
            });
        }
    }
}

/// Finds an earlier tool with nearly the same text, and the severity of the match.
fn find_original(
    index: usize,
    tools: &[&Tool],
    vocabularies: &[ToolVocabulary<'_>],
    bands: &Bands,
) -> Option<(usize, Severity)> {
    let (tool, vocabulary) = (tools[index], &vocabularies[index]);
    let mut pattern_match = None;
    for other in bands.near(&vocabulary.text) {
        let is_similar =
            is_foreign(tool, tools[other]) && vocabulary.text.is_like(&vocabularies[other].text);
        if !is_similar {
            continue;
        }
        // An untrusted tool that resembles a trusted one always counts as a copy.
        let is_copy = (tool.untrusted && !tools[other].untrusted)
            || !vocabulary.may_share_a_pattern(&vocabularies[other]);
        if is_copy {
            return Some((other, NEAR_DUPLICATE.severity));
        }
        pattern_match.get_or_insert((other, Severity::Note));
    }
    pattern_match
}

/// Returns the family of a tool in names such as `family.tool`.
pub(super) fn family(tool: &Tool) -> Option<&str> {
    let (family, _) = tool.name.split_once('.')?;
    Some(family)
}

/// Returns `true` if two tools have different authors: they have different sources, and are not
/// `family.one` and `family.other`.
fn is_foreign(a: &Tool, b: &Tool) -> bool {
    a.source != b.source && (family(a).is_none() || family(a) != family(b))
}

/// The words of a tool's name, and a sketch of its descriptions.
struct ToolVocabulary<'a> {
    text: TextSketch,
    name: BTreeSet<String>,
    family: Option<&'a str>,
}

impl<'a> ToolVocabulary<'a> {
    fn new(tool: &'a Tool) -> Self {
        let texts = texts(tool);
        let described = texts.iter().filter(|text| {
            matches!(
                text.kind,
                TextKind::Description | TextKind::Parameter | TextKind::ParameterName
            )
        });
        Self {
            text: TextSketch::new(described.map(|text| text.text)),
            name: split_words(&tool.name),
            family: family(tool),
        }
    }

    /// Iterates over the subjects in the name that the other tool does not mention.
    fn unique_subjects(&self, other: &Self) -> impl Iterator<Item = &String> {
        self.name.iter().filter(|word| {
            let letters = word.trim_matches(char::is_numeric);
            letters.chars().count() >= MIN_SUBJECT_CHARS
                && !other.text.has(word)
                && !other.name.contains(*word)
        })
    }

    /// Returns `true` if name and text have a word that the other tool does not mention.
    fn has_unique_subject(&self, other: &Self) -> bool {
        self.unique_subjects(other).any(|word| self.text.has(word))
    }

    /// Returns `true` if the texts may be similar because both follow one pattern.
    ///
    /// Either each tool names a subject of its own. Or both have families, and their texts are
    /// short or each has words of its own.
    fn may_share_a_pattern(&self, other: &Self) -> bool {
        if self.has_unique_subject(other) && other.has_unique_subject(self) {
            return true;
        }
        let have_families = self.family.is_some() && other.family.is_some();
        let names_differ = self.unique_subjects(other).next().is_some()
            && other.unique_subjects(self).next().is_some();
        if !have_families || !names_differ {
            return false;
        }
        let is_short = self.text.len().min(other.text.len()) < MIN_WORDS_OF_FAMILIES;
        is_short || !(self.text.is_subset(&other.text) || other.text.is_subset(&self.text))
    }
}
