//! The tag index: the vectors of the tags of tools by the static model.
//!
//! A tag in the text of a tool would dilute the vector of that text. So each tag has a vector, and
//! the tool has a centroid: the sum of the vector of its text and those of its tags, which weigh
//! less. If the centroid is nearer to the request than the text, it counts. Tags never lower a
//! similarity, and without a tag near the request they have no effect.
//!
//! Equal tags of several tools share one vector, and tools without tags need none. A saved index
//! holds no vectors of tags: the postings show which tools have tags, and the static model
//! embeds the tags within microseconds. `docs/results.md` has the alternatives that were measured.

use foldhash::{HashMap, HashMapExt};
use ndarray::ArrayView2;

use super::dot::dot;
use super::embedding::{EmbeddingBatch, EmbeddingOptions, Progress, embed_texts};
use super::error::IndexError;
use super::postings::{FieldSet, Postings};
use super::rows::Rows;
use super::terms::number;
use super::vectors::Vectors;
use crate::catalog::Catalog;
use crate::deadline::Deadline;
use crate::embed::{ModelKind, TextRole};
use crate::ranking::{ScoredTools, ToolId};
use crate::text::{Field, tag_texts};

/// The weight of a tag in the centroid of its tool, relative to the tool's text.
const TAG_WEIGHT: f32 = 0.2;
/// The largest number of tags that count fully in a centroid. Beyond it, the weight of each tag
/// shrinks.
const FULL_TAGS: f32 = 8.0;
/// The similarity to a request up to which tags have no effect.
const MIN_SIMILARITY: f32 = 0.25;

/// The tags of the tools of one snapshot.
pub(crate) struct TagIndex {
    /// The number of the static model among those of the snapshot.
    model: usize,
    /// The tools with tags, ascending.
    tools: Vec<TaggedTool>,
    /// The row of each tag, by tool.
    tags: Vec<u32>,
    /// One distinct tag per row.
    rows: Rows,
}

/// A tool with tags.
struct TaggedTool {
    tool: ToolId,
    /// The end of its tags. They begin at the end of the previous tool's.
    end: u32,
    /// The length of its centroid.
    length: f32,
}

impl TagIndex {
    /// Embeds the tags of the tools of a catalog. Returns `None` without tags or without a
    /// static model.
    pub(super) fn build(
        catalog: &Catalog,
        postings: &Postings,
        vectors: &[Vectors],
    ) -> Result<Option<Self>, IndexError> {
        let is_static = |vectors: &&Vectors| vectors.embedder().kind() == ModelKind::Static;
        let Some(vectors) = vectors.iter().find(is_static) else {
            return Ok(None);
        };
        let (mut tools, mut tags) = (Vec::new(), Vec::new());
        let mut row_by_text: HashMap<String, u32> = HashMap::new();
        let mut texts = Vec::new();
        for tool in postings.tools_with(FieldSet::one(Field::Tags)) {
            for text in tag_texts(catalog.outline(tool)?) {
                let next_row = number(texts.len());
                let row = *row_by_text.entry(text).or_insert_with_key(|text| {
                    texts.push(text.clone());
                    next_row
                });
                tags.push(row);
            }
            tools.push(TaggedTool {
                tool,
                end: number(tags.len()),
                length: 0.0,
            });
        }
        drop(row_by_text);
        if texts.is_empty() {
            return Ok(None);
        }
        // A tag is what a request would say, so it has the vector of a request.
        let batch = EmbeddingBatch {
            role: TextRole::Query,
            texts: &texts,
            what: "tags",
        };
        let options = EmbeddingOptions {
            cache_dir: None,
            progress: &Progress::default(),
            deadline: Deadline::at(None),
        };
        let embedding = embed_texts(batch, vectors.embedder().as_ref(), options)?;
        let mut index = Self {
            model: vectors.model(),
            tools,
            tags,
            rows: embedding.rows,
        };
        index.measure_centroids(vectors);
        Ok(Some(index))
    }

