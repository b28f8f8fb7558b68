//! What a store is asked for a request: which words, which vectors and which names, among the tools
//! that may be seen.
//!
//! Nothing of a request or of a policy goes to the store as it is written: words, names, sources
//! and policies are hashes, so that no text can be taken for a part of a query.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use ndarray::Array2;

use super::head::{policy_tag, source_tag};
use picktools::Mode;
use picktools::access::Access;
use picktools::catalog::spelling::normalise;
use picktools::catalog::{Whole, WholeGroup};
use picktools::names::{possible_mentions, qualified};
use picktools::options::PickOptions;
use picktools::query::Query;
use picktools::saved::fnv1a;
use picktools::shard::query_terms;
use picktools::text::TermKind;

/// The most parts of a request that are asked for by themselves.
const MAX_PARTS: usize = 4;
/// How many candidates the whole request has for each tool that may be picked, by words and by each
/// model; each of its parts has half as many. `docs/results.md` has what fewer and more give.
const FOR_A_PICK: usize = 4;
/// The fewest and the most of those.
const OF_WHOLE: RangeInclusive<usize> = 32..=128;
/// The most names that a request is read for.
const MAX_MENTIONS: usize = 32;

/// What a store is asked for a request.
#[derive(Debug)]
pub(crate) struct FirstStage {
    pub(crate) texts: Vec<Words>,
    pub(crate) vectors: Vec<Nearest>,
    /// Hashes of names in one writing; tools that have them come whether or not they may be seen,
    /// for reasons to be given.
    pub(crate) names: BTreeSet<u64>,
    pub(crate) filter: Filter,
}

/// Words of a text: hashes of terms.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// Each with what it counts.
    pub(crate) terms: Vec<(u64, f32)>,
    /// How many tools are wanted.
    pub(crate) most: usize,
}

/// What is wanted near a vector of a text.
#[derive(Debug)]
pub(crate) struct Nearest {
    /// The number of the model.
    pub(crate) model: usize,
    pub(crate) vector: Vec<f32>,
    /// How many tools are wanted.
    pub(crate) most: usize,
}

/// Which tools may be seen.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Filter {
    /// How many tools pass, of how many.
    pub(crate) admitted: usize,
    pub(crate) tools: usize,
    pub(crate) policies: Tags,
    pub(crate) sources: Tags,
    /// Hashes of names whose tools do not pass.
    pub(crate) but_named: BTreeSet<u64>,
}

/// Which tags pass.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Tags {
    /// All.
    #[default]
    Any,
    /// These.
    Only(BTreeSet<u64>),
    /// All but these.
    AllBut(BTreeSet<u64>),
}

impl Tags {
    /// Takes tags with whether they pass, and keeps the fewer. Of one tag may be what passes and
    /// what does not: that does not pass.
    fn new(tags: impl Iterator<Item = (u64, bool)>) -> Self {
        let (passing, failing): (Vec<_>, Vec<_>) = tags.partition(|(_, passes)| *passes);
        let tags = |tags: Vec<(u64, bool)>| {
            tags.into_iter()
                .map(|(tag, _)| tag)
                .collect::<BTreeSet<u64>>()
        };
        match (passing.len(), failing.len()) {
            (_, 0) => Self::Any,
            (passes, fails) if passes < fails => {
                let failing = tags(failing);
                Self::Only(tags(passing).difference(&failing).copied().collect())
            }
            _ => Self::AllBut(tags(failing)),
        }
    }
}

/// The hash of a name, in whatever writing.
pub(super) fn name_tag(name: &str) -> u64 {
    fnv1a(&normalise(name))
}

