//! The options of a pick, with scorers written in Python.

use std::sync::Arc;

use picktools::scorer::{Score, ScoreFuture, Scorer, ScorerError};
use picktools::{PickOptions, Query};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Map, Value};

use crate::tool::Tool;
use crate::{convert, errors};

/// An engine with the options of a pick.
pub(crate) struct ConfiguredPick {
    /// The engine, with the scorer of the caller if there is one.
    pub(crate) engine: picktools::Engine,
    pub(crate) options: PickOptions,
}

impl ConfiguredPick {
    /// Reads the options of a pick. `scorer` and `shortlist` change the engine, and the others are
    /// those of [`pick_options`].
    pub(crate) fn configure(
        engine: &picktools::Engine,
        k: Option<&Bound<'_, PyAny>>,
        access: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
        py: Python<'_>,
    ) -> PyResult<Self> {
        let mut others = None;
        let (mut scorer, mut shortlist) = (None, None);
        if let Some(options) = options {
            let options = options.copy()?;
            scorer = take(&options, "scorer")?;
            shortlist = take(&options, "shortlist")?;
            others = Some(options);
        }
        let options = pick_options(py, k, access, others.as_ref())?;
        let shortlist = shortlist.map(|tools| read_shortlist(&tools)).transpose()?;
        let engine = match scorer {
            Some(scorer) => engine.with_scorer(Arc::new(PythonScorer::new(&scorer)?), shortlist),
            None if shortlist.is_some() => {
                let message = "it limits what the scorer gets; give scorer too";
                return Err(errors::argument(py, "shortlist", message));
            }
            None => engine.clone(),
        };
        Ok(Self { engine, options })
    }
}

/// Reads the options of a pick, with the names of `PickOptions`, and `k` for `max_candidates`.
fn pick_options(
    py: Python<'_>,
    k: Option<&Bound<'_, PyAny>>,
    access: Option<&Bound<'_, PyAny>>,
    others: Option<&Bound<'_, PyDict>>,
) -> PyResult<PickOptions> {
    let mut members = Map::new();
    if let Some(others) = others {
        for (name, value) in others {
            let name = convert::string(&name, "options")?;
            members.insert(name.clone(), convert::value(&value, &name)?);
        }
    }
    if let Some(k) = k {
        members.insert("max_candidates".to_owned(), convert::value(k, "k")?);
    }
    if let Some(access) = access {
        members.insert("access".to_owned(), convert::value(access, "access")?);
    }
    if members.is_empty() {
        return Ok(PickOptions::default());
    }
    let parse =
        |members: Map<String, Value>| serde_json::from_value::<PickOptions>(Value::Object(members));
    parse(members.clone()).map_err(|error| {
        // The error names the first option that is invalid by itself.
        let invalid = members
            .into_iter()
            .find(|(name, value)| parse(Map::from_iter([(name.clone(), value.clone())])).is_err());
        let name = invalid.map_or_else(|| "options".to_owned(), |(name, _)| name);
        errors::argument(
            py,
            if name == "max_candidates" { "k" } else { &name },
            error,
        )
    })
}

/// Removes a value from a dictionary; `None` if it is missing or None.
fn take<'py>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let value = options.get_item(name)?;
    if value.is_some() {
        options.del_item(name)?;
    }
    Ok(value.filter(|value| !value.is_none()))
}

fn read_shortlist(tools: &Bound<'_, PyAny>) -> PyResult<usize> {
    match tools.extract() {
        Ok(tools) if tools > 0 => Ok(tools),
        _ => {
            let message = "it is not a number of tools; give an integer of at least 1";
            Err(errors::argument(tools.py(), "shortlist", message))
        }
    }
}

/// A Python callable that takes the text of a request and the eligible tools, and returns one
/// score per tool: a number, or a pair of a number and a reason.
struct PythonScorer {
    score: Py<PyAny>,
    name: String,
}

impl PythonScorer {
    fn new(scorer: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !scorer.is_callable() {
            return Err(errors::argument_type(scorer, "scorer", "a callable"));
        }
        let name = match scorer.getattr("__name__").and_then(|name| name.extract()) {
            Ok(name) => name,
            Err(_) => errors::type_name(scorer),
        };
        Ok(Self {
            score: scorer.clone().unbind(),
            name,
        })
    }

    fn scores(
        &self,
        py: Python<'_>,
        query: &Query,
        tools: &[Arc<picktools::Tool>],
    ) -> PyResult<Vec<Score>> {
        let tools: Vec<Tool> = tools.iter().map(|tool| Tool(Arc::clone(tool))).collect();
        let arguments = (query.text(), PyList::new(py, tools)?);
        let answer = self.score.bind(py).call1(arguments)?;
        let mut scores = Vec::new();
        for item in answer.try_iter()? {
            scores.push(read_score(&item?)?);
        }
        Ok(scores)
    }
}

fn read_score(item: &Bound<'_, PyAny>) -> PyResult<Score> {
    let (score, reason) = match item.extract::<(f32, String)>() {
        Ok((score, reason)) => (score, Some(reason)),
        Err(_) => (item.extract::<f32>()?, None),
    };
    Ok(Score {
        reason,
        ..Score::new(score)
    })
}

impl Scorer for PythonScorer {
    fn name(&self) -> &str {
        &self.name
    }

    fn score<'a>(&'a self, query: &'a Query, tools: &'a [Arc<picktools::Tool>]) -> ScoreFuture<'a> {
        Box::pin(async move {
            let scores = Python::attach(|py| self.scores(py, query, tools));
            scores.map_err(|error| ScorerError::Failed {
                scorer: self.name.clone(),
                reason: error.to_string(),
            })
        })
    }
}
