//! The keyword index: an inverted index on tantivy, scored exhaustively with BM25.
//!
//! All fields of a tool fold into one indexed field. A field's weight multiplies its term frequencies and its
//! length alike, as in BM25F (Robertson, Zaragoza, Taylor 2004), and is realised by indexing each term that many
//! times. One index segment holds the whole catalog, so that tantivy's document numbers are [`ToolId`]s.
//!
//! Explaining reads no postings: a forward index tells which of a request's terms a tool holds, and where.
//!
//! Scoring visits every posting of every query term instead of pruning to a top k. For catalogs of this size that
//! is as fast, it gives each tool's exact score to the fusion, and a narrow role costs nothing extra.

use std::sync::Arc;

use rayon::prelude::*;
use tantivy::directory::RamDirectory;
use tantivy::postings::TermInfo;
use tantivy::schema::{Field as IndexField, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{Index, InvertedIndexReader, TERMINATED, TantivyDocument, Term};

use super::forward::{ForwardIndex, TermKey, ToolTerms};
use crate::catalog::{Catalog, Tool};
use crate::error::IndexError;
use crate::ranking::ToolId;
use crate::text::{AnalyzedTerm, Analyzer, Field, TermKind, texts};

/// BM25's term-frequency saturation, in units of whole (not halved) field weights.
const K1: f32 = 1.6;
/// BM25's length normalisation.
const B: f32 = 0.7;
/// Field weights are multiples of this.
const WEIGHT_UNIT: f32 = 0.5;
/// What a pair of words counts beside a word.
const PAIR_WEIGHT: f32 = 0.25;
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

/// How many times a term is indexed. Pairs are formed of names and prose only.
fn term_repeats(field: Field, kind: TermKind) -> u8 {
    match (kind, field) {
        (TermKind::Pair, Field::Tags | Field::ParameterNames | Field::ParameterDescriptions | Field::EnumValues) => 0,
        _ => repeats(field),
    }
}

/// What a term adds to the length of its document, in units of [`WEIGHT_UNIT`]: only words make it longer.
fn term_length(field: Field, kind: TermKind) -> u32 {
    if kind == TermKind::Word { u32::from(repeats(field)) } else { 0 }
}

/// The inverted index over one catalog, and the forward index that explains what it finds.
pub(crate) struct KeywordIndex {
    inverted: Arc<InvertedIndexReader>,
    field: IndexField,
    forward: ForwardIndex,
    /// BM25's denominator without the term frequency, by tool.
    norms: Vec<f32>,
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
            .single_segment_index_writer(RamDirectory::create(), BUILD_MEMORY)
            .map_err(IndexError::keyword)?;
        let mut lengths = Vec::with_capacity(catalog.len());
        let mut forward = ForwardIndex::default();
        for tools in catalog.tools().chunks(TOOLS_PER_STEP) {
            let documents: Vec<Analysis> =
                tools.par_iter().map_init(Analyzer::new, |analyzer, tool| analyse(tool, analyzer)).collect();
            for Analysis { tokens, terms, length } in documents {
                lengths.push(length as f32 * WEIGHT_UNIT);
                forward.push(&terms);
                let mut document = TantivyDocument::new();
                document.add_pre_tokenized_text(field, PreTokenizedString { text: String::new(), tokens });
                writer.add_document(document).map_err(IndexError::keyword)?;
            }
        }
        let index = writer.finalize().map_err(IndexError::keyword)?;
        let searcher = index.reader().map_err(IndexError::keyword)?.searcher();
        let inverted = searcher.segment_reader(0).inverted_index(field).map_err(IndexError::keyword)?;
        let average_length = (lengths.iter().sum::<f32>() / lengths.len().max(1) as f32).max(1.0);
        let norms = lengths.iter().map(|length| K1 * (1.0 - B + B * length / average_length)).collect();
        Ok(Self { inverted, field, forward, norms })
    }

    /// Looks a term up; `None` where no tool has it.
    ///
    /// The inverse document frequency is `ln(1 + N / n)`.
    pub(crate) fn look_up(&self, term: &str, kind: TermKind) -> Result<Option<IndexedTerm>, IndexError> {
        let info =
            self.inverted.get_term_info(&Term::from_field_text(self.field, term)).map_err(IndexError::keyword)?;
        let Some(info) = info else {
            return Ok(None);
        };
        let idf = (1.0 + self.norms.len() as f32 / info.doc_freq as f32).ln();
        let share = if kind == TermKind::Pair { PAIR_WEIGHT } else { 1.0 };
        Ok(Some(IndexedTerm { weight: share * idf * (K1 + 1.0), key: TermKey::of(term), info }))
    }

    /// Tells `each` the index of every tool that has the term, and the term's BM25 contribution to its score.
    pub(crate) fn contributions(
        &self,
        IndexedTerm { info, weight, .. }: &IndexedTerm,
        mut each: impl FnMut(usize, f32),
    ) -> Result<(), IndexError> {
        let mut postings = self
            .inverted
            .read_block_postings_from_terminfo(info, IndexRecordOption::WithFreqs)
            .map_err(IndexError::keyword)?;
        while !postings.docs().is_empty() {
            for (&doc, &frequency) in postings.docs().iter().zip(postings.freqs()) {
                if doc == TERMINATED {
                    break;
                }
                each(doc as usize, contribution(*weight, frequency, self.norms[doc as usize]));
            }
            postings.advance();
        }
        Ok(())
    }

    /// Returns what a term contributes to the score of one tool, and where it stands; `None` where the tool has it not.
    pub(crate) fn explain(&self, tool: ToolId, term: &IndexedTerm) -> Option<(f32, Vec<Field>)> {
        let (frequency, fields) = self.forward.find(tool, term.key)?;
        Some((contribution(term.weight, frequency, self.norms[tool.index()]), fields))
    }

    /// Returns what a term contributes to the score of one tool.
    pub(crate) fn contribution(&self, tool: ToolId, term: &IndexedTerm) -> f32 {
        let frequency = self.forward.frequency(tool, term.key);
        frequency.map_or(0.0, |frequency| contribution(term.weight, frequency, self.norms[tool.index()]))
    }

    /// Returns how many terms the index tells apart.
    pub(crate) fn distinct_terms(&self) -> usize {
        self.inverted.terms().num_terms()
    }
}

