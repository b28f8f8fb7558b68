//! Rows: the data of one tool or one source in a store, as checksummed bytes.
//!
//! The row of a tool holds the content of a segment of that tool, and the definition. Everybody
//! with write access to a store can write tools. But reading arbitrary bytes gives an error, never
//! a panic.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::duplicates::{DefinitionFingerprint, definition_fingerprint};
use super::examples::definition_terms;
use super::occurrences::FieldSet;
use super::postings::Postings;
use super::rows::{MAX_DIMENSIONS, Rows};
use super::segment::Segment;
use super::sources::SourceRow;
use super::terms::TermKey;
use super::{ExampleIndex, Index};
use crate::catalog::{Digest, LazyTool, ShardTool, Tool};
use crate::examples::active_definition_examples;
use crate::ranking::ToolId;
use crate::text::Field;

/// The version of the row format and of text analysis.
const VERSION: u8 = 3;

const OTHER_MODELS: &str = "vectors of other models";

/// A row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DamagedRow(String);

fn definition_error(reason: impl fmt::Display) -> DamagedRow {
    DamagedRow(format!("definition: {reason}"))
}

pub(super) fn damaged_row(message: &str) -> DamagedRow {
    DamagedRow(message.to_owned())
}

/// The data of one tool of a snapshot.
pub struct Row {
    /// The definition, which is parsed on demand.
    pub tool: Arc<LazyTool>,
    pub(crate) digest: Digest,
    /// The position in the snapshot at the time of writing, which orders the tools.
    pub position: u32,
    /// `true` if the tool owns its bare name.
    pub(crate) has_bare_name: bool,
    /// The source that it shares with other tools; `None` for a single-tool source.
    pub source: Option<SourceKey>,
    /// The row keys of the trusted tools that this tool clones.
    pub originals: Vec<RowKey>,
    pub(super) segment: Arc<Segment>,
    /// The vectors of the examples in the definition that count, by each model; empty without
    /// examples.
    pub(super) examples: Vec<Rows>,
}

/// The key of a tool's row: a digest of all of its data except the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey(pub [u8; 16]);

/// The key of a source's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceKey(pub(crate) [u8; 16]);

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl SourceKey {
    /// Makes the key of a source. Trusted and untrusted tools of one source name form two sources.
    pub(crate) fn new(source: &str, untrusted: bool) -> Self {
        Self(digest_prefix(
            Sha256::new()
                .chain_update([u8::from(untrusted)])
                .chain_update(source),
        ))
    }
}

/// Returns the first 16 bytes of a digest, which suffice to identify it.
fn digest_prefix(digest: Sha256) -> [u8; 16] {
    let digest: Digest = digest.finalize().into();
    let mut prefix = [0; 16];
    prefix.copy_from_slice(&digest[..16]);
    prefix
}

/// The relations of a tool to the other tools of its catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolRelations {
    pub(crate) has_bare_name: bool,
    pub(crate) source: Option<SourceKey>,
    pub(crate) originals: Vec<RowKey>,
}

impl ToolRelations {
    /// Returns the row key of a tool with these relations. `models` are the models of the row's
    /// vectors.
    pub(crate) fn key(&self, definition: &Digest, models: &[String]) -> RowKey {
        let mut digest = Sha256::new();
        digest.update([
            VERSION,
            u8::from(self.has_bare_name),
            u8::from(self.source.is_some()),
        ]);
        digest.update(definition);
        digest.update(self.source.unwrap_or(SourceKey([0; 16])).0);
        self.originals
            .iter()
            .for_each(|original| digest.update(original.0));
        for model in models {
            digest.update((model.len() as u64).to_le_bytes());
            digest.update(model);
        }
        RowKey(digest_prefix(digest))
    }
}

