//! Arguments that several commands share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::models::known::{self, STATIC, TUNED};
use super::{heading, output};
use picktools::embed::{EmbedError, Embedder};
use picktools::examples::Examples;
use picktools::options::{BlockedReporting, DEFAULT_RRF_K, Fusion, SelectionMode};
use picktools::rerank::Reranker;
use picktools::sequences::Sequences;
use picktools::skills::Skill;
use picktools::{Catalog, Engine, EngineBuilder, Mode, PickOptions};
#[cfg(feature = "onnx")]
use picktools_onnx::FastEmbedder;

/// The retrievers that rank.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ModeArg {
    /// Keywords only; no model is opened.
    Keyword,
    /// Semantic similarity only.
    Semantic,
    /// Keywords and semantic similarity.
    Hybrid,
}

/// The fusion of the retrievers' scores.
#[derive(Clone, Copy, ValueEnum)]
enum FusionArg {
    /// Weighted sum of the scores, with fitted weights.
    Weighted,
    /// Reciprocal rank fusion.
    Rrf,
}

/// The selection of picks from the ranking.
#[derive(Clone, Copy, ValueEnum)]
enum ChoiceArg {
    /// As a set that covers all parts of the request, without duplicates and with the tools that
    /// the picks require.
    Set,
    /// The tools with the best scores, each on its own.
    Best,
}

/// The cases in which the best ineligible match is reported.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TellBlockedArg {
    /// Never; ineligible tools are still counted, and named ones are listed.
    Never,
    /// Only if the tool is not reserved for other roles.
    ExceptRoles,
    /// Always, even if the tool is reserved for other roles.
    Always,
}

impl From<TellBlockedArg> for BlockedReporting {
    fn from(arg: TellBlockedArg) -> Self {
        match arg {
            TellBlockedArg::Never => Self::Never,
            TellBlockedArg::ExceptRoles => Self::ExceptRoles,
            TellBlockedArg::Always => Self::Always,
        }
    }
}

/// The options of the ranking.
#[derive(Args)]
#[command(next_help_heading = heading::RANKING)]
pub(super) struct RankingArgs {
    /// Method that combines keyword and semantic scores.
    #[arg(long, value_enum, default_value = "weighted")]
    fusion: FusionArg,
    /// Method that chooses the picks from the ranking.
    #[arg(long, value_enum, default_value = "set")]
    choice: ChoiceArg,
    #[command(flatten)]
    model: ModelArgs,
}

/// The retrievers, and the embedding model of the semantic one.
#[derive(Args)]
#[command(next_help_heading = heading::MODELS)]
pub(super) struct ModelArgs {
    /// Retrievers that rank the tools.
    #[arg(long, value_enum, default_value = "hybrid", help_heading = heading::RANKING)]
    mode: ModeArg,
    /// Embedding model [default: static].
    ///
    /// `static` and `tuned` come with picktools. Other values are a model's name (`picktools models
    /// list`), a folder with model.onnx and tokenizer.json, or a file in the format of `tuned`
    /// (FILE.onnx) or `static` (FILE.bin). With --embed-url it is the name of the model at that
    /// endpoint.
    #[arg(long, value_name = "static|tuned|NAME|DIR|FILE")]
    model: Option<String>,
    /// URL of an OpenAI-compatible embedding endpoint.
    ///
    /// For example http://localhost:11434/v1. The API key is read from PICKTOOLS_EMBED_API_KEY,
    /// else from OPENAI_API_KEY. Set the first to an empty value to send no key.
    #[arg(long, value_name = "URL")]
    embed_url: Option<String>,
    #[command(flatten)]
    folders: FolderArgs,
}

/// The folders of models, and the runtime that some models need.
#[derive(Args, Clone)]
#[command(next_help_heading = heading::MODELS)]
pub(super) struct FolderArgs {
    /// Shared library of ONNX Runtime.
    ///
    /// Models in a folder need it, and so do models given by name, except `static` and `tuned`.
    #[arg(long, value_name = "FILE", env = "ORT_DYLIB_PATH")]
    onnx_runtime: Option<PathBuf>,
    /// Folder for cached embeddings and downloaded models [default: user cache].
    ///
    /// The default is the folder `picktools` in the user's cache folder.
    #[arg(long, value_name = "DIR", env = "PICKTOOLS_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
}

