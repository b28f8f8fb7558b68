//! What is known of one tool, or of one source, as it lies in a store: bytes that say whether they
//! are whole.
//!
//! A row holds what a segment of that tool alone holds, and the definition. Whoever can write to a
//! store can write tools; but whatever stands there, reading gives an error and never a panic.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::examples::terms_of_definition;
use super::occurrences::Fields;
use super::postings::Postings;
use super::rows::{MAX_DIMENSIONS, Rows};
use super::segment::Segment;
use super::sources::SourceRow;
use super::terms::TermKey;
use super::twins::{Likeness, likeness};
use super::{ExampleIndex, Index};
use crate::catalog::{Digest, LazyTool, PartTool, Tool};
use crate::examples::counting_of;
use crate::ranking::ToolId;
use crate::text::Field;

/// The version of the form of rows, and of how tools are read into words.
const VERSION: u8 = 3;

const OTHER_MODELS: &str = "it has vectors of other models";

/// A row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DamagedRow(String);

fn of_definition(reason: impl fmt::Display) -> DamagedRow {
    DamagedRow(format!("its definition: {reason}"))
}

pub(super) fn damaged(message: &str) -> DamagedRow {
    DamagedRow(message.to_owned())
}

/// What is known of a tool of a snapshot.
pub struct Row {
    /// The definition, which is read when it is needed.
    pub tool: Arc<LazyTool>,
    pub(crate) digest: Digest,
    /// Its place in the snapshot when it was written, by which tools are in order.
    pub place: u32,
    /// Whether the bare name is its own.
    pub(crate) has_bare_name: bool,
    /// The source that it tells something with others of; `None` where it stands for itself.
    pub source: Option<SourceKey>,
    /// The trusted tools that it copies, by the keys of their rows.
    pub copies: Vec<RowKey>,
    pub(super) segment: Arc<Segment>,
    /// The vectors of the examples of the definition that count, by each model; empty where it has
    /// no examples.
    pub(super) examples: Vec<Rows>,
}

/// By what the row of a tool is known: a digest of all that it holds but its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey(pub [u8; 16]);

/// By what the row of a source is known.
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
    /// The tools of a source, trusted or not, tell something together.
    pub(crate) fn of(source: &str, untrusted: bool) -> Self {
        Self(start(
            Sha256::new()
                .chain_update([u8::from(untrusted)])
                .chain_update(source),
        ))
    }
}

/// What a digest begins with, which tells as well as all of it.
fn start(digest: Sha256) -> [u8; 16] {
    let digest: Digest = digest.finalize().into();
    let mut start = [0; 16];
    start.copy_from_slice(&digest[..16]);
    start
}

/// What of a tool depends on the tools around it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    pub(crate) has_bare_name: bool,
    pub(crate) source: Option<SourceKey>,
    pub(crate) copies: Vec<RowKey>,
}

impl Standing {
    /// Returns by what the row of a tool is known that stands so; `models` are those whose vectors
    /// the row has.
    pub(crate) fn key(&self, definition: &Digest, models: &[String]) -> RowKey {
        let mut digest = Sha256::new();
        digest.update([
            VERSION,
            u8::from(self.has_bare_name),
            u8::from(self.source.is_some()),
        ]);
        digest.update(definition);
        digest.update(self.source.unwrap_or(SourceKey([0; 16])).0);
        self.copies
            .iter()
            .for_each(|copied| digest.update(copied.0));
        for model in models {
            digest.update((model.len() as u64).to_le_bytes());
            digest.update(model);
        }
        RowKey(start(digest))
    }
}

impl Row {
    /// Collects what an index knows of a tool.
    pub fn of(
        index: &Index,
        examples: Option<&ExampleIndex>,
        tool: ToolId,
        standing: Standing,
    ) -> Self {
        let definition = Arc::clone(index.catalog.tool(tool));
        let vectors = index
            .vectors
            .iter()
            .map(|vectors| vectors.rows_of(tool))
            .collect();
        let Standing {
            has_bare_name,
            source,
            copies,
        } = standing;
        let (postings, likenesses) = (
            Postings::build(std::slice::from_ref(&definition)),
            vec![likeness(&definition)],
        );
        Self {
            digest: index.catalog.digests()[tool.index()],
            tool: Arc::new(definition.into()),
            place: tool.0,
            has_bare_name,
            source,
            copies,
            segment: Arc::new(Segment {
                postings,
                vectors,
                likenesses,
            }),
            examples: examples
                .map(|examples| examples.of_definition(tool))
                .unwrap_or_default(),
        }
    }

