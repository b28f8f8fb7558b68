//! `picktools eval`.

mod asking;
mod judged;
mod outcome;
mod page;
mod plan;
mod poison;
mod set_paths;
mod sets;
mod tables;
mod talk;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;

use self::asking::pick_all;
use self::outcome::{ConfigurationOutcome, EvaluatedSet};
use self::plan::{Plan, RankingConfiguration};
use self::poison::{Poison, PoisonInput, PoisonReport};
use self::set_paths::SetPaths;
use super::args::EngineExtras;
use super::asking::RequestArgs;
use super::history::pack_tools;
use super::numbers::{integer, number, positive};
use super::reading::ReadingArgs;
use super::store_args::StoreArgs;
use super::{heading, output, signals};
use picktools::rerank::Reranker;
use picktools::{Catalog, Engine, PickOptions, Query};
use picktools_eval::{
    Abstention, BootstrapOptions, CONFIDENCE_LEVEL, CompareOptions, Comparison,
    ConfigurationReport, EvalReport, IneligibleJudgments, Latency, Measure, MeasureKind, PerQuery,
    Qrels, QuerySet, Run, ScoreCalibration, SetReport, check_writable, compare,
    confidence_intervals, evaluate, write_atomically,
};
use picktools_store::{SharedEngine, SharedOptions};

/// The depth of the standard measures. At least as many tools are picked.
const STANDARD_DEPTH: usize = 10;

const EXAMPLES: &str = "\
Examples:
  picktools eval fixtures/catalogs/workplace
  picktools eval fixtures/catalogs/workplace --model tuned --report report.html
  picktools eval --talk fixtures/talk --catalogs fixtures/catalogs";

const ALLOW_UNSAFE_HELP: &str = "Has no effect: unsafe tools are allowed without --deny-unsafe";

