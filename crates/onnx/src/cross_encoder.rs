//! Cross-encoders on ONNX Runtime, through the crate `fastembed`.
//!
//! Such a model reads the request and one tool at a time as one text and gives one number. Pairs go
//! through it one by one, shared out over a few sessions, so that a tool's number does not depend
//! on its company and the work stops with the deadline.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fastembed::{
    RerankInitOptionsUserDefined, RerankerModelInfo, TextRerank, UserDefinedRerankingModel,
};
use rayon::prelude::*;

use crate::onnx;
use crate::onnx::{ModelFolder, OnnxOptions, chain, load_runtime};
use picktools::catalog::Tool;
use picktools::embed::{EmbedError, caught};
use picktools::query::Query;
use picktools::rerank::RerankError;
use picktools::rerank::{RerankFuture, RerankScore, Reranker};
use picktools::text::EmbeddingText;

/// Longer pairs are cut, in tokens, the longer of the two texts first.
const MAX_TOKENS: usize = 512;
/// What is read of a request and of a tool, in bytes: more than the tokens that are left of them.
const MAX_TEXT_BYTES: usize = 8 * MAX_TOKENS;

/// A cross-encoder on ONNX Runtime: reads request and tool together, and gives the tool a score.
pub struct CrossEncoder {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    /// The candidates of one window are shared out evenly among them.
    sessions: Vec<Mutex<TextRerank>>,
}

impl CrossEncoder {
    /// Opens the model that lies in `folder`: the ONNX model, whose output is called `logits`, and
    /// `tokenizer.json`, and where present `config.json`, `tokenizer_config.json` and
    /// `special_tokens_map.json`.
    ///
    /// # Errors
    ///
    /// [`EmbedError`] when files are missing or damaged, the model is of another kind, or ONNX
    /// Runtime cannot be loaded.
    pub fn from_folder(
        folder: impl AsRef<Path>,
        options: &OnnxOptions,
    ) -> Result<Self, EmbedError> {
        let folder = folder.as_ref();
        let files = ModelFolder::read(folder, MAX_TOKENS)?;
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

    /// Opens a model by its name: one of fastembed's (`JINARerankerV1TurboEn`), or its name on the
    /// hub (`jinaai/jina-reranker-v1-turbo-en`, or the part behind the slash).
    ///
    /// # Errors
    ///
    /// [`EmbedError`] when no model has this name, when it is not at hand and cannot be fetched, or
    /// when ONNX Runtime cannot be loaded.
    pub fn from_name(name: &str, options: &OnnxOptions) -> Result<Self, EmbedError> {
        let names =
            |info: &RerankerModelInfo| (format!("{:?}", info.model), info.model_code.clone());
        let info = onnx::find(TextRerank::list_supported_models(), names, name)?;
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
        // A first session tells fetching apart from loading.
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
        let mut first = session().map_err(|error| load(chain(&error)))?;
        score(&mut first, "probe", "probe")
            .map_err(|reason| load(format!("it is not a cross-encoder: {reason}")))?;
        let sessions = onnx::sessions(first, session).map_err(|error| load(chain(&error)))?;
        Ok(Self {
            shared: Arc::new(Shared {
                name: name.to_owned(),
                sessions,
            }),
        })
    }
}

impl Shared {
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
        let share = tools.len().div_ceil(self.sessions.len()).max(1);
        let one = |(candidate, tool): (usize, &String)| {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(failed("the deadline passed".to_owned()));
            }
            let mut session = self.sessions[candidate / share]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let score = score(&mut session, query, tool).map_err(failed)?;
            Ok(RerankScore { candidate, score })
        };
        tools.par_iter().enumerate().map(one).collect()
    }
}

/// What the model gives for one pair.
fn score(model: &mut TextRerank, query: &str, tool: &str) -> Result<f32, String> {
    // fastembed takes for granted that there is a row for each pair, and a number in it.
    let answer = caught("fastembed", || {
        model
            .rerank(query, [tool], false, Some(1))
            .map_err(|error| chain(&error))
    })?;
    answer
        .first()
        .map(|result| result.score)
        .ok_or_else(|| "it gave no number".to_owned())
}

impl Reranker for CrossEncoder {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn rerank<'a>(
        &'a self,
        query: &'a Query,
        window: &'a [Arc<Tool>],
        deadline: Option<Instant>,
    ) -> RerankFuture<'a> {
        Box::pin(async move {
            let shared = Arc::clone(&self.shared);
            let head = |text: &str| text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned();
            let query = head(query.text());
            let tools: Vec<String> = window
                .iter()
                .map(|tool| head(&EmbeddingText::new(tool).text))
                .collect();
            let work = tokio::task::spawn_blocking(move || shared.scores(&query, &tools, deadline));
            work.await.unwrap_or_else(|lost| {
                Err(RerankError::Failed {
                    reranker: self.shared.name.clone(),
                    reason: lost.to_string(),
                })
            })
        })
    }
}

impl std::fmt::Debug for CrossEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CrossEncoder")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}
