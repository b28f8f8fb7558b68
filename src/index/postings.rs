//! The words of a segment: which tools hold a term, how often, and how long each tool is.
//!
//! All fields of a tool fold into one indexed field. A field's weight multiplies its term frequencies and its
//! length alike, as in BM25F (Robertson, Zaragoza, Taylor 2004), and is realised by indexing each term that many
//! times. The inverted index is a tantivy index of one segment without field norms, so that its document numbers are the
//! tools' places in ours; of tantivy's own statistics only a term's document frequency is read.

use std::sync::Arc;

use rayon::prelude::*;
use tantivy::directory::RamDirectory;
use tantivy::postings::TermInfo;
use tantivy::schema::{Field as IndexField, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{Index, InvertedIndexReader, TERMINATED, TantivyDocument, Term};

use super::forward::{ForwardIndex, ToolTerms};
use crate::catalog::Tool;
use crate::text::{AnalyzedTerm, Analyzer, Field, Taken, TermKind, taken, texts, words};

/// Field weights are multiples of this.
pub(super) const WEIGHT_UNIT: f32 = 0.5;
/// Memory for building the index, in bytes; what does not fit is flushed to the segment.
const BUILD_MEMORY: usize = 128 << 20;
/// How many tools are analysed in parallel before they are written; bounds the memory that their terms take.
const TOOLS_PER_STEP: usize = 2048;

/// How many times the words of a name are indexed together.
const NAME_REPEATS: u8 = 16;

/// How many times a term of the field, in this text, is indexed, in units of [`WEIGHT_UNIT`].
///
/// Set by a coarse search over the benchmarks; see `docs/results.md`. Titles and aliases are absent there and
/// stand with descriptions and between them and names. What a name weighs is shared by its words: in `send_mail` each says
/// half of what the tool is, in `list_merge_requests_of_repository` a fifth.
pub(super) fn repeats(field: Field, text: &str) -> u8 {
    match field {
        Field::Name => {
            let words = words(text).take(usize::from(NAME_REPEATS)).count().max(1);
            // At most what there is to share.
            u8::try_from((2 * usize::from(NAME_REPEATS) + words) / (2 * words)).unwrap_or(NAME_REPEATS)
        }
        Field::Aliases => 4,
        Field::Title | Field::Description | Field::EnumValues | Field::ParameterNames => 2,
        Field::Tags | Field::ParameterDescriptions => 1,
    }
}

/// How many times a kind of value is indexed that a tool takes.
const VALUE_REPEATS: u8 = 2;

/// How many times a term is indexed. Pairs are formed of names and prose only.
fn term_repeats(field: Field, repeats: u8, kind: TermKind) -> u8 {
    match (kind, field) {
        (TermKind::Pair, Field::Tags | Field::ParameterNames | Field::ParameterDescriptions | Field::EnumValues) => 0,
        _ => repeats,
    }
}

/// What a term adds to the length of its document, in units of [`WEIGHT_UNIT`]: only words make it longer.
fn term_length(repeats: u8, kind: TermKind) -> u32 {
    if kind == TermKind::Word { u32::from(repeats) } else { 0 }
}

/// The inverted index over the tools of a segment, and the forward index that explains what it finds.
pub(super) struct Postings {
    inverted: Arc<InvertedIndexReader>,
    field: IndexField,
    pub(super) forward: ForwardIndex,
    /// The length of each tool, in units of [`WEIGHT_UNIT`].
    pub(super) lengths: Vec<u32>,
}

impl Postings {
    /// Indexes `tools`.
    pub(super) fn build(tools: &[Arc<Tool>]) -> tantivy::Result<Self> {
        let mut schema = Schema::builder();
        let indexing =
            TextFieldIndexing::default().set_index_option(IndexRecordOption::WithFreqs).set_fieldnorms(false);
        let field = schema.add_text_field("document", TextOptions::default().set_indexing_options(indexing));
        let mut writer = Index::builder()
            .schema(schema.build())
            .single_segment_index_writer(RamDirectory::create(), BUILD_MEMORY)?;
        let mut lengths = Vec::with_capacity(tools.len());
        let mut forward = ForwardIndex::default();
        for tools in tools.chunks(TOOLS_PER_STEP) {
            let documents: Vec<Analysis> =
                tools.par_iter().map_init(Analyzer::new, |analyzer, tool| analyse(tool, analyzer)).collect();
            for Analysis { tokens, terms, length } in documents {
                lengths.push(length);
                forward.push(&terms);
                let mut document = TantivyDocument::new();
                document.add_pre_tokenized_text(field, PreTokenizedString { text: String::new(), tokens });
                writer.add_document(document)?;
            }
        }
        let index = writer.finalize()?;
        let searcher = index.reader()?.searcher();
        let inverted = searcher.segment_reader(0).inverted_index(field)?;
        Ok(Self { inverted, field, forward, lengths })
    }

    /// Looks a term up; `None` where no tool has it.
    pub(super) fn look_up(&self, term: &str) -> tantivy::Result<Option<TermInfo>> {
        Ok(self.inverted.get_term_info(&Term::from_field_text(self.field, term))?)
    }

    /// Tells `each` the place of every tool that has the term, and how often it has it.
    pub(super) fn each(&self, info: &TermInfo, mut each: impl FnMut(usize, u32)) -> tantivy::Result<()> {
        let mut postings = self.inverted.read_block_postings_from_terminfo(info, IndexRecordOption::WithFreqs)?;
        while !postings.docs().is_empty() {
            for (&doc, &frequency) in postings.docs().iter().zip(postings.freqs()) {
                if doc == TERMINATED {
                    break;
                }
                each(doc as usize, frequency);
            }
            postings.advance();
        }
        Ok(())
    }

    /// Returns how many terms there are that none of `others` has.
    pub(super) fn terms_beside(&self, others: &[&Self]) -> tantivy::Result<usize> {
        let terms = self.inverted.terms();
        if others.is_empty() {
            return Ok(terms.num_terms());
        }
        let (mut own, mut count) = (terms.stream()?, 0);
        while own.advance() {
            let mut is_new = true;
            for other in others {
                is_new &= other.inverted.terms().get(own.key())?.is_none();
            }
            count += usize::from(is_new);
        }
        Ok(count)
    }
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

impl Analysis {
    /// Counts a term so many times.
    fn add(&mut self, term: &str, repeats: u8, field: Field) {
        if repeats > 0 {
            let token = Token { text: term.to_owned(), position: 0, ..Token::default() };
            self.tokens.extend(std::iter::repeat_n(token, usize::from(repeats)));
            self.terms.add(term, u32::from(repeats), field);
        }
    }
}

fn analyse(tool: &Tool, analyzer: &mut Analyzer) -> Analysis {
    let mut analysis = Analysis::default();
    for (field, text) in texts(tool) {
        let repeats = repeats(field, text);
        analyzer.terms(text, |AnalyzedTerm { term, kind, .. }| {
            analysis.length += term_length(repeats, kind);
            analysis.add(term, term_repeats(field, repeats, kind), field);
        });
    }
    for Taken { kind, field, .. } in taken(tool) {
        analysis.add(kind.term(), VALUE_REPEATS, field);
    }
    analysis.terms.merge();
    analysis
}