impl RankingArgs {
    /// Returns the folders of models.
    pub(super) fn folders(&self) -> &FolderArgs {
        &self.model.folders
    }

    pub(super) fn apply(&self, options: &mut PickOptions) {
        options.mode = Some(self.mode());
        options.fusion = match self.fusion {
            FusionArg::Weighted => Fusion::Weighted,
            FusionArg::Rrf => Fusion::Rrf { k: DEFAULT_RRF_K },
        };
        options.choice = match self.choice {
            ChoiceArg::Set => SelectionMode::Set,
            ChoiceArg::Best => SelectionMode::Best,
        };
    }

    pub(super) fn mode(&self) -> Mode {
        self.model.mode()
    }

    /// Starts to load the static model in the background if it is the only model of a pick. A
    /// caller that needs the model earlier waits for it.
    pub(super) fn read_ahead(&self) {
        if self.mode() != Mode::Keyword
            && self.model.embed_url.is_none()
            && self.model.model_name() == STATIC
        {
            // If no thread can be started, the model is loaded when it is needed.
            drop(thread::Builder::new().spawn(|| drop(picktools::embed::StaticEmbedder::shared())));
        }
    }

    /// Opens the model and indexes `catalog` for one pick.
    ///
    /// A model that is not ready by `deadline`, or an endpoint that fails, does not fail the pick:
    /// the semantic stage reports the cause, and the other retrievers rank.
    pub(super) fn engine_for_pick(
        &self,
        catalog: Catalog,
        extras: EngineExtras,
        deadline: Option<Instant>,
    ) -> anyhow::Result<Engine> {
        let builder = Engine::builder(catalog);
        let (builder, is_quick) = match self.model.opener(self.model.mode, deadline)? {
            None => (builder.keyword_only(), true),
            Some(Opener {
                open,
                is_quick: true,
            }) => (builder.embedder(open()?), true),
            Some(Opener {
                open,
                is_quick: false,
            }) => (builder.optional_embedder(deadline, open), false),
        };
        let cache_dir = if is_quick {
            None
        } else {
            self.model.folders.cache_dir()
        };
        build(extras.add_to(builder), !is_quick, cache_dir)
    }

    /// Opens the model. It may serve several catalogs.
    pub(super) fn open_model(&self) -> anyhow::Result<Model> {
        self.model.open()
    }

    /// Opens the model in any mode, and the static model if that is another one.
    pub(super) fn open_models(&self) -> anyhow::Result<Vec<Model>> {
        let model = self.model.open_as(ModeArg::Hybrid)?;
        let shared = picktools::embed::StaticEmbedder::shared()?;
        let is_other = model.identity() != Some(shared.identity());
        let cache_dir = model.cache_dir.clone();
        let shared = Model {
            name: STATIC.to_owned(),
            embedder: Some(shared),
            cache_dir,
        };
        let mut models = vec![model];
        if is_other {
            models.push(shared);
        }
        Ok(models)
    }
}

impl ModelArgs {
    pub(super) fn mode(&self) -> Mode {
        match self.mode {
            ModeArg::Keyword => Mode::Keyword,
            ModeArg::Semantic => Mode::Semantic,
            ModeArg::Hybrid => Mode::Hybrid,
        }
    }

    /// Returns the name or path of the model, or the default.
    fn model_name(&self) -> &str {
        self.model.as_deref().unwrap_or(STATIC)
    }

    /// Opens the model; the keyword mode opens none.
    pub(super) fn open(&self) -> anyhow::Result<Model> {
        self.open_as(self.mode)
    }

    fn open_as(&self, mode: ModeArg) -> anyhow::Result<Model> {
        let embedder = match self.opener(mode, None)? {
            Some(opener) => Some((opener.open)()?),
            None => None,
        };
        let name = short_name(self.model_name());
        Ok(Model {
            name,
            embedder,
            cache_dir: self.folders.cache_dir(),
        })
    }

