//! The embeddings of a request: each model embeds it once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::deadline::{Deadline, DeadlineError};
use crate::embed::{EmbedError, Embedder};
use crate::fuse::Retriever;
use crate::index::{RequestVectors, Vectors};
use crate::query::Query;

/// A request's embeddings by one model, or the cause of their absence.
pub(crate) type Embedded = Result<RequestVectors, String>;

/// The embeddings of a request by each model. Each model embeds it once.
#[derive(Default)]
pub struct Embeddings(Vec<(Retriever, Embedded)>);

impl Embeddings {
    /// Returns the embeddings by a model. Embeds the request on the first call only, even if that
    /// fails.
    pub fn get_or_embed(
        &mut self,
        embedder: &Arc<dyn Embedder>,
        query: &Query,
        deadline: Deadline,
    ) -> &Embedded {
        let model = Retriever::from_embedder(embedder.as_ref());
        let position = self
            .0
            .iter()
            .position(|(other, _)| *other == model)
            .unwrap_or_else(|| {
                let query = query.clone();
                let embed =
                    move |embedder: &dyn Embedder| Vectors::embed_query(embedder, &query, deadline);
                self.0.push((model, guarded(embedder, deadline, embed)));
                self.0.len() - 1
            });
        &self.0[position].1
    }
}

/// Runs an embedder under the deadline, on another thread unless it takes less time than waking one.
/// Returns the cause if there is no answer.
pub(super) fn guarded<T: Send + 'static>(
    embedder: &Arc<dyn Embedder>,
    deadline: Deadline,
    ask: impl FnOnce(&dyn Embedder) -> Result<T, EmbedError> + Send + 'static,
) -> Result<T, String> {
    if deadline.has_passed() {
        return Err("the deadline passed before it began".to_owned());
    }
    let answer = if deadline.instant().is_some() && !embedder.is_immediate() {
        let embedder = Arc::clone(embedder);
        deadline.run(move || ask(embedder.as_ref()))
    } else {
        let ask = || ask(embedder.as_ref());
        catch_unwind(AssertUnwindSafe(ask)).map_err(|_| DeadlineError::panicked())
    };
    match answer {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(DeadlineError::Expired) => {
            Err("the deadline passed while the request was embedded".to_owned())
        }
        Err(DeadlineError::Lost(reason)) => Err(reason),
    }
}
