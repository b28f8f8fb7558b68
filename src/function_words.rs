//! Words that carry no intent of their own: the function words of English and of asking, and those of other languages
//! (NLTK's lists, by the crate stop-words).
//!
//! Some function words of other languages are English words too: a `son` is no *his*, and to `die` no article. They count
//! where the request is in that language: where it has two others of that language, and more than of English.

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

/// A bit of what is known of a word, beside those of the languages: English has it as a function word, or asks with it.
const ENGLISH: u32 = 1 << 31;
/// English has it as a word of another kind.
const ENGLISH_TOO: u32 = 1 << 30;

const _: () = assert!(LANGUAGES.len() <= 30, "a language has a bit");

/// The function words, each with its bits.
static WORDS: LazyLock<HashMap<&str, u32>> = LazyLock::new(|| {
    let mut words = HashMap::new();
    let mut add = |word, bit: u32| *words.entry(word).or_insert(0) |= bit;
    let of_file =
        |text: &'static str| text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    of_file(include_str!("function_words/english.txt")).for_each(|word| add(word, ENGLISH));
    of_file(include_str!("function_words/english_too.txt")).for_each(|word| add(word, ENGLISH_TOO));
    for (bit, language) in LANGUAGES.iter().enumerate() {
        stop_words::lookup(language).into_iter().flatten().for_each(|word| add(word, 1 << bit));
    }
    words
});

/// Looks a word up, whatever its case.
fn look_up(word: &str) -> Option<(&'static str, u32)> {
    let found = if word.contains(char::is_uppercase) {
        WORDS.get_key_value(word.to_lowercase().as_str())
    } else {
        WORDS.get_key_value(word)
    };
    found.map(|(&word, &bits)| (word, bits))
}

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
        let mut distinct: Vec<(&str, u32)> = words.filter_map(look_up).collect();
        distinct.sort_unstable();
        distinct.dedup();
        // Those of English, those that a language shares with it, and those that a language does not.
        let (mut english, mut shared, mut own) = (0, [0; LANGUAGES.len()], [0; LANGUAGES.len()]);
        for (_, bits) in distinct {
            let is_english = bits & ENGLISH != 0;
            english += usize::from(is_english);
            let counts = if is_english { &mut shared } else { &mut own };
            let counted = |bit: &usize| bits & ENGLISH_TOO == 0 && bits >> bit & 1 == 1;
            (0..LANGUAGES.len()).filter(counted).for_each(|bit| counts[bit] += 1);
        }
        let likely = |&bit: &usize| own[bit] >= LEAST_WORDS && own[bit] + shared[bit] > english;
        let languages = (0..LANGUAGES.len()).filter(likely).map(|bit| 1 << bit).sum();
        Self { languages }
    }

    /// Returns `true` if a word of the text, whatever its case, carries no intent of its own.
    pub(crate) fn contains(&self, word: &str) -> bool {
        look_up(word).is_some_and(|(_, bits)| bits & (ENGLISH | self.languages) != 0 || bits & ENGLISH_TOO == 0)
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