impl Row {
    /// Collects the data of a tool from an index.
    pub fn collect(
        index: &Index,
        examples: Option<&ExampleIndex>,
        tool: ToolId,
        relations: ToolRelations,
    ) -> Self {
        let definition = Arc::clone(index.catalog.tool(tool));
        let mut vectors = Vec::with_capacity(index.vectors.len());
        for model_vectors in &index.vectors {
            vectors.push(model_vectors.copy_row(tool));
        }
        let mut example_vectors = Vec::new();
        if let Some(examples) = examples {
            example_vectors = examples.definition_vectors(tool);
        }
        let ToolRelations {
            has_bare_name,
            source,
            originals,
        } = relations;
        let (postings, fingerprints) = (
            Postings::build(std::slice::from_ref(&definition)),
            vec![definition_fingerprint(&definition)],
        );
        Self {
            digest: index.catalog.digests()[tool.index()],
            tool: Arc::new(definition.into()),
            position: tool.0,
            has_bare_name,
            source,
            originals,
            segment: Arc::new(Segment {
                postings,
                vectors,
                fingerprints,
            }),
            examples: example_vectors,
        }
    }

    /// Parses the rest of the definition.
    pub fn definition(&self) -> Result<&Arc<Tool>, DamagedRow> {
        self.tool.load().map_err(definition_error)
    }

    /// Returns the tool as a member of a shard.
    pub fn shard_tool(&self) -> ShardTool {
        ShardTool {
            tool: Arc::clone(&self.tool),
            digest: self.digest,
            has_bare_name: self.has_bare_name,
        }
    }

    /// Returns the terms of the tool, each with its count in halves and `true` if a name contains
    /// it.
    pub fn terms(&self) -> impl Iterator<Item = (u64, u16, bool)> {
        let name_fields = FieldSet::one(Field::Name).bits()
            | FieldSet::one(Field::Title).bits()
            | FieldSet::one(Field::Aliases).bits();
        self.segment
            .postings
            .entries()
            .map(move |(term, frequency, fields)| {
                (term.0, frequency, fields.bits() & name_fields != 0)
            })
    }

    /// Returns the unit vector of the tool by each model, with the stored precision.
    pub fn vectors(&self) -> impl Iterator<Item = Vec<f32>> {
        self.segment.vectors.iter().map(|rows| rows.row(0).to_vec())
    }

    /// Returns the distinct terms of each example in the definition that counts.
    pub fn example_terms(&self) -> Vec<Vec<u64>> {
        definition_terms(self.tool.outline())
    }

    /// Returns the single-tool source of this tool.
    pub(crate) fn single_tool_source(&self) -> SourceRow {
        let terms: Vec<TermKey> = self
            .segment
            .postings
            .entries()
            .map(|(term, ..)| term)
            .collect();
        let counts = vec![1; terms.len()];
        SourceRow::new(terms, counts, self.vectors().collect(), 1)
    }

