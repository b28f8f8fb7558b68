//! The public result of a pick.
//!
//! A [`Selection`] serialises to versioned JSON. The same inputs give the same bytes, so the
//! [timings](Selection::timings) are not serialised.

mod provenance;
mod stages;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

pub use self::provenance::{
    CallCooccurrence, CallFrequency, CoverEvidence, ExampleEvidence, FusionEvidence, FusionPart,
    KeywordEvidence, PriorEvidence, Provenance, RerankEvidence, SemanticEvidence, SourceEvidence,
    TermEvidence, WordEvidence, WordReading,
};
pub use self::stages::{Degraded, Stage, StageReport, StageStatus, Timings};
use crate::access::IneligibleReason;
use crate::catalog::Detail;
use crate::catalog::{Tool, UnknownValue};
pub use crate::examples::ExampleOrigin;
use crate::excerpt::{MAX_NAME_CHARS, marked};
use crate::names::Skill;
use crate::rerank::Rerank;
pub use crate::retrieve::AlternativeKind;
pub use crate::text::{Field, TermKind, ValueKind};

/// The version of the serialised form of [`Selection`].
pub const SELECTION_VERSION: u32 = 3;

/// The tools that a request needs, with the reasons.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Selection {
    /// The version of the format: [`SELECTION_VERSION`].
    pub version: u32,
    /// The digest of the catalog.
    pub catalog_digest: String,
    /// The snapshot of the shared store; absent without a shared store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotReport>,
    /// The name of the ranking: `keyword`, `semantic`, `hybrid`, or a scorer's name.
    pub scorer: String,
    /// The number of tools that a custom scorer received, if a shortlist limits them
    /// ([`EngineBuilder::shortlist`](crate::EngineBuilder::shortlist)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortlisted: Option<usize>,
    /// The answerability: the estimated probability, 0..1, that any eligible tool serves the
    /// request. The estimate assumes that four of five requests have such a tool. It combines the
    /// tools' signals with a factor for the request alone
    /// ([`Embedder::scope`](crate::embed::Embedder::scope)). It is at least the score of each pick,
    /// if that is a probability. Absent if a custom scorer ranked, or the ranking failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answerable: Option<f32>,
    /// The kind of request that no tool serves. Absent if a tool is good enough or the kind is
    /// uncertain, as in catalogs whose sources carry no signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing_fits: Option<NoMatchKind>,
    /// The reason why the scores are not probabilities; absent if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncalibrated: Option<UncalibratedReason>,
    /// The picked tools, best first: at most `max_candidates`, plus tools in use and the tools of
    /// picked skills. An empty list is a normal result.
    pub picks: Vec<Pick>,
    /// The tools that the picks require and that are not picks, best first, at most 16. A pick may
    /// be useless without them, so they are included with any score. [`Selection::shown_tools`]
    /// returns both lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<Pick>,
    /// The skills that the request needs, best first; absent if the engine has no skills. Their
    /// tools are among the picks, beyond `max_candidates`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub skills: Option<Vec<SkillPick>>,
    /// The tools that the caller may not use.
    pub ineligible: IneligibleSummary,
    /// The best tool, if it is ineligible and the options allow reporting it
    /// ([`PickOptions::tell_blocked`](crate::PickOptions::tell_blocked)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<BlockedMatch>,
    /// The number of other eligible tools that could have been picked: no place was left for them.
    pub above_threshold: usize,
    /// The number of eligible tools that scored below `min_score` or matched nothing.
    pub below_threshold: usize,
    /// The deprecated aliases in use, at most 50.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deprecated_aliases: Vec<DeprecatedAlias>,
    /// Names of tools in use that are not in the catalog, the latest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_in_use: Vec<String>,
    /// Values of the options that match no tool of the catalog, such as a misspelt role or source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_values: Vec<UnknownValue>,
    /// Tools that a limit excluded although they were named, always included, in use, or scored
    /// high enough.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedTool>,
    /// Errors for tools with an invalid score, which are excluded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scorer_errors: Vec<String>,
    /// The tokens of the definitions; only with a token budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenReport>,
    /// The status of each stage.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub stages: Vec<StageReport>,
    /// The decision on reranking; absent if the options do not ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub rerank: Option<RerankReport>,
    /// The stages that failed, timed out, or were skipped after repeated failures. The ranking is
    /// worse without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub degraded: Vec<Degraded>,
    /// The evidence of the best 100 tools above the threshold and of every pick, best first; only with `debug`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub considered: Option<Vec<ConsideredCandidate>>,
    /// The duration of each stage.
    #[serde(skip)]
    pub timings: Timings,
}