    /// Returns the function that opens the model, which may be slow. An endpoint must answer by
    /// `deadline`.
    fn opener(&self, mode: ModeArg, deadline: Option<Instant>) -> anyhow::Result<Option<Opener>> {
        let model = self.model_name();
        let folders = self.folders.clone();
        Ok(Some(match (mode, &self.embed_url, model) {
            (ModeArg::Keyword, ..) => return Ok(None),
            (_, Some(url), _) => self.endpoint(url, deadline)?,
            (_, None, STATIC) => Opener::quick(|| Ok(picktools::embed::StaticEmbedder::shared()?)),
            (_, None, TUNED) => folders.tuned()?,
            (_, None, model) if is_model_file(model, "onnx") => tuned_file(model)?,
            (_, None, model) if is_model_file(model, "bin") => static_file(model),
            (_, None, model) => folders.embedder(model)?,
        }))
    }

    fn endpoint(&self, url: &str, deadline: Option<Instant>) -> anyhow::Result<Opener> {
        let Some(model) = self.model.clone() else {
            anyhow::bail!("--embed-url needs --model NAME, the name of the model at that endpoint");
        };
        let options = picktools_llm::EndpointOptions {
            api_key: api_key()?,
            proxy_from_env: true,
            ..picktools_llm::EndpointOptions::default()
        };
        let url = url.to_owned();
        Ok(Opener::slow(move || {
            Ok(Arc::new(picktools_llm::EndpointEmbedder::open_until(
                &url, &model, &options, deadline,
            )?))
        }))
    }
}

impl FolderArgs {
    fn cache_dir(&self) -> Option<PathBuf> {
        self.cache_dir.clone().or_else(user_cache_dir)
    }

    /// Returns the folder of downloaded models.
    pub(super) fn models_dir(&self) -> Option<PathBuf> {
        self.cache_dir().map(|folder| folder.join("models"))
    }

    /// Returns the folder in which fastembed stores its downloads. `HF_HOME` comes first.
    pub(super) fn hub_dir(&self) -> Option<PathBuf> {
        match std::env::var_os("HF_HOME") {
            Some(folder) => Some(PathBuf::from(folder)),
            None => self.models_dir(),
        }
    }

    fn tuned(self) -> anyhow::Result<Opener> {
        Ok(Opener::slow(move || {
            Ok(known::open_tuned(self.models_dir().as_deref())?)
        }))
    }

    /// Returns the function that opens a model of fastembed, from a folder or by name. A missing
    /// model is downloaded.
    #[cfg(feature = "onnx")]
    pub(super) fn embedder(self, model: &str) -> anyhow::Result<Opener> {
        let model = model.to_owned();
        Ok(Opener::slow(move || {
            let options = self.onnx_options();
            let embedder = if Path::new(&model).is_dir() {
                FastEmbedder::from_folder(&model, &options)
            } else {
                FastEmbedder::from_name(&model, &options)
            };
            Ok(Arc::new(embedder.map_err(|error| {
                no_such_folder(&model, known::with_built_in_names(error))
            })?))
        }))
    }

    /// Opens a cross-encoder of fastembed, from a folder or by name. A missing model is downloaded.
    #[cfg(feature = "onnx")]
    pub(super) fn cross_encoder(&self, model: &str) -> anyhow::Result<Arc<dyn Reranker>> {
        let options = self.onnx_options();
        let reranker = if Path::new(model).is_dir() {
            picktools_onnx::CrossEncoder::from_folder(model, &options)
        } else {
            picktools_onnx::CrossEncoder::from_name(model, &options)
        };
        Ok(Arc::new(
            reranker.map_err(|error| no_such_folder(model, error))?,
        ))
    }

    #[cfg(not(feature = "onnx"))]
    pub(super) fn cross_encoder(&self, model: &str) -> anyhow::Result<Arc<dyn Reranker>> {
        anyhow::bail!(
            "cannot open the reranker {model:?}: this build contains no reranker; build with the \
             feature onnx"
        )
    }

    #[cfg(feature = "onnx")]
    fn onnx_options(&self) -> picktools_onnx::OnnxOptions {
        picktools_onnx::OnnxOptions {
            runtime: self
                .onnx_runtime
                .clone()
                .filter(|path| !path.as_os_str().is_empty()),
            models_dir: self.models_dir(),
            show_download_progress: true,
        }
    }

