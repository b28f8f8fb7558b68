//! The tool `agent`: an agent with its own tools and limits, inside a call.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{AgentEnd, AgentLimits, AgentLoop, AgentTurn, agent_options};
use crate::context::{Context, OuterManager};
use crate::manager::{ManagerError, ToolManager};
use crate::result::{ErrorType, ToolResult};
use crate::tool::{CloseFuture, RunFuture, RunnableTool};
use picktools::access::{Access, AccessError};
use picktools::{PickOptions, Tool};
use picktools_call::ValidCall;
use picktools_call::client::ToolClient;

/// The time by which a call may exceed the limit of its turn, to return what it has.
const ENDING: Duration = Duration::from_secs(1);

/// The result of a call that cannot run.
type Refusal = Box<ToolResult>;

/// A tool that gives a task to an agent, which has its own tools, conversation and limits.
///
/// The agent has at most the access of the caller of this tool. Confirmations of its calls go to
/// the manager that runs this tool, and so do their events, with
/// [`CallInfo::parent_call_id`](crate::CallInfo::parent_call_id). Each call starts with an empty
/// conversation and an empty record of read files.
///
/// ```
/// use std::sync::Arc;
/// use picktools::{Access, Tool};
/// use picktools_call::client::{ClientFuture, ToolClient};
/// use picktools_provider::Provider;
/// use picktools_runtime::{AgentTool, FunctionTool, ToolManager, ToolResult};
/// use serde_json::{Value, json};
///
/// /// Answers like a model.
/// struct ScriptedModel;
///
/// impl ToolClient for ScriptedModel {
///     fn provider(&self) -> Provider {
///         Provider::OpenAiChat
///     }
///
///     fn send(&self, _: Value) -> ClientFuture<'_> {
///         let message = json!({"role": "assistant", "content": "It is noon."});
///         Box::pin(async move { Ok(json!({"choices": [{"message": message}]})) })
///     }
/// }
///
/// let time = FunctionTool::new(Tool::without_arguments("get_time", "The time"), |_, _| async {
///     ToolResult::success().field("time", "12:00")
/// });
/// let agent = AgentTool::new(Arc::new(ScriptedModel), json!({"model": "small"})).tool(time);
/// let manager = ToolManager::builder(Access::default()).tool(agent).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AgentTool {
    definition: Tool,
    client: Arc<dyn ToolClient>,
    body: Value,
    tools: Vec<Arc<dyn RunnableTool>>,
    access: Access,
    options: PickOptions,
    limits: AgentLimits,
    max_depth: usize,
}

