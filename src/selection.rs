//! The public outcome of a pick.
//!
//! A [`Selection`] serialises to versioned JSON; the same inputs give the same bytes, which is why
//! times stand beside it ([`Selection::timings`]) and not in it.

mod provenance;
mod stages;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

pub use self::provenance::{
    CalledOften, CalledTogether, CoverEvidence, ExampleEvidence, FusionEvidence, FusionPart,
    KeywordEvidence, PriorEvidence, Provenance, RerankEvidence, SemanticEvidence, SourceEvidence,
    TermEvidence, WordEvidence,
};
pub use self::stages::{Degraded, Stage, StageReport, StageStatus, Timings};
use crate::access::IneligibleReason;
use crate::catalog::Detail;
use crate::catalog::{Tool, UnknownValue};
pub use crate::examples::ExampleOrigin;
use crate::excerpt::{MAX_NAME_CHARS, marked};
use crate::names::Skill;
use crate::rerank::Rerank;
pub use crate::text::{Field, TermKind, ValueKind};

/// The version of the serialised form of [`Selection`].
pub const SELECTION_VERSION: u32 = 3;

/// The tools that a request needs, and why.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Selection {
    /// [`SELECTION_VERSION`].
    pub version: u32,
    /// Digest of the catalog that was picked from.
    pub catalog_digest: String,
    /// Of which snapshot of a shared store it was picked; absent where the catalog lies here alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotReport>,
    /// What ranked: `keyword`, `semantic`, `hybrid`, or a scorer's name.
    pub scorer: String,
    /// How many of the eligible tools a custom scorer was shown, where a shortlist bounds them
    /// ([`EngineBuilder::shortlist`](crate::EngineBuilder::shortlist)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortlisted: Option<usize>,
    /// The estimated probability that any tool that may be seen answers the request, 0..1, where
    /// four requests of five have such a tool: of what the tools' signals tell and, as a factor, of
    /// the request alone ([`Embedder::scope`](crate::embed::Embedder::scope)); no less than the
    /// score of a pick, where that is a probability. Absent where a custom scorer ranked, or
    /// nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answerable: Option<f32>,
    /// Where no tool is good enough: of what kind the request is; absent where that cannot be told,
    /// as in catalogs whose sources tell nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing_fits: Option<NothingFits>,
    /// Why the scores are no probabilities; absent where they are estimates of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncalibrated: Option<Uncalibrated>,
    /// The picked tools, best first, at most `max_candidates` besides those in use and those of
    /// picked skills. Empty is a normal answer.
    pub picks: Vec<Pick>,
    /// What the picks require and is not among them, best first, at most 16 tools: without these a
    /// pick may be of no use, whatever they score. [`Selection::shown`] has both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<Pick>,
    /// The skills that the request needs, best first; absent where the engine has none. Their tools
    /// are among the picks, beyond `max_candidates`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub skills: Option<Vec<SkillPick>>,
    /// What the caller may not see.
    pub ineligible: Ineligible,
    /// The tool that would have been the best, had the caller been allowed to use it, as far as the
    /// options have it told ([`PickOptions::tell_blocked`](crate::PickOptions::tell_blocked)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<BlockedMatch>,
    /// How many eligible tools scored below `min_score`, or matched nothing.
    pub below_threshold: usize,
    /// The deprecated aliases by which tools are named, the first 50.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deprecated_aliases: Vec<DeprecatedAlias>,
    /// Names of tools in use that no tool of the catalog has, the latest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_in_use: Vec<String>,
    /// Values of the options that no tool of the catalog has, such as a misspelt role or source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_values: Vec<UnknownValue>,
    /// Tools that the cut took away although they were named, always included, in use, or good
    /// enough.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
    /// Tools whose score was no score, and were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scorer_errors: Vec<String>,
    /// With a token budget: what the definitions cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenReport>,
    /// What each stage did.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub stages: Vec<StageReport>,
    /// What was decided on reranking; absent where none was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub rerank: Option<RerankReport>,
    /// The stages that failed, ran out of time, or were left out for having failed of late, so that
    /// the ranking is worse than it could be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub degraded: Vec<Degraded>,
    /// With `debug`: the evidence of the best 100 candidates, picked or not, and of every picked
    /// one; best first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub considered: Option<Vec<Considered>>,
    /// How long each stage took.
    #[serde(skip)]
    pub timings: Timings,
}