    #[cfg(not(feature = "onnx"))]
    pub(super) fn embedder(self, model: &str) -> anyhow::Result<Opener> {
        let suggestion = known::similar_built_in_name(model)
            .map(|name| format!(" (did you mean {name:?}?)"))
            .unwrap_or_default();
        anyhow::bail!(
            "cannot open the model {model:?}{suggestion}: this build contains only {STATIC} and \
             {TUNED}; build with the feature onnx"
        )
    }
}

/// Replaces the error of an unknown model whose name contains a path separator: the name was meant
/// as a folder.
#[cfg(feature = "onnx")]
fn no_such_folder(model: &str, error: EmbedError) -> EmbedError {
    match error {
        EmbedError::UnknownModel { .. } if model.contains(std::path::is_separator) => {
            EmbedError::MissingFolder { path: model.into() }
        }
        error => error,
    }
}

/// Returns `true` if `model` names a file of a built-in kind: `.onnx` for tuned models, `.bin` for
/// static ones.
fn is_model_file(model: &str, kind: &str) -> bool {
    let path = Path::new(model);
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case(kind))
        && !path.is_dir()
}

fn static_file(path: &str) -> Opener {
    let path = path.to_owned();
    Opener::quick(move || Ok(Arc::new(picktools::embed::StaticEmbedder::from_file(path)?)))
}

fn tuned_file(path: &str) -> anyhow::Result<Opener> {
    let path = path.to_owned();
    Ok(Opener::slow(move || {
        Ok(Arc::new(picktools_tuned::TunedEmbedder::from_file(path)?))
    }))
}

/// Returns the key of an embedding endpoint. An empty PICKTOOLS_EMBED_API_KEY keeps the other key
/// from being sent.
fn api_key() -> anyhow::Result<Option<String>> {
    first_variable(["PICKTOOLS_EMBED_API_KEY", "OPENAI_API_KEY"].into_iter())
}

/// Returns the value of the first variable that is set, even if it is empty.
pub(super) fn first_variable(
    names: impl Iterator<Item = &'static str>,
) -> anyhow::Result<Option<String>> {
    for name in names {
        match std::env::var(name) {
            Ok(key) => return Ok(Some(key)),
            Err(std::env::VarError::NotPresent) => {}
            Err(std::env::VarError::NotUnicode(_)) => anyhow::bail!("{name} is not valid UTF-8"),
        }
    }
    Ok(None)
}

/// Returns the name of a model for tables: a file or folder by its base name, unless that equals
/// the name of a built-in model.
fn short_name(model: &str) -> String {
    let base_name = Path::new(model).file_name().and_then(|name| name.to_str());
    match base_name {
        Some(name) if ![STATIC, TUNED].contains(&name) => name.to_owned(),
        _ => model.to_owned(),
    }
}

/// The function that opens a model.
pub(super) struct Opener {
    pub(super) open: Open,
    /// `true` if embedding is fast enough to need neither a progress bar nor a cache.
    is_quick: bool,
}

type Open = Box<dyn FnOnce() -> Result<Arc<dyn Embedder>, EmbedError> + Send>;

impl Opener {
    fn quick(
        open: impl FnOnce() -> Result<Arc<dyn Embedder>, EmbedError> + Send + 'static,
    ) -> Self {
        Self {
            open: Box::new(open),
            is_quick: true,
        }
    }

    fn slow(open: impl FnOnce() -> Result<Arc<dyn Embedder>, EmbedError> + Send + 'static) -> Self {
        Self {
            open: Box::new(open),
            is_quick: false,
        }
    }
}

/// An open model; empty in the keyword mode.
pub(super) struct Model {
    name: String,
    embedder: Option<Arc<dyn Embedder>>,
    cache_dir: Option<PathBuf>,
}

impl Model {
    /// Returns the name for tables.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the identity of the vectors, or `None` without a model.
    pub(super) fn identity(&self) -> Option<&str> {
        self.embedder.as_ref().map(|embedder| embedder.identity())
    }

    /// Returns the embedder unless it is the static model, which always ranks.
    pub(super) fn unless_static(&self) -> Option<Arc<dyn Embedder>> {
        let embedder = self.embedder.as_ref()?;
        if let Ok(shared) = picktools::embed::StaticEmbedder::shared()
            && shared.identity() == embedder.identity()
        {
            return None;
        }
        Some(Arc::clone(embedder))
    }

