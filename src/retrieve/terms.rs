//! The terms of a request.

use std::ops::Range;

use foldhash::{HashMap, HashMapExt};

use super::alternatives::{Alternatives, Rewording};
use super::query_term::QueryTerm;
use crate::function_words::{FunctionWordEntry, function_words_and_languages};
use crate::index::{ExampleIndex, Index, IndexedTerm, KeywordIndex, TermKey};
use crate::query::Query;
use crate::text::{AnalyzedTerm, Analyzer, RequestValue, TermKind, ValueKind, values};

/// The largest length of a term's original spelling in bytes, because a value may be long.
const MAX_WORD_BYTES: usize = 256;

/// One term of a request that the index contains.
#[derive(Debug)]
pub(crate) struct FoundTerm<'q> {
    pub(crate) query: QueryTerm<'q>,
    pub(crate) indexed: IndexedTerm,
}

impl<'q> FoundTerm<'q> {
    /// Looks up the terms of a request and drops those that no tool contains.
    pub(super) fn all(index: &KeywordIndex, terms: Vec<QueryTerm<'q>>) -> Vec<Self> {
        let found_terms = terms.into_iter().filter_map(|query| {
            let indexed = index.look_up(query.key, query.kind)?;
            Some(Self {
                indexed: indexed.weighted(query.weight),
                query,
            })
        });
        found_terms.collect()
    }
}

/// Returns the distinct terms of a request's sentences, each with the sentences that contain it.
pub fn query_terms<'q>(sentences: &[&'q str]) -> Vec<QueryTerm<'q>> {
    AnalyzedTexts::default().terms(sentences)
}

/// A cache of analysed texts: a part of a request is often one of its sentences.
#[derive(Default)]
pub(crate) struct AnalyzedTexts<'q> {
    texts: Vec<(&'q str, Vec<TextTerm<'q>>)>,
    /// The terms of sentences that are looked up once more.
    known: Vec<(Vec<&'q str>, Vec<QueryTerm<'q>>)>,
    /// The alternatives of words; `None` if words are read as themselves only.
    alternatives: Option<Alternatives<'q>>,
}

/// A term of one text.
struct TextTerm<'q> {
    /// The term, without sentences.
    term: QueryTerm<'q>,
    listed: FunctionWordEntry,
}

impl<'q> AnalyzedTexts<'q> {
    /// Makes an empty cache. Words of requests have alternatives in these indexes.
    pub(crate) fn new(index: &'q Index, examples: Option<&'q ExampleIndex>) -> Self {
        Self {
            texts: Vec::new(),
            known: Vec::new(),
            alternatives: Some(Alternatives::new(index, examples)),
        }
    }

