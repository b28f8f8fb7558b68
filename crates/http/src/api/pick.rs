//! The `/v1/pick` routes.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use picktools::{PickOptions, Query, Selection};
use picktools_gateway::GatewayEvent;
use picktools_gateway::api_keys::RequestIdentity;
use picktools_gateway::journal::{RequestRoute, SelectionEvent};
use picktools_gateway::pick_queue::run_pick;
use picktools_gateway::snapshot::View;
use picktools_provider::{Provider, translate};
use picktools_provider::{TranslateOptions, Translation};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::Span;
use utoipa::ToSchema;

use super::answer::{MissingTools, json_response, timing_header, to_json};
use super::body::Body;
use super::state::Api;
use super::visibility;
use crate::problem::Problem;

/// The largest number of requests of a batch.
const MAX_BATCH: usize = 256;
/// The largest number of picks of a request.
const MAX_PICKS: usize = 200;

/// A request, and the options of the pick.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PickRequest {
    /// The request: text, or an object with `text`, `context` (earlier turns) and `called` (tools
    /// in use).
    #[serde(default)]
    #[schema(value_type = Option<Object>, example = "post in the chat that the build is done")]
    query: Option<Query>,
    /// Instead of `query`: a conversation in a provider's format. Its last user message is the
    /// request.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    messages: Option<Value>,
    /// The options of the pick. `access` can only restrict the role of the key further.
    #[serde(default)]
    options: PickOptions,
    /// The provider for whose API requests the definitions of the picks are added.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "openai")]
    provider: Option<Provider>,
}

/// A selection, with the definitions if `provider` was given.
#[derive(Serialize, ToSchema)]
pub(crate) struct PickAnswer {
    /// The selection: `picks` with `tool`, `score` and `reason`, and the other tools with reasons.
    #[serde(flatten)]
    selection: Selection,
    /// The picks in the provider's format, and what the format cannot express.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    definitions: Option<Translation>,
    #[serde(flatten)]
    missing: MissingTools,
}

/// Several independent requests.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchRequest {
    /// The requests; at most 256.
    #[schema(max_items = 256, min_items = 1)]
    requests: Vec<PickRequest>,
}

/// The results of a batch, in the order of the requests.
#[derive(Serialize, ToSchema)]
pub(crate) struct BatchAnswer {
    results: Vec<Outcome>,
}

/// The result of one request of a batch.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Outcome {
    Picked(Box<PickAnswer>),
    Refused { error: Problem },
}

/// The caller of a pick, and the tools that it may see.
struct PickContext {
    api: Arc<Api>,
    sender: RequestIdentity,
    view: Arc<View>,
}

/// Picks the tools that a request needs.
#[utoipa::path(
    post, path = "/v1/pick", tag = "tools", request_body = PickRequest,
    responses(
        (status = 200, description = "The selection; it may have no picks", body = PickAnswer),
        (
            status = "4XX", description = "Refused",
            body = Problem, content_type = "application/problem+json",
        ),
    )
)]
pub(super) async fn pick(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<RequestIdentity>,
    Body(request): Body<PickRequest>,
) -> Result<Response, Problem> {
    let context = PickContext::new(api, sender).await?;
    let work = move || -> Result<_, Problem> {
        let started = Instant::now();
        let answer = context.answer(request)?;
        Ok((to_json(&answer)?, started.elapsed()))
    };
    let (body, time) = run_pick(work).await??;
    Ok((timing_header("pick", time), json_response(body)).into_response())
}

/// Picks for several requests.
#[utoipa::path(
    post, path = "/v1/pick/batch", tag = "tools", request_body = BatchRequest,
    responses(
        (status = 200, description = "The result of each request, in order", body = BatchAnswer),
        (
            status = "4XX", description = "Refused",
            body = Problem, content_type = "application/problem+json",
        ),
    )
)]
pub(super) async fn pick_batch(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<RequestIdentity>,
    Body(BatchRequest { requests }): Body<BatchRequest>,
) -> Result<Response, Problem> {
    if requests.is_empty() || requests.len() > MAX_BATCH {
        let message = format!("{} requests; send 1 to {MAX_BATCH}", requests.len());
        return Err(Problem::invalid(message).at("requests"));
    }
    let context = PickContext::new(api, sender).await?;
    let work = move || -> Result<_, Problem> {
        let started = Instant::now();
        let span = Span::current();
        let outcome = |request| match span.in_scope(|| context.answer(request)) {
            Ok(answer) => Outcome::Picked(Box::new(answer)),
            Err(error) => Outcome::Refused { error },
        };
        let answer = BatchAnswer {
            results: requests.into_par_iter().map(outcome).collect(),
        };
        Ok((to_json(&answer)?, started.elapsed()))
    };
    let (body, time) = run_pick(work).await??;
    Ok((timing_header("picks", time), json_response(body)).into_response())
}

impl PickContext {
    async fn new(api: Arc<Api>, sender: RequestIdentity) -> Result<Self, Problem> {
        let (_, view) = api.view(&sender.role).await?;
        Ok(Self { api, sender, view })
    }

    fn answer(&self, request: PickRequest) -> Result<PickAnswer, Problem> {
        self.api.hub.journal.ready()?;
        let query = query_from_request(request.query, request.messages.as_ref())?;
        let options = visibility::restrict_options(&self.view, request.options)?;
        if options.max_candidates > MAX_PICKS {
            let message = format!(
                "max_candidates is {}; send at most {MAX_PICKS}",
                options.max_candidates
            );
            return Err(Problem::invalid(message).at("options.max_candidates"));
        }
        let _span = tracing::info_span!(target: "picktools::span", "pick").entered();
        let started = Instant::now();
        let mut selection = self
            .view
            .pick(&query, &options)
            .map_err(|error| Problem::invalid(error.to_string()).at("options"))?;
        let time = started.elapsed();
        let hub = &self.api.hub;
        hub.meter.record(&GatewayEvent::Pick {
            found: selection.picks.len(),
            time,
        });
        hub.journal.record_selection(&SelectionEvent {
            key: &self.sender.key,
            role: &self.sender.role,
            engine: &self.view.engine,
            session: None,
            via: RequestRoute::Pick,
            query: &query,
            options: &options,
            selection: &selection,
            time,
        });
        visibility::shorten_quarantined(&self.view, &mut selection);
        let definitions = request.provider.map(|provider| {
            let tools = selection.shown_tools();
            let translation = translate(&tools, provider, &TranslateOptions::default());
            translation.map_err(|error| Problem::invalid(error.to_string()).at("provider"))
        });
        Ok(PickAnswer {
            selection,
            definitions: definitions.transpose()?,
            missing: MissingTools::new(hub, &self.view),
        })
    }
}

/// Returns the query of a request, from its text or its conversation.
fn query_from_request(query: Option<Query>, messages: Option<&Value>) -> Result<Query, Problem> {
    let query = match (query, messages) {
        (Some(query), None) => query,
        (None, Some(messages)) => {
            picktools_provider::query_from_transcript(messages).ok_or_else(|| {
                Problem::invalid("`messages` is not a conversation in a provider's format")
                    .at("messages")
            })?
        }
        _ => return Err(Problem::invalid("send either `query` or `messages`")),
    };
    if query.is_blank() && query.context().is_empty() {
        return Err(Problem::invalid("the request is empty; describe the task").at("query"));
    }
    Ok(query)
}
