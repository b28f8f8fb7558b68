//! Calls of listed tools: the gateway's own, and those of servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools::{PickOptions, Query, Selection, Tool as CatalogTool};
use picktools_provider::{Arguments, ToolCall};
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value};

use super::Handler;
use crate::calls::{CallOutcome, CallRunner, Caller};
use crate::elicitations::InputAnswers;
use crate::front::{self, CALL, DESCRIBE, SEARCH};
use crate::journal::{RequestRoute, SelectionEvent};
use crate::metrics::GatewayEvent;
use crate::naming::READ_RESULT;
use crate::refusal::{Code, Refusal};
use crate::settings::NameStyle;
use crate::snapshot::{Snapshot, View};
use crate::tolerance;
use crate::upstream::ServerDown;

/// The request behind a call of a listed tool.
pub(super) enum FrontRequest {
    /// To run a tool of a server.
    Run(ToolCall),
    /// To search tools.
    Search(Map<String, Value>),
    /// To describe a tool.
    Describe(Map<String, Value>),
    /// To read the rest of a large result.
    ReadResult(Map<String, Value>),
    /// To call one of these tools by the tool that calls others.
    Inner {
        name: &'static str,
        arguments: Map<String, Value>,
    },
}

impl FrontRequest {
    /// Reads the request of a call.
    pub(super) fn new(
        snapshot: &Snapshot,
        view: &View,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Self, Refusal> {
        let is_server_tool = is_server_tool(snapshot, view, name);
        Ok(match name {
            SEARCH if !is_server_tool => Self::Search(arguments),
            READ_RESULT if !is_server_tool => Self::ReadResult(arguments),
            DESCRIBE if !is_server_tool => Self::Describe(arguments),
            CALL if !is_server_tool => {
                let has_both = |name: &str| takes_name_and_arguments(view, name);
                Self::from_inner_call(tolerance::parse_call(&arguments, CALL, &has_both)?)
            }
            _ => Self::Run(ToolCall {
                id: None,
                name: name.to_owned(),
                arguments: Arguments::Json(Value::Object(arguments)),
            }),
        })
    }

    /// Reads the request of a call that is in the arguments of the tool that calls others.
    fn from_inner_call(call: ToolCall) -> Self {
        let inner = match tolerance::front_name(&call.name) {
            SEARCH => SEARCH,
            DESCRIBE => DESCRIBE,
            READ_RESULT => READ_RESULT,
            _ => return Self::Run(call),
        };
        match call.arguments {
            Arguments::Json(Value::Object(arguments)) => Self::Inner {
                name: inner,
                arguments,
            },
            arguments => Self::Run(ToolCall { arguments, ..call }),
        }
    }
}

impl Handler {
    /// Answers a call. Its refusal is an answer for the model, except for an unknown tool.
    pub(super) async fn answer_call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Over HTTP the request is counted already.
        let is_over_http = context.extensions.get::<http::request::Parts>().is_some();
        let active = self.gateway.active.begin();
        if active.is_none() && !is_over_http {
            return Ok(Refusal::ending().result().into());
        }
        let name = tolerance::front_name(&request.name).to_owned();
        let input_answers = InputAnswers {
            answers: request.input_responses.unwrap_or_default(),
            state: request.request_state,
        };
        let arguments = request.arguments.unwrap_or_default();
        let called = match arguments.get("name").and_then(Value::as_str) {
            Some(called) if [DESCRIBE, CALL].contains(&name.as_str()) => called.to_owned(),
            _ => name.clone(),
        };
        let response = self
            .handle_call(&name, arguments, input_answers, &context)
            .await;
        let explain = |refusal| self.explain_unknown(refusal, &called, &self.caller(&context));
        match response.map_err(explain) {
            Ok(response) => Ok(response),
            // The protocol defines this error for a tool that the client names itself.
            Err(refusal)
                if refusal.code == Code::UnknownTool
                    && ![SEARCH, DESCRIBE, CALL].contains(&name.as_str()) =>
            {
                Err(ErrorData::invalid_params(refusal.message, None))
            }
            Err(refusal) => Ok(refusal.result().into()),
        }
    }

