//! From a request to the terms that are looked up.

use std::collections::HashSet;

use crate::index::TermKind;
use crate::index::analysis::{AnalyzedTerm, Analyzer, is_stop_word};

/// One term of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueryTerm {
    /// The form that the index holds.
    pub(crate) term: String,
    pub(crate) kind: TermKind,
    /// The word, identifier or pair as the request has it.
    pub(crate) word: String,
}

/// Returns the distinct terms of `text` in order of first appearance.
///
/// Stop words are dropped, unless there is nothing else; so are addresses and opaque codes, whose parts would
/// match by accident.
pub(crate) fn query_terms(text: &str) -> Vec<QueryTerm> {
    let text = without_opaque_words(text);
    let mut all = Vec::new();
    let mut telling = Vec::new();
    let mut seen = HashSet::new();
    Analyzer::new().terms(&text, |AnalyzedTerm { term, kind, start, end }| {
        if !seen.insert(term.to_owned()) {
            return;
        }
        let word = &text[start..end];
        let term = QueryTerm { term: term.to_owned(), kind, word: word.to_owned() };
        if !is_stop_word(word) {
            telling.push(term.clone());
        }
        all.push(term);
    });
    if telling.is_empty() { all } else { telling }
}

/// Drops web and mail addresses, and runs like `JpUuJ3Ew9z` in which letters and digits alternate.
fn without_opaque_words(text: &str) -> String {
    text.split_whitespace().filter(|word| !is_address(word)).fold(
        String::with_capacity(text.len()),
        |mut kept, word| {
            for run in word.split_inclusive(|c: char| !c.is_alphanumeric()) {
                let code = run.trim_end_matches(|c: char| !c.is_alphanumeric());
                kept.push_str(if is_code(code) { &run[code.len()..] } else { run });
            }
            kept.push(' ');
            kept
        },
    )
}

fn is_address(word: &str) -> bool {
    word.contains("://")
        || word.starts_with("www.")
        || word.split_once('@').is_some_and(|(user, host)| !user.is_empty() && host.contains('.'))
}

fn is_code(run: &str) -> bool {
    let changes =
        run.chars().zip(run.chars().skip(1)).filter(|(a, b)| a.is_ascii_digit() != b.is_ascii_digit()).count();
    changes >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        query_terms(text).into_iter().filter(|term| term.kind != TermKind::Pair).map(|term| term.word).collect()
    }

    #[test]
    fn stop_words_go_unless_they_are_all_there_is() {
        assert_eq!(words("Could you please book me a flight to Oslo?"), ["book", "flight", "Oslo"]);
        assert_eq!(words("what is this"), ["what", "is", "this"]);
    }

    #[test]
    fn terms_are_distinct_by_stem() {
        let terms = query_terms("booking a book, booked twice");
        assert_eq!(
            terms.iter().map(|term| term.term.as_str()).collect::<Vec<_>>(),
            ["book", "book book", "twice", "book twice"]
        );
    }

    #[test]
    fn addresses_and_codes_go_and_names_stay() {
        assert_eq!(
            words("mail jo@example.org about https://example.org/a order JpUuJ3Ew9z from s3_put_object"),
            ["mail", "order", "3", "s3", "put", "object"]
        );
    }
}
