//! The row of a source: the words and the vectors that its tools contribute together.

use super::record::{VERSION, check_models, open_row};
use super::terms::{TermKey, decode_terms, encode_terms};
use crate::saved::{DamagedBytes, put_length, put_numbers, seal};

/// The document of one source: its terms and the sum of its tools' vectors.
#[derive(Debug, Clone)]
pub struct SourceRow {
    /// The distinct terms, ascending.
    terms: Vec<TermKey>,
    /// The count of each term: the number of tools that contain it, plus one for each time that it
    /// occurs in the source name.
    counts: Vec<u16>,
    /// The length of the source: the sum of `counts`.
    length: u32,
    /// The sum of its tools' vectors, by each model.
    vectors: Vec<Vec<f32>>,
    /// The number of its tools.
    tool_count: usize,
}

impl SourceRow {
    /// Takes the distinct terms of a source in ascending order, each with its count.
    pub(super) fn new(
        terms: Vec<TermKey>,
        counts: Vec<u16>,
        vectors: Vec<Vec<f32>>,
        tool_count: usize,
    ) -> Self {
        // The counts may come from a store and be wrong, so the sum must not overflow.
        let mut length = 0_u32;
        for &count in &counts {
            length = length.saturating_add(u32::from(count));
        }
        Self {
            terms,
            counts,
            length,
            vectors,
            tool_count,
        }
    }

    /// Returns the length of the source.
    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// Returns the sum of its tools' vectors by a model.
    pub(super) fn vector(&self, model: usize) -> &[f32] {
        &self.vectors[model]
    }

    pub(super) fn tools(&self) -> usize {
        self.tool_count
    }

    /// Returns the hashes of its terms.
    pub fn term_hashes(&self) -> impl Iterator<Item = u64> {
        self.terms.iter().map(|term| term.0)
    }

    /// Returns the count of a term; `None` if the source does not contain it.
    pub(super) fn count(&self, term: TermKey) -> Option<u16> {
        let index = self.terms.binary_search(&term).ok()?;
        Some(self.counts[index])
    }

    /// Serialises the row.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        encode_terms(&mut out, self.terms.iter().copied());
        put_numbers(&mut out, &self.counts);
        put_length(&mut out, self.tool_count);
        put_length(&mut out, self.vectors.len());
        for vector in &self.vectors {
            put_numbers(&mut out, vector);
        }
        seal(out)
    }

    /// Reads a source row with vectors by `models`, each with its dimensions.
    pub fn from_bytes(bytes: &[u8], models: &[(String, usize)]) -> Result<Self, DamagedBytes> {
        let mut reader = open_row(bytes)?;
        let terms = decode_terms(&mut reader)?;
        let counts = reader.numbers(terms.len())?;
        let tools = reader.length(0)?;
        check_models(&mut reader, models)?;
        let mut vectors = Vec::with_capacity(models.len());
        for &(_, dimensions) in models {
            vectors.push(reader.numbers(dimensions)?);
        }
        reader.end()?;
        if !vectors.iter().all(|vector| is_sum(vector, tools)) {
            let reason = "a vector that is not a sum of unit vectors";
            return Err(DamagedBytes::new(reason));
        }
        Ok(Self::new(terms, counts, vectors, tools))
    }
}

/// Returns `true` if a vector can be the sum of `vectors` unit vectors, or their mean if that is 1.
pub(super) fn is_sum(vector: &[f32], vectors: usize) -> bool {
    // A rounded unit vector is a little longer than 1.
    vector
        .iter()
        .all(|value| value.abs() <= 1.01 * vectors as f32)
}
