//! Function words, which carry no intent: those of English, words of asking, and those of 20
//! other languages (NLTK's lists, from the crate stop-words).
//!
//! Some function words of other languages are also English content words: in an English request
//! `son` is not the French *his*, and `die` is not the German article. Such a word counts as a
//! function word only if the request is in that language. That is so if the request has at least
//! two other function words of the language, and more of them than of English.

use std::borrow::Cow;
use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt};
use stop_words::Language;

/// The languages other than English. Each has one bit, by its position.
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

/// The bit of words that are function words of English, or words of asking.
const ENGLISH: u32 = 1 << 31;
/// The bit of words that are also content words of English.
const ENGLISH_TOO: u32 = 1 << 30;

const _: () = assert!(LANGUAGES.len() <= 30, "each language has a bit");

/// The function words, each with its bits.
static WORDS: LazyLock<HashMap<&str, u32>> = LazyLock::new(|| {
    let mut words = HashMap::new();
    let mut add = |word, bit: u32| *words.entry(word).or_insert(0) |= bit;
    let mut add_list = |text: &'static str, bit: u32| {
        for line in text.lines() {
            if !line.starts_with('#') {
                line.split_whitespace().for_each(|word| add(word, bit));
            }
        }
    };
    add_list(include_str!("function_words/english.txt"), ENGLISH);
    add_list(include_str!("function_words/english_too.txt"), ENGLISH_TOO);
    for (bit, language) in LANGUAGES.iter().enumerate() {
        for word in stop_words::lookup(language).into_iter().flatten() {
            add(word, 1 << bit);
        }
    }
    words
});

/// Returns a word in lower case; borrowed if it already is lower-case ASCII.
pub(crate) fn lower_case(word: &str) -> Cow<'_, str> {
    if !word.is_ascii() {
        Cow::Owned(word.to_lowercase())
    } else if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(word.to_ascii_lowercase())
    } else {
        Cow::Borrowed(word)
    }
}

/// The entry of a word in the lists of function words, if it has one.
#[derive(Debug, Clone, Copy)]
pub struct FunctionWordEntry(Option<(&'static str, u32)>);

impl FunctionWordEntry {
    /// Looks up a word, ignoring case.
    pub(crate) fn look_up(word: &str) -> Self {
        Self(
            WORDS
                .get_key_value(&*lower_case(word))
                .map(|(&word, &bits)| (word, bits)),
        )
    }

    /// Returns `true` if the word is a function word in a text that may be in English or in these
    /// languages.
    fn is_function_word(self, languages: u32) -> bool {
        self.0
            .is_some_and(|(_, bits)| bits & (ENGLISH | languages) != 0 || bits & ENGLISH_TOO == 0)
    }
}

/// The fewest distinct function words that show that a text is in a language other than English.
const MIN_WORDS: usize = 2;

/// Returns `true` if a word, ignoring case, is a function word in every text.
pub(crate) fn is_stop_word(word: &str) -> bool {
    FunctionWordEntry::look_up(word).is_function_word(0)
}

/// Returns `true` if a text has a content word: a word that is not a function word.
pub fn has_content_word(text: &str) -> bool {
    let mut entries = Vec::new();
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        if word.is_empty() {
            continue;
        }
        let entry = FunctionWordEntry::look_up(word);
        // A word that is in no list is a content word in every language.
        if entry.0.is_none() {
            return true;
        }
        entries.push((entry, true));
    }
    function_words(&entries).contains(&false)
}

/// Returns for each word of a text if it is a function word.
///
/// The result depends on the language of the text. Only words with `true` count as evidence for the
/// language.
pub(crate) fn function_words(words: &[(FunctionWordEntry, bool)]) -> Vec<bool> {
    function_words_and_languages(words).0
}

/// Returns the same as [`function_words`], and the languages of the text.
pub(crate) fn function_words_and_languages(
    words: &[(FunctionWordEntry, bool)],
) -> (Vec<bool>, TextLanguages) {
    let mut evidence = Vec::new();
    for (entry, is_evidence) in words {
        if *is_evidence {
            evidence.extend(entry.0);
        }
    }
    let has_english = evidence.iter().any(|(_, bits)| bits & ENGLISH != 0);
    let others = detect_languages(evidence);
    let mut function_words = Vec::with_capacity(words.len());
    for (entry, _) in words {
        function_words.push(entry.is_function_word(others));
    }
    (
        function_words,
        TextLanguages {
            others,
            has_english,
        },
    )
}

/// The languages in which a text may be, by its function words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TextLanguages {
    /// The bits of the languages other than English.
    others: u32,
    /// `true` if the text has function words of English.
    has_english: bool,
}

