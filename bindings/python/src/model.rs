//! Embedding models: the built-in ones, and models written in Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use picktools::embed::{EmbedError, EmbedProgress, Embedder, ModelKind, TextRole, WordVectors};
use picktools_tuned::TunedEmbedder;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::errors;

/// The number of texts per call of a model. Embedding can be stopped between two calls.
const BATCH: usize = 256;

/// The `model` argument of an engine.
pub(crate) enum ModelChoice {
    Static,
    None,
    /// The tuned model, or a Python model.
    Model {
        embedder: Arc<StoppableEmbedder>,
        /// `true` for the tuned model, whose threads do not survive a fork.
        is_tuned: bool,
    },
}

impl ModelChoice {
    /// Opens the model of an argument.
    pub(crate) fn open(
        model: &Bound<'_, PyAny>,
        name: Option<String>,
        monitor: &Arc<WorkMonitor>,
    ) -> PyResult<Self> {
        let py = model.py();
        if model.is_none() {
            return Ok(Self::None);
        }
        if let Ok(name) = model.cast::<PyString>() {
            return match &*name.to_string_lossy() {
                "static" => Ok(Self::Static),
                "tuned" => {
                    let Some(opened) = py.detach(TunedEmbedder::shared) else {
                        return Err(errors::model(
                            py,
                            "model: this build does not contain the tuned model",
                            None,
                        ));
                    };
                    let inner = opened
                        .map_err(|error| errors::model(py, format_args!("model: {error}"), None))?;
                    let embedder = Arc::new(StoppableEmbedder {
                        inner,
                        monitor: Arc::clone(monitor),
                    });
                    Ok(Self::Model {
                        embedder,
                        is_tuned: true,
                    })
                }
                other => {
                    let message = format!(
                        "unknown model {other:?}; give \"static\", \"tuned\", None, a callable, or \
                         an object with encode"
                    );
                    Err(errors::argument(py, "model", message))
                }
            };
        }
        let inner = Arc::new(PythonEmbedder::open(model, name, Arc::clone(monitor))?);
        Ok(Self::Model {
            embedder: Arc::new(StoppableEmbedder {
                inner,
                monitor: Arc::clone(monitor),
            }),
            is_tuned: false,
        })
    }
}

/// The state of long work that an engine and its model share.
#[derive(Default)]
pub(crate) struct WorkMonitor {
    /// `true` if the work should stop.
    pub(crate) cancelled: AtomicBool,
    /// The last exception of a Python model.
    exception: Mutex<Option<PyErr>>,
}

