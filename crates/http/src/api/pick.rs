//! Picking tools.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use picktools::{PickOptions, Query, Selection};
use picktools_gateway::Event;
use picktools_gateway::guests::Sender;
use picktools_gateway::journal::{Selected, Via};
use picktools_gateway::snapshot::{Snapshot, View};
use picktools_provider::{Provider, translate};
use picktools_provider::{TranslateOptions, Translation};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::body::Body;
use super::{Api, apart, json, sight, timing, written};
use crate::problem::Problem;

/// The most time of a pick.
pub(super) const TIME: Duration = Duration::from_secs(5);
/// The most requests at once, and the most picks of each.
const MAX_BATCH: usize = 256;
const MAX_PICKS: usize = 200;

/// What is to be done, and how tools for it are picked.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PickRequest {
    /// What is to be done: text, or an object of `text`, `context` (what was said before) and
    /// `called` (tools).
    #[serde(default)]
    #[schema(value_type = Option<Object>, example = "post in the chat that the build is done")]
    query: Option<Query>,
    /// In place of `query` a conversation as providers write it, whose last message of the user is
    /// the request.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    messages: Option<Value>,
    /// How tools are picked. `access` can only ask for less than the key's role allows.
    #[serde(default)]
    options: PickOptions,
    /// In whose format the definitions of the picks are to be added, ready for a request.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "openai")]
    provider: Option<Provider>,
}

/// The picks: a selection, and the definitions that were asked for.
#[derive(Serialize, ToSchema)]
pub(crate) struct PickAnswer {
    /// The selection: `picks` with `tool`, `score` and `reason`, and what was left out and why.
    #[serde(flatten)]
    selection: Selection,
    /// The picks in the provider's format, and what that cannot express.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    definitions: Option<Translation>,
}

/// Several requests, each for itself.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchRequest {
    /// At most 256.
    #[schema(max_items = 256, min_items = 1)]
    requests: Vec<PickRequest>,
}

/// What each request came to, in their order.
#[derive(Serialize, ToSchema)]
pub(crate) struct BatchAnswer {
    results: Vec<Outcome>,
}

/// What a request of several came to.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Outcome {
    Picked(Box<PickAnswer>),
    Refused { error: Problem },
}

/// Who picks, from what.
struct Picking {
    api: Arc<Api>,
    sender: Sender,
    snapshot: Arc<Snapshot>,
    view: Arc<View>,
}

/// Picks the tools that a request needs.
#[utoipa::path(
    post, path = "/v1/pick", tag = "tools", request_body = PickRequest,
    responses(
        (status = 200, description = "The picks; none is a normal answer", body = PickAnswer),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn pick(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<Sender>,
    Body(request): Body<PickRequest>,
) -> Result<Response, Problem> {
    let picking = Picking::new(api, sender).await?;
    let (body, time) = apart(move || {
        let started = Instant::now();
        let answer = picking.answer(request)?;
        Ok((written(&answer)?, started.elapsed()))
    })
    .await?;
    Ok((timing("pick", time), json(body)).into_response())
}

/// Picks for several requests.
#[utoipa::path(
    post, path = "/v1/pick/batch", tag = "tools", request_body = BatchRequest,
    responses(
        (status = 200, description = "What each came to, in order", body = BatchAnswer),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn pick_batch(
    State(api): State<Arc<Api>>,
    Extension(sender): Extension<Sender>,
    Body(BatchRequest { requests }): Body<BatchRequest>,
) -> Result<Response, Problem> {
    if requests.is_empty() || requests.len() > MAX_BATCH {
        let message = format!("{} requests; send 1 to {MAX_BATCH}", requests.len());
        return Err(Problem::invalid(message).at("requests"));
    }
    let picking = Picking::new(api, sender).await?;
    let (body, time) = apart(move || {
        let started = Instant::now();
        let outcome = |request| match picking.answer(request) {
            Ok(answer) => Outcome::Picked(Box::new(answer)),
            Err(error) => Outcome::Refused { error },
        };
        let answer = BatchAnswer {
            results: requests.into_iter().map(outcome).collect(),
        };
        Ok((written(&answer)?, started.elapsed()))
    })
    .await?;
    Ok((timing("picks", time), json(body)).into_response())
}

impl Picking {
    async fn new(api: Arc<Api>, sender: Sender) -> Result<Self, Problem> {
        let (snapshot, view) = api.view(&sender.role).await?;
        Ok(Self {
            api,
            sender,
            snapshot,
            view,
        })
    }

    fn answer(&self, request: PickRequest) -> Result<PickAnswer, Problem> {
        self.api.hub.journal.ready()?;
        let query = query(request.query, request.messages.as_ref())?;
        let options = sight::within(&self.view, request.options)?;
        if options.max_candidates > MAX_PICKS {
            let message = format!("at most {MAX_PICKS} tools can be asked for");
            return Err(Problem::invalid(message).at("options.max_candidates"));
        }
        let _span = tracing::info_span!(target: "picktools::span", "pick").entered();
        let started = Instant::now();
        let picked = self.snapshot.pick(&query, &options);
        let mut selection =
            picked.map_err(|error| Problem::invalid(error.to_string()).at("options"))?;
        let time = started.elapsed();
        let hub = &self.api.hub;
        hub.meter.record(&Event::Pick {
            found: selection.picks.len(),
            time,
        });
        hub.journal.selected(&Selected {
            key: &self.sender.key,
            role: &self.sender.role,
            session: None,
            via: Via::Pick,
            query: &query,
            options: &options,
            selection: &selection,
            time,
        });
        sight::hide(&self.view, &mut selection);
        let definitions = request.provider.map(|provider| {
            let translated = translate(&selection.shown(), provider, &TranslateOptions::default());
            translated.map_err(|error| Problem::invalid(error.to_string()).at("provider"))
        });
        Ok(PickAnswer {
            selection,
            definitions: definitions.transpose()?,
        })
    }
}

/// What is asked.
fn query(query: Option<Query>, messages: Option<&Value>) -> Result<Query, Problem> {
    let query = match (query, messages) {
        (Some(query), None) => query,
        (None, Some(messages)) => {
            picktools_provider::query_from_transcript(messages).ok_or_else(|| {
                Problem::invalid("no conversation as a provider writes it").at("messages")
            })?
        }
        _ => return Err(Problem::invalid("send either `query` or `messages`")),
    };
    if query.is_blank() && query.context().is_empty() {
        return Err(Problem::invalid("the request is empty; say what is to be done").at("query"));
    }
    Ok(query)
}
