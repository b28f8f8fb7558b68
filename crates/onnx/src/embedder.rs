//! Embedding models on ONNX Runtime, through the crate `fastembed`.
//!
//! A model is a local folder in the hub's layout, or a name. A named model is fetched once from its
//! hub if the build allows it (feature `onnx-download`).
//!
//! Texts are embedded one at a time, in parallel over several sessions. In a model with dynamically
//! quantised weights, the vector of a text depends on the other texts of a batch. With batches,
//! vectors would depend on the state of the cache. On a CPU, padding also costs what a batch saves.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use fastembed::{
    EmbeddingModel, InitOptionsUserDefined, ModelInfo, Pooling, TextEmbedding,
    UserDefinedEmbeddingModel,
};
use rayon::prelude::*;
use serde_json::Value;
use sha2::Digest;

use crate::onnx;
use crate::onnx::{ModelFolder, OnnxOptions, join_causes, load_runtime, optional_json};
use picktools::embed::EmbedError;
use picktools::embed::{EmbedProgress, Embedder, TextRole, check_deadline};

/// The number of tokens after which a text is cut. The usual models were trained with at most this.
const MAX_TOKENS: usize = 256;

/// A model on ONNX Runtime.
pub struct FastEmbedder {
    identity: String,
    dimensions: usize,
    prompts: Prompts,
    /// The sessions, among which the texts of a call are divided evenly.
    sessions: Vec<Mutex<TextEmbedding>>,
}

/// The prefixes that a model expects in front of texts.
#[derive(Default)]
struct Prompts {
    document: String,
    query: String,
}

/// A model of a hub.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HubModel {
    /// The name for [`FastEmbedder::from_name`].
    pub name: String,
    /// The repository on the hub.
    pub repository: String,
    /// A description in one line.
    pub description: String,
    /// The number of dimensions of its vectors.
    pub dimensions: usize,
    /// The files, the weights first; empty unless all of them were fetched.
    pub fetched: Vec<PathBuf>,
}

impl FastEmbedder {
    /// Opens the model in `folder`.
    ///
    /// The folder needs the ONNX model and `tokenizer.json`. It may have `config.json`,
    /// `tokenizer_config.json`, `special_tokens_map.json`, `1_Pooling/config.json` and
    /// `config_sentence_transformers.json` (for prompts). Without a pooling file, the vector is the
    /// mean over the tokens.
    ///
    /// # Errors
    ///
    /// [`EmbedError`] if files are missing or damaged, or ONNX Runtime cannot be loaded.
    pub fn from_folder(
        folder: impl AsRef<Path>,
        options: &OnnxOptions,
    ) -> Result<Self, EmbedError> {
        let folder = folder.as_ref();
        let files = EmbeddingFolder::open(folder)?;
        load_runtime(options.runtime.as_deref())?;
        let identity = files.identity();
        let prompts = files.prompts();
        let open = || {
            let limits = InitOptionsUserDefined::new()
                .with_max_length(MAX_TOKENS)
                .with_intra_threads(1);
            TextEmbedding::try_new_from_user_defined(files.model(), limits)
        };
        Self::open(&folder.display().to_string(), identity, prompts, open)
    }

    /// Opens a model by name.
    ///
    /// The name is that of fastembed (`BGESmallENV15`), or that of the hub
    /// (`Xenova/bge-small-en-v1.5`, or the part after the slash).
    ///
    /// # Errors
    ///
    /// [`EmbedError`] if the name is unknown, the model is missing and cannot be fetched, or ONNX
    /// Runtime cannot be loaded.
    pub fn from_name(name: &str, options: &OnnxOptions) -> Result<Self, EmbedError> {
        let names = |info: &ModelInfo<EmbeddingModel>| {
            (format!("{:?}", info.model), info.model_code.clone())
        };
        let info = onnx::find_model(TextEmbedding::list_supported_models(), names, name)?;
        load_runtime(options.runtime.as_deref())?;
        Self::fetch(name, &info, options)
    }

