//! The search of the store for a request: words, vectors and names, among the eligible tools.
//!
//! The text of requests and policies is never sent to the store. Words, names, sources and policies
//! are sent as hashes, so no text can inject query syntax.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use ndarray::Array2;

use super::head::{policy_tag, source_tag};
use picktools::Mode;
use picktools::access::Access;
use picktools::catalog::spelling::normalise;
use picktools::catalog::{CatalogStats, PolicyGroup};
use picktools::names::{possible_mentions, qualified};
use picktools::options::PickOptions;
use picktools::query::Query;
use picktools::saved::fnv1a;
use picktools::shard::query_terms;
use picktools::text::TermKind;

/// The largest number of parts of a request that are searched separately.
const MAX_PARTS: usize = 4;
/// The number of candidates per pick that the complete request gets, by words and by each model.
///
/// Each part of the request gets half as many. `docs/results.md` compares other values.
const CANDIDATES_PER_PICK: usize = 4;
/// The range of the number of candidates of the complete request.
const CANDIDATES: RangeInclusive<usize> = 32..=128;
/// The largest number of names that are searched in a request.
const MAX_MENTIONS: usize = 32;

/// The search of the store for a request.
#[derive(Debug)]
pub(crate) struct FirstStage {
    pub(crate) texts: Vec<WordQuery>,
    pub(crate) vectors: Vec<VectorQuery>,
    /// The hashes of normalised names.
    ///
    /// Tools with these names are returned even if they are ineligible, so that the selection can
    /// give the reasons.
    pub(crate) names: BTreeSet<u64>,
    pub(crate) filter: AccessFilter,
}

/// A search for the words of a text.
#[derive(Debug, Default)]
pub(crate) struct WordQuery {
    /// The hashes of the terms, with their weights.
    pub(crate) terms: Vec<(u64, f32)>,
    /// The largest number of tools to return.
    pub(crate) limit: usize,
}

/// A search for the tools near the vector of a text.
#[derive(Debug)]
pub(crate) struct VectorQuery {
    /// The number of the model.
    pub(crate) model: usize,
    pub(crate) vector: Vec<f32>,
    /// The largest number of tools to return.
    pub(crate) limit: usize,
}

/// The tools that a caller may see.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AccessFilter {
    /// The number of eligible tools.
    pub(crate) eligible: usize,
    /// The number of all tools.
    pub(crate) tools: usize,
    pub(crate) policies: TagFilter,
    pub(crate) sources: TagFilter,
    /// The hashes of the names of tools that are not eligible.
    pub(crate) excluded_names: BTreeSet<u64>,
}

/// A filter by tags.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum TagFilter {
    /// All tags pass.
    #[default]
    Any,
    /// Only these tags pass.
    Only(BTreeSet<u64>),
    /// All tags except these pass.
    AllBut(BTreeSet<u64>),
}

impl TagFilter {
    /// Creates the shorter filter from tags with `true` for those that pass.
    ///
    /// A tag that is listed with both values does not pass.
    fn new(tags: impl Iterator<Item = (u64, bool)>) -> Self {
        let (passing, failing): (Vec<_>, Vec<_>) = tags.partition(|(_, passes)| *passes);
        let has_fewer_passing = passing.len() < failing.len();
        let passing: BTreeSet<u64> = passing.into_iter().map(|(tag, _)| tag).collect();
        let failing: BTreeSet<u64> = failing.into_iter().map(|(tag, _)| tag).collect();
        if failing.is_empty() {
            Self::Any
        } else if has_fewer_passing {
            Self::Only(passing.difference(&failing).copied().collect())
        } else {
            Self::AllBut(failing)
        }
    }
}

/// Returns the hash of a normalised name.
pub(super) fn name_tag(name: &str) -> u64 {
    fnv1a(&normalise(name))
}

