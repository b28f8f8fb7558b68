//! The effect of hostile tools: `picktools eval --poison`.
//!
//! Each request of a sample is asked twice: with the catalog as it is, and with hostile tools in
//! it. The sources of the set are trusted, the hostile one is not.

use anyhow::Context;
use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde::Serialize;

use super::super::args::{Model, progress_bar};
use super::tables::align;
use picktools::options::UNTRUSTED_MAX_PER_SOURCE;
use picktools::{Catalog, PickOptions, Selection, Tool};
use picktools_eval::{
    EvalQuery, IneligibleJudgments, Judgments, Measure, Qrels, QuerySet, SplitMix64,
};

/// The number of requests per set.
const REQUESTS: usize = 200;
/// The number of tools that copy the request.
const COPIES: usize = 5;
/// The source of the tools that copy the request.
const SOURCE: &str = "hostile";
/// Wordings with which a tool praises itself, one per line. They were written independently of the
/// code that reads descriptions.
const PRAISE: &str = include_str!("../../../../fixtures/hostile/praise.txt");
/// The number of times that a tool repeats its name.
const REPEATS: usize = 20;

/// The kind of hostile tools.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Poison {
    /// Five tools of an untrusted source whose descriptions copy the request.
    Copy,
    /// One of the ten best tools praises itself, or demands to be used, in one of 96 wordings
    /// before its description.
    Praise,
    /// One of the ten best tools repeats its name twenty times after its description.
    Repeat,
}

/// The effect of hostile tools on all sets.
#[derive(Serialize)]
pub(super) struct PoisonReport {
    poison: Poison,
    /// The largest number of picks from one untrusted source.
    max_per_source: usize,
    sets: Vec<PoisonedSet>,
}

/// The effect of hostile tools on one set.
#[derive(Default, Serialize)]
pub(super) struct PoisonedSet {
    set: String,
    /// The relevant tools that the caller may not see.
    #[serde(skip_serializing_if = "Option::is_none")]
    ineligible_judged: Option<IneligibleJudgments>,
    /// The number of requests.
    requests: usize,
    /// Mean R@10 without hostile tools, 0..1.
    clean_recall: f64,
    /// Mean R@10 with the hostile tools.
    poisoned_recall: f64,
    /// Mean nDCG@10 without hostile tools, 0..1.
    clean_ndcg: f64,
    /// Mean nDCG@10 with the hostile tools.
    poisoned_ndcg: f64,
    /// The mean number of ranks that a hostile tool gains. A tool that is not picked counts as the
    /// rank after the last pick.
    places_risen: f64,
    /// The share of requests whose first pick is a hostile tool.
    hostile_first: f64,
    /// The share of requests whose first pick changes.
    first_changed: f64,
}

/// A set, and the parameters of its evaluation.
pub(super) struct PoisonInput<'a> {
    pub(super) set: String,
    pub(super) ineligible_judged: Option<IneligibleJudgments>,
    pub(super) poison: Poison,
    pub(super) model: &'a Model,
    pub(super) catalog: &'a Catalog,
    pub(super) queries: &'a QuerySet,
    pub(super) qrels: &'a Qrels,
    pub(super) options: &'a PickOptions,
    pub(super) seed: u64,
}

