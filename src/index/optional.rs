//! A model that an index goes without where it cannot be had in time.
//!
//! It is opened, and embeds the tools, on another thread until its deadline, while everything else
//! is indexed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::vectors::{Embedding, catalog_vectors};
use super::{IndexConfig, IndexError, Progress};
use crate::catalog::Catalog;
use crate::deadline::{Deadline, Missed, Pending};
use crate::embed::{EmbedError, Embedder};

/// Opens a model.
type OpenModel = Box<dyn FnOnce() -> Result<Arc<dyn Embedder>, EmbedError> + Send>;

/// A model that an index may go without, and when it must be ready.
pub(crate) struct Optional {
    pub(crate) model: Source,
    pub(crate) deadline: Deadline,
}

/// How far a model has come.
pub(crate) enum Source {
    ToOpen(OpenModel),
    Open(Arc<dyn Embedder>),
    /// It cannot be had, for this reason.
    LeftOut(String),
}

/// An open model and its vectors.
pub(super) type Made = (Arc<dyn Embedder>, Embedding);

/// A model that is being opened and embeds the tools.
pub(super) struct Coming {
    work: Pending<Result<Made, IndexError>>,
    /// How many tools it has embedded, and of how many.
    done: Arc<AtomicUsize>,
    tools: usize,
}

impl Optional {
    /// Starts to open the model and to embed `catalog`; or says why there is none.
    pub(super) fn start(self, catalog: &Catalog, config: &IndexConfig) -> Result<Coming, String> {
        let Self { model, deadline } = self;
        let open: OpenModel = match model {
            Source::ToOpen(open) => open,
            Source::Open(embedder) => Box::new(move || Ok(embedder)),
            Source::LeftOut(reason) => return Err(reason),
        };
        let (done, tools) = (Arc::new(AtomicUsize::new(0)), catalog.len());
        let (told, progress) = (Arc::clone(&done), config.progress.clone());
        let progress = Progress(Some(Arc::new(move |done, total| {
            told.fetch_max(done, Ordering::Relaxed);
            progress.report(done, total);
        })));
        let (catalog, cache_dir) = (catalog.clone(), config.cache_dir.clone());
        let work = deadline.start(move || {
            let embedder = open().map_err(IndexError::Model)?;
            let embedding = catalog_vectors(
                &catalog,
                None,
                embedder.as_ref(),
                cache_dir.as_deref(),
                &progress,
                deadline,
            )?;
            Ok((embedder, embedding))
        });
        Ok(Coming { work, done, tools })
    }
}

impl Coming {
    /// Waits for the model and its vectors until the deadline; else says why there are none.
    ///
    /// What may pass is no error: an endpoint that fails, and what takes too long.
    pub(super) fn wait(self) -> Result<Result<Made, String>, IndexError> {
        let late = |reason| EmbedError::Late { reason };
        let missing = match self.work.wait() {
            Ok(Ok(made)) => return Ok(Ok(made)),
            Ok(Err(IndexError::Model(error) | IndexError::Embed(error))) if error.may_pass() => {
                error
            }
            Ok(Err(error)) => return Err(error),
            Err(Missed::Lost(reason)) => late(reason),
            Err(Missed::Expired) => match self.done.load(Ordering::Relaxed) {
                0 => late("the deadline passed before it had embedded a tool".to_owned()),
                done => late(format!(
                    "it had embedded {done} of {} tools when the deadline passed",
                    self.tools
                )),
            },
        };
        Ok(Err(missing.to_string()))
    }
}
