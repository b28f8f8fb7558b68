//! Which of many patterns may match a text: those of which a literal stands in it, found in one
//! pass.
//!
//! A pattern cannot match where none of certain literals stands, such as the words of an
//! alternation that it cannot do without. They are read from its syntax tree, so that no pattern
//! needs a hint.

use aho_corasick::AhoCorasick;
use regex_syntax::hir::{Hir, HirKind};

/// Longer literals are not told from each other.
const LONG: usize = 6;
/// More literals tell too little for the memory that they take.
const MOST: usize = 2_000;

/// The literals of a list of patterns.
pub(super) struct Literals {
    automaton: AhoCorasick,
    /// The patterns of each literal, by their places in the list.
    patterns: Vec<Vec<usize>>,
    /// Patterns that can do without literals.
    always: Vec<usize>,
}

impl Literals {
    /// Reads the literals of `patterns`, which a test has compiled.
    pub(super) fn new<'a>(patterns: impl Iterator<Item = &'a str>) -> Self {
        let (mut literals, mut always) = (Vec::new(), Vec::new());
        for (place, pattern) in patterns.enumerate() {
            match regex_syntax::parse(pattern)
                .ok()
                .and_then(|tree| required(&tree))
            {
                Some(required) => {
                    literals.extend(required.into_iter().map(|literal| (literal, place)))
                }
                None => always.push(place),
            }
        }
        literals.sort();
        literals.dedup();
        let runs: Vec<&[(Vec<u8>, usize)]> = literals.chunk_by(|a, b| a.0 == b.0).collect();
        let automaton =
            AhoCorasick::new(runs.iter().map(|run| &run[0].0)).expect("a test builds it");
        let patterns = runs
            .iter()
            .map(|run| run.iter().map(|(_, place)| *place).collect())
            .collect();
        Self {
            automaton,
            patterns,
            always,
        }
    }

    /// Returns the places of the patterns that may match `text`, in order.
    pub(super) fn in_text(&self, text: &str) -> Vec<usize> {
        let mut places = self.always.clone();
        for found in self.automaton.find_overlapping_iter(text) {
            places.extend_from_slice(&self.patterns[found.pattern().as_usize()]);
        }
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// Literals of which one at least stands in every text that an expression matches; `None` where
/// there are no such.
fn required(tree: &Hir) -> Option<Vec<Vec<u8>>> {
    match tree.kind() {
        HirKind::Literal(literal) => Some(vec![literal.0.to_vec()]),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        // The longest tell most, and few of them more than many.
        HirKind::Concat(parts) => parts.iter().filter_map(required).max_by_key(|literals| {
            let shortest = literals.iter().map(Vec::len).min().unwrap_or(0);
            (shortest.min(LONG), usize::MAX - literals.len())
        }),
        HirKind::Alternation(ways) => {
            let literals: Option<Vec<Vec<Vec<u8>>>> = ways.iter().map(required).collect();
            literals
                .map(|literals| literals.concat())
                .filter(|literals| literals.len() <= MOST)
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
    fn a_pattern_may_match_where_a_literal_stands_that_it_cannot_do_without() {
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
            "what can be empty is found everywhere"
        );
    }
}
