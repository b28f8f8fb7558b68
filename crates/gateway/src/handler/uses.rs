//! The uses of a call of `multi_tool_use.parallel`.

use picktools_call::arguments;
use picktools_provider::{Arguments, ToolCall};
use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, CallToolResult};
use rmcp::service::RequestContext;
use serde_json::{Map, Value};

use super::Handler;
use super::tool_calls::{is_server_tool, takes_name_and_arguments};
use crate::api_keys::KeyRateLimit;
use crate::elicitations::InputAnswers;
use crate::naming::{self, CALL};
use crate::parallel_calls;
use crate::refusal::{Code, Refusal};
use crate::tolerance;

impl Handler {
    /// Runs the uses of a parallel call at once, and joins their results.
    pub(super) async fn run_uses(
        &self,
        uses: Vec<ToolCall>,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let caller = &self.caller(context);
        let run = |call: ToolCall| async move {
            let name = call.name.clone();
            let response = self.run_use(call, context).await;
            response.map_err(|refusal| self.explain_unknown(refusal, &name, caller))
        };
        let parts = context.extensions.get::<http::request::Parts>();
        let limit = parts.and_then(|parts| parts.extensions.get::<KeyRateLimit>());
        parallel_calls::run_uses(uses, limit, run).await
    }

    /// Runs a use of a parallel call: a front tool, or a tool of a server.
    async fn run_use(
        &self,
        mut call: ToolCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Refusal> {
        let caller = self.caller(context);
        let view = self.gateway.registry.snapshot().view(&caller.role)?;
        let is_front_tool = |name: &str| {
            naming::is_own_name(name)
                && !is_server_tool(&self.gateway.registry.snapshot(), &view, name)
        };
        let name = tolerance::front_name(&call.name);
        if name == CALL && is_front_tool(name) {
            let has_both = |name: &str| takes_name_and_arguments(&view, name);
            call = tolerance::parse_call(&members(call.arguments)?, CALL, &has_both)?;
        }
        let name = tolerance::front_name(&call.name);
        if name != CALL && is_front_tool(name) {
            let arguments = members(call.arguments)?;
            return Box::pin(self.handle_call(name, arguments, InputAnswers::default(), context))
                .await;
        }
        self.gateway
            .registry
            .wait_for_tool(&caller.role, &call.name)
            .await;
        let snapshot = self.gateway.registry.snapshot();
        let view = snapshot.view(&caller.role)?;
        let runner = self.runner(&caller, context);
        let outcome = runner.run_use(snapshot, view, call).await?;
        Ok(self.list_outcome(outcome, context).await)
    }
}

/// Returns the arguments of a front tool, which may be JSON as text.
fn members(arguments: Arguments) -> Result<Map<String, Value>, Refusal> {
    let value = match arguments {
        Arguments::Json(value) => Ok(value),
        Arguments::Text(text) => arguments::parse(&text),
    };
    match value {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Refusal::new(
            Code::InvalidArguments,
            "the arguments must be an object",
        )),
        Err(fault) => Err(Refusal::new(Code::InvalidArguments, fault)),
    }
}
