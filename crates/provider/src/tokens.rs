//! Token counts of texts.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroUsize;
use std::sync::{LazyLock, Mutex, PoisonError};

use lru::LruCache;
use serde_json::Value;

use super::byte_pairs::BytePairs;

/// The splitting rules of each vocabulary, from `tiktoken`. White space before a word (`\s+(?!\S)`)
/// is handled by [`BytePairs`].
const O200K_PARTS: [&str; 6] = [
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    r"\s+$",
];
const CL100K_PARTS: [&str; 6] = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+$",
];
/// The vocabularies, each loaded on first use.
static O200K: LazyLock<BytePairs> =
    LazyLock::new(|| BytePairs::new(picktools_models::O200K_BASE, &O200K_PARTS));
static CL100K: LazyLock<BytePairs> =
    LazyLock::new(|| BytePairs::new(picktools_models::CL100K_BASE, &CL100K_PARTS));

/// The number of definitions whose counts are cached. An entry takes about 60 bytes.
const MAX_CACHED: NonZeroUsize = NonZeroUsize::new(4_096).expect("it is not 0");
/// The length up to which the parts of a list are cached. A longer list would evict other counts.
pub(crate) const MAX_CACHED_LIST: usize = 256;
/// The token counts of parts of lists, by the hash of the tokenizer and the text.
static CACHED: LazyLock<PartCounts> = LazyLock::new(PartCounts::default);

/// A tokenizer of OpenAI models.
///
/// Other providers do not publish theirs. A count with one of these tokenizers still allows a fair
/// comparison of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tokenizer {
    /// `o200k_base`: GPT-4o and later models.
    #[serde(rename = "o200k_base")]
    O200k,
    /// `cl100k_base`: GPT-4 and GPT-3.5.
    #[serde(rename = "cl100k_base")]
    Cl100k,
}

impl Tokenizer {
    /// Counts the tokens of a text. Special tokens are not recognised.
    ///
    /// # Complexity
    ///
    /// O(n log n) in the length of the text, for any text.
    pub fn count(self, text: &str) -> usize {
        match self {
            Self::O200k => O200K.count(text),
            Self::Cl100k => CL100K.count(text),
        }
    }

    /// Counts the tokens of a list of JSON values as compact JSON. The counts of recent values are
    /// cached.
    ///
    /// The text is cut after each `{"` that begins a value, if a letter follows. No token crosses
    /// such a cut: both tokenizers keep a run of punctuation together, and begin another part at
    /// the letter. So the counts of the parts add up to the count of the complete text.
    pub(crate) fn count_list(self, values: &[Value]) -> usize {
        let (mut text, mut starts) = (String::from("["), vec![0]);
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            let value_start = text.len();
            write!(text, "{value}").expect("a text has no errors");
            let first_key = text[value_start..].strip_prefix("{\"");
            if first_key
                .is_some_and(|key| key.starts_with(|first: char| first.is_ascii_alphabetic()))
            {
                starts.push(value_start + 2);
            }
        }
        text.push(']');
        starts.push(text.len());
        starts
            .windows(2)
            .map(|part| CACHED.count(self, &text[part[0]..part[1]]))
            .sum()
    }
}

/// A cache of token counts.
struct PartCounts {
    hasher: RandomState,
    counts: Mutex<LruCache<u64, usize>>,
}

impl Default for PartCounts {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            counts: Mutex::new(LruCache::new(MAX_CACHED)),
        }
    }
}

impl PartCounts {
    fn count(&self, tokenizer: Tokenizer, text: &str) -> usize {
        let key = self.hasher.hash_one((tokenizer, text));
        let lock = || self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&count) = lock().get(&key) {
            return count;
        }
        // Counted without the lock, so that other threads do not wait.
        let count = tokenizer.count(text);
        lock().put(key, count);
        count
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_equal_those_of_the_published_tokenizers() {
        // From OpenAI's cookbook, "How to count tokens with tiktoken".
        for (text, o200k, cl100k) in [
            ("", 0, 0),
            ("hello world", 2, 2),
            ("antidisestablishmentarianism", 6, 6),
            ("2 + 2 = 4", 7, 7),
            ("お誕生日おめでとう", 8, 9),
            // From the crate bpe-openai 0.3.2, which agreed on a million texts.
            (
                r#"{"type":"object","properties":{"path":{"type":"string"}}}"#,
                14,
                14,
            ),
            ("  I've\n\n\tgot   2 'CAFÉ's  \r\n ", 13, 15),
            ("Straße 12345678, naïve ǅ", 12, 12),
            ("查询订单状态 😀👩\u{200d}👩\u{200d}👧", 12, 17),
            ("\u{a0}\u{2003} x", 3, 4),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 5, 5),
            ("getHTTPResponse_v2/list//", 7, 7),
        ] {
            assert_eq!(
                (Tokenizer::O200k.count(text), Tokenizer::Cl100k.count(text)),
                (o200k, cl100k),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn count_list_equals_the_count_of_the_text(
            keys in prop::collection::vec(("[a-z\"{'_ éÉ1]{0,4}", "[a-zA-Z\"'{},\\[\\] \n1é/_]{0,12}"), 0..6),
        ) {
            let values: Vec<Value> = keys.into_iter().map(|(key, text)| json!({key: text})).collect();
            for tokenizer in [Tokenizer::O200k, Tokenizer::Cl100k] {
                let expected = tokenizer.count(&Value::from(values.clone()).to_string());
                // The second time from the cache.
                prop_assert_eq!(tokenizer.count_list(&values), expected);
                prop_assert_eq!(tokenizer.count_list(&values), expected);
            }
        }
    }

    #[test]
    fn count_hostile_text_takes_n_log_n_steps() {
        for unit in ["a", " ", "\n", "aA", "é", " \n", "🚀", "'s", "  x"] {
            let text = unit.repeat(200_000);
            let started = std::time::Instant::now();
            assert!(Tokenizer::O200k.count(&text) > 0);
            // A tenth of a second if the time is not quadratic, and many minutes if it is.
            assert!(started.elapsed().as_secs() < 30, "{unit:?}");
        }
    }
}
