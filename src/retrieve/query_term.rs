//! A term of a request, and the text as which its word is read.

use serde::Serialize;

use crate::index::TermKey;
use crate::query::MAX_SENTENCES;
use crate::text::{TermKind, ValueKind};

const _: () = assert!(MAX_SENTENCES <= u32::BITS as usize, "a sentence has a bit");

/// The reason why a word of a request is read as another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AlternativeKind {
    /// The word is misspelt.
    Typo,
    /// The word is an abbreviation.
    Abbreviation,
    /// The word is another form of the same word.
    Form,
    /// The word is a compound that contains the other word.
    Compound,
}

/// A text as which a word of a request is read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WordAlternative {
    pub(crate) kind: AlternativeKind,
    pub(crate) text: String,
    /// The weight relative to a word that is read as itself.
    pub(super) weight: f32,
}

/// One term of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryTerm<'q> {
    /// The term's key in the index.
    pub key: TermKey,
    pub kind: TermKind,
    /// The kind of value that the term stands for.
    pub(crate) value: Option<ValueKind>,
    /// The word, identifier, pair or value in its original spelling, truncated if it is long.
    pub(crate) word: &'q str,
    /// The weight, 0..1: less than 1 within a value.
    pub weight: f32,
    /// `true` for a word in a text that may be a name, or a part of another word or number.
    pub(super) is_name: bool,
    /// `true` for the file type at the end of a file name.
    pub(super) is_file_type: bool,
    /// The text as which the word is read, if the term is not that of the word itself.
    pub(crate) alternative: Option<Box<WordAlternative>>,
    /// The sentences that contain the term, one bit each.
    pub(super) sentences: u32,
}

impl QueryTerm<'_> {
    /// Returns the numbers of the sentences that contain the term, in order.
    pub(crate) fn sentences(&self) -> impl Iterator<Item = usize> + use<> {
        let bits = self.sentences;
        (0..u32::BITS as usize).filter(move |sentence| bits >> sentence & 1 == 1)
    }

    /// Returns the number of the first sentence that contains the term.
    pub(super) fn first_sentence(&self) -> usize {
        self.sentences.trailing_zeros() as usize
    }

    /// Returns `true` if the sentence contains the term.
    pub(super) fn is_in(&self, sentence: usize) -> bool {
        self.sentences >> sentence & 1 == 1
    }
}
