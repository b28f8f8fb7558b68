//! Words that carry no intent of their own: the function words of English and of asking, and those of other languages
//! (NLTK's lists, by the crate stop-words).
//!
//! Some function words of other languages are English words too: a `son` is no *his*, and to `die` no article. They count
//! where the request is in that language: where it has two others of that language, and more than of English.

use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt, HashSet};
use stop_words::Language;

/// English function words and the words of asking.
static ENGLISH: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    include_str!("function_words/english.txt").lines().filter(|line| !line.starts_with('#')).collect()
});

/// Function words of other languages that are English words too.
static ENGLISH_TOO: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("function_words/english_too.txt").lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).collect()
});

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

const _: () = assert!(LANGUAGES.len() <= u32::BITS as usize, "a language has a bit");

/// The function words of other languages, each with a bit for each of its languages.
static FOREIGN: LazyLock<HashMap<&str, u32>> = LazyLock::new(|| {
    let mut words = HashMap::new();
    for (bit, language) in LANGUAGES.iter().enumerate() {
        for word in stop_words::lookup(language).into_iter().flatten() {
            *words.entry(*word).or_insert(0) |= 1 << bit;
        }
    }
    words
});

/// The least distinct function words by which a text is in a language other than English.
const LEAST_WORDS: usize = 2;

/// Returns `true` if a word, whatever its case, carries no intent of its own in any text.
pub(crate) fn is_stop_word(word: &str) -> bool {
    FunctionWords::default().contains(word)
}

/// Returns `true` if a text has a word that carries an intent.
pub(crate) fn says_something(text: &str) -> bool {
    let words = || text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let function_words = FunctionWords::of(words());
    words().any(|word| !function_words.contains(word))
}

/// The function words of a text, which depend on its language.
#[derive(Default)]
pub(crate) struct FunctionWords {
    /// A bit for each language, other than English, that the text may be in.
    languages: u32,
}

impl FunctionWords {
    /// Finds out about the languages of a text of these words.
    pub(crate) fn of<'t>(words: impl Iterator<Item = &'t str>) -> Self {
        let distinct: HashSet<String> = words.map(str::to_lowercase).collect();
        // Those of English, those that a language shares with it, and those that a language does not.
        let (mut english, mut shared, mut own) = (0, [0; LANGUAGES.len()], [0; LANGUAGES.len()]);
        for word in distinct.iter().map(String::as_str) {
            let is_english = ENGLISH.contains(word);
            english += usize::from(is_english);
            let languages = FOREIGN.get(word).filter(|_| !ENGLISH_TOO.contains(word)).copied().unwrap_or_default();
            let counts = if is_english { &mut shared } else { &mut own };
            (0..LANGUAGES.len()).filter(|bit| languages >> bit & 1 == 1).for_each(|bit| counts[bit] += 1);
        }
        let likely = |&bit: &usize| own[bit] >= LEAST_WORDS && own[bit] + shared[bit] > english;
        let languages = (0..LANGUAGES.len()).filter(likely).map(|bit| 1 << bit).sum();
        Self { languages }
    }

    /// Returns `true` if a word of the text, whatever its case, carries no intent of its own.
    pub(crate) fn contains(&self, word: &str) -> bool {
        if word.contains(char::is_uppercase) { self.has(&word.to_lowercase()) } else { self.has(word) }
    }

    fn has(&self, word: &str) -> bool {
        ENGLISH.contains(word)
            || FOREIGN.get(word).is_some_and(|languages| languages & self.languages != 0 || !ENGLISH_TOO.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of `text` that carry an intent.
    fn telling(text: &str) -> Vec<&str> {
        let words = || text.split_whitespace();
        let function_words = FunctionWords::of(words());
        words().filter(|word| !function_words.contains(word)).collect()
    }

    #[test]
    fn function_words_of_any_language_tell_nothing() {
        for (text, words) in [
            ("el tiempo de Madrid", vec!["tiempo", "Madrid"]),
            ("Der Bericht und die Rechnung für den Kunden", vec!["Bericht", "Rechnung", "Kunden"]),
            ("envoie son rapport à une collègue", vec!["envoie", "rapport", "collègue"]),
            ("il tempo a Roma e come vestirsi per la sera", vec!["tempo", "Roma", "vestirsi", "sera"]),
            ("какая погода в Москве", vec!["погода", "Москве"]),
            ("flights to Rio de Janeiro", vec!["flights", "Rio", "Janeiro"]),
        ] {
            assert_eq!(telling(text), words, "{text}");
        }
    }

    #[test]
    fn english_words_tell_what_they_mean_in_english() {
        for text in ["car rental", "hotel sale", "AI image", "open door", "sea level", "list pet names", "OS version"] {
            assert_eq!(telling(text).len(), text.split(' ').count(), "{text}");
        }
        assert_eq!(telling("find the car that my son wants to buy"), ["find", "car", "son", "buy"]);
    }
}