    /// Reads what is left of the definition.
    pub fn whole(&self) -> Result<&Arc<Tool>, DamagedRow> {
        self.tool.whole().map_err(of_definition)
    }

    /// Returns the tool as one of a part of a catalog.
    pub fn part_tool(&self) -> PartTool {
        PartTool {
            tool: Arc::clone(&self.tool),
            digest: self.digest,
            has_bare_name: self.has_bare_name,
        }
    }

    /// Returns the terms that the tool holds, each with how often it is counted, in halves, and
    /// whether it stands in a name.
    pub fn terms(&self) -> impl Iterator<Item = (u64, u16, bool)> {
        let of_name = Fields::one(Field::Name).bits()
            | Fields::one(Field::Title).bits()
            | Fields::one(Field::Aliases).bits();
        self.segment
            .postings
            .held()
            .map(move |(term, frequency, fields)| (term.0, frequency, fields.bits() & of_name != 0))
    }

    /// Returns the unit vector of the tool by each model, as near as it is kept.
    pub fn vectors(&self) -> impl Iterator<Item = Vec<f32>> {
        self.segment.vectors.iter().map(|rows| rows.row(0).to_vec())
    }

    /// Returns the terms of each example of the definition that counts.
    pub fn example_terms(&self) -> Vec<Vec<u64>> {
        terms_of_definition(self.tool.outline())
    }

    /// The source that the tool is for itself.
    pub(crate) fn alone(&self) -> SourceRow {
        let terms: Vec<TermKey> = self
            .segment
            .postings
            .held()
            .map(|(term, ..)| term)
            .collect();
        let counts = vec![1; terms.len()];
        SourceRow::new(terms, counts, self.vectors().collect(), 1)
    }

    /// Writes it down.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2_048);
        out.extend([
            VERSION,
            u8::from(self.has_bare_name),
            u8::from(self.source.is_some()),
        ]);
        out.extend(self.place.to_le_bytes());
        out.extend(self.source.unwrap_or(SourceKey([0; 16])).0);
        put_length(&mut out, self.copies.len());
        self.copies.iter().for_each(|copied| out.extend(copied.0));
        let definition = self.tool.serialised();
        put_length(&mut out, definition.len());
        out.extend(&*definition);
        let Segment {
            postings,
            vectors,
            likenesses,
        } = &*self.segment;
        out.extend(postings.lengths()[0].to_le_bytes());
        let held: Vec<_> = postings.held().collect();
        put_length(&mut out, held.len());
        held.iter()
            .for_each(|(term, ..)| out.extend(term.0.to_le_bytes()));
        held.iter()
            .for_each(|(_, frequency, _)| out.extend(frequency.to_le_bytes()));
        out.extend(held.iter().map(|(.., fields)| fields.bits()));
        out.extend(likenesses[0].unwrap_or_default());
        put_vectors(&mut out, vectors);
        if !self.examples.is_empty() {
            put_vectors(&mut out, &self.examples);
        }
        sealed(out)
    }

    /// Reads the row that is known by `key`, with vectors by `models`, each with its dimensions; of
    /// the definition the outline.
    pub fn of_bytes(
        bytes: &[u8],
        key: RowKey,
        models: &[(String, usize)],
    ) -> Result<Self, DamagedRow> {
        let mut bytes = Bytes::of_version(bytes)?;
        let [has_bare_name, has_source] = bytes.array()?;
        let (has_bare_name, place) = (has_bare_name != 0, u32::from_le_bytes(bytes.array()?));
        let source = Some(SourceKey(bytes.array()?)).filter(|_| has_source != 0);
        let copies = (0..bytes.length(16)?)
            .map(|_| bytes.array().map(RowKey))
            .collect::<Result<_, _>>()?;
        let length = bytes.length(1)?;
        let definition = bytes.take(length)?;
        let digest: Digest = Sha256::digest(definition).into();
        let standing = Standing {
            has_bare_name,
            source,
            copies,
        };
        let names: Vec<String> = models.iter().map(|(name, _)| name.clone()).collect();
        if standing.key(&digest, &names) != key {
            return Err(damaged("it is not the row that its key says"));
        }
        let tool = LazyTool::of_serialised(definition).map_err(of_definition)?;
        let length = u32::from_le_bytes(bytes.array()?);
        let terms = bytes.terms()?;
        let frequencies = bytes.numbers(terms.len(), u16::from_le_bytes)?;
        let fields = bytes.take(terms.len())?;
        if fields.contains(&0) {
            return Err(damaged("a term stands in no field"));
        }
        let fields = fields.iter().map(|&bits| Fields::of_bits(bits)).collect();
        let likeness: Likeness = bytes.array()?;
        let likeness = Some(likeness).filter(|likeness| *likeness != Likeness::default());
        let vectors = bytes.vectors(models, 1)?;
        let examples = match counting_of(tool.outline()).len() {
            count @ 1.. if !models.is_empty() => bytes.vectors(models, count)?,
            _ => Vec::new(),
        };
        bytes.end()?;
        let postings = Postings::of_one_tool(terms, frequencies, fields, length);
        let segment = Arc::new(Segment {
            postings,
            vectors,
            likenesses: vec![likeness],
        });
        let Standing {
            has_bare_name,
            source,
            copies,
        } = standing;
        Ok(Self {
            tool: Arc::new(tool),
            digest,
            place,
            has_bare_name,
            source,
            copies,
            segment,
            examples,
        })
    }
}

