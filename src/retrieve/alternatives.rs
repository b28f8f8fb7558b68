//! Alternatives: other words as which a word of a request is read.
//!
//! A misspelt word is read as similar words of the catalog, an abbreviation as its meaning, a word
//! of another language also as its other forms, and a compound as its parts. An English request whose
//! words are all known has no alternatives.

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt};

use super::query_term::{AlternativeKind, QueryTerm, WordAlternative};
use crate::embed::StaticEmbedder;
use crate::function_words::{TextLanguages, lower_case, resembles_function_word};
use crate::index::{ExampleIndex, Index, TermKey, Vocabulary};
use crate::text::abbreviations::common_meanings;
use crate::text::{
    Analyzer, TermKind, fold_word, folded_stem, has_compounds, is_unspaced, stemmers, words,
};

/// The most words of a request that are read as others.
const MAX_READ_WORDS: usize = 32;
/// The most alternatives of one kind for a word.
const MAX_ALTERNATIVES: usize = 3;
/// The fewest letters of a word that may be misspelt.
const MIN_TYPO_LETTERS: usize = 4;
/// The fewest letters of a word that may have two typos.
const TWO_TYPOS_LETTERS: usize = 8;
/// The most letters of a word that may be misspelt.
const MAX_TYPO_LETTERS: usize = 32;
/// The most letters of an abbreviation.
const MAX_ABBREVIATION_LETTERS: usize = 8;
/// The number of first letters that the forms of a word share.
const SHARED_LETTERS: usize = 4;
/// The most words with the same first letters that are compared.
const MAX_COMPARED: usize = 1_024;
/// The fewest letters of a part of a compound.
const MIN_PART_LETTERS: usize = 4;
/// The most letters of a compound.
const MAX_COMPOUND_LETTERS: usize = 48;
/// The letters that link the parts of a compound.
const LINKS: [&str; 6] = ["", "s", "n", "en", "es", "e"];

/// The weight of a word with one typo, relative to a correct word.
const TYPO_WEIGHT: f32 = 0.8;
/// The weight of a word with two typos.
const TWO_TYPOS_WEIGHT: f32 = 0.6;
/// The weight of a meaning that the catalog defines.
const DEFINED_WEIGHT: f32 = 0.8;
/// The weight of a meaning of the table.
const COMMON_WEIGHT: f32 = 0.6;
/// The weight of another form of a word.
const FORM_WEIGHT: f32 = 0.8;
/// The weight of a part of a compound.
const PART_WEIGHT: f32 = 0.7;

/// The words of a request that are embedded as other words, each with the text in its place.
#[derive(Debug, Default)]
pub(crate) struct Rewording(Vec<(String, String)>);