/// A term that the index has.
#[derive(Debug)]
pub(crate) struct IndexedTerm {
    /// The largest contribution that the term could make to the score of any tool.
    pub(crate) weight: f32,
    key: TermKey,
    info: TermInfo,
}

fn contribution(weight: f32, frequency: u32, norm: f32) -> f32 {
    let frequency = frequency as f32 * WEIGHT_UNIT;
    weight * frequency / (frequency + norm)
}

/// What the index reads of a tool.
#[derive(Default)]
struct Analysis {
    /// The terms in order, each as often as its field weighs.
    tokens: Vec<Token>,
    /// The same terms, each once.
    terms: ToolTerms,
    /// The tool's length in units of [`WEIGHT_UNIT`].
    length: u32,
}

fn analyse(tool: &Tool, analyzer: &mut Analyzer) -> Analysis {
    let mut analysis = Analysis::default();
    for (field, text) in texts(tool) {
        analyzer.terms(text, |AnalyzedTerm { term, kind, .. }| {
            let repeats = term_repeats(field, kind);
            analysis.length += term_length(field, kind);
            if repeats > 0 {
                let token = Token { text: term.to_owned(), position: 0, ..Token::default() };
                analysis.tokens.extend(std::iter::repeat_n(token, usize::from(repeats)));
                analysis.terms.add(term, u32::from(repeats), field);
            }
        });
    }
    analysis.terms.merge();
    analysis
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// BM25 over field-weighted counts, written out from its definition.
    fn naive_score(tools: &[Tool], tool: &Tool, term: &str, kind: TermKind) -> f64 {
        let count = |tool: &Tool, counts: &dyn Fn(Field, &AnalyzedTerm<'_>) -> f64| {
            let mut sum = 0.0;
            for (field, text) in texts(tool) {
                Analyzer::new().terms(text, |found| sum += counts(field, &found));
            }
            sum
        };
        let weight = |field| f64::from(repeats(field)) / 2.0;
        let length =
            |tool: &Tool| count(tool, &|field, found| if found.kind == TermKind::Word { weight(field) } else { 0.0 });
        let frequency = |tool: &Tool| {
            count(tool, &|field, found| {
                let paired = matches!(field, Field::Name | Field::Title | Field::Aliases | Field::Description);
                if found.term == term && (kind != TermKind::Pair || paired) { weight(field) } else { 0.0 }
            })
        };
        let having = tools.iter().filter(|tool| frequency(tool) > 0.0).count();
        if having == 0 {
            return 0.0;
        }
        let average = (tools.iter().map(length).sum::<f64>() / tools.len() as f64).max(1.0);
        let (k1, b, tf) = (f64::from(K1), f64::from(B), frequency(tool));
        let idf = (1.0 + tools.len() as f64 / having as f64).ln();
        let share = if kind == TermKind::Pair { 0.25 } else { 1.0 };
        share * idf * (k1 + 1.0) * tf / (tf + k1 * (1.0 - b + b * length(tool) / average))
    }

    /// The fields that hold a term, found by reading the tool again.
    fn naive_fields(tool: &Tool, term: &str, kind: TermKind) -> Vec<Field> {
        let paired = |field| matches!(field, Field::Name | Field::Title | Field::Aliases | Field::Description);
        let holds = |wanted: &Field| {
            let mut found = false;
            for (_, text) in texts(tool).into_iter().filter(|(field, _)| field == wanted) {
                Analyzer::new().terms(text, |analyzed| found |= analyzed.term == term);
            }
            found && (kind != TermKind::Pair || paired(*wanted))
        };
        Field::ALL.into_iter().filter(holds).collect()
    }

    fn tools() -> impl Strategy<Value = Vec<Tool>> {
        let word = prop::sample::select(vec!["read", "file", "readFile", "the", "send", "mail", "sendMail", "a"]);
        let text = prop::collection::vec(word, 0..8).prop_map(|words| words.join(" "));
        let tool = (text.clone(), text.clone(), text);
        prop::collection::vec(tool, 1..12).prop_map(|tools| {
            tools
                .into_iter()
                .enumerate()
                .map(|(index, (name, description, parameter))| {
                    let mut tool = Tool::new(format!("t{index} {name}"), description);
                    tool.tags = vec![parameter.clone()];
                    tool.parameters = Some(json!({"properties": {"p": {"description": parameter}}}));
                    tool
                })
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn scores_and_explanations_equal_the_definition(tools in tools()) {
            let catalog = Catalog::from_tools(tools.clone()).expect("valid");
            let index = KeywordIndex::build(&catalog).expect("builds");
            let terms = [
                ("read", TermKind::Word),
                ("mail", TermKind::Word),
                ("readfil", TermKind::Identifier),
                ("send mail", TermKind::Pair),
                ("absent", TermKind::Word),
            ];
            for (term, kind) in terms {
                let mut scores = vec![0.0; tools.len()];
                let found = index.look_up(term, kind).expect("looks up");
                if let Some(found) = &found {
                    index.contributions(found, |tool, contribution| scores[tool] += contribution).expect("scores");
                    prop_assert!(scores.iter().all(|&score| score < found.weight));
                }
                for (id, tool) in catalog.ids().zip(&tools) {
                    let naive = naive_score(&tools, tool, term, kind);
                    prop_assert!((f64::from(scores[id.index()]) - naive).abs() < 1e-4, "{} {}", term, naive);
                    let explained = found.as_ref().and_then(|found| index.explain(id, found));
                    let (contribution, fields) = explained.unwrap_or_default();
                    prop_assert_eq!(contribution.to_bits(), scores[id.index()].to_bits());
                    prop_assert_eq!(fields, naive_fields(tool, term, kind));
                }
            }
        }
    }

    #[test]
    fn an_empty_catalog_has_an_index() {
        let catalog = Catalog::from_tools([]).expect("valid");
        let index = KeywordIndex::build(&catalog).expect("builds");
        assert!(index.look_up("read", TermKind::Word).expect("looks up").is_none());
    }
}
