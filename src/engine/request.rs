//! A request and its options, resolved for one catalog: eligible tools, mentions and tools in use.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::ranked::RequestRanking;
use super::signals::models;
use crate::access::{Eligibility, resolve_tools};
use crate::catalog::Catalog;
use crate::deadline::Deadline;
use crate::fuse::{Fusion, Mode};
use crate::index::{ExampleIndex, Index, Vectors};
use crate::names::{Mention, NameTable};
use crate::options::{MAX_IN_USE, PickError, PickOptions};
use crate::query::Query;
use crate::ranking::ToolId;

/// The kind of entries that a catalog has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentKind {
    Tools,
    Skills,
}

/// A request and its options, validated against one catalog.
pub(super) struct Request<'a> {
    pub(super) index: &'a Index,
    pub(super) documents: DocumentKind,
    /// The index of examples, if there are any.
    pub(super) examples: Option<&'a ExampleIndex>,
    pub(super) query: &'a Query,
    pub(super) options: &'a PickOptions,
    pub(super) deadline: Deadline,
    pub(super) mode: Mode,
    pub(super) eligibility: Arc<Eligibility>,
    /// Eligible untrusted tools, each with the eligible tool that it copies. They are not ranked.
    pub(super) copies: BTreeMap<ToolId, ToolId>,
    /// The tools that are ranked, if these are not all eligible tools.
    rankable: Option<Eligibility>,
    /// The sources that `max_per_source` does not limit.
    pub(super) trusted_sources: HashSet<&'a str>,
    /// Tools that the request mentions, eligible or not.
    pub(super) mentions: Vec<Mention>,
    /// Tools that the caller always includes, with their names: the eligible tools that a glob
    /// matches, and all tools that are named.
    pub(super) always: BTreeMap<ToolId, String>,
    /// Tools that the caller includes if no other tool fits, like `always`.
    pub(super) fallbacks: BTreeMap<ToolId, String>,
    /// Tools in use, eligible or not.
    pub(super) in_use: ToolsInUse,
    /// Tools of picked skills, eligible or not, with the names of the skills.
    pub(super) needed: BTreeMap<ToolId, Vec<String>>,
    /// `true` if each tool must have a score, even in a large catalog.
    pub(super) score_all: bool,
}

impl<'a> Request<'a> {
    /// Validates the options and determines the eligible tools, before any scoring.
    pub(super) fn new(
        index: &'a Index,
        query: &'a Query,
        options: &'a PickOptions,
    ) -> Result<Self, PickError> {
        let deadline = Deadline::after(options.timeout);
        options.check()?;
        let mode = resolve_mode(index, options)?;
        let eligibility = index.eligibility(&options.access)?;
        let resolve = |option, names| resolve_included(index, &eligibility, option, names);
        let always = resolve("always_include", &options.always_include)?;
        let fallbacks = resolve("fallbacks", &options.fallbacks)?;
        let trusted_sources = index.catalog.sources().permitted(&options.trusted_sources);
        let mentions = index.names.mentions(query.user_text(), &index.catalog);
        let in_use = ToolsInUse::new(&index.names, &index.catalog, query, options);
        let needed = BTreeMap::new();
        let (copies, rankable) = (BTreeMap::new(), None);
        let mut request = Self {
            index,
            documents: DocumentKind::Tools,
            examples: None,
            query,
            options,
            deadline,
            mode,
            eligibility,
            copies,
            rankable,
            trusted_sources,
            mentions,
            always,
            fallbacks,
            in_use,
            needed,
            score_all: false,
        };
        request.exclude_copies();
        Ok(request)
    }

    /// Adds the index of examples to the ranking.
    pub(super) fn with_examples(self, examples: Option<&'a ExampleIndex>) -> Self {
        Self {
            examples: examples.filter(|examples| !examples.is_empty()),
            ..self
        }
    }

    /// Excludes copies of trusted tools from the ranking, except protected ones.
    fn exclude_copies(&mut self) {
        self.copies = self
            .index
            .clones
            .among(|tool| self.eligibility.admits(tool));
        let protected = self.mandatory_or_in_use();
        self.copies.retain(|copy, _| !protected.contains(copy));
        if !self.copies.is_empty() {
            let mut rankable: Vec<ToolId> = self.eligibility.admitted().collect();
            rankable.retain(|tool| !self.copies.contains_key(tool));
            self.rankable = Some(Eligibility::only(&rankable, self.eligibility.tools()));
        }
    }

    /// Returns `true` if it suffices to score only the tools of a large catalog that may be near
    /// the request. That holds if one model scores tools, for this request alone, and nothing
    /// raises other tools.
    pub(super) fn may_narrow(&self, vectors: &Vectors) -> bool {
        vectors.needs_overview()
            && !self.score_all
            && models(self.index, self.mode).len() == 1
            && self.options.fusion == Fusion::Weighted
            && self.query.conversation().is_empty()
            && self.examples.is_none()
            && self.in_use.tools.is_empty()
            && !self.options.popularity
    }

    /// Returns `true` if no tool is shown because none is likely to serve the request. A threshold
    /// of 0 asks for a complete ranking.
    pub(super) fn shows_nothing(&self, ranked: &RequestRanking<'_>) -> bool {
        self.options.min_score > 0.0 && ranked.is_unsupported()
    }

