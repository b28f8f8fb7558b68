//! The optional model. The index is built without it if it is not ready in time.
//!
//! Another thread opens the model and embeds the tools until the deadline. Meanwhile everything
//! else is indexed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::columns::catalog_vectors;
use super::embedding::{Embedding, EmbeddingOptions, Progress};
use super::error::IndexError;
use crate::catalog::Catalog;
use crate::deadline::{Deadline, DeadlineError, PendingJob};
use crate::embed::{EmbedError, Embedder};

/// A function that opens a model.
type OpenModel = Box<dyn FnOnce() -> Result<Arc<dyn Embedder>, EmbedError> + Send>;

/// An optional model and its deadline.
pub(crate) struct OptionalModel {
    pub(crate) model: OptionalModelState,
    pub(crate) deadline: Deadline,
}

/// The state of an optional model.
pub(crate) enum OptionalModelState {
    ToOpen(OpenModel),
    Open(Arc<dyn Embedder>),
    /// The model is unavailable for this reason.
    LeftOut(String),
}

/// An open model and its vectors.
pub(super) type OpenedModel = (Arc<dyn Embedder>, Embedding);

/// An optional model that is being opened and embeds the tools.
pub(super) struct PendingModel {
    work: PendingJob<Result<OpenedModel, IndexError>>,
    /// The number of tools that are embedded so far.
    done: Arc<AtomicUsize>,
    tools: usize,
}

impl OptionalModel {
    /// Starts to open the model and to embed `catalog`. The error is the reason why the model is
    /// left out.
    pub(super) fn start(
        self,
        catalog: &Catalog,
        cache_dir: Option<PathBuf>,
        progress: Progress,
    ) -> Result<PendingModel, String> {
        let Self { model, deadline } = self;
        let open: OpenModel = match model {
            OptionalModelState::ToOpen(open) => open,
            OptionalModelState::Open(embedder) => Box::new(move || Ok(embedder)),
            OptionalModelState::LeftOut(reason) => return Err(reason),
        };
        let (done, tools) = (Arc::new(AtomicUsize::new(0)), catalog.len());
        let reported = Arc::clone(&done);
        let progress = Progress(Some(Arc::new(move |done, total| {
            reported.fetch_max(done, Ordering::Relaxed);
            progress.report(done, total);
        })));
        let catalog = catalog.clone();
        let work = deadline.start(move || {
            let embedder = open().map_err(IndexError::Model)?;
            let options = EmbeddingOptions {
                cache_dir: cache_dir.as_deref(),
                progress: &progress,
                deadline,
            };
            let embedding = catalog_vectors(&catalog, None, embedder.as_ref(), options)?;
            Ok((embedder, embedding))
        });
        Ok(PendingModel { work, done, tools })
    }
}

impl PendingModel {
    /// Waits for the model and its vectors until the deadline. The inner error is the reason why
    /// they are missing.
    ///
    /// Transient problems are not errors: a failing endpoint and a missed deadline.
    pub(super) fn wait(self) -> Result<Result<OpenedModel, String>, IndexError> {
        let late = |reason| EmbedError::Late { reason };
        let missing = match self.work.wait() {
            Ok(Ok(opened)) => return Ok(Ok(opened)),
            Ok(Err(IndexError::Model(error) | IndexError::Embed(error))) if error.may_pass() => {
                error
            }
            Ok(Err(error)) => return Err(error),
            Err(DeadlineError::Lost(reason)) => late(reason),
            Err(DeadlineError::Expired) => match self.done.load(Ordering::Relaxed) {
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
