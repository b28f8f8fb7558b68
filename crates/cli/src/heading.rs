//! The headings of options in the help, in the order in which a pick uses the options.

pub(super) const REQUEST: &str = "Request";
pub(super) const STORE: &str = "Shared store";
pub(super) const CATALOG: &str = "Catalog";
pub(super) const ACCESS: &str = "Access";
pub(super) const RANKING: &str = "Ranking";
pub(super) const MODELS: &str = "Models";
pub(super) const RERANKING: &str = "Reranking";
pub(super) const LANGUAGE_MODEL: &str = "Language model";
pub(super) const PICKS: &str = "Picks";
pub(super) const DEFINITIONS: &str = "Definitions for a model";
pub(super) const CALLS: &str = "Calls";
pub(super) const GATEWAY: &str = "Gateway";
pub(super) const AUDIT: &str = "Audit";
pub(super) const EVALUATION: &str = "Evaluation";
pub(super) const OUTPUT: &str = "Output";
