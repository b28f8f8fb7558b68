//! The routes for tool names, definitions and the validation of calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use picktools::Tool;
use picktools::names::Advertising;
use picktools_call::{CallError, HydratedCall};
use picktools_gateway::api_keys::RequestIdentity;
use picktools_gateway::refusal::Refusal;
use picktools_gateway::snapshot::{Snapshot, View};
use picktools_provider::{Arguments, ToolCall, TranslateOptions};
use picktools_provider::{Provider, translate};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::answer::{MissingTools, json_response, run_blocking, to_json};
use super::body::{Body, Parameters};
use super::state::Api;
use crate::problem::Problem;

/// The largest number of names, calls or tools of a request.
const MAX_NAMES: usize = 1_000;
/// The largest number of tools of a page.
const MAX_PAGE: usize = 1_000;

/// Names of tools.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveRequest {
    /// Names, qualified names (`source/name`), ids or aliases; at most 1,000.
    #[schema(max_items = 1000)]
    names: Vec<String>,
}

/// The tools that the names mean.
#[derive(Serialize, ToSchema)]
pub(crate) struct ResolveAnswer {
    version: u32,
    /// In the order of the request.
    names: Vec<NameResolution>,
}

/// The tool that a name means, or an error.
#[derive(Serialize, ToSchema)]
#[schema(as = Meaning)]
struct NameResolution {
    name: String,
    /// The id of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The name under which a client of the gateway sees the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<String>,
    /// The reason why the name means no tool that may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorDetail>,
}

/// The reason why a name or a call was refused.
#[derive(Serialize, ToSchema)]
#[schema(as = Fault)]
struct ErrorDetail {
    /// A stable identifier of the error.
    code: &'static str,
    message: String,
    /// The ids of the tools that an ambiguous name may mean, or the most similar names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<String>,
}

impl ErrorDetail {
    fn new(error: CallError) -> Self {
        let candidates = match &error {
            CallError::AmbiguousTool { candidates, .. } => candidates.clone(),
            CallError::UnknownTool { suggestions, .. } => suggestions.clone(),
            _ => Vec::new(),
        };
        let Refusal { code, message, .. } = Refusal::from_call_error(error);
        Self {
            code: code.name(),
            message,
            candidates,
        }
    }
}

/// Resolves names to tools.
#[utoipa::path(
    post, path = "/v1/resolve", tag = "tools", request_body = ResolveRequest,
    responses(
        (status = 200, description = "The tool of each name, or an error", body = ResolveAnswer),
        (
            status = "4XX", description = "Refused",
            body = Problem, content_type = "application/problem+json",
        ),
    )
)]
pub(crate) async fn resolve(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<RequestIdentity>,
    Body(ResolveRequest { names }): Body<ResolveRequest>,
) -> Result<Response, Problem> {
    check_count(names.len(), "names")?;
    let (snapshot, view) = api.view(&sender.role).await?;
    let body = run_blocking(move || {
        let resolve_name = |name: String| match view.find_tool(&name) {
            Ok(tool) => NameResolution {
                tool: Some(tool.id.clone()),
                shown: snapshot.names.get(&tool.id).cloned(),
                error: None,
                name,
            },
            Err(error) => NameResolution {
                tool: None,
                shown: None,
                error: Some(ErrorDetail::new(error)),
                name,
            },
        };
        to_json(&ResolveAnswer {
            version: 1,
            names: names.into_iter().map(resolve_name).collect(),
        })
    });
    Ok(json_response(body.await?))
}

/// Tool calls of a model.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidateRequest {
    /// The provider whose format `answer` has, and whose tool names the calls use.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "openai")]
    provider: Option<Provider>,
    /// With `provider`: the names that the model was shown, by tool id, as sent to `/v1/translate`.
    #[serde(default)]
    names: Option<BTreeMap<String, String>>,
    /// The calls; at most 1,000.
    #[serde(default)]
    #[schema(max_items = 1000)]
    calls: Vec<ApiToolCall>,
    /// Instead of `calls`: the complete answer of the provider.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    answer: Option<Value>,
}

/// A tool call.
#[derive(Deserialize, ToSchema)]
#[schema(as = AskedCall)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiToolCall {
    #[serde(default)]
    id: Option<String>,
    /// The name, id or alias of the tool.
    #[schema(example = "chat/post_message")]
    pub(super) name: String,
    /// An object, or text with JSON that may need a repair.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(super) arguments: Value,
}

impl ApiToolCall {
    /// Converts to a call of the library. Without arguments, they are an empty object.
    pub(super) fn into_call(self) -> ToolCall {
        let arguments = match self.arguments {
            Value::String(text) => Arguments::Text(text),
            Value::Null => Arguments::Json(Value::Object(serde_json::Map::new())),
            other => Arguments::Json(other),
        };
        ToolCall {
            id: self.id,
            name: self.name,
            arguments,
        }
    }
}

/// The results of a validation.
#[derive(Serialize, ToSchema)]
pub(crate) struct ValidateAnswer {
    version: u32,
    /// The number of valid calls that may run.
    ready: usize,
    /// The number of valid calls that need an approval.
    needs_approval: usize,
    /// The number of invalid calls.
    refused: usize,
    /// In the order of the calls.
    calls: Vec<ValidationItem>,
}

