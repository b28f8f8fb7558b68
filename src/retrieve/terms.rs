//! From a request to the terms that are looked up.

use std::ops::Range;

use foldhash::{HashMap, HashMapExt};

use crate::function_words::{Listed, function_words};
use crate::index::{IndexedTerm, KeywordIndex, TermKey};
use crate::query::MAX_SENTENCES;
use crate::text::{AnalyzedTerm, Analyzer, TermKind, Value, ValueKind, values};

/// The most text of a term that is kept as the request has it: a value may be long.
const MAX_WORD_BYTES: usize = 256;

/// One term of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryTerm<'q> {
    /// What the index knows it by.
    pub key: TermKey,
    pub kind: TermKind,
    /// The kind of value that it stands for.
    pub(crate) value: Option<ValueKind>,
    /// The word, identifier, pair or value as the request has it, its beginning where it is long.
    pub(crate) word: &'q str,
    /// What it counts, 0..1: less within a value.
    pub weight: f32,
    /// One bit a sentence that has the term.
    sentences: u32,
}

const _: () = assert!(MAX_SENTENCES <= u32::BITS as usize, "a sentence has a bit");

/// One term of a request that the index has.
#[derive(Debug)]
pub(crate) struct FoundTerm<'q> {
    pub(crate) query: QueryTerm<'q>,
    pub(crate) indexed: IndexedTerm,
}

impl<'q> FoundTerm<'q> {
    /// Looks up the terms of a request and leaves out those that no tool has.
    pub(super) fn all(index: &KeywordIndex, terms: Vec<QueryTerm<'q>>) -> Vec<Self> {
        let found = terms.into_iter().filter_map(|query| {
            let indexed = index.look_up(query.key, query.kind)?;
            Some(Self {
                indexed: indexed.weighted(query.weight),
                query,
            })
        });
        found.collect()
    }
}

impl QueryTerm<'_> {
    /// Returns the numbers of the sentences that have the term, in order.
    pub(crate) fn sentences(&self) -> impl Iterator<Item = usize> + use<> {
        let bits = self.sentences;
        (0..u32::BITS as usize).filter(move |sentence| bits >> sentence & 1 == 1)
    }

    /// Returns the number of the first sentence that has the term.
    pub(super) fn first_sentence(&self) -> usize {
        self.sentences.trailing_zeros() as usize
    }

    /// Returns `true` if a sentence has the term.
    pub(super) fn is_in(&self, sentence: usize) -> bool {
        self.sentences >> sentence & 1 == 1
    }
}

/// Returns the distinct terms of a request's sentences, with the sentences that hold each.
pub fn query_terms<'q>(sentences: &[&'q str]) -> Vec<QueryTerm<'q>> {
    ReadTexts::default().terms(sentences)
}

/// Texts that were read into terms, each once: a part of a request is often one of its sentences.
#[derive(Default)]
pub(crate) struct ReadTexts<'q>(Vec<(&'q str, Vec<ReadTerm<'q>>)>);

/// A term where it stands in a text.
struct ReadTerm<'q> {
    /// In no sentence yet.
    term: QueryTerm<'q>,
    listed: Listed,
}

impl<'q> ReadTexts<'q> {
    /// Returns the distinct terms of a request's sentences in order of first appearance, those of
    /// kinds of values behind the words of their sentence.
    ///
    /// Stop words are dropped, unless there is nothing else. Words within values count less, and
    /// those of addresses and opaque codes, whose parts would match by accident, not at all.
    pub(crate) fn terms(&mut self, sentences: &[&'q str]) -> Vec<QueryTerm<'q>> {
        let places: Vec<usize> = sentences
            .iter()
            .map(|text| self.place(text.trim()))
            .collect();
        let read = places.iter().map(|&place| &self.0[place].1);
        let most = read.clone().map(Vec::len).sum();
        let (mut terms, mut listed) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let mut distinct: HashMap<TermKey, usize> = HashMap::with_capacity(most);
        for (sentence, read) in read.enumerate() {
            for ReadTerm {
                term,
                listed: of_term,
            } in read
            {
                let place = *distinct.entry(term.key).or_insert(terms.len());
                if place == terms.len() {
                    terms.push(term.clone());
                    listed.push((*of_term, term.kind == TermKind::Word));
                }
                let known: &mut QueryTerm<'_> = &mut terms[place];
                known.sentences |= 1 << sentence;
                // Of several weights the largest counts.
                known.weight = known.weight.max(term.weight);
            }
        }
        let function_words = function_words(&listed);
        if function_words.contains(&false) {
            let mut function_words = function_words.into_iter();
            terms.retain(|_| function_words.next() == Some(false));
        }
        terms
    }

    /// Returns the place of a text among those that are read.
    fn place(&mut self, text: &'q str) -> usize {
        self.0
            .iter()
            .position(|(known, _)| *known == text)
            .unwrap_or_else(|| {
                self.0.push((text, read(text)));
                self.0.len() - 1
            })
    }
}

/// Reads a text into terms, those of kinds of values last.
fn read(text: &str) -> Vec<ReadTerm<'_>> {
    let values = values(text);
    let weights = Weights::new(text, &values);
    // A word and the pair that it ends, every six letters.
    let mut terms = Vec::with_capacity(text.len() / 3);
    let mut add =
        |(term, kind, value): (&str, TermKind, Option<ValueKind>), range: Range<usize>, weight| {
            let word = &text[range];
            let word = &word[..word.floor_char_boundary(MAX_WORD_BYTES)];
            let term = QueryTerm {
                key: TermKey::of(term),
                kind,
                value,
                word,
                weight,
                sentences: 0,
            };
            terms.push(ReadTerm {
                term,
                listed: Listed::of(word),
            });
        };
    let words = |AnalyzedTerm {
                     term,
                     kind,
                     start,
                     end,
                 }: AnalyzedTerm<'_>| {
        let weight = weights.of(start..end);
        if weight > 0.0 {
            add((term, kind, None), start..end, weight);
        }
    };
    Analyzer::lend(|analyzer| analyzer.terms(text, words));
    for Value {
        kind,
        range,
        of_file,
        ..
    } in values
    {
        for kind in [Some(kind), of_file].into_iter().flatten() {
            add(
                (kind.term(), TermKind::Value, Some(kind)),
                range.clone(),
                1.0,
            );
        }
    }
    terms
}

