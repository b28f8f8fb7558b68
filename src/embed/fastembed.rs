//! Embedding models on ONNX Runtime, through the crate `fastembed`.
//!
//! A model is named, and then fetched once from its hub where the build can (feature `fastembed-download`), or it
//! is a local folder in the hub's layout. ONNX Runtime is a shared library that is loaded when the first model is,
//! so that a program without a model needs none.
//!
//! Texts go through the model one at a time, in parallel over a few sessions. Models with dynamically quantised
//! weights give a text another vector in other company, so batching them together would make vectors depend on
//! what happened to be cached; and on a CPU padding eats what a batch saves.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fastembed::{
    EmbeddingModel, InitOptionsUserDefined, ModelInfo, Pooling, TextEmbedding, TokenizerFiles,
    UserDefinedEmbeddingModel,
};
use rayon::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

#[cfg(feature = "cli")]
use super::models::{KnownModel, Place};
use super::{Embedder, Role};
use crate::error::EmbedError;

/// Where a model folder may hold its weights, in this order.
const MODEL_FILES: [&str; 4] = ["model.onnx", "model_quantized.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx"];
const TOKENIZER_FILE: &str = "tokenizer.json";
/// Longer texts are cut, in tokens. The models in question were trained on at most this much.
const MAX_TOKENS: usize = 256;
/// The most sessions of one model; each holds the weights once.
const MAX_SESSIONS: usize = 4;

/// How to open a model.
#[derive(Debug, Clone, Default)]
pub struct FastEmbedderOptions {
    /// The ONNX Runtime shared library; `None` leaves finding it to the system.
    ///
    /// The first model that is opened decides for the whole process.
    pub runtime: Option<PathBuf>,
    /// Where models that are fetched by name are kept.
    pub models_dir: Option<PathBuf>,
    /// Whether fetching a model draws a progress bar on standard error.
    pub show_download_progress: bool,
}

/// A model on ONNX Runtime.
pub struct FastEmbedder {
    identity: String,
    dimensions: usize,
    prompts: Prompts,
    /// The texts of one call are shared out evenly among them.
    sessions: Vec<Mutex<TextEmbedding>>,
}

/// What a model wants to read before a text.
#[derive(Default)]
struct Prompts {
    document: String,
    query: String,
}

impl FastEmbedder {
    /// Opens the model that lies in `folder`: the ONNX model and `tokenizer.json`, and where present `config.json`,
    /// `tokenizer_config.json`, `special_tokens_map.json`, `1_Pooling/config.json` and
    /// `config_sentence_transformers.json` (for its prompts). Without a pooling file the mean is taken.
    ///
    /// # Errors
    ///
    /// [`EmbedError`] when files are missing or damaged, or ONNX Runtime cannot be loaded.
    pub fn from_folder(folder: impl AsRef<Path>, options: &FastEmbedderOptions) -> Result<Self, EmbedError> {
        let folder = folder.as_ref();
        let files = ModelFolder::read(folder)?;
        load_runtime(options.runtime.as_deref())?;
        let identity = files.identity();
        let prompts = files.prompts();
        let open = || {
            let limits = InitOptionsUserDefined::new().with_max_length(MAX_TOKENS).with_intra_threads(1);
            TextEmbedding::try_new_from_user_defined(files.model(), limits)
        };
        Self::open(&folder.display().to_string(), identity, prompts, open)
    }

    /// Opens a model by its name: one of fastembed's (`BGESmallENV15`), or its name on the hub
    /// (`Xenova/bge-small-en-v1.5`, or the part behind the stroke).
    ///
    /// # Errors
    ///
    /// [`EmbedError`] when no model has this name, when it is not at hand and cannot be fetched, or when ONNX
    /// Runtime cannot be loaded.
    pub fn from_name(name: &str, options: &FastEmbedderOptions) -> Result<Self, EmbedError> {
        let info = find_model(name)?;
        load_runtime(options.runtime.as_deref())?;
        Self::fetch(name, &info, options)
    }