    /// Computes the length of each tool's centroid.
    fn measure_centroids(&mut self, vectors: &Vectors) {
        let mut lengths = Vec::with_capacity(self.tools.len());
        for (TaggedTool { tool, .. }, tags) in self.tools() {
            let mut centroid = vec![0.0; vectors.embedder().dimensions()];
            for &tag in tags {
                self.rows.add_to(tag as usize, &mut centroid);
            }
            let weight = tag_weight(tags.len());
            for value in &mut centroid {
                *value *= weight;
            }
            vectors.rows().add_to(tool.index(), &mut centroid);
            lengths.push(dot(&centroid, &centroid).sqrt());
        }
        for (tool, length) in self.tools.iter_mut().zip(lengths) {
            tool.length = length;
        }
    }

    /// Raises the similarities of tools whose centroids are nearer to the request than their texts.
    ///
    /// `cosines` has the similarities of the tools `scored` by the model with the number `model`,
    /// for each row of `request`.
    pub(crate) fn raise(
        &self,
        model: usize,
        request: ArrayView2<'_, f32>,
        scored: &ScoredTools,
        cosines: &mut [Vec<f32>],
    ) {
        if model != self.model {
            return;
        }
        let all_similarities = self.rows.products(&Rows::from_vectors(request));
        for (cosines, similarities) in cosines.iter_mut().zip(&all_similarities) {
            for (TaggedTool { tool, length, .. }, tags) in self.tools() {
                let Some(position) = scored.position(*tool) else {
                    continue;
                };
                let (mut nearest, mut sum) = (f32::NEG_INFINITY, 0.0);
                for &tag in tags {
                    let similarity = similarities[tag as usize];
                    nearest = nearest.max(similarity);
                    sum += similarity;
                }
                // If the vectors cancel out, only rounding errors remain.
                if nearest > MIN_SIMILARITY && length.is_normal() {
                    let product = cosines[position] + tag_weight(tags.len()) * sum;
                    cosines[position] = cosines[position].max((product / length).min(1.0));
                }
            }
        }
    }

    /// Returns the tools whose tags are similar to a row of `request`, the most similar first, at
    /// most `count`. `admitted` has a flag per tool.
    pub(crate) fn nearest_tools(
        &self,
        model: usize,
        request: ArrayView2<'_, f32>,
        admitted: &[bool],
        count: usize,
    ) -> Vec<ToolId> {
        if model != self.model {
            return Vec::new();
        }
        let mut near_tools = Vec::new();
        let all_similarities = self.rows.products(&Rows::from_vectors(request));
        for (&TaggedTool { tool, .. }, tags) in self.tools() {
            if !admitted[tool.index()] {
                continue;
            }
            let mut nearest = MIN_SIMILARITY;
            for similarities in &all_similarities {
                for &tag in tags {
                    nearest = nearest.max(similarities[tag as usize]);
                }
            }
            if nearest > MIN_SIMILARITY {
                near_tools.push((nearest, tool));
            }
        }
        near_tools.sort_by(|(a, tool), (b, other)| b.total_cmp(a).then(tool.cmp(other)));
        near_tools.truncate(count);
        near_tools.into_iter().map(|(_, tool)| tool).collect()
    }

    /// Returns the tools with tags, each with the rows of its tags.
    fn tools(&self) -> impl Iterator<Item = (&TaggedTool, &[u32])> {
        let mut start = 0;
        self.tools.iter().map(move |tool| {
            let tags = &self.tags[start as usize..tool.end as usize];
            start = tool.end;
            (tool, tags)
        })
    }

    /// Returns the memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.tools) + size_of_val(&*self.tags) + self.rows.memory()
    }
}

