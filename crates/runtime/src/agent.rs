//! The loop of an agent: it picks tools, asks a model, runs the calls of the answer, and returns
//! their results to the model, until the model answers without a call or a limit is reached.

mod tool;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

pub use tool::AgentTool;

use super::manager::ToolManager;
use picktools::engine::IndexError;
use picktools::options::PickError;
use picktools::{Engine, PickOptions, Query, Tool};
use picktools_call::client::{ClientError, ToolClient};
use picktools_call::join_results;
use picktools_provider::{
    Answer, Provider, ResponseError, ResultError, TranslateError, TranslateOptions, Translation,
    translate,
};

/// The limits of one turn of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentLimits {
    /// The most answers of the model.
    pub rounds: usize,
    /// The most calls of tools. An answer whose calls exceed it ends the turn, and none of them
    /// runs.
    pub calls: usize,
    /// The longest time. What runs then is cancelled.
    pub time: Duration,
    /// The longest text of the result, in bytes.
    pub result_bytes: usize,
}

/// The most tools that an agent is given, unless its options say otherwise.
const MAX_TOOLS: usize = 8;

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            rounds: 10,
            calls: 50,
            time: Duration::from_secs(300),
            result_bytes: 64 << 10,
        }
    }
}

/// The reason for the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AgentEnd {
    /// The model answered without a call.
    Answered,
    /// The limit of rounds.
    Rounds,
    /// The limit of calls.
    Calls,
    /// The limit of time.
    Time,
}

/// The result of one turn of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentTurn {
    /// The last text of the model; empty if it gave no text.
    pub text: String,
    /// `true` if the text was cut at [`AgentLimits::result_bytes`].
    pub truncated: bool,
    /// The number of answers of the model.
    pub rounds: usize,
    /// The number of calls that ran or were refused.
    pub calls: usize,
    /// The reason for the end.
    pub end: AgentEnd,
}

