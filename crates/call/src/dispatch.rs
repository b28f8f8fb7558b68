//! Sends tools to a model and validates the calls of its answer.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{CallError, HydratedCall, Hydrator, LimitedRepairer, Repairer};
use crate::client::{ClientError, ToolClient};
use picktools::catalog::Tool;
use picktools_provider::{
    CallResult, Provider, ResponseError, TranslateError, TranslateOptions, Translation, translate,
};

/// Options of [`tool_call`].
#[derive(Clone, Default)]
pub struct ToolCallOptions {
    /// Strictness, names and deferred loading.
    pub translate: TranslateOptions,
    /// Rewrites arguments that do not match the schema, once per call, for the first 16 such calls
    /// of an answer.
    pub repairer: Option<Arc<dyn Repairer>>,
}

/// The answer of a model, with its validated calls.
#[derive(Debug)]
#[non_exhaustive]
pub struct ToolCalls {
    /// The calls in order. Each is ready, pending approval, or an error that explains the correct
    /// call.
    pub calls: Vec<Result<HydratedCall, CallError>>,
    /// The error results of the rejected calls, in order, for [`Provider::results`].
    pub refused: Vec<CallResult>,
    /// The complete answer.
    pub response: Value,
    /// The definitions that the model received.
    pub translation: Translation,
}

/// Error of [`tool_call`] as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolCallError {
    /// A tool is not in the hydrator's catalog.
    #[error("tool {tool:?} is not in the hydrator's catalog; pass tools that were picked from it")]
    NotInCatalog {
        /// The tool's id.
        tool: String,
    },
    /// The tools cannot be translated for the provider.
    #[error(transparent)]
    Translate(#[from] TranslateError),
    /// The API request cannot take tools.
    #[error(
        "invalid request body: it must be a JSON object, and `tools` must be an array if present; \
         pass the provider's own body"
    )]
    Body,
    /// The client returned no answer.
    #[error("the model at {provider} did not answer")]
    Client {
        /// The format of the client.
        provider: Provider,
        /// The error of the client.
        #[source]
        source: ClientError,
    },
    /// The answer cannot be read.
    #[error(transparent)]
    Response(#[from] ResponseError),
}

/// Sends `body` with `tools` to a model and validates the calls of its answer. No call is run.
///
/// A hydrator is created once for a catalog and a caller.
///
/// The definitions in the request may be shortened ([`Pick::shown_tool`](picktools::Pick::shown_tool)). Calls
/// are still validated against the catalog's own definitions and the caller's access policy. A tool
/// that is not in `tools` cannot be called.
///
/// `body` is the provider's own body; the definitions are added to its `tools`. An invalid call
/// does not affect the others: each has its own entry in [`ToolCalls::calls`].
///
/// # Errors
///
/// [`ToolCallError`] if a tool is not in the hydrator's catalog or cannot be translated, or if
/// there is no readable answer.
///
/// ```
/// use picktools_call::ToolCallOptions;
/// use picktools_call::client::{ClientFuture, ToolClient};
/// use picktools::{Access, Catalog, Tool};
/// use picktools_call::{Hydrator, tool_call};
/// use picktools_provider::Provider;
/// use serde_json::{Value, json};
///
/// /// Answers like a model.
/// struct ScriptedModel;
///
/// impl ToolClient for ScriptedModel {
///     fn provider(&self) -> Provider {
///         Provider::Ollama
///     }
///
///     fn send(&self, _: Value) -> ClientFuture<'_> {
///         let call = json!({"function": {"name": "get_forecast", "arguments": {}}});
///         let message = json!({"role": "assistant", "tool_calls": [call]});
///         Box::pin(async move { Ok(json!({"message": message})) })
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tool = Tool::without_arguments("get_forecast", "Weather for the coming days");
/// let catalog = Catalog::from_tools([tool])?;
/// let hydrator = Hydrator::new(catalog.clone(), &Access::default())?;
/// let body = json!({"model": "m", "messages": [{"role": "user", "content": "will it rain?"}]});
/// let options = ToolCallOptions::default();
/// let answer = tool_call(&ScriptedModel, body, &hydrator, catalog.tools()?, &options).await?;
/// assert!(answer.calls[0].is_ok());
/// # Ok(())
/// # }
/// ```
pub async fn tool_call(
    client: &dyn ToolClient,
    mut body: Value,
    hydrator: &Hydrator,
    tools: &[Arc<Tool>],
    options: &ToolCallOptions,
) -> Result<ToolCalls, ToolCallError> {
    let provider = client.provider();
    if let Some(tool) = tools
        .iter()
        .find(|tool| hydrator.catalog().find(&tool.id).is_none())
    {
        return Err(ToolCallError::NotInCatalog {
            tool: tool.id.clone(),
        });
    }
    let translation = translate(tools, provider, &options.translate)?;
    let members: &mut Map<String, Value> = body.as_object_mut().ok_or(ToolCallError::Body)?;
    match (
        members
            .entry("tools")
            .or_insert_with(|| Value::Array(Vec::new())),
        &translation.tools,
    ) {
        (Value::Array(existing), Value::Array(added)) => existing.extend(added.iter().cloned()),
        _ => return Err(ToolCallError::Body),
    }
    let response = client
        .send(body)
        .await
        .map_err(|source| ToolCallError::Client { provider, source })?;
    let hydrator = hydrator.translated(&translation);
    let (mut calls, mut refused) = (Vec::new(), Vec::new());
    let repairer = options.repairer.as_deref().map(LimitedRepairer::new);
    for call in hydrator.expand_parallel(provider.calls(&response)?) {
        let hydrated = match &repairer {
            Some(repairer) => hydrator.hydrate_with(&call, repairer).await,
            None => hydrator.hydrate(&call),
        };
        if let Err(error) = &hydrated {
            refused.push(hydrator.error_result(&call, error));
        }
        calls.push(hydrated);
    }
    Ok(ToolCalls {
        calls,
        refused,
        response,
        translation,
    })
}
