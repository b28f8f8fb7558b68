//! Running a tool.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use picktools_gateway::calls::{Caller, Calling};
use picktools_gateway::guests::Sender;
use picktools_gateway::rounds::Again;
use picktools_gateway::upstream::Owner;
use rmcp::model::CallToolResponse;

use super::body::Body;
use super::names::AskedCall;
use super::{Api, json, written};
use crate::problem::Problem;

/// Runs a tool: resolved, held to its schema, confirmed where it may do damage, and bounded. Off
/// unless the settings have `"http": {"calls": true}`.
#[utoipa::path(
    post, path = "/v1/call", tag = "calls", request_body = AskedCall,
    responses(
        (status = 200, description = "The result, as MCP has it: `content`, `structuredContent`, `isError`", body = Object),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "The server behind it failed", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn call(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<Sender>,
    Body(call): Body<AskedCall>,
) -> Result<Response, Problem> {
    if !api.hub.settings().http.calls {
        let message = "calls are off; the operator turns them on with \"http\": {\"calls\": true} in the settings";
        return Err(Problem::new(StatusCode::FORBIDDEN, "calls_off", message));
    }
    let (snapshot, view) = api.view(&sender.role).await?;
    let owner = Owner(format!("key {}", sender.key).into());
    let caller = Caller {
        role: sender.role,
        key: sender.key,
        owner,
    };
    let calling = Calling {
        gateway: &api.hub,
        caller: &caller,
        level: None,
        context: None,
    };
    let ran = calling
        .run(snapshot, view, call.call(), Again::default())
        .await?;
    match ran.response {
        CallToolResponse::Complete(result) => Ok(json(written(&result)?)),
        _ => {
            let message = "the server asks for something during the call, which cannot be asked of you here; use MCP";
            Err(Problem::new(
                StatusCode::NOT_IMPLEMENTED,
                "not_carried",
                message,
            ))
        }
    }
}
