//! `picktools eval`.

mod asking;
mod plan;
mod poison;
mod tables;

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;

use self::asking::{Answers, Doubts, pick_all};
use self::plan::{Configuration, Plan};
use self::poison::{Poison, PoisonReport};
use super::args::Beside;
use super::asking::AskingArgs;
use super::numbers::{number, positive, whole};
use super::reading::ReadingArgs;
use super::report::{Page, PageSet, Side};
use super::store_args::StoreArgs;
use super::{heading, output, signals};
use picktools::rerank::Reranker;
use picktools::{Catalog, Engine, PickOptions, Query};
use picktools_eval::{
    Abstention, Calibration, CompareOptions, Comparison, ConfigurationReport, EvalReport, Latency,
    Measure, MeasureKind, PerQuery, Qrels, QuerySet, Run, SetReport, check_writable, compare,
    evaluate, write_atomically,
};
use picktools_store::{SharedEngine, SharedOptions};

/// The standard measures reach down to this place, so at least as many tools are picked.
const STANDARD_DEPTH: usize = 10;

#[derive(Args)]
pub(super) struct EvalCommand {
    /// Folders with tools.jsonl, queries.jsonl and qrels.tsv.
    #[arg(value_name = "DIR", required_unless_present = "catalog",
        conflicts_with_all = ["catalog", "queries", "qrels"])]
    sets: Vec<PathBuf>,
    /// Catalog of a set of one's own: a file, `-` for standard input, or a folder; may be repeated.
    #[arg(long, visible_alias = "index", value_name = "PATH", requires_all = ["queries", "qrels"], help_heading = heading::CATALOG)]
    catalog: Vec<PathBuf>,
    /// Its queries: JSON Lines with id and text, or id and messages (a transcript).
    #[arg(long, value_name = "FILE", requires = "catalog", help_heading = heading::CATALOG)]
    queries: Option<PathBuf>,
    /// Its judgments: query, tool and grade, separated by tabs; or TREC qrels.
    #[arg(long, value_name = "FILE", requires = "catalog", help_heading = heading::CATALOG)]
    qrels: Option<PathBuf>,
    /// How many tools are picked for a query; measures at this cutoff are added.
    #[arg(short, value_name = "N", default_value = "10", value_parser = positive::<NonZeroUsize>,
        allow_negative_numbers = true, help_heading = heading::PICKS)]
    k: NonZeroUsize,
    /// The least score of a picked tool, 0 to 1.
    #[arg(long, value_name = "SCORE", default_value_t = 0.0, value_parser = number::<f32>,
        allow_negative_numbers = true, help_heading = heading::PICKS)]
    min_score: f32,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    asking: AskingArgs,
    /// Write the run of each set to DIR, as SET.trec.
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    run_out: Option<PathBuf>,
    /// Write what each retriever says of each tool to DIR/SET, for fitting the fusion: NumPy
    /// arrays, queries by tools.
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    signals_out: Option<PathBuf>,
    /// Ask each query a second time without the tools that answer it, and report how well the two
    /// are told apart.
    #[arg(long, help_heading = heading::EVALUATION)]
    abstention: bool,
    /// Write a report to FILE: one page of HTML that needs nothing else. It compares the ranking
    /// that the other options name with those of the same model by other modes, and where it is
    /// another, with the static model.
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    report: Option<PathBuf>,
    /// Ask a seeded sample of 200 requests of each set with hostile tools in the catalog, and
    /// report what they change. The set's own sources are trusted; no other has more than one tool
    /// unless --max-per-source says so.
    #[arg(long, value_enum, value_name = "KIND",
        conflicts_with_all = ["run_out", "signals_out", "abstention", "report", "compare", "rerank",
            "sequences", "examples", "in_use"], help_heading = heading::EVALUATION)]
    poison: Option<Poison>,
    #[command(flatten)]
    store: StoreArgs,
    /// Compare with the runs in DIR, by a paired randomisation test.
    #[arg(long, value_name = "DIR", help_heading = heading::EVALUATION)]
    compare: Option<PathBuf>,
    /// Seed of the randomisation test, and of the sample of --poison.
    #[arg(long, value_name = "N", default_value_t = CompareOptions::default().seed, value_parser = whole::<u64>,
        allow_negative_numbers = true, help_heading = heading::EVALUATION)]
    seed: u64,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// Where a set lies.