    /// Returns the distinct terms of a request's sentences in order of first appearance. Kinds of
    /// values come after the words of their sentence.
    ///
    /// Stop words are dropped, unless there is nothing else. Words within values count less. Parts
    /// of addresses and opaque codes would match by accident and do not count.
    pub(crate) fn terms(&mut self, sentences: &[&'q str]) -> Vec<QueryTerm<'q>> {
        let known = self.known.iter().position(|(known, _)| known == sentences);
        if let Some(position) = known {
            return self.known.swap_remove(position).1;
        }
        let indices: Vec<usize> = sentences
            .iter()
            .map(|text| self.find_or_analyze(text.trim()))
            .collect();
        let sentence_terms = indices.iter().map(|&index| &self.texts[index].1);
        let capacity = sentence_terms.clone().map(Vec::len).sum();
        let (mut terms, mut listed) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        let mut distinct: HashMap<TermKey, usize> = HashMap::with_capacity(capacity);
        for (sentence, text_terms) in sentence_terms.enumerate() {
            for TextTerm {
                term,
                listed: entry,
            } in text_terms
            {
                let index = *distinct.entry(term.key).or_insert(terms.len());
                if index == terms.len() {
                    terms.push(term.clone());
                    listed.push((*entry, term.kind == TermKind::Word));
                }
                let distinct_term: &mut QueryTerm<'_> = &mut terms[index];
                distinct_term.sentences |= 1 << sentence;
                // The largest of several weights counts.
                distinct_term.weight = distinct_term.weight.max(term.weight);
            }
        }
        let (function_words, languages) = function_words_and_languages(&listed);
        if function_words.contains(&false) {
            let mut function_words = function_words.into_iter();
            terms.retain(|_| function_words.next() == Some(false));
        }
        match &mut self.alternatives {
            Some(alternatives) => alternatives.add_to(terms, languages),
            None => terms,
        }
    }

    /// Returns the words of a request that are embedded as others, and keeps its terms for the
    /// search by words.
    pub(crate) fn rewording(&mut self, query: &'q Query) -> Rewording {
        let mut rewording = Rewording::default();
        let mut add = |sentences: Vec<&'q str>| {
            let terms = self.terms(&sentences);
            rewording.add(&terms);
            self.known.push((sentences, terms));
        };
        add(query.sentences());
        if !query.conversation().is_empty() {
            add(query.conversation_sentences());
        }
        rewording
    }

    /// Returns the index of a text in the cache, and analyses a new text.
    fn find_or_analyze(&mut self, text: &'q str) -> usize {
        self.texts
            .iter()
            .position(|(analyzed, _)| *analyzed == text)
            .unwrap_or_else(|| {
                self.texts.push((text, analyze(text)));
                self.texts.len() - 1
            })
    }
}

/// Analyses a text into terms; kinds of values come last.
fn analyze(text: &str) -> Vec<TextTerm<'_>> {
    let values = values(text);
    let weights = ByteWeights::new(text, &values);
    // The estimate is one word and one pair for every six letters.
    let mut terms = Vec::with_capacity(text.len() / 3);
    let mut add =
        |(term, kind, value): (&str, TermKind, Option<ValueKind>), range: Range<usize>, weight| {
            let is_word = kind == TermKind::Word;
            let is_name = is_word && may_be_name(text, &range);
            let is_file_type = is_word && follows_file_name(&text[..range.start]);
            let word = &text[range];
            let word = &word[..word.floor_char_boundary(MAX_WORD_BYTES)];
            let term = QueryTerm {
                key: TermKey::new(term),
                kind,
                value,
                word,
                weight,
                is_name,
                is_file_type,
                alternative: None,
                sentences: 0,
            };
            terms.push(TextTerm {
                term,
                listed: FunctionWordEntry::look_up(word),
            });
        };
    let words = |AnalyzedTerm {
                     term,
                     kind,
                     start,
                     end,
                 }: AnalyzedTerm<'_>| {
        let weight = weights.range_weight(start..end);
        if weight > 0.0 {
            add((term, kind, None), start..end, weight);
        }
    };
    Analyzer::lend(|analyzer| analyzer.terms(text, words));
    for RequestValue {
        kind,
        range,
        file_kind,
        ..
    } in values
    {
        for kind in [Some(kind), file_kind].into_iter().flatten() {
            add(
                (kind.term(), TermKind::Value, Some(kind)),
                range.clone(),
                1.0,
            );
        }
    }
    terms
}

/// Returns `true` if a text ends with a name and a dot, as before the type of a file.
fn follows_file_name(before: &str) -> bool {
    let name = before.strip_suffix('.');
    name.is_some_and(|name| name.ends_with(char::is_alphanumeric))
}

/// Returns `true` if a word begins with a capital within a text, or if it is a part of a longer name
/// or number.
fn may_be_name(text: &str, word: &Range<usize>) -> bool {
    let is_joint = |c: char| c.is_alphanumeric() || "_/@#\\".contains(c);
    let (before, after) = (&text[..word.start], &text[word.end..]);
    let has_capital = text[word.clone()].starts_with(char::is_uppercase);
    has_capital && before.contains(char::is_alphanumeric)
        || before.ends_with(|c| is_joint(c) || c == '.')
        || after.starts_with(is_joint)
}

/// The weight of each byte of a text; empty if all weights are 1.
struct ByteWeights(Vec<f32>);

