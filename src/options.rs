//! What a caller may set for a pick.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use crate::error::PickError;
use crate::fuse::{Fusion, Mode};
use crate::provider::{Provider, TranslateOptions};
use crate::rerank::{DEFAULT_RERANK_WINDOW, MAX_RERANK_WINDOW, Rerank};

/// The [`PickOptions::max_per_source`] of a server, whose catalog may hold tools of sources that nobody vouches for.
pub const UNTRUSTED_MAX_PER_SOURCE: usize = 1;

/// The most tools that stay because they are in use.
pub const MAX_IN_USE: usize = 16;

/// How the picks are chosen from the ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Choice {
    /// As a set: tools that are the same take one place, the set covers the parts of a request that has several, and the
    /// tools that the picks require come along. The best tool is always among them.
    #[default]
    Set,
    /// Each for itself: those that score best.
    Best,
}

/// What the definitions of the picks may cost: tokens of the request's `tools` member, written as compact JSON, counted
/// with `o200k_base`. Other tokenizers count other numbers; leave some room for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBudget {
    /// The most tokens, from 1.
    pub tokens: usize,
    /// In whose format; OpenAI's chat unless told otherwise.
    pub provider: Provider,
    /// How the definitions are made.
    pub view: TranslateOptions,
}

impl TokenBudget {
    /// Makes a budget for OpenAI's chat format.
    pub fn new(tokens: usize) -> Self {
        Self { tokens, provider: Provider::OpenAiChat, view: TranslateOptions::default() }
    }
}

/// How tools are picked. Sources match by exact name; tools are named by id, `source/name`, name or alias.
#[derive(Debug, Clone)]
pub struct PickOptions {
    /// The most tools returned, from 1; 3 by default.
    pub max_candidates: usize,
    /// The least score of a returned tool, 0..1; 0.05 by default. Tools that the request names outright stay.
    pub min_score: f32,
    /// Whether tools that are marked unsafe may be seen.
    pub allow_unsafe: bool,
    /// How long the pick may take. What is ranked by then is returned, marked as degraded.
    pub timeout: Option<Duration>,
    /// Whether the outcome holds the evidence of every candidate considered.
    pub debug: bool,
    /// The retrievers; by default both, or keywords alone where the engine was built for keywords only.
    pub mode: Option<Mode>,
    /// How the retrievers' scores become one.
    pub fusion: Fusion,
    /// When the engine's reranker is asked; never by default. It reorders what `min_score` has left, and scores stay what
    /// they are.
    pub rerank: Rerank,
    /// How many of the best candidates the reranker is shown, from 2 to [`MAX_RERANK_WINDOW`]; 20 by default.
    pub rerank_window: usize,
    /// How the picks are chosen from the ranking.
    pub choice: Choice,
    /// What the definitions of the picks may cost; needs the feature `tokens`. Tools are shown in less [`Detail`] or left out
    /// so that they always fit, by their scores; tools that are named or always included come first.
    ///
    /// [`Detail`]: crate::Detail
    pub token_budget: Option<TokenBudget>,
    /// The caller's roles.
    pub roles: BTreeSet<String>,
    /// The mode that the agent runs in; tools that fit other modes only may not be seen.
    pub execution_mode: Option<String>,
    /// What every tool must be capable of.
    pub capabilities: BTreeSet<String>,
    /// What is left to spend on one call; tools without a cost cost nothing.
    pub max_cost: Option<f64>,
    /// How many calls are left of the tools named here; one with none left may not be seen.
    pub quotas: BTreeMap<String, u64>,
    /// The only sources allowed; empty allows all.
    pub allow_sources: BTreeSet<String>,
    /// Sources that are not allowed.
    pub deny_sources: BTreeSet<String>,
    /// Tools that are returned whatever their score, unless ineligible.
    pub always_include: Vec<String>,
    /// Tools that the task has called so far, the latest last, beside those that the request's transcript calls. They
    /// are returned whatever their score, unless ineligible, on top of `max_candidates` and `max_per_source`; the
    /// latest [`MAX_IN_USE`]. A name that several tools share means all of them, and one that no tool has is no error:
    /// [`Selection::unknown_in_use`](crate::Selection::unknown_in_use) tells it.
    pub in_use: Vec<String>,
    /// Tools that may not be seen; a name that several tools share excludes all of them.
    pub exclude: Vec<String>,
    /// The most tools of one source, unless it is trusted. [`UNTRUSTED_MAX_PER_SOURCE`] suits a catalog that strangers
    /// add to.
    pub max_per_source: Option<usize>,
    /// Sources that `max_per_source` does not limit, such as the operator's own.
    pub trusted_sources: BTreeSet<String>,
}

impl Default for PickOptions {
    fn default() -> Self {
        Self {
            max_candidates: 3,
            min_score: 0.05,
            allow_unsafe: false,
            timeout: None,
            debug: false,
            mode: None,
            fusion: Fusion::default(),
            rerank: Rerank::default(),
            rerank_window: DEFAULT_RERANK_WINDOW,
            choice: Choice::default(),
            token_budget: None,
            roles: BTreeSet::new(),
            execution_mode: None,
            capabilities: BTreeSet::new(),
            max_cost: None,
            quotas: BTreeMap::new(),
            allow_sources: BTreeSet::new(),
            deny_sources: BTreeSet::new(),
            always_include: Vec::new(),
            in_use: Vec::new(),
            exclude: Vec::new(),
            max_per_source: None,
            trusted_sources: BTreeSet::new(),
        }
    }
}

/// Checks what can be checked without a catalog.
pub(crate) fn check(options: &PickOptions) -> Result<(), PickError> {
    let invalid = |option, value: String, remedy| Err(PickError::InvalidOption { option, value, remedy });
    if options.max_candidates == 0 {
        return invalid("max_candidates", "0".to_owned(), "ask for at least one tool");
    }
    if options.max_per_source == Some(0) {
        return invalid("max_per_source", "0".to_owned(), "allow at least one tool a source, or deny the source");
    }
    if !(0.0..=1.0).contains(&options.min_score) {
        return invalid("min_score", options.min_score.to_string(), "give a number from 0 to 1");
    }
    if !(2..=MAX_RERANK_WINDOW).contains(&options.rerank_window) {
        return invalid("rerank_window", options.rerank_window.to_string(), "give a number from 2 to 100");
    }
    if options.token_budget.as_ref().is_some_and(|budget| budget.tokens == 0) {
        return invalid("token_budget", "0".to_owned(), "allow at least one token");
    }
    #[cfg(not(feature = "tokens"))]
    if let Some(budget) = &options.token_budget {
        let remedy = "this build counts no tokens; build with the feature tokens";
        return invalid("token_budget", budget.tokens.to_string(), remedy);
    }
    if let Some(cost) = options.max_cost.filter(|cost| cost.is_nan()) {
        return invalid("max_cost", cost.to_string(), "give a number");
    }
    Ok(())
}
