//! Names, definitions and calls: what tools there are, what names mean, and whether calls fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use picktools::Tool;
use picktools::names::Advertising;
use picktools_call::{CallError, Hydrated};
use picktools_gateway::guests::Sender;
use picktools_gateway::refusal::{Refusal, is_hidden};
use picktools_gateway::snapshot::{Snapshot, View};
use picktools_provider::{Arguments, ToolCall, TranslateOptions};
use picktools_provider::{Provider, translate};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::body::{Body, Parameters};
use super::{Api, apart, json, written};
use crate::problem::Problem;

/// The most names, calls and tools of a request, and the most tools of a page.
const MAX_NAMES: usize = 1_000;
const MAX_PAGE: usize = 1_000;

/// Names of tools.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveRequest {
    /// Names, qualified names (`source/name`), ids or aliases; at most 1,000.
    #[schema(max_items = 1000)]
    names: Vec<String>,
}

/// What names mean.
#[derive(Serialize, ToSchema)]
pub(crate) struct ResolveAnswer {
    version: u32,
    /// In the order of the request.
    names: Vec<Meaning>,
}

/// What one name means.
#[derive(Serialize, ToSchema)]
struct Meaning {
    name: String,
    /// The id of the one tool that is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// What a client of the gateway calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<String>,
    /// Why it means no tool, or none that may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
}

/// Why something is not there.
#[derive(Serialize, ToSchema)]
struct Fault {
    /// Stable.
    code: &'static str,
    message: String,
    /// The ids of the tools that a name may mean, or the nearest names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<String>,
}

impl Fault {
    fn new(error: CallError, requested: &str) -> Self {
        let candidates = match &error {
            CallError::AmbiguousTool { candidates, .. } => candidates.clone(),
            CallError::UnknownTool { suggestions, .. } => suggestions.clone(),
            _ => Vec::new(),
        };
        let Refusal { code, message, .. } = Refusal::of(error, requested);
        Self {
            code: code.name(),
            message,
            candidates,
        }
    }
}

/// Tells which tools names mean.
#[utoipa::path(
    post, path = "/v1/resolve", tag = "tools", request_body = ResolveRequest,
    responses(
        (status = 200, description = "What each means", body = ResolveAnswer),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn resolve(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<Sender>,
    Body(ResolveRequest { names }): Body<ResolveRequest>,
) -> Result<Response, Problem> {
    at_most(names.len(), "names")?;
    let (snapshot, view) = api.view(&sender.role).await?;
    let body = apart(move || {
        let meaning = |name: String| match view.tool_of(&name) {
            Ok(tool) => Meaning {
                tool: Some(tool.id.clone()),
                shown: snapshot.names.get(&tool.id).cloned(),
                error: None,
                name,
            },
            Err(error) => Meaning {
                tool: None,
                shown: None,
                error: Some(Fault::new(error, &name)),
                name,
            },
        };
        written(&ResolveAnswer {
            version: 1,
            names: names.into_iter().map(meaning).collect(),
        })
    });
    Ok(json(body.await?))
}

/// Calls of a model.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidateRequest {
    /// In whose format they are: then a whole answer is `answer`, and the names are those of its
    /// definitions.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "openai")]
    provider: Option<Provider>,
    /// With `provider`: from ids of tools to the names that the model was shown, as they were given
    /// to `/v1/translate`.
    #[serde(default)]
    names: Option<BTreeMap<String, String>>,
    /// Calls: at most 1,000.
    #[serde(default)]
    #[schema(max_items = 1000)]
    calls: Vec<AskedCall>,
    /// In place of `calls` the whole answer of the provider.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    answer: Option<Value>,
}

/// A call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskedCall {
    #[serde(default)]
    id: Option<String>,
    /// What the tool is called: by name, id or alias.
    #[schema(example = "chat/post_message")]
    pub(super) name: String,
    /// An object, or text that is nearly one, as models write it.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(super) arguments: Value,
}

