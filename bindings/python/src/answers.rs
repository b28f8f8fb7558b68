//! The Python classes of a pick's result.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::convert;
use crate::tool::Tool;

/// A picked tool with its score and reason.
#[pyclass(frozen, module = "picktools")]
pub(crate) struct Pick {
    selection: Arc<picktools::Selection>,
    /// The position among the picks, followed by the required tools.
    position: usize,
}

impl Pick {
    fn pick(&self) -> &picktools::Pick {
        let picks = &self.selection.picks;
        picks
            .get(self.position)
            .unwrap_or_else(|| &self.selection.required[self.position - picks.len()])
    }
}

#[pymethods]
impl Pick {
    /// The tool.
    #[getter]
    fn tool(&self) -> Tool {
        Tool(Arc::clone(&self.pick().tool))
    }

    /// The relevance, 0 to 1.
    #[getter]
    fn score(&self) -> f32 {
        self.pick().score
    }

    /// The reason for the pick, in one sentence.
    #[getter]
    fn reason(&self) -> &str {
        &self.pick().reason
    }

    /// The evidence behind the score.
    #[getter]
    fn provenance<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.pick().provenance)
    }

    /// The ids of duplicates of the tool in other sources.
    #[getter]
    fn same_as(&self) -> Vec<String> {
        self.pick().same_as.clone()
    }

    /// The tool as a model is shown it, shortened to fit a token budget.
    #[getter]
    fn shown(&self) -> Tool {
        Tool(self.pick().shown_tool())
    }

    /// Returns the pick as JSON.
    fn to_json(&self) -> PyResult<String> {
        convert::json(self.pick())
    }

    /// Returns the pick as a dictionary.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, self.pick())
    }

    fn __repr__(&self) -> String {
        format!("<Pick {:?} {:.2}>", self.pick().tool.id, self.pick().score)
    }
}

/// The result of a pick: a sequence of the picks, with further information.
#[pyclass(frozen, module = "picktools", sequence)]
pub(crate) struct Selection(pub(crate) Arc<picktools::Selection>);

impl Selection {
    pub(crate) fn new(selection: picktools::Selection) -> Self {
        Self(Arc::new(selection))
    }

    fn picks_at(&self, positions: Range<usize>) -> Vec<Pick> {
        positions
            .map(|position| Pick {
                selection: Arc::clone(&self.0),
                position,
            })
            .collect()
    }
}

#[pymethods]
impl Selection {
    /// The picked tools, best first.
    #[getter]
    fn picks(&self) -> Vec<Pick> {
        self.picks_at(0..self.0.picks.len())
    }

    /// The tools that the picks require, unless they are picks themselves.
    #[getter]
    fn required(&self) -> Vec<Pick> {
        let first = self.0.picks.len();
        self.picks_at(first..first + self.0.required.len())
    }

    /// The tools to show to a model: the picks and required tools, within the token budget.
    #[getter]
    fn shown(&self) -> Vec<Tool> {
        self.0.shown_tools().into_iter().map(Tool).collect()
    }

    /// The version of the JSON format.
    #[getter]
    fn version(&self) -> u32 {
        self.0.version
    }

    /// The digest of the catalog.
    #[getter]
    fn catalog_digest(&self) -> &str {
        &self.0.catalog_digest
    }

    /// The scorer that ranked the tools.
    #[getter]
    fn scorer(&self) -> &str {
        &self.0.scorer
    }

    /// Messages about tools that a scorer of the caller gave an invalid score.
    #[getter]
    fn scorer_errors(&self) -> Vec<String> {
        self.0.scorer_errors.clone()
    }

    /// The probability that any tool fits the request, 0 to 1. None if it is unknown.
    #[getter]
    fn answerable(&self) -> Option<f32> {
        self.0.answerable
    }

    /// The number of other tools that could have been picked, but for which no place was left.
    #[getter]
    fn above_threshold(&self) -> usize {
        self.0.above_threshold
    }

    /// The number of tools below the threshold.
    #[getter]
    fn below_threshold(&self) -> usize {
        self.0.below_threshold
    }

    /// The kind of the request if no tool fits, otherwise None.
    #[getter]
    fn nothing_fits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.nothing_fits)
    }

    /// The reason why the scores are not probabilities. None if they are.
    #[getter]
    fn uncalibrated<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.uncalibrated)
    }

    /// The tools that the caller may not use, with the reasons.
    #[getter]
    fn ineligible<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.ineligible)
    }

    /// The best tool, if the caller may not use it.
    #[getter]
    fn blocked<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.blocked)
    }

    /// The skills that the request needs. None if the engine has no skills.
    #[getter]
    fn skills<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.skills)
    }

    /// The tools that were dropped although the request or the options named them.
    #[getter]
    fn dropped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.dropped)
    }

    /// The stages that failed or were late.
    #[getter]
    fn degraded<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.degraded)
    }

    /// Values of the options that no tool of the catalog has.
    #[getter]
    fn unknown_values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.unknown_values)
    }

    /// The tokens of the definitions, if there is a token budget.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.tokens)
    }

    /// The duration of each stage, in seconds.
    #[getter]
    fn timings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let timings = PyDict::new(py);
        for (stage, time) in &self.0.timings.0 {
            timings.set_item(stage.to_string(), time.as_secs_f64())?;
        }
        Ok(timings)
    }

    /// Returns the selection as JSON. With `pretty`, it equals the output of the program with
    /// `--json`.
    #[pyo3(signature = (*, pretty = false))]
    fn to_json(&self, pretty: bool) -> PyResult<String> {
        if pretty {
            convert::pretty(&*self.0)
        } else {
            convert::json(&*self.0)
        }
    }

    /// Returns the selection as a dictionary.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &*self.0)
    }

    /// Returns an HTML table for notebooks.
    fn _repr_html_(&self) -> String {
        let row = |pick: &picktools::Pick| {
            let (id, reason) = (escape_html(&pick.tool.id), escape_html(&pick.reason));
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
        let position = if index < 0 {
            index + self.0.picks.len().cast_signed()
        } else {
            index
        };
        let position = usize::try_from(position)
            .ok()
            .filter(|&position| position < self.0.picks.len());
        let pick = position.map(|position| Pick {
            selection: Arc::clone(&self.0),
            position,
        });
        pick.ok_or_else(|| PyIndexError::new_err(format!("pick index {index} is out of range")))
    }
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