/// What each byte of a text weighs; empty where all weigh the same.
struct Weights(Vec<f32>);

impl Weights {
    fn new(text: &str, values: &[Value]) -> Self {
        let mut codes = opaque_codes(text).peekable();
        if values.is_empty() && codes.peek().is_none() {
            return Self(Vec::new());
        }
        let mut weights = vec![1.0_f32; text.len()];
        let mut lighten = |range: Range<usize>, most: f32| {
            weights[range]
                .iter_mut()
                .for_each(|weight| *weight = weight.min(most));
        };
        for Value { kind, inner, .. } in values {
            lighten(inner.clone(), kind.word_weight());
        }
        codes.for_each(|range| lighten(range, 0.0));
        Self(weights)
    }

    /// Returns what a word, or a pair by its lighter word, weighs.
    fn of(&self, Range { start, end }: Range<usize>) -> f32 {
        let of_byte = |at: usize| self.0.get(at).copied().unwrap_or(1.0);
        of_byte(start).min(of_byte(end - 1))
    }
}

/// Returns where runs like `JpUuJ3Ew9z` stand, in which letters and digits alternate.
fn opaque_codes(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_code = |run: &str| {
        let changes = run
            .chars()
            .zip(run.chars().skip(1))
            .filter(|(a, b)| a.is_ascii_digit() != b.is_ascii_digit())
            .count();
        changes >= 2
    };
    let runs = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(move |run| is_code(run));
    runs.map(move |run| {
        // Both lie in one piece of memory.
        let start = run.as_ptr().addr() - text.as_ptr().addr();
        start..start + run.len()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let words = |term: &QueryTerm| !matches!(term.kind, TermKind::Pair | TermKind::Value);
        query_terms(&[text])
            .into_iter()
            .filter(words)
            .map(|term| term.word.to_owned())
            .collect()
    }

    fn keys(terms: &[QueryTerm<'_>]) -> Vec<TermKey> {
        terms.iter().map(|term| term.key).collect()
    }

    #[test]
    fn stop_words_go_unless_they_are_all_there_is() {
        assert_eq!(
            words("Could you please book me a flight to Oslo?"),
            ["book", "flight", "Oslo"]
        );
        assert_eq!(words("what is this"), ["what", "is", "this"]);
    }

    #[test]
    fn terms_are_distinct_by_stem() {
        let terms = query_terms(&["booking a book, booked twice"]);
        assert_eq!(
            keys(&terms),
            ["book", "book book", "twice", "book twice"].map(TermKey::of)
        );
    }

    #[test]
    fn terms_know_their_sentences() {
        let terms = query_terms(&["mail the file", " print the file"]);
        assert_eq!(
            keys(&terms),
            ["mail", "file", "mail file", "print", "print file"].map(TermKey::of)
        );
        let sentences: Vec<Vec<usize>> = terms
            .iter()
            .map(|term| term.sentences().collect())
            .collect();
        assert_eq!(sentences, [vec![0], vec![0, 1], vec![0], vec![1], vec![1]]);
    }

    #[test]
    fn addresses_and_codes_go_and_names_stay() {
        assert_eq!(
            words(
                "mail jo@example.org about https://example.org/a order JpUuJ3Ew9z from s3_put_object"
            ),
            ["mail", "order", "3", "s3", "put", "object"]
        );
    }

    #[test]
    fn words_within_values_count_less_unless_they_stand_outside_too() {
        let weights = |text: &str| {
            let terms = query_terms(&[text])
                .into_iter()
                .filter(|term| term.kind != TermKind::Pair);
            terms
                .map(|term| format!("{:?} {}", term.key, term.weight))
                .collect::<Vec<_>>()
        };
        let of = |weighted: &str| {
            let (term, weight) = weighted.rsplit_once(' ').expect("both are there");
            format!("{:?} {weight}", TermKey::of(term))
        };
        assert_eq!(
            weights("rename notes.txt on 3 May"),
            [
                "renam 1",
                "note 0.5",
                "txt 1",
                "3 0.5",
                "takes:path 1",
                "takes:document 1",
                "takes:date 1"
            ]
            .map(of)
        );
        assert_eq!(
            weights("put AP-7790 into 'Big plans'")[1..],
            [
                "ap 0.75",
                "7790 0.75",
                "big 0.5",
                "plan 0.5",
                "takes:id 1",
                "takes:text 1"
            ]
            .map(of)
        );
        assert_eq!(weights("notes of notes.txt")[0], of("note 1"));
        assert_eq!(weights("https://example.org/a"), ["takes:url 1"].map(of));
    }

    #[test]
    fn values_know_their_sentences_and_are_kept_short() {
        let url = format!("see https://example.org/{}", "é".repeat(1000));
        let terms = query_terms(&["read a.txt", " and b.txt", &url]);
        let path = terms
            .iter()
            .find(|term| term.key == TermKey::of("takes:path"))
            .expect("there are two");
        assert_eq!(
            (path.word, path.sentences().collect::<Vec<_>>()),
            ("a.txt", vec![0, 1])
        );
        assert!(terms.iter().all(|term| term.word.len() <= MAX_WORD_BYTES));
    }
}
