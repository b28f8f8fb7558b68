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
use picktools::options::{Choice, DEFAULT_RRF_K, Fusion, TellBlocked};
use picktools::rerank::Reranker;
use picktools::sequences::Sequences;
use picktools::skills::Skill;
use picktools::{Catalog, Engine, EngineBuilder, Mode, PickOptions};
#[cfg(feature = "onnx")]
use picktools_onnx::FastEmbedder;

/// Which retrievers rank.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ModeArg {
    /// Words only; no model is opened.
    Keyword,
    /// Meaning only.
    Semantic,
    /// Both.
    Hybrid,
}

/// How the retrievers' scores become one.
#[derive(Clone, Copy, ValueEnum)]
enum FusionArg {
    /// A weighted sum of scores, with fitted weights.
    Weighted,
    /// Reciprocal rank fusion.
    Rrf,
}

/// How the picks are chosen from the ranking.
#[derive(Clone, Copy, ValueEnum)]
enum ChoiceArg {
    /// As a set, that covers the parts of the request, repeats no tool, and has what the picks
    /// require.
    Set,
    /// Each for itself: those that score best.
    Best,
}

/// When the best match that may not be used is told of.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TellBlockedArg {
    /// For callers who must not learn of such tools.
    Never,
    /// Unless it is for other roles.
    ExceptRoles,
    /// Whatever the reasons.
    Always,
}

impl From<TellBlockedArg> for TellBlocked {
    fn from(arg: TellBlockedArg) -> Self {
        match arg {
            TellBlockedArg::Never => Self::Never,
            TellBlockedArg::ExceptRoles => Self::ExceptRoles,
            TellBlockedArg::Always => Self::Always,
        }
    }
}

/// How tools are ranked.
#[derive(Args)]
#[command(next_help_heading = heading::RANKING)]
pub(super) struct RankingArgs {
    /// How keyword and semantic scores become one.
    #[arg(long, value_enum, default_value = "weighted")]
    fusion: FusionArg,
    /// How the picks are chosen from the ranking.
    #[arg(long, value_enum, default_value = "set")]
    choice: ChoiceArg,
    #[command(flatten)]
    model: ModelArgs,
}

/// Which retrievers there are, and the embedding model of the semantic one.
#[derive(Args)]
#[command(next_help_heading = heading::MODELS)]
pub(super) struct ModelArgs {
    /// What ranks.
    #[arg(long, value_enum, default_value = "hybrid", help_heading = heading::RANKING)]
    mode: ModeArg,
    /// Embedding model: `static` or `tuned` (our own), a model's name (`picktools models list`), a
    /// folder with model.onnx and tokenizer.json, a file of the tuned kind (FILE.onnx) or the
    /// static kind (FILE.bin), or the name that the endpoint of --embed-url gives it [default:
    /// static].
    #[arg(long, value_name = "static|tuned|NAME|DIR|FILE")]
    model: Option<String>,
    /// OpenAI-compatible embedding endpoint, such as http://localhost:11434/v1; its key is read
    /// from PICKTOOLS_EMBED_API_KEY, else from OPENAI_API_KEY; set the first to nothing to send
    /// none.
    #[arg(long, value_name = "URL")]
    embed_url: Option<String>,
    #[command(flatten)]
    folders: FolderArgs,
}

/// Where models are kept, and what some of them need.
#[derive(Args, Clone)]
#[command(next_help_heading = heading::MODELS)]
pub(super) struct FolderArgs {
    /// ONNX Runtime shared library.
    #[arg(long, value_name = "FILE", env = "ORT_DYLIB_PATH")]
    onnx_runtime: Option<PathBuf>,
    /// Where embeddings and fetched models are kept [default: the user's cache folder].
    #[arg(long, value_name = "DIR", env = "PICKTOOLS_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
}