impl WorkMonitor {
    /// Returns and clears the last exception.
    pub(crate) fn take_exception(&self) -> Option<PyErr> {
        self.exception
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Stops the work because of an exception.
    pub(crate) fn stop(&self, error: PyErr) {
        self.set_exception(error);
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn set_exception(&self, error: PyErr) {
        *self
            .exception
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

/// An embedder that can be stopped while it embeds many texts.
pub(crate) struct StoppableEmbedder {
    inner: Arc<dyn Embedder>,
    monitor: Arc<WorkMonitor>,
}

impl Embedder for StoppableEmbedder {
    fn identity(&self) -> &str {
        self.inner.identity()
    }

    fn dimensions(&self) -> usize {
        self.inner.dimensions()
    }

    fn kind(&self) -> ModelKind {
        self.inner.kind()
    }

    fn worth_caching(&self) -> bool {
        self.inner.worth_caching()
    }

    fn is_immediate(&self) -> bool {
        self.inner.is_immediate()
    }

    fn reads(&self, text: &str) -> bool {
        self.inner.reads(text)
    }

    fn scope(&self, request: &str) -> Option<f32> {
        self.inner.scope(request)
    }

    fn embed(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_until(role, texts, progress, None)
    }

    fn embed_until(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            if self.monitor.cancelled.load(Ordering::Relaxed) {
                return Err(EmbedError::Late {
                    reason: "it was interrupted".to_owned(),
                });
            }
            vectors.extend(self.inner.embed_until(role, batch, progress, deadline)?);
        }
        Ok(vectors)
    }

    fn word_vectors(&self, role: TextRole, text: &str) -> Option<WordVectors> {
        self.inner.word_vectors(role, text)
    }
}

/// A Python model: a callable that takes texts, or an object with a method `encode`.
struct PythonEmbedder {
    encode: Py<PyAny>,
    identity: String,
    /// `true` if the caller gave a name, under which vectors may be cached.
    is_named: bool,
    dimensions: usize,
    monitor: Arc<WorkMonitor>,
}

impl PythonEmbedder {
    fn open(
        model: &Bound<'_, PyAny>,
        name: Option<String>,
        monitor: Arc<WorkMonitor>,
    ) -> PyResult<Self> {
        let encode = match model.getattr("encode") {
            Ok(encode) if encode.is_callable() => encode,
            _ if model.is_callable() => model.clone(),
            _ => {
                return Err(errors::argument_type(
                    model,
                    "model",
                    "\"static\", \"tuned\", None, a callable, or an object with encode",
                ));
            }
        };
        let identity = format!("python/{}", name.as_deref().unwrap_or("unnamed"));
        let mut embedder = Self {
            encode: encode.clone().unbind(),
            identity,
            is_named: name.is_some(),
            dimensions: 0,
            monitor,
        };
        let vectors = embedder.vectors(encode.py(), &["text"]).map_err(|error| {
            errors::model(encode.py(), "model: it failed on a text", Some(error))
        })?;
        embedder.dimensions = vectors[0].len();
        Ok(embedder)
    }

    /// Embeds texts, and checks the result.
    fn vectors(&self, py: Python<'_>, texts: &[&str]) -> PyResult<Vec<Vec<f32>>> {
        let result = self.encode.bind(py).call1((PyList::new(py, texts)?,))?;
        let invalid = |message: String| errors::argument(py, "model", message);
        let rows = match result.getattr("astype") {
            Ok(astype) => rows_from_array(&result, &astype.call1(("float32",))?)?,
            Err(_) => {
                let list = if result.hasattr("tolist")? {
                    result.call_method0("tolist")?
                } else {
                    result.clone()
                };
                list.extract().map_err(|_| {
                    invalid(format!(
                        "it returned {} instead of vectors",
                        errors::type_name(&result)
                    ))
                })?
            }
        };
        if rows.len() != texts.len() {
            return Err(invalid(format!(
                "it returned {} vectors for {} texts",
                rows.len(),
                texts.len()
            )));
        }
        rows.into_iter()
            .map(|row| self.normalise(row).map_err(invalid))
            .collect()
    }

    /// Scales a vector to length 1.
    fn normalise(&self, mut row: Vec<f32>) -> Result<Vec<f32>, String> {
        if row.is_empty() || (self.dimensions != 0 && row.len() != self.dimensions) {
            return Err(format!(
                "it returned a vector of {} numbers after one of {}",
                row.len(),
                self.dimensions
            ));
        }
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        if !length.is_finite() || length == 0.0 {
            return Err(
                "it returned a vector of length 0, or with a number that is not finite".to_owned(),
            );
        }
        row.iter_mut().for_each(|x| *x /= length);
        Ok(row)
    }
}

/// Returns the rows of a numpy array, from the array and its copy in single precision.
fn rows_from_array(array: &Bound<'_, PyAny>, single: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<f32>>> {
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let [rows, columns] = shape[..] else {
        let message = format!(
            "it returned an array of {} dimensions; return one of texts × dimensions",
            shape.len()
        );
        return Err(errors::argument(array.py(), "model", message));
    };
    let bytes = single.call_method0("tobytes")?.cast_into::<PyBytes>()?;
    let numbers = bytes.as_bytes().chunks_exact(size_of::<f32>());
    let numbers: Vec<f32> = numbers
        .map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap_or_default()))
        .collect();
    if columns == 0 || numbers.len() != rows * columns {
        return Err(errors::argument(
            array.py(),
            "model",
            "it returned an empty array",
        ));
    }
    Ok(numbers.chunks_exact(columns).map(<[f32]>::to_vec).collect())
}

impl Embedder for PythonEmbedder {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn worth_caching(&self) -> bool {
        self.is_named
    }

    fn embed(
        &self,
        _: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vectors = Python::attach(|py| {
            self.vectors(py, texts).map_err(|error| {
                let reason = error.to_string();
                self.monitor.set_exception(error);
                EmbedError::Inference {
                    model: self.identity.clone(),
                    reason,
                }
            })
        })?;
        progress(texts.len());
        Ok(vectors)
    }
}