impl ByteWeights {
    fn new(text: &str, values: &[RequestValue]) -> Self {
        let mut codes = opaque_codes(text).peekable();
        if values.is_empty() && codes.peek().is_none() {
            return Self(Vec::new());
        }
        let mut weights = vec![1.0_f32; text.len()];
        let mut limit_weight = |range: Range<usize>, limit: f32| {
            weights[range]
                .iter_mut()
                .for_each(|weight| *weight = weight.min(limit));
        };
        for RequestValue { kind, inner, .. } in values {
            limit_weight(inner.clone(), kind.word_weight());
        }
        codes.for_each(|range| limit_weight(range, 0.0));
        Self(weights)
    }

    /// Returns the weight of a word, or of a pair by its lighter word.
    fn range_weight(&self, Range { start, end }: Range<usize>) -> f32 {
        let byte_weight = |index: usize| self.0.get(index).copied().unwrap_or(1.0);
        byte_weight(start).min(byte_weight(end - 1))
    }
}

/// Returns the ranges of codes like `JpUuJ3Ew9z`, in which letters and digits alternate.
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
        // `run` is a slice of `text`.
        let start = run.as_ptr().addr() - text.as_ptr().addr();
        start..start + run.len()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let is_word = |term: &QueryTerm| !matches!(term.kind, TermKind::Pair | TermKind::Value);
        query_terms(&[text])
            .into_iter()
            .filter(is_word)
            .map(|term| term.word.to_owned())
            .collect()
    }

    fn keys(terms: &[QueryTerm<'_>]) -> Vec<TermKey> {
        terms.iter().map(|term| term.key).collect()
    }

    #[test]
    fn stop_words_are_dropped_unless_there_is_nothing_else() {
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
            ["book", "book book", "twice", "book twice"].map(TermKey::new)
        );
    }

    #[test]
    fn terms_record_their_sentences() {
        let terms = query_terms(&["mail the file", " print the file"]);
        assert_eq!(
            keys(&terms),
            ["mail", "file", "mail file", "print", "print file"].map(TermKey::new)
        );
        let sentences: Vec<Vec<usize>> = terms
            .iter()
            .map(|term| term.sentences().collect())
            .collect();
        assert_eq!(sentences, [vec![0], vec![0, 1], vec![0], vec![1], vec![1]]);
    }

    #[test]
    fn addresses_and_codes_are_dropped_and_names_kept() {
        assert_eq!(
            words(
                "mail jo@example.org about https://example.org/a order JpUuJ3Ew9z \
                 from s3_put_object"
            ),
            ["mail", "order", "3", "s3", "put", "object"]
        );
    }

    #[test]
    fn words_count_less_only_if_they_are_within_values() {
        let weights = |text: &str| {
            let terms = query_terms(&[text])
                .into_iter()
                .filter(|term| term.kind != TermKind::Pair);
            terms
                .map(|term| format!("{:?} {}", term.key, term.weight))
                .collect::<Vec<_>>()
        };
        let expected = |weighted: &str| {
            let (term, weight) = weighted.rsplit_once(' ').expect("a term and a weight");
            format!("{:?} {weight}", TermKey::new(term))
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
            .map(expected)
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
            .map(expected)
        );
        assert_eq!(weights("notes of notes.txt")[0], expected("note 1"));
        assert_eq!(
            weights("https://example.org/a"),
            ["takes:url 1"].map(expected)
        );
    }

    #[test]
    fn values_record_their_sentences_and_are_truncated() {
        let url = format!("see https://example.org/{}", "é".repeat(1000));
        let terms = query_terms(&["read a.txt", " and b.txt", &url]);
        let path = terms
            .iter()
            .find(|term| term.key == TermKey::new("takes:path"))
            .expect("two paths");
        assert_eq!(
            (path.word, path.sentences().collect::<Vec<_>>()),
            ("a.txt", vec![0, 1])
        );
        assert!(terms.iter().all(|term| term.word.len() <= MAX_WORD_BYTES));
    }
}
