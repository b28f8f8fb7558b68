//! What a caller may set for a pick: plain data, which the library, HTTP, Python and the command
//! line share.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::{Access, AccessError};
use crate::catalog::{Catalog, CatalogError, UnknownValue};
use crate::excerpt::list;
pub use crate::fuse::{DEFAULT_RRF_K, Fusion, Mode};
use crate::index::IndexError;
use crate::rerank::{DEFAULT_RERANK_WINDOW, MAX_RERANK_WINDOW, Rerank};
use crate::tokens::TokenCountError;
pub use crate::tokens::{TokenBudget, TranslateOptions};

/// The [`PickOptions::max_per_source`] of a server, whose catalog may hold tools of untrusted
/// sources.
pub const UNTRUSTED_MAX_PER_SOURCE: usize = 1;

/// The most tools that stay because they are in use.
pub const MAX_IN_USE: usize = 16;

/// How the picks are chosen from the ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Choice {
    /// As a set: tools that are the same take one place, the set covers the parts of a request that
    /// has several, and the tools that the picks require come along. The best tool is always among
    /// them.
    #[default]
    Set,
    /// Each for itself: those that score best.
    Best,
}

/// Whether an outcome tells of the tool that would have been the best, had the caller been allowed
/// to use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TellBlocked {
    /// Never: for callers who must not learn of such tools.
    Never,
    /// Unless it is for other roles.
    #[default]
    ExceptRoles,
    /// Whatever the reasons.
    Always,
}

/// How tools are picked. Tools are named by id, `source/name`, name or alias.
///
/// As JSON every field may be left out, and unknown ones are refused.
///
/// ```
/// use picktools::PickOptions;
///
/// let options: PickOptions = serde_json::from_str(r#"{"max_candidates": 5, "access": {"roles": ["admin"]}}"#)?;
/// assert_eq!((options.max_candidates, options.rerank_window), (5, PickOptions::default().rerank_window));
/// serde_json::from_str::<PickOptions>(r#"{"max_candidate": 5}"#).expect_err("nothing unknown is read");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PickOptions {
    /// The most picks, from 1; 3 by default. Tools in use and those of picked skills come on top.
    pub max_candidates: usize,
    /// The least score of a returned tool, 0..1; 0.05 by default. Tools that the request names
    /// outright stay.
    pub min_score: f32,
    /// Who asks, and so what may be picked.
    pub access: Access,
    /// How long the pick may take; building an engine has a deadline of its own
    /// ([`EngineBuilder::optional_embedder`](crate::EngineBuilder::optional_embedder)). What is
    /// ranked by then is returned, marked as degraded. As JSON whole milliseconds, `timeout_ms`.
    #[serde(rename = "timeout_ms", with = "milliseconds")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub timeout: Option<Duration>,
    /// Whether it is told of each pick what speaks for it; it is, unless told otherwise. Without,
    /// tools are picked alike and in less time: [`Pick::reason`](crate::Pick::reason) is empty, and
    /// the provenance says only who asked for the tool.
    pub reasons: bool,
    /// Whether the outcome holds the evidence of every candidate considered.
    pub debug: bool,
    /// The retrievers; by default both, or keywords alone where the engine was built for keywords
    /// only.
    pub mode: Option<Mode>,
    /// How the retrievers' scores become one.
    pub fusion: Fusion,
    /// When the engine's reranker is asked; never by default. It reorders what `min_score` has
    /// left, and scores stay what they are.
    pub rerank: Rerank,
    /// How many of the best candidates the reranker is shown, from 2 to [`MAX_RERANK_WINDOW`]; 20
    /// by default.
    pub rerank_window: usize,
    /// How the picks are chosen from the ranking.
    pub choice: Choice,
    /// What the definitions of the picks may cost; needs
    /// [`EngineBuilder::token_counter`](crate::EngineBuilder::token_counter). Tools are shown in
    /// less [`Detail`] or left out so that they always fit, by their scores; tools that are named
    /// or always included come first.
    ///
    /// [`Detail`]: crate::catalog::Detail
    pub token_budget: Option<TokenBudget>,
    /// Tools that are returned whatever their score, unless ineligible.
    pub always_include: Vec<String>,
    /// Tools that the task has called so far, the latest last, beside those that the request's
    /// transcript calls. They are returned whatever their score, unless ineligible, on top of
    /// `max_candidates` and `max_per_source`; the latest [`MAX_IN_USE`]. A name that several tools
    /// share means all of them, and one that no tool has is not an error:
    /// [`Selection::unknown_in_use`](crate::Selection::unknown_in_use) tells it.
    pub in_use: Vec<String>,
    /// Whether tools gain by being called often in the engine's sequences
    /// ([`EngineBuilder::sequences`](crate::EngineBuilder::sequences)): at most fourfold in odds,
    /// which brings none over `min_score`. Not unless told: measure first whether it helps on your
    /// requests.
    pub popularity: bool,
    /// The most tools of one source, unless it is trusted; sources that look alike count as one.
    /// [`UNTRUSTED_MAX_PER_SOURCE`] suits a catalog that strangers add to.
    pub max_per_source: Option<usize>,
    /// Sources that `max_per_source` does not limit, such as the operator's own.
    pub trusted_sources: BTreeSet<String>,
    /// Whether the outcome tells of the tool that would have been the best, had the caller been
    /// allowed to use it ([`Selection::blocked`](crate::Selection::blocked)).
    pub tell_blocked: TellBlocked,
}