/// Asks a sample of the set's requests with and without hostile tools.
pub(super) fn evaluate(input: PoisonInput<'_>) -> anyhow::Result<PoisonedSet> {
    let PoisonInput {
        set,
        ineligible_judged,
        poison,
        model,
        catalog,
        queries,
        qrels,
        options,
        seed,
    } = input;
    let mut random = SplitMix64::new(seed);
    let judged = |query: &EvalQuery| {
        qrels
            .get(&query.id)
            .is_some_and(|judgments| judgments.relevant_len() > 0)
    };
    let queries: Vec<&EvalQuery> = queries.iter().filter(|query| judged(query)).collect();
    let sample = random.sample(queries.len(), REQUESTS);
    let options = PickOptions {
        max_per_source: Some(max_per_source(options)),
        trusted_sources: catalog
            .tools()?
            .iter()
            .filter_map(|tool| tool.source.clone())
            .collect(),
        ..options.clone()
    };
    let engine = model.engine(catalog.clone())?;
    let mut sums = PoisonedSet {
        set,
        ineligible_judged,
        requests: sample.len(),
        ..PoisonedSet::default()
    };
    let bar = progress_bar("poisoning");
    bar.set_length(sample.len() as u64);
    for number in sample {
        let sampled = queries[number];
        let judgments = qrels
            .get(&sampled.id)
            .context("a query of the sample has no judgments")?;
        let query = sampled.query();
        let clean = engine.pick(&query, &options)?;
        let target = random.below(clean.picks.len().clamp(1, 10));
        let (catalog, hostile) = match (poison, clean.picks.get(target)) {
            (Poison::Copy, _) => with_copies(catalog, &sampled.text)?,
            (Poison::Praise, Some(pick)) => praise(catalog, &pick.tool, &mut random)?,
            (Poison::Repeat, Some(pick)) => repeat_name(catalog, &pick.tool)?,
            (Poison::Praise | Poison::Repeat, None) => (catalog.clone(), Vec::new()),
        };
        let poisoned = model.engine(catalog)?.pick(&query, &options)?;
        sums.add(&clean, &poisoned, &hostile, judgments);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(sums.means())
}

/// Returns the catalog with tools that copy `request`, and their ids.
fn with_copies(catalog: &Catalog, request: &str) -> anyhow::Result<(Catalog, Vec<String>)> {
    let (mut copies, mut ids) = (Vec::new(), Vec::new());
    for number in 1..=COPIES {
        let mut tool = Tool::without_arguments(format!("helper_{number}"), request);
        tool.source = Some(SOURCE.to_owned());
        tool.id = tool.qualified_name();
        tool.parameters = Some(serde_json::json!({"type": "object", "properties": {}}));
        ids.push(tool.id.clone());
        copies.push(tool);
    }
    Ok((catalog.with_tools(copies)?, ids))
}

/// Returns the catalog with one tool that praises itself, and the id of the tool.
fn praise(
    catalog: &Catalog,
    target: &Tool,
    random: &mut SplitMix64,
) -> anyhow::Result<(Catalog, Vec<String>)> {
    let wordings: Vec<&str> = PRAISE.lines().collect();
    let praise = wordings[random.below(wordings.len())];
    describe(catalog, target, format!("{praise} {}", target.description))
}

/// Returns the catalog with one tool that repeats its name, and the id of the tool.
fn repeat_name(catalog: &Catalog, target: &Tool) -> anyhow::Result<(Catalog, Vec<String>)> {
    let names = format!(" {}", target.name).repeat(REPEATS);
    describe(catalog, target, format!("{}{names}", target.description))
}

/// Returns the catalog with another description of one tool, and the id of the tool.
fn describe(
    catalog: &Catalog,
    target: &Tool,
    description: String,
) -> anyhow::Result<(Catalog, Vec<String>)> {
    let tools = catalog.tools()?.iter().map(|tool| {
        let mut tool = Tool::clone(tool);
        if tool.id == target.id {
            tool.description.clone_from(&description);
        }
        tool
    });
    Ok((Catalog::from_tools(tools)?, vec![target.id.clone()]))
}

/// Returns the limit of picks from one untrusted source.
fn max_per_source(options: &PickOptions) -> usize {
    options.max_per_source.unwrap_or(UNTRUSTED_MAX_PER_SOURCE)
}

fn ids(selection: &Selection) -> Vec<&str> {
    selection
        .picks
        .iter()
        .map(|pick| pick.tool.id.as_str())
        .collect()
}

/// Returns the number of picks before the first hostile one.
fn rank(selection: &Selection, hostile: &[String]) -> usize {
    selection
        .picks
        .iter()
        .take_while(|pick| !hostile.contains(&pick.tool.id))
        .count()
}

impl PoisonedSet {
    /// Adds the figures of one request.
    fn add(
        &mut self,
        clean: &Selection,
        poisoned: &Selection,
        hostile: &[String],
        judgments: &Judgments,
    ) {
        let [ndcg, _, recall, ..] = Measure::SUMMARY;
        let (clean_ids, poisoned_ids) = (ids(clean), ids(poisoned));
        self.clean_recall += recall.score(&clean_ids, judgments);
        self.poisoned_recall += recall.score(&poisoned_ids, judgments);
        self.clean_ndcg += ndcg.score(&clean_ids, judgments);
        self.poisoned_ndcg += ndcg.score(&poisoned_ids, judgments);
        let (clean_rank, poisoned_rank) = (rank(clean, hostile), rank(poisoned, hostile));
        self.places_risen += clean_rank as f64 - poisoned_rank as f64;
        self.hostile_first += f64::from(poisoned_rank == 0);
        self.first_changed += f64::from(clean_ids.first() != poisoned_ids.first());
    }

    /// Divides the sums by the number of requests.
    fn means(mut self) -> Self {
        let requests = self.requests.max(1) as f64;
        for sum in [
            &mut self.clean_recall,
            &mut self.poisoned_recall,
            &mut self.clean_ndcg,
            &mut self.poisoned_ndcg,
            &mut self.places_risen,
            &mut self.hostile_first,
            &mut self.first_changed,
        ] {
            *sum /= requests;
        }
        self
    }
}

impl PoisonReport {
    pub(super) fn new(poison: Poison, options: &PickOptions, sets: Vec<PoisonedSet>) -> Self {
        Self {
            poison,
            max_per_source: max_per_source(options),
            sets,
        }
    }

    /// Returns a table with one row per set, and their means.
    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "set",
            "requests",
            "R@10",
            "loss",
            "nDCG@10",
            "loss",
            "ranks gained",
            "hostile first",
            "first changed",
        ]);
        let mut row = |name: &str, requests: String, figures: [f64; 7]| {
            let [
                recall,
                recall_loss,
                ndcg,
                ndcg_loss,
                risen,
                hostile,
                changed,
            ] = figures;
            table.add_row([
                name.to_owned(),
                requests,
                format!("{recall:.4}"),
                format!("{recall_loss:.4}"),
                format!("{ndcg:.4}"),
                format!("{ndcg_loss:.4}"),
                format!("{risen:.2}"),
                format!("{:.1} %", 100.0 * hostile),
                format!("{:.1} %", 100.0 * changed),
            ]);
        };
        let figures = |set: &PoisonedSet| {
            [
                set.clean_recall,
                set.clean_recall - set.poisoned_recall,
                set.clean_ndcg,
                set.clean_ndcg - set.poisoned_ndcg,
                set.places_risen,
                set.hostile_first,
                set.first_changed,
            ]
        };
        for set in &self.sets {
            row(&set.set, set.requests.to_string(), figures(set));
        }
        let mean = |index: usize| {
            self.sets.iter().map(|set| figures(set)[index]).sum::<f64>()
                / self.sets.len().max(1) as f64
        };
        row("mean", String::new(), std::array::from_fn(mean));
        align(&mut table)
    }
}