impl Filter {
    /// Says of a snapshot which tools a caller may see.
    pub(super) fn new(access: &Access, whole: &Whole) -> Self {
        let decided = access.decide_whole(whole);
        let (mut admitted, mut sources) = (0, Tags::Any);
        if decided.admits_all_sources {
            let of_policies = whole.of_policies.iter().zip(&decided.policies);
            admitted = of_policies
                .filter(|(_, passes)| **passes)
                .map(|(size, _)| size)
                .sum();
        } else {
            let names = whole.sources.names().iter().map(|name| Some(name.as_str()));
            // Tools without a source stand last.
            let named: Vec<(Option<&str>, bool)> = names
                .chain([None])
                .map(|name| (name, decided.admits_source(name)))
                .collect();
            for &WholeGroup {
                policy,
                source,
                size,
            } in &whole.groups
            {
                let source = source.map_or(named.len() - 1, |source| source as usize);
                admitted += if named[source].1 && decided.policies[policy as usize] {
                    size
                } else {
                    0
                };
            }
            sources = Tags::new(
                named
                    .iter()
                    .map(|&(name, passes)| (source_tag(name), passes)),
            );
        }
        let policies = whole
            .policies
            .iter()
            .map(policy_tag)
            .zip(decided.policies.iter().copied());
        let policies = Tags::new(policies);
        let by_name = access.exclude.iter().chain(&access.quarantine);
        let used_up = access
            .quotas
            .iter()
            .filter(|(_, left)| **left == 0)
            .map(|(name, _)| name);
        Self {
            admitted,
            tools: whole.tools(),
            policies,
            sources,
            but_named: by_name.chain(used_up).map(|name| name_tag(name)).collect(),
        }
    }
}

impl FirstStage {
    /// Reads a request. `embedded` has its vectors by each model, that of the whole first and then
    /// those of its sentences.
    pub(super) fn new(
        query: &Query,
        options: &PickOptions,
        mode: Mode,
        embedded: &[(usize, Array2<f32>)],
        whole: &Whole,
    ) -> Self {
        let of_whole = options
            .max_candidates
            .saturating_mul(FOR_A_PICK)
            .clamp(*OF_WHOLE.start(), *OF_WHOLE.end());
        let of_part = of_whole / 2;
        let mut texts = Vec::new();
        if mode.uses_keyword() {
            let sentences = query.sentences();
            texts.push(Words::of(&sentences, of_whole));
            texts.push(Words::of(&query.conversation_sentences(), of_whole));
            let parts = query.clauses();
            let parts = if parts.len() > 1 { parts } else { Vec::new() };
            texts.extend(
                parts
                    .into_iter()
                    .take(MAX_PARTS)
                    .map(|part| Words::of(&[part], of_part)),
            );
            texts.retain(|words| !words.terms.is_empty());
        }
        let nearest = |&(model, ref rows): &(usize, Array2<f32>)| {
            let near = move |(place, row): (usize, ndarray::ArrayView1<'_, f32>)| {
                let most = if place == 0 { of_whole } else { of_part };
                let says_something = row.iter().any(|&value| value != 0.0);
                says_something.then(|| Nearest {
                    model,
                    vector: row.to_vec(),
                    most,
                })
            };
            rows.rows()
                .into_iter()
                .take(1 + MAX_PARTS)
                .enumerate()
                .filter_map(near)
                .collect::<Vec<_>>()
        };
        let mentions = possible_mentions(query.wanted())
            .into_iter()
            .map(name_tag)
            .take(MAX_MENTIONS);
        let in_use = options.in_use.iter().chain(query.called());
        let in_use = in_use.flat_map(|name| std::iter::once(name.clone()).chain(qualified(name)));
        let access = &options.access;
        let named = options
            .always_include
            .iter()
            .chain(&access.exclude)
            .chain(&access.quarantine);
        let named = named.chain(access.quotas.keys()).map(|name| name_tag(name));
        Self {
            vectors: embedded.iter().flat_map(nearest).collect(),
            texts,
            names: mentions
                .chain(in_use.map(|name| name_tag(&name)))
                .chain(named)
                .collect(),
            filter: Filter::new(access, whole),
        }
    }

    /// Returns the terms of all texts, each once.
    pub(super) fn terms(&self) -> BTreeSet<u64> {
        self.texts
            .iter()
            .flat_map(|words| &words.terms)
            .map(|(term, _)| *term)
            .collect()
    }
}

impl Words {
    fn of(sentences: &[&str], most: usize) -> Self {
        let share = |kind: TermKind| if kind == TermKind::Pair { 0.25 } else { 1.0 };
        let terms = query_terms(sentences)
            .into_iter()
            .map(|term| (term.key.0, term.weight * share(term.kind)));
        Self {
            terms: terms.collect(),
            most,
        }
    }
}