    #[cfg(feature = "fastembed-download")]
    fn fetch(name: &str, info: &ModelInfo<EmbeddingModel>, options: &FastEmbedderOptions) -> Result<Self, EmbedError> {
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
        // A first session tells fetching apart from loading.
        open().map_err(|error| EmbedError::Download {
            name: name.to_owned(),
            reason: chain(&error),
            remedy: "check the network, or name a folder that holds model.onnx and tokenizer.json".to_owned(),
        })?;
        Self::open(name, identity, Prompts::of(&info.model), open)
    }

    #[cfg(not(feature = "fastembed-download"))]
    fn fetch(name: &str, info: &ModelInfo<EmbeddingModel>, _: &FastEmbedderOptions) -> Result<Self, EmbedError> {
        Err(EmbedError::Download {
            name: name.to_owned(),
            reason: "this build cannot fetch models".to_owned(),
            remedy: format!(
                "build with the feature fastembed-download, or put {} and {TOKENIZER_FILE} of {} into a folder and name that",
                info.model_file, info.model_code
            ),
        })
    }

    fn open(
        name: &str,
        identity: String,
        prompts: Prompts,
        session: impl Fn() -> Result<TextEmbedding, fastembed::Error>,
    ) -> Result<Self, EmbedError> {
        let load = |error: fastembed::Error| EmbedError::Load { name: name.to_owned(), reason: chain(&error) };
        let mut first = session().map_err(load)?;
        let probe = first.embed(["probe"], None).map_err(load)?;
        let dimensions = probe.first().map_or(0, Vec::len);
        let count = rayon::current_num_threads().clamp(1, MAX_SESSIONS);
        let mut sessions = vec![Mutex::new(first)];
        for _ in 1..count {
            sessions.push(Mutex::new(session().map_err(load)?));
        }
        Ok(Self { identity, dimensions, prompts, sessions })
    }