impl Default for PickOptions {
    fn default() -> Self {
        Self {
            max_candidates: 3,
            min_score: 0.05,
            access: Access::default(),
            timeout: None,
            reasons: true,
            debug: false,
            mode: None,
            fusion: Fusion::default(),
            rerank: Rerank::default(),
            rerank_window: DEFAULT_RERANK_WINDOW,
            choice: Choice::default(),
            token_budget: None,
            always_include: Vec::new(),
            in_use: Vec::new(),
            popularity: false,
            max_per_source: None,
            trusted_sources: BTreeSet::new(),
            tell_blocked: TellBlocked::default(),
        }
    }
}

impl PickOptions {
    /// Returns the values that no tool of the catalog has: those of [`Access::unknown_values`], and
    /// trusted sources.
    pub fn unknown_values(&self, catalog: &Catalog) -> Vec<UnknownValue> {
        let sources = catalog.sources();
        let mut unknown = self.access.unknown_values(catalog);
        let trusted = self
            .trusted_sources
            .iter()
            .filter(|name| sources.permits_none(name));
        unknown.extend(
            trusted.map(|name| UnknownValue::new("trusted_sources", name, sources.names())),
        );
        unknown
    }

    /// Checks what can be checked without a catalog.
    pub fn check(&self) -> Result<(), PickError> {
        let invalid = |option, value: String, remedy| {
            Err(PickError::InvalidOption {
                option,
                value,
                remedy,
            })
        };
        if self.max_candidates == 0 {
            return invalid(
                "max_candidates",
                "0".to_owned(),
                "ask for at least one tool",
            );
        }
        if self.max_per_source == Some(0) {
            return invalid(
                "max_per_source",
                "0".to_owned(),
                "allow at least one tool per source, or deny the source",
            );
        }
        if !(0.0..=1.0).contains(&self.min_score) {
            return invalid(
                "min_score",
                self.min_score.to_string(),
                "give a number from 0 to 1",
            );
        }
        if !(2..=MAX_RERANK_WINDOW).contains(&self.rerank_window) {
            return invalid(
                "rerank_window",
                self.rerank_window.to_string(),
                "give a number from 2 to 100",
            );
        }
        if self
            .token_budget
            .as_ref()
            .is_some_and(|budget| budget.tokens == 0)
        {
            return invalid("token_budget", "0".to_owned(), "allow at least one token");
        }
        Ok(())
    }
}

