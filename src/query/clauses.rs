//! The clauses of a sentence.

use std::ops::Range;

use crate::reading::is_ideograph;

/// Words that join clauses, in several languages. Words that mean something else in English are not
/// among them.
const JOINS: [&str; 28] = [
    "and",
    "then",
    "also",
    "but",
    "plus",
    "while",
    "or",
    "&",
    "+",
    "->",
    "=>",
    "→",
    "und",
    "dann",
    "sowie",
    "außerdem",
    "et",
    "puis",
    "ensuite",
    "luego",
    "después",
    "también",
    "depois",
    "oraz",
    "и",
    "затем",
    "также",
    "ve",
];
/// The fewest words of a clause that a comma ends or begins. Commas also separate items of lists.
const MIN_WORDS: usize = 5;

/// The end of a clause.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Boundary {
    /// A word that joins clauses.
    Join,
    /// A comma, colon, dash or bracket.
    Mark,
}

/// Returns the ranges of the clauses of a sentence of a text.
pub(super) fn clauses(text: &str, sentence: Range<usize>) -> Vec<Range<usize>> {
    let mut clauses: Vec<Range<usize>> = Vec::new();
    // The boundary before the next piece.
    let mut before = Boundary::Join;
    for (piece, after) in pieces(text, sentence) {
        let joins = clauses.last().is_some_and(|last| {
            let is_short = |range: &Range<usize>| word_count(&text[range.clone()]) < MIN_WORDS;
            before == Boundary::Mark && (is_short(last) || is_short(&piece))
        });
        match clauses.last_mut() {
            Some(last) if joins => last.end = piece.end,
            _ => clauses.push(piece),
        }
        before = after;
    }
    clauses
}

/// Cuts a sentence at each boundary. Joining words belong to no piece.
fn pieces(text: &str, sentence: Range<usize>) -> Vec<(Range<usize>, Boundary)> {
    let mut pieces = Vec::new();
    let (mut start, mut position) = (sentence.start, sentence.start);
    for word in text[sentence.clone()].split_inclusive(char::is_whitespace) {
        let end = position + word.len();
        let bare = word.trim_end();
        if JOINS.iter().any(|join| join.eq_ignore_ascii_case(bare)) {
            pieces.push((start..position, Boundary::Join));
            start = end;
        } else if bare.ends_with([',', ':', ')', '…'])
            || bare.ends_with("...")
            || matches!(bare, "-" | "–" | "—" | "--" | "/")
        {
            pieces.push((start..end, Boundary::Mark));
            start = end;
        } else {
            for (offset, mark) in word.match_indices(['、', '，', '；', '：']) {
                let mark_end = position + offset + mark.len();
                pieces.push((start..mark_end, Boundary::Mark));
                start = mark_end;
            }
        }
        position = end;
    }
    pieces.push((start..sentence.end, Boundary::Join));
    pieces
}

/// Returns the number of words; two characters of a script without spaces count as one.
fn word_count(text: &str) -> usize {
    let ideographs = text.chars().filter(|&c| is_ideograph(c)).count();
    let words = text.split(|c: char| !c.is_alphanumeric() || is_ideograph(c));
    words.filter(|word| !word.is_empty()).count() + ideographs / 2
}