/// Measure ranking quality and latency.
///
/// A set consists of a catalog, queries and judgments. The result has the measures of each set and
/// their means. Unsafe tools are allowed unless --deny-unsafe is set.
#[derive(Args)]
#[command(
    after_long_help = EXAMPLES,
    mut_arg("allow_unsafe", |arg| arg.help(ALLOW_UNSAFE_HELP).long_help(ALLOW_UNSAFE_HELP))
)]
pub(super) struct EvalCommand {
    /// Folders with tools.jsonl, queries.jsonl and qrels.tsv.
    #[arg(value_name = "DIR", required_unless_present_any = ["catalog", "talk"],
        conflicts_with_all = ["catalog", "queries", "qrels", "talk"])]
    sets: Vec<PathBuf>,
    /// Catalog of a custom set: a file, a folder, or - for stdin; may be repeated.
    ///
    /// With --talk, every case is asked of this catalog, whatever catalog it names.
    #[arg(long, visible_alias = "index", value_name = "PATH", help_heading = heading::CATALOG)]
    catalog: Vec<PathBuf>,
    /// Queries of the custom set.
    ///
    /// JSON Lines with id and text, or with id and messages (a transcript).
    #[arg(long, value_name = "FILE", requires = "catalog", help_heading = heading::CATALOG)]
    queries: Option<PathBuf>,
    /// Judgments of the custom set.
    ///
    /// Lines of query, tool and grade, separated by tabs, or TREC qrels.
    #[arg(long, value_name = "FILE", requires = "catalog", help_heading = heading::CATALOG)]
    qrels: Option<PathBuf>,
    /// Number of picks per query; measures at this cutoff are added.
    #[arg(short, value_name = "N", default_value = "10", value_parser = positive::<NonZeroUsize>,
        allow_negative_numbers = true, help_heading = heading::PICKS)]
    k: NonZeroUsize,
    /// Threshold: the lowest score of a pick, 0 to 1 [default: 0, with --talk 0.05].
    #[arg(long, value_name = "SCORE", value_parser = number::<f32>,
        allow_negative_numbers = true, help_heading = heading::PICKS)]
    min_score: Option<f32>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    request: RequestArgs,
    /// Deny unsafe tools, as `pick` does by default.
    ///
    /// These are tools that are marked `unsafe` or `destructive`.
    #[arg(long, conflicts_with = "allow_unsafe", help_heading = heading::ACCESS)]
    deny_unsafe: bool,
    /// Measure small talk, conversations, pasted content and parts of requests.
    ///
    /// DIR has smalltalk*.jsonl, conversations*.jsonl, paste*.jsonl and parts*.jsonl; missing files
    /// are skipped. A case names the catalog that it is about.
    #[arg(long, value_name = "DIR",
        conflicts_with_all = ["queries", "qrels", "k", "run_out", "signals_out", "abstention",
            "report", "poison", "compare", "seed", "store", "in_use"],
        help_heading = heading::EVALUATION)]
    talk: Option<PathBuf>,
    /// Folder with a catalog for each name in the cases of --talk.
    ///
    /// The catalog NAME is the folder DIR/NAME, with tools.jsonl. The default is the folder
    /// `catalogs` in the folder of --talk.
    #[arg(long, value_name = "DIR", requires = "talk",
        conflicts_with_all = ["catalog", "sets"],
        help_heading = heading::CATALOG)]
    catalogs: Option<PathBuf>,
    /// List up to N missed cases for each measure of --talk.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "talk",
        conflicts_with_all = ["sets", "queries"],
        value_parser = integer::<usize>, allow_negative_numbers = true,
        help_heading = heading::OUTPUT)]
    missed: usize,
    /// Write the run of each set to DIR, as SET.trec.
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    run_out: Option<PathBuf>,
    /// Write the retrievers' scores to DIR/SET, for fitting the fusion.
    ///
    /// The files are NumPy arrays, queries by tools.
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    signals_out: Option<PathBuf>,
    /// Measure how well unanswerable queries are detected.
    ///
    /// Each query is asked again without the tools that answer it.
    #[arg(long, help_heading = heading::EVALUATION)]
    abstention: bool,
    /// Write a report to FILE, as one self-contained page of HTML.
    ///
    /// It compares the selected ranking with other modes of the same model, and with the static
    /// model.
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    report: Option<PathBuf>,
    /// Measure the effect of hostile tools in the catalog.
    ///
    /// A seeded sample of 200 requests of each set is asked with and without them. The sources of
    /// the set are trusted. Any other source may have one tool, or as many as --max-per-source
    /// allows.
    #[arg(long, value_enum, value_name = "KIND",
        conflicts_with_all = ["run_out", "signals_out", "abstention", "report", "compare", "rerank",
            "sequences", "examples", "in_use"], help_heading = heading::EVALUATION)]
    poison: Option<Poison>,
    #[command(flatten)]
    store: StoreArgs,
    /// Compare with the runs in DIR, by a paired randomisation test.
    #[arg(long, value_name = "DIR", help_heading = heading::EVALUATION)]
    compare: Option<PathBuf>,
    /// Seed of everything random: tests, intervals, the sample of --poison.
    #[arg(long, value_name = "N", default_value_t = CompareOptions::default().seed,
        value_parser = integer::<u64>,
        allow_negative_numbers = true, help_heading = heading::EVALUATION)]
    seed: u64,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

#[derive(Serialize)]
struct EvalOutput<'a> {
    #[serde(flatten)]
    report: &'a EvalReport,
    confidence: ConfidenceMethod,
    /// The warnings about the judgments, as printed.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    comparisons: Vec<SetComparison>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    configurations: &'a [ConfigurationReport],
}

/// The computation of the confidence intervals.
#[derive(Serialize)]
struct ConfidenceMethod {
    method: &'static str,
    level: f64,
    resamples: u32,
    seed: u64,
}

#[derive(Serialize)]
struct SetComparison {
    set: String,
    #[serde(flatten)]
    comparison: Comparison,
}

/// A set that is ready for evaluation.
struct OpenedSet {
    queries: QuerySet,
    qrels: Qrels,
    catalog: Catalog,
    /// The relevant tools that the caller may not see.
    ineligible_judged: Option<IneligibleJudgments>,
    /// The engines, one for each model of the plan.
    engines: Vec<Engine>,
    /// The engine on the store, if one is named.
    shared: Vec<SharedEngine>,
}

