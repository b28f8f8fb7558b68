//! Tools.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use pyo3::prelude::*;

use crate::convert;

/// A tool of a catalog.
#[pyclass(frozen, module = "picktools")]
pub(crate) struct Tool(pub(crate) Arc<picktools::Tool>);

#[pymethods]
impl Tool {
    /// Identity within a catalog.
    #[getter]
    fn id(&self) -> &str {
        &self.0.id
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// A name for people.
    #[getter]
    fn title(&self) -> Option<&str> {
        self.0.title.as_deref()
    }

    /// What it does.
    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    /// The server or file that it comes from.
    #[getter]
    fn source(&self) -> Option<&str> {
        self.0.source.as_deref()
    }

    /// Subjects that it belongs to.
    #[getter]
    fn tags(&self) -> Vec<&str> {
        self.0.tags.iter().map(String::as_str).collect()
    }

    /// JSON Schema of its arguments.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0.parameters)
    }

    /// Whether its source is untrusted.
    #[getter]
    fn untrusted(&self) -> bool {
        self.0.untrusted
    }

    /// Whether it is marked unsafe.
    #[getter]
    fn is_unsafe(&self) -> bool {
        self.0.is_unsafe()
    }

    /// The definition as JSON.
    fn to_json(&self) -> PyResult<String> {
        convert::json(&self.0)
    }

    /// The definition.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::object_of(py, &self.0)
    }

    fn __repr__(&self) -> String {
        format!("<Tool {:?}>", self.0.id)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other
            .cast::<Self>()
            .is_ok_and(|other| other.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.id.hash(&mut hasher);
        hasher.finish()
    }
}
