//! An index over some tools of a larger snapshot, which scores each as that would.
//!
//! What depends on one tool alone lies in its [`Row`]; what is counted over all tools is told: how
//! many there are, how long they are on average, and how many hold each term of the request. So the
//! scores of a part are those of the whole.

use std::sync::{Arc, Mutex};

use foldhash::{HashMap, HashMapExt};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::copies::Copies;
use super::lately::Lately;
use super::row::{self, DamagedRow, Row, RowKey, SourceKey, Standing};
use super::segment::Segments;
use super::sources::{Counted, Holding, SourceRow, Sources};
use super::terms::TermKey;
use super::twins::Twins;
use super::vectors::Vectors;
use super::{CountedExamples, ExampleIndex, Index, IndexError};
use crate::catalog::{Catalog, Whole};
use crate::embed::Embedder;
use crate::index::KeywordIndex;
use crate::names::{NameTable, ResolvedVia};
use crate::ranking::ToolId;

/// What is counted over all tools of a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Number of tools.
    pub tools: usize,
    /// How long all tools are together, in units of the field weights.
    pub(crate) length: u64,
    /// How many sources there are and how long they are on average, where sources tell something.
    pub(crate) sources: Option<(usize, f32)>,
    /// How many examples the definitions have, and how many words these have together.
    examples: (usize, u64),
    /// The mean vector of some tools that stand for all, by each model.
    mean: Vec<Vec<f32>>,
}

/// The most tools that stand for all: what tools score on average is told by so many well enough.
const SAMPLE: usize = 1_024;

/// A model, with its number among those of a snapshot.
pub type NumberedModel = (usize, Arc<dyn Embedder>);

/// A snapshot of which there is a part here.
pub struct PartOf {
    /// Counts and policies of the complete catalog.
    pub whole: Arc<Whole>,
    counts: Counts,
    counted: Option<Arc<Counted>>,
    /// The models that there are here, each with its number among those of the snapshot.
    pub embedders: Vec<NumberedModel>,
    /// How many models the snapshot has vectors by.
    models: usize,
}

/// How many tools, sources, and examples of definitions hold a term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TermCounts {
    /// Number of tools that hold the term.
    pub tools: u32,
    /// Number of sources that hold the term.
    pub sources: u32,
    /// Number of examples that hold the term.
    pub examples: u32,
}

/// What is counted of each term of a request.
#[derive(Debug, Clone, Default)]
pub struct RequestTerms {
    tools: Holding,
    sources: Holding,
    examples: Holding,
}

impl RequestTerms {
    /// Notes how many hold a term.
    pub fn insert(&mut self, term: u64, counts: TermCounts) {
        let term = TermKey(term);
        self.tools.insert(term, counts.tools);
        self.sources.insert(term, counts.sources);
        self.examples.insert(term, counts.examples);
    }
}

impl PartOf {
    /// Takes what is known of a snapshot, the dimensions of its vectors by each model, and the
    /// models that there are here.
    ///
    /// # Errors
    ///
    /// [`DamagedRow`] when what is counted is of other models, or not a number.
    pub fn new(
        whole: Whole,
        counts: Counts,
        dimensions: &[usize],
        embedders: Vec<NumberedModel>,
    ) -> Result<Self, DamagedRow> {
        let is_mean = |(mean, &dimensions): (&Vec<f32>, &usize)| {
            mean.len() == dimensions && row::is_sum(mean, 1)
        };
        let has_means = counts.mean.len() == dimensions.len()
            && counts.mean.iter().zip(dimensions).all(is_mean);
        let counted = match counts.sources {
            Some((_, average)) if !(average.is_finite() && average >= 0.0) => {
                return Err(row::damaged("its sources have no length"));
            }
            Some(_) if !has_means => {
                return Err(row::damaged("a model has no mean of its vectors"));
            }
            Some((sources, average)) => Some(Arc::new(Counted {
                sources,
                average,
                mean: counts.mean.clone(),
            })),
            None => None,
        };
        Ok(Self {
            whole: Arc::new(whole),
            counts,
            counted,
            embedders,
            models: dimensions.len(),
        })
    }

    /// What is counted over the examples of all definitions, for requests with these terms.
    pub fn counted_examples(&self, terms: &RequestTerms) -> CountedExamples {
        let (number, words) = self.counts.examples;
        CountedExamples {
            number,
            words,
            holding: terms.examples.clone(),
        }
    }