impl Rewording {
    /// Adds the best alternative of each word. Only typos, and abbreviations that the static model
    /// does not know, are embedded as others. Models know other languages.
    pub(super) fn add(&mut self, terms: &[QueryTerm<'_>]) {
        for QueryTerm {
            word, alternative, ..
        } in terms
        {
            if let Some(WordAlternative { kind, text, .. }) = alternative.as_deref()
                && self.0.iter().all(|(other, _)| other != word)
            {
                match kind {
                    AlternativeKind::Typo => self.0.push(((*word).to_owned(), text.clone())),
                    AlternativeKind::Abbreviation
                        if !StaticEmbedder::knows_word(&lower_case(word)) =>
                    {
                        self.0.push(((*word).to_owned(), format!("{word} {text}")));
                    }
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces the words in a text.
    pub(crate) fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut reworded, mut copied_to) = (String::with_capacity(text.len()), 0);
        for (start, end) in words(text) {
            let mut rewordings = self.0.iter();
            if let Some((_, other)) = rewordings.find(|(word, _)| *word == text[start..end]) {
                reworded.push_str(&text[copied_to..start]);
                reworded.push_str(other);
                copied_to = end;
            }
        }
        reworded.push_str(&text[copied_to..]);
        Cow::Owned(reworded)
    }
}

/// The alternatives of the words of a request in one catalog.
pub(crate) struct Alternatives<'q> {
    index: &'q Index,
    examples: Option<&'q ExampleIndex>,
    /// The alternatives of each word so far.
    found: HashMap<&'q str, Vec<WordAlternative>>,
}

impl<'q> Alternatives<'q> {
    pub(super) fn new(index: &'q Index, examples: Option<&'q ExampleIndex>) -> Self {
        Self {
            index,
            examples,
            found: HashMap::new(),
        }
    }

    /// Adds a term for each word as which a word of the request is read, after the term of the
    /// word.
    pub(super) fn add_to(
        &mut self,
        terms: Vec<QueryTerm<'q>>,
        languages: TextLanguages,
    ) -> Vec<QueryTerm<'q>> {
        if self.index.vocabulary.is_empty() {
            return terms;
        }
        let mut read = Vec::new();
        for (position, term) in terms.iter().enumerate() {
            let is_word = term.kind == TermKind::Word && term.weight >= 1.0;
            if is_word && self.needs_alternatives(term, languages) && read.len() < MAX_READ_WORDS {
                let alternatives = self.look_up(term, languages);
                if !alternatives.is_empty() {
                    read.push((position, alternatives.clone()));
                }
            }
        }
        if read.is_empty() {
            return terms;
        }
        let mut extended = Vec::with_capacity(terms.len() + 2 * read.len());
        let mut read = read.into_iter().peekable();
        for (position, term) in terms.into_iter().enumerate() {
            let alternatives = read.next_if(|(word, _)| *word == position);
            extended.push(term);
            let word = extended.len() - 1;
            for alternative in alternatives.into_iter().flat_map(|(_, list)| list) {
                add_terms(&alternative, word, &mut extended);
            }
        }
        extended
    }

    /// Returns `true` if a word may have alternatives.
    fn needs_alternatives(&self, term: &QueryTerm<'_>, languages: TextLanguages) -> bool {
        let length = term.word.len();
        if languages.is_other() && length >= SHARED_LETTERS {
            return true;
        }
        let may_be_abbreviation = term.word.bytes().all(|byte| byte.is_ascii_uppercase());
        may_be_abbreviation && length <= MAX_ABBREVIATION_LETTERS || !self.contains(term.key)
    }

    fn contains(&self, key: TermKey) -> bool {
        self.index.keyword.look_up(key, TermKind::Word).is_some()
            || self.examples.is_some_and(|examples| {
                let mut contributions = examples.contributions(self.index, key, TermKind::Word);
                contributions.next().is_some()
            })
    }

    /// Returns the alternatives of a word, and finds them the first time.
    fn look_up(&mut self, term: &QueryTerm<'q>, languages: TextLanguages) -> &Vec<WordAlternative> {
        if !self.found.contains_key(term.word) {
            let alternatives = self.find(term, languages);
            self.found.insert(term.word, alternatives);
        }
        &self.found[term.word]
    }

    fn find(&self, term: &QueryTerm<'_>, languages: TextLanguages) -> Vec<WordAlternative> {
        let word = lower_case(term.word);
        let is_known = self.contains(term.key);
        if !term.is_file_type {
            let meanings = self.meanings(term.word, &word, is_known);
            if !meanings.is_empty() {
                return meanings;
            }
        }
        let is_spaced = word.chars().all(char::is_alphabetic) && !word.contains(is_unspaced);
        if !is_spaced || word.chars().count() < MIN_TYPO_LETTERS {
            return Vec::new();
        }
        if languages.is_other() || !is_known && !languages.has_english() {
            let forms = self.forms(&word, term.key, languages);
            if !forms.is_empty() || is_known {
                return forms;
            }
            let parts = self.parts(&word, languages);
            if !parts.is_empty() {
                return parts;
            }
        }
        if is_known || term.is_name {
            return Vec::new();
        }
        self.corrections(&word)
    }

    /// Returns the meanings of an abbreviation. A meaning of the table counts only if the catalog
    /// has all of its words and not the abbreviation.
    fn meanings(&self, word: &str, lower_case: &str, is_known: bool) -> Vec<WordAlternative> {
        if word.len() > MAX_ABBREVIATION_LETTERS || !word.is_ascii() {
            return Vec::new();
        }
        let singular = match word.strip_suffix('s') {
            Some(rest) if rest.bytes().all(|byte| byte.is_ascii_uppercase()) => rest,
            _ => word,
        };
        let singular_in_lower_case = singular.to_ascii_lowercase();
        let mut texts: Vec<String> = Vec::new();
        for abbreviation in [lower_case, &singular_in_lower_case] {
            let meanings = self.index.vocabulary.meanings(abbreviation);
            texts.extend(meanings.map(str::to_owned));
        }
        let mut weight = DEFINED_WEIGHT;
        if texts.is_empty() && !is_known {
            weight = COMMON_WEIGHT;
            let mut common = common_meanings(word, lower_case);
            if common.is_empty() {
                common = common_meanings(singular, &singular_in_lower_case);
            }
            texts = common.iter().map(|&text| text.to_owned()).collect();
            texts.retain(|text| self.contains_all(text));
        }
        texts.dedup();
        texts.truncate(MAX_ALTERNATIVES);
        let count = texts.len() as f32;
        let alternative = |text| WordAlternative {
            kind: AlternativeKind::Abbreviation,
            text,
            weight: weight / count,
        };
        texts.into_iter().map(alternative).collect()
    }

    /// Returns `true` if the catalog has every word of a text.
    fn contains_all(&self, text: &str) -> bool {
        words(text).all(|(start, end)| self.contains(term_key(&text[start..end])))
    }

    /// Returns the other forms of a word that the catalog has, and compounds that begin with it.
    fn forms(&self, word: &str, key: TermKey, languages: TextLanguages) -> Vec<WordAlternative> {
        let folded = fold_word(word);
        let stems: Vec<_> = stemmers(word, languages)
            .into_iter()
            .map(|stemmer| (stemmer, folded_stem(stemmer, word)))
            .collect();
        if stems.is_empty() {
            return Vec::new();
        }
        let mut forms: Vec<(&str, u32)> = Vec::new();
        for (other, count) in words_like(&self.index.vocabulary, &folded) {
            let is_form = stems
                .iter()
                .any(|(stemmer, stem)| folded_stem(*stemmer, other) == *stem);
            if is_form && term_key(other) != key {
                forms.push((other, count));
            }
        }
        best(forms, AlternativeKind::Form, FORM_WEIGHT)
    }

    /// Returns the two or three words of the catalog of which a word is made.
    fn parts(&self, word: &str, languages: TextLanguages) -> Vec<WordAlternative> {
        let length = word.chars().count();
        if !has_compounds(languages)
            || !(2 * MIN_PART_LETTERS..=MAX_COMPOUND_LETTERS).contains(&length)
        {
            return Vec::new();
        }
        let mut parts = self.split(word, languages, 2);
        if parts.is_none() {
            parts = self.split(word, languages, 3);
        }
        let alternative = |text| WordAlternative {
            kind: AlternativeKind::Compound,
            text,
            weight: PART_WEIGHT,
        };
        parts
            .unwrap_or_default()
            .into_iter()
            .map(alternative)
            .collect()
    }

    /// Divides a word into `count` words of the catalog, the first as long as possible.
    fn split(&self, word: &str, languages: TextLanguages, count: usize) -> Option<Vec<String>> {
        if count == 1 {
            return self.part(word, languages).map(|part| vec![part]);
        }
        let ends: Vec<usize> = word.char_indices().map(|(start, _)| start).collect();
        let last = ends.len().checked_sub((count - 1) * MIN_PART_LETTERS)?;
        for letters in (MIN_PART_LETTERS..=last).rev() {
            let (first, rest) = word.split_at(*ends.get(letters)?);
            let Some(first) = self.linked_part(first, languages) else {
                continue;
            };
            if let Some(rest) = self.split(rest, languages, count - 1) {
                let mut parts = vec![first];
                parts.extend(rest);
                return Some(parts);
            }
        }
        None
    }

    /// Returns the word of the catalog for a part of a compound that may end with a link.
    fn linked_part(&self, part: &str, languages: TextLanguages) -> Option<String> {
        LINKS.iter().find_map(|link| {
            let part = part.strip_suffix(link)?;
            let is_long = part.chars().count() >= MIN_PART_LETTERS;
            is_long.then(|| self.part(part, languages)).flatten()
        })
    }

    /// Returns the word of the catalog for a part of a compound, perhaps in another form.
    fn part(&self, part: &str, languages: TextLanguages) -> Option<String> {
        let key = term_key(part);
        if self.contains(key) {
            return Some(part.to_owned());
        }
        let form = self.forms(part, key, languages).into_iter().next()?;
        Some(form.text)
    }

    /// Returns the words of the catalog for a word that is probably misspelt.
    fn corrections(&self, word: &str) -> Vec<WordAlternative> {
        let folded = fold_word(word);
        let letters = folded.chars().count();
        let may_be_misspelt = (MIN_TYPO_LETTERS..=MAX_TYPO_LETTERS).contains(&letters)
            && !StaticEmbedder::knows_word(&folded)
            && !resembles_function_word(&folded);
        if !may_be_misspelt {
            return Vec::new();
        }
        let max_edits = if letters >= TWO_TYPOS_LETTERS { 2 } else { 1 };
        let mut similar = self.index.vocabulary.similar(&folded, max_edits);
        let Some(edits) = similar.iter().map(|word| word.edits).min() else {
            return Vec::new();
        };
        similar.retain(|word| word.edits == edits);
        // Swapped letters are the likeliest typo.
        let is_swapped = |word: &str| sorted_letters(&fold_word(word)) == sorted_letters(&folded);
        if similar.iter().any(|similar| is_swapped(similar.word)) {
            similar.retain(|similar| is_swapped(similar.word));
        }
        let words = similar.iter().map(|similar| (similar.word, similar.count));
        let weight = if edits == 1 {
            TYPO_WEIGHT
        } else {
            TWO_TYPOS_WEIGHT
        };
        let mut corrections = best(words.collect(), AlternativeKind::Typo, weight);
        let count = corrections.len() as f32;
        for correction in &mut corrections {
            correction.weight /= count;
        }
        corrections
    }
}

/// Adds the terms of an alternative for the word at a position.
fn add_terms<'q>(alternative: &WordAlternative, word: usize, terms: &mut Vec<QueryTerm<'q>>) {
    let mut new_terms = Vec::new();
    Analyzer::lend(|analyzer| {
        analyzer.terms(&alternative.text, |term| {
            new_terms.push((TermKey::new(term.term), term.kind));
        });
    });
    for (key, kind) in new_terms {
        if terms.iter().any(|term| term.key == key) {
            continue;
        }
        let original = &terms[word];
        terms.push(QueryTerm {
            key,
            kind,
            weight: original.weight * alternative.weight,
            alternative: Some(Box::new(alternative.clone())),
            ..original.clone()
        });
    }
}

