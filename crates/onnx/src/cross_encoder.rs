//! Cross-encoders on ONNX Runtime, through the crate `fastembed`.
//!
//! A cross-encoder reads the request and one tool as one text, and returns a score. Pairs are
//! scored one by one in several sessions. So a score does not depend on other tools, and the work
//! can stop at the deadline.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fastembed::{
    RerankInitOptionsUserDefined, RerankerModelInfo, TextRerank, UserDefinedRerankingModel,
};
use rayon::prelude::*;

use crate::onnx;
use crate::onnx::{ModelFolder, OnnxOptions, join_causes, load_runtime};
use picktools::catalog::Tool;
use picktools::embed::{EmbedError, catch_panic};
use picktools::query::Query;
use picktools::rerank::RerankError;
use picktools::rerank::{RerankFuture, RerankScore, Reranker};
use picktools::text::EmbeddingText;

/// The number of tokens after which a pair is cut, the longer text first.
const MAX_TOKENS: usize = 512;
/// The number of bytes of a request or tool that are read; more than the tokens that are used.
const MAX_TEXT_BYTES: usize = 8 * MAX_TOKENS;

/// A cross-encoder on ONNX Runtime, which scores a request and a tool together.
pub struct CrossEncoder {
    inner: Arc<CrossEncoderInner>,
}

struct CrossEncoderInner {
    name: String,
    /// The sessions, among which the candidates of a shortlist are divided evenly.
    sessions: Vec<Mutex<TextRerank>>,
}

impl CrossEncoder {
    /// Opens the model in `folder`.
    ///
    /// The folder needs the ONNX model with an output `logits`, and `tokenizer.json`. It may have
    /// `config.json`, `tokenizer_config.json` and `special_tokens_map.json`.
    ///
    /// # Errors
    ///
    /// [`EmbedError`] if files are missing or damaged, the model is not a cross-encoder, or ONNX
    /// Runtime cannot be loaded.
    pub fn from_folder(
        folder: impl AsRef<Path>,
        options: &OnnxOptions,
    ) -> Result<Self, EmbedError> {
        let folder = folder.as_ref();
        let files = ModelFolder::open(folder, MAX_TOKENS)?;
        load_runtime(options.runtime.as_deref())?;
        Self::open(&folder.display().to_string(), || {
            let limits = RerankInitOptionsUserDefined::new()
                .with_max_length(MAX_TOKENS)
                .with_intra_threads(1);
            let model =
                UserDefinedRerankingModel::new(files.weights.clone(), files.tokenizer_files());
            TextRerank::try_new_from_user_defined(model, limits)
        })
    }

    /// Opens a model by name.
    ///
    /// The name is that of fastembed (`JINARerankerV1TurboEn`), or that of the hub
    /// (`jinaai/jina-reranker-v1-turbo-en`, or the part after the slash).
    ///
    /// # Errors
    ///
    /// [`EmbedError`] if the name is unknown, the model is missing and cannot be fetched, or ONNX
    /// Runtime cannot be loaded.
    pub fn from_name(name: &str, options: &OnnxOptions) -> Result<Self, EmbedError> {
        let names =
            |info: &RerankerModelInfo| (format!("{:?}", info.model), info.model_code.clone());
        let info = onnx::find_model(TextRerank::list_supported_models(), names, name)?;
        load_runtime(options.runtime.as_deref())?;
        Self::fetch(name, &info, options)
    }

    #[cfg(feature = "onnx-download")]
    fn fetch(
        name: &str,
        info: &RerankerModelInfo,
        options: &OnnxOptions,
    ) -> Result<Self, EmbedError> {
        let open = || {
            let mut init = fastembed::RerankInitOptions::new(info.model.clone())
                .with_max_length(MAX_TOKENS)
                .with_intra_threads(1)
                .with_show_download_progress(options.show_download_progress);
            if let Some(models_dir) = &options.models_dir {
                init = init.with_cache_dir(models_dir.clone());
            }
            TextRerank::try_new(init)
        };
        // A first session distinguishes errors of fetching from errors of loading.
        open().map_err(|error| onnx::not_fetched(name, &error))?;
        Self::open(name, open)
    }

    #[cfg(not(feature = "onnx-download"))]
    fn fetch(name: &str, info: &RerankerModelInfo, _: &OnnxOptions) -> Result<Self, EmbedError> {
        Err(onnx::no_fetching(name, &info.model_code, &info.model_file))
    }

    fn open(
        name: &str,
        session: impl Fn() -> Result<TextRerank, fastembed::Error>,
    ) -> Result<Self, EmbedError> {
        let load = |reason: String| EmbedError::Load {
            name: name.to_owned(),
            reason,
        };
        let mut first = session().map_err(|error| load(join_causes(&error)))?;
        score(&mut first, "probe", "probe")
            .map_err(|reason| load(format!("it is not a cross-encoder: {reason}")))?;
        let sessions =
            onnx::open_sessions(first, session).map_err(|error| load(join_causes(&error)))?;
        Ok(Self {
            inner: Arc::new(CrossEncoderInner {
                name: name.to_owned(),
                sessions,
            }),
        })
    }
}

impl CrossEncoderInner {
    /// Scores every candidate, or stops at the deadline.
    fn scores(
        &self,
        query: &str,
        tools: &[String],
        deadline: Option<Instant>,
    ) -> Result<Vec<RerankScore>, RerankError> {
        let failed = |reason: String| RerankError::Failed {
            reranker: self.name.clone(),
            reason,
        };
        let tools_per_session = tools.len().div_ceil(self.sessions.len()).max(1);
        let score_one = |(candidate, tool): (usize, &String)| {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(failed("the deadline passed".to_owned()));
            }
            let mut session = self.sessions[candidate / tools_per_session]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let score = score(&mut session, query, tool).map_err(failed)?;
            Ok(RerankScore { candidate, score })
        };
        tools.par_iter().enumerate().map(score_one).collect()
    }
}

/// Returns the score of one pair.
fn score(model: &mut TextRerank, query: &str, tool: &str) -> Result<f32, String> {
    // fastembed panics if the output has no row for a pair, or no number in the row.
    let answer = catch_panic("fastembed", || {
        model
            .rerank(query, [tool], false, Some(1))
            .map_err(|error| join_causes(&error))
    })?;
    answer
        .first()
        .map(|result| result.score)
        .ok_or_else(|| "it returned no score".to_owned())
}

impl Reranker for CrossEncoder {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn rerank<'a>(
        &'a self,
        query: &'a Query,
        window: &'a [Arc<Tool>],
        deadline: Option<Instant>,
    ) -> RerankFuture<'a> {
        Box::pin(async move {
            let inner = Arc::clone(&self.inner);
            let truncate = |text: &str| text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned();
            let query = truncate(query.text());
            let tools: Vec<String> = window
                .iter()
                .map(|tool| truncate(&EmbeddingText::new(tool).text))
                .collect();
            let work = tokio::task::spawn_blocking(move || inner.scores(&query, &tools, deadline));
            work.await.unwrap_or_else(|error| {
                Err(RerankError::Failed {
                    reranker: self.inner.name.clone(),
                    reason: error.to_string(),
                })
            })
        })
    }
}

impl std::fmt::Debug for CrossEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CrossEncoder")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}
