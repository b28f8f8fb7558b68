//! Stems of words in languages other than English, with the Snowball stemmers.
//!
//! The terms of the index have English stems, whatever their language. These stems only tell if two
//! words of another language are forms of one word.

use frostem::{Algorithm, Stemmer};
use stop_words::Language;
use unicode_script::{Script, UnicodeScript};

use super::fold_word;
use crate::function_words::TextLanguages;

/// The languages with a stemmer.
const STEMMERS: [(Language, Algorithm, Script); 18] = [
    (Language::Arabic, Algorithm::Arabic, Script::Arabic),
    (Language::Catalan, Algorithm::Catalan, Script::Latin),
    (Language::Danish, Algorithm::Danish, Script::Latin),
    (Language::Dutch, Algorithm::Dutch, Script::Latin),
    (Language::Finnish, Algorithm::Finnish, Script::Latin),
    (Language::French, Algorithm::French, Script::Latin),
    (Language::German, Algorithm::German, Script::Latin),
    (Language::Greek, Algorithm::Greek, Script::Greek),
    (Language::Hungarian, Algorithm::Hungarian, Script::Latin),
    (Language::Indonesian, Algorithm::Indonesian, Script::Latin),
    (Language::Italian, Algorithm::Italian, Script::Latin),
    (Language::Norwegian, Algorithm::Norwegian, Script::Latin),
    (Language::Portuguese, Algorithm::Portuguese, Script::Latin),
    (Language::Romanian, Algorithm::Romanian, Script::Latin),
    (Language::Russian, Algorithm::Russian, Script::Cyrillic),
    (Language::Spanish, Algorithm::Spanish, Script::Latin),
    (Language::Swedish, Algorithm::Swedish, Script::Latin),
    (Language::Turkish, Algorithm::Turkish, Script::Latin),
];

/// The languages that write compounds as one word.
const COMPOUNDING: [Language; 5] = [
    Language::Danish,
    Language::Dutch,
    Language::German,
    Language::Norwegian,
    Language::Swedish,
];

/// Returns `true` if a text in these languages may have compounds.
pub(crate) fn has_compounds(languages: TextLanguages) -> bool {
    COMPOUNDING
        .iter()
        .any(|&language| languages.may_be(language))
}

/// Returns the stemmers for a word of a text, by its languages and the script of the word.
pub(crate) fn stemmers(word: &str, languages: TextLanguages) -> Vec<Stemmer> {
    let script = word.chars().next().map_or(Script::Common, |c| c.script());
    let mut stemmers = Vec::new();
    for (language, algorithm, written_in) in STEMMERS {
        if written_in == script && languages.may_be(language) {
            stemmers.push(Stemmer::new(algorithm));
        }
    }
    stemmers
}

/// Returns the stem of a word in lower case, without accents.
pub(crate) fn folded_stem(stemmer: Stemmer, word: &str) -> String {
    fold_word(&stemmer.stem(word)).into_owned()
}
