//! The `/v1/embeddings` route: the built-in models behind OpenAI's interface.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use picktools::embed::{Embedder, StaticEmbedder, TextRole};
use picktools_provider::Tokenizer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::{internal_error, json_response, run_blocking, to_json};
use super::body::Body;
use crate::problem::Problem;

/// The largest number of texts of a request.
const MAX_TEXTS: usize = 2_048;

/// Texts, and the model that embeds them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmbeddingsRequest {
    /// `static`, or `tuned` if the program contains it.
    #[schema(example = "static")]
    model: String,
    input: EmbeddingInput,
    /// The format of the vectors: numbers, or base64 of little-endian 32-bit floats.
    #[serde(default)]
    encoding_format: VectorFormat,
    /// The number of dimensions. It must be that of the model.
    #[serde(default)]
    dimensions: Option<usize>,
    /// The role of the texts: requests, or documents such as descriptions of tools.
    #[serde(default)]
    input_type: InputType,
    /// Ignored.
    #[serde(default)]
    #[expect(dead_code, reason = "OpenAI clients may send it")]
    user: Option<String>,
}

/// A text, or several.
#[derive(Deserialize, ToSchema)]
#[schema(as = Texts)]
#[serde(untagged)]
pub(crate) enum EmbeddingInput {
    One(String),
    Several(Vec<String>),
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Coding)]
enum VectorFormat {
    #[default]
    Float,
    Base64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Kind)]
enum InputType {
    #[default]
    Query,
    Document,
}

/// The vectors.
#[derive(Serialize, ToSchema)]
pub(crate) struct EmbeddingsAnswer {
    object: &'static str,
    data: Vec<EmbeddingItem>,
    /// The model with the digest of its weights.
    model: String,
    usage: Usage,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Embedding)]
struct EmbeddingItem {
    object: &'static str,
    index: usize,
    embedding: Vector,
}

/// A vector of unit length.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Vector {
    Numbers(Vec<f32>),
    Base64(String),
}

/// The number of tokens of the texts, by `o200k_base`.
#[derive(Serialize, ToSchema)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}

/// Embeds texts with the models that rank tools, with the interface of OpenAI.
#[utoipa::path(
    post, path = "/v1/embeddings", tag = "models", request_body = EmbeddingsRequest,
    responses(
        (status = 200, description = "One vector per text, in order", body = EmbeddingsAnswer),
        (
            status = "4XX", description = "Refused",
            body = Problem, content_type = "application/problem+json",
        ),
    )
)]
pub(super) async fn embeddings(
    Body(request): Body<EmbeddingsRequest>,
) -> Result<Response, Problem> {
    let texts = match request.input {
        EmbeddingInput::One(text) => vec![text],
        EmbeddingInput::Several(texts) => texts,
    };
    if texts.is_empty() || texts.len() > MAX_TEXTS {
        return Err(
            Problem::invalid(format!("{} texts; send 1 to {MAX_TEXTS}", texts.len())).at("input"),
        );
    }
    if texts.iter().any(|text| text.trim().is_empty()) {
        return Err(Problem::invalid("a text is empty").at("input"));
    }
    let body = run_blocking(move || {
        let embedder = find_embedder(&request.model)?;
        let dimensions = embedder.dimensions();
        if request
            .dimensions
            .is_some_and(|requested| requested != dimensions)
        {
            let message = format!(
                "the vectors of {} have {dimensions} dimensions; omit `dimensions`",
                request.model
            );
            return Err(Problem::invalid(message).at("dimensions"));
        }
        let role = if request.input_type == InputType::Query {
            TextRole::Query
        } else {
            TextRole::Document
        };
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = embedder
            .embed(role, &texts, &|_| {})
            .map_err(|error| internal_error(&error))?;
        let vector = |numbers: Vec<f32>| match request.encoding_format {
            VectorFormat::Float => Vector::Numbers(numbers),
            VectorFormat::Base64 => {
                let bytes: Vec<u8> = numbers
                    .iter()
                    .flat_map(|number| number.to_le_bytes())
                    .collect();
                Vector::Base64(STANDARD.encode(bytes))
            }
        };
        let data = vectors.into_iter().enumerate();
        let data = data.map(|(index, numbers)| EmbeddingItem {
            object: "embedding",
            index,
            embedding: vector(numbers),
        });
        let tokens = texts.iter().map(|text| Tokenizer::O200k.count(text)).sum();
        to_json(&EmbeddingsAnswer {
            object: "list",
            data: data.collect(),
            model: embedder.identity().to_owned(),
            usage: Usage {
                prompt_tokens: tokens,
                total_tokens: tokens,
            },
        })
    });
    Ok(json_response(body.await?))
}

/// Returns the model with this name.
fn find_embedder(name: &str) -> Result<Arc<dyn Embedder>, Problem> {
    match name {
        "static" => Ok(StaticEmbedder::shared().map_err(|error| internal_error(&error))?),
        "tuned" => match picktools_tuned::TunedEmbedder::shared() {
            Some(tuned) => Ok(tuned.map_err(|error| internal_error(&error))?),
            None => Err(unknown_model(name)),
        },
        _ => Err(unknown_model(name)),
    }
}

fn unknown_model(name: &str) -> Problem {
    let message = format!(
        "unknown model {:?}; the models are static and tuned",
        picktools::excerpt::marked(name, 100)
    );
    Problem::new(StatusCode::NOT_FOUND, "unknown_model", message).at("model")
}