    /// Serialises the row.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2_048);
        out.extend([
            VERSION,
            u8::from(self.has_bare_name),
            u8::from(self.source.is_some()),
        ]);
        out.extend(self.position.to_le_bytes());
        out.extend(self.source.unwrap_or(SourceKey([0; 16])).0);
        put_length(&mut out, self.originals.len());
        self.originals
            .iter()
            .for_each(|original| out.extend(original.0));
        let definition = self.tool.serialised();
        put_length(&mut out, definition.len());
        out.extend(&*definition);
        let Segment {
            postings,
            vectors,
            fingerprints,
        } = &*self.segment;
        out.extend(postings.lengths()[0].to_le_bytes());
        let entries: Vec<_> = postings.entries().collect();
        put_length(&mut out, entries.len());
        entries
            .iter()
            .for_each(|(term, ..)| out.extend(term.0.to_le_bytes()));
        entries
            .iter()
            .for_each(|(_, frequency, _)| out.extend(frequency.to_le_bytes()));
        for (.., fields) in &entries {
            out.push(fields.bits());
        }
        out.extend(fingerprints[0].unwrap_or_default());
        put_vectors(&mut out, vectors);
        if !self.examples.is_empty() {
            put_vectors(&mut out, &self.examples);
        }
        seal(out)
    }

    /// Reads the row with the key `key` and vectors by `models`, each with its dimensions. Only the
    /// outline of the definition is parsed.
    pub fn from_bytes(
        bytes: &[u8],
        key: RowKey,
        models: &[(String, usize)],
    ) -> Result<Self, DamagedRow> {
        let mut reader = RowReader::verify_version(bytes)?;
        let [has_bare_name, has_source] = reader.array()?;
        let (has_bare_name, position) = (has_bare_name != 0, u32::from_le_bytes(reader.array()?));
        let source_key = SourceKey(reader.array()?);
        let source = (has_source != 0).then_some(source_key);
        let originals = reader.row_keys()?;
        let length = reader.length(1)?;
        let definition = reader.take(length)?;
        let digest: Digest = Sha256::digest(definition).into();
        let relations = ToolRelations {
            has_bare_name,
            source,
            originals,
        };
        let names: Vec<String> = models.iter().map(|(name, _)| name.clone()).collect();
        if relations.key(&digest, &names) != key {
            return Err(damaged_row("the content does not match the key"));
        }
        let tool = LazyTool::from_serialised(definition).map_err(definition_error)?;
        let length = u32::from_le_bytes(reader.array()?);
        let terms = reader.terms()?;
        let frequencies = reader.numbers(terms.len(), u16::from_le_bytes)?;
        let fields = reader.take(terms.len())?;
        if fields.contains(&0) {
            return Err(damaged_row("a term without a field"));
        }
        let fields = fields
            .iter()
            .map(|&bits| FieldSet::from_bits(bits))
            .collect();
        let stored_fingerprint: DefinitionFingerprint = reader.array()?;
        let has_fingerprint = stored_fingerprint != DefinitionFingerprint::default();
        let fingerprint = has_fingerprint.then_some(stored_fingerprint);
        let vectors = reader.vectors(models, 1)?;
        let examples = match active_definition_examples(tool.outline()).len() {
            count @ 1.. if !models.is_empty() => reader.vectors(models, count)?,
            _ => Vec::new(),
        };
        reader.end()?;
        let postings = Postings::from_one_tool(terms, frequencies, fields, length);
        let segment = Arc::new(Segment {
            postings,
            vectors,
            fingerprints: vec![fingerprint],
        });
        let ToolRelations {
            has_bare_name,
            source,
            originals,
        } = relations;
        Ok(Self {
            tool: Arc::new(tool),
            digest,
            position,
            has_bare_name,
            source,
            originals,
            segment,
            examples,
        })
    }
}

