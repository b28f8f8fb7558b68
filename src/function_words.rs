//! Words that carry no intent of their own: the function words of English and of asking, and those
//! of other languages (NLTK's lists, by the crate stop-words).
//!
//! Some function words of other languages are English words too: a `son` is no *his*, and to `die`
//! no article. They count where the request is in that language: where it has two others of that
//! language, and more than of English.

use std::borrow::Cow;
use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt};
use stop_words::Language;

/// Languages whose lists are of the language alone; a bit each.
const LANGUAGES: [Language; 20] = [
    Language::Arabic,
    Language::Catalan,
    Language::Danish,
    Language::Dutch,
    Language::Finnish,
    Language::French,
    Language::German,
    Language::Greek,
    Language::Hebrew,
    Language::Hungarian,
    Language::Indonesian,
    Language::Italian,
    Language::Norwegian,
    Language::Portuguese,
    Language::Romanian,
    Language::Russian,
    Language::Slovenian,
    Language::Spanish,
    Language::Swedish,
    Language::Turkish,
];

/// A bit of what is known of a word, beside those of the languages: English has it as a function
/// word, or asks with it.
const ENGLISH: u32 = 1 << 31;
/// English has it as a word of another kind.
const ENGLISH_TOO: u32 = 1 << 30;

const _: () = assert!(LANGUAGES.len() <= 30, "a language has a bit");

/// The function words, each with its bits.
static WORDS: LazyLock<HashMap<&str, u32>> = LazyLock::new(|| {
    let mut words = HashMap::new();
    let mut add = |word, bit: u32| *words.entry(word).or_insert(0) |= bit;
    let of_file = |text: &'static str| {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .flat_map(str::split_whitespace)
    };
    of_file(include_str!("function_words/english.txt")).for_each(|word| add(word, ENGLISH));
    of_file(include_str!("function_words/english_too.txt")).for_each(|word| add(word, ENGLISH_TOO));
    for (bit, language) in LANGUAGES.iter().enumerate() {
        stop_words::lookup(language)
            .into_iter()
            .flatten()
            .for_each(|word| add(word, 1 << bit));
    }
    words
});

/// Returns a word in lower case; borrowed where it is ASCII and stands so.
pub(crate) fn lower_case(word: &str) -> Cow<'_, str> {
    if !word.is_ascii() {
        Cow::Owned(word.to_lowercase())
    } else if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(word.to_ascii_lowercase())
    } else {
        Cow::Borrowed(word)
    }
}

/// What the lists of function words have of a word.
#[derive(Debug, Clone, Copy)]
pub struct Listed(Option<(&'static str, u32)>);

impl Listed {
    /// Looks a word up, whatever its case.
    pub(crate) fn of(word: &str) -> Self {
        Self(
            WORDS
                .get_key_value(&*lower_case(word))
                .map(|(&word, &bits)| (word, bits)),
        )
    }

    /// Returns `true` if the word carries no intent of its own in a text that may be in these
    /// languages.
    fn is_function_word(self, languages: u32) -> bool {
        self.0
            .is_some_and(|(_, bits)| bits & (ENGLISH | languages) != 0 || bits & ENGLISH_TOO == 0)
    }
}

/// The least distinct function words by which a text is in a language other than English.
const LEAST_WORDS: usize = 2;

/// Returns `true` if a word, whatever its case, carries no intent of its own in any text.
pub(crate) fn is_stop_word(word: &str) -> bool {
    Listed::of(word).is_function_word(0)
}

/// Returns `true` if a text has a word that carries an intent.
pub fn says_something(text: &str) -> bool {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let mut listed = Vec::new();
    for word in words {
        let of_word = Listed::of(word);
        // What is in no list carries an intent in any language.
        if of_word.0.is_none() {
            return true;
        }
        listed.push((of_word, true));
    }
    function_words(&listed).contains(&false)
}

/// Tells of each word of a text, by what the lists have of it, whether it carries no intent of its
/// own. That depends on the language of the text, which the words with a `true` tell.
pub(crate) fn function_words(words: &[(Listed, bool)]) -> Vec<bool> {
    let languages = languages(
        words
            .iter()
            .filter(|(_, tells)| *tells)
            .filter_map(|(listed, _)| listed.0),
    );
    words
        .iter()
        .map(|(listed, _)| listed.is_function_word(languages))
        .collect()
}

/// Returns a bit for each language, other than English, that a text with these function words may
/// be in.
fn languages(words: impl Iterator<Item = (&'static str, u32)>) -> u32 {
    let mut distinct: Vec<_> = words.collect();
    if distinct
        .iter()
        .filter(|(_, bits)| bits & ENGLISH == 0)
        .count()
        < LEAST_WORDS
    {
        return 0;
    }
    distinct.sort_unstable();
    distinct.dedup();
    // Those of English, those that a language shares with it, and those that a language does not.
    let (mut english, mut shared, mut own) = (0, [0; LANGUAGES.len()], [0; LANGUAGES.len()]);
    for (_, bits) in distinct {
        let is_english = bits & ENGLISH != 0;
        english += usize::from(is_english);
        let counts = if is_english { &mut shared } else { &mut own };
        let counted = |bit: &usize| bits & ENGLISH_TOO == 0 && bits >> bit & 1 == 1;
        (0..LANGUAGES.len())
            .filter(counted)
            .for_each(|bit| counts[bit] += 1);
    }
    let likely = |&bit: &usize| own[bit] >= LEAST_WORDS && own[bit] + shared[bit] > english;
    (0..LANGUAGES.len())
        .filter(likely)
        .map(|bit| 1 << bit)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of `text` that carry an intent.
    fn telling(text: &str) -> Vec<&str> {
        let words = || text.split_whitespace();
        let listed: Vec<_> = words().map(|word| (Listed::of(word), true)).collect();
        let function_words = function_words(&listed);
        words()
            .zip(function_words)
            .filter(|(_, is_function_word)| !is_function_word)
            .map(|(word, _)| word)
            .collect()
    }

    #[test]
    fn function_words_of_any_language_tell_nothing() {
        for (text, words) in [
            ("el tiempo de Madrid", vec!["tiempo", "Madrid"]),
            (
                "Der Bericht und die Rechnung für den Kunden",
                vec!["Bericht", "Rechnung", "Kunden"],
            ),
            (
                "envoie son rapport à une collègue",
                vec!["envoie", "rapport", "collègue"],
            ),
            (
                "il tempo a Roma e come vestirsi per la sera",
                vec!["tempo", "Roma", "vestirsi", "sera"],
            ),
            ("какая погода в Москве", vec!["погода", "Москве"]),
            (
                "flights to Rio de Janeiro",
                vec!["flights", "Rio", "Janeiro"],
            ),
        ] {
            assert_eq!(telling(text), words, "{text}");
        }
    }

    #[test]
    fn english_words_tell_what_they_mean_in_english() {
        for text in [
            "car rental",
            "hotel sale",
            "AI image",
            "open door",
            "sea level",
            "list pet names",
            "OS version",
        ] {
            assert_eq!(telling(text).len(), text.split(' ').count(), "{text}");
        }
        assert_eq!(
            telling("find the car that my son wants to buy"),
            ["find", "car", "son", "buy"]
        );
    }
}