/// The snapshot of a shared store that a selection rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct SnapshotReport {
    /// Its number, which grows with each publication.
    pub version: u64,
    /// How many tools it holds.
    pub tools: usize,
    /// How many of them were ranked here, where the store chose them; absent where all were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<usize>,
}

impl SnapshotReport {
    /// Reports a snapshot by its number, its tools and the number of candidates that the store
    /// chose.
    pub fn new(version: u64, tools: usize, candidates: Option<usize>) -> Self {
        Self {
            version,
            tools,
            candidates,
        }
    }
}

/// Of what kind a request is that no tool fits: an estimate that is right in about five cases of
/// six.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum NothingFits {
    /// It is near the subject of a source, none of whose tools serves it.
    NearSource {
        /// The source of the best tool.
        source: String,
    },
    /// It is out of the scope of every source.
    OutOfScope,
}

impl Selection {
    /// Returns what a model is to be shown: the picks, and after them what they require, each with
    /// as much of it as a token budget leaves.
    pub fn shown(&self) -> Vec<Arc<Tool>> {
        self.picks
            .iter()
            .chain(&self.required)
            .map(Pick::shown)
            .collect()
    }
}

/// Why scores are no probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Uncalibrated {
    /// They are shares of the largest possible sum of reciprocal ranks.
    Ranks,
    /// Fewer tools are eligible than the smallest catalog has that they were calibrated on: 45.
    FewTools,
    /// They are a custom scorer's own.
    CustomScorer,
}

impl fmt::Display for Uncalibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ranks => "they are shares of the largest sum of reciprocal ranks",
            Self::FewTools => "they were calibrated on catalogs of 45 tools and more",
            Self::CustomScorer => "they are the scorer's own",
        })
    }
}

/// The tool that would have been the best, had the caller been allowed to use it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct BlockedMatch {
    /// The tool's id.
    pub tool_id: String,
    /// What its score would have been, 0..1.
    pub score: f32,
    /// Every reason why it may not be used.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<IneligibleReason>))]
    pub reasons: Arc<[IneligibleReason]>,
}

/// A picked tool.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Pick {
    /// The tool.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub tool: Arc<Tool>,
    /// Relevance, 0..1. Picks that were reranked need not fall in score.
    pub score: f32,
    /// One sentence that says why, and whether the tool's source is untrusted; empty where no
    /// [reasons](crate::PickOptions::reasons) were asked for.
    pub reason: String,
    /// Where the score comes from.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub provenance: Provenance,
    /// The ids of tools that are the same but for their source, and would have been picked too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_as: Vec<String>,
    /// With a token budget: how much of the tool is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<Definition>,
}

impl Pick {
    /// Returns the tool with what is shown of it: all, unless there is a token budget.
    pub fn shown(&self) -> Arc<Tool> {
        self.definition
            .map_or(Detail::Full, |definition| definition.detail)
            .of(&self.tool)
    }
}

/// How much of a picked tool is shown within a token budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Definition {
    /// How much.
    pub detail: Detail,
    /// The tokens of the definition, were it alone in the request.
    pub tokens: usize,
}

/// What definitions cost in tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct TokenReport {
    /// The most that the picks may have.
    pub budget: usize,
    /// In whose format they are counted.
    pub provider: String,
    /// With which tokenizer.
    pub tokenizer: &'static str,
    /// The tokens of all tools of the catalog, with their full definitions; absent where there was
    /// no time to count them, or not all of them are here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<usize>,
    /// The tokens of the picks, as they are shown.
    pub picks: usize,
    /// How many tokens are saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<usize>,
}

/// A picked skill.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SkillPick {
    /// The skill.
    #[serde(flatten)]
    pub skill: Arc<Skill>,
    /// Relevance, 0..1.
    pub score: f32,
    /// One sentence that says why.
    pub reason: String,
    /// The ids of its tools that are among the picks, in the order of the skill.
    pub tool_ids: Vec<String>,
    /// Its tools that the caller may not see, in the order of the skill; `named` is what the skill
    /// calls them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ineligible: Vec<IneligibleTool>,
}

impl SkillPick {
    /// Returns `true` if the caller may see every tool that the skill needs; else a model is better
    /// not told of it.
    pub fn is_eligible(&self) -> bool {
        self.ineligible.is_empty()
    }
}

