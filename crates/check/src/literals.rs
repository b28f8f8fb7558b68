//! A prefilter for many patterns: it finds in one pass the patterns that may match a text.
//!
//! A pattern cannot match a text that contains none of its required literals, such as the words of
//! an alternation. The literals are read from the syntax tree of the pattern, so that no pattern
//! needs a hint.

use aho_corasick::AhoCorasick;
use regex_syntax::hir::{Hir, HirKind};

/// The length above which a longer literal is not preferred, in bytes.
const LONG_LITERAL: usize = 6;
/// The largest number of literals of a pattern; more filter too little for their memory.
const MAX_LITERALS: usize = 2_000;

/// A search automaton for the literals of a list of patterns.
pub(super) struct Literals {
    automaton: AhoCorasick,
    /// The patterns of each literal, by their indices in the list.
    patterns: Vec<Vec<usize>>,
    /// Patterns without a required literal.
    always: Vec<usize>,
}

impl Literals {
    /// Extracts the literals of `patterns`, which must be valid; a test compiles them.
    pub(super) fn new<'a>(patterns: impl Iterator<Item = &'a str>) -> Self {
        let (mut literals, mut always) = (Vec::new(), Vec::new());
        for (index, pattern) in patterns.enumerate() {
            let required = match regex_syntax::parse(pattern) {
                Ok(tree) => required_literals(&tree),
                Err(_) => None,
            };
            match required {
                Some(required) => {
                    literals.extend(required.into_iter().map(|literal| (literal, index)));
                }
                None => always.push(index),
            }
        }
        literals.sort();
        literals.dedup();
        let (mut texts, mut patterns) = (Vec::new(), Vec::new());
        for run in literals.chunk_by(|a, b| a.0 == b.0) {
            texts.push(&run[0].0);
            patterns.push(run.iter().map(|(_, index)| *index).collect());
        }
        let automaton = AhoCorasick::new(texts).expect("a test builds it");
        Self {
            automaton,
            patterns,
            always,
        }
    }

    /// Returns the indices of the patterns that may match `text`, in order.
    pub(super) fn in_text(&self, text: &str) -> Vec<usize> {
        let mut indices = self.always.clone();
        for literal in self.automaton.find_overlapping_iter(text) {
            indices.extend_from_slice(&self.patterns[literal.pattern().as_usize()]);
        }
        indices.sort_unstable();
        indices.dedup();
        indices
    }
}

/// Returns literals of which every matching text contains at least one; `None` without such
/// literals.
fn required_literals(tree: &Hir) -> Option<Vec<Vec<u8>>> {
    match tree.kind() {
        HirKind::Literal(literal) => Some(vec![literal.0.to_vec()]),
        HirKind::Capture(capture) => required_literals(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required_literals(&repetition.sub),
        // Long literals filter best, and few of them better than many.
        HirKind::Concat(parts) => {
            parts
                .iter()
                .filter_map(required_literals)
                .max_by_key(|literals| {
                    let shortest = literals.iter().map(Vec::len).min().unwrap_or(0);
                    (shortest.min(LONG_LITERAL), usize::MAX - literals.len())
                })
        }
        HirKind::Alternation(branches) => {
            let mut literals = Vec::new();
            for branch in branches {
                literals.extend(required_literals(branch)?);
            }
            (literals.len() <= MAX_LITERALS).then_some(literals)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_text(patterns: &[&str], text: &str) -> Vec<usize> {
        Literals::new(patterns.iter().copied()).in_text(text)
    }

    #[test]
    fn pattern_may_match_a_text_with_a_required_literal() {
        let patterns = [
            "(?:do|does) not (?:tell|show)",
            "[a-z]+",
            "x?ignore(?:s|d)?|(?:forget){1,2}",
        ];
        assert_eq!(in_text(&patterns, "it does not show"), [0, 1]);
        assert_eq!(in_text(&patterns, "it does show, and forgets"), [1, 2]);
        assert_eq!(in_text(&patterns, "nothing"), [1]);
        assert_eq!(
            in_text(&["(?:a|b*)c?", "", "(?:|y)"], "z"),
            [0, 1, 2],
            "a pattern that can be empty matches everywhere"
        );
    }
}