    fn embed_one(&self, session: usize, prompt: &str, text: &str) -> Result<Vec<f32>, EmbedError> {
        let failed = |reason: String| EmbedError::Inference { model: self.identity.clone(), reason };
        // A panic inside the model leaves no half-made state behind: a session keeps none between texts.
        let mut model = self.sessions[session].lock().unwrap_or_else(PoisonError::into_inner);
        let vectors = model.embed([format!("{prompt}{text}")], None).map_err(|error| failed(chain(&error)))?;
        let mut vector = vectors.into_iter().next().ok_or_else(|| failed("it gave no vector".to_owned()))?;
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
        role: Role,
        texts: &[&str],
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let prompt = match role {
            Role::Document => &self.prompts.document,
            Role::Query => &self.prompts.query,
        };
        let done = AtomicUsize::new(0);
        let embed = |(session, text): (usize, &&str)| {
            let vector = self.embed_one(session, prompt, text)?;
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(vector)
        };
        if texts.len() == 1 {
            return texts.iter().map(|text| embed((0, text))).collect();
        }
        let share = texts.len().div_ceil(self.sessions.len()).max(1);
        texts.par_iter().enumerate().map(|(index, text)| embed((index / share, text))).collect()
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

/// Loads ONNX Runtime if it is not loaded; without this a missing library would be a panic later.
fn load_runtime(path: Option<&Path>) -> Result<(), EmbedError> {
    let system = format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = match path {
        Some(path) => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        None => PathBuf::from(system),
    };
    match ort::init_from(library) {
        Ok(_) => Ok(()),
        Err(error) => Err(EmbedError::Runtime { path: path.map(Path::to_owned), reason: error.to_string() }),
    }
}

/// The files of a local model.
struct ModelFolder {
    weights: Vec<u8>,
    tokenizer: Vec<u8>,
    config: Value,
    tokenizer_config: Value,
    special_tokens_map: Value,
    pooling: Pooling,
    sentence_config: Value,
}

impl ModelFolder {
    fn read(folder: &Path) -> Result<Self, EmbedError> {
        let weights = MODEL_FILES.iter().map(|file| folder.join(file)).find(|file| file.is_file());
        let tokenizer = Some(folder.join(TOKENIZER_FILE)).filter(|file| file.is_file());
        let (Some(weights), Some(tokenizer)) = (&weights, &tokenizer) else {
            let missing = [(weights.is_none(), MODEL_FILES[0]), (tokenizer.is_none(), TOKENIZER_FILE)];
            return Err(EmbedError::MissingFiles {
                path: folder.to_owned(),
                missing: missing.iter().filter(|(is, _)| *is).map(|(_, file)| (*file).to_owned()).collect(),
            });
        };
        let mut tokenizer_config = optional_json(folder, "tokenizer_config.json")?;
        // fastembed insists on these two; many published folders leave them out.
        tokenizer_config["pad_token"] = some_or(&tokenizer_config["pad_token"], json!("[PAD]"));
        tokenizer_config["model_max_length"] = some_or(&tokenizer_config["model_max_length"], json!(MAX_TOKENS));
        let pooling = optional_json(folder, "1_Pooling/config.json")?;
        Ok(Self {
            weights: read(weights)?,
            tokenizer: read(tokenizer)?,
            config: optional_json(folder, "config.json")?,
            tokenizer_config,
            special_tokens_map: optional_json(folder, "special_tokens_map.json")?,
            pooling: if pooling["pooling_mode_cls_token"] == true { Pooling::Cls } else { Pooling::Mean },
            sentence_config: optional_json(folder, "config_sentence_transformers.json")?,
        })
    }

    /// A digest over everything that the vectors depend on.
    fn identity(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(&self.weights);
        digest.update(&self.tokenizer);
        for part in [&self.config, &self.tokenizer_config, &self.special_tokens_map, &self.sentence_config] {
            digest.update(part.to_string());
        }
        digest.update([u8::from(self.pooling == Pooling::Cls)]);
        let hex: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("onnx:{hex}:{MAX_TOKENS}")
    }

    fn prompts(&self) -> Prompts {
        let prompt = |keys: [&str; 2]| {
            let prompts = &self.sentence_config["prompts"];
            keys.iter().find_map(|key| prompts[key].as_str()).unwrap_or_default().to_owned()
        };
        Prompts { document: prompt(["document", "passage"]), query: prompt(["query", "search_query"]) }
    }

    fn model(&self) -> UserDefinedEmbeddingModel {
        let tokenizer_files = TokenizerFiles {
            tokenizer_file: self.tokenizer.clone(),
            config_file: self.config.to_string().into_bytes(),
            special_tokens_map_file: self.special_tokens_map.to_string().into_bytes(),
            tokenizer_config_file: self.tokenizer_config.to_string().into_bytes(),
        };
        UserDefinedEmbeddingModel::new(self.weights.clone(), tokenizer_files).with_pooling(self.pooling.clone())
    }
}

#[cfg(feature = "fastembed-download")]
impl Prompts {
    /// The prompts that the makers of these families prescribe on their model cards.
    fn of(model: &EmbeddingModel) -> Self {
        let name = format!("{model:?}");
        let (document, query) = if name.starts_with("MultilingualE5") {
            ("passage: ", "query: ")
        } else if name.starts_with("NomicEmbedText") {
            ("search_document: ", "search_query: ")
        } else if name.starts_with("SnowflakeArctic") || name.starts_with("MxbaiEmbed") {
            ("", "Represent this sentence for searching relevant passages: ")
        } else {
            ("", "")
        };
        Self { document: document.to_owned(), query: query.to_owned() }
    }
}

fn find_model(name: &str) -> Result<ModelInfo<EmbeddingModel>, EmbedError> {
    let models = TextEmbedding::list_supported_models();
    let names = |info: &ModelInfo<EmbeddingModel>| {
        let hub = info.model_code.clone();
        let short = hub.rsplit('/').next().unwrap_or_default().to_owned();
        [format!("{:?}", info.model), hub, short]
    };
    if let Some(info) = models.iter().find(|info| names(info).iter().any(|known| known.eq_ignore_ascii_case(name))) {
        return Ok(info.clone());
    }
    let wanted = name.to_lowercase();
    let suggestion = models
        .iter()
        .flat_map(names)
        .map(|known| (strsim::jaro_winkler(&known.to_lowercase(), &wanted), known))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
        .map(|(_, known)| known);
    let mut known: Vec<String> = models.iter().map(|info| format!("{:?}", info.model)).collect();
    known.sort();
    Err(EmbedError::UnknownModel { name: name.to_owned(), suggestion, known })
}

/// Returns every model that has a name, by name; `hub` is the folder that fetched ones are kept in.
#[cfg(feature = "cli")]
pub(super) fn known(hub: Option<&Path>) -> Vec<KnownModel> {
    let describe = |info: ModelInfo<EmbeddingModel>| {
        let name = format!("{:?}", info.model);
        let files = hub.and_then(|hub| fetched(hub, &info));
        let bytes = files
            .as_ref()
            .map(|files| files.iter().filter_map(|file| fs::metadata(file).ok()).map(|metadata| metadata.len()).sum());
        let place = match files.and_then(|files| files.into_iter().next()) {
            Some(path) => Place::OnDisk { path },
            None if cfg!(feature = "fastembed-download") => {
                Place::NotHere { remedy: format!("picktools models pull {name}") }
            }
            None => Place::NotHere { remedy: "build with the feature fastembed-download".to_owned() },
        };
        let description = format!("{} ({})", info.description, info.model_code);
        KnownModel { name, dimensions: info.dim, bytes, licence: None, description, place }
    };
    let mut known: Vec<KnownModel> = TextEmbedding::list_supported_models().into_iter().map(describe).collect();
    known.sort_by(|a, b| a.name.cmp(&b.name));
    known
}

/// Returns the files of a model that was fetched, the weights first, if all are there; a build that fetches none looks
/// for none.
#[cfg(feature = "cli")]
fn fetched(hub: &Path, info: &ModelInfo<EmbeddingModel>) -> Option<Vec<PathBuf>> {
    const MORE_FILES: [&str; 4] = [TOKENIZER_FILE, "config.json", "special_tokens_map.json", "tokenizer_config.json"];
    let folder = hub.join(format!("models--{}", info.model_code.replace('/', "--")));
    let commit = fs::read_to_string(folder.join("refs/main")).ok().filter(|_| cfg!(feature = "fastembed-download"))?;
    let snapshot = folder.join("snapshots").join(commit.trim());
    let files = std::iter::once(&info.model_file).chain(&info.additional_files).map(String::as_str).chain(MORE_FILES);
    files.map(|file| Some(snapshot.join(file)).filter(|file| file.is_file())).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, EmbedError> {
    fs::read(path).map_err(|error| EmbedError::Load { name: path.display().to_string(), reason: error.to_string() })
}

/// Reads a JSON object; one that is not there is empty.
fn optional_json(folder: &Path, file: &str) -> Result<Value, EmbedError> {
    let path = folder.join(file);
    if !path.exists() {
        return Ok(json!({}));
    }
    let load = |reason: String| EmbedError::Load { name: path.display().to_string(), reason };
    match serde_json::from_slice(&read(&path)?) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(load("the file holds no JSON object".to_owned())),
        Err(error) => Err(load(error.to_string())),
    }
}

fn some_or(value: &Value, default: Value) -> Value {
    if value.is_null() { default } else { value.clone() }
}

/// The message of an error and of everything that caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