    /// Indexes `catalog` without skills, history or reranker.
    pub(super) fn engine(&self, catalog: Catalog) -> anyhow::Result<Engine> {
        self.engine_with(catalog, EngineExtras::default())
    }

    pub(super) fn engine_with(
        &self,
        catalog: Catalog,
        extras: EngineExtras,
    ) -> anyhow::Result<Engine> {
        let builder = match &self.embedder {
            Some(embedder) => Engine::builder(catalog).embedder(Arc::clone(embedder)),
            None => Engine::builder(catalog).keyword_only(),
        };
        // A model that needs no cache needs no progress bar either.
        let is_slow = self
            .embedder
            .as_ref()
            .is_some_and(|embedder| embedder.worth_caching());
        let cache_dir = if is_slow {
            self.cache_dir.clone()
        } else {
            None
        };
        build(extras.add_to(builder), is_slow, cache_dir)
    }
}

/// Indexes a catalog, with a progress bar for a slow model, and warns about problems of the cache.
fn build(
    builder: EngineBuilder,
    is_slow: bool,
    cache_dir: Option<PathBuf>,
) -> anyhow::Result<Engine> {
    let mut builder = builder.token_counter(Arc::new(picktools_provider::Definitions));
    let bar = is_slow.then(|| progress_bar("embedding"));
    if let Some(bar) = bar.clone() {
        builder = builder.on_progress(move |done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        });
    }
    if let Some(folder) = cache_dir {
        builder = builder.cache_dir(folder.join("embeddings"));
    }
    let engine = builder.build();
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let engine = engine?;
    if let Some(cache) = engine.stats().cache {
        for reason in [cache.read_error, cache.write_error].into_iter().flatten() {
            output::warn(format!(
                "the embedding cache cannot be used fully: {reason}"
            ));
        }
        if cache.damaged_segments > 0 {
            output::warn(format!(
                "replaced {} damaged files of the embedding cache",
                cache.damaged_segments
            ));
        }
    }
    Ok(engine)
}

/// The optional inputs of an engine: skills, history and reranker.
#[derive(Clone, Default)]
pub(super) struct EngineExtras {
    pub(super) skills: Option<Vec<Skill>>,
    pub(super) sequences: Option<Sequences>,
    pub(super) examples: Option<Examples>,
    pub(super) reranker: Option<Arc<dyn Reranker>>,
}

impl EngineExtras {
    fn add_to(self, mut builder: EngineBuilder) -> EngineBuilder {
        if let Some(skills) = self.skills {
            builder = builder.skills(skills);
        }
        if let Some(sequences) = self.sequences {
            builder = builder.sequences(sequences);
        }
        if let Some(examples) = self.examples {
            builder = builder.examples(examples);
        }
        match self.reranker {
            Some(reranker) => builder.reranker(reranker),
            None => builder,
        }
    }
}

/// Creates a progress bar that is visible only on a terminal.
pub(super) fn progress_bar(message: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} ({eta})");
    let bar = ProgressBar::new(0).with_message(message);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Returns the default folder of caches.
fn user_cache_dir() -> Option<PathBuf> {
    let folders = directories::ProjectDirs::from("", "", "picktools")?;
    Some(folders.cache_dir().to_owned())
}

/// Returns the folder of caches for commands without --cache-dir.
pub(super) fn default_cache_dir() -> Option<PathBuf> {
    match std::env::var_os("PICKTOOLS_CACHE_DIR") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => user_cache_dir(),
    }
}

/// Returns the folder of data that must not be lost, such as approvals. The path is absolute,
/// because clients start programs in folders of their own.
pub(super) fn data_dir() -> anyhow::Result<PathBuf> {
    use anyhow::Context;
    if let Some(folder) = std::env::var_os("PICKTOOLS_DATA_DIR")
        && !folder.is_empty()
    {
        return Ok(std::path::absolute(folder)?);
    }
    let folders = directories::ProjectDirs::from("", "", "picktools")
        .context("no data folder found; set PICKTOOLS_DATA_DIR")?;
    Ok(folders.data_dir().to_owned())
}
