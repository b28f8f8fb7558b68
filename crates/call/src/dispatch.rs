//! Asking a model with tools, and hydrating what it calls.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{CallError, Hydrated, Hydrator, Repairer};
use crate::client::{ClientError, ToolClient};
use picktools::catalog::Tool;
use picktools_provider::{
    CallResult, Provider, ResponseError, TranslateError, TranslateOptions, Translation, translate,
};

/// The most calls of an answer that a repairer is asked to mend: it may take its time, and cost.
const MAX_REPAIRS: usize = 16;

/// How tools are shown, and their calls read.
#[derive(Clone, Default)]
pub struct ToolCallOptions {
    /// Strictness, names and deferred loading.
    pub translate: TranslateOptions,
    /// Asked once per call whose arguments do not fit, where there is one; for the first 16 such
    /// calls of an answer.
    pub repairer: Option<Arc<dyn Repairer>>,
}

/// What a model answered that was shown tools.
#[derive(Debug)]
#[non_exhaustive]
pub struct ToolCalls {
    /// Its calls in order, each ready to be run, waiting for a person, or refused with what would
    /// have been right.
    pub calls: Vec<Result<Hydrated, CallError>>,
    /// What the model is to be told of the refused ones, in their order, for [`Provider::results`].
    pub refused: Vec<CallResult>,
    /// The whole answer, with what it says besides.
    pub response: Value,
    /// How the tools were shown.
    pub translation: Translation,
}

/// Why there are no calls.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolCallError {
    /// A tool that is to be shown is none of the hydrator's catalog.
    #[error(
        "the tool {tool:?} is not in the catalog of the hydrator; show tools that were picked from it"
    )]
    NotInCatalog {
        /// The tool.
        tool: String,
    },
    /// The tools cannot be shown so.
    #[error(transparent)]
    Translate(#[from] TranslateError),
    /// The API request cannot take tools.
    #[error(
        "the body is not a JSON object whose `tools`, if it has them, are an array; give the provider's own body"
    )]
    Body,
    /// The client got no answer.
    #[error("the model at {provider} did not answer")]
    Client {
        /// The format that was spoken.
        provider: Provider,
        /// What the client said.
        #[source]
        source: ClientError,
    },
    /// The answer cannot be read.
    #[error(transparent)]
    Response(#[from] ResponseError),
}

/// Shows `tools` to a model along with `body`, and hydrates the calls of its answer. Planning stops
/// there: nothing is run.
///
/// The hydrator is made once for a catalog and a caller. What is shown may be shortened
/// ([`Pick::shown`](picktools::Pick::shown)): each call is held to the catalog's own definition,
/// and to what the caller may run, and a tool that was not shown is not called.
///
/// `body` is the provider's own body; the definitions are added to its `tools`. One call's fault is
/// no fault of the others: each stands for itself in [`ToolCalls::calls`].
///
/// # Errors
///
/// [`ToolCallError`] when a tool is not of the hydrator's catalog or cannot be shown, or there is
/// no answer to read.
///
/// ```
/// use picktools_call::ToolCallOptions;
/// use picktools_call::client::{ClientFuture, ToolClient};
/// use picktools::{Access, Catalog, Tool};
/// use picktools_call::{Hydrator, tool_call};
/// use picktools_provider::Provider;
/// use serde_json::{Value, json};
///
/// /// Answers as a model would.
/// struct Model;
///
/// impl ToolClient for Model {
///     fn provider(&self) -> Provider {
///         Provider::Ollama
///     }
///
///     fn send(&self, _: Value) -> ClientFuture<'_> {
///         let call = json!({"function": {"name": "get_forecast", "arguments": {}}});
///         Box::pin(async move { Ok(json!({"message": {"role": "assistant", "tool_calls": [call]}})) })
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let catalog = Catalog::from_tools([Tool::without_arguments("get_forecast", "Weather for the coming days")])?;
/// let hydrator = Hydrator::new(catalog.clone(), &Access::default())?;
/// let body = json!({"model": "m", "messages": [{"role": "user", "content": "will it rain?"}]});
/// let answer = tool_call(&Model, body, &hydrator, catalog.tools(), &ToolCallOptions::default()).await?;
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
        (Value::Array(known), Value::Array(more)) => known.extend(more.iter().cloned()),
        _ => return Err(ToolCallError::Body),
    }
    let response = client
        .send(body)
        .await
        .map_err(|source| ToolCallError::Client { provider, source })?;
    let hydrator = hydrator.translated(&translation);
    let (mut calls, mut refused) = (Vec::new(), Vec::new());
    let mut repairs = MAX_REPAIRS;
    for call in provider.calls(&response)? {
        let mut hydrated = hydrator.hydrate(&call);
        let is_mendable = matches!(
            hydrated,
            Err(CallError::Malformed { .. } | CallError::Invalid { .. })
        );
        if let Some(repairer) = options
            .repairer
            .as_ref()
            .filter(|_| is_mendable && repairs > 0)
        {
            repairs -= 1;
            hydrated = hydrator.hydrate_with(&call, repairer.as_ref()).await;
        }
        refused.extend(
            hydrated
                .as_ref()
                .err()
                .map(|error| hydrator.error_result(&call, error)),
        );
        calls.push(hydrated);
    }
    Ok(ToolCalls {
        calls,
        refused,
        response,
        translation,
    })
}