    /// Returns the models that [`FastEmbedder::from_name`] opens, sorted by name.
    ///
    /// `models_dir` is the folder with fetched models.
    pub fn known_models(models_dir: Option<&Path>) -> Vec<HubModel> {
        let describe = |info: ModelInfo<EmbeddingModel>| HubModel {
            name: format!("{:?}", info.model),
            dimensions: info.dim,
            fetched: models_dir
                .and_then(|folder| fetched_files(folder, &info))
                .unwrap_or_default(),
            description: info.description,
            repository: info.model_code,
        };
        let mut models: Vec<HubModel> = TextEmbedding::list_supported_models()
            .into_iter()
            .map(describe)
            .collect();
        models.sort_by(|a, b| a.name.cmp(&b.name));
        models
    }

    #[cfg(feature = "onnx-download")]
    fn fetch(
        name: &str,
        info: &ModelInfo<EmbeddingModel>,
        options: &OnnxOptions,
    ) -> Result<Self, EmbedError> {
        let open = || {
            let mut init = fastembed::TextInitOptions::new(info.model.clone())
                .with_max_length(MAX_TOKENS)
                .with_intra_threads(1)
                .with_show_download_progress(options.show_download_progress);
            if let Some(models_dir) = &options.models_dir {
                init = init.with_cache_dir(models_dir.clone());
            }
            TextEmbedding::try_new(init)
        };
        let identity = format!("fastembed:{}:{}", info.model_code, info.model_file);
        // A first session distinguishes errors of fetching from errors of loading.
        open().map_err(|error| onnx::not_fetched(name, &error))?;
        Self::open(name, identity, Prompts::from_family(&info.model), open)
    }

    #[cfg(not(feature = "onnx-download"))]
    fn fetch(
        name: &str,
        info: &ModelInfo<EmbeddingModel>,
        _: &OnnxOptions,
    ) -> Result<Self, EmbedError> {
        Err(onnx::no_fetching(name, &info.model_code, &info.model_file))
    }

    fn open(
        name: &str,
        identity: String,
        prompts: Prompts,
        session: impl Fn() -> Result<TextEmbedding, fastembed::Error>,
    ) -> Result<Self, EmbedError> {
        let load = |error: fastembed::Error| EmbedError::Load {
            name: name.to_owned(),
            reason: join_causes(&error),
        };
        let mut first = session().map_err(load)?;
        let probe = first.embed(["probe"], None).map_err(load)?;
        let dimensions = probe.first().map_or(0, Vec::len);
        let sessions = onnx::open_sessions(first, session).map_err(load)?;
        Ok(Self {
            identity,
            dimensions,
            prompts,
            sessions,
        })
    }

    fn embed_one(&self, session: usize, prompt: &str, text: &str) -> Result<Vec<f32>, EmbedError> {
        let failed = |reason: String| EmbedError::Inference {
            model: self.identity.clone(),
            reason,
        };
        // A session is usable after a panic, because it has no state between texts.
        let mut model = self.sessions[session]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let vectors = model
            .embed([format!("{prompt}{text}")], None)
            .map_err(|error| failed(join_causes(&error)))?;
        let mut vector = vectors
            .into_iter()
            .next()
            .ok_or_else(|| failed("it returned no vector".to_owned()))?;
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|value| *value /= length);
        }
        Ok(vector)
    }
}

impl Embedder for FastEmbedder {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_until(role, texts, progress, None)
    }

    fn embed_until(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let prompt = match role {
            TextRole::Document => &self.prompts.document,
            TextRole::Query => &self.prompts.query,
        };
        let done = AtomicUsize::new(0);
        let embed = |(session, text): (usize, &&str)| {
            check_deadline(deadline)?;
            let vector = self.embed_one(session, prompt, text)?;
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(vector)
        };
        if texts.len() == 1 {
            return texts.iter().map(|text| embed((0, text))).collect();
        }
        let texts_per_session = texts.len().div_ceil(self.sessions.len()).max(1);
        texts
            .par_iter()
            .enumerate()
            .map(|(index, text)| embed((index / texts_per_session, text)))
            .collect()
    }
}