/// The snapshot of a shared store from which tools were picked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct SnapshotReport {
    /// The version, which grows with each publication.
    pub version: u64,
    /// The number of tools in the snapshot.
    pub tools: usize,
    /// The number of tools that the store returned for ranking; absent if all were ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<usize>,
}

impl SnapshotReport {
    /// Makes a report from the version, the number of tools, and the number of candidates that the
    /// store returned.
    pub fn new(version: u64, tools: usize, candidates: Option<usize>) -> Self {
        Self {
            version,
            tools,
            candidates,
        }
    }
}

/// The kind of a request that no tool serves. The estimate is right in about five of six cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = NothingFits))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoMatchKind {
    /// The request is close to the subject of a source, but no tool of that source serves it.
    NearSource {
        /// The source of the best tool.
        source: String,
    },
    /// The request is outside the scope of every source.
    OutOfScope,
    /// The message asks for nothing that a tool could do: thanks or small talk, for example.
    NoRequest,
}

impl fmt::Display for NoMatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NearSource { source } => {
                write!(f, "closest server: {}", marked(source, MAX_NAME_CHARS))
            }
            Self::OutOfScope => f.write_str("no server is close to the request"),
            Self::NoRequest => f.write_str("the message asks for nothing that a tool could do"),
        }
    }
}

impl Selection {
    /// Returns the tools to show to a model: the picks, then the tools that they require, each in
    /// the detail that the token budget allows.
    pub fn shown_tools(&self) -> Vec<Arc<Tool>> {
        self.picks
            .iter()
            .chain(&self.required)
            .map(Pick::shown_tool)
            .collect()
    }
}

/// The reason why scores are not probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Uncalibrated))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UncalibratedReason {
    /// The scores are shares of the largest possible sum of reciprocal ranks.
    Ranks,
    /// The scores come from a custom scorer.
    CustomScorer,
}

impl fmt::Display for UncalibratedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ranks => "they are shares of the largest possible sum of reciprocal ranks",
            Self::CustomScorer => "they come from a custom scorer",
        })
    }
}

/// The best tool, which is ineligible.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct BlockedMatch {
    /// The tool's id.
    pub tool_id: String,
    /// The score that it would have as an eligible tool, 0..1.
    pub score: f32,
    /// Every reason why it is ineligible.
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
    /// The reason: clauses that state the evidence and name an untrusted source. Empty if
    /// [`PickOptions::reasons`](crate::PickOptions::reasons) is `false`.
    pub reason: String,
    /// The origin of the score.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub provenance: Provenance,
    /// The ids of its duplicates, which would have been picked too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_as: Vec<String>,
    /// The shown definition; only with a token budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<ShownDefinition>,
}

impl Pick {
    /// Returns the tool in the detail in which it is shown: full, unless there is a token budget.
    pub fn shown_tool(&self) -> Arc<Tool> {
        self.definition
            .map_or(Detail::Full, |definition| definition.detail)
            .apply(&self.tool)
    }
}

/// The shown definition of a pick within a token budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Definition))]
#[non_exhaustive]
pub struct ShownDefinition {
    /// The level of detail.
    pub detail: Detail,
    /// The tokens of the definition as the only one of an API request.
    pub tokens: usize,
}

/// The token costs of definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct TokenReport {
    /// The token budget.
    pub budget: usize,
    /// The provider whose format is counted.
    pub provider: String,
    /// The tokenizer.
    pub tokenizer: &'static str,
    /// The tokens of the full definitions of all tools of the catalog. Absent if the deadline
    /// passed before they were counted, or if some tools are not in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<usize>,
    /// The tokens of the picks, as shown.
    pub picks: usize,
    /// The number of saved tokens.
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
    /// The reason: clauses that state the evidence.
    pub reason: String,
    /// The ids of its tools that are among the picks, in the order of the skill.
    pub tool_ids: Vec<String>,
    /// The ineligible tools of the skill, in its order; `named` is the skill's name for the tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ineligible: Vec<IneligibleTool>,
}

impl SkillPick {
    /// Returns `true` if every tool of the skill is eligible. Otherwise a model should not be shown
    /// the skill.
    pub fn is_eligible(&self) -> bool {
        self.ineligible.is_empty()
    }
}