impl AskedCall {
    pub(super) fn call(self) -> ToolCall {
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

/// What calls came to.
#[derive(Serialize, ToSchema)]
pub(crate) struct ValidateAnswer {
    version: u32,
    /// How many may be run.
    ready: usize,
    /// How many wait for a person.
    needs_approval: usize,
    refused: usize,
    /// In the order of the calls.
    calls: Vec<Held>,
}

/// What a call came to.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Held {
    /// It fits: the tool, the arguments, and what was mended in them.
    #[schema(value_type = Object)]
    Fits(Box<Hydrated>),
    Refused {
        status: &'static str,
        id: Option<String>,
        name: String,
        error: Fault,
    },
}

/// Holds calls of a model to the schemas of the tools that they mean.
#[utoipa::path(
    post, path = "/v1/validate", tag = "calls", request_body = ValidateRequest,
    responses(
        (status = 200, description = "What each came to", body = ValidateAnswer),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn validate(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<Sender>,
    Body(request): Body<ValidateRequest>,
) -> Result<Response, Problem> {
    let calls = match (request.answer, request.provider) {
        (None, _) => request.calls.into_iter().map(AskedCall::call).collect(),
        (Some(answer), Some(provider)) if request.calls.is_empty() => provider
            .calls(&answer)
            .map_err(|error| Problem::invalid(error.to_string()).at("answer"))?,
        (Some(_), Some(_)) => return Err(Problem::invalid("send either `calls` or `answer`")),
        (Some(_), None) => {
            return Err(Problem::invalid("an answer needs its provider").at("provider"));
        }
    };
    if request.names.is_some() && request.provider.is_none() {
        return Err(Problem::invalid(
            "`names` are those of a provider's definitions; say which provider",
        )
        .at("provider"));
    }
    at_most(calls.len(), "calls")?;
    let (_, view) = api.view(&sender.role).await?;
    let body = apart(move || {
        let hydrator = match request.provider {
            None => view.hydrator.clone(),
            Some(provider) => {
                let options = TranslateOptions {
                    advertising: advertising(request.names),
                    ..TranslateOptions::default()
                };
                view.hydrator
                    .translated(&translated(&view.tools, provider, options)?)
            }
        };
        let held = |call: ToolCall| match hydrator.hydrate(&call) {
            Ok(hydrated) => Held::Fits(Box::new(hydrated)),
            Err(error) => {
                let is_unknown = match &error {
                    CallError::UnknownTool { .. } => true,
                    CallError::Ineligible { reasons, .. } => is_hidden(reasons),
                    _ => false,
                };
                // What is not there for the caller and what is not there at all are told alike.
                let error = if is_unknown {
                    view.hydrator.unknown(&call.name)
                } else {
                    error
                };
                let fault = Fault::new(error, &call.name);
                Held::Refused {
                    status: "refused",
                    id: call.id,
                    name: call.name,
                    error: fault,
                }
            }
        };
        let calls: Vec<Held> = calls.into_iter().map(held).collect();
        let count = |is: fn(&Held) -> bool| calls.iter().filter(|held| is(held)).count();
        written(&ValidateAnswer {
            version: 1,
            ready: count(
                |held| matches!(held, Held::Fits(call) if matches!(**call, Hydrated::Ready(_))),
            ),
            needs_approval: count(
                |held| matches!(held, Held::Fits(call) if matches!(**call, Hydrated::NeedsApproval(_))),
            ),
            refused: count(|held| matches!(held, Held::Refused { .. })),
            calls,
        })
    });
    Ok(json(body.await?))
}

/// Which tools are to be written, and how.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TranslateRequest {
    /// Whose format: `openai`, `openai-responses`, `anthropic`, `gemini`, `ollama` or `mcp`.
    #[schema(value_type = String, example = "anthropic")]
    provider: Provider,
    /// Names of tools; all that the key may see unless said.
    #[serde(default)]
    tools: Option<Vec<String>>,
    /// Whether the provider is to hold the model to the schemas; each tool says so itself unless
    /// said.
    #[serde(default)]
    strict: Option<bool>,
    /// Whether definitions are loaded when the model asks for them.
    #[serde(default)]
    deferred: bool,
    /// From ids of tools to the names that a model is shown.
    #[serde(default)]
    names: Option<BTreeMap<String, String>>,
}

/// Writes tools in a provider's format, and tells what that cannot express.
#[utoipa::path(
    post, path = "/v1/translate", tag = "tools", request_body = TranslateRequest,
    responses(
        (status = 200, description = "`tools` for the request, `names` from what is shown to ids, and `changes`", body = Object),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn translate_tools(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<Sender>,
    Body(request): Body<TranslateRequest>,
) -> Result<Response, Problem> {
    at_most(request.tools.as_ref().map_or(0, Vec::len), "tools")?;
    let (_, view) = api.view(&sender.role).await?;
    let body = apart(move || {
        let tools = match &request.tools {
            None => view.tools.clone(),
            Some(names) => names
                .iter()
                .map(|name| {
                    view.tool_of(name)
                        .cloned()
                        .map_err(|error| Refusal::of(error, name).into())
                })
                .collect::<Result<Vec<_>, Problem>>()?,
        };
        let advertising = advertising(request.names);
        let options = TranslateOptions {
            strict: request.strict,
            advertising,
            deferred: request.deferred,
        };
        written(&translated(&tools, request.provider, options)?)
    });
    Ok(json(body.await?))
}

/// What a model is shown tools by.
fn advertising(names: Option<BTreeMap<String, String>>) -> Advertising {
    names.map_or(Advertising::Canonical, Advertising::ProviderMap)
}

fn translated(
    tools: &[Arc<Tool>],
    provider: Provider,
    options: TranslateOptions,
) -> Result<picktools_provider::Translation, Problem> {
    translate(tools, provider, &options).map_err(|error| Problem::invalid(error.to_string()))
}

/// Which tools are listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listing {
    /// Only those with this in their name, title or description, whatever its case.
    #[serde(default)]
    q: Option<String>,
    /// Only those of this source.
    #[serde(default)]
    source: Option<String>,
    /// How many are skipped.
    #[serde(default)]
    offset: usize,
    /// The most that are listed, 1 to 1,000; 100 unless said.
    #[serde(default = "page")]
    limit: usize,
}

fn page() -> usize {
    100
}

/// Tools, in the order of the catalog.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolsAnswer {
    version: u32,
    catalog_digest: String,
    /// How many fit, listed or not.
    total: usize,
    tools: Vec<Line>,
}

