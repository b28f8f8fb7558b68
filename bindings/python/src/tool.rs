//! The Python class of a tool.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use pyo3::prelude::*;

use crate::convert;

/// A tool of a catalog.
#[pyclass(frozen, module = "picktools")]
pub(crate) struct Tool(pub(crate) Arc<picktools::Tool>);

#[pymethods]
impl Tool {
    /// The id, unique in the catalog.
    #[getter]
    fn id(&self) -> &str {
        &self.0.id
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The name for people.
    #[getter]
    fn title(&self) -> Option<&str> {
        self.0.title.as_deref()
    }

    /// The description.
    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    /// The server or file of the tool.
    #[getter]
    fn source(&self) -> Option<&str> {
        self.0.source.as_deref()
    }

    /// The tags.
    #[getter]
    fn tags(&self) -> Vec<&str> {
        self.0.tags.iter().map(String::as_str).collect()
    }

    /// The JSON Schema of the arguments.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0.parameters)
    }

    /// True if the source is untrusted.
    #[getter]
    fn untrusted(&self) -> bool {
        self.0.untrusted
    }

    /// True if the tool is unsafe.
    #[getter]
    fn is_unsafe(&self) -> bool {
        self.0.is_unsafe()
    }

    /// Returns the definition as JSON.
    fn to_json(&self) -> PyResult<String> {
        convert::json(&self.0)
    }

    /// Returns the definition as a dictionary.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.0)
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
