//! How good a ranking is.

use std::collections::BTreeMap;

use picktools::options::PickError;
use picktools_eval as eval;
use picktools_eval::{Measure, Qrels, Run, RunEntry};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::engine::{Engine, options};
use crate::{convert, errors};

/// The picks that are ranked of each query, where no measure looks further.
const DEPTH: usize = 10;

/// What a ranking scores.
#[derive(Serialize)]
struct Scores<'a> {
    /// The mean over the queries that have an answer.
    mean: BTreeMap<String, f64>,
    per_query: BTreeMap<&'a str, BTreeMap<String, f64>>,
    /// How many queries no tool answers, and how many got no pick.
    no_answer: usize,
    unanswered: usize,
}

/// Ranks the tools for each query and scores the rankings: `queries` from ids to requests, `qrels`
/// from these ids to the grades of tools, from 1 for a tool that answers. Gives the mean and the
/// scores of each query.
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
        return Err(errors::of_type(engine, "engine", "an Engine"));
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
        return Err(errors::of_type(
            queries,
            "queries",
            "a mapping from ids to requests",
        ));
    };
    let mut asked = Vec::new();
    for item in convert::items(&items, "queries")? {
        let (id, query): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
        asked.push((
            convert::string(&id, "queries")?,
            convert::query(&query, "queries")?,
        ));
    }
    let grades: BTreeMap<String, BTreeMap<String, i32>> = convert::parsed(qrels, "qrels")?;
    let mut judged = Qrels::default();
    for (query, tools) in &grades {
        for (tool, grade) in tools {
            judged.insert(query, tool, *grade);
        }
    }
    let mut options = self::options(py, None, access, options)?;
    let deepest = measures
        .iter()
        .map(|measure| measure.cutoff())
        .max()
        .unwrap_or(DEPTH);
    options.max_candidates = deepest.max(DEPTH);
    engine.usable(py, options.timeout.is_some())?;
    let run = py.detach(|| {
        let mut run = Run::default();
        for (id, query) in &asked {
            let selection = engine.inner.pick(query, &options)?;
            let new = selection
                .picks
                .iter()
                .filter(|pick| pick.provenance.in_use.is_none())
                .take(options.max_candidates);
            let ranking = new.map(|pick| RunEntry {
                tool: pick.tool.id.clone(),
                score: f64::from(pick.score),
            });
            run.insert(id, ranking.collect());
        }
        Ok::<_, PickError>(run)
    });
    let run = run.map_err(|error| errors::pick(py, &error))?;
    let scores = eval::evaluate(&run, &judged, &measures);
    let named = |row: &[f64]| {
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
            .map(|(query, row)| (query, named(row)))
            .collect(),
        no_answer: scores.no_answer(),
        unanswered: scores.unanswered(),
    };
    convert::object_of(py, &answer)
}