impl SourceRow {
    /// Writes it down.
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
        sealed(out)
    }

    /// Reads one that has vectors by `models`, each with its dimensions.
    pub fn of_bytes(bytes: &[u8], models: &[(String, usize)]) -> Result<Self, DamagedRow> {
        let mut bytes = Bytes::of_version(bytes)?;
        let terms = bytes.terms()?;
        let counts = bytes.numbers(terms.len(), u16::from_le_bytes)?;
        let tools = bytes.length(0)?;
        if bytes.length(0)? != models.len() {
            return Err(damaged(OTHER_MODELS));
        }
        let vectors = models
            .iter()
            .map(|&(_, dimensions)| bytes.numbers(dimensions, f32::from_le_bytes));
        let vectors = vectors.collect::<Result<Vec<_>, _>>()?;
        bytes.end()?;
        if !vectors.iter().all(|vector| is_sum(vector, tools)) {
            return Err(damaged("its vector is no sum of those of its tools"));
        }
        Ok(Self::new(terms, counts, vectors, tools))
    }
}

/// Whether it may be the sum of so many unit vectors, or the mean of them, where there is one.
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

fn put_vectors(out: &mut Vec<u8>, of_models: &[Rows]) {
    put_length(out, of_models.len());
    of_models.iter().for_each(|rows| put_rows(out, rows));
}

fn put_rows(out: &mut Vec<u8>, rows: &Rows) {
    let (values, scales) = rows.parts();
    put_length(out, rows.len());
    scales
        .iter()
        .for_each(|scale| out.extend(scale.to_le_bytes()));
    out.extend(values.iter().map(|&value| value.to_le_bytes()[0]));
}

