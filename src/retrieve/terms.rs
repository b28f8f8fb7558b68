//! From a request to the terms that are looked up.

use foldhash::{HashMap, HashMapExt};

use crate::function_words::FunctionWords;
use crate::index::{IndexError, IndexedTerm, KeywordIndex};
use crate::query::MAX_SENTENCES;
use crate::text::{AnalyzedTerm, Analyzer, TermKind};

/// One term of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueryTerm {
    /// The form that the index holds.
    pub(crate) term: String,
    pub(crate) kind: TermKind,
    /// The word, identifier or pair as the request has it.
    pub(crate) word: String,
    /// One bit a sentence that has the term.
    sentences: u32,
}

const _: () = assert!(MAX_SENTENCES <= u32::BITS as usize, "a sentence has a bit");

/// One term of a request that the index has.
#[derive(Debug)]
pub(crate) struct FoundTerm {
    pub(crate) query: QueryTerm,
    pub(crate) indexed: IndexedTerm,
}

impl FoundTerm {
    /// Looks up the terms of a request and leaves out those that no tool has.
    pub(super) fn all(index: &KeywordIndex, terms: Vec<QueryTerm>) -> Result<Vec<Self>, IndexError> {
        let found = terms.into_iter().filter_map(|query| {
            let indexed = index.look_up(&query.term, query.kind).transpose()?;
            Some(indexed.map(|indexed| Self { query, indexed }))
        });
        found.collect()
    }
}

impl QueryTerm {
    /// Returns the numbers of the sentences that have the term, in order.
    pub(crate) fn sentences(&self) -> impl Iterator<Item = usize> + use<> {
        let bits = self.sentences;
        (0..u32::BITS as usize).filter(move |sentence| bits >> sentence & 1 == 1)
    }
}

/// Returns the distinct terms of a request's sentences in order of first appearance.
///
/// Stop words are dropped, unless there is nothing else; so are addresses and opaque codes, whose parts would
/// match by accident.
pub(crate) fn query_terms(sentences: &[&str]) -> Vec<QueryTerm> {
    // A word and the pair that it ends, every six letters.
    let most = sentences.iter().map(|text| text.len()).sum::<usize>() / 3;
    let mut terms: Vec<QueryTerm> = Vec::with_capacity(most);
    let mut places: HashMap<String, usize> = HashMap::with_capacity(most);
    let mut analyzer = Analyzer::new();
    for (sentence, text) in sentences.iter().enumerate() {
        let text = without_opaque_words(text);
        analyzer.terms(&text, |AnalyzedTerm { term, kind, start, end }| {
            if let Some(&place) = places.get(term) {
                terms[place].sentences |= 1 << sentence;
                return;
            }
            places.insert(term.to_owned(), terms.len());
            let word = &text[start..end];
            terms.push(QueryTerm { term: term.to_owned(), kind, word: word.to_owned(), sentences: 1 << sentence });
        });
    }
    let words = terms.iter().filter(|term| term.kind == TermKind::Word).map(|term| term.word.as_str());
    let function_words = FunctionWords::of(words);
    let is_telling = |term: &QueryTerm| !function_words.contains(&term.word);
    if terms.iter().any(is_telling) {
        terms.retain(is_telling);
    }
    terms
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
        query_terms(&[text]).into_iter().filter(|term| term.kind != TermKind::Pair).map(|term| term.word).collect()
    }

    #[test]
    fn stop_words_go_unless_they_are_all_there_is() {
        assert_eq!(words("Could you please book me a flight to Oslo?"), ["book", "flight", "Oslo"]);
        assert_eq!(words("what is this"), ["what", "is", "this"]);
    }

    #[test]
    fn terms_are_distinct_by_stem() {
        let terms = query_terms(&["booking a book, booked twice"]);
        assert_eq!(
            terms.iter().map(|term| term.term.as_str()).collect::<Vec<_>>(),
            ["book", "book book", "twice", "book twice"]
        );
    }

    #[test]
    fn terms_know_their_sentences() {
        let terms = query_terms(&["mail the file", " print the file"]);
        let sentences: Vec<(&str, Vec<usize>)> =
            terms.iter().map(|term| (term.term.as_str(), term.sentences().collect())).collect();
        let expected = [
            ("mail", vec![0]),
            ("file", vec![0, 1]),
            ("mail file", vec![0]),
            ("print", vec![1]),
            ("print file", vec![1]),
        ];
        assert_eq!(sentences, expected);
    }

    #[test]
    fn addresses_and_codes_go_and_names_stay() {
        assert_eq!(
            words("mail jo@example.org about https://example.org/a order JpUuJ3Ew9z from s3_put_object"),
            ["mail", "order", "3", "s3", "put", "object"]
        );
    }
}
