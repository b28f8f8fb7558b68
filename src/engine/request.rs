//! What a request and its options come to for one catalog: who may be seen, what is named, and what
//! is in use.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::signals::models;
use crate::access::{Eligibility, named};
use crate::deadline::Deadline;
use crate::fuse::{Fusion, Mode};
use crate::index::{ExampleIndex, Index, Vectors};
use crate::names::{Mention, NameTable};
use crate::options::{MAX_IN_USE, PickError, PickOptions};
use crate::query::Query;
use crate::ranking::ToolId;

/// A request and its options, checked against one catalog.
pub(super) struct Request<'a> {
    pub(super) index: &'a Index,
    /// What tools served before, where some have examples.
    pub(super) examples: Option<&'a ExampleIndex>,
    pub(super) query: &'a Query,
    pub(super) options: &'a PickOptions,
    pub(super) deadline: Deadline,
    pub(super) mode: Mode,
    pub(super) eligibility: Arc<Eligibility>,
    /// Untrusted tools that are eligible, each with the eligible tool that it copies: they are not
    /// ranked.
    pub(super) copies: BTreeMap<ToolId, ToolId>,
    /// The tools that are ranked, where these are not all that are eligible.
    rankable: Option<Eligibility>,
    /// The sources that `max_per_source` does not limit.
    pub(super) trusted_sources: HashSet<&'a str>,
    /// Tools that the request names outright, eligible or not.
    pub(super) mentions: Vec<Mention>,
    /// Tools that the caller wants whatever their score, eligible or not.
    pub(super) always: BTreeMap<ToolId, String>,
    /// Tools that are in use, eligible or not.
    pub(super) in_use: InUse,
    /// Tools that picked skills need, eligible or not, with the names of the skills.
    pub(super) needed: BTreeMap<ToolId, Vec<String>>,
    /// Whether each tool is wanted to have a score, however large the catalog is.
    pub(super) whole: bool,
}

impl<'a> Request<'a> {
    /// Checks the options and decides on eligibility, before anything is scored.
    pub(super) fn new(
        index: &'a Index,
        query: &'a Query,
        options: &'a PickOptions,
    ) -> Result<Self, PickError> {
        let deadline = Deadline::after(options.timeout);
        options.check()?;
        let mode = mode(index, options)?;
        let always = always(index, options)?;
        let eligibility = index.eligibility(&options.access)?;
        let trusted_sources = index.catalog.sources().permitted(&options.trusted_sources);
        let mentions = index.names.mentions(query.wanted());
        let in_use = InUse::new(&index.names, query, options);
        let needed = BTreeMap::new();
        let (copies, rankable) = (BTreeMap::new(), None);
        let mut request = Self {
            index,
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
            in_use,
            needed,
            whole: false,
        };
        request.leave_copies_out();
        Ok(request)
    }

    /// Ranks by the examples of tools too.
    pub(super) fn with_examples(self, examples: Option<&'a ExampleIndex>) -> Self {
        Self {
            examples: examples.filter(|examples| !examples.is_empty()),
            ..self
        }
    }

    /// Ranks no copies of what is trusted, but for those that stay whatever their score.
    fn leave_copies_out(&mut self) {
        self.copies = self
            .index
            .copies
            .among(|tool| self.eligibility.admits(tool));
        let staying: BTreeSet<ToolId> = self.musts().union(&self.held()).copied().collect();
        self.copies.retain(|copy, _| !staying.contains(copy));
        if !self.copies.is_empty() {
            let rankable = self
                .eligibility
                .admitted()
                .filter(|tool| !self.copies.contains_key(tool));
            let rankable: Vec<ToolId> = rankable.collect();
            self.rankable = Some(Eligibility::only(&rankable, self.eligibility.tools()));
        }
    }

    /// Returns `true` if it is enough to score the tools of a large catalog that may be near the
    /// request: one model scores tools, for this request alone, and nothing raises others.
    pub(super) fn may_narrow(&self, vectors: &Vectors) -> bool {
        vectors.are_many()
            && !self.whole
            && models(self.index, self.mode).len() == 1
            && self.options.fusion == Fusion::Weighted
            && self.query.conversation().is_empty()
            && self.examples.is_none()
            && self.in_use.tools.is_empty()
            && !self.options.popularity
    }

