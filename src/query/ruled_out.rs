//! What a request rules out: in "don't send an email, just post in the chat" the words of the first
//! clause say what is not wanted, and searching for them would find just that.
//!
//! Only English, and only where it is a command or a contrast: "I don't know which flight" rules
//! nothing out. What is ruled out ends with the clause: at a comma or colon, at `but`, `just` or
//! `instead`, or with the sentence.

use std::ops::Range;

/// Words that may stand before a command.
const BEFORE_COMMAND: [&str; 7] = ["and", "but", "please", "then", "so", "also", "or"];
/// What follows a `don't` that asks for something.
const ASKING: [&str; 7] = [
    "forget", "hesitate", "worry", "mind", "know", "disturb", "miss",
];
/// Words that begin what is wanted in place of what was ruled out.
const TURNS: [&str; 3] = ["but", "just", "instead"];

/// A word between white space.
struct Word<'t> {
    range: Range<usize>,
    /// In lower case, without punctuation around it.
    word: String,
    text: &'t str,
}

impl Word<'_> {
    fn ends_clause(&self) -> bool {
        self.text.ends_with([',', ';', ':', '.', '!', '?', ')'])
    }
}

/// Returns the ranges of a sentence that rule something out.
pub(super) fn ruled_out(sentence: &str) -> Vec<Range<usize>> {
    let words = words(sentence);
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let Some(opening) = opens(&words, at) else {
            at += 1;
            continue;
        };
        let mut last = at + opening - 1;
        while last + 1 < words.len()
            && !words[last].ends_clause()
            && !TURNS.contains(&words[last + 1].word.as_str())
        {
            last += 1;
        }
        found.push(words[at].range.start..words[last].range.end);
        at = last + 1;
    }
    found
}

/// Returns how many words open what is ruled out, if those at `at` do.
fn opens(words: &[Word<'_>], at: usize) -> Option<usize> {
    let word = |at: usize| words.get(at).map_or("", |word| word.word.as_str());
    let before = at.checked_sub(1).map(|before| &words[before]);
    let begins = before.is_none_or(|before| before.ends_clause());
    let may_command =
        begins || before.is_some_and(|before| BEFORE_COMMAND.contains(&before.word.as_str()));
    let opening = match (word(at), word(at + 1)) {
        ("don't" | "don’t" | "dont" | "never", _) if may_command => 1,
        ("do", "not") if may_command => 2,
        ("not", _) if before.is_some_and(Word::ends_clause) => 1,
        ("instead", "of") | ("rather", "than") => 2,
        ("without", next) if next.ends_with("ing") => 1,
        _ => return None,
    };
    (!ASKING.contains(&word(at + opening)) && at + opening < words.len()).then_some(opening)
}

fn words(sentence: &str) -> Vec<Word<'_>> {
    let mut at = 0;
    let words = sentence
        .split_inclusive(char::is_whitespace)
        .filter_map(|piece| {
            let start = at;
            at += piece.len();
            let text = piece.trim();
            let word = text
                .trim_matches(|c: char| !c.is_alphanumeric())
                .to_lowercase();
            let start = start + (piece.len() - piece.trim_start().len());
            (!text.is_empty()).then_some(Word {
                range: start..start + text.len(),
                word,
                text,
            })
        });
    words.collect()
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
            let found: Vec<&str> = ruled_out(sentence)
                .into_iter()
                .map(|range| &sentence[range])
                .collect();
            assert_eq!(found, expected, "{sentence}");
        }
    }

    #[test]
    fn what_only_sounds_like_it_rules_nothing_out() {
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
