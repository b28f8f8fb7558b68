//! Models that rank by meaning: our own, and those of Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use picktools::embed::{EmbedError, EmbedProgress, Embedder, ModelKind, Role, WordVectors};
use picktools_tuned::TunedEmbedder;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::errors;

/// How many texts a model is given at once. Between two of these it can be stopped.
const BATCH: usize = 256;

/// What ranks by meaning, as it was given.
pub(crate) enum Given {
    Static,
    None,
    /// The embedder, and whether it is the tuned model, whose threads do not survive a fork.
    Model {
        embedder: Arc<Stoppable>,
        is_tuned: bool,
    },
}

impl Given {
    /// Opens what `model` says.
    pub(crate) fn open(
        model: &Bound<'_, PyAny>,
        name: Option<String>,
        watch: &Arc<Watch>,
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
                            "model: this build is without the tuned model",
                            None,
                        ));
                    };
                    let inner = opened
                        .map_err(|error| errors::model(py, format_args!("model: {error}"), None))?;
                    let embedder = Arc::new(Stoppable {
                        inner,
                        watch: Arc::clone(watch),
                    });
                    Ok(Self::Model {
                        embedder,
                        is_tuned: true,
                    })
                }
                other => {
                    let message = format!(
                        "{other:?} is no model; give \"static\", \"tuned\", None, or something that embeds"
                    );
                    Err(errors::argument(py, "model", message))
                }
            };
        }
        let inner = Arc::new(OfPython::open(model, name, Arc::clone(watch))?);
        Ok(Self::Model {
            embedder: Arc::new(Stoppable {
                inner,
                watch: Arc::clone(watch),
            }),
            is_tuned: false,
        })
    }
}

/// What an engine and its model tell each other.
#[derive(Default)]
pub(crate) struct Watch {
    /// Whether the work is of no use any more.
    pub(crate) cancelled: AtomicBool,
    /// The exception that a model of Python failed with last.
    raised: Mutex<Option<PyErr>>,
}

impl Watch {
    /// Takes the exception that a model failed with.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.raised
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Ends the work for this exception.
    pub(crate) fn stop(&self, error: PyErr) {
        self.keep(error);
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn keep(&self, error: PyErr) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

/// A model that can be stopped while it embeds many texts.
pub(crate) struct Stoppable {
    inner: Arc<dyn Embedder>,
    watch: Arc<Watch>,
}

impl Embedder for Stoppable {
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

    fn reads(&self, text: &str) -> bool {
        self.inner.reads(text)
    }

    fn scope(&self, request: &str) -> Option<f32> {
        self.inner.scope(request)
    }

    fn embed(
        &self,
        role: Role,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_until(role, texts, progress, None)
    }

    fn embed_until(
        &self,
        role: Role,
        texts: &[&str],
        progress: EmbedProgress<'_>,
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            if self.watch.cancelled.load(Ordering::Relaxed) {
                return Err(EmbedError::Late {
                    reason: "it was interrupted".to_owned(),
                });
            }
            vectors.extend(self.inner.embed_until(role, batch, progress, deadline)?);
        }
        Ok(vectors)
    }

    fn word_vectors(&self, role: Role, text: &str) -> Option<WordVectors> {
        self.inner.word_vectors(role, text)
    }
}

/// A model of Python: something that is called with texts, or has a method `encode`.
struct OfPython {
    encode: Py<PyAny>,
    identity: String,
    /// Whether the identity was given, so that vectors may be kept under it.
    is_named: bool,
    dimensions: usize,
    watch: Arc<Watch>,
}

impl OfPython {
    fn open(model: &Bound<'_, PyAny>, name: Option<String>, watch: Arc<Watch>) -> PyResult<Self> {
        let encode = match model.getattr("encode") {
            Ok(encode) if encode.is_callable() => encode,
            _ if model.is_callable() => model.clone(),
            _ => {
                return Err(errors::of_type(
                    model,
                    "model",
                    "\"static\", \"tuned\", None, a callable, or an object with encode",
                ));
            }
        };
        let (is_named, identity) = (
            name.is_some(),
            format!("python/{}", name.as_deref().unwrap_or("unnamed")),
        );
        let mut model = Self {
            encode: encode.clone().unbind(),
            identity,
            is_named,
            dimensions: 0,
            watch,
        };
        let found = model.vectors(encode.py(), &["text"]);
        let vectors = found.map_err(|error| {
            errors::model(encode.py(), "model: it fails on a text", Some(error))
        })?;
        model.dimensions = vectors[0].len();
        Ok(model)
    }

    /// Has texts embedded, and checks what came.
    fn vectors(&self, py: Python<'_>, texts: &[&str]) -> PyResult<Vec<Vec<f32>>> {
        let given = self.encode.bind(py).call1((PyList::new(py, texts)?,))?;
        let invalid = |message: String| errors::argument(py, "model", message);
        let rows = match given.getattr("astype") {
            Ok(astype) => rows_of_array(&given, &astype.call1(("float32",))?)?,
            Err(_) => {
                let list = if given.hasattr("tolist")? {
                    given.call_method0("tolist")?
                } else {
                    given.clone()
                };
                list.extract().map_err(|_| {
                    invalid(format!(
                        "it gives {}, no vectors",
                        errors::type_name(&given)
                    ))
                })?
            }
        };
        if rows.len() != texts.len() {
            return Err(invalid(format!(
                "it gives {} vectors for {} texts",
                rows.len(),
                texts.len()
            )));
        }
        rows.into_iter()
            .map(|row| self.unit(row).map_err(invalid))
            .collect()
    }

    /// Makes a vector one of length 1.
    fn unit(&self, mut row: Vec<f32>) -> Result<Vec<f32>, String> {
        if row.is_empty() || (self.dimensions != 0 && row.len() != self.dimensions) {
            return Err(format!(
                "it gives a vector of {} numbers after one of {}",
                row.len(),
                self.dimensions
            ));
        }
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        if !length.is_finite() || length == 0.0 {
            return Err(
                "it gives a vector with a number that is not finite, or without a length"
                    .to_owned(),
            );
        }
        row.iter_mut().for_each(|x| *x /= length);
        Ok(row)
    }
}

/// The rows of a numpy array of numbers, given as it is and in single precision.
fn rows_of_array(given: &Bound<'_, PyAny>, single: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<f32>>> {
    let shape: Vec<usize> = given.getattr("shape")?.extract()?;
    let [rows, columns] = shape[..] else {
        let message = format!(
            "it gives an array of {} dimensions; one of texts × dimensions is needed",
            shape.len()
        );
        return Err(errors::argument(given.py(), "model", message));
    };
    let bytes = single.call_method0("tobytes")?.cast_into::<PyBytes>()?;
    let numbers = bytes.as_bytes().chunks_exact(size_of::<f32>());
    let numbers: Vec<f32> = numbers
        .map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap_or_default()))
        .collect();
    if columns == 0 || numbers.len() != rows * columns {
        return Err(errors::argument(
            given.py(),
            "model",
            "it gives an array without numbers",
        ));
    }
    Ok(numbers.chunks_exact(columns).map(<[f32]>::to_vec).collect())
}

impl Embedder for OfPython {
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
        _: Role,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vectors = Python::attach(|py| {
            self.vectors(py, texts).map_err(|error| {
                let reason = error.to_string();
                self.watch.keep(error);
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
