//! A language model as a reranker.
//!
//! The model is asked once a request for a number a candidate. It sees ids that say nothing (`c1`, `c2`, …), and what
//! strangers wrote stands in JSON strings, one value a line, which nothing within a string can end. Where the provider
//! holds a model to a schema, each id is a required member and there are no others. Whatever comes back is read strictly:
//! a number from 0 to 10 for every id, once. Text that is nearly JSON is mended first; the model is not asked again.

mod answer;
mod prompt;

use std::error::Error;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use super::{RerankFuture, RerankScore, Reranker};
use crate::catalog::Tool;
use crate::client::{ProviderClient, ToolClient};
use crate::provider::Provider;
use crate::query::Query;
use crate::rerank::RerankError;

/// The longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 1024 * 1024;
/// How long a model may take where the pick has no deadline.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest that can be asked for.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);
/// How many requests are under way at once.
const DEFAULT_CONCURRENCY: usize = 4;
/// How many answers are kept.
const DEFAULT_CACHED: usize = 1024;

/// What names an answer in the cache: the digest of the whole request, which holds the model, what is asked, and each
/// candidate.
type Key = [u8; 32];

/// Reranks by asking a language model, in the format of OpenAI Chat Completions, Anthropic or Ollama.
///
/// Guard it with a [`CircuitBreaker`](crate::rerank::CircuitBreaker), so that a model that is away costs no more than its first
/// failures.
pub struct LlmReranker {
    name: String,
    model: String,
    client: ProviderClient,
    timeout: Duration,
    permits: Arc<Semaphore>,
    cache: Option<Mutex<LruCache<Key, Vec<RerankScore>>>>,
    extra: Map<String, Value>,
}

impl LlmReranker {
    /// Asks `model` through `client`.
    ///
    /// # Errors
    ///
    /// [`RerankError`] when the client speaks another format, or the model has no name.
    pub fn new(client: ProviderClient, model: &str) -> Result<Self, RerankError> {
        let provider = client.provider();
        if !matches!(provider, Provider::OpenAiChat | Provider::Anthropic | Provider::Ollama) {
            return Err(RerankError::UnsupportedProvider { provider: provider.name() });
        }
        let model = model.trim();
        if model.is_empty() {
            return Err(RerankError::NoModelName);
        }
        Ok(Self {
            name: format!("llm:{model}"),
            model: model.to_owned(),
            client,
            timeout: DEFAULT_TIMEOUT,
            permits: Arc::new(Semaphore::new(DEFAULT_CONCURRENCY)),
            cache: cache(DEFAULT_CACHED),
            extra: Map::new(),
        })
    }

    /// Waits this long for an answer where the pick has no deadline, at most an hour; 10 seconds by default. The
    /// client's own timeout holds as well.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(LONGEST_TIMEOUT);
        self
    }

    /// Has at most so many requests under way, at least one; 4 by default. The others wait, under their deadlines.
    #[must_use]
    pub fn max_concurrent(mut self, requests: usize) -> Self {
        self.permits = Arc::new(Semaphore::new(requests.clamp(1, Semaphore::MAX_PERMITS)));
        self
    }

    /// Keeps so many answers in memory, the last used ones; 1,024 by default, and 0 keeps none.
    #[must_use]
    pub fn cached_answers(mut self, answers: usize) -> Self {
        self.cache = cache(answers);
        self
    }

    /// Puts members into the body of each request, in place of those with the same name; `null` takes a member away. For
    /// models that refuse `temperature`, or `max_tokens`, or need something of their own.
    #[must_use]
    pub fn extra(mut self, members: Map<String, Value>) -> Self {
        self.extra = members;
        self
    }

    fn failed(&self, reason: impl Into<String>) -> RerankError {
        RerankError::Failed { reranker: self.name.clone(), reason: reason.into() }
    }

    fn request(&self, query: &Query, window: &[Arc<Tool>]) -> Value {
        let mut body = prompt::body(self.client.provider(), &self.model, query, window);
        for (name, value) in &self.extra {
            if value.is_null() {
                body.shift_remove(name);
            } else {
                body.insert(name.clone(), value.clone());
            }
        }
        Value::Object(body)
    }

    fn cached(&self, key: &Key) -> Option<Vec<RerankScore>> {
        let mut cache = self.cache.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(key).cloned()
    }

    fn keep(&self, key: Key, scores: &[RerankScore]) {
        if let Some(cache) = &self.cache {
            cache.lock().unwrap_or_else(PoisonError::into_inner).put(key, scores.to_vec());
        }
    }

    /// Sends a request, with all the time there is until `until`. Nothing goes on for longer: the thread that waits for
    /// the answer has the same time, and holds its permit for as long.
    async fn ask(&self, request: Value, until: Instant) -> Result<Value, RerankError> {
        let permit = timeout_at(until.into(), Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(self.failed("other requests to the model were under way for all the time there was"));
        };
        let left = until.saturating_duration_since(Instant::now());
        // Whole milliseconds: they stand in messages, and the answer then comes before the deadline, not with it.
        let left = left - Duration::from_nanos(u64::from(left.subsec_nanos() % 1_000_000));
        if left.is_zero() {
            return Err(self.failed("no time was left to ask"));
        }
        let client = self.client.clone();
        let send = move || {
            let _permit = permit;
            client.post(request, left, MAX_ANSWER_BYTES)
        };
        let sent = tokio::task::spawn_blocking(send).await;
        let sent = sent.map_err(|error| self.failed(format!("its client died: {error}")))?;
        sent.map_err(|error| match error.source() {
            Some(source) => self.failed(format!("{error} ({source})")),
            None => self.failed(error.to_string()),
        })
    }
}

fn cache(answers: usize) -> Option<Mutex<LruCache<Key, Vec<RerankScore>>>> {
    NonZeroUsize::new(answers).map(|answers| Mutex::new(LruCache::new(answers)))
}

impl Reranker for LlmReranker {
    fn name(&self) -> &str {
        &self.name
    }

    fn rerank<'a>(&'a self, query: &'a Query, window: &'a [Arc<Tool>], deadline: Option<Instant>) -> RerankFuture<'a> {
        Box::pin(async move {
            let request = self.request(query, window);
            let key: Key = Sha256::digest(request.to_string()).into();
            if let Some(scores) = self.cached(&key) {
                return Ok(scores);
            }
            let until = deadline.unwrap_or_else(|| Instant::now() + self.timeout);
            let answer = self.ask(request, until).await?;
            let scores = answer::scores(self.client.provider(), &answer, window.len());
            let scores = scores.map_err(|fault| RerankError::InvalidAnswer { reranker: self.name.clone(), fault })?;
            self.keep(key, &scores);
            Ok(scores)
        })
    }
}

impl fmt::Debug for LlmReranker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmReranker").field("model", &self.model).field("client", &self.client).finish_non_exhaustive()
    }
}
