//! A language model as a reranker.
//!
//! The model is asked once a request for a number a candidate. It sees ids that say nothing (`c1`,
//! `c2`, …), and what strangers wrote stands in JSON strings, one value a line, which nothing
//! within a string can end. Where the provider holds a model to a schema, each id is a required
//! member and there are no others. Whatever comes back is read strictly: a number from 0 to 10 for
//! every id, once. Text that is nearly JSON is mended first; the model is not asked again.

mod answer;
mod prompt;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::ProviderClient;
use crate::model::{Model, UnusableModel};
use picktools::catalog::Tool;
use picktools::query::Query;
use picktools::rerank::RerankError;
use picktools::rerank::{RerankFuture, RerankScore, Reranker};

/// How many answers are kept.
const DEFAULT_CACHED: usize = 1024;

/// What names an answer in the cache: the digest of the whole request, which holds the model, what
/// is asked, and each candidate.
type Key = [u8; 32];

/// Reranks by asking a language model, in the format of OpenAI Chat Completions, Anthropic or
/// Ollama.
///
/// Guard it with a [`CircuitBreaker`](picktools::rerank::CircuitBreaker), so that a model that is
/// away costs no more than its first failures.
pub struct LlmReranker {
    model: Model,
    cache: Option<Mutex<LruCache<Key, Vec<RerankScore>>>>,
}

impl LlmReranker {
    /// Asks `model` through `client`.
    ///
    /// # Errors
    ///
    /// [`RerankError`] when the client speaks another format, or the model has no name.
    pub fn new(client: ProviderClient, model: &str) -> Result<Self, RerankError> {
        let model = Model::new(client, model).map_err(|unusable| match unusable {
            UnusableModel::Provider(provider) => RerankError::UnsupportedProvider { provider },
            UnusableModel::NoName => RerankError::NoModelName,
        })?;
        Ok(Self {
            model,
            cache: cache(DEFAULT_CACHED),
        })
    }

    /// Waits this long for an answer where the pick has no deadline, at most an hour; 10 seconds by
    /// default. The client's own timeout holds as well.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.model.set_timeout(timeout);
        self
    }

    /// Has at most so many requests under way, at least one; 4 by default. The others wait, under
    /// their deadlines.
    #[must_use]
    pub fn max_concurrent(mut self, requests: usize) -> Self {
        self.model.set_max_concurrent(requests);
        self
    }

    /// Keeps so many answers in memory, the last used ones; 1,024 by default, and 0 keeps none.
    #[must_use]
    pub fn cached_answers(mut self, answers: usize) -> Self {
        self.cache = cache(answers);
        self
    }

    /// Puts members into the body of each request, in place of those with the same name; `null`
    /// takes a member away. For models that refuse `temperature`, or `max_tokens`, or need
    /// something of their own.
    #[must_use]
    pub fn extra(mut self, members: Map<String, Value>) -> Self {
        self.model.set_extra(members);
        self
    }

    fn cached(&self, key: &Key) -> Option<Vec<RerankScore>> {
        let mut cache = self
            .cache
            .as_ref()?
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        cache.get(key).cloned()
    }

    fn keep(&self, key: Key, scores: &[RerankScore]) {
        if let Some(cache) = &self.cache {
            cache
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .put(key, scores.to_vec());
        }
    }
}

fn cache(answers: usize) -> Option<Mutex<LruCache<Key, Vec<RerankScore>>>> {
    NonZeroUsize::new(answers).map(|answers| Mutex::new(LruCache::new(answers)))
}

impl Reranker for LlmReranker {
    fn name(&self) -> &str {
        &self.model.name
    }

    fn rerank<'a>(
        &'a self,
        query: &'a Query,
        window: &'a [Arc<Tool>],
        deadline: Option<Instant>,
    ) -> RerankFuture<'a> {
        Box::pin(async move {
            let reranker = || self.model.name.clone();
            let request = self.model.request(&prompt::question(query, window));
            let key: Key = Sha256::digest(request.to_string()).into();
            if let Some(scores) = self.cached(&key) {
                return Ok(scores);
            }
            let answer = self.model.ask(request, deadline).await;
            let answer = answer.map_err(|reason| RerankError::Failed {
                reranker: reranker(),
                reason,
            })?;
            let scores = answer::scores(self.model.provider(), &answer, window.len());
            let scores = scores.map_err(|fault| RerankError::InvalidAnswer {
                reranker: reranker(),
                fault,
            })?;
            self.keep(key, &scores);
            Ok(scores)
        })
    }
}

impl fmt::Debug for LlmReranker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmReranker")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
