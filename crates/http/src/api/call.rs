//! The `/v1/call` route.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use picktools_gateway::api_keys::{KeyRateLimit, RequestIdentity};
use picktools_gateway::calls::{CallRunner, Caller};
use picktools_gateway::elicitations::InputAnswers;
use picktools_gateway::parallel_calls::run_uses;
use picktools_gateway::refusal::Refusal;
use picktools_gateway::upstream::Owner;
use picktools_provider::ToolCall;
use rmcp::model::CallToolResponse;

use super::answer::{json_response, to_json};
use super::body::Body;
use super::names::ApiToolCall;
use super::state::Api;
use crate::problem::Problem;

/// Runs a tool after it validated the call.
///
/// The name is resolved, the arguments are validated against the schema, and an unsafe tool needs a
/// confirmation. Time and result size are limited. Calls are off unless the settings have
/// `"http": {"calls": true}`.
#[utoipa::path(
    post, path = "/v1/call", tag = "calls", request_body = ApiToolCall,
    responses(
        (
            status = 200,
            description = "The MCP tool result: `content`, `structuredContent`, `isError`",
            body = Object,
        ),
        (
            status = "4XX", description = "Refused",
            body = Problem, content_type = "application/problem+json",
        ),
        (
            status = "5XX", description = "The upstream failed",
            body = Problem, content_type = "application/problem+json",
        ),
    )
)]
pub(super) async fn call(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<RequestIdentity>,
    Extension(limit): Extension<KeyRateLimit>,
    Body(call): Body<ApiToolCall>,
) -> Result<Response, Problem> {
    if !api.hub.registry.settings().http.calls {
        let message = "calls are disabled; the operator enables them with \"http\": \
                       {\"calls\": true} in the settings";
        return Err(Problem::new(StatusCode::FORBIDDEN, "calls_off", message));
    }
    api.hub.registry.wait_for_listings().await;
    api.hub
        .registry
        .wait_for_tool(&sender.role, &call.name)
        .await;
    let owner = Owner::from_key(&sender.key);
    let caller = Caller {
        role: sender.role,
        key: sender.key,
        owner,
    };
    let runner = CallRunner {
        gateway: &api.hub,
        caller: &caller,
        level: None,
        context: None,
    };
    let (snapshot, view) = api.view(&caller.role).await?;
    let call = call.into_call();
    if let Some(uses) = view.hydrator.parallel_uses(&call) {
        let run = |call| run_use(&api, &runner, call);
        let result = run_uses(uses, Some(&limit), run).await;
        return Ok(json_response(to_json(&result)?));
    }
    let completed = runner
        .run(snapshot, view, call, InputAnswers::default())
        .await?;
    match completed.response {
        CallToolResponse::Complete(result) => Ok(json_response(to_json(&result)?)),
        _ => {
            let message = "the upstream needs input during the call, which this API cannot \
                           request; call the tool over MCP";
            Err(Problem::new(
                StatusCode::NOT_IMPLEMENTED,
                "not_carried",
                message,
            ))
        }
    }
}

/// Runs a use of a parallel call.
async fn run_use(
    api: &Api,
    runner: &CallRunner<'_>,
    call: ToolCall,
) -> Result<CallToolResponse, Refusal> {
    let role = &runner.caller.role;
    api.hub.registry.wait_for_tool(role, &call.name).await;
    let snapshot = api.hub.registry.snapshot();
    let view = snapshot.view(role)?;
    let outcome = runner.run_use(snapshot, view, call).await?;
    Ok(outcome.response)
}
