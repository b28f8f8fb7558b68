//! Embeddings of our own models, as OpenAI has them.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use picktools::embed::{Embedder, Role, StaticEmbedder};
use picktools_provider::Tokenizer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::Body;
use super::{apart, failed, json, written};
use crate::problem::Problem;

/// The most texts of a request.
const MAX_TEXTS: usize = 2_048;

/// Texts, and which model reads them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmbeddingsRequest {
    /// `static`, or `tuned` where the program has it.
    #[schema(example = "static")]
    model: String,
    input: Texts,
    /// As numbers, or as base64 of 32-bit floats, little end first.
    #[serde(default)]
    encoding_format: Coding,
    /// How many the vectors have; no other number than the model's own.
    #[serde(default)]
    dimensions: Option<usize>,
    /// What the texts are: what is asked, or what is searched, such as descriptions of tools.
    #[serde(default)]
    input_type: Kind,
    /// Not read.
    #[serde(default)]
    #[expect(dead_code, reason = "clients of OpenAI may send it")]
    user: Option<String>,
}

/// A text, or several.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Texts {
    One(String),
    Several(Vec<String>),
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Coding {
    #[default]
    Float,
    Base64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    Query,
    Document,
}

/// The vectors.
#[derive(Serialize, ToSchema)]
pub(crate) struct EmbeddingsAnswer {
    object: &'static str,
    data: Vec<Embedding>,
    /// The model with the digest of its weights.
    model: String,
    usage: Usage,
}

#[derive(Serialize, ToSchema)]
struct Embedding {
    object: &'static str,
    index: usize,
    embedding: Vector,
}

/// A vector of unit length.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Vector {
    Numbers(Vec<f32>),
    Coded(String),
}

/// The tokens of the texts, as `o200k_base` counts them.
#[derive(Serialize, ToSchema)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}

/// Embeds texts by the models that rank tools, as OpenAI's endpoint does.
#[utoipa::path(
    post, path = "/v1/embeddings", tag = "models", request_body = EmbeddingsRequest,
    responses(
        (status = 200, description = "A vector a text, in order", body = EmbeddingsAnswer),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn embeddings(
    Body(request): Body<EmbeddingsRequest>,
) -> Result<Response, Problem> {
    let texts = match request.input {
        Texts::One(text) => vec![text],
        Texts::Several(texts) => texts,
    };
    if texts.is_empty() || texts.len() > MAX_TEXTS {
        return Err(
            Problem::invalid(format!("{} texts; send 1 to {MAX_TEXTS}", texts.len())).at("input"),
        );
    }
    if texts.iter().any(|text| text.trim().is_empty()) {
        return Err(Problem::invalid("a text is empty").at("input"));
    }
    let body = apart(move || {
        let embedder = embedder(&request.model)?;
        let dimensions = embedder.dimensions();
        if request.dimensions.is_some_and(|asked| asked != dimensions) {
            let message = format!(
                "the vectors of {} have {dimensions} dimensions",
                request.model
            );
            return Err(Problem::invalid(message).at("dimensions"));
        }
        let role = if request.input_type == Kind::Query {
            Role::Query
        } else {
            Role::Document
        };
        let shown: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = embedder
            .embed(role, &shown, &|_| {})
            .map_err(|error| failed(&error))?;
        let vector = |numbers: Vec<f32>| match request.encoding_format {
            Coding::Float => Vector::Numbers(numbers),
            Coding::Base64 => Vector::Coded(
                STANDARD.encode(
                    numbers
                        .iter()
                        .flat_map(|number| number.to_le_bytes())
                        .collect::<Vec<u8>>(),
                ),
            ),
        };
        let data = vectors.into_iter().enumerate();
        let data = data.map(|(index, numbers)| Embedding {
            object: "embedding",
            index,
            embedding: vector(numbers),
        });
        let tokens = shown.iter().map(|text| Tokenizer::O200k.count(text)).sum();
        written(&EmbeddingsAnswer {
            object: "list",
            data: data.collect(),
            model: embedder.identity().to_owned(),
            usage: Usage {
                prompt_tokens: tokens,
                total_tokens: tokens,
            },
        })
    });
    Ok(json(body.await?))
}

/// The model of this name.
fn embedder(name: &str) -> Result<Arc<dyn Embedder>, Problem> {
    match name {
        "static" => Ok(StaticEmbedder::shared().map_err(|error| failed(&error))?),
        "tuned" => match picktools_tuned::TunedEmbedder::shared() {
            Some(tuned) => Ok(tuned.map_err(|error| failed(&error))?),
            None => Err(unknown(name)),
        },
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Problem {
    let message = format!(
        "there is no model {:?} here; there is static and tuned",
        picktools::excerpt::marked(name, 100)
    );
    Problem::new(StatusCode::NOT_FOUND, "unknown_model", message).at("model")
}