    /// Answers a call of a listed tool: one of the gateway's own, or one of a server.
    pub(super) async fn handle_call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        input_answers: InputAnswers,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Refusal> {
        let caller = self.caller(context);
        let called = match name {
            CALL | DESCRIBE => arguments.get("name").and_then(Value::as_str),
            SEARCH | READ_RESULT => None,
            _ => Some(name),
        };
        self.gateway.registry.wait_for_listings().await;
        if let Some(called) = called {
            self.gateway
                .registry
                .wait_for_tool(&caller.role, called)
                .await;
        }
        let snapshot = self.gateway.registry.snapshot();
        let view = snapshot.view(&caller.role)?;
        match FrontRequest::new(&snapshot, &view, name, arguments)? {
            FrontRequest::Run(call) => match view.hydrator.parallel_uses(&call) {
                Some(uses) => Ok(self.run_uses(uses, context).await.into()),
                None => {
                    let runner = self.runner(&caller, context);
                    let outcome = runner.run(snapshot, view, call, input_answers).await?;
                    Ok(self.list_outcome(outcome, context).await)
                }
            },
            FrontRequest::Search(arguments) => {
                let result = self.search(&snapshot, &view, &caller, &arguments).await?;
                Ok(self.answer(&snapshot, result, context).await)
            }
            FrontRequest::Describe(arguments) => {
                let servers_down = self.gateway.servers_down(&view);
                let described = front::describe(&snapshot, &view, &arguments, &servers_down)?;
                Ok(self.answer(&snapshot, described, context).await)
            }
            FrontRequest::ReadResult(arguments) => {
                self.read_result(&snapshot, &caller, &arguments).await
            }
            FrontRequest::Inner { name, arguments } => {
                Box::pin(self.handle_call(name, arguments, input_answers, context)).await
            }
        }
    }

    /// Answers with a document about tools, and adds the tools to a dynamic list.
    async fn answer(
        &self,
        snapshot: &Snapshot,
        (answer, tools): (Value, Vec<Arc<CatalogTool>>),
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        self.add_to_list(snapshot, &tools, context).await;
        let mut result = CallToolResult::success(vec![ContentBlock::text(answer.to_string())]);
        result.structured_content = Some(answer);
        result.into()
    }

    /// Answers a search, and records it.
    async fn search(
        &self,
        snapshot: &Snapshot,
        view: &View,
        caller: &Caller,
        arguments: &Map<String, Value>,
    ) -> Result<(Value, Vec<Arc<CatalogTool>>), Refusal> {
        self.gateway.journal.ready()?;
        let started = Instant::now();
        let servers_down = self.gateway.servers_down(view);
        let on_selection =
            |query: &Query, options: &PickOptions, selection: &Selection, time: Duration| {
                self.gateway.journal.record_selection(&SelectionEvent {
                    key: &caller.key,
                    role: &caller.role,
                    engine: &view.engine,
                    session: Some(&*caller.owner.0),
                    via: RequestRoute::Search,
                    query,
                    options,
                    selection,
                    time,
                });
            };
        let (answer, tools) =
            front::search(snapshot, view, arguments, &servers_down, &on_selection).await?;
        self.gateway.meter.record(&GatewayEvent::Search {
            found: tools.len(),
            time: started.elapsed(),
        });
        Ok((answer, tools))
    }

    /// Explains a name that is unknown because its server cannot be used.
    pub(super) fn explain_unknown(&self, refusal: Refusal, name: &str, caller: &Caller) -> Refusal {
        if refusal.code != Code::UnknownTool {
            return refusal;
        }
        let Ok(view) = self.gateway.registry.snapshot().view(&caller.role) else {
            return refusal;
        };
        let servers_down = self.gateway.servers_down(&view);
        let server = servers_down.iter().find(|down| down.may_have(name));
        server.map_or(refusal, ServerDown::refusal)
    }

    pub(super) fn runner<'a>(
        &'a self,
        caller: &'a Caller,
        context: &'a RequestContext<RoleServer>,
    ) -> CallRunner<'a> {
        CallRunner {
            gateway: &self.gateway,
            caller,
            level: self.level(context),
            context: Some(context),
        }
    }

    /// Adds a tool that ran to a dynamic list, and the tool that reads the rest of a cut result.
    pub(super) async fn list_outcome(
        &self,
        outcome: CallOutcome,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        if matches!(outcome.response, CallToolResponse::Complete(_)) {
            self.add_to_list(&outcome.snapshot, &[outcome.tool], context)
                .await;
        }
        if outcome.is_cut {
            self.list_read_result(context);
        }
        outcome.response
    }

    /// Answers a call of the tool that reads large results.
    async fn read_result(
        &self,
        snapshot: &Snapshot,
        caller: &Caller,
        arguments: &Map<String, Value>,
    ) -> Result<CallToolResponse, Refusal> {
        let max_tokens = snapshot.settings.results.max_tokens;
        let results = &self.gateway.calls.large_results;
        let answer = results.read_in_background(&caller.owner, arguments, max_tokens);
        Ok(answer.await?.into())
    }
}

/// Returns `true` if a tool of a server wins over a front tool of the same name, as with bare names.
pub(super) fn is_server_tool(snapshot: &Snapshot, view: &View, name: &str) -> bool {
    snapshot.settings.names == NameStyle::Bare && view.tools.iter().any(|tool| tool.name == name)
}

/// Returns `true` if a tool has parameters with the names `name` and `arguments`.
pub(super) fn takes_name_and_arguments(view: &View, name: &str) -> bool {
    let merged = view.merged.find(name).map(|merged| &merged.tools()[0]);
    let Some(tool) = merged.or_else(|| view.find_tool(name).ok()) else {
        return false;
    };
    let has = |key| {
        let schema = tool.parameters.as_ref();
        schema.is_some_and(|schema| schema["properties"].get(key).is_some())
    };
    has("name") && has("arguments")
}