impl std::fmt::Debug for FastEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FastEmbedder")
            .field("identity", &self.identity)
            .field("dimensions", &self.dimensions)
            .field("sessions", &self.sessions.len())
            .finish_non_exhaustive()
    }
}

/// The files of a local embedding model.
struct EmbeddingFolder {
    files: ModelFolder,
    pooling: Pooling,
    sentence_config: Value,
}

impl EmbeddingFolder {
    fn open(folder: &Path) -> Result<Self, EmbedError> {
        let files = ModelFolder::open(folder, MAX_TOKENS)?;
        let pooling = optional_json(folder, "1_Pooling/config.json")?;
        Ok(Self {
            files,
            pooling: if pooling["pooling_mode_cls_token"] == true {
                Pooling::Cls
            } else {
                Pooling::Mean
            },
            sentence_config: optional_json(folder, "config_sentence_transformers.json")?,
        })
    }

    /// Returns the identity of the model: a digest over everything that affects the vectors.
    fn identity(&self) -> String {
        let mut digest = self.files.digest();
        digest.update(self.sentence_config.to_string());
        digest.update([u8::from(self.pooling == Pooling::Cls)]);
        let hex: String = digest
            .finalize()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("onnx:{hex}:{MAX_TOKENS}")
    }

    fn prompts(&self) -> Prompts {
        let prompt = |keys: [&str; 2]| {
            let prompts = &self.sentence_config["prompts"];
            keys.iter()
                .find_map(|key| prompts[key].as_str())
                .unwrap_or_default()
                .to_owned()
        };
        Prompts {
            document: prompt(["document", "passage"]),
            query: prompt(["query", "search_query"]),
        }
    }

    fn model(&self) -> UserDefinedEmbeddingModel {
        let model = UserDefinedEmbeddingModel::new(
            self.files.weights.clone(),
            self.files.tokenizer_files(),
        );
        model.with_pooling(self.pooling.clone())
    }
}

#[cfg(feature = "onnx-download")]
impl Prompts {
    /// Returns the prompts that the model cards of these families prescribe.
    fn from_family(model: &EmbeddingModel) -> Self {
        let name = format!("{model:?}");
        let (document, query) = if name.starts_with("MultilingualE5") {
            ("passage: ", "query: ")
        } else if name.starts_with("NomicEmbedText") {
            ("search_document: ", "search_query: ")
        } else if name.starts_with("SnowflakeArctic") || name.starts_with("MxbaiEmbed") {
            (
                "",
                "Represent this sentence for searching relevant passages: ",
            )
        } else {
            ("", "")
        };
        Self {
            document: document.to_owned(),
            query: query.to_owned(),
        }
    }
}

/// Returns the files of a fetched model, the weights first, if all of them exist.
///
/// Returns `None` in a build without `onnx-download`.
fn fetched_files(hub: &Path, info: &ModelInfo<EmbeddingModel>) -> Option<Vec<PathBuf>> {
    const MORE_FILES: [&str; 4] = [
        onnx::TOKENIZER_FILE,
        "config.json",
        "special_tokens_map.json",
        "tokenizer_config.json",
    ];
    let folder = hub.join(format!("models--{}", info.model_code.replace('/', "--")));
    let commit = fs::read_to_string(folder.join("refs/main"))
        .ok()
        .filter(|_| cfg!(feature = "onnx-download"))?;
    let snapshot = folder.join("snapshots").join(commit.trim());
    let files = std::iter::once(&info.model_file)
        .chain(&info.additional_files)
        .map(String::as_str)
        .chain(MORE_FILES);
    files
        .map(|file| Some(snapshot.join(file)).filter(|file| file.is_file()))
        .collect()
}