/// Puts a checksum behind bytes.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = twox_hash::XxHash3_64::oneshot(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Begins to read bytes whose checksum is right.
    fn unsealed(bytes: &'a [u8]) -> Result<Self, DamagedRow> {
        let (bytes, sum) = bytes
            .split_last_chunk::<8>()
            .ok_or_else(|| damaged("it is cut short"))?;
        let whole = twox_hash::XxHash3_64::oneshot(bytes) == u64::from_le_bytes(*sum);
        whole
            .then_some(Self(bytes))
            .ok_or_else(|| damaged("its checksum is wrong"))
    }

    /// As [`unsealed`](Self::unsealed), where the version is the one that is read here.
    fn of_version(bytes: &'a [u8]) -> Result<Self, DamagedRow> {
        let mut bytes = Self::unsealed(bytes)?;
        match bytes.array()? {
            [VERSION] => Ok(bytes),
            [other] => Err(DamagedRow(format!(
                "it is of version {other}, not {VERSION}; publish the catalog again"
            ))),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DamagedRow> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| damaged("it is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DamagedRow> {
        let (array, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| damaged("it is cut short"))?;
        self.0 = rest;
        Ok(*array)
    }

    /// Reads how many there are of what takes so many bytes at least.
    fn length(&mut self, bytes_each: usize) -> Result<usize, DamagedRow> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        let fits = length
            .checked_mul(bytes_each)
            .is_some_and(|bytes| bytes <= self.0.len());
        fits.then_some(length)
            .ok_or_else(|| damaged("it is cut short"))
    }

    fn numbers<const N: usize, T>(
        &mut self,
        count: usize,
        read: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, DamagedRow> {
        let bytes = self.take(
            count
                .checked_mul(N)
                .ok_or_else(|| damaged("it is cut short"))?,
        )?;
        Ok(bytes
            .as_chunks::<N>()
            .0
            .iter()
            .map(|chunk| read(*chunk))
            .collect())
    }

    /// Reads different terms in ascending order.
    fn terms(&mut self) -> Result<Vec<TermKey>, DamagedRow> {
        let count = self.length(8)?;
        let terms = self.numbers(count, |bytes| TermKey(u64::from_le_bytes(bytes)))?;
        terms
            .is_sorted_by(|a, b| a < b)
            .then_some(terms)
            .ok_or_else(|| damaged("its terms are not in order"))
    }

    /// Reads so many vectors by each of `models`.
    fn vectors(
        &mut self,
        models: &[(String, usize)],
        count: usize,
    ) -> Result<Vec<Rows>, DamagedRow> {
        if self.length(0)? != models.len() {
            return Err(damaged(OTHER_MODELS));
        }
        let read = models.iter().map(|&(_, dimensions)| {
            let rows = self.rows(dimensions)?;
            if rows.len() == count {
                Ok(rows)
            } else {
                Err(damaged("it has vectors of something else"))
            }
        });
        read.collect()
    }

    fn rows(&mut self, dimensions: usize) -> Result<Rows, DamagedRow> {
        let count = self.length(4)?;
        let scales = self.numbers(count, f32::from_le_bytes)?;
        let length = count
            .checked_mul(dimensions)
            .filter(|_| dimensions <= MAX_DIMENSIONS);
        let values = self.take(length.ok_or_else(|| damaged("it is cut short"))?)?;
        if !scales
            .iter()
            .all(|scale| scale.is_finite() && *scale >= 0.0)
        {
            return Err(damaged("its vectors are no numbers"));
        }
        let values = values
            .iter()
            .map(|&value| i8::from_le_bytes([value]))
            .collect();
        Ok(Rows::of_parts(dimensions, values, scales))
    }

    fn end(&self) -> Result<(), DamagedRow> {
        self.0
            .is_empty()
            .then_some(())
            .ok_or_else(|| damaged("something stands behind its end"))
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

    /// A row as it is written, its key, and the models of its vectors.
    type Written = (Vec<u8>, RowKey, Vec<(String, usize)>);

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
        let embedders: Vec<Arc<dyn Embedder>> =
            vec![StaticEmbedder::shared().expect("it is inside")];
        let config = IndexConfig {
            embedders,
            ..IndexConfig::default()
        };
        let index = Index::build(Catalog::from_tools(tools).expect("valid"), config)
            .expect("it is indexed");
        let (given, config) = (Examples::default(), ExampleConfig::default());
        let examples = ExampleIndex::build(&index, given, &config, &KnownExamples::default())
            .expect("it is embedded");
        (index, examples)
    }

    fn models(index: &Index) -> Vec<(String, usize)> {
        let of =
            |embedder: &Arc<dyn Embedder>| (embedder.identity().to_owned(), embedder.dimensions());
        index
            .vectors
            .iter()
            .map(|vectors| of(vectors.embedder()))
            .collect()
    }

    #[test]
    fn a_row_is_read_as_it_was_written_and_under_no_other_key() {
        let (index, examples) = index();
        let models = models(&index);
        let names: Vec<String> = models.iter().map(|(name, _)| name.clone()).collect();
        for (id, (key, standing)) in index.catalog.ids().zip(index.standings(&names)) {
            let row = Row::of(&index, Some(&examples), id, standing.clone());
            let count = row.examples.iter().map(Rows::len).sum::<usize>();
            assert_eq!(
                count,
                if id == ToolId(0) { 2 } else { 0 },
                "what says nothing does not count"
            );
            let bytes = row.to_bytes();
            let read = Row::of_bytes(&bytes, key, &models).expect("it is whole");
            assert_eq!((read.place, read.source), (row.place, row.source));
            assert_eq!(
                read.whole().expect("it is a tool"),
                row.whole().expect("it is one")
            );
            assert!(read.terms().eq(row.terms()) && read.vectors().eq(row.vectors()));
            assert_eq!(read.segment.likenesses, row.segment.likenesses);
            assert!(
                read.examples
                    .iter()
                    .map(Rows::parts)
                    .eq(row.examples.iter().map(Rows::parts))
            );
            assert_eq!(read.to_bytes(), bytes);
            assert!(
                Row::of_bytes(&bytes, RowKey([7; 16]), &models).is_err(),
                "another's key"
            );
            assert!(Row::of_bytes(&bytes, key, &[]).is_err(), "other models");
            let other = Standing {
                has_bare_name: !standing.has_bare_name,
                ..standing
            };
            assert_ne!(
                other.key(&row.digest, &names),
                key,
                "who owns the name is part of the key"
            );
        }
        let sources = index.source_rows(|_| true);
        assert_eq!(sources.len(), 2);
        for (_, row) in sources {
            let read = SourceRow::of_bytes(&row.to_bytes(), &models).expect("it is whole");
            assert!(read.held().eq(row.held()) && read.tools() == row.tools());
        }
    }

    #[test]
    fn a_source_of_more_words_than_can_be_counted_is_read() {
        let terms: Vec<TermKey> = (0..70_000).map(TermKey).collect();
        let counts = vec![u16::MAX; terms.len()];
        let row = SourceRow::new(terms, counts, Vec::new(), 2);
        assert!(SourceRow::of_bytes(&row.to_bytes(), &[]).is_ok());
    }

    #[test]
    fn a_source_whose_vector_is_no_sum_of_unit_vectors_is_refused() {
        let models = [("a model".to_owned(), 2)];
        let read = |value: f32| {
            let row = SourceRow::new(vec![TermKey(7)], vec![1], vec![vec![0.5, value]], 2);
            SourceRow::of_bytes(&row.to_bytes(), &models)
        };
        assert!(read(-2.0).is_ok());
        for wrong in [f32::NAN, f32::INFINITY, f32::MAX, -2.5] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn bytes_that_are_not_whole_are_an_error_and_never_a_panic(
            place in any::<prop::sample::Index>(), bits in 1..=255_u8, cut in any::<prop::sample::Index>(), resealed in any::<bool>(),
            anything in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            static ROW: std::sync::LazyLock<Written> = std::sync::LazyLock::new(|| {
                let (index, examples) = index();
                let models = models(&index);
                let names: Vec<String> = models.iter().map(|(name, _)| name.clone()).collect();
                let (key, standing) = index.standings(&names).swap_remove(0);
                (Row::of(&index, Some(&examples), ToolId(0), standing).to_bytes(), key, models)
            });
            let (bytes, key, models) = &*ROW;
            let inner = bytes.len() - 8;
            let mut changed = bytes.clone();
            changed[place.index(inner)] ^= bits;
            if resealed {
                // Whoever can write can also seal: what is then read is an error, or the same
                // definition under its key.
                changed = sealed(changed[..inner].to_vec());
                if let Ok(row) = Row::of_bytes(&changed, *key, models) {
                    prop_assert_eq!(row.whole().map(|tool| tool.id.as_str()), Ok("files/read_0"));
                }
            } else {
                prop_assert!(Row::of_bytes(&changed, *key, models).is_err());
            }
            prop_assert!(Row::of_bytes(&bytes[..cut.index(bytes.len())], *key, models).is_err());
            prop_assert!(Row::of_bytes(&sealed(bytes[..cut.index(inner)].to_vec()), *key, models).is_err());
            drop((Row::of_bytes(&sealed(anything.clone()), *key, models), SourceRow::of_bytes(&sealed(anything), models)));
        }
    }
}
