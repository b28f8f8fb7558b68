//! `picktools eval`.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::args::{EligibilityArgs, RankingArgs, progress_bar};
use super::{output, signals};
use crate::eval::{
    Abstention, Calibration, CompareOptions, Comparison, EvalReport, Latency, Measure, MeasureKind, PerQuery, Qrels,
    QuerySet, Run, RunEntry, SetReport, compare, evaluate,
};
use crate::{Catalog, Engine, Fusion, PickOptions, Query};

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
    /// Write what each retriever says of each tool to DIR/SET, for fitting the fusion: NumPy arrays, queries by tools.
    #[arg(long, value_name = "DIR")]
    signals_out: Option<PathBuf>,
    /// Ask each query a second time without the tools that answer it, and report how well the two are told apart.
    #[arg(long)]
    abstention: bool,
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
            let context = || format!("cannot evaluate the set {}", set.name);
            let queries = QuerySet::read(&set.queries)?;
            let engine = model.engine(Catalog::open(&set.catalog)?).with_context(context)?;
            if let Some(folder) = &self.signals_out {
                signals::write(&folder.join(&set.name), &engine, &queries, &options).with_context(context)?;
            }
            let answers = pick_all(&engine, &queries, &options).with_context(context)?;
            let (run, catalog) = (&answers.run, engine.catalog());
            warn_of_strangers(&set.name, &qrels, run, catalog);
            let scores = evaluate(run, &qrels, &measures);
            if let Some(folder) = &self.run_out {
                run.write_trec(&folder.join(format!("{}.trec", set.name)), "picktools")?;
            }
            if let Some(folder) = &self.compare {
                let comparison = self.compare_with(folder, &set.name, &qrels, &measures, &scores)?;
                comparisons.push(SetComparison { set: set.name.clone(), comparison });
            }
            let mut report = SetReport::new(catalog.len(), &scores, Latency::from_durations(&answers.times));
            if answers.estimates.is_some() {
                report.calibration = Calibration::new(run, &qrels);
            }
            if self.abstention {
                report.abstention = abstention(&engine, &queries, &qrels, &answers, &options).with_context(context)?;
            }
            reports.push((set.name, report));
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

/// What an engine answered to the queries of a set.
struct Answers {
    run: Run,
    times: Vec<Duration>,
    /// The `answerable` estimate of each query, in order; none where scores are no probabilities.
    estimates: Option<Vec<f64>>,
}

/// Picks for every query of a set, one after the other on one thread.
fn pick_all(engine: &Engine, queries: &QuerySet, options: &PickOptions) -> anyhow::Result<Answers> {
    let mut run = Run::default();
    let mut times = Vec::with_capacity(queries.len());
    let mut estimates = Vec::with_capacity(queries.len());
    let bar = progress_bar("picking");
    bar.set_length(queries.len() as u64);
    for query in queries {
        let text = Query::new(query.text.as_str());
        let started = Instant::now();
        let selection = engine.pick(&text, options)?;
        times.push(started.elapsed());
        estimates.extend(selection.answerable.map(f64::from));
        let ranking = selection.picks.iter();
        let ranking = ranking.map(|pick| RunEntry { tool: pick.tool.id.clone(), score: f64::from(pick.score) });
        run.insert(query.id.as_str(), ranking.collect());
        bar.inc(1);
    }
    bar.finish_and_clear();
    let probabilities = options.fusion == Fusion::Weighted && estimates.len() == queries.len();
    Ok(Answers { run, times, estimates: probabilities.then_some(estimates) })
}

/// Asks every query again without the tools that answer it.
fn abstention(
    engine: &Engine,
    queries: &QuerySet,
    qrels: &Qrels,
    answers: &Answers,
    options: &PickOptions,
) -> anyhow::Result<Option<Abstention>> {
    let Some(estimates) = &answers.estimates else {
        bail!("--abstention needs estimates of whether a request can be answered: leave out --fusion rrf");
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut without_answers = PickOptions { max_candidates: 1, ..options.clone() };
    let bar = progress_bar("picking without the answers");
    bar.set_length(queries.len() as u64);
    for (query, &estimate) in queries.iter().zip(estimates) {
        bar.inc(1);
        let Some(judgments) = qrels.get(&query.id).filter(|judgments| judgments.relevant_len() > 0) else {
            continue;
        };
        let relevant = judgments.iter().filter(|(tool, grade)| *grade > 0 && engine.catalog().find(tool).is_some());
        let relevant = relevant.map(|(tool, _)| tool.to_owned());
        without_answers.exclude = options.exclude.iter().cloned().chain(relevant).collect();
        let selection = engine.pick(&Query::new(query.text.as_str()), &without_answers)?;
        with.push(estimate);
        without.extend(selection.answerable.map(f64::from));
    }
    bar.finish_and_clear();
    Ok(Abstention::new(&with, &without))
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
    let calibrated = report.sets().iter().any(|(_, set)| set.calibration.is_some());
    let abstained = report.sets().iter().any(|(_, set)| set.abstention.is_some());
    header.extend(calibrated.then(|| "ECE".to_owned()));
    header.extend(abstained.then(|| "AUROC".to_owned()));
    header.extend(["p50 µs".to_owned(), "p99 µs".to_owned()]);
    table.set_header(header);
    let figure = |value: Option<&f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.4}"));
    for (name, set) in report.sets() {
        let mut row = vec![name.clone(), set.tools.to_string(), set.queries.to_string()];
        row.extend(measures.iter().map(|measure| figure(set.measures.get(measure))));
        let calibration = set.calibration.as_ref().map(|calibration| calibration.ece);
        row.extend(calibrated.then(|| figure(calibration.as_ref())));
        let abstention = set.abstention.as_ref().map(|abstention| abstention.auroc);
        row.extend(abstained.then(|| figure(abstention.as_ref())));
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
