//! The file format of a static model.
//!
//! All numbers are little-endian. The parts, in order:
//!
//! - magic: `PTSTATIC`
//! - six u32: version, dimensions, number of English pieces, number of English pieces with a second
//!   row, number of pieces of other languages, length of the vocabulary in bytes
//! - scales: one f32 for each row
//! - rows: i8 values
//! - language hints: one byte for each piece
//! - scope: step and intercept as f32, and a weight of i8 for each English piece
//! - vocabulary: the pieces, separated by line feeds
//! - SHA-256 of all of the above
//!
//! The first English pieces have a second row, for tools. The order of the rows is: English pieces,
//! second rows, pieces of other languages. A row times its scale is the vector of the piece; the
//! weight of a piece in a text is part of the vector.

use sha2::{Digest, Sha256};

const MAGIC: &[u8; 8] = b"PTSTATIC";
const VERSION: u32 = 3;
const NUMBERS: usize = 6;
const HEADER_BYTES: usize = MAGIC.len() + 4 * NUMBERS;
const DIGEST_BYTES: usize = 32;
pub(super) const DAMAGED: &str = "the file is damaged or not a static model";

/// The language that a complete word indicates for its text; one byte in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LanguageHint {
    /// No language.
    Neither,
    /// English: the word is much more frequent in English.
    English,
    /// Another language: the word is much more frequent in that language.
    Other,
}

impl LanguageHint {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Neither, Self::English, Self::Other]
            .get(usize::from(byte))
            .copied()
    }
}

/// The weights of a linear model that decides if tools serve an English request at all.
pub(super) struct ScopeWeights<'a> {
    /// The weight of each English piece, in steps.
    pub(super) weights: &'a [u8],
    /// The value of one step.
    pub(super) step: f32,
    pub(super) intercept: f32,
}

/// The parts of a model's file, with consistent lengths.
pub(super) struct StaticModelFile<'a> {
    pub(super) dimensions: usize,
    /// The number of English pieces, which come first.
    pub(super) english: usize,
    /// The number of English pieces with a second row, which come first among these.
    pub(super) second: usize,
    pub(super) scales: Vec<f32>,
    /// Shape: (english + second + others) × dimensions.
    pub(super) rows: &'a [u8],
    /// The hint of each piece.
    pub(super) hints: Vec<LanguageHint>,
    pub(super) scope: ScopeWeights<'a>,
    /// The pieces in the order of their rows, separated by line feeds: English pieces, and pieces
    /// of other languages.
    pub(super) pieces: [&'a str; 2],
    pub(super) digest: &'a [u8],
}