/// A duration as whole milliseconds; what is less than one counts as one, as no time at all is
/// something else.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(
        clippy::ref_option,
        reason = "serde calls it with a reference to the field"
    )]
    pub(super) fn serialize<S: Serializer>(
        timeout: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        timeout
            .map(|timeout| timeout.as_nanos().div_ceil(1_000_000))
            .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

/// An error from picking tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PickError {
    /// An option has a value that makes no sense.
    #[error("the option {option} is {value}: {remedy}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        remedy: &'static str,
    },
    /// The caller's access cannot be decided on, or an option names a tool that the catalog does
    /// not have.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The index that the catalog was opened from cannot be read any more, or is damaged.
    #[error("{reason}")]
    Saved {
        /// What is wrong.
        reason: String,
    },
    /// A name stands for several tools.
    #[error(
        "{option} names {name:?}, which is ambiguous; write one of: {}",
        list(candidates, ", ")
    )]
    AmbiguousTool {
        /// The option's name.
        option: &'static str,
        /// What it names.
        name: String,
        /// The ids of the tools it may mean.
        candidates: Vec<String>,
    },
    /// A semantic ranking was asked of an engine that was built for keywords only.
    #[error(
        "the mode {mode} needs an embedding model, and the engine was built for keywords only; build it with a model, \
         or use the mode keyword"
    )]
    NoEmbedder {
        /// The mode that was asked for.
        mode: &'static str,
    },
    /// Reranking was asked of an engine that has no reranker.
    #[error(
        "the option rerank is always, and the engine has no reranker; build it with one, or use auto or never"
    )]
    NoReranker,
    /// The index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The definitions cannot be made whose tokens are to be counted.
    #[error(transparent)]
    Definitions(#[from] TokenCountError),
    /// A worker could not be started or died.
    #[error("cannot run the pick: {reason}")]
    Worker {
        /// What happened.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::names::Advertising;

    #[test]
    fn options_survive_their_json_and_what_is_left_out_is_the_default() {
        let all = PickOptions {
            max_candidates: 7,
            min_score: 0.25,
            access: Access {
                allow_unsafe: true,
                roles: ["admin".to_owned()].into(),
                execution_mode: Some("batch".to_owned()),
                max_cost: Some(0.5),
                quotas: BTreeMap::from([("a".to_owned(), 3)]),
                exclude: ["b".to_owned()].into(),
                ..Access::default()
            },
            timeout: Some(Duration::from_millis(250)),
            reasons: false,
            debug: true,
            mode: Some(Mode::Hybrid),
            fusion: Fusion::Rrf { k: 10 },
            rerank: Rerank::Auto,
            rerank_window: 50,
            choice: Choice::Best,
            token_budget: Some(TokenBudget {
                provider: "anthropic".to_owned(),
                view: TranslateOptions {
                    strict: Some(true),
                    advertising: Advertising::ProviderMap(BTreeMap::from([(
                        "a".to_owned(),
                        "b".to_owned(),
                    )])),
                    deferred: false,
                },
                ..TokenBudget::new(500)
            }),
            always_include: vec!["c".to_owned()],
            in_use: vec!["d".to_owned()],
            popularity: true,
            max_per_source: Some(2),
            tell_blocked: TellBlocked::Always,
            trusted_sources: ["e".to_owned()].into(),
        };
        for options in [all, PickOptions::default()] {
            let json = serde_json::to_string(&options).expect("it serialises");
            assert_eq!(
                serde_json::from_str::<PickOptions>(&json).expect("it was written by us"),
                options,
                "{json}"
            );
        }
        let read =
            |value: Value| serde_json::from_value::<PickOptions>(value).expect("it is valid");
        assert_eq!(read(json!({})), PickOptions::default());
        assert_eq!(
            read(json!({"access": {}, "fusion": {"method": "rrf"}})).fusion,
            Fusion::Rrf { k: 60 }
        );
        let budget = read(json!({"token_budget": {"tokens": 9}})).token_budget;
        assert_eq!(budget, Some(TokenBudget::new(9)));
    }

    #[test]
    fn what_is_unknown_or_of_another_kind_is_refused() {
        for value in [
            json!({"max_candidate": 3}),
            json!({"allow_unsafe": true}),
            json!({"access": {"allowUnsafe": true}}),
            json!({"access": null}),
            json!({"timeout_ms": -1}),
            json!({"timeout_ms": 0.5}),
            json!({"timeout": 5}),
            json!({"mode": "Hybrid"}),
            json!({"fusion": {"method": "weighted", "k": 3}}),
            json!({"fusion": {"method": "rrf", "K": 3}}),
            json!({"rerank": "sometimes"}),
            json!({"token_budget": {"tokens": 9, "view": {"strikt": true}}}),
            json!({"token_budget": {}}),
        ] {
            serde_json::from_value::<PickOptions>(value.clone()).expect_err(&value.to_string());
        }
    }
}