impl EvalCommand {
    pub(super) fn run(mut self) -> anyhow::Result<()> {
        if let Some(folder) = self.talk.take() {
            return self.measure_talk(&folder);
        }
        let sets = self.sets()?;
        if let Some(folder) = &self.run_out {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        }
        if let Some(page) = &self.report {
            check_writable(page)?;
        }
        let options = self.options();
        let reranker = self
            .request
            .rerank
            .open(self.request.ranking.folders(), None)?;
        if let Some(poison) = self.poison {
            return self.poison(poison, &sets, &options);
        }
        let plan = match self.report {
            Some(_) => Plan::comparison(&self.request.ranking, &options)?,
            None => Plan::subject_alone(&self.request.ranking, &options)?,
        };
        let measures = self.measures();
        let mut evaluated = Vec::new();
        let mut comparisons = Vec::new();
        for set in &sets {
            let set = self.evaluate(set, &plan, reranker.as_ref(), &measures)?;
            if let Some(folder) = &self.compare {
                let scores = &set.outcomes[plan.subject].scores;
                let comparison =
                    self.compare_with(folder, &set.name, &set.qrels, &measures, scores)?;
                comparisons.push(SetComparison {
                    set: set.name.clone(),
                    comparison,
                });
            }
            evaluated.push(set);
        }
        let configurations = self.configurations(&plan, &evaluated)?;
        if let Some(path) = &self.report {
            write_atomically(
                path,
                page::render(&plan, &evaluated, &configurations)?.as_bytes(),
            )?;
        }
        for set in &evaluated {
            output::warnings(&set.warnings, "");
        }
        let report = &configurations[plan.subject].report;
        let compared = if self.report.is_some() {
            &configurations[..]
        } else {
            &[]
        };
        if self.json {
            let bootstrap = self.bootstrap();
            let warnings: Vec<String> =
                evaluated.into_iter().flat_map(|set| set.warnings).collect();
            return output::json(&EvalOutput {
                report,
                confidence: ConfidenceMethod {
                    method: "percentile bootstrap over queries",
                    level: CONFIDENCE_LEVEL,
                    resamples: bootstrap.resamples,
                    seed: bootstrap.seed,
                },
                warnings: &warnings,
                comparisons,
                configurations: compared,
            });
        }
        self.print(report, &comparisons, compared)
    }

    /// Prints the measures for people.
    fn print(
        &self,
        report: &EvalReport,
        comparisons: &[SetComparison],
        compared: &[ConfigurationReport],
    ) -> anyhow::Result<()> {
        output::answer(tables::table(report))?;
        for SetComparison { set, comparison } in comparisons {
            output::answer(format!(
                "\n{set}: compared with {}",
                self.compare.as_deref().unwrap_or(Path::new("")).display()
            ))?;
            output::answer(tables::comparison_table(comparison))?;
        }
        if let Some(path) = &self.report {
            output::answer(format!(
                "\nmean over the sets\n\n{}",
                tables::configurations_table(compared)
            ))?;
            output::note(format!("wrote the report to {}", path.display()));
        }
        Ok(())
    }

    /// Evaluates every configuration on one set, and writes the files that the options name.
    fn evaluate(
        &self,
        set: &SetPaths,
        plan: &Plan,
        reranker: Option<&Arc<dyn Reranker>>,
        measures: &[Measure],
    ) -> anyhow::Result<EvaluatedSet> {
        let context = || format!("cannot evaluate the set {}", set.name);
        let opened = self.open_set(set, plan, reranker)?;
        let mut outcomes = Vec::new();
        for index in 0..plan.configurations.len() {
            let outcome = self.measure(&opened, plan, index, measures);
            outcomes.push(outcome.with_context(context)?);
        }
        let ConfigurationOutcome {
            answers, report, ..
        } = &mut outcomes[plan.subject];
        let OpenedSet {
            queries,
            qrels,
            catalog,
            ineligible_judged,
            engines,
            ..
        } = opened;
        let mut warnings = judged::unknown(&set.name, &qrels, &answers.run, &catalog);
        if let Some(judged) = &ineligible_judged {
            warnings.push(judged::ineligible_warning(&set.name, judged));
        }
        if let Some(folder) = &self.run_out {
            let path = folder.join(format!("{}.trec", set.name));
            answers.run.write_trec(&path, "picktools")?;
        }
        let mut estimates = None;
        if self.abstention || self.report.is_some() {
            let subject = plan.subject();
            let engine = &engines[subject.model];
            estimates = asking::answerability_estimates(
                engine,
                &queries,
                &qrels,
                answers,
                &subject.options,
            )
            .with_context(context)?;
        }
        if self.abstention && estimates.is_none() {
            bail!("--abstention needs answerability estimates; leave out --fusion rrf");
        }
        if let Some(estimates) = &estimates {
            report.abstention = Abstention::new(&estimates.with, &estimates.without);
        }
        Ok(EvaluatedSet {
            name: set.name.clone(),
            queries,
            qrels,
            outcomes,
            estimates,
            warnings,
        })
    }