impl SourceRow {
    /// Serialises the row.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_length(&mut out, self.terms().len());
        self.terms()
            .iter()
            .for_each(|term| out.extend(term.0.to_le_bytes()));
        self.counts()
            .iter()
            .for_each(|count| out.extend(count.to_le_bytes()));
        put_length(&mut out, self.tools());
        put_length(&mut out, self.vectors().len());
        self.vectors()
            .iter()
            .flatten()
            .for_each(|value| out.extend(value.to_le_bytes()));
        seal(out)
    }

    /// Reads a source row with vectors by `models`, each with its dimensions.
    pub fn from_bytes(bytes: &[u8], models: &[(String, usize)]) -> Result<Self, DamagedRow> {
        let mut reader = RowReader::verify_version(bytes)?;
        let terms = reader.terms()?;
        let counts = reader.numbers(terms.len(), u16::from_le_bytes)?;
        let tools = reader.length(0)?;
        if reader.length(0)? != models.len() {
            return Err(damaged_row(OTHER_MODELS));
        }
        let mut vectors = Vec::with_capacity(models.len());
        for &(_, dimensions) in models {
            vectors.push(reader.numbers(dimensions, f32::from_le_bytes)?);
        }
        reader.end()?;
        if !vectors.iter().all(|vector| is_sum(vector, tools)) {
            return Err(damaged_row("a vector that is not a sum of unit vectors"));
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

fn put_length(out: &mut Vec<u8>, length: usize) {
    out.extend(
        u32::try_from(length)
            .expect("a row holds fewer than 2^32 of anything")
            .to_le_bytes(),
    );
}

fn put_vectors(out: &mut Vec<u8>, by_model: &[Rows]) {
    put_length(out, by_model.len());
    by_model.iter().for_each(|rows| put_rows(out, rows));
}

fn put_rows(out: &mut Vec<u8>, rows: &Rows) {
    let (values, scales) = rows.parts();
    put_length(out, rows.len());
    scales
        .iter()
        .for_each(|scale| out.extend(scale.to_le_bytes()));
    out.extend(values.iter().map(|&value| value.to_le_bytes()[0]));
}

/// Appends a checksum.
fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = twox_hash::XxHash3_64::oneshot(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// A reader that takes bytes from the front.
struct RowReader<'a>(&'a [u8]);

impl<'a> RowReader<'a> {
    /// Verifies the checksum and starts to read.
    fn verify(bytes: &'a [u8]) -> Result<Self, DamagedRow> {
        let (bytes, sum) = bytes
            .split_last_chunk::<8>()
            .ok_or_else(|| damaged_row("the bytes are truncated"))?;
        let is_intact = twox_hash::XxHash3_64::oneshot(bytes) == u64::from_le_bytes(*sum);
        is_intact
            .then_some(Self(bytes))
            .ok_or_else(|| damaged_row("wrong checksum"))
    }

    /// Works like [`verify`](Self::verify) and checks the version.
    fn verify_version(bytes: &'a [u8]) -> Result<Self, DamagedRow> {
        let mut reader = Self::verify(bytes)?;
        match reader.array()? {
            [VERSION] => Ok(reader),
            [other] => Err(DamagedRow(format!("version {other} instead of {VERSION}"))),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DamagedRow> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| damaged_row("the bytes are truncated"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DamagedRow> {
        let (array, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| damaged_row("the bytes are truncated"))?;
        self.0 = rest;
        Ok(*array)
    }

    /// Reads a number of items that take at least `bytes_each` bytes each.
    fn length(&mut self, bytes_each: usize) -> Result<usize, DamagedRow> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        let fits = length
            .checked_mul(bytes_each)
            .is_some_and(|bytes| bytes <= self.0.len());
        fits.then_some(length)
            .ok_or_else(|| damaged_row("the bytes are truncated"))
    }

    fn numbers<const N: usize, T>(
        &mut self,
        count: usize,
        parse: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, DamagedRow> {
        let bytes = self.take(
            count
                .checked_mul(N)
                .ok_or_else(|| damaged_row("the bytes are truncated"))?,
        )?;
        Ok(bytes
            .as_chunks::<N>()
            .0
            .iter()
            .map(|chunk| parse(*chunk))
            .collect())
    }

    fn row_keys(&mut self) -> Result<Vec<RowKey>, DamagedRow> {
        let count = self.length(16)?;
        let mut keys = Vec::with_capacity(count);
        for _ in 0..count {
            keys.push(RowKey(self.array()?));
        }
        Ok(keys)
    }

    /// Reads distinct terms in ascending order.
    fn terms(&mut self) -> Result<Vec<TermKey>, DamagedRow> {
        let count = self.length(8)?;
        let terms = self.numbers(count, |bytes| TermKey(u64::from_le_bytes(bytes)))?;
        terms
            .is_sorted_by(|a, b| a < b)
            .then_some(terms)
            .ok_or_else(|| damaged_row("terms out of order"))
    }

    /// Reads `count` vectors by each of `models`.
    fn vectors(
        &mut self,
        models: &[(String, usize)],
        count: usize,
    ) -> Result<Vec<Rows>, DamagedRow> {
        if self.length(0)? != models.len() {
            return Err(damaged_row(OTHER_MODELS));
        }
        let mut matrices = Vec::with_capacity(models.len());
        for &(_, dimensions) in models {
            let rows = self.rows(dimensions)?;
            if rows.len() != count {
                return Err(damaged_row("wrong number of vectors"));
            }
            matrices.push(rows);
        }
        Ok(matrices)
    }

    fn rows(&mut self, dimensions: usize) -> Result<Rows, DamagedRow> {
        let count = self.length(4)?;
        let scales = self.numbers(count, f32::from_le_bytes)?;
        let length = match count.checked_mul(dimensions) {
            Some(length) if dimensions <= MAX_DIMENSIONS => length,
            _ => return Err(damaged_row("the bytes are truncated")),
        };
        let values = self.take(length)?;
        if !scales
            .iter()
            .all(|scale| scale.is_finite() && *scale >= 0.0)
        {
            return Err(damaged_row("a vector with an invalid scale"));
        }
        let values = values
            .iter()
            .map(|&value| i8::from_le_bytes([value]))
            .collect();
        Ok(Rows::from_parts(dimensions, values, scales))
    }

    fn end(&self) -> Result<(), DamagedRow> {
        self.0
            .is_empty()
            .then_some(())
            .ok_or_else(|| damaged_row("trailing bytes"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::catalog::Catalog;
    use crate::embed::{Embedder, StaticEmbedder};
    use crate::examples::Examples;
    use crate::index::{ExampleConfig, IndexConfig, KnownExamples};

    /// A serialised row, its key and the models of its vectors.
    type SerializedRow = (Vec<u8>, RowKey, Vec<(String, usize)>);

    fn index() -> (Index, ExampleIndex) {
        let mut tools: Vec<Tool> = (0..4)
            .map(|number| {
                let parameters =
                    json!({"type": "object", "properties": {"path": {"type": "string"}}});
                let description = format!("Reads file number {number} of the archive, whole");
                let mut tool =
                    Tool::with_parameters(format!("read_{number}"), description, parameters);
                tool.source = Some(if number < 2 { "files" } else { "archive" }.to_owned());
                tool.id = tool.qualified_name();
                tool
            })
            .collect();
        tools[3].description = "读取文件 🚀".to_owned();
        tools[0].examples = ["what stands in the first file", "the", "open number one"]
            .map(str::to_owned)
            .to_vec();
        let embedders: Vec<Arc<dyn Embedder>> = vec![StaticEmbedder::shared().expect("built in")];
        let config = IndexConfig {
            embedders,
            ..IndexConfig::default()
        };
        let index =
            Index::build(Catalog::from_tools(tools).expect("valid"), config).expect("indexed");
        let (supplied, config) = (Examples::default(), ExampleConfig::default());
        let examples = ExampleIndex::build(&index, supplied, &config, &KnownExamples::default())
            .expect("embedded");
        (index, examples)
    }

    fn models(index: &Index) -> Vec<(String, usize)> {
        let with_dimensions =
            |embedder: &Arc<dyn Embedder>| (embedder.identity().to_owned(), embedder.dimensions());
        index
            .vectors
            .iter()
            .map(|vectors| with_dimensions(vectors.embedder()))
            .collect()
    }

    #[test]
    fn row_is_restored_under_its_own_key_only() {
        let (index, examples) = index();
        let models = models(&index);
        let names: Vec<String> = models.iter().map(|(name, _)| name.clone()).collect();
        for (id, (key, relations)) in index.catalog.ids().zip(index.tool_relations(&names)) {
            let row = Row::collect(&index, Some(&examples), id, relations.clone());
            let count = row.examples.iter().map(Rows::len).sum::<usize>();
            assert_eq!(
                count,
                if id == ToolId(0) { 2 } else { 0 },
                "an example of function words does not count"
            );
            let bytes = row.to_bytes();
            let restored = Row::from_bytes(&bytes, key, &models).expect("intact");
            assert_eq!(
                (restored.position, restored.source),
                (row.position, row.source)
            );
            assert_eq!(
                restored.definition().expect("valid"),
                row.definition().expect("valid")
            );
            assert!(restored.terms().eq(row.terms()) && restored.vectors().eq(row.vectors()));
            assert_eq!(restored.segment.fingerprints, row.segment.fingerprints);
            assert!(
                restored
                    .examples
                    .iter()
                    .map(Rows::parts)
                    .eq(row.examples.iter().map(Rows::parts))
            );
            assert_eq!(restored.to_bytes(), bytes);
            assert!(
                Row::from_bytes(&bytes, RowKey([7; 16]), &models).is_err(),
                "another's key"
            );
            assert!(Row::from_bytes(&bytes, key, &[]).is_err(), "other models");
            let other = ToolRelations {
                has_bare_name: !relations.has_bare_name,
                ..relations
            };
            assert_ne!(
                other.key(&row.digest, &names),
                key,
                "the owner of the name is part of the key"
            );
        }
        let sources = index.source_rows(|_| true);
        assert_eq!(sources.len(), 2);
        for (_, row) in sources {
            let restored = SourceRow::from_bytes(&row.to_bytes(), &models).expect("intact");
            assert!(
                restored.term_hashes().eq(row.term_hashes()) && restored.tools() == row.tools()
            );
        }
    }

    #[test]
    fn source_with_saturated_counts_is_restored() {
        let terms: Vec<TermKey> = (0..70_000).map(TermKey).collect();
        let counts = vec![u16::MAX; terms.len()];
        let row = SourceRow::new(terms, counts, Vec::new(), 2);
        assert!(SourceRow::from_bytes(&row.to_bytes(), &[]).is_ok());
    }

    #[test]
    fn source_with_an_impossible_vector_is_refused() {
        let models = [("a model".to_owned(), 2)];
        let restore = |value: f32| {
            let row = SourceRow::new(vec![TermKey(7)], vec![1], vec![vec![0.5, value]], 2);
            SourceRow::from_bytes(&row.to_bytes(), &models)
        };
        assert!(restore(-2.0).is_ok());
        for wrong in [f32::NAN, f32::INFINITY, f32::MAX, -2.5] {
            assert!(restore(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn damaged_bytes_give_an_error_and_never_a_panic(
            position in any::<prop::sample::Index>(),
            bits in 1..=255_u8,
            cut in any::<prop::sample::Index>(),
            resealed in any::<bool>(),
            anything in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            static ROW: std::sync::LazyLock<SerializedRow> = std::sync::LazyLock::new(|| {
                let (index, examples) = index();
                let models = models(&index);
                let names: Vec<String> = models.iter().map(|(name, _)| name.clone()).collect();
                let (key, relations) = index.tool_relations(&names).swap_remove(0);
                let row = Row::collect(&index, Some(&examples), ToolId(0), relations);
                (row.to_bytes(), key, models)
            });
            let (bytes, key, models) = &*ROW;
            let inner = bytes.len() - 8;
            let mut changed = bytes.clone();
            changed[position.index(inner)] ^= bits;
            if resealed {
                // An attacker can compute a checksum. Reading then gives an error, or the same
                // definition under its key.
                changed = seal(changed[..inner].to_vec());
                if let Ok(row) = Row::from_bytes(&changed, *key, models) {
                    let id = row.definition().map(|tool| tool.id.as_str());
                    prop_assert_eq!(id, Ok("files/read_0"));
                }
            } else {
                prop_assert!(Row::from_bytes(&changed, *key, models).is_err());
            }
            let truncated = &bytes[..cut.index(bytes.len())];
            prop_assert!(Row::from_bytes(truncated, *key, models).is_err());
            let truncated = seal(bytes[..cut.index(inner)].to_vec());
            prop_assert!(Row::from_bytes(&truncated, *key, models).is_err());
            let arbitrary = seal(anything);
            drop(Row::from_bytes(&arbitrary, *key, models));
            drop(SourceRow::from_bytes(&arbitrary, models));
        }
    }
}