    /// A catalog of these tools, decided on as the whole.
    fn catalog(&self, rows: &[(RowKey, Arc<Row>)]) -> Catalog {
        Catalog::part(
            &self.whole,
            rows.iter().map(|(_, row)| row.part_tool()).collect(),
        )
    }

    /// The vectors of segments by each model that there is here.
    fn vectors(&self, segments: &Segments) -> Vec<Vectors> {
        let of = |(model, embedder): &NumberedModel| {
            Vectors::new(Arc::clone(embedder), segments.clone(), *model)
        };
        self.embedders.iter().map(of).collect()
    }
}

impl Index {
    /// Indexes some tools of a snapshot, in the order of that, for requests whose terms are told.
    /// Of each tool's source that tells something with others there is a row in `sources`.
    pub fn part(
        of: &PartOf,
        rows: &[(RowKey, Arc<Row>)],
        sources: &HashMap<SourceKey, Arc<SourceRow>>,
        terms: RequestTerms,
    ) -> Result<Self, IndexError> {
        let of_sources = of.counted.as_ref().map(|counted| {
            let (mut numbers, mut known, mut all) =
                (Vec::with_capacity(rows.len()), HashMap::new(), Vec::new());
            for (_, row) in rows {
                let together = row.source.and_then(|key| Some((key, sources.get(&key)?)));
                let number = match together {
                    Some((key, together)) => *known.entry(key).or_insert_with(|| {
                        all.push(Arc::clone(together));
                        all.len() - 1
                    }),
                    None => {
                        all.push(Arc::new(row.alone()));
                        all.len() - 1
                    }
                };
                numbers.push(super::terms::number(number));
            }
            Sources::of_part(numbers, all, counted, terms.sources)
        });
        let keyword = |segments| {
            KeywordIndex::of_part(segments, of.counts.tools, of.counts.length, terms.tools)
        };
        Self::of_rows(
            of,
            rows,
            of.catalog(rows),
            of_sources,
            (Segments::of_rows(rows), keyword),
        )
    }

    /// Indexes the tools of a snapshot that there are here, be it all of them or not: what is
    /// counted is counted over these.
    pub fn whole(of: &PartOf, rows: &[(RowKey, Arc<Row>)]) -> Result<Self, IndexError> {
        let (catalog, segments) = (
            of.catalog(rows),
            Segments::of_rows(rows).together(of.models),
        );
        let sources = Sources::new(&catalog, &segments.postings());
        Self::of_rows(of, rows, catalog, sources, (segments, KeywordIndex::new))
    }

    /// Puts together what is known of tools of a snapshot.
    fn of_rows(
        of: &PartOf,
        rows: &[(RowKey, Arc<Row>)],
        catalog: Catalog,
        sources: Option<Sources>,
        (segments, keyword): (Segments, impl FnOnce(Segments) -> KeywordIndex),
    ) -> Result<Self, IndexError> {
        let places: HashMap<RowKey, ToolId> = (0..)
            .zip(rows)
            .map(|(place, (key, _))| (*key, ToolId(place)))
            .collect();
        let copies = rows
            .iter()
            .filter(|(_, row)| !row.copies.is_empty())
            .map(|(key, row)| {
                let originals = row
                    .copies
                    .iter()
                    .filter_map(|original| places.get(original).copied());
                (places[key], originals.collect())
            });
        Ok(Self {
            names: NameTable::unlogged(&catalog)?,
            twins: Twins::new(&segments),
            copies: Copies::of_part(copies.collect()),
            vectors: of.vectors(&segments),
            keyword: keyword(segments),
            own_words: Lately::default(),
            decided: Mutex::default(),
            sources,
            catalog,
            left_out: None,
            cache: None,
        })
    }

    /// Returns what is counted over all tools.
    pub fn counts(&self, examples: Option<&ExampleIndex>) -> Counts {
        let step = self.catalog.len().div_ceil(SAMPLE).max(1);
        let sample: Vec<ToolId> = self.catalog.ids().step_by(step).collect();
        let mean = |vectors: &Vectors| {
            let sum = vectors.sum(&sample);
            sum.into_iter()
                .map(|value| value / sample.len().max(1) as f32)
                .collect()
        };
        Counts {
            tools: self.catalog.len(),
            length: self.keyword.segments().length(),
            sources: self.sources.as_ref().map(Sources::counted),
            examples: examples.map(ExampleIndex::defined).unwrap_or_default(),
            mean: self.vectors.iter().map(mean).collect(),
        }
    }