impl<'a> StaticModelFile<'a> {
    /// Parses a file, and verifies its digest and its lengths.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let is_intact = |body: &[u8], digest: &[u8]| Sha256::digest(body).as_slice() == digest;
        if !bytes
            .split_last_chunk::<DIGEST_BYTES>()
            .is_some_and(|(body, digest)| is_intact(body, digest))
        {
            return Err(DAMAGED.to_owned());
        }
        Self::parse_built_in(bytes)
    }

    /// Parses a file without verifying its digest, because the file is part of the binary.
    pub(super) fn parse_built_in(bytes: &'a [u8]) -> Result<Self, String> {
        let parts = bytes.split_at_checked(bytes.len().saturating_sub(DIGEST_BYTES));
        let has_header = |body: &[u8]| {
            body.first_chunk::<HEADER_BYTES>()
                .is_some_and(|header| header.starts_with(MAGIC))
        };
        let (body, digest) = parts.filter(|(body, _)| has_header(body)).ok_or(DAMAGED)?;
        let numbers = &body[MAGIC.len()..HEADER_BYTES];
        let number =
            |index: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| numbers[4 * index + byte]));
        if number(0) != VERSION {
            return Err(format!(
                "unsupported version {}; expected {VERSION}",
                number(0)
            ));
        }
        let sizes = [1, 2, 3, 4, 5].map(|index| number(index) as usize);
        Self::split_body(sizes, &body[HEADER_BYTES..], digest).ok_or_else(|| DAMAGED.to_owned())
    }

    fn split_body(sizes: [usize; 5], rest: &'a [u8], digest: &'a [u8]) -> Option<Self> {
        let [dimensions, english, second, others, vocabulary] = sizes;
        let pieces = english.checked_add(others)?;
        let count = pieces
            .checked_add(second)
            .filter(|_| second <= english && dimensions > 0)?;
        let (scales, rest) = rest.split_at_checked(count.checked_mul(4)?)?;
        let scales: Vec<f32> = scales
            .as_chunks()
            .0
            .iter()
            .map(|scale| f32::from_le_bytes(*scale))
            .collect();
        let (rows, rest) = rest.split_at_checked(count.checked_mul(dimensions)?)?;
        let (hints, rest) = rest.split_at_checked(pieces)?;
        let (numbers, rest) = rest.split_first_chunk::<8>()?;
        let [step, intercept] = [0, 4]
            .map(|offset| f32::from_le_bytes([0, 1, 2, 3].map(|byte| numbers[offset + byte])));
        let (weights, words) = rest.split_at_checked(english)?;
        let words = std::str::from_utf8(words)
            .ok()
            .filter(|words| words.len() == vocabulary)?;
        let word_count = if words.is_empty() {
            0
        } else {
            1 + words.bytes().filter(|&byte| byte == b'\n').count()
        };
        let hints = hints
            .iter()
            .map(|&hint| LanguageHint::from_byte(hint))
            .collect::<Option<Vec<LanguageHint>>>()?;
        let is_valid = word_count == pieces
            && scales
                .iter()
                .chain([&step, &intercept])
                .all(|number| number.is_finite());
        is_valid.then_some(Self {
            dimensions,
            english,
            second,
            scales,
            rows,
            hints,
            scope: ScopeWeights {
                weights,
                step,
                intercept,
            },
            pieces: split_lines(words, english),
            digest,
        })
    }
}

/// Splits lines into the first few and the others.
fn split_lines(lines: &str, first: usize) -> [&str; 2] {
    let Some(last) = first.checked_sub(1) else {
        return ["", lines];
    };
    let end = lines
        .bytes()
        .enumerate()
        .filter(|&(_, byte)| byte == b'\n')
        .nth(last);
    end.map_or([lines, ""], |(end, _)| [&lines[..end], &lines[end + 1..]])
}

#[cfg(all(test, feature = "static-model"))]
mod tests {
    use super::*;

    #[test]
    fn inconsistent_lengths_are_rejected() {
        let built_in = picktools_models::STATIC_MODEL;
        assert!(StaticModelFile::parse(built_in).is_ok());
        let invalid_numbers = [
            (12, 0),
            (12, u32::MAX),
            (16, u32::MAX),
            (16, 1),
            (20, 1),
            (20, u32::MAX),
            (24, 1),
            (24, u32::MAX),
        ];
        for (offset, value) in
            invalid_numbers
                .into_iter()
                .chain([(28, u32::MAX), (28, 1), (8, 2), (8, 4)])
        {
            let mut bytes = built_in[..built_in.len() - DIGEST_BYTES].to_vec();
            bytes[offset..offset + 4].copy_from_slice(&u32::to_le_bytes(value));
            let digest = Sha256::digest(&bytes);
            bytes.extend(digest);
            assert!(StaticModelFile::parse(&bytes).is_err(), "{offset}: {value}");
        }
    }

    #[test]
    fn damaged_or_foreign_files_are_rejected() {
        let built_in = picktools_models::STATIC_MODEL;
        for end in [0, 8, HEADER_BYTES, built_in.len() / 2, built_in.len() - 1] {
            assert!(
                StaticModelFile::parse(&built_in[..end]).is_err_and(|reason| reason == DAMAGED),
                "{end}"
            );
        }
        for offset in [
            0,
            9,
            40,
            built_in.len() / 2,
            built_in.len() - 40,
            built_in.len() - 1,
        ] {
            let mut bytes = built_in.to_vec();
            bytes[offset] ^= 1;
            assert!(StaticModelFile::parse(&bytes).is_err(), "{offset}");
        }
    }
}
