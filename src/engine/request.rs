//! A request and its options, resolved for one catalog. It does not change afterwards.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::named::NamedTools;
use crate::access::{Access, AccessError, DecidedAccess, Eligibility};
use crate::deadline::Deadline;
use crate::function_words::has_content_word;
use crate::fuse::{Fusion, Mode};
use crate::index::{ExampleIndex, Index, Vectors};
use crate::options::{PickError, PickOptions, SelectionMode};
use crate::query::Query;
use crate::ranking::ToolId;
use crate::text::Field;

/// The kind of entries that a catalog has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentKind {
    Tools,
    Skills,
}

impl DocumentKind {
    /// Returns the field that the index holds as `field`. The instructions of a skill take the
    /// place of tags.
    pub(super) fn field(self, field: Field) -> Field {
        match (self, field) {
            (Self::Skills, Field::Tags) => Field::Instructions,
            _ => field,
        }
    }
}

/// The tools that the retrievers score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetrievalScope {
    AllTools,
    /// The tools of a large catalog that may be near the request.
    NearTools,
}

/// The indexes of one catalog.
#[derive(Clone, Copy)]
pub(super) struct CatalogIndexes<'a> {
    pub(super) index: &'a Index,
    /// The index of examples, if there are any.
    pub(super) examples: Option<&'a ExampleIndex>,
    /// The decision for one access policy, if it was made before.
    decided: Option<&'a DecidedAccess>,
}

impl<'a> CatalogIndexes<'a> {
    pub(super) fn new(index: &'a Index, examples: Option<&'a ExampleIndex>) -> Self {
        Self {
            index,
            examples: examples.filter(|examples| !examples.is_empty()),
            decided: None,
        }
    }

    pub(super) fn decided(self, decided: Option<&'a DecidedAccess>) -> Self {
        Self { decided, ..self }
    }

    /// Decides on the eligibility of every tool, unless that was done before.
    fn eligibility(&self, access: &Access) -> Result<Arc<Eligibility>, AccessError> {
        match self.decided.and_then(|decided| decided.eligibility(access)) {
            Some(eligibility) => Ok(Arc::clone(eligibility)),
            None => self.index.eligibility(access),
        }
    }
}

/// The tools that may be picked, and those of them that are ranked.
pub(super) struct EligibleTools {
    pub(super) eligibility: Arc<Eligibility>,
    /// Eligible untrusted tools, each with the eligible tool that it copies. They are not ranked.
    pub(super) copies: BTreeMap<ToolId, ToolId>,
    /// The tools that are ranked, if these are not all eligible tools.
    rankable: Option<Eligibility>,
}

impl EligibleTools {
    /// Ranks all eligible tools.
    fn all(eligibility: Arc<Eligibility>) -> Self {
        Self {
            eligibility,
            copies: BTreeMap::new(),
            rankable: None,
        }
    }

    /// Ranks the eligible tools without copies of trusted tools, except `protected` ones.
    fn without_copies(
        eligibility: Arc<Eligibility>,
        index: &Index,
        protected: &BTreeSet<ToolId>,
    ) -> Self {
        let mut copies = index.clones.among(|tool| eligibility.admits(tool));
        copies.retain(|copy, _| !protected.contains(copy));
        if copies.is_empty() {
            return Self::all(eligibility);
        }
        let mut rankable: Vec<ToolId> = eligibility.admitted().collect();
        rankable.retain(|tool| !copies.contains_key(tool));
        Self {
            rankable: Some(Eligibility::only(&rankable, eligibility.tools())),
            eligibility,
            copies,
        }
    }
}

/// A request and its options, validated against one catalog.
pub(super) struct ResolvedRequest<'a> {
    pub(super) index: &'a Index,
    /// The index of examples, if there are any.
    pub(super) examples: Option<&'a ExampleIndex>,
    pub(super) documents: DocumentKind,
    pub(super) query: &'a Query,
    pub(super) options: &'a PickOptions,
    pub(super) deadline: Deadline,
    pub(super) mode: Mode,
    eligible: EligibleTools,
    /// Tools that the request, the caller or the task names.
    pub(super) named: NamedTools,
    /// The sources that `max_per_source` does not limit.
    pub(super) trusted_sources: HashSet<&'a str>,
    /// The texts of the subqueries; empty if the request has a single part, or if the options ask
    /// for no covering set.
    pub(super) subqueries: Vec<&'a str>,
    pub(super) scope: RetrievalScope,
}

