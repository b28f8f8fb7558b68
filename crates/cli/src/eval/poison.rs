//! What hostile tools change: `picktools eval --poison`.
//!
//! Each request of a sample is asked twice, of the catalog as it is and of the catalog with hostile
//! tools, which is indexed anew. The set's own sources are trusted, the hostile one is not.

use anyhow::Context;
use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde::Serialize;

use super::super::args::{Model, progress_bar};
use super::tables::align;
use picktools::options::UNTRUSTED_MAX_PER_SOURCE;
use picktools::{Catalog, PickOptions, Selection, Tool};
use picktools_eval::{EvalQuery, Measure, Qrels, QuerySet, SplitMix64};

/// How many requests of a set are asked.
const REQUESTS: usize = 200;
/// How many tools copy the request.
const COPIES: usize = 5;
/// The source of the tools that copy the request.
const SOURCE: &str = "hostile";
/// How a tool praises itself: a wording a line, none of which was written with a look at what reads
/// descriptions.
const PRAISE: &str = include_str!("../../../../fixtures/hostile/praise.txt");
/// How often a tool repeats its name.
const REPEATS: usize = 20;

/// How a catalog is poisoned.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Poison {
    /// Five tools of a source that is not trusted, whose descriptions copy the request.
    Copy,
    /// Praise of itself, or an order to use it, before the description of one of the ten best
    /// tools: one of 96 wordings.
    Praise,
    /// The name of one of the ten best tools, twenty times after its description.
    Repeat,
}

/// What the poison did.
#[derive(Serialize)]
pub(super) struct PoisonReport {
    poison: Poison,
    /// The most tools of one source that is not trusted.
    max_per_source: usize,
    sets: Vec<PoisonedSet>,
}

/// What the poison did to one set.
#[derive(Default, Serialize)]
pub(super) struct PoisonedSet {
    set: String,
    /// How many requests were asked.
    requests: usize,
    /// Mean R@10 without the poison, 0..1.
    clean_recall: f64,
    /// Mean R@10 with it.
    poisoned_recall: f64,
    /// Mean nDCG@10 without the poison, 0..1.
    clean_ndcg: f64,
    /// Mean nDCG@10 with it.
    poisoned_ndcg: f64,
    /// By how many places a hostile tool rises in the mean; one that is not picked stands behind
    /// the last pick.
    places_risen: f64,
    /// The share of requests whose first pick is a hostile tool.
    hostile_first: f64,
    /// The share of requests whose first pick is another tool than without the poison.
    first_changed: f64,
}

/// Poisons a set.
pub(super) fn poisoned(
    set: String,
    poison: Poison,
    model: &Model,
    catalog: &Catalog,
    (queries, qrels): (&QuerySet, &Qrels),
    options: &PickOptions,
    seed: u64,
) -> anyhow::Result<PoisonedSet> {
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
            .tools()
            .iter()
            .filter_map(|tool| tool.source.clone())
            .collect(),
        ..options.clone()
    };
    let engine = model.engine(catalog.clone())?;
    let wordings: Vec<&str> = PRAISE.lines().collect();
    let [ndcg, _, recall, ..] = Measure::SUMMARY;
    let mut sums = PoisonedSet {
        set,
        requests: sample.len(),
        ..PoisonedSet::default()
    };
    let bar = progress_bar("poisoning");
    bar.set_length(sample.len() as u64);
    for asked @ EvalQuery { id, text, .. } in sample.iter().map(|&number| queries[number]) {
        let judgments = qrels.get(id).context("a query of the sample is judged")?;
        let query = asked.query();
        let clean = engine.pick(&query, &options)?;
        let vain = clean
            .picks
            .get(random.below(clean.picks.len().clamp(1, 10)))
            .map(|pick| &*pick.tool);
        let (catalog, hostile) = match (poison, vain) {
            (Poison::Copy, _) => with_copies(catalog, text)?,
            (Poison::Praise, Some(tool)) => {
                let praise = wordings[random.below(wordings.len())];
                describe(catalog, tool, format!("{praise} {}", tool.description))?
            }
            (Poison::Repeat, Some(tool)) => {
                let names = format!(" {}", tool.name).repeat(REPEATS);
                describe(catalog, tool, tool.description.clone() + &names)?
            }
            (Poison::Praise | Poison::Repeat, None) => (catalog.clone(), Vec::new()),
        };
        let poisoned = model.engine(catalog)?.pick(&query, &options)?;
        sums.clean_recall += recall.score(&ids(&clean), judgments);
        sums.poisoned_recall += recall.score(&ids(&poisoned), judgments);
        sums.clean_ndcg += ndcg.score(&ids(&clean), judgments);
        sums.poisoned_ndcg += ndcg.score(&ids(&poisoned), judgments);
        let (before, after) = (place(&clean, &hostile), place(&poisoned, &hostile));
        sums.places_risen += before as f64 - after as f64;
        sums.hostile_first += f64::from(after == 0);
        sums.first_changed += f64::from(ids(&clean).first() != ids(&poisoned).first());
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(sums.means())
}

