//! Clauses of a request that rule something out.
//!
//! In "don't send an email, just post in the chat" the first clause names the tool that the user
//! does not want. A search for its words would find exactly that tool. Only English commands and
//! contrasts are recognised: "I don't know which flight" rules nothing out. The clause ends at a
//! comma or colon, at `but`, `just` or `instead`, or with the sentence.

use std::borrow::Cow;
use std::ops::Range;

use crate::function_words::lower_case;

/// Words that may precede a command.
const BEFORE_COMMAND: [&str; 7] = ["and", "but", "please", "then", "so", "also", "or"];
/// Words after which `don't` rules nothing out, as in "don't forget to send the email".
const ASKING: [&str; 7] = [
    "forget", "hesitate", "worry", "mind", "know", "disturb", "miss",
];
/// Words that end the ruled-out clause and begin the alternative.
const ALTERNATIVES: [&str; 3] = ["but", "just", "instead"];

/// A word between white space.
struct ClauseWord<'t> {
    range: Range<usize>,
    /// In lower case, without punctuation around it.
    word: Cow<'t, str>,
    text: &'t str,
}

impl ClauseWord<'_> {
    fn ends_clause(&self) -> bool {
        self.text.ends_with([',', ';', ':', '.', '!', '?', ')'])
    }
}

/// Returns the ranges of a sentence that rule something out.
pub(super) fn ruled_out(sentence: &str) -> Vec<Range<usize>> {
    let words = words(sentence);
    let mut clauses: Vec<Range<usize>> = Vec::new();
    let mut index = 0;
    while index < words.len() {
        let Some(opening) = opening_words(&words, index) else {
            index += 1;
            continue;
        };
        let mut last = index + opening - 1;
        while last + 1 < words.len()
            && !words[last].ends_clause()
            && !ALTERNATIVES.contains(&&*words[last + 1].word)
        {
            last += 1;
        }
        clauses.push(words[index].range.start..words[last].range.end);
        index = last + 1;
    }
    clauses
}

/// Returns the number of words that open a ruled-out clause at `index`, or `None` if none begins
/// there.
fn opening_words(words: &[ClauseWord<'_>], index: usize) -> Option<usize> {
    let word = |index: usize| words.get(index).map_or("", |word| &*word.word);
    let previous = index.checked_sub(1).map(|previous| &words[previous]);
    let begins_clause = previous.is_none_or(|previous| previous.ends_clause());
    let may_command =
        begins_clause || previous.is_some_and(|previous| BEFORE_COMMAND.contains(&&*previous.word));
    let opening = match (word(index), word(index + 1)) {
        ("don't" | "don’t" | "dont" | "never", _) if may_command => 1,
        ("do", "not") if may_command => 2,
        ("not", _) if previous.is_some_and(ClauseWord::ends_clause) => 1,
        ("instead", "of") | ("rather", "than") => 2,
        ("without", next) if next.ends_with("ing") => 1,
        _ => return None,
    };
    (!ASKING.contains(&word(index + opening)) && index + opening < words.len()).then_some(opening)
}

fn words(sentence: &str) -> Vec<ClauseWord<'_>> {
    let mut words = Vec::new();
    let mut piece_start = 0;
    for piece in sentence.split_inclusive(char::is_whitespace) {
        let text = piece.trim();
        let start = piece_start + (piece.len() - piece.trim_start().len());
        piece_start += piece.len();
        if text.is_empty() {
            continue;
        }
        words.push(ClauseWord {
            range: start..start + text.len(),
            word: lower_case(text.trim_matches(|c: char| !c.is_alphanumeric())),
            text,
        });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_contrasts_rule_out_their_clause() {
        for (sentence, expected) in [
            (
                "don't send an email, just post in the chat",
                vec!["don't send an email,"],
            ),
            ("Please do not move it but read it", vec!["do not move it"]),
            (
                "Instead of a flight, book a train",
                vec!["Instead of a flight,"],
            ),
            ("post it without sending mail", vec!["without sending mail"]),
            (
                "the forecast, not the radar, for Bern",
                vec!["not the radar,"],
            ),
            (
                "read it and don't move it, never delete it",
                vec!["don't move it,", "never delete it"],
            ),
        ] {
            let clauses: Vec<&str> = ruled_out(sentence)
                .into_iter()
                .map(|range| &sentence[range])
                .collect();
            assert_eq!(clauses, expected, "{sentence}");
        }
    }

    #[test]
    fn other_negations_rule_nothing_out() {
        for sentence in [
            "I don't know which flight to take",
            "Don't forget to send the email",
            "a hotel without breakfast",
            "is this address disposable or not?",
            "we have never been to Rome",
            "do it now",
            "don't",
            "instead of",
            "",
        ] {
            assert!(ruled_out(sentence).is_empty(), "{sentence}");
        }
    }
}