/// Whether the reranker was asked, and the numbers that decided it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RerankReport {
    /// The reranker's name.
    pub reranker: String,
    /// When it was to be asked.
    pub when: Rerank,
    /// How many of the best candidates it was shown, or would have been.
    pub window: usize,
    /// By how much the best candidate outscored the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_margin: Option<f32>,
    /// By how much the last candidate before the cutoff outscored the next; absent where the window
    /// ends before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_margin: Option<f32>,
    /// The score of the first candidate behind the cutoff; absent where the window ends before
    /// that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_cut: Option<f32>,
    /// Whether the order is the reranker's.
    pub reordered: bool,
}

/// A candidate that was considered, picked or not.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Considered {
    /// The tool's id.
    pub tool_id: String,
    /// Relevance, 0..1.
    pub score: f32,
    /// Whether it is among the picks.
    pub picked: bool,
    /// Whether its source is untrusted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// Where the score comes from.
    pub provenance: Provenance,
}

/// What the caller may not see.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Ineligible {
    /// How many tools.
    pub total: usize,
    /// How many tools each reason applies to, by its code.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, usize>))]
    pub counts: BTreeMap<&'static str, usize>,
    /// The first [`MAX_LISTED_INELIGIBLE`](crate::access::MAX_LISTED_INELIGIBLE) in registration
    /// order, each with every reason; tools that the request or the caller names come first.
    pub tools: Vec<IneligibleTool>,
}

/// A tool that the caller may not see.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct IneligibleTool {
    /// The tool's id.
    pub tool_id: String,
    /// The name by which somebody asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// Who asks for it by that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<AskedBy>,
    /// The ids of the picked tools that require it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<String>,
    /// Every reason; tools of equal policies share them.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<IneligibleReason>))]
    pub reasons: Arc<[IneligibleReason]>,
}

/// An alias that shall no longer be used, and is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct DeprecatedAlias {
    /// The alias, as it is written where it is used.
    pub alias: String,
    /// The id of the tool that it means.
    pub tool_id: String,
    /// Who uses it.
    pub used_by: AskedBy,
}

impl fmt::Display for DeprecatedAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            alias,
            tool_id,
            used_by,
        } = self;
        let user = match used_by {
            AskedBy::Request => "the request",
            AskedBy::Caller => "the caller",
            AskedBy::Task => "the task",
            AskedBy::Skill => "a picked skill",
            AskedBy::Tool => "a picked tool",
        };
        let alias = marked(alias, MAX_NAME_CHARS);
        write!(
            f,
            "{alias:?} is a deprecated alias of {tool_id}, used by {user}; use the tool's name"
        )
    }
}

/// Who asks for a tool by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AskedBy {
    /// The request.
    Request,
    /// The caller, who always includes it.
    Caller,
    /// The task, which uses it already.
    Task,
    /// A picked skill.
    Skill,
    /// A picked tool, which requires it.
    Tool,
}

/// A tool that the cut took away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Dropped {
    /// The tool's id.
    pub tool_id: String,
    /// Why.
    pub reason: DropReason,
}

/// Why the cut took a tool away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// Its source had as many tools as `max_per_source` allows.
    MaxPerSource,
    /// More tools were named or always included than `max_candidates` allows.
    MaxCandidates,
    /// It is the same as a picked tool but for its source.
    Same,
    /// Its source is untrusted, and its text nearly that of a picked tool whose source is trusted.
    Copy,
    /// The parts of the request that it fits are covered, and its place went to a tool for another
    /// part.
    Covered,
    /// The token budget has no room for it, not even for its name.
    TokenBudget,
    /// The picks require more tools than are brought along.
    MaxRequired,
    /// More tools are in use than stay for that.
    MaxInUse,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxPerSource => "its source has its share already",
            Self::MaxCandidates => "more tools are named than are to be picked",
            Self::Same => "a picked tool is the same but for its source",
            Self::Copy => "its source is untrusted, and its text nearly that of a picked tool of a trusted one",
            Self::Covered => "its place went to a tool for another part of the request",
            Self::TokenBudget => "the token budget has no room for it",
            Self::MaxInUse => "more tools are in use than stay for that",
            Self::MaxRequired => "the picks require more tools than are brought along",
        })
    }
}