    /// Returns every term with how many tools hold it.
    pub fn term_counts(&self) -> impl Iterator<Item = (u64, u32)> {
        let terms = self.keyword.segments().whole().postings.terms();
        let holding = terms.ranges().map(|held| super::terms::number(held.len()));
        terms.keys().iter().map(|term| term.0).zip(holding)
    }

    /// Returns by what the row of each source is known, by the number of the source; none where its
    /// tools stand for themselves.
    fn source_keys(&self) -> Vec<Option<SourceKey>> {
        let Some(sources) = &self.sources else {
            return Vec::new();
        };
        let mut keys = vec![None; sources.len()];
        for id in self.catalog.ids() {
            let (number, tools) = sources.of_tool(id);
            let key = &mut keys[number as usize];
            if tools > 1 && key.is_none() {
                let tool = self.catalog.tool(id);
                *key = tool
                    .source
                    .as_deref()
                    .map(|source| SourceKey::of(source, tool.untrusted));
            }
        }
        keys
    }

    /// Returns what of each tool depends on the tools around it, and by what its row is known.
    pub fn standings(&self, models: &[String]) -> Vec<(RowKey, Standing)> {
        let (digests, sources) = (self.catalog.digests(), self.source_keys());
        let standing = |id: ToolId| {
            let tool = self.catalog.tool(id);
            let source = self
                .sources
                .as_ref()
                .and_then(|of| sources[of.of_tool(id).0 as usize]);
            let owners = || self.names.owners(&tool.name).iter();
            let is_own =
                || owners().any(|owner| owner.tool == id && owner.via == ResolvedVia::Name);
            Standing {
                has_bare_name: !tool.untrusted || is_own(),
                source,
                copies: Vec::new(),
            }
        };
        let keyed = |id: ToolId| {
            let standing = standing(id);
            (standing.key(&digests[id.index()], models), standing)
        };
        let ids = (0..self.catalog.len())
            .into_par_iter()
            .map(ToolId::from_index);
        let mut standings: Vec<(RowKey, Standing)> = ids.map(keyed).collect();
        // Copies are untrusted, and what they copy is trusted and copies nothing.
        for (copy, originals) in self.copies.all() {
            let copies = originals
                .iter()
                .map(|original| standings[original.index()].0)
                .collect();
            let (key, standing) = &mut standings[copy.index()];
            standing.copies = copies;
            *key = standing.key(&digests[copy.index()], models);
        }
        standings
    }

    /// Returns the sources that tell something together and that `is_wanted` accepts, with their
    /// rows.
    pub fn source_rows(
        &self,
        is_wanted: impl Fn(&SourceKey) -> bool,
    ) -> Vec<(SourceKey, SourceRow)> {
        let Some(sources) = &self.sources else {
            return Vec::new();
        };
        /// A source that is being put together.
        struct Made {
            key: SourceKey,
            terms: Vec<TermKey>,
            counts: Vec<u16>,
            tools: Vec<ToolId>,
        }
        let made = |key| Made {
            key,
            terms: Vec::new(),
            counts: Vec::new(),
            tools: Vec::new(),
        };
        let mut made: Vec<Option<Made>> = self
            .source_keys()
            .into_iter()
            .map(|key| key.filter(&is_wanted).map(made))
            .collect();
        for id in self.catalog.ids() {
            if let Some(made) = &mut made[sources.of_tool(id).0 as usize] {
                made.tools.push(id);
            }
        }
        sources.each_term(|term, holding, counts| {
            for (&source, &count) in holding.iter().zip(counts) {
                if let Some(made) = &mut made[source as usize] {
                    made.terms.push(term);
                    made.counts.push(count);
                }
            }
        });
        let row = |Made {
                       key,
                       terms,
                       counts,
                       tools,
                   }: Made| {
            let vectors = self
                .vectors
                .iter()
                .map(|vectors| vectors.sum(&tools))
                .collect();
            (key, SourceRow::new(terms, counts, vectors, tools.len()))
        };
        made.into_iter().flatten().map(row).collect()
    }

    /// Returns every term that sources hold, with how many do; a tool that stands for itself is
    /// one.
    pub fn source_term_counts(&self) -> Vec<(u64, u32)> {
        let mut counts = Vec::new();
        if let Some(sources) = &self.sources {
            sources.each_term(|term, holding, _| {
                counts.push((term.0, super::terms::number(holding.len())))
            });
        }
        counts
    }
}
