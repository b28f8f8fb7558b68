//! Token counts of texts.

use std::sync::LazyLock;

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
}

#[cfg(test)]
mod tests {
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