/// Returns the words of a vocabulary that share the first letters of a word.
fn words_like<'v>(
    vocabulary: &'v Vocabulary,
    folded: &str,
) -> impl Iterator<Item = (&'v str, u32)> {
    let prefix_end = folded.char_indices().nth(SHARED_LETTERS);
    let prefix = &folded[..prefix_end.map_or(folded.len(), |(end, _)| end)];
    vocabulary.words_starting_with(prefix).take(MAX_COMPARED)
}

/// Returns the most frequent words as alternatives, one for each term.
fn best(mut words: Vec<(&str, u32)>, kind: AlternativeKind, weight: f32) -> Vec<WordAlternative> {
    words.sort_by(|(a, count_a), (b, count_b)| count_b.cmp(count_a).then_with(|| a.cmp(b)));
    let mut keys = Vec::new();
    let mut alternatives = Vec::new();
    for (word, _) in words {
        let key = term_key(word);
        if alternatives.len() < MAX_ALTERNATIVES && !keys.contains(&key) {
            keys.push(key);
            alternatives.push(WordAlternative {
                kind,
                text: word.to_owned(),
                weight,
            });
        }
    }
    alternatives
}

fn term_key(word: &str) -> TermKey {
    Analyzer::lend(|analyzer| TermKey::new(analyzer.term(word)))
}

fn sorted_letters(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}
