//! A language model that is asked for one JSON object, within bounds of time and size.
//!
//! The provider is held to the answer's schema in its own way. Text of strangers goes into the
//! message as JSON strings; what comes back is read by whoever asked.

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

/// The longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 1024 * 1024;
/// How long a model may take where nothing else is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest that can be asked for.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);
/// How many requests are under way at once.
const DEFAULT_CONCURRENCY: usize = 4;

/// What a model is asked.
pub(crate) struct Question {
    pub(crate) instructions: &'static str,
    pub(crate) message: String,
    pub(crate) answer: AnswerForm,
    pub(crate) most_tokens: usize,
}

/// The form of the object that a model answers with.
pub(crate) struct AnswerForm {
    /// What it is called.
    pub(crate) name: &'static str,
    /// The tool through which Anthropic's models give it; they have no other way to be held to a
    /// schema that all of them know.
    pub(crate) tool: &'static str,
    pub(crate) description: &'static str,
    pub(crate) schema: Value,
    /// Whether OpenAI's strict mode can express the schema.
    pub(crate) strict: bool,
}

/// Why a client and a name make no model.
pub(crate) enum UnusableModel {
    /// It is not asked in this provider's format.
    Provider(&'static str),
    NoName,
}

/// A language model, in the format of OpenAI Chat Completions, Anthropic or Ollama.
pub(crate) struct Model {
    /// `llm:` and the model's name.
    pub(crate) name: String,
    model: String,
    client: ProviderClient,
    timeout: Duration,
    permits: Arc<Semaphore>,
    extra: Map<String, Value>,
}

impl Model {
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

    /// Waits this long where there is no deadline, at most an hour.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout.min(LONGEST_TIMEOUT);
    }

    /// Has at most so many requests under way, at least one.
    pub(crate) fn set_max_concurrent(&mut self, requests: usize) {
        self.permits = Arc::new(Semaphore::new(requests.clamp(1, Semaphore::MAX_PERMITS)));
    }

    /// Puts members into the body of each request; `null` takes one away.
    pub(crate) fn set_extra(&mut self, members: Map<String, Value>) {
        self.extra = members;
    }

    /// The body of the API request.
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

    /// Sends a request, with all the time there is until `deadline`, else the model's own. Nothing
    /// goes on for longer: the thread that waits for the answer has the same time, and holds its
    /// permit for as long.
    pub(crate) async fn ask(
        &self,
        request: Value,
        deadline: Option<Instant>,
    ) -> Result<Value, String> {
        let until = deadline.unwrap_or_else(|| Instant::now() + self.timeout);
        let permit = timeout_at(until.into(), Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(
                "other requests to the model were under way for all the time there was".to_owned(),
            );
        };
        let left = until.saturating_duration_since(Instant::now());
        // Whole milliseconds: they stand in messages, and the answer then comes before the
        // deadline, not with it.
        let left = left - Duration::from_nanos(u64::from(left.subsec_nanos() % 1_000_000));
        if left.is_zero() {
            return Err("no time was left to ask".to_owned());
        }
        let client = self.client.clone();
        let send = move || {
            let _permit = permit;
            client.post(request, left, MAX_ANSWER_BYTES)
        };
        let sent = tokio::task::spawn_blocking(send)
            .await
            .map_err(|error| format!("its client died: {error}"))?;
        sent.map_err(|error| match error.source() {
            Some(source) => format!("{error} ({source})"),
            None => error.to_string(),
        })
    }

    /// What a model gave, before it is read: the arguments of the call that it was to answer with,
    /// or its text.
    pub(crate) fn given(
        provider: Provider,
        tool: &str,
        answer: &Value,
    ) -> Result<Arguments, String> {
        let Answer { calls, text, .. } = provider
            .answer(answer)
            .map_err(|error| format!("no answer: {error}"))?;
        let (given, what) = if provider == Provider::Anthropic {
            let called = calls.into_iter().find(|call| call.name == tool);
            (
                called.map(|call| call.arguments),
                "call that gives the answer",
            )
        } else {
            (text.map(Arguments::Text), "text")
        };
        given.ok_or_else(|| {
            format!(
                "no answer: there is no {what} in {:?}",
                shortened(&answer.to_string())
            )
        })
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("model", &self.model)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// The body of a request in the provider's format.
pub(crate) fn body(provider: Provider, model: &str, question: &Question) -> Map<String, Value> {
    let Question {
        instructions,
        message,
        answer,
        most_tokens,
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
            "model": model, "system": instructions, "messages": [{"role": "user", "content": message}],
            "max_tokens": most_tokens, "temperature": 0,
            "tools": [{"name": tool, "description": description, "input_schema": schema}],
            "tool_choice": {"type": "tool", "name": tool},
        }),
        Provider::Ollama => json!({
            "model": model, "messages": chat, "stream": false, "format": schema,
            "options": {"temperature": 0, "num_predict": most_tokens, "num_ctx": context(question)},
        }),
        _ => json!({
            "model": model, "messages": chat, "max_tokens": most_tokens, "temperature": 0,
            "response_format": {
                "type": "json_schema", "json_schema": {"name": name, "strict": strict, "schema": schema},
            },
        }),
    };
    match body {
        Value::Object(body) => body,
        _ => Map::new(),
    }
}

/// How long a context Ollama needs, which silently drops the head of a longer request: a token has
/// two bytes at the very least in any text that is mostly words.
fn context(
    Question {
        instructions,
        message,
        most_tokens,
        ..
    }: &Question,
) -> usize {
    ((instructions.len() + message.len()) / 2 + most_tokens)
        .next_power_of_two()
        .max(4096)
}