/// A tool in short.
#[derive(Serialize, ToSchema)]
struct Line {
    id: String,
    /// What a client of the gateway calls it.
    shown: Option<String>,
    source: Option<String>,
    name: String,
    description: String,
    #[serde(rename = "unsafe")]
    is_unsafe: bool,
    untrusted: bool,
}

impl Line {
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
    get, path = "/v1/tools", tag = "tools", params(Listing),
    responses(
        (status = 200, description = "A page of them", body = ToolsAnswer),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn tools(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<Sender>,
    Parameters(listing): Parameters<Listing>,
) -> Result<Response, Problem> {
    if listing.limit == 0 || listing.limit > MAX_PAGE {
        return Err(Problem::invalid(format!("a page has 1 to {MAX_PAGE} tools")).at("limit"));
    }
    let (snapshot, view) = api.view(&sender.role).await?;
    let body = apart(move || {
        let found: Vec<&Arc<Tool>> = view
            .tools
            .iter()
            .filter(|tool| listing.takes(tool))
            .collect();
        let page = found.iter().skip(listing.offset).take(listing.limit);
        written(&ToolsAnswer {
            version: 1,
            catalog_digest: snapshot.engine.catalog().digest().to_owned(),
            total: found.len(),
            tools: page.map(|tool| Line::new(tool, &snapshot)).collect(),
        })
    });
    Ok(json(body.await?))
}

impl Listing {
    fn takes(&self, tool: &Tool) -> bool {
        let holds = |text: &str, wanted: &str| text.to_lowercase().contains(wanted);
        let is_of = self
            .source
            .as_ref()
            .is_none_or(|source| tool.source.as_ref() == Some(source));
        is_of
            && self.q.as_ref().is_none_or(|wanted| {
                let wanted = wanted.to_lowercase();
                let title = tool.title.as_deref().unwrap_or_default();
                [&tool.id, &tool.description, title]
                    .into_iter()
                    .any(|text| holds(text, &wanted))
            })
    }
}

/// Gives the whole definition of a tool, as the catalog has it.
#[utoipa::path(
    get, path = "/v1/tools/{name}", tag = "tools",
    params(("name" = String, Path, description = "Its name, id or alias; a slash in it is written %2F")),
    responses(
        (status = 200, description = "The definition", body = Object),
        (status = 404, description = "There is no such tool", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn tool(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<Sender>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let (_, view): (_, Arc<View>) = api.view(&sender.role).await?;
    let tool = view
        .tool_of(&name)
        .map_err(|error| Refusal::of(error, &name))?;
    Ok(json(written(tool.as_ref())?))
}

fn at_most(count: usize, place: &str) -> Result<(), Problem> {
    if count > MAX_NAMES {
        return Err(
            Problem::invalid(format!("{count} are too many; send at most {MAX_NAMES}")).at(place),
        );
    }
    Ok(())
}