impl<'a> ResolvedRequest<'a> {
    /// Validates the options and determines the eligible tools, before any scoring.
    pub(super) fn new(
        indexes: CatalogIndexes<'a>,
        query: &'a Query,
        options: &'a PickOptions,
    ) -> Result<Self, PickError> {
        let deadline = Deadline::after(options.timeout);
        Self::resolve(indexes, DocumentKind::Tools, query, options, deadline)
    }

    /// Resolves the same request for a catalog of skills, all of which are scored. Its deadline stays
    /// that of `tools`.
    pub(super) fn for_skills(
        index: &'a Index,
        tools: &Self,
        options: &'a PickOptions,
    ) -> Result<Self, PickError> {
        let indexes = CatalogIndexes::new(index, None);
        let (query, deadline) = (tools.query, tools.deadline);
        let skills = Self::resolve(indexes, DocumentKind::Skills, query, options, deadline)?;
        Ok(skills.for_all_tools())
    }

    /// Resolves a request to rank exactly these tools, whatever it names.
    pub(super) fn among(
        indexes: CatalogIndexes<'a>,
        query: &'a Query,
        options: &'a PickOptions,
        tools: &[ToolId],
    ) -> Result<Self, PickError> {
        let request = Self::new(indexes, query, options)?;
        let eligibility = Eligibility::only(tools, indexes.index.catalog.len());
        Ok(Self {
            eligible: EligibleTools::all(Arc::new(eligibility)),
            named: NamedTools::default(),
            ..request
        })
    }

    fn resolve(
        indexes: CatalogIndexes<'a>,
        documents: DocumentKind,
        query: &'a Query,
        options: &'a PickOptions,
        deadline: Deadline,
    ) -> Result<Self, PickError> {
        options.check()?;
        let CatalogIndexes {
            index, examples, ..
        } = indexes;
        let mode = resolve_mode(index, options)?;
        let eligibility = indexes.eligibility(&options.access)?;
        let named_tools = NamedTools::resolve(index, &eligibility, query, options)?;
        let mut protected = named_tools.mandatory();
        protected.extend(named_tools.in_use.tools.keys());
        let mut scope = RetrievalScope::AllTools;
        if examples.is_none() && may_narrow(index, mode, query, options, &named_tools) {
            scope = RetrievalScope::NearTools;
        }
        Ok(Self {
            index,
            examples,
            documents,
            query,
            options,
            deadline,
            mode,
            eligible: EligibleTools::without_copies(eligibility, index, &protected),
            named: named_tools,
            trusted_sources: index.catalog.sources().permitted(&options.trusted_sources),
            subqueries: subqueries(query, options),
            scope,
        })
    }

    /// Returns the same request with scores for all tools of a large catalog.
    pub(super) fn for_all_tools(self) -> Self {
        Self {
            scope: RetrievalScope::AllTools,
            ..self
        }
    }

    pub(super) fn eligibility(&self) -> &Eligibility {
        &self.eligible.eligibility
    }

    /// Returns the eligible untrusted tools that copy another eligible tool, with that tool. They
    /// are not ranked.
    pub(super) fn copies(&self) -> &BTreeMap<ToolId, ToolId> {
        &self.eligible.copies
    }

    /// Returns the tools that are ranked: the eligible ones without copies.
    pub(super) fn rankable(&self) -> &Eligibility {
        let EligibleTools {
            rankable,
            eligibility,
            ..
        } = &self.eligible;
        rankable.as_ref().unwrap_or(eligibility)
    }

    /// Returns the eligible tools that are mentioned or always included.
    pub(super) fn mandatory_tools(&self) -> BTreeSet<ToolId> {
        self.only_eligible(self.named.mandatory())
    }

    /// Returns the ranked tools that are picked if no other tool fits.
    pub(super) fn ranked_fallbacks(&self) -> impl Iterator<Item = ToolId> {
        let fallbacks = self.named.fallbacks.keys().copied();
        fallbacks.filter(|&tool| self.rankable().admits(tool))
    }

    /// Returns the eligible tools in use.
    pub(super) fn tools_in_use(&self) -> BTreeSet<ToolId> {
        self.only_eligible(self.named.in_use.tools.keys().copied())
    }

    /// Returns the eligible tools that are mentioned, always included or in use.
    pub(super) fn mandatory_or_in_use(&self) -> BTreeSet<ToolId> {
        let mut tools = self.mandatory_tools();
        tools.append(&mut self.tools_in_use());
        tools
    }

