//! A language model as a reranker.
//!
//! The model gets one question for each request and gives a number for each candidate. It sees
//! neutral ids (`c1`, `c2`, …), and untrusted text as JSON strings, one value a line. A string
//! cannot end its line.
//!
//! If the provider enforces a schema, each id is a required member and other members are rejected.
//! The answer is parsed strictly: a number from 0 to 10 for every id, once. Almost valid JSON is
//! repaired first; the model is not asked again.

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
use crate::model::{LanguageModel, UnusableModel};
use picktools::catalog::Tool;
use picktools::query::Query;
use picktools::rerank::RerankError;
use picktools::rerank::{RerankFuture, RerankScore, Reranker};

/// The default number of cached answers.
const DEFAULT_CACHED: usize = 1024;

/// The key of a cached answer: the digest of the complete request, with the model, the question and
/// each candidate.
type AnswerKey = [u8; 32];

/// Reranks by asking a language model, in the format of OpenAI Chat Completions, Anthropic or
/// Ollama.
///
/// Guard it with a [`CircuitBreaker`](picktools::rerank::CircuitBreaker), so that an unreachable
/// model costs no more than its first failures.
pub struct LlmReranker {
    model: LanguageModel,
    cache: Option<Mutex<LruCache<AnswerKey, Vec<RerankScore>>>>,
}

impl LlmReranker {
    /// Creates a reranker that asks `model` through `client`.
    ///
    /// # Errors
    ///
    /// [`RerankError`] if the client speaks another format, or the model has no name.
    pub fn new(client: ProviderClient, model: &str) -> Result<Self, RerankError> {
        let model = LanguageModel::new(client, model).map_err(|unusable| match unusable {
            UnusableModel::Provider(provider) => RerankError::UnsupportedProvider { provider },
            UnusableModel::NoName => RerankError::NoModelName,
        })?;
        Ok(Self {
            model,
            cache: cache(DEFAULT_CACHED),
        })
    }

    /// Sets the timeout of an answer for picks without a deadline, at most an hour; the default is
    /// 10 seconds. The client's own timeout applies too.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.model.set_timeout(timeout);
        self
    }

    /// Sets the number of concurrent requests, at least one; the default is 4. Others wait until
    /// their deadlines.
    #[must_use]
    pub fn max_concurrent(mut self, requests: usize) -> Self {
        self.model.set_max_concurrent(requests);
        self
    }

    /// Sets the number of cached answers, the last used ones; the default is 1,024, and 0 turns the
    /// cache off.
    #[must_use]
    pub fn cached_answers(mut self, answers: usize) -> Self {
        self.cache = cache(answers);
        self
    }

    /// Sets members of each request's body, replacing those with the same name; `null` removes a
    /// member. Some models reject `temperature` or `max_tokens`, or need other members.
    #[must_use]
    pub fn extra(mut self, members: Map<String, Value>) -> Self {
        self.model.set_extra(members);
        self
    }

    fn cached(&self, key: &AnswerKey) -> Option<Vec<RerankScore>> {
        let mut cache = self
            .cache
            .as_ref()?
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        cache.get(key).cloned()
    }

    fn store(&self, key: AnswerKey, scores: &[RerankScore]) {
        if let Some(cache) = &self.cache {
            cache
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .put(key, scores.to_vec());
        }
    }
}

fn cache(answers: usize) -> Option<Mutex<LruCache<AnswerKey, Vec<RerankScore>>>> {
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
            let key: AnswerKey = Sha256::digest(request.to_string()).into();
            if let Some(scores) = self.cached(&key) {
                return Ok(scores);
            }
            let answer = self.model.ask(request, deadline).await;
            let answer = answer.map_err(|reason| RerankError::Failed {
                reranker: reranker(),
                reason,
            })?;
            let scores = answer::parse_scores(self.model.provider(), &answer, window.len());
            let scores = scores.map_err(|fault| RerankError::InvalidAnswer {
                reranker: reranker(),
                fault,
            })?;
            self.store(key, &scores);
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