impl RankingArgs {
    /// Where models are kept.
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
            ChoiceArg::Set => Choice::Set,
            ChoiceArg::Best => Choice::Best,
        };
    }

    pub(super) fn mode(&self) -> Mode {
        self.model.mode()
    }

    /// Reads the static model, where a pick asks no other, while something else is read. Whoever
    /// needs it sooner waits for it.
    pub(super) fn read_ahead(&self) {
        if self.mode() != Mode::Keyword
            && self.model.embed_url.is_none()
            && self.model.named() == STATIC
        {
            // Without a thread it is read when it is needed.
            drop(thread::Builder::new().spawn(|| drop(picktools::embed::StaticEmbedder::shared())));
        }
    }

    /// Opens the model and indexes `catalog` for a pick, which a model does not stand in the way of
    /// that is not ready by `deadline`, or an endpoint that fails: the semantic stage then fails
    /// for that reason, and the other retrievers rank.
    pub(super) fn engine_for_pick(
        &self,
        catalog: Catalog,
        beside: Beside,
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
        let cache_dir = (!is_quick)
            .then(|| self.model.folders.cache_dir())
            .flatten();
        build(beside.into(builder), !is_quick, cache_dir)
    }

    /// Opens the model, which may serve several catalogs.
    pub(super) fn open_model(&self) -> anyhow::Result<Model> {
        self.model.open()
    }

    /// Opens the model whatever the mode, and after it the static one where that is another.
    pub(super) fn open_models(&self) -> anyhow::Result<Vec<Model>> {
        let named = self.model.open_as(ModeArg::Hybrid)?;
        let shared = picktools::embed::StaticEmbedder::shared()?;
        let is_other = named.identity() != Some(shared.identity());
        let cache_dir = named.cache_dir.clone();
        let shared = Model {
            name: STATIC.to_owned(),
            embedder: Some(shared),
            cache_dir,
        };
        Ok(std::iter::once(named)
            .chain(is_other.then_some(shared))
            .collect())
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

    /// Returns the model's name or path, as it is given or by default.
    fn named(&self) -> &str {
        self.model.as_deref().unwrap_or(STATIC)
    }

    /// Opens the model; a mode that needs none leaves it closed.
    pub(super) fn open(&self) -> anyhow::Result<Model> {
        self.open_as(self.mode)
    }

    fn open_as(&self, mode: ModeArg) -> anyhow::Result<Model> {
        let embedder = self
            .opener(mode, None)?
            .map(|opener| (opener.open)())
            .transpose()?;
        let name = short_name(self.named());
        Ok(Model {
            name,
            embedder,
            cache_dir: self.folders.cache_dir(),
        })
    }

    /// Says how the model is opened, which may take long; an endpoint answers by `deadline`.
    fn opener(&self, mode: ModeArg, deadline: Option<Instant>) -> anyhow::Result<Option<Opener>> {
        let model = self.named();
        let folders = self.folders.clone();
        Ok(Some(match (mode, &self.embed_url, model) {
            (ModeArg::Keyword, ..) => return Ok(None),
            (_, Some(url), _) => self.endpoint(url, deadline)?,
            (_, None, STATIC) => Opener::quick(|| Ok(picktools::embed::StaticEmbedder::shared()?)),
            (_, None, TUNED) => folders.tuned()?,
            (_, None, model) if is_file_of(model, "onnx") => tuned_file(model)?,
            (_, None, model) if is_file_of(model, "bin") => static_file(model),
            (_, None, model) => folders.embedder(model)?,
        }))
    }

    fn endpoint(&self, url: &str, deadline: Option<Instant>) -> anyhow::Result<Opener> {
        let Some(model) = self.model.clone() else {
            anyhow::bail!("--embed-url needs --model NAME: the model to ask that endpoint for");
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

    /// Where fetched models are kept.
    pub(super) fn models_dir(&self) -> Option<PathBuf> {
        self.cache_dir().map(|folder| folder.join("models"))
    }

    /// Where fastembed keeps what it fetches: the hub's own variable comes first.
    pub(super) fn hub_dir(&self) -> Option<PathBuf> {
        std::env::var_os("HF_HOME")
            .map(PathBuf::from)
            .or_else(|| self.models_dir())
    }

    fn tuned(self) -> anyhow::Result<Opener> {
        Ok(Opener::slow(move || {
            Ok(known::open_tuned(self.models_dir().as_deref())?)
        }))
    }

    /// Says how a model is opened that fastembed runs, from a folder or by name; one that is not
    /// here is fetched.
    #[cfg(feature = "onnx")]
    pub(super) fn embedder(self, model: &str) -> anyhow::Result<Opener> {
        let model = model.to_owned();
        Ok(Opener::slow(move || {
            let options = self.onnx_options();
            let is_folder = Path::new(&model).is_dir();
            let named = || FastEmbedder::from_name(&model, &options);
            let embedder = if is_folder {
                FastEmbedder::from_folder(&model, &options)
            } else {
                named()
            };
            Ok(Arc::new(embedder.map_err(|error| {
                no_such_folder(&model, known::with_own_names(error))
            })?))
        }))
    }

    /// Opens a cross-encoder that fastembed runs, from a folder or by name; one that is not here is
    /// fetched.
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
            "cannot open the reranker {model:?}: this build has none; build with the feature onnx"
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
        let meant = known::own_name_like(model)
            .map(|own| format!(" (did you mean {own:?}?)"))
            .unwrap_or_default();
        anyhow::bail!(
            "cannot open the model {model:?}{meant}: this build has none but {STATIC} and {TUNED}; build with the \
             feature onnx"
        )
    }
}

/// Says of what no model is called, and must be meant as a folder, that there is no such folder.
#[cfg(feature = "onnx")]
fn no_such_folder(model: &str, error: EmbedError) -> EmbedError {
    match error {
        EmbedError::UnknownModel { .. } if model.contains(std::path::is_separator) => {
            EmbedError::MissingFolder { path: model.into() }
        }
        error => error,
    }
}

/// Whether the file of a model of our own is named, not a folder or a name: tuned ones end in
/// `.onnx`, static ones in `.bin`.
fn is_file_of(model: &str, kind: &str) -> bool {
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

/// The key of an embedding endpoint. An empty one of our own keeps the other from being sent.
fn api_key() -> anyhow::Result<Option<String>> {
    first_variable(["PICKTOOLS_EMBED_API_KEY", "OPENAI_API_KEY"].into_iter())
}

/// The value of the first variable that is set, were it to nothing.
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

/// What a model is called in a table: a file or folder by its name, unless that is the name of a
/// model of our own.
fn short_name(model: &str) -> String {
    let name = Path::new(model).file_name().and_then(|name| name.to_str());
    name.filter(|name| ![STATIC, TUNED].contains(name))
        .unwrap_or(model)
        .to_owned()
}

/// How a model is opened.
pub(super) struct Opener {
    pub(super) open: Open,
    /// Whether its vectors need neither patience nor a cache.
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

/// An open model, or none.
pub(super) struct Model {
    name: String,
    embedder: Option<Arc<dyn Embedder>>,
    cache_dir: Option<PathBuf>,
}

impl Model {
    /// What it is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What its vectors depend on; `None` where there is no model.
    pub(super) fn identity(&self) -> Option<&str> {
        self.embedder.as_ref().map(|embedder| embedder.identity())
    }

    /// Returns it where it ranks beside the static one.
    pub(super) fn beside_static(&self) -> Option<Arc<dyn Embedder>> {
        let is_static = |embedder: &Arc<dyn Embedder>| {
            picktools::embed::StaticEmbedder::shared()
                .is_ok_and(|shared| shared.identity() == embedder.identity())
        };
        self.embedder
            .clone()
            .filter(|embedder| !is_static(embedder))
    }

    /// Indexes `catalog`, with a progress bar while it is embedded, and warns where the cache is of
    /// no use.
    pub(super) fn engine(&self, catalog: Catalog) -> anyhow::Result<Engine> {
        self.engine_with(catalog, Beside::default())
    }

    pub(super) fn engine_with(&self, catalog: Catalog, beside: Beside) -> anyhow::Result<Engine> {
        let builder = match &self.embedder {
            Some(embedder) => Engine::builder(catalog).embedder(Arc::clone(embedder)),
            None => Engine::builder(catalog).keyword_only(),
        };
        // A model that needs no cache needs no patience either.
        let is_slow = self
            .embedder
            .as_ref()
            .is_some_and(|embedder| embedder.worth_caching());
        build(
            beside.into(builder),
            is_slow,
            self.cache_dir.clone().filter(|_| is_slow),
        )
    }
}

/// Indexes a catalog, with a progress bar where that takes a while, and warns where the cache is of
/// no use.
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
                "the embedding cache is not used to the full: {reason}"
            ));
        }
        if cache.damaged_segments > 0 {
            output::warn(format!(
                "{} damaged files of the embedding cache were replaced",
                cache.damaged_segments
            ));
        }
    }
    Ok(engine)
}

