//! The options of a pick: plain data, which the library, HTTP, Python and the command line share.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::{Access, AccessError};
use crate::catalog::{Catalog, CatalogError, UnknownValue};
use crate::excerpt::list;
pub use crate::fuse::{DEFAULT_RRF_K, Fusion, Mode};
use crate::index::IndexError;
use crate::names::{PatternError, ToolPatterns, is_glob};
use crate::rerank::{DEFAULT_RERANK_WINDOW, MAX_RERANK_WINDOW, Rerank};
use crate::saved::SavedError;
use crate::tokens::TokenCountError;
pub use crate::tokens::{TokenBudget, TranslateOptions};

/// The default [`PickOptions::max_per_source`] of a server whose catalog contains untrusted
/// sources.
pub const UNTRUSTED_MAX_PER_SOURCE: usize = 1;

/// The largest number of tools that stay selected because they are in use.
pub const MAX_IN_USE: usize = 16;

/// The method that chooses the picks from the ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Choice))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SelectionMode {
    /// As a set: duplicates take one place, the set covers the subqueries of the request, and tools
    /// that the picks require are added. The best tool is always among the picks.
    #[default]
    Set,
    /// By score alone: the tools with the best scores.
    Best,
}

/// The condition under which a selection reports the best ineligible tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = TellBlocked))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlockedReporting {
    /// Never, for callers that must not learn about such tools.
    Never,
    /// Unless the tool is reserved for other roles.
    #[default]
    ExceptRoles,
    /// Always.
    Always,
}

/// The options of a pick. They refer to tools by id, `source/name`, name or alias.
///
/// In JSON every field is optional, and unknown fields are rejected.
///
/// ```
/// use picktools::PickOptions;
///
/// let json = r#"{"max_candidates": 5, "access": {"roles": ["admin"]}}"#;
/// let options: PickOptions = serde_json::from_str(json)?;
/// assert_eq!(options.max_candidates, 5);
/// assert_eq!(options.rerank_window, PickOptions::default().rerank_window);
/// let misspelt = serde_json::from_str::<PickOptions>(r#"{"max_candidate": 5}"#);
/// misspelt.expect_err("the field is unknown");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PickOptions {
    /// The largest number of picks, from 1; 3 by default. Tools in use and the tools of picked
    /// skills do not count.
    pub max_candidates: usize,
    /// The threshold: the lowest score of a pick, 0..1; 0.05 by default. Tools that the request
    /// names are picked with any score.
    pub min_score: f32,
    /// The access policy of the caller.
    pub access: Access,
    /// The timeout of the pick. Building an engine has a deadline of its own
    /// ([`EngineBuilder::optional_embedder`](crate::EngineBuilder::optional_embedder)). After the
    /// timeout the ranking up to then is returned, marked as degraded. In JSON it is `timeout_ms`,
    /// in whole milliseconds.
    #[serde(rename = "timeout_ms", with = "milliseconds")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub timeout: Option<Duration>,
    /// `true` (the default) to explain each pick. If `false`, the same tools are picked in less
    /// time. Then [`Pick::reason`](crate::Pick::reason) is empty, and the provenance states only
    /// why a tool had to be picked.
    pub reasons: bool,
    /// `true` to add the evidence of every considered candidate to the selection.
    pub debug: bool,
    /// The retrievers. By default both, or keywords alone if the engine was built for keywords
    /// only.
    pub mode: Option<Mode>,
    /// The fusion of the retrievers' scores.
    pub fusion: Fusion,
    /// The condition under which the reranker runs; never by default. It reorders the candidates
    /// above `min_score` and does not change their scores.
    pub rerank: Rerank,
    /// The number of candidates that the reranker receives, from 2 to [`MAX_RERANK_WINDOW`]; 20 by
    /// default.
    pub rerank_window: usize,
    /// The method that chooses the picks from the ranking.
    pub choice: SelectionMode,
    /// The token budget of the picks' definitions. It needs
    /// [`EngineBuilder::token_counter`](crate::EngineBuilder::token_counter). Tools are shown in
    /// less [`Detail`] or excluded by their scores so that the definitions always fit. Tools that
    /// are named or always included come first.
    ///
    /// [`Detail`]: crate::catalog::Detail
    pub token_budget: Option<TokenBudget>,
    /// Names and globs, such as `github/*`, of tools that are always picked unless they are
    /// ineligible. They count towards `max_candidates`. A glob is matched with the ids and the names
    /// of tools; one that matches no tool is an unknown value of the selection.
    pub always_include: Vec<String>,
    /// Names and globs of general tools, such as a web search. If no other tool fits, the best of
    /// them are picked, whatever their scores. If others may fit, but neither answerability nor a
    /// score for a part of the request reaches 0.5, the best one takes a place. Small talk and
    /// requests that name a tool get no fallbacks.
    pub fallbacks: Vec<String>,
    /// Tools that the task has called so far, the latest last, in addition to those that the
    /// request's transcript calls. They are picked with any score unless ineligible. They do not
    /// count towards `max_candidates` and `max_per_source`. The latest [`MAX_IN_USE`] are kept. An
    /// ambiguous name stands for all its tools. Unknown names are not an error:
    /// [`Selection::unknown_in_use`](crate::Selection::unknown_in_use) lists them.
    pub in_use: Vec<String>,
    /// `true` to raise tools that are called often in the engine's sequences
    /// ([`EngineBuilder::sequences`](crate::EngineBuilder::sequences)), at most fourfold in odds.
    /// It raises no tool above `min_score`. It is off by default; measure first whether it helps on
    /// your requests.
    pub popularity: bool,
    /// The largest number of picks from one source, unless the source is trusted. Sources with
    /// confusable names count as one. [`UNTRUSTED_MAX_PER_SOURCE`] suits a catalog to which
    /// strangers contribute.
    pub max_per_source: Option<usize>,
    /// Trusted sources, which `max_per_source` does not limit, such as the operator's own.
    pub trusted_sources: BTreeSet<String>,
    /// The condition under which the selection reports the best ineligible tool
    /// ([`Selection::blocked`](crate::Selection::blocked)).
    pub tell_blocked: BlockedReporting,
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
            choice: SelectionMode::default(),
            token_budget: None,
            always_include: Vec::new(),
            fallbacks: Vec::new(),
            in_use: Vec::new(),
            popularity: false,
            max_per_source: None,
            trusted_sources: BTreeSet::new(),
            tell_blocked: BlockedReporting::default(),
        }
    }
}