/// The catalog with tools that copy `request`, and their ids.
fn with_copies(catalog: &Catalog, request: &str) -> anyhow::Result<(Catalog, Vec<String>)> {
    let copies: Vec<Tool> = (1..=COPIES)
        .map(|number| {
            let mut tool = Tool::without_arguments(format!("helper_{number}"), request);
            tool.source = Some(SOURCE.to_owned());
            tool.id = tool.qualified_name();
            tool.parameters = Some(serde_json::json!({"type": "object", "properties": {}}));
            tool
        })
        .collect();
    let ids = copies.iter().map(|tool| tool.id.clone()).collect();
    Ok((catalog.with_tools(copies)?, ids))
}

/// The catalog with another description of one tool, and that tool's id.
fn describe(
    catalog: &Catalog,
    vain: &Tool,
    description: String,
) -> anyhow::Result<(Catalog, Vec<String>)> {
    let tools = catalog.tools().iter().map(|tool| {
        let mut tool = Tool::clone(tool);
        if tool.id == vain.id {
            tool.description.clone_from(&description);
        }
        tool
    });
    Ok((Catalog::from_tools(tools)?, vec![vain.id.clone()]))
}

/// What a source that is not trusted may have of the ten.
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

/// How many picks stand before the first hostile one.
fn place(selection: &Selection, hostile: &[String]) -> usize {
    selection
        .picks
        .iter()
        .take_while(|pick| !hostile.contains(&pick.tool.id))
        .count()
}

impl PoisonedSet {
    /// Turns sums over requests into means.
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

    /// One row a set, and their means.
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
            "places risen",
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
            let measures =
                [recall, recall_loss, ndcg, ndcg_loss].map(|figure| format!("{figure:.4}"));
            let shares = [hostile, changed].map(|share| format!("{:.1} %", 100.0 * share));
            let cells = [name.to_owned(), requests]
                .into_iter()
                .chain(measures)
                .chain([format!("{risen:.2}")]);
            table.add_row(cells.chain(shares));
        };
        let figures = |set: &PoisonedSet| {
            let (recall_loss, ndcg_loss) = (
                set.clean_recall - set.poisoned_recall,
                set.clean_ndcg - set.poisoned_ndcg,
            );
            let shares = (set.places_risen, set.hostile_first, set.first_changed);
            [
                set.clean_recall,
                recall_loss,
                set.clean_ndcg,
                ndcg_loss,
                shares.0,
                shares.1,
                shares.2,
            ]
        };
        for set in &self.sets {
            row(&set.set, set.requests.to_string(), figures(set));
        }
        let mean = |place: usize| {
            self.sets.iter().map(|set| figures(set)[place]).sum::<f64>()
                / self.sets.len().max(1) as f64
        };
        row("mean", String::new(), std::array::from_fn(mean));
        align(&mut table)
    }
}
