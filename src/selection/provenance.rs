//! The provenance of a score: the evidence of each stage.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::examples::ExampleOrigin;
use crate::fuse::Fusion;
use crate::retrieve::AlternativeKind;
use crate::text::{Field, TermKind, ValueKind};

/// The origin of a score.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Provenance {
    /// The name of the ranking: `keyword`, `semantic`, `hybrid`, or a scorer's name.
    pub scorer: String,
    /// The mention: the name by which the request names the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// `true` if the caller always includes the tool.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub always_included: bool,
    /// `true` if the tool is a fallback of the caller, picked because no other tool is likely to
    /// fit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fallback: bool,
    /// The name by which the task called the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<String>,
    /// The picked skills that need the tool, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needed_by: Vec<String>,
    /// The ids of the picks that require the tool, in the order of the picks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<String>,
    /// The ids of the ineligible tools that it requires.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires_ineligible: Vec<String>,
    /// The subquery that the tool was picked for. Present if other tools rank higher, or if the
    /// tool does not reach `min_score` for the whole request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covers: Option<CoverEvidence>,
    /// The evidence of the keyword retriever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyword: Option<KeywordEvidence>,
    /// The evidence of the semantic retrievers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub semantic: Vec<SemanticEvidence>,
    /// The fusion of the retrievers' scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fusion: Option<FusionEvidence>,
    /// The contribution of the tool's examples, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examples: Option<ExampleEvidence>,
    /// The gain from tools in use and from popularity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior: Option<PriorEvidence>,
    /// The evidence of the reranker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerank: Option<RerankEvidence>,
    /// Further evidence from a custom scorer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// The evidence of the quick retrievers for one subquery, which is ranked like a request of its
/// own.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CoverEvidence {
    /// The text of the subquery.
    pub part: String,
    /// The tool's score for the subquery, 0..1.
    pub score: f32,
    /// The evidence of the keyword retriever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyword: Option<KeywordEvidence>,
    /// The evidence of the static model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semantic: Option<SemanticEvidence>,
    /// The contribution of the tool's examples, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examples: Option<ExampleEvidence>,
}

/// The contribution of a tool's examples.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExampleEvidence {
    /// The gain of the fused value.
    pub gain: f32,
    /// The gain as a share of the fused value, 0..1.
    pub share: f32,
    /// The example most similar to the request.
    pub nearest: String,
    /// The origin of that example.
    pub origin: ExampleOrigin,
}

/// The evidence of the keyword retriever for a tool.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct KeywordEvidence {
    /// The rank among the eligible tools, from 1; absent if no term matched. In catalogs of 8,192
    /// tools or more, only tools that may be near the request are scored and ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// The BM25 score: half that of the whole request, half that of the sentence that fits the tool
    /// best.
    pub score: f32,
    /// The contribution of the context to the score; absent if the request has no context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<f32>,
    /// The contribution of examples to the score; absent if no tool has examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examples: Option<f32>,
    /// The matching terms, in the order of the request.
    pub terms: Vec<TermEvidence>,
}

/// A matching term.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct TermEvidence {
    /// The term in the request.
    pub word: String,
    /// The matching term in the tool, in the first of the fields: `bookings` in a request may match
    /// `booking`. A value matches a parameter that accepts it.
    pub meets: String,
    /// The kind of term: a word, an identifier, a pair of words or a value.
    pub kind: TermKind,
    /// The text as which the word is read; absent for a word that is read as itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_as: Option<WordReading>,
    /// The kind of value; absent for words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<ValueKind>,
    /// The contribution to the score, halved if the best sentence does not contain the term.
    pub contribution: f32,
    /// The fields that contain it.
    pub fields: Vec<Field>,
}

/// The text as which a word of a request is read, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WordReading {
    /// The text, such as `email` for `emial` or `pull request` for `PR`.
    pub text: String,
    /// The reason: a typo, an abbreviation, another form or a compound.
    pub kind: AlternativeKind,
}

/// The evidence of a semantic retriever for a tool.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SemanticEvidence {
    /// The rank among the eligible tools, from 1. In catalogs of 8,192 tools or more, only tools
    /// that may be near the request are scored and ranked.
    pub rank: Option<usize>,
    /// The cosine similarity, -1..1: half that of the whole request, half that of the sentence
    /// nearest to the tool.
    pub score: f32,
    /// The contribution of the context to the score; absent if the request has no context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<f32>,
    /// The contribution of examples to the score; absent if no tool has examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examples: Option<f32>,
    /// The identity of the embedding model.
    pub model: String,
    /// `true` if the model is the fallback for one that failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stands_in: bool,
    /// The words of the request that contribute most, at most 4, the weightiest first. Empty if the
    /// model has no word vectors
    /// ([`Embedder::word_vectors`](crate::embed::Embedder::word_vectors)).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<WordEvidence>,
}

/// A word of the request with the most similar word of the tool.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct WordEvidence {
    /// The word, as it first occurs in the request.
    pub word: String,
    /// The contribution of all its occurrences to the cosine similarity of the whole request, over
    /// all words of the tool.
    pub contribution: f32,
    /// The word of the tool that contributes most with it.
    pub meets: String,
    /// The field that contains this word.
    pub field: Field,
    /// Cosine similarity of the two words, 0..1; 1 for the same word.
    pub similarity: f32,
}

/// The fusion of the retrievers' scores.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct FusionEvidence {
    /// The method and its constants.
    #[serde(flatten)]
    pub method: Fusion,
    /// The parts of a weighted sum, by `keyword` or the identity of a model. Empty for reciprocal
    /// ranks, which the retrievers' evidence contains.
    pub parts: BTreeMap<String, FusionPart>,
    /// The contribution of the tool's source to a weighted sum, if sources carry a signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceEvidence>,
    /// The fused value, which orders the tools. It includes the contributions of source and prior.
    pub value: f32,
}

/// The contribution of a tool's source, which is scored as one document made of all its tools.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SourceEvidence {
    /// The gain of the fused value.
    pub gain: f32,
    /// `true` if no source of an eligible tool contributes more.
    pub best: bool,
}

/// The part of one retriever in a fused value.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct FusionPart {
    /// The retriever's weight for this request.
    pub weight: f32,
    /// The retriever's score.
    pub score: f32,
}

/// The gain of a tool that is often called, either together with tools in use or at all.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PriorEvidence {
    /// The gain of the fused value.
    pub gain: f32,
    /// The tools in use that raise it, the strongest first.
    pub by: Vec<CallCooccurrence>,
    /// The frequency of its calls, if [`PickOptions::popularity`](crate::PickOptions::popularity)
    /// is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub popular: Option<CallFrequency>,
}

/// The frequency of a tool's calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CallFrequency {
    /// The number of tasks that called the tool.
    pub tasks: u32,
    /// The mean number of tasks per called tool.
    pub expected: f32,
    /// The gain as a logarithm of odds, at most ln 4.
    pub log_ratio: f32,
}

/// The frequency of calls together with a tool in use.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CallCooccurrence {
    /// The id of the tool in use.
    pub tool_id: String,
    /// The number of tasks that called both.
    pub together: u32,
    /// The number of tasks that would call both if they were independent.
    pub expected: f32,
    /// The logarithm of the likelihood ratio, shrunk if there are few tasks.
    pub log_ratio: f32,
}

/// The evidence of the reranker for a tool.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RerankEvidence {
    /// The reranker's score, which orders the window. Its range depends on the reranker.
    pub score: f32,
    /// The position before reranking, from 1.
    pub before: usize,
    /// The position after reranking, from 1.
    pub after: usize,
}
