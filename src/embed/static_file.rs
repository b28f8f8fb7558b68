//! The file of a static model, taken apart.
//!
//! Little-endian throughout: `PTSTATIC`; as u32 the version, the dimensions, the number of English
//! pieces, how many of them, the first, have a second row, for tools, the number of pieces of other
//! languages, and the length of the vocabulary in bytes; one f32 scale a row; the rows of i8; one
//! byte a piece that says which language it speaks for; the scope: as f32 the step of its weights
//! and its intercept, and a weight of i8 for each English piece; the pieces, separated by line
//! feeds; and the SHA-256 of all of the above. Rows are those of the English pieces, the second
//! ones, and those of the other languages. A row times its scale is the piece's vector; the weight
//! of a piece in a text is part of it.

use sha2::{Digest, Sha256};

const MAGIC: &[u8; 8] = b"PTSTATIC";
const VERSION: u32 = 3;
const NUMBERS: usize = 6;
const HEADER_BYTES: usize = MAGIC.len() + 4 * NUMBERS;
const DIGEST_BYTES: usize = 32;
pub(super) const DAMAGED: &str = "the file is damaged, or no static model";

/// What a whole word says of the language of its text, a byte each in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lean {
    /// Nothing.
    Neither,
    /// It is much more frequent in English.
    English,
    /// It is much more frequent in another language.
    Other,
}

impl Lean {
    fn of(byte: u8) -> Option<Self> {
        [Self::Neither, Self::English, Self::Other]
            .get(usize::from(byte))
            .copied()
    }
}

/// What tells whether tools serve a request in English at all.
pub(super) struct Scope<'a> {
    /// Of each English piece, as whole numbers.
    pub(super) weights: &'a [u8],
    /// What one of those stands for.
    pub(super) step: f32,
    pub(super) intercept: f32,
}

/// The parts of a model's file; their lengths fit.
pub(super) struct Parts<'a> {
    pub(super) dimensions: usize,
    /// How many pieces, the first, are English, and how many of those have a second row.
    pub(super) english: usize,
    pub(super) second: usize,
    pub(super) scales: Vec<f32>,
    /// Shape: (english + second + others) × dimensions.
    pub(super) rows: &'a [u8],
    /// One of each piece.
    pub(super) leans: Vec<Lean>,
    pub(super) scope: Scope<'a>,
    /// The pieces in the order of their rows, separated by line feeds: those of English, and those
    /// of other languages.
    pub(super) pieces: [&'a str; 2],
    pub(super) digest: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Takes a file apart; its digest and its lengths fit.
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, String> {
        let sound = |body: &[u8], digest: &[u8]| Sha256::digest(body).as_slice() == digest;
        if !bytes
            .split_last_chunk::<DIGEST_BYTES>()
            .is_some_and(|(body, digest)| sound(body, digest))
        {
            return Err(DAMAGED.to_owned());
        }
        Self::of_program(bytes)
    }

    /// Takes a file apart whose digest need not be worked out, because it is part of the program.
    pub(super) fn of_program(bytes: &'a [u8]) -> Result<Self, String> {
        let found = bytes.split_at_checked(bytes.len().saturating_sub(DIGEST_BYTES));
        let header = |body: &[u8]| {
            body.first_chunk::<HEADER_BYTES>()
                .is_some_and(|header| header.starts_with(MAGIC))
        };
        let (body, digest) = found.filter(|(body, _)| header(body)).ok_or(DAMAGED)?;
        let numbers = &body[MAGIC.len()..HEADER_BYTES];
        let number =
            |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| numbers[4 * at + byte]));
        if number(0) != VERSION {
            return Err(format!("it has the version {}, not {VERSION}", number(0)));
        }
        let sizes = [1, 2, 3, 4, 5].map(|at| number(at) as usize);
        Self::divide(sizes, &body[HEADER_BYTES..], digest).ok_or_else(|| DAMAGED.to_owned())
    }

    fn divide(sizes: [usize; 5], rest: &'a [u8], digest: &'a [u8]) -> Option<Self> {
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
        let (leans, rest) = rest.split_at_checked(pieces)?;
        let (numbers, rest) = rest.split_first_chunk::<8>()?;
        let [step, intercept] =
            [0, 4].map(|at| f32::from_le_bytes([0, 1, 2, 3].map(|byte| numbers[at + byte])));
        let (weights, words) = rest.split_at_checked(english)?;
        let words = std::str::from_utf8(words)
            .ok()
            .filter(|words| words.len() == vocabulary)?;
        let names = if words.is_empty() {
            0
        } else {
            1 + words.bytes().filter(|&byte| byte == b'\n').count()
        };
        let leans = leans
            .iter()
            .map(|&lean| Lean::of(lean))
            .collect::<Option<Vec<Lean>>>()?;
        let sound = names == pieces
            && scales
                .iter()
                .chain([&step, &intercept])
                .all(|number| number.is_finite());
        sound.then_some(Self {
            dimensions,
            english,
            second,
            scales,
            rows,
            leans,
            scope: Scope {
                weights,
                step,
                intercept,
            },
            pieces: split(words, english),
            digest,
        })
    }
}

/// Splits lines into the first few and the others.
fn split(lines: &str, first: usize) -> [&str; 2] {
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
    fn lengths_that_do_not_fit_are_refused() {
        let built_in = picktools_models::STATIC_MODEL;
        assert!(Parts::of(built_in).is_ok());
        let many = [
            (12, 0),
            (12, u32::MAX),
            (16, u32::MAX),
            (16, 1),
            (20, 1),
            (20, u32::MAX),
            (24, 1),
            (24, u32::MAX),
        ];
        for (at, value) in many
            .into_iter()
            .chain([(28, u32::MAX), (28, 1), (8, 2), (8, 4)])
        {
            let mut bytes = built_in[..built_in.len() - DIGEST_BYTES].to_vec();
            bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            let digest = Sha256::digest(&bytes);
            bytes.extend(digest);
            assert!(Parts::of(&bytes).is_err(), "{at}: {value}");
        }
    }

    #[test]
    fn a_damaged_or_foreign_file_is_no_model() {
        let built_in = picktools_models::STATIC_MODEL;
        for end in [0, 8, HEADER_BYTES, built_in.len() / 2, built_in.len() - 1] {
            assert!(
                Parts::of(&built_in[..end]).is_err_and(|reason| reason == DAMAGED),
                "{end}"
            );
        }
        for at in [
            0,
            9,
            40,
            built_in.len() / 2,
            built_in.len() - 40,
            built_in.len() - 1,
        ] {
            let mut bytes = built_in.to_vec();
            bytes[at] ^= 1;
            assert!(Parts::of(&bytes).is_err(), "{at}");
        }
    }
}
