//! What text costs in tokens.

use std::sync::LazyLock;

use super::byte_pairs::BytePairs;

/// How each vocabulary splits a text, as `tiktoken` has it: blanks before a word (`\s+(?!\S)`) are
/// [`BytePairs`]' own.
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
/// Read when the first text is counted, each by itself.
static O200K: LazyLock<BytePairs> =
    LazyLock::new(|| BytePairs::new(picktools_models::O200K_BASE, &O200K_PARTS));
static CL100K: LazyLock<BytePairs> =
    LazyLock::new(|| BytePairs::new(picktools_models::CL100K_BASE, &CL100K_PARTS));

/// A tokenizer of OpenAI's models.
///
/// Other providers do not publish theirs; a count with one of these is a fair measure for comparing
/// definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tokenizer {
    /// `o200k_base`: GPT-4o and all models since.
    #[serde(rename = "o200k_base")]
    O200k,
    /// `cl100k_base`: GPT-4 and GPT-3.5.
    #[serde(rename = "cl100k_base")]
    Cl100k,
}

impl Tokenizer {
    /// Counts the tokens of a text, in which no special tokens are read.
    ///
    /// # Complexity
    ///
    /// O(n log n) in the length of the text, whatever the text.
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
    fn counts_are_those_of_the_published_tokenizers() {
        // As OpenAI's cookbook prints them, "How to count tokens with tiktoken".
        for (text, o200k, cl100k) in [
            ("", 0, 0),
            ("hello world", 2, 2),
            ("antidisestablishmentarianism", 6, 6),
            ("2 + 2 = 4", 7, 7),
            ("お誕生日おめでとう", 8, 9),
            // As the crate bpe-openai 0.3.2 counts them, which agreed on a million texts.
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
    fn hostile_text_is_counted_in_no_more_than_n_log_n() {
        for unit in ["a", " ", "\n", "aA", "é", " \n", "🚀", "'s", "  x"] {
            let text = unit.repeat(200_000);
            let started = std::time::Instant::now();
            assert!(Tokenizer::O200k.count(&text) > 0);
            // A tenth of a second where it is not quadratic; many minutes where it is quadratic.
            assert!(started.elapsed().as_secs() < 30, "{unit:?}");
        }
    }
}