    /// Reads and indexes a set, and writes the signals of its queries if --signals-out is set.
    fn open_set(
        &self,
        set: &SetPaths,
        plan: &Plan,
        reranker: Option<&Arc<dyn Reranker>>,
    ) -> anyhow::Result<OpenedSet> {
        let qrels = Qrels::read(&set.qrels)?;
        let context = || format!("cannot evaluate the set {}", set.name);
        let queries = QuerySet::read(&set.queries)?;
        let catalog = self
            .reading
            .open_for_picks(&set.catalog)
            .with_context(context)?;
        let extras = self.extras(reranker)?;
        let mut engines = Vec::new();
        for model in &plan.models {
            let engine = model.engine_with(catalog.clone(), extras.clone());
            engines.push(engine.with_context(context)?);
        }
        let subject = plan.subject();
        let engine = &engines[subject.model];
        self.request.history.report_coverage(engine);
        let unknown = subject.options.unknown_values(&catalog)?;
        output::warnings(
            unknown
                .iter()
                .map(|unknown| format!("{}: {unknown}", set.name)),
            "",
        );
        if let Some(folder) = &self.signals_out {
            signals::write(&folder.join(&set.name), engine, &queries, &subject.options)
                .with_context(context)?;
        }
        let shared = self.shared(plan, &engines).with_context(context)?;
        let ineligible_judged =
            judged::ineligible(&qrels, &catalog, &subject.options.access).with_context(context)?;
        Ok(OpenedSet {
            queries,
            qrels,
            catalog,
            ineligible_judged,
            engines,
            shared,
        })
    }

    /// Picks with one configuration for all queries of a set, and measures the ranking.
    fn measure(
        &self,
        set: &OpenedSet,
        plan: &Plan,
        index: usize,
        measures: &[Measure],
    ) -> anyhow::Result<ConfigurationOutcome> {
        let RankingConfiguration { model, options, .. } = &plan.configurations[index];
        let mut options = options.clone();
        // Only the subject is reranked, so that the comparison shows the effect.
        if index == plan.subject {
            self.request.rerank.apply(&mut options);
        }
        let pick = |query: &Query, options: &PickOptions| match set.shared.get(*model) {
            Some(shared) => shared.pick(query, options),
            None => set.engines[*model].pick(query, options),
        };
        let answers = pick_all(pick, &set.queries, &options)?;
        let scores = evaluate(&answers.run, &set.qrels, measures);
        let latency = Latency::from_durations(&answers.times);
        let mut report = SetReport::new(set.catalog.len(), &scores, latency);
        report.ineligible_judged.clone_from(&set.ineligible_judged);
        report.pack_tools = pack_tools(&set.engines[*model]);
        if self.json || self.report.is_some() {
            report.intervals = confidence_intervals(&[&scores], self.bootstrap());
        }
        if answers.estimates.is_some() {
            report.calibration = ScoreCalibration::new(&answers.run, &set.qrels);
        }
        Ok(ConfigurationOutcome {
            answers,
            scores,
            report,
        })
    }

    /// Reads the history, for the engines of all models.
    fn extras(&self, reranker: Option<&Arc<dyn Reranker>>) -> anyhow::Result<EngineExtras> {
        Ok(EngineExtras {
            skills: None,
            sequences: self.request.history.sequences()?,
            examples: self.request.history.examples()?,
            reranker: reranker.cloned(),
        })
    }

