//! `picktools eval`.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::args::{EligibilityArgs, Model, RankingArgs, progress_bar};
use super::output;
use crate::eval::{
    CompareOptions, Comparison, EvalReport, Latency, Measure, MeasureKind, PerQuery, Qrels, QuerySet, Run, RunEntry,
    SetReport, compare, evaluate,
};
use crate::{Catalog, PickOptions, Query};

/// The standard measures reach down to this place, so at least as many tools are picked.
const STANDARD_DEPTH: usize = 10;

#[derive(Args)]
pub(super) struct EvalCommand {
    /// Folders with tools.jsonl, queries.jsonl and qrels.tsv.
    #[arg(value_name = "DIR", required_unless_present = "catalog", conflicts_with_all = ["catalog", "queries", "qrels"])]
    sets: Vec<PathBuf>,
    /// Catalog of a set of one's own.
    #[arg(long, value_name = "PATH", requires_all = ["queries", "qrels"])]
    catalog: Option<PathBuf>,
    /// Its queries: JSON Lines with id and text.
    #[arg(long, value_name = "FILE", requires = "catalog")]
    queries: Option<PathBuf>,
    /// Its judgments: query, tool and grade, separated by tabs; or TREC qrels.
    #[arg(long, value_name = "FILE", requires = "catalog")]
    qrels: Option<PathBuf>,
    /// How many tools are picked for a query; measures at this cutoff are added.
    #[arg(short, value_name = "N", default_value = "10")]
    k: NonZeroUsize,
    /// The least score of a picked tool, 0 to 1.
    #[arg(long, value_name = "SCORE", default_value_t = 0.0)]
    min_score: f32,
    #[command(flatten)]
    eligibility: EligibilityArgs,
    #[command(flatten)]
    ranking: RankingArgs,
    /// Write the run of each set to DIR, as SET.trec.
    #[arg(long, value_name = "DIR")]
    run_out: Option<PathBuf>,
    /// Compare with the runs in DIR, by a paired randomisation test.
    #[arg(long, value_name = "DIR")]
    compare: Option<PathBuf>,
    /// Seed of the randomisation test.
    #[arg(long, value_name = "N", default_value_t = CompareOptions::default().seed)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Where a set lies.
struct Set {
    name: String,
    catalog: PathBuf,
    queries: PathBuf,
    qrels: PathBuf,
}

#[derive(Serialize)]
struct Output<'a> {
    #[serde(flatten)]
    report: &'a EvalReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    comparisons: Vec<SetComparison>,
}

#[derive(Serialize)]
struct SetComparison {
    set: String,
    #[serde(flatten)]
    comparison: Comparison,
}