struct Set {
    name: String,
    catalog: Vec<PathBuf>,
    queries: PathBuf,
    qrels: PathBuf,
}

#[derive(Serialize)]
struct Output<'a> {
    #[serde(flatten)]
    report: &'a EvalReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    comparisons: Vec<SetComparison>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    configurations: &'a [ConfigurationReport],
}

#[derive(Serialize)]
struct SetComparison {
    set: String,
    #[serde(flatten)]
    comparison: Comparison,
}

/// What came of one set.
struct Evaluated {
    name: String,
    queries: QuerySet,
    qrels: Qrels,
    /// One outcome for each configuration of the plan.
    outcomes: Vec<Outcome>,
    doubts: Option<Doubts>,
}

/// What came of one way of ranking on one set.
struct Outcome {
    answers: Answers,
    scores: PerQuery,
    report: SetReport,
}

impl EvalCommand {
    pub(super) fn run(mut self) -> anyhow::Result<()> {
        let sets = self.sets()?;
        if let Some(folder) = &self.run_out {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        if let Some(page) = &self.report {
            check_writable(page)?;
        }
        let options = self.options();
        let reranker = self
            .asking
            .rerank
            .open(self.asking.ranking.folders(), None)?;
        if let Some(poison) = self.poison {
            return self.poison(poison, &sets, &options);
        }
        let plan = match self.report {
            Some(_) => Plan::comparison(&self.asking.ranking, &options)?,
            None => Plan::subject_alone(&self.asking.ranking, &options)?,
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
        let configurations = configurations(&plan, &evaluated)?;
        if let Some(path) = &self.report {
            write_atomically(path, page(&plan, &evaluated, &configurations)?.as_bytes())?;
        }
        let report = &configurations[plan.subject].report;
        let compared = if self.report.is_some() {
            &configurations[..]
        } else {
            &[]
        };
        if self.json {
            return output::json(&Output {
                report,
                comparisons,
                configurations: compared,
            });
        }
        output::answer(tables::table(report))?;
        for SetComparison { set, comparison } in &comparisons {
            output::answer(format!(
                "\n{set}: against {}",
                self.compare.as_deref().unwrap_or(Path::new("")).display()
            ))?;
            output::answer(tables::comparison_table(comparison))?;
        }
        if let Some(path) = &self.report {
            output::answer(format!(
                "\nmean over the sets\n\n{}",
                tables::configurations_table(compared)
            ))?;
            output::note(format!("the report is in {}", path.display()));
        }
        Ok(())
    }

    /// Evaluates every configuration on one set, and the subject as the options say.
    fn evaluate(
        &self,
        set: &Set,
        plan: &Plan,
        reranker: Option<&Arc<dyn Reranker>>,
        measures: &[Measure],
    ) -> anyhow::Result<Evaluated> {
        let qrels = Qrels::read(&set.qrels)?;
        let context = || format!("cannot evaluate the set {}", set.name);
        let queries = QuerySet::read(&set.queries)?;
        let catalog = self
            .reading
            .open_for_picks(&set.catalog)
            .with_context(context)?;
        let (sequences, examples) = (
            self.asking.history.sequences()?,
            self.asking.history.examples()?,
        );
        let beside = Beside {
            skills: None,
            sequences,
            examples,
            reranker: reranker.cloned(),
        };
        let engines = plan
            .models
            .iter()
            .map(|model| model.engine_with(catalog.clone(), beside.clone()));
        let engines = engines
            .collect::<anyhow::Result<Vec<Engine>>>()
            .with_context(context)?;
        let subject = plan.subject();
        self.asking
            .history
            .warn_of_strangers(&engines[subject.model]);
        let engine = &engines[subject.model];
        let unknown = subject.options.unknown_values(&catalog);
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
        let mut outcomes = Vec::new();
        for (index, Configuration { model, options, .. }) in plan.configurations.iter().enumerate()
        {
            let mut options = options.clone();
            // What the subject is compared with is what it would be without.
            if index == plan.subject {
                self.asking.rerank.apply(&mut options);
            }
            let pick = |query: &Query, options: &PickOptions| match shared.get(*model) {
                Some(shared) => shared.pick(query, options),
                None => engines[*model].pick(query, options),
            };
            let answers = pick_all(pick, &queries, &options).with_context(context)?;
            let scores = evaluate(&answers.run, &qrels, measures);
            let mut report = SetReport::new(
                catalog.len(),
                &scores,
                Latency::from_durations(&answers.times),
            );
            if answers.estimates.is_some() {
                report.calibration = Calibration::new(&answers.run, &qrels);
            }
            outcomes.push(Outcome {
                answers,
                scores,
                report,
            });
        }
        let Outcome {
            answers, report, ..
        } = &mut outcomes[plan.subject];
        warn_of_strangers(&set.name, &qrels, &answers.run, &catalog);
        if let Some(folder) = &self.run_out {
            answers
                .run
                .write_trec(&folder.join(format!("{}.trec", set.name)), "picktools")?;
        }
        let mut doubts = None;
        if self.abstention || self.report.is_some() {
            doubts = asking::doubts(engine, &queries, &qrels, answers, &subject.options)
                .with_context(context)?;
            if self.abstention && doubts.is_none() {
                bail!(
                    "--abstention needs estimates of whether a request can be answered: leave out --fusion rrf"
                );
            }
            report.abstention = doubts
                .as_ref()
                .and_then(|doubts| Abstention::new(&doubts.with, &doubts.without));
        }
        Ok(Evaluated {
            name: set.name.clone(),
            queries,
            qrels,
            outcomes,
            doubts,
        })
    }

    /// Publishes a set, and opens it again by each model; none where no store is named. Every pick
    /// then asks the store.
    fn shared(&self, plan: &Plan, engines: &[Engine]) -> anyhow::Result<Vec<SharedEngine>> {
        let Some(store) = self.store.store_of_sets()? else {
            return Ok(Vec::new());
        };
        if self.asking.history.reads_files() {
            bail!("--store picks from what was published: leave out --sequences and --examples");
        }
        let ([model], [engine]) = (&plan.models[..], engines) else {
            bail!("--store measures one model: leave out --report, or name the static model");
        };
        picktools_store::publish(engine, &store, &|_, _| {})?;
        let options = SharedOptions {
            model: model.beside_static(),
            whole: 0,
            ..SharedOptions::default()
        };
        Ok(vec![SharedEngine::open(store, options)?])
    }

    /// Reports what hostile tools change.
    fn poison(&self, poison: Poison, sets: &[Set], options: &PickOptions) -> anyhow::Result<()> {
        let model = self.asking.ranking.open_model()?;
        let poisoned = sets.iter().map(|set| {
            let (queries, qrels) = (QuerySet::read(&set.queries)?, Qrels::read(&set.qrels)?);
            let catalog = self.reading.open(&set.catalog)?;
            let asked = (&queries, &qrels);
            poison::poisoned(
                set.name.clone(),
                poison,
                &model,
                &catalog,
                asked,
                options,
                self.seed,
            )
            .with_context(|| format!("cannot poison the set {}", set.name))
        });
        let report = PoisonReport::new(poison, options, poisoned.collect::<anyhow::Result<_>>()?);
        if self.json {
            output::json(&report)
        } else {
            output::answer(report.table())
        }
    }

    fn sets(&self) -> anyhow::Result<Vec<Set>> {
        if let ([first, ..], Some(queries), Some(qrels)) =
            (&self.catalog[..], &self.queries, &self.qrels)
        {
            let (catalog, queries, qrels) = (self.catalog.clone(), queries.clone(), qrels.clone());
            return Ok(vec![Set {
                name: name_of(first)?,
                catalog,
                queries,
                qrels,
            }]);
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
                Ok(Set { name: name_of(folder)?, catalog: vec![folder.clone()], queries, qrels })
            })
            .collect()
    }

    fn options(&mut self) -> PickOptions {
        let mut options = PickOptions {
            max_candidates: self.k.get().max(STANDARD_DEPTH),
            min_score: self.min_score,
            ..PickOptions::default()
        };
        self.asking.history.apply(&mut options);
        options.access = std::mem::take(&mut self.asking.access).access();
        std::mem::take(&mut self.asking.sources).apply(&mut options);
        self.asking.ranking.apply(&mut options);
        options
    }

    /// The standard measures, and the most common ones at the cutoff that was asked for.
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

/// Names a set after its folder or catalog file.
fn name_of(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        return Ok("set".to_owned());
    }
    let path = path
        .canonicalize()
        .with_context(|| format!("cannot read {}", path.display()))?;
    let stem = if path.is_dir() {
        path.file_name()
    } else {
        path.file_stem()
    };
    Ok(stem.map_or_else(
        || "set".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    ))
}

/// The reports of all configurations, in the order of the plan.
fn configurations(plan: &Plan, sets: &[Evaluated]) -> anyhow::Result<Vec<ConfigurationReport>> {
    let report = |(index, configuration): (usize, &Configuration)| {
        let sets = sets
            .iter()
            .map(|set| (set.name.clone(), set.outcomes[index].report.clone()));
        Ok(ConfigurationReport {
            name: configuration.name.clone(),
            report: EvalReport::new(sets.collect())?,
        })
    };
    plan.configurations.iter().enumerate().map(report).collect()
}

/// The report as a page of HTML.
fn page(
    plan: &Plan,
    sets: &[Evaluated],
    configurations: &[ConfigurationReport],
) -> anyhow::Result<String> {
    let sets = sets.iter().map(|set| {
        let side = |index: usize| Side {
            run: &set.outcomes[index].answers.run,
            scores: &set.outcomes[index].scores,
        };
        PageSet {
            name: &set.name,
            queries: &set.queries,
            qrels: &set.qrels,
            subject: side(plan.subject),
            baseline: side(plan.baseline),
            times: &set.outcomes[plan.subject].answers.times,
            estimates: set
                .doubts
                .as_ref()
                .map(|doubts| (&doubts.with[..], &doubts.without[..])),
        }
    });
    let models = plan
        .models
        .iter()
        .filter_map(|model| Some((model.name(), model.identity()?)));
    let page = Page {
        configurations,
        subject: plan.subject,
        baseline: plan.baseline,
        whole: plan.whole,
        ablations: &plan.ablations,
        models: models.collect(),
        sets: sets.collect(),
    };
    page.to_html()
}

/// Warns of judgments that no pick can satisfy, which mostly are slips in ids.
fn warn_of_strangers(set: &str, qrels: &Qrels, run: &Run, catalog: &Catalog) {
    let queries = qrels
        .iter()
        .filter(|(query, _)| run.get(query).is_none())
        .count();
    if queries > 0 {
        output::warn(format!(
            "{set}: {queries} judged queries are not among the queries and score 0"
        ));
    }
    let judged = qrels.iter().flat_map(|(_, judgments)| judgments.iter());
    let tools: BTreeSet<&str> = judged
        .map(|(tool, _)| tool)
        .filter(|tool| catalog.find(tool).is_none())
        .collect();
    if let Some(first) = tools.first() {
        output::warn(format!(
            "{set}: {} judged tools are not in the catalog, {first:?} for one",
            tools.len()
        ));
    }
}