/// What an engine has beside catalog and model.
#[derive(Clone, Default)]
pub(super) struct Beside {
    pub(super) skills: Option<Vec<Skill>>,
    pub(super) sequences: Option<Sequences>,
    pub(super) examples: Option<Examples>,
    pub(super) reranker: Option<Arc<dyn Reranker>>,
}

impl Beside {
    fn into(self, mut builder: EngineBuilder) -> EngineBuilder {
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

/// A progress bar that shows itself only on a terminal.
pub(super) fn progress_bar(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} ({eta})");
    let bar = ProgressBar::new(0).with_message(what);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The folder of caches where nothing else is said.
fn user_cache_dir() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "picktools")
        .map(|folders| folders.cache_dir().to_owned())
}

/// The folder of caches for what has no option of its own.
pub(super) fn default_cache_dir() -> Option<PathBuf> {
    std::env::var_os("PICKTOOLS_CACHE_DIR")
        .map(PathBuf::from)
        .or_else(user_cache_dir)
}

/// The folder of what must not be lost, such as approvals: whole, as clients start programs in
/// folders of their own.
pub(super) fn data_dir() -> anyhow::Result<PathBuf> {
    use anyhow::Context;
    match std::env::var_os("PICKTOOLS_DATA_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(std::path::absolute(folder)?),
        None => directories::ProjectDirs::from("", "", "picktools")
            .map(|folders| folders.data_dir().to_owned())
            .context("there is no folder for data; set PICKTOOLS_DATA_DIR"),
    }
}
