//! The row of a tool: its record, its definition and its relations to other tools, as a store holds
//! them.
//!
//! Everybody with write access to a store can write tools. But reading arbitrary bytes gives an
//! error, never a panic.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::postings::FieldSet;
use super::record::{ToolRecord, VERSION, decode_vectors, encode_vectors, open_row};
use super::rows::Rows;
use super::source_row::SourceRow;
use crate::catalog::{Digest, LazyTool, ShardTool, Tool};
use crate::examples::active_definition_examples;
use crate::saved::{ByteReader, DamagedBytes, put_length, put_number, put_numbers, seal};
use crate::text::Field;

fn definition_error(reason: impl fmt::Display) -> DamagedBytes {
    DamagedBytes::new(format!("definition: {reason}"))
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
    pub(super) record: ToolRecord,
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
    /// Parses the rest of the definition.
    pub fn definition(&self) -> Result<&Arc<Tool>, DamagedBytes> {
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
        let terms = self.record.terms().terms.iter();
        terms.map(move |term| {
            let is_name = term.fields.bits() & name_fields != 0;
            (term.key.0, term.frequency, is_name)
        })
    }

    /// Returns the unit vector of the tool by each model, with the stored precision.
    pub fn vectors(&self) -> impl Iterator<Item = Vec<f32>> {
        self.record
            .vectors()
            .iter()
            .map(|rows| rows.row(0).to_vec())
    }

    /// Returns the single-tool source of this tool.
    pub(super) fn single_tool_source(&self) -> SourceRow {
        let terms = self.record.terms().terms;
        let keys = terms.iter().map(|term| term.key).collect();
        SourceRow::new(keys, vec![1; terms.len()], self.vectors().collect(), 1)
    }

    /// Serialises the row.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2_048);
        let flags = [self.has_bare_name, self.source.is_some()].map(u8::from);
        put_numbers(&mut out, &[VERSION]);
        put_numbers(&mut out, &flags);
        put_number(&mut out, self.position);
        put_number(&mut out, self.source.unwrap_or(SourceKey([0; 16])).0);
        put_length(&mut out, self.originals.len());
        for original in &self.originals {
            put_number(&mut out, original.0);
        }
        let definition = self.tool.serialised();
        put_length(&mut out, definition.len());
        put_numbers(&mut out, &definition);
        self.record.encode(&mut out);
        if !self.examples.is_empty() {
            encode_vectors(&mut out, &self.examples);
        }
        seal(out)
    }

    /// Reads the row with the key `key` and vectors by `models`, each with its dimensions. Only the
    /// outline of the definition is parsed.
    pub fn from_bytes(
        bytes: &[u8],
        key: RowKey,
        models: &[(String, usize)],
    ) -> Result<Self, DamagedBytes> {
        let mut reader = open_row(bytes)?;
        let [has_bare_name, has_source] = reader.number::<[u8; 2]>()?.map(|flag| flag != 0);
        let position = reader.number()?;
        let source = SourceKey(reader.number()?);
        let source = has_source.then_some(source);
        let originals = decode_row_keys(&mut reader)?;
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
            return Err(DamagedBytes::new("the content does not match the key"));
        }
        let tool = LazyTool::from_serialised(definition).map_err(definition_error)?;
        let record = ToolRecord::decode(&mut reader, models)?;
        let examples = match active_definition_examples(tool.outline()).len() {
            count @ 1.. if !models.is_empty() => decode_vectors(&mut reader, models, count)?,
            _ => Vec::new(),
        };
        reader.end()?;
        Ok(Self {
            tool: Arc::new(tool),
            digest,
            position,
            has_bare_name,
            source,
            originals: relations.originals,
            record,
            examples,
        })
    }
}

fn decode_row_keys(reader: &mut ByteReader<'_>) -> Result<Vec<RowKey>, DamagedBytes> {
    let count = reader.length(size_of::<RowKey>())?;
    let keys: Vec<[u8; 16]> = reader.numbers(count)?;
    Ok(keys.into_iter().map(RowKey).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::catalog::Catalog;
    use crate::embed::{Embedder, StaticEmbedder};
    use crate::examples::Examples;
    use crate::index::{ExampleConfig, ExampleIndex, Index, IndexConfig, KnownExamples, TermKey};
    use crate::ranking::ToolId;

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
        let relations = index.tool_relations(&names).expect("in memory");
        for (id, (key, relations)) in index.catalog.ids().zip(relations) {
            let tool = index.catalog.tool(id).expect("in memory");
            let row = Row::collect(&index, Some(&examples), id, tool, relations.clone());
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
            assert_eq!(restored.record.fingerprint(), row.record.fingerprint());
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
        let sources = index.source_rows(|_| true).expect("in memory");
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
                let mut relations = index.tool_relations(&names).expect("in memory");
                let (key, relations) = relations.swap_remove(0);
                let tool = index.catalog.tool(ToolId(0)).expect("in memory");
                let row = Row::collect(&index, Some(&examples), ToolId(0), tool, relations);
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