impl AgentTool {
    /// Makes the tool `agent` with a model. `body` is the API request of each turn without tools:
    /// the model's name, the system prompt and other options of the provider.
    pub fn new(client: Arc<dyn ToolClient>, body: Value) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {"task": {
                "type": "string",
                "description": "The task, with everything that the agent must know.",
            }},
            "required": ["task"],
            "additionalProperties": false,
        });
        let description = "Gives a task of several steps to an agent with its own tools, and \
                           returns its result";
        Self {
            definition: Tool::with_parameters("agent", description, schema),
            client,
            body,
            tools: Vec::new(),
            access: Access::default(),
            options: agent_options(),
            limits: AgentLimits::default(),
            max_depth: 1,
        }
    }

    /// Adds a tool that the agent may call.
    #[must_use]
    pub fn tool(self, tool: impl RunnableTool + 'static) -> Self {
        self.shared_tool(Arc::new(tool))
    }

    /// Adds a tool that is shared with other managers.
    #[must_use]
    pub fn shared_tool(mut self, tool: Arc<dyn RunnableTool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets the access policy of the agent, within that of the caller ([`Access::within`]). The
    /// default allows no unsafe tools.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets the options of the picks of the agent.
    #[must_use]
    pub fn options(mut self, options: PickOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the limits of a call.
    #[must_use]
    pub fn limits(mut self, limits: AgentLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how deep agents may be inside each other. The default is 1: an agent starts no other
    /// agent.
    #[must_use]
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }

    /// Changes the definition, for example its name or its description.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Tool)) -> Self {
        change(&mut self.definition);
        self
    }

    /// Runs a task to its end.
    async fn run_task(&self, task: &str, context: &Context) -> Result<ToolResult, Refusal> {
        let Some(outer) = &context.manager else {
            let message = "an agent runs only in a call of a ToolManager, from which it gets its access policy";
            return Err(Box::new(ToolResult::failure(ErrorType::System, message)));
        };
        let depth = outer.agent_depth().min(self.max_depth);
        let Some(remaining_depth) = depth.checked_sub(1) else {
            let message = "an agent may not start another agent: the limit of depth is reached";
            let refusal = ToolResult::failure(ErrorType::Permission, message)
                .suggest("Do the task without another agent.");
            return Err(Box::new(refusal));
        };
        let manager = self.manager(outer, context, remaining_depth)?;
        let agent =
            AgentLoop::new(Arc::clone(&self.client), manager).map_err(|error| failure(&error))?;
        let agent = agent.options(self.options.clone()).limits(self.limits);
        let mut body = self.body.clone();
        let turn = agent.run_turn(&mut body, task).await;
        Ok(self.result(turn.map_err(|error| failure(&error))?))
    }

    /// Makes the manager of the agent, with at most the access of the running call.
    fn manager(
        &self,
        outer: &Arc<dyn OuterManager>,
        context: &Context,
        depth: usize,
    ) -> Result<ToolManager, Refusal> {
        let denied = |error: &AccessError| {
            let message = format!("the agent may do no more than its caller: {error}");
            Box::new(ToolResult::failure(ErrorType::Permission, message))
        };
        let access = self.access.within(outer.access());
        let mut access = access.map_err(|error| denied(&error))?;
        loop {
            let mut builder = ToolManager::builder(access.clone()).nested_in(outer, context, depth);
            for tool in &self.tools {
                builder = builder.shared_tool(Arc::clone(tool));
            }
            match builder.build() {
                Ok(manager) => return Ok(manager),
                // The policy of the caller may name tools that the agent does not have.
                Err(ManagerError::Access(AccessError::UnknownTool { name, .. }))
                    if !self.names_tool(&name) && forget_tool(&mut access, &name) => {}
                Err(ManagerError::Access(error)) => return Err(denied(&error)),
                Err(error) => return Err(failure(&error)),
            }
        }
    }

    /// Returns `true` if the agent's own access policy names a tool.
    fn names_tool(&self, name: &str) -> bool {
        self.access.exclude.contains(name)
            || self.access.quarantine.contains(name)
            || self.access.quotas.contains_key(name)
    }

    fn result(&self, turn: AgentTurn) -> ToolResult {
        let limits = &self.limits;
        let limit = match turn.end {
            AgentEnd::Answered => None,
            AgentEnd::Rounds => Some(format!("{} rounds", limits.rounds)),
            AgentEnd::Calls => Some(format!("{} calls", limits.calls)),
            AgentEnd::Time => Some(format!("{:?}", limits.time)),
        };
        let result = match limit {
            None => ToolResult::success(),
            Some(limit) => {
                let message = format!("the agent reached its limit of {limit} without an answer");
                ToolResult::failure(ErrorType::System, message)
                    .suggest("Give it a smaller task, or raise the limit.")
            }
        };
        let mut result = result
            .field("result", turn.text)
            .field("rounds", turn.rounds)
            .field("calls", turn.calls);
        if turn.truncated {
            result = result.field("truncated", true);
        }
        result
    }
}

impl RunnableTool for AgentTool {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn time_limit(&self, _: &Value) -> Option<Duration> {
        Some(self.limits.time.saturating_add(ENDING))
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        let task = call.arguments()["task"].as_str().unwrap_or_default();
        Box::pin(async move {
            let result = self.run_task(task, context).await;
            result.unwrap_or_else(|refusal| *refusal)
        })
    }

    fn close(&self) -> CloseFuture<'_> {
        Box::pin(async {
            join_all(self.tools.iter().map(|tool| tool.close())).await;
        })
    }
}

/// Removes a tool from an access policy. Returns `false` if the policy does not name it.
fn forget_tool(access: &mut Access, name: &str) -> bool {
    let excluded = access.exclude.remove(name);
    let quarantined = access.quarantine.remove(name);
    let limited = access.quotas.remove(name).is_some();
    excluded || quarantined || limited
}

fn failure(error: &dyn Error) -> Refusal {
    Box::new(ToolResult::failure(ErrorType::System, error.to_string()))
}
