//! A language model that answers with one JSON object, within limits of time and size.
//!
//! Each provider enforces the schema of the answer in its own way. Untrusted text goes into the
//! message as JSON strings; the caller validates the answer.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use picktools_call::client::ToolClient;

use crate::ProviderClient;
use crate::endpoint::shortened;
use picktools_provider::{Answer, Arguments, Provider};

/// The longest accepted answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 1024 * 1024;
/// The default timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest timeout.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);
/// The default number of concurrent requests.
const DEFAULT_CONCURRENCY: usize = 4;

/// A question to a model.
pub(crate) struct Question {
    pub(crate) instructions: &'static str,
    pub(crate) message: String,
    pub(crate) answer: AnswerForm,
    pub(crate) max_tokens: usize,
}

/// The form of the object that a model answers with.
pub(crate) struct AnswerForm {
    /// The name of the schema.
    pub(crate) name: &'static str,
    /// The tool through which Anthropic's models give the answer; not all of them know another way
    /// to enforce a schema.
    pub(crate) tool: &'static str,
    pub(crate) description: &'static str,
    pub(crate) schema: Value,
    /// `true` if OpenAI's strict mode can express the schema.
    pub(crate) strict: bool,
}

/// The reason why a client and a name make no model.
pub(crate) enum UnusableModel {
    /// The provider's format is not supported.
    Provider(&'static str),
    NoName,
}

/// A language model, in the format of OpenAI Chat Completions, Anthropic or Ollama.
pub(crate) struct LanguageModel {
    /// `llm:` and the model's name.
    pub(crate) name: String,
    model: String,
    client: ProviderClient,
    timeout: Duration,
    permits: Arc<Semaphore>,
    extra: Map<String, Value>,
}

impl LanguageModel {
    pub(crate) fn new(client: ProviderClient, model: &str) -> Result<Self, UnusableModel> {
        let provider = client.provider();
        if !matches!(
            provider,
            Provider::OpenAiChat | Provider::Anthropic | Provider::Ollama
        ) {
            return Err(UnusableModel::Provider(provider.name()));
        }
        let model = model.trim();
        if model.is_empty() {
            return Err(UnusableModel::NoName);
        }
        Ok(Self {
            name: format!("llm:{model}"),
            model: model.to_owned(),
            client,
            timeout: DEFAULT_TIMEOUT,
            permits: Arc::new(Semaphore::new(DEFAULT_CONCURRENCY)),
            extra: Map::new(),
        })
    }

    pub(crate) fn provider(&self) -> Provider {
        self.client.provider()
    }

    /// Sets the timeout for requests without a deadline, at most an hour.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout.min(LONGEST_TIMEOUT);
    }

    /// Sets the number of concurrent requests, at least one.
    pub(crate) fn set_max_concurrent(&mut self, requests: usize) {
        self.permits = Arc::new(Semaphore::new(requests.clamp(1, Semaphore::MAX_PERMITS)));
    }

    /// Sets members of each request's body; `null` removes a member.
    pub(crate) fn set_extra(&mut self, members: Map<String, Value>) {
        self.extra = members;
    }

    /// Returns the body of the API request.
    pub(crate) fn request(&self, question: &Question) -> Value {
        let mut body = body(self.provider(), &self.model, question);
        for (name, value) in &self.extra {
            if value.is_null() {
                body.shift_remove(name);
            } else {
                body.insert(name.clone(), value.clone());
            }
        }
        Value::Object(body)
    }

    /// Sends a request, with the time until `deadline` or the model's own timeout.
    ///
    /// Nothing runs for longer: the thread that waits for the answer has the same time, and keeps
    /// its permit as long.
    pub(crate) async fn ask(
        &self,
        request: Value,
        deadline: Option<Instant>,
    ) -> Result<Value, String> {
        let deadline = deadline.unwrap_or_else(|| Instant::now() + self.timeout);
        let permit = timeout_at(deadline.into(), Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err("other requests to the model took all of the time".to_owned());
        };
        let time_left = deadline.saturating_duration_since(Instant::now());
        // Full milliseconds: messages show them, and the answer then comes before the deadline.
        let excess = time_left.subsec_nanos() % 1_000_000;
        let time_left = time_left - Duration::from_nanos(u64::from(excess));
        if time_left.is_zero() {
            return Err("no time was left to ask".to_owned());
        }
        let client = self.client.clone();
        let send = move || {
            let _permit = permit;
            client.post(request, time_left, MAX_ANSWER_BYTES)
        };
        let answer = tokio::task::spawn_blocking(send)
            .await
            .map_err(|error| format!("its client failed: {error}"))?;
        answer.map_err(|error| match error.source() {
            Some(source) => format!("{error} ({source})"),
            None => error.to_string(),
        })
    }

    /// Extracts the unparsed answer: the arguments of the forced call, or the text.
    pub(crate) fn answer_arguments(
        provider: Provider,
        tool: &str,
        answer: &Value,
    ) -> Result<Arguments, String> {
        let Answer { calls, text, .. } = provider
            .answer(answer)
            .map_err(|error| format!("no answer: {error}"))?;
        let missing = if provider == Provider::Anthropic {
            let mut calls = calls.into_iter();
            match calls.find(|call| call.name == tool) {
                Some(call) => return Ok(call.arguments),
                None => "call that gives the answer",
            }
        } else {
            match text {
                Some(text) => return Ok(Arguments::Text(text)),
                None => "text",
            }
        };
        let excerpt = shortened(&answer.to_string());
        Err(format!("no answer: there is no {missing} in {excerpt:?}"))
    }
}

impl fmt::Debug for LanguageModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LanguageModel")
            .field("model", &self.model)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// Returns the body of a request in the provider's format.
pub(crate) fn body(provider: Provider, model: &str, question: &Question) -> Map<String, Value> {
    let Question {
        instructions,
        message,
        answer,
        max_tokens,
    } = question;
    let AnswerForm {
        name,
        tool,
        description,
        schema,
        strict,
    } = answer;
    let chat =
        json!([{"role": "system", "content": instructions}, {"role": "user", "content": message}]);
    let body = match provider {
        Provider::Anthropic => json!({
            "model": model, "system": instructions,
            "messages": [{"role": "user", "content": message}],
            "max_tokens": max_tokens, "temperature": 0,
            "tools": [{"name": tool, "description": description, "input_schema": schema}],
            "tool_choice": {"type": "tool", "name": tool},
        }),
        Provider::Ollama => json!({
            "model": model, "messages": chat, "stream": false, "format": schema,
            "options": {"temperature": 0, "num_predict": max_tokens, "num_ctx": context(question)},
        }),
        _ => json!({
            "model": model, "messages": chat, "max_tokens": max_tokens, "temperature": 0,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": name, "strict": strict, "schema": schema},
            },
        }),
    };
    match body {
        Value::Object(body) => body,
        _ => Map::new(),
    }
}

/// Returns the context length for Ollama, which silently drops the start of a longer request. A
/// token has at least two bytes in any text that is mostly words.
fn context(
    Question {
        instructions,
        message,
        max_tokens,
        ..
    }: &Question,
) -> usize {
    ((instructions.len() + message.len()) / 2 + max_tokens)
        .next_power_of_two()
        .max(4096)
}