impl TextLanguages {
    /// Returns `true` if the text is in another language than English.
    pub(crate) fn is_other(self) -> bool {
        self.others != 0
    }

    /// Returns `true` if the text has function words of English.
    pub(crate) fn has_english(self) -> bool {
        self.has_english
    }

    /// Returns `true` if nothing tells the language of the text.
    pub(crate) fn is_unknown(self) -> bool {
        self.others == 0 && !self.has_english
    }

    /// Returns `true` if the text may be in a language.
    pub(crate) fn may_be(self, language: Language) -> bool {
        let position = LANGUAGES.iter().position(|&other| other == language);
        self.is_unknown() || position.is_some_and(|bit| self.others >> bit & 1 == 1)
    }
}

/// Returns `true` if a misspelt word may be an English function word: both begin with the same
/// letter and differ by one edit.
pub(crate) fn resembles_function_word(word: &str) -> bool {
    static ENGLISH_WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let mut words = Vec::new();
        for (&word, &bits) in &*WORDS {
            if bits & ENGLISH != 0 && word.is_ascii() {
                words.push(word);
            }
        }
        words
    });
    ENGLISH_WORDS.iter().any(|other| {
        other.as_bytes()[0] == word.as_bytes()[0]
            && other.len().abs_diff(word.len()) <= 1
            && strsim::osa_distance(word, other) == 1
    })
}

/// Returns the bits of the languages, other than English, in which a text with these function words
/// may be.
fn detect_languages(mut words: Vec<(&'static str, u32)>) -> u32 {
    let other_words = words.iter().filter(|(_, bits)| bits & ENGLISH == 0);
    if other_words.count() < MIN_WORDS {
        return 0;
    }
    words.sort_unstable();
    words.dedup();
    // The words of English, and for each language those that it shares with English and those that
    // it does not.
    let mut english = 0;
    let mut shared = [0; LANGUAGES.len()];
    let mut unshared = [0; LANGUAGES.len()];
    for (_, bits) in words {
        let is_english = bits & ENGLISH != 0;
        english += usize::from(is_english);
        let counts = if is_english {
            &mut shared
        } else {
            &mut unshared
        };
        for (bit, count) in counts.iter_mut().enumerate() {
            let is_counted = bits & ENGLISH_TOO == 0 && bits >> bit & 1 == 1;
            *count += usize::from(is_counted);
        }
    }
    let mut languages = 0;
    for bit in 0..LANGUAGES.len() {
        if unshared[bit] >= MIN_WORDS && unshared[bit] + shared[bit] > english {
            languages |= 1 << bit;
        }
    }
    languages
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the content words of `text`.
    fn content_words(text: &str) -> Vec<&str> {
        let words = || text.split_whitespace();
        let entries: Vec<_> = words()
            .map(|word| (FunctionWordEntry::look_up(word), true))
            .collect();
        let function_words = function_words(&entries);
        words()
            .zip(function_words)
            .filter(|(_, is_function_word)| !is_function_word)
            .map(|(word, _)| word)
            .collect()
    }

    #[test]
    fn function_words_of_the_text_language_are_found() {
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
            assert_eq!(content_words(text), words, "{text}");
        }
    }

    #[test]
    fn english_content_words_stay_in_english_text() {
        for text in [
            "car rental",
            "hotel sale",
            "AI image",
            "open door",
            "sea level",
            "list pet names",
            "OS version",
        ] {
            assert_eq!(content_words(text).len(), text.split(' ').count(), "{text}");
        }
        assert_eq!(
            content_words("find the car that my son wants to buy"),
            ["find", "car", "son", "buy"]
        );
    }
}