    /// Publishes a set, and opens an engine on the store for the model; none if no store is named.
    /// Every pick then reads from the store.
    fn shared(&self, plan: &Plan, engines: &[Engine]) -> anyhow::Result<Vec<SharedEngine>> {
        let Some(store) = self.store.evaluation_store()? else {
            return Ok(Vec::new());
        };
        if self.request.history.reads_files() {
            bail!(
                "--store picks from the published snapshot; leave out --sequences and --examples"
            );
        }
        let ([model], [engine]) = (&plan.models[..], engines) else {
            bail!("--store measures one model; leave out --report, or select the static model");
        };
        picktools_store::publish(engine, &store, &|_, _| {})?;
        let options = SharedOptions {
            model: model.unless_static(),
            max_local_tools: 0,
            ..SharedOptions::default()
        };
        Ok(vec![SharedEngine::open(store, options)?])
    }

    /// Reports the effect of hostile tools.
    fn poison(
        &self,
        poison: Poison,
        sets: &[SetPaths],
        options: &PickOptions,
    ) -> anyhow::Result<()> {
        let model = self.request.ranking.open_model()?;
        let mut poisoned = Vec::new();
        for set in sets {
            let (queries, qrels) = (QuerySet::read(&set.queries)?, Qrels::read(&set.qrels)?);
            let catalog = self.reading.open(&set.catalog)?;
            let ineligible_judged = judged::ineligible(&qrels, &catalog, &options.access)?;
            if let Some(judged) = &ineligible_judged {
                output::warn(judged::ineligible_warning(&set.name, judged));
            }
            let input = PoisonInput {
                set: set.name.clone(),
                ineligible_judged,
                poison,
                model: &model,
                catalog: &catalog,
                queries: &queries,
                qrels: &qrels,
                options,
                seed: self.seed,
            };
            poisoned.push(
                poison::evaluate(input)
                    .with_context(|| format!("cannot poison the set {}", set.name))?,
            );
        }
        let report = PoisonReport::new(poison, options, poisoned);
        if self.json {
            output::json(&report)
        } else {
            output::answer(report.table())
        }
    }

    fn options(&mut self) -> PickOptions {
        let mut options = PickOptions {
            max_candidates: self.k.get().max(STANDARD_DEPTH),
            min_score: self.min_score.unwrap_or(0.0),
            ..PickOptions::default()
        };
        self.request.history.apply(&mut options);
        options.access = std::mem::take(&mut self.request.access).access();
        options.access.allow_unsafe = !self.deny_unsafe;
        std::mem::take(&mut self.request.sources).apply(&mut options);
        self.request.ranking.apply(&mut options);
        options
    }

    /// Returns the reports of all configurations, in the order of the plan.
    fn configurations(
        &self,
        plan: &Plan,
        sets: &[EvaluatedSet],
    ) -> anyhow::Result<Vec<ConfigurationReport>> {
        let mut reports = Vec::new();
        for (index, configuration) in plan.configurations.iter().enumerate() {
            let mut set_reports = Vec::new();
            let mut scores = Vec::new();
            for set in sets {
                let outcome = &set.outcomes[index];
                set_reports.push((set.name.clone(), outcome.report.clone()));
                scores.push(&outcome.scores);
            }
            let mut report = EvalReport::new(set_reports)?;
            if self.json || self.report.is_some() {
                let intervals = confidence_intervals(&scores, self.bootstrap());
                report = report.with_mean_intervals(intervals);
            }
            reports.push(ConfigurationReport {
                name: configuration.name.clone(),
                report,
            });
        }
        Ok(reports)
    }

    /// Returns the resampling for the confidence intervals.
    fn bootstrap(&self) -> BootstrapOptions {
        BootstrapOptions {
            seed: self.seed,
            ..BootstrapOptions::default()
        }
    }

    /// Returns the standard measures, and the most common ones at the cutoff -k.
    fn measures(&self) -> Vec<Measure> {
        let mut measures = Measure::STANDARD.to_vec();
        for kind in [
            MeasureKind::Ndcg,
            MeasureKind::Recall,
            MeasureKind::Completeness,
        ] {
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
        let baseline = evaluate(
            &Run::read_trec(&folder.join(format!("{set}.trec")))?,
            qrels,
            measures,
        );
        Ok(compare(
            &baseline,
            scores,
            CompareOptions {
                seed: self.seed,
                ..CompareOptions::default()
            },
        )?)
    }
}
