//! The common parts of models on ONNX Runtime: the library, model folders and model names.
//!
//! ONNX Runtime is a shared library. It is loaded with the first model, so a program that uses no
//! such model does not need it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fastembed::TokenizerFiles;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use picktools::embed::EmbedError;

/// The files of a folder that may contain the weights, in order of preference.
const MODEL_FILES: [&str; 4] = [
    "model.onnx",
    "model_quantized.onnx",
    "onnx/model.onnx",
    "onnx/model_quantized.onnx",
];
/// The file with the tokenizer.
pub(crate) const TOKENIZER_FILE: &str = "tokenizer.json";
/// The largest number of sessions of a model. Each session has a copy of the weights.
const MAX_SESSIONS: usize = 4;

/// The options of a model on ONNX Runtime.
#[derive(Debug, Clone, Default)]
pub struct OnnxOptions {
    /// The ONNX Runtime shared library. If `None`, the system finds it.
    ///
    /// The first opened model decides for the process.
    pub runtime: Option<PathBuf>,
    /// The folder of models that are fetched by name.
    pub models_dir: Option<PathBuf>,
    /// Shows a progress bar on standard error while a model is fetched.
    pub show_download_progress: bool,
}

/// Loads ONNX Runtime, unless it is loaded. Otherwise a missing library would cause a panic later.
pub(crate) fn load_runtime(path: Option<&Path>) -> Result<(), EmbedError> {
    let system = format!(
        "{}onnxruntime{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let library = match path {
        Some(path) => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        None => PathBuf::from(system),
    };
    match ort::init_from(library) {
        Ok(_) => Ok(()),
        Err(error) => Err(EmbedError::Runtime {
            path: path.map(Path::to_owned),
            reason: error.to_string(),
        }),
    }
}

/// The files of a local model.
pub(crate) struct ModelFolder {
    pub(crate) weights: Vec<u8>,
    tokenizer: Vec<u8>,
    config: Value,
    tokenizer_config: Value,
    special_tokens_map: Value,
}

impl ModelFolder {
    /// Reads the model of a folder.
    ///
    /// Texts are cut after `max_tokens`, unless the model has a lower limit.
    pub(crate) fn open(folder: &Path, max_tokens: usize) -> Result<Self, EmbedError> {
        let weights = MODEL_FILES
            .iter()
            .map(|file| folder.join(file))
            .find(|file| file.is_file());
        let tokenizer = Some(folder.join(TOKENIZER_FILE)).filter(|file| file.is_file());
        let (Some(weights), Some(tokenizer)) = (&weights, &tokenizer) else {
            let missing = [
                (weights.is_none(), MODEL_FILES[0]),
                (tokenizer.is_none(), TOKENIZER_FILE),
            ];
            return Err(EmbedError::MissingFiles {
                path: folder.to_owned(),
                missing: missing
                    .iter()
                    .filter(|(is_missing, _)| *is_missing)
                    .map(|(_, file)| (*file).to_owned())
                    .collect(),
            });
        };
        let mut tokenizer_config = optional_json(folder, "tokenizer_config.json")?;
        // fastembed requires these two members, which many published models omit.
        tokenizer_config["pad_token"] = some_or(&tokenizer_config["pad_token"], json!("[PAD]"));
        tokenizer_config["model_max_length"] =
            some_or(&tokenizer_config["model_max_length"], json!(max_tokens));
        Ok(Self {
            weights: read_file(weights)?,
            tokenizer: read_file(tokenizer)?,
            config: optional_json(folder, "config.json")?,
            tokenizer_config,
            special_tokens_map: optional_json(folder, "special_tokens_map.json")?,
        })
    }

    /// Returns a digest over the files, which the caller can extend.
    pub(crate) fn digest(&self) -> Sha256 {
        let mut digest = Sha256::new();
        digest.update(&self.weights);
        digest.update(&self.tokenizer);
        for part in [
            &self.config,
            &self.tokenizer_config,
            &self.special_tokens_map,
        ] {
            digest.update(part.to_string());
        }
        digest
    }