/// Returns the weight of each tag in its tool's centroid.
fn tag_weight(tags: usize) -> f32 {
    TAG_WEIGHT * (FULL_TAGS / tags as f32).min(1.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ndarray::{Array1, Axis};

    use super::*;
    use crate::catalog::Tool;
    use crate::embed::{Embedder, StaticEmbedder};
    use crate::index::{Index, IndexConfig};

    fn index(tags: &[&[&str]], without_tags: bool) -> Index {
        let mut tools = Vec::new();
        for (number, tags) in tags.iter().enumerate() {
            let mut tool = Tool::without_arguments(format!("tool_{number}"), "Returns a value");
            tool.tags = tags.iter().map(|&tag| tag.to_owned()).collect();
            tools.push(tool);
        }
        let embedders: Vec<Arc<dyn Embedder>> =
            vec![StaticEmbedder::shared().expect("the model is valid")];
        let config = IndexConfig {
            embedders,
            without_tags,
            ..IndexConfig::default()
        };
        let catalog = Catalog::from_tools(tools).expect("the tools are valid");
        Index::build(catalog, config).expect("it can be indexed")
    }

    #[test]
    fn raised_similarities_are_those_of_centroids() {
        let index = index(&[&["weather", "public data"], &["football"], &[]], false);
        let (tags, vectors) = (
            index.tags.as_ref().expect("there are tags"),
            &index.vectors[0],
        );
        let embed = |text: &str| {
            let embedder = vectors.embedder();
            let texts = embedder.embed(TextRole::Query, &[text], &|_| {});
            Array1::from_vec(texts.expect("it works").remove(0))
        };
        let request = embed("weather");
        let scored = ScoredTools::All(3);
        let before: Vec<f32> = (0..3)
            .map(|tool| vectors.vector(ToolId(tool)).dot(&request))
            .collect();
        let mut raised = vec![before.clone()];
        tags.raise(
            vectors.model(),
            request.view().insert_axis(Axis(0)),
            &scored,
            &mut raised,
        );
        let sum = embed("weather") + embed("public data");
        let centroid = vectors.vector(ToolId(0)) + TAG_WEIGHT * sum;
        let expected = centroid.dot(&request) / centroid.dot(&centroid).sqrt();
        assert!(
            (raised[0][0] - expected).abs() < 4e-3,
            "{raised:?} {expected}"
        );
        assert!(
            expected > before[0] && raised[0][1..] == before[1..],
            "{before:?} {raised:?}"
        );
    }

    #[test]
    fn equal_tags_share_a_vector() {
        let index = index(
            &[&["weather", "public_data"], &[], &["public data"], &["…"]],
            false,
        );
        let tags = index.tags.expect("there are tags");
        assert_eq!(tags.rows.len(), 2);
        let by_tool = tags.tools().map(|(tool, tags)| (tool.tool, tags));
        let tools: Vec<(ToolId, &[u32])> = by_tool.collect();
        let expected: [(ToolId, &[u32]); 2] = [(ToolId(0), &[0, 1]), (ToolId(2), &[1])];
        assert_eq!(tools, expected);
    }

    #[test]
    fn catalog_without_tags_has_no_tag_index() {
        assert!(index(&[&[], &[]], false).tags.is_none());
        assert!(index(&[&["weather"]], true).tags.is_none());
    }

    #[test]
    fn nearest_tools_are_admitted_and_in_order() {
        let index = index(
            &[
                &["football"],
                &["weather"],
                &["weather forecast"],
                &["weather"],
            ],
            false,
        );
        let tags = index.tags.as_ref().expect("there are tags");
        let vectors = &index.vectors[0];
        let request = vectors
            .embedder()
            .embed(TextRole::Query, &["weather"], &|_| {})
            .expect("it works");
        let shape = (1, vectors.embedder().dimensions());
        let request = ArrayView2::from_shape(shape, &request[0]).expect("one row");
        let nearest = |admitted: [bool; 4], count| {
            tags.nearest_tools(vectors.model(), request, &admitted, count)
        };
        assert_eq!(nearest([true; 4], 2), [ToolId(1), ToolId(3)]);
        assert_eq!(nearest([true, false, true, false], 1), [ToolId(2)]);
        assert!(tags.nearest_tools(7, request, &[true; 4], 2).is_empty());
    }
}
