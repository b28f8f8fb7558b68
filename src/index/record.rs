//! The record of a tool: everything that one tool contributes to an index.
//!
//! An index is made of records, whether it is built, updated or read from a store. A record does
//! not depend on other tools, so it is reused while the definition is unchanged.

use sha2::{Digest as _, Sha256};

use super::occurrences::occurrences;
use super::postings::{FieldSet, ToolTerm, ToolTerms, sum_up};
use super::rows::Rows;
use super::terms::{decode_terms, encode_terms};
use crate::catalog::Tool;
use crate::catalog::spelling::normalise;
use crate::saved::{ByteReader, DamagedBytes, put_length, put_number};
use crate::text::Analyzer;

/// The version of the encoding of records and of text analysis.
pub(super) const VERSION: u8 = 3;

/// The expected number of occurrences of terms in a tool.
const OCCURRENCES: usize = 256;
/// The fewest words with which a description identifies a tool, whatever its source.
const MIN_IDENTIFYING_WORDS: usize = 5;

/// The data of one tool in an index.
pub(super) struct ToolRecord {
    /// The distinct terms, ascending.
    terms: Box<[ToolTerm]>,
    /// The length of the tool, in units of the field weights.
    length: u32,
    /// `None` if the description is too short.
    fingerprint: Option<DefinitionFingerprint>,
    /// The unit vector by each model, as a matrix of one row.
    vectors: Vec<Rows>,
}

impl ToolRecord {
    /// Analyses a tool. The record has no vectors.
    pub(super) fn analyze(tool: &Tool, analyzer: &mut Analyzer) -> Self {
        let mut terms = Vec::with_capacity(OCCURRENCES);
        let length = occurrences(tool, analyzer, |key, repeats, field| {
            terms.push(ToolTerm {
                key,
                frequency: u16::from(repeats),
                fields: FieldSet::one(field),
            });
        });
        sum_up(&mut terms);
        Self {
            terms: terms.into_boxed_slice(),
            length,
            fingerprint: definition_fingerprint(tool),
            vectors: Vec::new(),
        }
    }

    pub(super) fn with_vectors(self, vectors: Vec<Rows>) -> Self {
        Self { vectors, ..self }
    }

    pub(super) fn terms(&self) -> ToolTerms<'_> {
        ToolTerms {
            terms: &self.terms,
            length: self.length,
        }
    }

    pub(super) fn fingerprint(&self) -> Option<DefinitionFingerprint> {
        self.fingerprint
    }

    pub(super) fn vectors(&self) -> &[Rows] {
        &self.vectors
    }

    /// Appends the record to the bytes of a row.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.length);
        encode_terms(out, self.terms.iter().map(|term| term.key));
        for term in &self.terms {
            put_number(out, term.frequency);
        }
        for term in &self.terms {
            put_number(out, term.fields.bits());
        }
        put_number(out, self.fingerprint.unwrap_or_default());
        encode_vectors(out, &self.vectors);
    }

    /// Reads a record with vectors by `models`, each with its dimensions.
    pub(super) fn decode(
        reader: &mut ByteReader<'_>,
        models: &[(String, usize)],
    ) -> Result<Self, DamagedBytes> {
        let length = reader.number()?;
        let keys = decode_terms(reader)?;
        let frequencies: Vec<u16> = reader.numbers(keys.len())?;
        let fields = reader.take(keys.len())?;
        if fields.contains(&0) {
            return Err(DamagedBytes::new("a term without a field"));
        }
        let mut terms = Vec::with_capacity(keys.len());
        for ((key, frequency), &fields) in keys.into_iter().zip(frequencies).zip(fields) {
            terms.push(ToolTerm {
                key,
                frequency,
                fields: FieldSet::from_bits(fields),
            });
        }
        Ok(Self {
            terms: terms.into_boxed_slice(),
            length,
            fingerprint: stored_fingerprint(reader.number()?),
            vectors: decode_vectors(reader, models, 1)?,
        })
    }
}

/// Appends matrices of vectors, one per model.
pub(super) fn encode_vectors(out: &mut Vec<u8>, by_model: &[Rows]) {
    put_length(out, by_model.len());
    by_model.iter().for_each(|rows| rows.encode(out));
}

/// Reads `count` vectors by each of `models`.
pub(super) fn decode_vectors(
    reader: &mut ByteReader<'_>,
    models: &[(String, usize)],
    count: usize,
) -> Result<Vec<Rows>, DamagedBytes> {
    check_models(reader, models)?;
    let mut by_model = Vec::with_capacity(models.len());
    for &(_, dimensions) in models {
        let rows = Rows::decode(reader, dimensions)?;
        if rows.len() != count {
            return Err(DamagedBytes::new("wrong number of vectors"));
        }
        by_model.push(rows);
    }
    Ok(by_model)
}

/// Reads the number of models, and checks it.
pub(super) fn check_models(
    reader: &mut ByteReader<'_>,
    models: &[(String, usize)],
) -> Result<(), DamagedBytes> {
    if reader.length(0)? == models.len() {
        Ok(())
    } else {
        Err(DamagedBytes::new("vectors of other models"))
    }
}

/// Verifies the checksum and the version of a row, and starts to read it.
pub(super) fn open_row(bytes: &[u8]) -> Result<ByteReader<'_>, DamagedBytes> {
    let mut reader = ByteReader::verify(bytes)?;
    match reader.number::<u8>()? {
        VERSION => Ok(reader),
        other => {
            let reason = format!("version {other} instead of {VERSION}");
            Err(DamagedBytes::new(reason))
        }
    }
}

/// A digest of the parts of a definition that a model sees.
pub(super) type DefinitionFingerprint = [u8; 32];

/// Returns a fingerprint from its stored form, in which zeros mark a missing one.
pub(super) fn stored_fingerprint(bytes: DefinitionFingerprint) -> Option<DefinitionFingerprint> {
    (bytes != DefinitionFingerprint::default()).then_some(bytes)
}

/// Returns the definition fingerprint of a tool; `None` if the description is too short.
fn definition_fingerprint(tool: &Tool) -> Option<DefinitionFingerprint> {
    let words = tool.description.split_whitespace();
    if words.clone().take(MIN_IDENTIFYING_WORDS).count() < MIN_IDENTIFYING_WORDS {
        return None;
    }
    let name = normalise(&tool.name);
    let source = tool.source.as_deref().map(normalise).unwrap_or_default();
    let name = name
        .strip_prefix(source.as_str())
        .filter(|rest| !rest.is_empty())
        .unwrap_or(&name);
    let mut digest = Sha256::new();
    digest.update(name);
    for word in words {
        digest.update(" ");
        digest.update(word.to_lowercase());
    }
    digest.update("\n");
    if let Some(parameters) = &tool.parameters {
        digest.update(parameters.to_string());
    }
    Some(digest.finalize().into())
}