/// An error of a turn as a whole. A call that fails is not an error: the model receives it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The tools cannot be indexed.
    #[error("cannot index the tools of the agent: {0}")]
    Index(#[source] IndexError),
    /// The tools cannot be picked.
    #[error("cannot pick tools for the agent: {0}")]
    Pick(#[source] PickError),
    /// The tools cannot be translated to the format of the provider.
    #[error(transparent)]
    Translate(#[from] TranslateError),
    /// The body is not a JSON object, its messages are not an array, or the format has no chat.
    #[error("invalid request body for {provider}: give an object whose messages are an array")]
    Body {
        /// The format of the model.
        provider: Provider,
    },
    /// The model gave no answer.
    #[error("the model at {provider} did not answer: {source}")]
    Client {
        /// The format of the model.
        provider: Provider,
        /// The error of the client.
        #[source]
        source: ClientError,
    },
    /// The answer cannot be read.
    #[error(transparent)]
    Response(#[from] ResponseError),
    /// The results cannot be written in the format of the provider.
    #[error(transparent)]
    Results(#[from] ResultError),
}

/// An agent: a model, the tools that it may call, and limits. It has no state of its own; a
/// conversation is the body of its API requests.
pub struct AgentLoop {
    client: Arc<dyn ToolClient>,
    manager: ToolManager,
    engine: Engine,
    options: PickOptions,
    limits: AgentLimits,
}

impl AgentLoop {
    /// Makes an agent and indexes the tools of the manager.
    ///
    /// # Errors
    ///
    /// [`AgentError::Index`] if the tools cannot be indexed.
    pub fn new(client: Arc<dyn ToolClient>, manager: ToolManager) -> Result<Self, AgentError> {
        let engine = Engine::new(manager.catalog().clone()).map_err(AgentError::Index)?;
        Ok(Self {
            client,
            manager,
            engine,
            options: agent_options(),
            limits: AgentLimits::default(),
        })
    }

    /// Sets the options of the picks. By default an agent gets the eight best tools without a
    /// threshold, because a request seldom names what later rounds need. The access policy is
    /// always that of the manager.
    #[must_use]
    pub fn options(mut self, options: PickOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the limits of a turn.
    #[must_use]
    pub fn limits(mut self, limits: AgentLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the manager that runs the calls.
    pub fn manager(&self) -> &ToolManager {
        &self.manager
    }

    /// Runs one turn. It appends the request, the model's answers and the results to the messages
    /// of `body`, which is the body of an API request without tools. A next turn with the same
    /// `body` continues the conversation, and may repeat the calls of earlier turns.
    ///
    /// # Errors
    ///
    /// [`AgentError`] if the model cannot be asked or does not answer readably.
    pub async fn run_turn(&self, body: &mut Value, request: &str) -> Result<AgentTurn, AgentError> {
        let provider = self.client.provider();
        append(provider, body, [provider.user_message(request)])?;
        self.manager.clear_current_turn();
        let tools = self.pick(request).await?;
        let translation = translate(&tools, provider, &TranslateOptions::default())?;
        let manager = self.manager.translated(&translation);
        let deadline = Instant::now().checked_add(self.limits.time);
        let mut turn = AgentTurn {
            text: String::new(),
            truncated: false,
            rounds: 0,
            calls: 0,
            end: AgentEnd::Answered,
        };
        let work = self.run_rounds(body, &translation, &manager, &mut turn);
        let end = match deadline {
            None => work.await?,
            Some(deadline) => match timeout_at(deadline, work).await {
                Ok(end) => end?,
                Err(_) => AgentEnd::Time,
            },
        };
        turn.end = end;
        let most = turn.text.floor_char_boundary(self.limits.result_bytes);
        turn.truncated = most < turn.text.len();
        turn.text.truncate(most);
        Ok(turn)
    }

    /// Picks the tools for a request that have a runner.
    async fn pick(&self, request: &str) -> Result<Vec<Arc<Tool>>, AgentError> {
        let mut options = self.options.clone();
        options.access = self.manager.access().clone();
        let selection = self.engine.pick_async(Query::new(request), options).await;
        let mut tools = selection.map_err(AgentError::Pick)?.shown_tools();
        tools.retain(|tool| self.manager.get(&tool.id).is_some());
        Ok(tools)
    }

    /// Asks the model and runs its calls, round by round.
    async fn run_rounds(
        &self,
        body: &mut Value,
        translation: &Translation,
        manager: &ToolManager,
        turn: &mut AgentTurn,
    ) -> Result<AgentEnd, AgentError> {
        let provider = self.client.provider();
        while turn.rounds < self.limits.rounds {
            let response = self.ask(body.clone(), translation).await?;
            turn.rounds += 1;
            let answer: Answer = provider.answer(&response)?;
            if let Some(text) = &answer.text {
                turn.text.clone_from(text);
            }
            let calls = manager.expand(answer.into_calls()?);
            if calls.is_empty() {
                append(provider, body, provider.answer_messages(&response))?;
                return Ok(AgentEnd::Answered);
            }
            if calls.len() > self.limits.calls.saturating_sub(turn.calls) {
                return Ok(AgentEnd::Calls);
            }
            turn.calls += calls.len();
            let executed = manager.execute_all(&calls).await;
            let mut results = Vec::with_capacity(executed.len());
            for call in &executed {
                results.push(call.call_result());
            }
            let results = provider.results(&join_results(results))?;
            append(provider, body, provider.answer_messages(&response))?;
            append(provider, body, results)?;
        }
        Ok(AgentEnd::Rounds)
    }

    async fn ask(&self, mut body: Value, translation: &Translation) -> Result<Value, AgentError> {
        let has_tools = translation
            .tools
            .as_array()
            .is_none_or(|all| !all.is_empty());
        // Some providers refuse an empty list of tools.
        if has_tools {
            body["tools"] = translation.tools.clone();
        }
        let provider = self.client.provider();
        let answer = self.client.send(body).await;
        answer.map_err(|source| AgentError::Client { provider, source })
    }
}

/// Returns the default options of the picks of an agent.
fn agent_options() -> PickOptions {
    PickOptions {
        max_candidates: MAX_TOOLS,
        min_score: 0.0,
        ..PickOptions::default()
    }
}

/// Appends messages to the body of an API request.
fn append(
    provider: Provider,
    body: &mut Value,
    messages: impl IntoIterator<Item = Value>,
) -> Result<(), AgentError> {
    let invalid = || AgentError::Body { provider };
    let member = provider.messages_member().ok_or_else(invalid)?;
    let members = body.as_object_mut().ok_or_else(invalid)?;
    let existing = members.entry(member).or_insert_with(|| json!([]));
    let existing = existing.as_array_mut().ok_or_else(invalid)?;
    existing.extend(messages);
    Ok(())
}