impl PickOptions {
    /// Returns the values that match no tool of the catalog: those of [`Access::unknown_values`],
    /// trusted sources, and the globs of `always_include` and `fallbacks`.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read.
    pub fn unknown_values(&self, catalog: &Catalog) -> Result<Vec<UnknownValue>, SavedError> {
        let sources = catalog.sources();
        let mut unknown_values = self.access.unknown_values(catalog)?;
        for name in &self.trusted_sources {
            if sources.permits_none(name) {
                let unknown = UnknownValue::new("trusted_sources", name, sources.names());
                unknown_values.push(unknown);
            }
        }
        for (option, names) in self.floors() {
            for glob in names.iter().filter(|name| is_glob(name)) {
                let Ok(patterns) = ToolPatterns::new(std::slice::from_ref(glob)) else {
                    continue;
                };
                if patterns.tools(catalog)?.is_empty() {
                    unknown_values.push(UnknownValue::new(option, glob, sources.names()));
                }
            }
        }
        Ok(unknown_values)
    }

    /// Returns the options that name tools to pick whatever their scores: `always_include` and
    /// `fallbacks`.
    pub fn floors(&self) -> [(&'static str, &[String]); 2] {
        [
            ("always_include", &self.always_include),
            ("fallbacks", &self.fallbacks),
        ]
    }

    /// Checks the options that can be checked without a catalog.
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

/// A duration in whole milliseconds. A fraction rounds up, because a timeout of zero has another
/// meaning.
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
    /// An option has an invalid value.
    #[error("the option {option} is {value}: {remedy}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        remedy: &'static str,
    },
    /// The access policy is invalid, or an option names an unknown tool.
    #[error(transparent)]
    Access(AccessError),
    /// The saved index of the catalog is unreadable or damaged.
    #[error("{reason}")]
    Saved {
        /// The fault.
        reason: String,
    },
    /// A glob is invalid.
    #[error("{option}: {error}")]
    InvalidPattern {
        /// The option's name.
        option: &'static str,
        /// The fault.
        error: PatternError,
    },
    /// A name is ambiguous.
    #[error(
        "{option} names {name:?}, which is ambiguous; write one of: {}",
        list(candidates, ", ")
    )]
    AmbiguousTool {
        /// The option's name.
        option: &'static str,
        /// The ambiguous name.
        name: String,
        /// The ids of the tools with this name.
        candidates: Vec<String>,
    },
    /// The mode needs an embedding model, and the engine was built for keywords only.
    #[error(
        "the mode {mode} needs an embedding model, and the engine was built for keywords only; \
         build it with a model, or use the mode keyword"
    )]
    NoEmbedder {
        /// The requested mode.
        mode: &'static str,
    },
    /// The options require reranking, and the engine has no reranker.
    #[error(
        "the option rerank is always, and the engine has no reranker; \
         build it with one, or use auto or never"
    )]
    NoReranker,
    /// The index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The tokens of the definitions cannot be counted.
    #[error(transparent)]
    Definitions(#[from] TokenCountError),
    /// A worker could not be started or died.
    #[error("cannot run the pick: {reason}")]
    Worker {
        /// The cause.
        reason: String,
    },
}

impl From<AccessError> for PickError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Saved { reason } => Self::Saved { reason },
            error => Self::Access(error),
        }
    }
}

impl From<SavedError> for PickError {
    fn from(error: SavedError) -> Self {
        Self::Saved {
            reason: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::names::Advertising;

    #[test]
    fn options_round_trip_json_and_default_missing_fields() {
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
            choice: SelectionMode::Best,
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
            fallbacks: vec!["f*".to_owned()],
            in_use: vec!["d".to_owned()],
            popularity: true,
            max_per_source: Some(2),
            tell_blocked: BlockedReporting::Always,
            trusted_sources: ["e".to_owned()].into(),
        };
        for options in [all, PickOptions::default()] {
            let json = serde_json::to_string(&options).expect("it serialises");
            assert_eq!(
                serde_json::from_str::<PickOptions>(&json).expect("it is valid"),
                options,
                "{json}"
            );
        }
        let parse =
            |value: Value| serde_json::from_value::<PickOptions>(value).expect("it is valid");
        assert_eq!(parse(json!({})), PickOptions::default());
        assert_eq!(
            parse(json!({"access": {}, "fusion": {"method": "rrf"}})).fusion,
            Fusion::Rrf { k: 60 }
        );
        let budget = parse(json!({"token_budget": {"tokens": 9}})).token_budget;
        assert_eq!(budget, Some(TokenBudget::new(9)));
    }

    #[test]
    fn options_with_unknown_or_mistyped_fields_are_rejected() {
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
