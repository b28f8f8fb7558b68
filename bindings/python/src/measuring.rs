//! The evaluation of a ranking.

use std::collections::BTreeMap;

use picktools::PickOptions;
use picktools::access::IneligibleReason;
use picktools::names::NameTable;
use picktools::options::PickError;
use picktools_eval as eval;
use picktools_eval::{IneligibleJudgments, Measure, Qrels, Run, RunEntry};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::engine::Engine;
use crate::scorer::ConfiguredPick;
use crate::{convert, errors};

/// The smallest number of ranked picks per query.
const MIN_DEPTH: usize = 10;

/// The scores of a ranking.
#[derive(Serialize)]
struct Scores<'a> {
    /// The means over the queries that have an answer.
    mean: BTreeMap<String, f64>,
    per_query: BTreeMap<&'a str, BTreeMap<String, f64>>,
    /// The number of queries that no tool answers.
    no_answer: usize,
    /// The number of queries without a pick.
    unanswered: usize,
    /// The relevant tools that the access policy excludes, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    ineligible: Option<IneligibleJudgments>,
}

/// Ranks the tools for each query, and scores the rankings.
///
/// `queries` maps ids to requests. `qrels` maps these ids to the grades of tools, 1 or more for a
/// tool that answers the query. Returns the means and the scores of each query. Without `access`,
/// unsafe tools are ranked, too. `ineligible` counts the relevant tools that the policy excludes.
#[pyfunction]
#[pyo3(signature = (engine, queries, qrels, *, measures = None, access = None, **options))]
pub(crate) fn evaluate<'py>(
    engine: &Bound<'py, PyAny>,
    queries: &Bound<'py, PyAny>,
    qrels: &Bound<'py, PyAny>,
    measures: Option<&Bound<'py, PyAny>>,
    access: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = engine.py();
    let Ok(engine) = engine.cast::<Engine>() else {
        return Err(errors::argument_type(engine, "engine", "an Engine"));
    };
    let engine = engine.get();
    let measures = match measures {
        Some(measures) => convert::strings(measures, "measures")?,
        None => ["nDCG@10", "R@5", "Success@1"].map(str::to_owned).to_vec(),
    };
    let measures = measures.iter().map(|measure| measure.parse());
    let measures: Vec<Measure> = measures
        .collect::<Result<_, _>>()
        .map_err(|error: eval::EvalError| errors::argument(py, "measures", error))?;
    let Ok(items) = queries.call_method0("items") else {
        return Err(errors::argument_type(
            queries,
            "queries",
            "a mapping from ids to requests",
        ));
    };
    let mut requests = Vec::new();
    for item in convert::items(&items, "queries")? {
        let (id, query): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
        requests.push((
            convert::string(&id, "queries")?,
            convert::query(&query, "queries")?,
        ));
    }
    let grades: BTreeMap<String, BTreeMap<String, i32>> = convert::deserialize(qrels, "qrels")?;
    let mut judgments = Qrels::default();
    for (query, tools) in &grades {
        for (tool, grade) in tools {
            judgments.insert(query, tool, *grade);
        }
    }
    let has_threshold = options
        .map(|options| options.contains("min_score"))
        .transpose()?
        .unwrap_or_default();
    let ConfiguredPick {
        engine: configured,
        mut options,
    } = ConfiguredPick::configure(&engine.inner, None, access, options, py)?;
    if access.is_none() {
        options.access.allow_unsafe = true;
    }
    if !has_threshold {
        options.min_score = 0.0;
    }
    let deepest = measures
        .iter()
        .map(|measure| measure.cutoff())
        .max()
        .unwrap_or(MIN_DEPTH);
    options.max_candidates = deepest.max(MIN_DEPTH);
    engine.check_process(py, options.timeout.is_some())?;
    let run = py.detach(|| {
        let mut run = Run::default();
        for (id, query) in &requests {
            let selection = configured.pick(query, &options)?;
            let new_picks = selection
                .picks
                .iter()
                .filter(|pick| pick.provenance.in_use.is_none())
                .take(options.max_candidates);
            let ranking = new_picks.map(|pick| RunEntry {
                tool: pick.tool.id.clone(),
                score: f64::from(pick.score),
            });
            run.insert(id, ranking.collect());
        }
        Ok::<_, PickError>(run)
    });
    let run = run.map_err(|error| errors::pick(py, &error))?;
    let ineligible = ineligible_judgments(engine, &options, &judgments)
        .map_err(|error| errors::pick(py, &error))?;
    let scores = eval::evaluate(&run, &judgments, &measures);
    let scores_by_measure = |row: &[f64]| {
        scores
            .measures()
            .iter()
            .map(ToString::to_string)
            .zip(row.iter().copied())
            .collect()
    };
    let answer = Scores {
        mean: scores
            .mean()
            .into_iter()
            .map(|(measure, mean)| (measure.to_string(), mean))
            .collect(),
        per_query: scores
            .rows()
            .map(|(query, row)| (query, scores_by_measure(row)))
            .collect(),
        no_answer: scores.no_answer(),
        unanswered: scores.unanswered(),
        ineligible,
    };
    convert::to_python(py, &answer)
}

/// Counts the relevant tools that the policy excludes.
fn ineligible_judgments(
    engine: &Engine,
    options: &PickOptions,
    judgments: &Qrels,
) -> Result<Option<IneligibleJudgments>, PickError> {
    let catalog = engine.inner.catalog();
    let names = NameTable::new(catalog)?;
    let eligibility = options.access.decide(catalog, &names)?;
    let reasons = |id: &str| {
        let Some(tool) = catalog.find(id) else {
            return Vec::new();
        };
        let reasons = eligibility.reasons(tool);
        reasons.iter().map(IneligibleReason::code).collect()
    };
    Ok(IneligibleJudgments::new(judgments, reasons))
}
