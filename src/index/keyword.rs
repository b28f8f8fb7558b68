//! The keyword index: an inverted index on tantivy, scored exhaustively with BM25.
//!
//! All fields of a tool fold into one indexed field. A field's weight multiplies its term frequencies and its
//! length alike, as in BM25F (Robertson, Zaragoza, Taylor 2004), and is realised by indexing each term that many
//! times. One index segment holds the whole catalog, so that tantivy's document numbers are [`ToolId`]s.
//!
//! Scoring visits every posting of every query term instead of pruning to a top k. For catalogs of this size that
//! is as fast, it gives each tool's exact score to the fusion, and a narrow role costs nothing extra.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use tantivy::directory::RamDirectory;
use tantivy::schema::{Field as IndexField, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{PreTokenizedString, TextAnalyzer, Token};
use tantivy::{Index, InvertedIndexReader, TERMINATED, TantivyDocument, Term};

use super::analysis::analyzer;
use crate::catalog::document::{Field, texts};
use crate::catalog::{Catalog, Tool};
use crate::error::IndexError;

/// BM25's term-frequency saturation, in units of whole (not halved) field weights.
const K1: f32 = 1.6;
/// BM25's length normalisation.
const B: f32 = 0.7;
/// Field weights are multiples of this.
const WEIGHT_UNIT: f32 = 0.5;
/// Memory for building the index, in bytes; what does not fit is flushed to the segment.
const BUILD_MEMORY: usize = 128 << 20;
/// How many tools are analysed in parallel before they are written; bounds the memory that their terms take.
const TOOLS_PER_STEP: usize = 2048;

/// How many times a term of the field is indexed, in units of [`WEIGHT_UNIT`].
///
/// Set by a coarse search over the benchmarks; see `docs/results.md`. Titles and aliases are absent there and
/// stand with descriptions and between them and names.
fn repeats(field: Field) -> u8 {
    match field {
        Field::Name => 8,
        Field::Aliases => 4,
        Field::Title | Field::Description | Field::EnumValues => 2,
        Field::Tags | Field::ParameterNames | Field::ParameterDescriptions => 1,
    }
}

/// The inverted index over one catalog.
pub(crate) struct KeywordIndex {
    inverted: Arc<InvertedIndexReader>,
    field: IndexField,
    /// BM25's denominator without the term frequency, by tool.
    norms: Vec<f32>,
    average_length: f32,
}

impl KeywordIndex {
    /// Indexes every tool of `catalog`.
    pub(crate) fn build(catalog: &Catalog) -> Result<Self, IndexError> {
        let mut schema = Schema::builder();
        let indexing =
            TextFieldIndexing::default().set_index_option(IndexRecordOption::WithFreqs).set_fieldnorms(false);
        let field = schema.add_text_field("document", TextOptions::default().set_indexing_options(indexing));
        let mut writer = Index::builder()
            .schema(schema.build())
            .single_segment_index_writer(RamDirectory::create(), BUILD_MEMORY)?;
        let mut lengths = Vec::with_capacity(catalog.len());
        for tools in catalog.tools().chunks(TOOLS_PER_STEP) {
            let documents: Vec<Vec<Token>> =
                tools.par_iter().map_init(analyzer, |analyzer, tool| weighted_terms(tool, analyzer)).collect();
            for tokens in documents {
                lengths.push(tokens.len() as f32 * WEIGHT_UNIT);
                let mut document = TantivyDocument::new();
                document.add_pre_tokenized_text(field, PreTokenizedString { text: String::new(), tokens });
                writer.add_document(document)?;
            }
        }
        let index = writer.finalize()?;
        let searcher = index.reader()?.searcher();
        let inverted = searcher.segment_reader(0).inverted_index(field)?;
        let average_length = (lengths.iter().sum::<f32>() / lengths.len().max(1) as f32).max(1.0);
        let norms = lengths.iter().map(|length| K1 * (1.0 - B + B * length / average_length)).collect();
        Ok(Self { inverted, field, norms, average_length })
    }

    /// Adds the BM25 contribution of `term` to the score of each tool that has it, and returns the largest
    /// contribution that the term could make to any tool; `None` where no tool has it.
    ///
    /// `scores` has one number a tool. The inverse document frequency is `ln(1 + N / n)`.
    pub(crate) fn add_scores(&self, term: &str, scores: &mut [f32]) -> Result<Option<f32>, IndexError> {
        let term = Term::from_field_text(self.field, term);
        let Some(mut postings) = self.inverted.read_block_postings(&term, IndexRecordOption::WithFreqs)? else {
            return Ok(None);
        };
        let weight = self.idf(postings.doc_freq()) * (K1 + 1.0);
        while !postings.docs().is_empty() {
            for (&doc, &frequency) in postings.docs().iter().zip(postings.freqs()) {
                if doc == TERMINATED {
                    break;
                }
                scores[doc as usize] += contribution(weight, frequency, self.norms[doc as usize]);
            }
            postings.advance();
        }
        Ok(Some(weight))
    }

    /// Returns what each of `terms` contributes to the score of one tool, by field, for an explanation.
    pub(crate) fn explain(&self, tool: &Tool, terms: &[&str]) -> Result<Vec<TermMatch>, IndexError> {
        let mut analyzer = analyzer();
        let mut found: HashMap<String, (u32, Vec<Field>)> = HashMap::new();
        let mut length = 0_u32;
        for (field, text) in texts(tool) {
            let mut stream = analyzer.token_stream(text);
            while stream.advance() {
                length += u32::from(repeats(field));
                let token = &stream.token().text;
                if !terms.contains(&token.as_str()) {
                    continue;
                }
                let (frequency, fields) = found.entry(token.clone()).or_default();
                *frequency += u32::from(repeats(field));
                if !fields.contains(&field) {
                    fields.push(field);
                }
            }
        }
        let norm = K1 * (1.0 - B + B * (length as f32 * WEIGHT_UNIT) / self.average_length);
        terms
            .iter()
            .enumerate()
            .filter_map(|(index, term)| {
                found.remove(*term).map(|(frequency, fields)| (index, *term, frequency, fields))
            })
            .map(|(index, term, frequency, fields)| {
                let doc_freq = self.inverted.doc_freq(&Term::from_field_text(self.field, term))?;
                let weight = self.idf(doc_freq) * (K1 + 1.0);
                Ok(TermMatch { term: index, contribution: contribution(weight, frequency, norm), fields })
            })
            .collect()
    }

    /// Returns how many terms the index tells apart.
    pub(crate) fn distinct_terms(&self) -> usize {
        self.inverted.terms().num_terms()
    }

    fn idf(&self, doc_freq: u32) -> f32 {
        (1.0 + self.norms.len() as f32 / doc_freq as f32).ln()
    }
}

/// One query term found in one tool.
pub(crate) struct TermMatch {
    /// Index of the term in the query's terms.
    pub(crate) term: usize,
    /// What it adds to the tool's BM25 score.
    pub(crate) contribution: f32,
    /// Where it stands.
    pub(crate) fields: Vec<Field>,
}

fn contribution(weight: f32, frequency: u32, norm: f32) -> f32 {
    let frequency = frequency as f32 * WEIGHT_UNIT;
    weight * frequency / (frequency + norm)
}

/// The terms of a tool, each as often as its field weighs.
fn weighted_terms(tool: &Tool, analyzer: &mut TextAnalyzer) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (field, text) in texts(tool) {
        analyzer.token_stream(text).process(&mut |token| {
            tokens.extend((0..repeats(field)).map(|_| Token { text: token.text.clone(), ..Token::default() }));
        });
    }
    tokens
}