/// The result of the validation of one call.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Held)]
enum ValidationItem {
    /// A valid call: the tool, the arguments and their corrections.
    #[schema(value_type = Object)]
    Valid(Box<HydratedCall>),
    Refused {
        status: &'static str,
        id: Option<String>,
        name: String,
        error: ErrorDetail,
    },
}

/// Validates a model's tool calls against the schemas of the tools.
#[utoipa::path(
    post, path = "/v1/validate", tag = "calls", request_body = ValidateRequest,
    responses(
        (status = 200, description = "The result of each call", body = ValidateAnswer),
        (
            status = "4XX", description = "Refused",
            body = Problem, content_type = "application/problem+json",
        ),
    )
)]
pub(super) async fn validate(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<RequestIdentity>,
    Body(request): Body<ValidateRequest>,
) -> Result<Response, Problem> {
    let calls = match (request.answer, request.provider) {
        (None, _) => request
            .calls
            .into_iter()
            .map(ApiToolCall::into_call)
            .collect(),
        (Some(answer), Some(provider)) if request.calls.is_empty() => provider
            .calls(&answer)
            .map_err(|error| Problem::invalid(error.to_string()).at("answer"))?,
        (Some(_), Some(_)) => return Err(Problem::invalid("send either `calls` or `answer`")),
        (Some(_), None) => {
            return Err(Problem::invalid("`answer` needs `provider`").at("provider"));
        }
    };
    if request.names.is_some() && request.provider.is_none() {
        return Err(Problem::invalid("`names` needs `provider`").at("provider"));
    }
    check_count(calls.len(), "calls")?;
    let (_, view) = api.view(&sender.role).await?;
    let body = run_blocking(move || {
        let hydrator = match request.provider {
            None => view.hydrator.clone(),
            Some(provider) => {
                let options = TranslateOptions {
                    advertising: advertising_from_names(request.names),
                    ..TranslateOptions::default()
                };
                view.hydrator
                    .translated(&translate_for(&view.tools, provider, options)?)
            }
        };
        let validate_call = |call: ToolCall| match hydrator.hydrate(&call) {
            Ok(hydrated) => ValidationItem::Valid(Box::new(hydrated)),
            Err(error) => ValidationItem::Refused {
                status: "refused",
                id: call.id,
                name: call.name,
                error: ErrorDetail::new(error),
            },
        };
        let calls = hydrator.expand_parallel(calls);
        let calls: Vec<ValidationItem> = calls.into_iter().map(validate_call).collect();
        let (mut ready, mut needs_approval, mut refused) = (0, 0, 0);
        for call in &calls {
            match call {
                ValidationItem::Refused { .. } => refused += 1,
                ValidationItem::Valid(call) => match **call {
                    HydratedCall::Ready(_) => ready += 1,
                    HydratedCall::NeedsApproval(_) => needs_approval += 1,
                },
            }
        }
        to_json(&ValidateAnswer {
            version: 1,
            ready,
            needs_approval,
            refused,
            calls,
        })
    });
    Ok(json_response(body.await?))
}

/// The tools to translate, and the target format.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TranslateRequest {
    /// The target format: `openai`, `openai-responses`, `anthropic`, `gemini`, `ollama` or `mcp`.
    #[schema(value_type = String, example = "anthropic")]
    provider: Provider,
    /// Names of tools. Without it, all tools that the key may see.
    #[serde(default)]
    tools: Option<Vec<String>>,
    /// Strict mode of the provider, for all tools. Without it, the setting of each tool.
    #[serde(default)]
    strict: Option<bool>,
    /// `true` if the provider loads definitions when the model asks for them.
    #[serde(default)]
    deferred: bool,
    /// The names that the model is shown, by tool id.
    #[serde(default)]
    names: Option<BTreeMap<String, String>>,
}

/// Translates tools to a provider's format, and reports what the format cannot express.
#[utoipa::path(
    post, path = "/v1/translate", tag = "tools", request_body = TranslateRequest,
    responses(
        (
            status = 200,
            description = "`tools` for the API request, `names` with their ids, and `changes`",
            body = Object,
        ),
        (
            status = "4XX", description = "Refused",
            body = Problem, content_type = "application/problem+json",
        ),
    )
)]
pub(super) async fn translate_tools(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<RequestIdentity>,
    Body(request): Body<TranslateRequest>,
) -> Result<Response, Problem> {
    check_count(request.tools.as_ref().map_or(0, Vec::len), "tools")?;
    let (_, view) = api.view(&sender.role).await?;
    let body = run_blocking(move || {
        let tools = match &request.tools {
            None => view.tools.clone(),
            Some(names) => names
                .iter()
                .map(|name| {
                    view.find_tool(name)
                        .cloned()
                        .map_err(|error| Refusal::from_call_error(error).into())
                })
                .collect::<Result<Vec<_>, Problem>>()?,
        };
        let advertising = advertising_from_names(request.names);
        let options = TranslateOptions {
            strict: request.strict,
            advertising,
            deferred: request.deferred,
        };
        to_json(&translate_for(&tools, request.provider, options)?)
    });
    Ok(json_response(body.await?))
}