impl AccessFilter {
    /// Computes the filter of a caller for a snapshot.
    pub(super) fn new(access: &Access, stats: &CatalogStats) -> Self {
        let decided = access.decide_for_stats(stats);
        let (mut eligible, mut sources) = (0, TagFilter::Any);
        if decided.admits_all_sources {
            let policy_sizes = stats.policy_sizes.iter().zip(&decided.policies);
            eligible = policy_sizes
                .filter(|(_, passes)| **passes)
                .map(|(size, _)| size)
                .sum();
        } else {
            let names = stats.sources.names().iter().map(|name| Some(name.as_str()));
            // Tools without a source are last.
            let admitted_sources: Vec<(Option<&str>, bool)> = names
                .chain([None])
                .map(|name| (name, decided.admits_source(name)))
                .collect();
            for &PolicyGroup {
                policy,
                source,
                size,
            } in &stats.groups
            {
                let last = admitted_sources.len() - 1;
                let source = source.map_or(last, |source| source as usize);
                eligible += if admitted_sources[source].1 && decided.policies[policy as usize] {
                    size
                } else {
                    0
                };
            }
            sources = TagFilter::new(
                admitted_sources
                    .iter()
                    .map(|&(name, passes)| (source_tag(name), passes)),
            );
        }
        let policies = stats
            .policies
            .iter()
            .map(policy_tag)
            .zip(decided.policies.iter().copied());
        let policies = TagFilter::new(policies);
        let by_name = access.exclude.iter().chain(&access.quarantine);
        let exhausted_quotas = access
            .quotas
            .iter()
            .filter(|(_, remaining)| **remaining == 0)
            .map(|(name, _)| name);
        let excluded_names = by_name.chain(exhausted_quotas);
        Self {
            eligible,
            tools: stats.tools(),
            policies,
            sources,
            excluded_names: excluded_names.map(|name| name_tag(name)).collect(),
        }
    }
}

impl FirstStage {
    /// Creates the search for a request.
    ///
    /// `embedded` has the vectors of the request by model: first that of the complete text, then
    /// those of the sentences.
    pub(super) fn new(
        query: &Query,
        options: &PickOptions,
        mode: Mode,
        embedded: &[(usize, Array2<f32>)],
        stats: &CatalogStats,
    ) -> Self {
        let request_limit = options
            .max_candidates
            .saturating_mul(CANDIDATES_PER_PICK)
            .clamp(*CANDIDATES.start(), *CANDIDATES.end());
        let part_limit = request_limit / 2;
        let mut texts = Vec::new();
        if mode.uses_keyword() {
            let sentences = query.sentences();
            let conversation = query.conversation_sentences();
            texts.push(WordQuery::new(&sentences, request_limit));
            texts.push(WordQuery::new(&conversation, request_limit));
            let parts = query.clauses();
            if parts.len() > 1 {
                for part in parts.into_iter().take(MAX_PARTS) {
                    texts.push(WordQuery::new(&[part], part_limit));
                }
            }
            texts.retain(|words| !words.terms.is_empty());
        }
        let mut vectors = Vec::new();
        for (model, rows) in embedded {
            for (position, row) in rows.rows().into_iter().take(1 + MAX_PARTS).enumerate() {
                if row.iter().all(|&value| value == 0.0) {
                    continue;
                }
                vectors.push(VectorQuery {
                    model: *model,
                    vector: row.to_vec(),
                    limit: if position == 0 {
                        request_limit
                    } else {
                        part_limit
                    },
                });
            }
        }
        let mentions = possible_mentions(query.user_text())
            .into_iter()
            .map(name_tag)
            .take(MAX_MENTIONS);
        let in_use = options.in_use.iter().chain(query.called());
        let in_use = in_use.flat_map(|name| std::iter::once(name.clone()).chain(qualified(name)));
        let access = &options.access;
        let names_of_options = options
            .always_include
            .iter()
            .chain(&options.fallbacks)
            .chain(access.named_tools().map(|(_, name)| name));
        let mut names: BTreeSet<u64> = mentions.collect();
        names.extend(in_use.map(|name| name_tag(&name)));
        names.extend(names_of_options.map(|name| name_tag(name)));
        Self {
            vectors,
            texts,
            names,
            filter: AccessFilter::new(access, stats),
        }
    }

    /// Returns the distinct terms of all texts.
    pub(super) fn terms(&self) -> BTreeSet<u64> {
        self.texts
            .iter()
            .flat_map(|words| &words.terms)
            .map(|(term, _)| *term)
            .collect()
    }
}

impl WordQuery {
    fn new(sentences: &[&str], limit: usize) -> Self {
        let share = |kind: TermKind| if kind == TermKind::Pair { 0.25 } else { 1.0 };
        let terms = query_terms(sentences)
            .into_iter()
            .map(|term| (term.key.0, term.weight * share(term.kind)));
        Self {
            terms: terms.collect(),
            limit,
        }
    }
}