    /// Restricts the request to these tools, all of which are eligible, and ignores mentions.
    pub(super) fn restrict_to(&mut self, tools: &[ToolId]) {
        self.eligibility = Arc::new(Eligibility::only(tools, self.index.catalog.len()));
        (self.copies, self.rankable) = (BTreeMap::new(), None);
        self.mentions.clear();
        self.in_use = ToolsInUse::default();
    }

    /// Returns the tools that are ranked: the eligible ones without copies.
    pub(super) fn rankable(&self) -> &Eligibility {
        self.rankable.as_ref().unwrap_or(&*self.eligibility)
    }

    /// Returns the eligible tools that are mentioned or always included.
    pub(super) fn mandatory_tools(&self) -> BTreeSet<ToolId> {
        let mentioned = self.mentions.iter().map(|mention| &mention.tool);
        self.eligible(mentioned.chain(self.always.keys()))
    }

    /// Returns the ranked tools that are picked if no other tool fits.
    pub(super) fn ranked_fallbacks(&self) -> impl Iterator<Item = ToolId> {
        let fallbacks = self.fallbacks.keys().copied();
        fallbacks.filter(|&tool| self.rankable().admits(tool))
    }

    /// Returns the eligible tools in use.
    pub(super) fn tools_in_use(&self) -> BTreeSet<ToolId> {
        self.eligible(self.in_use.tools.keys())
    }

    /// Returns the eligible tools of picked skills.
    pub(super) fn skill_tools(&self) -> BTreeSet<ToolId> {
        self.eligible(self.needed.keys())
    }

    /// Returns the eligible tools that are mentioned, always included or in use.
    pub(super) fn mandatory_or_in_use(&self) -> BTreeSet<ToolId> {
        let mut tools = self.mandatory_tools();
        tools.append(&mut self.tools_in_use());
        tools
    }

    fn eligible<'t>(&self, tools: impl Iterator<Item = &'t ToolId>) -> BTreeSet<ToolId> {
        let mut eligible = BTreeSet::new();
        for &tool in tools {
            if self.eligibility.admits(tool) {
                eligible.insert(tool);
            }
        }
        eligible
    }

    /// Returns the tool's source.
    pub(super) fn source(&self, tool: ToolId) -> Option<&'a str> {
        self.index.catalog.source(tool)
    }

    /// Returns the common form of the tool's source and the sources with confusable names.
    pub(super) fn look(&self, tool: ToolId) -> Option<&'a str> {
        self.index.catalog.sources().skeleton(self.source(tool))
    }

    /// Returns the name by which the request mentions the tool.
    pub(super) fn mention(&self, tool: ToolId) -> Option<&str> {
        let mut mentions = self.mentions.iter();
        let mention = mentions.find(|mention| mention.tool == tool)?;
        Some(&mention.name)
    }
}

/// The tools that a task has called so far.
#[derive(Debug, Default)]
pub(super) struct ToolsInUse {
    /// The latest [`MAX_IN_USE`] tools, each with the name of its last call.
    pub(super) tools: BTreeMap<ToolId, String>,
    /// Tools that were called earlier, the latest first.
    pub(super) surplus: Vec<ToolId>,
    /// Names that are not in the catalog, the latest first.
    pub(super) unknown: Vec<String>,
}

impl ToolsInUse {
    /// Resolves the caller's names, then those of the transcript, each from the latest on.
    fn new(names: &NameTable, catalog: &Catalog, query: &Query, options: &PickOptions) -> Self {
        let mut in_use = Self::default();
        for name in options
            .in_use
            .iter()
            .rev()
            .chain(query.called().iter().rev())
        {
            let mut is_known = false;
            for tool in names.possible_tools(name, catalog) {
                is_known = true;
                if in_use.tools.contains_key(&tool) || in_use.surplus.contains(&tool) {
                    continue;
                }
                if in_use.tools.len() < MAX_IN_USE {
                    in_use.tools.insert(tool, name.clone());
                } else {
                    in_use.surplus.push(tool);
                }
            }
            if !is_known && !in_use.unknown.contains(name) {
                in_use.unknown.push(name.clone());
            }
        }
        in_use
    }
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

/// Returns the tools of an option, with the caller's names for them. A glob stands for the eligible
/// tools that it matches.
fn resolve_included(
    index: &Index,
    eligibility: &Eligibility,
    option: &'static str,
    names: &[String],
) -> Result<BTreeMap<ToolId, String>, PickError> {
    let mut tools = BTreeMap::new();
    for name in names {
        let matched = index.names.tools_of_pattern(name, &index.catalog);
        if let Some(matched) =
            matched.map_err(|error| PickError::InvalidPattern { option, error })?
        {
            for tool in matched {
                if eligibility.admits(tool) {
                    tools.entry(tool).or_insert_with(|| name.clone());
                }
            }
            continue;
        }
        match resolve_tools(&index.names, &index.catalog, option, name)?[..] {
            [tool] => tools.insert(tool, name.clone()),
            ref several => {
                let candidates = several
                    .iter()
                    .map(|&tool| index.catalog.outline(tool).id.clone())
                    .collect();
                return Err(PickError::AmbiguousTool {
                    option,
                    name: name.clone(),
                    candidates,
                });
            }
        };
    }
    Ok(tools)
}