/// Returns the names under which the model is shown the tools.
fn advertising_from_names(names: Option<BTreeMap<String, String>>) -> Advertising {
    names.map_or(Advertising::Canonical, Advertising::ProviderMap)
}

fn translate_for(
    tools: &[Arc<Tool>],
    provider: Provider,
    options: TranslateOptions,
) -> Result<picktools_provider::Translation, Problem> {
    translate(tools, provider, &options).map_err(|error| Problem::invalid(error.to_string()))
}

/// The query parameters of the tool list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ToolListQuery {
    /// Only tools with this text in their id, title or description; case is ignored.
    #[serde(default)]
    q: Option<String>,
    /// Only tools of this source.
    #[serde(default)]
    source: Option<String>,
    /// The number of tools to skip.
    #[serde(default)]
    offset: usize,
    /// The largest number of tools to list, 1 to 1,000; 100 by default.
    #[serde(default = "default_limit")]
    limit: usize,
}

fn default_limit() -> usize {
    100
}

/// Tools, in the order of the catalog.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolsAnswer {
    version: u32,
    catalog_digest: String,
    /// The number of matching tools on all pages.
    total: usize,
    tools: Vec<ToolSummary>,
    #[serde(flatten)]
    missing: MissingTools,
}

/// A tool without its schemas.
#[derive(Serialize, ToSchema)]
#[schema(as = Line)]
struct ToolSummary {
    id: String,
    /// The name under which a client of the gateway sees the tool.
    shown: Option<String>,
    source: Option<String>,
    name: String,
    description: String,
    #[serde(rename = "unsafe")]
    is_unsafe: bool,
    untrusted: bool,
}

impl ToolSummary {
    fn new(tool: &Tool, snapshot: &Snapshot) -> Self {
        Self {
            id: tool.id.clone(),
            shown: snapshot.names.get(&tool.id).cloned(),
            source: tool.source.clone(),
            name: tool.name.clone(),
            description: tool.description.clone(),
            is_unsafe: tool.is_unsafe(),
            untrusted: tool.untrusted,
        }
    }
}

/// Lists the tools that the key may see.
#[utoipa::path(
    get, path = "/v1/tools", tag = "tools", params(ToolListQuery),
    responses(
        (status = 200, description = "A page of tools", body = ToolsAnswer),
        (
            status = "4XX", description = "Refused",
            body = Problem, content_type = "application/problem+json",
        ),
    )
)]
pub(super) async fn tools(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<RequestIdentity>,
    Parameters(list_query): Parameters<ToolListQuery>,
) -> Result<Response, Problem> {
    if list_query.limit == 0 || list_query.limit > MAX_PAGE {
        return Err(
            Problem::invalid(format!("limit {} is not 1 to {MAX_PAGE}", list_query.limit))
                .at("limit"),
        );
    }
    let (snapshot, view) = api.view(&sender.role).await?;
    let body = run_blocking(move || {
        let matching: Vec<&Arc<Tool>> = view
            .tools
            .iter()
            .filter(|tool| list_query.matches(tool))
            .collect();
        let page = matching
            .iter()
            .skip(list_query.offset)
            .take(list_query.limit);
        to_json(&ToolsAnswer {
            version: 1,
            catalog_digest: view.engine.catalog().digest().to_owned(),
            total: matching.len(),
            tools: page.map(|tool| ToolSummary::new(tool, &snapshot)).collect(),
            missing: MissingTools::new(&api.hub, &view),
        })
    });
    Ok(json_response(body.await?))
}

impl ToolListQuery {
    fn matches(&self, tool: &Tool) -> bool {
        if let Some(source) = &self.source
            && tool.source.as_ref() != Some(source)
        {
            return false;
        }
        let Some(text) = &self.q else { return true };
        let text = text.to_lowercase();
        let title = tool.title.as_deref().unwrap_or_default();
        [&tool.id, &tool.description, title]
            .into_iter()
            .any(|field| field.to_lowercase().contains(&text))
    }
}

/// Returns the complete definition of a tool.
#[utoipa::path(
    get, path = "/v1/tools/{name}", tag = "tools",
    params((
        "name" = String, Path,
        description = "The name, id or alias of the tool; write a slash in it as %2F",
    )),
    responses(
        (status = 200, description = "The definition", body = Object),
        (
            status = 404, description = "Unknown tool",
            body = Problem, content_type = "application/problem+json",
        ),
    )
)]
pub(super) async fn tool(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<RequestIdentity>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let (_, view): (_, Arc<View>) = api.view(&sender.role).await?;
    let tool = view.find_tool(&name).map_err(Refusal::from_call_error)?;
    Ok(json_response(to_json(tool.as_ref())?))
}

fn check_count(count: usize, place: &str) -> Result<(), Problem> {
    if count > MAX_NAMES {
        return Err(Problem::invalid(format!("{count} items; send at most {MAX_NAMES}")).at(place));
    }
    Ok(())
}