    /// Asks of these tools alone, each of which may be seen, whatever the request names.
    pub(super) fn ask_only_of(&mut self, tools: &[ToolId]) {
        self.eligibility = Arc::new(Eligibility::only(tools, self.index.catalog.len()));
        (self.copies, self.rankable) = (BTreeMap::new(), None);
        self.mentions.clear();
        self.in_use = InUse::default();
    }

    /// Returns which tools are ranked: those that are eligible, without copies.
    pub(super) fn rankable(&self) -> &Eligibility {
        self.rankable.as_ref().unwrap_or(&*self.eligibility)
    }

    /// Returns the eligible tools that stay whatever their score.
    pub(super) fn musts(&self) -> BTreeSet<ToolId> {
        let named = self.mentions.iter().map(|mention| mention.tool);
        named
            .chain(self.always.keys().copied())
            .filter(|&tool| self.eligibility.admits(tool))
            .collect()
    }

    /// Returns the eligible tools that stay because they are in use.
    pub(super) fn held(&self) -> BTreeSet<ToolId> {
        self.in_use
            .tools
            .keys()
            .copied()
            .filter(|&tool| self.eligibility.admits(tool))
            .collect()
    }

    /// Returns the eligible tools that picked skills bring along.
    pub(super) fn brought(&self) -> BTreeSet<ToolId> {
        self.needed
            .keys()
            .copied()
            .filter(|&tool| self.eligibility.admits(tool))
            .collect()
    }

    /// Returns the tool's source.
    pub(super) fn source(&self, tool: ToolId) -> Option<&'a str> {
        self.index.catalog.source(tool)
    }

    /// Returns what the tool's source shares with those that look like it.
    pub(super) fn look(&self, tool: ToolId) -> Option<&'a str> {
        self.index.catalog.sources().look_of(self.source(tool))
    }

    /// Returns the name by which the request names the tool outright.
    pub(super) fn mention(&self, tool: ToolId) -> Option<&str> {
        self.mentions
            .iter()
            .find(|mention| mention.tool == tool)
            .map(|mention| mention.name.as_str())
    }
}

/// What a task has called so far.
#[derive(Debug, Default)]
pub(super) struct InUse {
    /// The latest [`MAX_IN_USE`] tools, each with the name by which it was called last.
    pub(super) tools: BTreeMap<ToolId, String>,
    /// Tools that were called longer ago, the latest first.
    pub(super) over: Vec<ToolId>,
    /// Names that no tool has, the latest first.
    pub(super) unknown: Vec<String>,
}

impl InUse {
    /// Resolves the names that the caller gives, and then those of the transcript, each from the
    /// latest on.
    fn new(names: &NameTable, query: &Query, options: &PickOptions) -> Self {
        let mut in_use = Self::default();
        for name in options
            .in_use
            .iter()
            .rev()
            .chain(query.called().iter().rev())
        {
            let mut is_known = false;
            for tool in names.meant(name) {
                is_known = true;
                if in_use.tools.contains_key(&tool) || in_use.over.contains(&tool) {
                    continue;
                }
                if in_use.tools.len() < MAX_IN_USE {
                    in_use.tools.insert(tool, name.clone());
                } else {
                    in_use.over.push(tool);
                }
            }
            if !is_known && !in_use.unknown.contains(name) {
                in_use.unknown.push(name.clone());
            }
        }
        in_use
    }
}

fn mode(index: &Index, options: &PickOptions) -> Result<Mode, PickError> {
    match (options.mode, index.vectors.is_empty()) {
        (Some(mode), true) if mode.uses_semantic() => {
            Err(PickError::NoEmbedder { mode: mode.name() })
        }
        (Some(mode), _) => Ok(mode),
        (None, false) => Ok(Mode::Hybrid),
        (None, true) => Ok(Mode::Keyword),
    }
}

/// The tools that are always included, with the names that the caller gives them.
fn always(index: &Index, options: &PickOptions) -> Result<BTreeMap<ToolId, String>, PickError> {
    let mut always = BTreeMap::new();
    for name in &options.always_include {
        match named(&index.names, "always_include", name)?[..] {
            [tool] => always.insert(tool, name.clone()),
            ref several => {
                let candidates = several
                    .iter()
                    .map(|&tool| index.catalog.tool(tool).id.clone())
                    .collect();
                return Err(PickError::AmbiguousTool {
                    option: "always_include",
                    name: name.clone(),
                    candidates,
                });
            }
        };
    }
    Ok(always)
}