/// The decision on reranking, with the numbers behind it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RerankReport {
    /// The reranker's name.
    pub reranker: String,
    /// The condition under which it runs.
    pub when: Rerank,
    /// The number of candidates in its window.
    pub window: usize,
    /// The difference between the scores of the best two candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_margin: Option<f32>,
    /// The difference between the scores of the last candidate above the cutoff and the next one.
    /// Absent if the window ends before the cutoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_margin: Option<f32>,
    /// The score of the first candidate below the cutoff. Absent if the window ends before the
    /// cutoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_cut: Option<f32>,
    /// `true` if the reranker determined the order.
    pub reordered: bool,
}

/// A candidate that was considered, picked or not.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ConsideredCandidate {
    /// The tool's id.
    pub tool_id: String,
    /// Relevance, 0..1.
    pub score: f32,
    /// `true` if it is a pick.
    pub picked: bool,
    /// `true` if its source is untrusted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// The origin of the score.
    pub provenance: Provenance,
}

/// The tools that the caller may not use.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Ineligible))]
#[non_exhaustive]
pub struct IneligibleSummary {
    /// The number of ineligible tools.
    pub total: usize,
    /// The number of tools for each reason, by its code.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, usize>))]
    pub counts: BTreeMap<&'static str, usize>,
    /// The first [`MAX_LISTED_INELIGIBLE`](crate::access::MAX_LISTED_INELIGIBLE) tools in
    /// registration order, each with every reason. Tools that the request or the caller names come
    /// first.
    pub tools: Vec<IneligibleTool>,
}

/// A tool that the caller may not use.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct IneligibleTool {
    /// The tool's id.
    pub tool_id: String,
    /// The name by which it is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// The origin of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<NameOrigin>,
    /// The ids of the picks that require it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<String>,
    /// Every reason. Tools with equal policies share the list.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<IneligibleReason>))]
    pub reasons: Arc<[IneligibleReason]>,
}

/// A deprecated alias that is still in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct DeprecatedAlias {
    /// The alias, as it is written.
    pub alias: String,
    /// The id of its tool.
    pub tool_id: String,
    /// The user of the alias.
    pub used_by: NameOrigin,
}

impl fmt::Display for DeprecatedAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            alias,
            tool_id,
            used_by,
        } = self;
        let user = match used_by {
            NameOrigin::Request => "the request",
            NameOrigin::Caller => "the caller",
            NameOrigin::Task => "the task",
            NameOrigin::Skill => "a picked skill",
            NameOrigin::Tool => "a picked tool",
        };
        let alias = marked(alias, MAX_NAME_CHARS);
        write!(
            f,
            "{alias:?} is a deprecated alias of {tool_id}, used by {user}; use the tool's name"
        )
    }
}

/// The origin of a tool name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = AskedBy))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NameOrigin {
    /// The request names the tool.
    Request,
    /// The caller always includes the tool.
    Caller,
    /// The task uses the tool already.
    Task,
    /// A picked skill needs the tool.
    Skill,
    /// A pick requires the tool.
    Tool,
}

/// A tool that a limit excluded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Dropped))]
#[non_exhaustive]
pub struct DroppedTool {
    /// The tool's id.
    pub tool_id: String,
    /// The reason.
    pub reason: DropReason,
}

/// The limit that excluded a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// Its source has reached `max_per_source`.
    MaxPerSource,
    /// More tools are named or always included than `max_candidates` allows.
    MaxCandidates,
    /// It is a duplicate of a pick.
    Same,
    /// It equals a pick from another source, such as a second account, and `max_candidates` leaves
    /// no place for it.
    Account,
    /// Its source is untrusted, and its text is nearly identical to that of a pick from a trusted
    /// source.
    Copy,
    /// Other picks cover the subqueries that it serves, and its place went to a tool for another
    /// subquery.
    Covered,
    /// Not even its name fits the token budget.
    TokenBudget,
    /// The picks require more tools than the limit.
    MaxRequired,
    /// More tools are in use than the limit.
    MaxInUse,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxPerSource => "its source has reached max_per_source",
            Self::MaxCandidates => "more tools are named than max_candidates allows",
            Self::Same => "duplicate of a picked tool from another source",
            Self::Account => "it equals a picked tool from another source",
            Self::Copy => "untrusted near-duplicate of a picked tool from a trusted source",
            Self::Covered => "its place went to a tool for another part of the request",
            Self::TokenBudget => "it does not fit the token budget",
            Self::MaxInUse => "more tools are in use than are kept",
            Self::MaxRequired => "the picks require too many tools",
        })
    }
}
