//! What a pick gives.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::convert;
use crate::tool::Tool;

/// A picked tool, and why.
#[pyclass(frozen, module = "picktools")]
pub(crate) struct Pick {
    of: Arc<picktools::Selection>,
    /// Among the picks and, after them, what they require.
    place: usize,
}

impl Pick {
    fn pick(&self) -> &picktools::Pick {
        let picks = &self.of.picks;
        picks
            .get(self.place)
            .unwrap_or_else(|| &self.of.required[self.place - picks.len()])
    }
}

#[pymethods]
impl Pick {
    /// The tool.
    #[getter]
    fn tool(&self) -> Tool {
        Tool(Arc::clone(&self.pick().tool))
    }

    /// Relevance, 0 to 1.
    #[getter]
    fn score(&self) -> f32 {
        self.pick().score
    }

    /// One sentence that says why.
    #[getter]
    fn reason(&self) -> &str {
        &self.pick().reason
    }

    /// Where the score comes from.
    #[getter]
    fn provenance<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.pick().provenance)
    }

    /// The ids of tools that are the same but for their source.
    #[getter]
    fn same_as(&self) -> Vec<String> {
        self.pick().same_as.clone()
    }

    /// The tool with what a token budget leaves of it.
    #[getter]
    fn shown(&self) -> Tool {
        Tool(self.pick().shown())
    }

    /// All of it as JSON.
    fn to_json(&self) -> PyResult<String> {
        convert::json(self.pick())
    }

    /// All of it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, self.pick())
    }

    fn __repr__(&self) -> String {
        format!("<Pick {:?} {:.2}>", self.pick().tool.id, self.pick().score)
    }
}

/// The outcome of a pick: a sequence of the picks, with what is to be told beside them.
#[pyclass(frozen, module = "picktools", sequence)]
pub(crate) struct Selection(pub(crate) Arc<picktools::Selection>);

impl Selection {
    pub(crate) fn new(selection: picktools::Selection) -> Self {
        Self(Arc::new(selection))
    }

    fn at(&self, places: Range<usize>) -> Vec<Pick> {
        places
            .map(|place| Pick {
                of: Arc::clone(&self.0),
                place,
            })
            .collect()
    }
}

#[pymethods]
impl Selection {
    /// The picked tools, best first.
    #[getter]
    fn picks(&self) -> Vec<Pick> {
        self.at(0..self.0.picks.len())
    }

    /// What the picks require and is not among them.
    #[getter]
    fn required(&self) -> Vec<Pick> {
        let first = self.0.picks.len();
        self.at(first..first + self.0.required.len())
    }

    /// The tools that a model is to be shown: the picks and what they require, as far as a token
    /// budget goes.
    #[getter]
    fn shown(&self) -> Vec<Tool> {
        self.0.shown().into_iter().map(Tool).collect()
    }

    /// The version of the form as JSON.
    #[getter]
    fn version(&self) -> u32 {
        self.0.version
    }

    /// Digest of the catalog that was picked from.
    #[getter]
    fn catalog_digest(&self) -> &str {
        &self.0.catalog_digest
    }

    /// What ranked.
    #[getter]
    fn scorer(&self) -> &str {
        &self.0.scorer
    }

    /// The probability that a tool fits the request, 0 to 1, where it can be told.
    #[getter]
    fn answerable(&self) -> Option<f32> {
        self.0.answerable
    }

    /// How many tools scored too little.
    #[getter]
    fn below_threshold(&self) -> usize {
        self.0.below_threshold
    }

    /// Where no tool is good enough: of what kind the request is.
    #[getter]
    fn nothing_fits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.nothing_fits)
    }

    /// Why the scores are no probabilities; None where they are.
    #[getter]
    fn uncalibrated<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.uncalibrated)
    }

    /// What the caller may not see, with the reasons.
    #[getter]
    fn ineligible<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.ineligible)
    }

    /// The tool that would have been the best, had the caller been allowed to use it.
    #[getter]
    fn blocked<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.blocked)
    }

    /// The skills that the request needs; None where the engine has none.
    #[getter]
    fn skills<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.skills)
    }

    /// Tools that were cut away although somebody asked for them.
    #[getter]
    fn dropped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.dropped)
    }

    /// The stages that failed or were late.
    #[getter]
    fn degraded<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.degraded)
    }

    /// Values of the options that no tool of the catalog has.
    #[getter]
    fn unknown_values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.unknown_values)
    }

    /// With a token budget: what the definitions cost.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.tokens)
    }

    /// How many seconds each stage took.
    #[getter]
    fn timings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let timings = PyDict::new(py);
        for (stage, time) in &self.0.timings.0 {
            timings.set_item(stage.to_string(), time.as_secs_f64())?;
        }
        Ok(timings)
    }

    /// All of it as JSON, as the program writes it with `--json` where it is to be pretty.
    #[pyo3(signature = (*, pretty = false))]
    fn to_json(&self, pretty: bool) -> PyResult<String> {
        if pretty {
            convert::pretty(&*self.0)
        } else {
            convert::json(&*self.0)
        }
    }

    /// All of it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &*self.0)
    }

    /// A table for notebooks.
    fn _repr_html_(&self) -> String {
        let row = |pick: &picktools::Pick| {
            let (id, reason) = (escaped(&pick.tool.id), escaped(&pick.reason));
            format!(
                "<tr><td>{id}</td><td>{:.2}</td><td>{reason}</td></tr>",
                pick.score
            )
        };
        let rows: String = self.0.picks.iter().map(row).collect();
        format!("<table><tr><th>tool</th><th>score</th><th>reason</th></tr>{rows}</table>")
    }

    fn __repr__(&self) -> String {
        let picks: Vec<String> = self
            .0
            .picks
            .iter()
            .map(|pick| format!("{} {:.2}", pick.tool.id, pick.score))
            .collect();
        format!("<Selection [{}]>", picks.join(", "))
    }

    fn __len__(&self) -> usize {
        self.0.picks.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(py, self.picks())?.try_iter()?.into_any())
    }

    fn __getitem__(&self, index: isize) -> PyResult<Pick> {
        let from = if index < 0 {
            index + self.0.picks.len().cast_signed()
        } else {
            index
        };
        let place = usize::try_from(from)
            .ok()
            .filter(|&place| place < self.0.picks.len());
        let pick = place.map(|place| Pick {
            of: Arc::clone(&self.0),
            place,
        });
        pick.ok_or_else(|| PyIndexError::new_err(format!("there is no pick {index}")))
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