    pub(crate) fn tokenizer_files(&self) -> TokenizerFiles {
        TokenizerFiles {
            tokenizer_file: self.tokenizer.clone(),
            config_file: self.config.to_string().into_bytes(),
            special_tokens_map_file: self.special_tokens_map.to_string().into_bytes(),
            tokenizer_config_file: self.tokenizer_config.to_string().into_bytes(),
        }
    }
}

/// Opens further sessions of a model, one per thread up to the limit.
pub(crate) fn open_sessions<T, E>(
    first: T,
    open: impl Fn() -> Result<T, E>,
) -> Result<Vec<Mutex<T>>, E> {
    let count = rayon::current_num_threads().clamp(1, MAX_SESSIONS);
    let mut sessions = vec![Mutex::new(first)];
    for _ in 1..count {
        sessions.push(Mutex::new(open()?));
    }
    Ok(sessions)
}

/// Finds a model by its name in fastembed, its name on the hub, or the last part of that.
pub(crate) fn find_model<M>(
    models: Vec<M>,
    own_and_hub: impl Fn(&M) -> (String, String),
    name: &str,
) -> Result<M, EmbedError> {
    let mut similar: Option<(f64, String)> = None;
    let mut known_names = Vec::new();
    for model in models {
        let (own, hub) = own_and_hub(&model);
        let short = hub.rsplit('/').next().unwrap_or_default().to_owned();
        known_names.push(own.clone());
        for candidate in [own, hub, short] {
            if candidate.eq_ignore_ascii_case(name) {
                return Ok(model);
            }
            let similarity = strsim::jaro_winkler(&candidate.to_lowercase(), &name.to_lowercase());
            if similarity > similar.as_ref().map_or(0.8, |(best, _)| *best) {
                similar = Some((similarity, candidate));
            }
        }
    }
    known_names.sort();
    let suggestion = similar.map(|(_, candidate)| candidate);
    Err(EmbedError::UnknownModel {
        name: name.to_owned(),
        suggestion,
        known: known_names,
    })
}

/// Returns the error of a model that could not be fetched from its hub.
#[cfg(feature = "onnx-download")]
pub(crate) fn not_fetched(name: &str, error: &fastembed::Error) -> EmbedError {
    EmbedError::Download {
        name: name.to_owned(),
        reason: join_causes(error),
        remedy: "check the network, or name a folder with model.onnx and tokenizer.json".to_owned(),
    }
}

/// Returns the error of a build that cannot fetch models.
#[cfg(not(feature = "onnx-download"))]
pub(crate) fn no_fetching(name: &str, on_hub: &str, weights: &str) -> EmbedError {
    EmbedError::Download {
        name: name.to_owned(),
        reason: "this build cannot fetch models".to_owned(),
        remedy: format!(
            "build with the feature onnx-download, or put {weights} and {TOKENIZER_FILE} of \
             {on_hub} into a folder and name the folder"
        ),
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, EmbedError> {
    fs::read(path).map_err(|error| EmbedError::Load {
        name: path.display().to_string(),
        reason: error.to_string(),
    })
}

/// Reads a JSON object. A missing file gives an empty object.
pub(crate) fn optional_json(folder: &Path, file: &str) -> Result<Value, EmbedError> {
    let path = folder.join(file);
    if !path.exists() {
        return Ok(json!({}));
    }
    let load = |reason: String| EmbedError::Load {
        name: path.display().to_string(),
        reason,
    };
    match serde_json::from_slice(&read_file(&path)?) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(load("the file is not a JSON object".to_owned())),
        Err(error) => Err(load(error.to_string())),
    }
}

/// Returns the value, or the default if it is null.
fn some_or(value: &Value, default: Value) -> Value {
    if value.is_null() {
        default
    } else {
        value.clone()
    }
}

/// Returns the messages of an error and its causes, joined by colons.
pub(crate) fn join_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
