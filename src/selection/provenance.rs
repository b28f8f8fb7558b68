//! Where a tool's score comes from: what each stage says of it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::examples::ExampleOrigin;
use crate::fuse::Fusion;
use crate::text::{Field, TermKind, ValueKind};

/// Where a score comes from.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Provenance {
    /// What ranked: `keyword`, `semantic`, `hybrid`, or a scorer's name.
    pub scorer: String,
    /// The name by which the request names the tool outright.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// Whether the caller wants the tool whatever its score.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub always_included: bool,
    /// The name by which the task has called the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<String>,
    /// The picked skills that need the tool, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needed_by: Vec<String>,
    /// The ids of the picked tools that require the tool, in the order of the picks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<String>,
    /// The ids of the tools that it requires and the caller may not see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires_ineligible: Vec<String>,
    /// The part of the request that the tool was picked for, although others outrank it or it does
    /// not reach `min_score` for the whole request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covers: Option<CoverEvidence>,
    /// What the keyword retriever says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyword: Option<KeywordEvidence>,
    /// What the semantic retriever says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub semantic: Vec<SemanticEvidence>,
    /// How the retrievers' scores became one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fusion: Option<FusionEvidence>,
    /// What the tool's examples add, where they add something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examples: Option<ExampleEvidence>,
    /// What the tool has gained by those in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior: Option<PriorEvidence>,
    /// What the reranker says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerank: Option<RerankEvidence>,
    /// What a custom scorer adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// What the quick retrievers say of a tool for one part of the request, asked as a request of its
/// own.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CoverEvidence {
    /// The part.
    pub part: String,
    /// The tool's score for it, 0..1.
    pub score: f32,
    /// What the keyword retriever says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyword: Option<KeywordEvidence>,
    /// What the static model says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semantic: Option<SemanticEvidence>,
    /// What the tool's examples add, where they add something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examples: Option<ExampleEvidence>,
}

/// What the examples of a tool add: requests that it is for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExampleEvidence {
    /// What the fused value gains.
    pub gain: f32,
    /// The gain as a share of the fused value, 0..1.
    pub share: f32,
    /// The example that is most like the request.
    pub nearest: String,
    /// Where that comes from.
    pub origin: ExampleOrigin,
}

/// What the keyword retriever says of a tool.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct KeywordEvidence {
    /// Place among the eligible tools, from 1; absent where no term matched. From 8,192 tools on,
    /// where only those that may be near the request are scored, among these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// BM25 score: half that of the whole request, half that of the sentence that fits the tool
    /// best.
    pub score: f32,
    /// By how much what the user said before changes the score; absent where the request stands
    /// alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<f32>,
    /// By how much examples raise the score; absent where no tool has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examples: Option<f32>,
    /// The request's terms that the tool has, in the order of the request.
    pub terms: Vec<TermEvidence>,
}

/// One term of the request in one tool.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct TermEvidence {
    /// The term as the request has it.
    pub word: String,
    /// The term as the tool has it, in the first of the fields: `bookings` of a request may meet
    /// `booking`. A value meets a parameter that takes such a thing.
    pub meets: String,
    /// Whether it is a word, an identifier, a pair of words or a value.
    pub kind: TermKind,
    /// What a value is; absent of words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<ValueKind>,
    /// What it adds to the score; half as much where the best sentence does not have it.
    pub contribution: f32,
    /// The fields that hold it.
    pub fields: Vec<Field>,
}

/// What the semantic retriever says of a tool.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SemanticEvidence {
    /// Place among the eligible tools, from 1. From 8,192 tools on, where only those that may be
    /// near the request are scored, among these.
    pub rank: Option<usize>,
    /// Cosine similarity, -1..1: half that of the whole request, half that of the sentence nearest
    /// to the tool.
    pub score: f32,
    /// By how much what the user said before changes the score; absent where the request stands
    /// alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<f32>,
    /// By how much examples raise the score; absent where no tool has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examples: Option<f32>,
    /// Identity of the embedding model.
    pub model: String,
    /// Whether the model is there because another one failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stands_in: bool,
    /// The words of the request that bring the tool nearest, at most 4, the weightiest first; none
    /// where the model cannot tell
    /// ([`Embedder::word_vectors`](crate::embed::Embedder::word_vectors)).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<WordEvidence>,
}

/// One word of the request, and the word of the tool that it meets best.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct WordEvidence {
    /// The word as the request has it first.
    pub word: String,
    /// What it adds to the cosine similarity of the whole request, wherever it stands there, all
    /// words of the tool taken together.
    pub contribution: f32,
    /// The word of the tool, as the tool has it, with which it adds most.
    pub meets: String,
    /// The field that this word stands in.
    pub field: Field,
    /// Cosine similarity of the two words, 0..1; 1 for the same word.
    pub similarity: f32,
}

/// How the retrievers' scores became one.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct FusionEvidence {
    /// The method and its constants.
    #[serde(flatten)]
    pub method: Fusion,
    /// Each retriever's part in a weighted sum, by `keyword` or the identity of a model; empty for
    /// reciprocal ranks, which stand with the retrievers.
    pub parts: BTreeMap<String, FusionPart>,
    /// What the tool's source adds to a weighted sum, where sources tell something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceEvidence>,
    /// The fused value, by which tools are ordered; with what the source and the prior add.
    pub value: f32,
}

/// What the source of a tool adds, as one document made of all of its tools.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SourceEvidence {
    /// What the fused value gains.
    pub gain: f32,
    /// Whether no source of an eligible tool adds more.
    pub best: bool,
}

/// One retriever's part in a fused value.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct FusionPart {
    /// The retriever's weight at this request.
    pub weight: f32,
    /// The retriever's score.
    pub score: f32,
}

/// What a tool gains because it is often called, in tasks with those that are in use or at all.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PriorEvidence {
    /// What the fused value gains.
    pub gain: f32,
    /// The tools in use that it gains by, the most telling first.
    pub by: Vec<CalledTogether>,
    /// How often it is called, where that is to count
    /// ([`PickOptions::popularity`](crate::PickOptions::popularity)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub popular: Option<CalledOften>,
}

/// How often a tool was called.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CalledOften {
    /// In how many tasks.
    pub tasks: u32,
    /// In how many a tool is that is called at all.
    pub expected: f32,
    /// The gain as a logarithm of odds, at most that of four.
    pub log_ratio: f32,
}

/// How often a tool was called together with one that is in use.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CalledTogether {
    /// The id of the tool in use.
    pub tool_id: String,
    /// In how many tasks both were called.
    pub together: u32,
    /// In how many tasks they would both have been, had they nothing to do with each other.
    pub expected: f32,
    /// The logarithm of how much more likely the tool is for that, shrunken where few tasks tell.
    pub log_ratio: f32,
}

/// What the reranker says of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RerankEvidence {
    /// The reranker's score, by which the window is ordered; its range is the reranker's own.
    pub score: f32,
    /// Place in the ranking that the reranker was shown, from 1.
    pub before: usize,
    /// Place after reranking, from 1.
    pub after: usize,
}