    /// Returns those of the tools that are eligible.
    pub(super) fn only_eligible(
        &self,
        tools: impl IntoIterator<Item = ToolId>,
    ) -> BTreeSet<ToolId> {
        let tools = tools.into_iter();
        tools
            .filter(|&tool| self.eligibility().admits(tool))
            .collect()
    }

    /// Returns the models of the mode.
    pub(super) fn models(&self) -> &'a [Vectors] {
        models(self.index, self.mode)
    }

    /// Returns the tool's source.
    pub(super) fn source(&self, tool: ToolId) -> Option<&'a str> {
        self.index.catalog.source(tool)
    }

    /// Returns the common form of the tool's source and the sources with confusable names.
    pub(super) fn look(&self, tool: ToolId) -> Option<&'a str> {
        self.index.catalog.sources().skeleton(self.source(tool))
    }
}

/// Returns the models of a mode: the main one, and in hybrid mode also the supporting ones.
pub(super) fn models(index: &Index, mode: Mode) -> &[Vectors] {
    match mode {
        Mode::Keyword => &[],
        Mode::Semantic => &index.vectors[index.vectors.len().saturating_sub(1)..],
        Mode::Hybrid => &index.vectors,
    }
}

/// Returns `true` if it suffices to score only the tools of a large catalog that may be near the
/// request. That holds if one model scores tools, for this request alone, and nothing raises other
/// tools.
fn may_narrow(
    index: &Index,
    mode: Mode,
    query: &Query,
    options: &PickOptions,
    named: &NamedTools,
) -> bool {
    let [vectors] = models(index, mode) else {
        return false;
    };
    vectors.needs_overview()
        && options.fusion == Fusion::Weighted
        && query.conversation().is_empty()
        && named.in_use.tools.is_empty()
        && !options.popularity
}

/// Splits the request into subqueries; none if it has a single part, or if the options ask for no
/// covering set.
fn subqueries<'a>(query: &'a Query, options: &PickOptions) -> Vec<&'a str> {
    if options.choice != SelectionMode::Set
        || options.max_candidates < 2
        || options.fusion != Fusion::Weighted
    {
        return Vec::new();
    }
    let mut texts = query.clauses();
    if texts.len() > 1 {
        texts.retain(|text| has_content_word(text));
    }
    if texts.len() < 2 {
        texts.clear();
    }
    texts
}

fn resolve_mode(index: &Index, options: &PickOptions) -> Result<Mode, PickError> {
    match (options.mode, index.vectors.is_empty()) {
        (Some(mode), true) if mode.uses_semantic() => {
            Err(PickError::NoEmbedder { mode: mode.name() })
        }
        (Some(mode), _) => Ok(mode),
        (None, false) => Ok(Mode::Hybrid),
        (None, true) => Ok(Mode::Keyword),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::catalog::{Catalog, Changes, Tool};

    #[test]
    fn engine_decides_once_for_its_own_access_only() {
        let risky = Tool {
            safe: Some(false),
            ..Tool::without_arguments("wipe", "Wipes a disk")
        };
        let catalog = Catalog::from_tools([Tool::without_arguments("list", "Lists disks"), risky])
            .expect("valid");
        let bold = Access {
            allow_unsafe: true,
            ..Access::default()
        };
        let unclear = Access {
            max_cost: Some(f64::NAN),
            ..Access::default()
        };
        let engine = Engine::builder(catalog).keyword_only().build();
        let plain = engine.expect("indexed");
        let error = plain.with_access(unclear.clone()).expect_err("NaN");
        assert_eq!(error, AccessError::InvalidCost);
        let engine = plain.with_access(Access::default()).expect("valid access");
        let decide = |engine: &Engine, access: &Access| engine.indexes().eligibility(access);
        let [first, again] =
            [(); 2].map(|()| decide(&engine, &Access::default()).expect("valid access"));
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(first.flags(), [true, false]);
        assert_eq!(
            decide(&engine, &unclear).expect_err("NaN"),
            AccessError::InvalidCost
        );
        assert_eq!(
            decide(&engine, &bold).expect("valid access").flags(),
            [true, true]
        );
        assert_eq!(
            decide(&plain, &bold).expect("valid access").flags(),
            [true, true]
        );
        // Another catalog needs another decision.
        let put = vec![Tool::without_arguments("mount", "Mounts a disk")];
        let changes = Changes {
            put,
            remove: vec!["list".to_owned()],
        };
        let updated = engine.update(changes).expect("valid");
        let eligibility = decide(&updated, &Access::default()).expect("valid access");
        assert_eq!(eligibility.flags(), [false, true]);
    }
}