impl EvalCommand {
    pub(super) fn run(mut self) -> anyhow::Result<()> {
        let sets = self.sets()?;
        if let Some(folder) = &self.run_out {
            fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let model = self.ranking.open_model()?;
        let options = self.options();
        let measures = self.measures();
        let mut reports = Vec::new();
        let mut comparisons = Vec::new();
        for set in sets {
            let qrels = Qrels::read(&set.qrels)?;
            let (run, catalog, latency) =
                pick_all(&set, &model, &options).with_context(|| format!("cannot evaluate the set {}", set.name))?;
            warn_of_strangers(&set.name, &qrels, &run, &catalog);
            let scores = evaluate(&run, &qrels, &measures);
            if let Some(folder) = &self.run_out {
                run.write_trec(&folder.join(format!("{}.trec", set.name)), "picktools")?;
            }
            if let Some(folder) = &self.compare {
                let comparison = self.compare_with(folder, &set.name, &qrels, &measures, &scores)?;
                comparisons.push(SetComparison { set: set.name.clone(), comparison });
            }
            reports.push((set.name, SetReport::new(catalog.len(), &scores, latency)));
        }
        let report = EvalReport::new(reports)?;
        if self.json {
            return output::json(&Output { report: &report, comparisons });
        }
        output::answer(table(&report))?;
        for SetComparison { set, comparison } in &comparisons {
            output::answer(format!("\n{set}: against {}", self.compare.as_deref().unwrap_or(Path::new("")).display()))?;
            output::answer(comparison_table(comparison))?;
        }
        Ok(())
    }

    fn sets(&self) -> anyhow::Result<Vec<Set>> {
        if let (Some(catalog), Some(queries), Some(qrels)) = (&self.catalog, &self.queries, &self.qrels) {
            let (catalog, queries, qrels) = (catalog.clone(), queries.clone(), qrels.clone());
            return Ok(vec![Set { name: name_of(&catalog)?, catalog, queries, qrels }]);
        }
        self.sets
            .iter()
            .map(|folder| {
                if !folder.is_dir() {
                    bail!(
                        "{} is no folder; name folders that hold tools.jsonl, queries.jsonl and qrels.tsv",
                        folder.display()
                    );
                }
                let (queries, qrels) = (folder.join("queries.jsonl"), folder.join("qrels.tsv"));
                Ok(Set { name: name_of(folder)?, catalog: folder.clone(), queries, qrels })
            })
            .collect()
    }

    fn options(&mut self) -> PickOptions {
        let mut options = PickOptions {
            max_candidates: self.k.get().max(STANDARD_DEPTH),
            min_score: self.min_score,
            ..PickOptions::default()
        };
        std::mem::take(&mut self.eligibility).apply(&mut options);
        self.ranking.apply(&mut options);
        options
    }

    /// The standard measures, and the most common ones at the cutoff that was asked for.
    fn measures(&self) -> Vec<Measure> {
        let mut measures = Measure::STANDARD.to_vec();
        for kind in [MeasureKind::Ndcg, MeasureKind::Recall, MeasureKind::Completeness] {
            let measure = Measure::new(kind, self.k);
            if !measures.contains(&measure) {
                measures.push(measure);
            }
        }
        measures
    }

    fn compare_with(
        &self,
        folder: &Path,
        set: &str,
        qrels: &Qrels,
        measures: &[Measure],
        scores: &PerQuery,
    ) -> anyhow::Result<Comparison> {
        let baseline = evaluate(&Run::read_trec(&folder.join(format!("{set}.trec")))?, qrels, measures);
        Ok(compare(&baseline, scores, CompareOptions { seed: self.seed, ..CompareOptions::default() })?)
    }
}

/// Names a set after its folder or catalog file.
fn name_of(path: &Path) -> anyhow::Result<String> {
    let path = path.canonicalize().with_context(|| format!("cannot read {}", path.display()))?;
    let stem = if path.is_dir() { path.file_name() } else { path.file_stem() };
    Ok(stem.map_or_else(|| "set".to_owned(), |stem| stem.to_string_lossy().into_owned()))
}

/// Picks for every query of a set, one after the other on one thread.
fn pick_all(set: &Set, model: &Model, options: &PickOptions) -> anyhow::Result<(Run, Catalog, Option<Latency>)> {
    let queries = QuerySet::read(&set.queries)?;
    let engine = model.engine(Catalog::open(&set.catalog)?)?;
    let mut run = Run::default();
    let mut times = Vec::with_capacity(queries.len());
    let bar = progress_bar("picking");
    bar.set_length(queries.len() as u64);
    for query in &queries {
        let text = Query::new(query.text.as_str());
        let started = Instant::now();
        let selection = engine.pick(&text, options)?;
        times.push(started.elapsed());
        let ranking = selection.picks.iter();
        let ranking = ranking.map(|pick| RunEntry { tool: pick.tool.id.clone(), score: f64::from(pick.score) });
        run.insert(query.id.as_str(), ranking.collect());
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((run, engine.catalog().clone(), Latency::from_durations(&times)))
}

/// Warns of judgments that no pick can satisfy, which mostly are slips in ids.
fn warn_of_strangers(set: &str, qrels: &Qrels, run: &Run, catalog: &Catalog) {
    let queries = qrels.iter().filter(|(query, _)| run.get(query).is_none()).count();
    if queries > 0 {
        output::warn(format!("{set}: {queries} judged queries are not among the queries and score 0"));
    }
    let judged = qrels.iter().flat_map(|(_, judgments)| judgments.iter());
    let tools: BTreeSet<&str> = judged.map(|(tool, _)| tool).filter(|tool| catalog.find(tool).is_none()).collect();
    if let Some(first) = tools.first() {
        output::warn(format!("{set}: {} judged tools are not in the catalog, {first:?} for one", tools.len()));
    }
}

fn table(report: &EvalReport) -> String {
    let measures: Vec<Measure> = report.mean().keys().copied().collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["set".to_owned(), "tools".to_owned(), "queries".to_owned()];
    header.extend(measures.iter().map(ToString::to_string));
    header.extend(["p50 µs".to_owned(), "p99 µs".to_owned()]);
    table.set_header(header);
    let figure = |value: Option<&f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.4}"));
    for (name, set) in report.sets() {
        let mut row = vec![name.clone(), set.tools.to_string(), set.queries.to_string()];
        row.extend(measures.iter().map(|measure| figure(set.measures.get(measure))));
        let latency =
            |pick: fn(&Latency) -> f64| set.latency_us.as_ref().map_or("–".to_owned(), |l| format!("{:.0}", pick(l)));
        row.extend([latency(|l| l.p50), latency(|l| l.p99)]);
        table.add_row(row);
    }
    let mut mean = vec!["mean".to_owned(), String::new(), String::new()];
    mean.extend(measures.iter().map(|measure| figure(report.mean().get(measure))));
    table.add_row(mean);
    align(&mut table)
}

fn comparison_table(comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["measure", "then", "now", "difference", "p", "better", "same", "worse"]);
    for (measure, row) in &comparison.measures {
        table.add_row([
            measure.to_string(),
            format!("{:.4}", row.baseline),
            format!("{:.4}", row.candidate),
            format!("{:+.4}", row.difference),
            format!("{:.4}", row.p),
            row.wins.to_string(),
            row.ties.to_string(),
            row.losses.to_string(),
        ]);
    }
    align(&mut table)
}

/// Figures stand to the right, names to the left.
fn align(table: &mut Table) -> String {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
