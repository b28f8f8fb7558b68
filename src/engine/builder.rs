//! What an engine is built of.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::Engine;
use super::skills::SkillIndex;
use crate::budget::CostTable;
use crate::catalog::Catalog;
use crate::deadline::Deadline;
use crate::embed::{EmbedError, Embedder, built_in};
use crate::examples::Examples;
use crate::fuse::Retriever;
use crate::index::{
    ExampleConfig, ExampleIndex, Index, IndexConfig, IndexError, KnownExamples, Optional, Progress,
    Source,
};
use crate::names::Skill;
use crate::rerank::Reranker;
use crate::scorer::Scorer;
use crate::sequences::{Prior, Sequences};
use crate::tokens::TokenCounter;

/// Builds an [`Engine`]. Unless told otherwise it ranks by words and, with the
/// [static model](crate::embed::StaticEmbedder), by meaning.
///
/// ```
/// use picktools::{Catalog, Engine, Tool, sequences::Sequences};
///
/// let tools = [Tool::without_arguments("send_email", "Sends an email"), Tool::without_arguments("get_forecast", "Weather for the coming days")];
/// let tasks = Sequences::from_slice(br#"["get_forecast", "send_email"]"#, "tasks.jsonl")?;
/// let engine = Engine::builder(Catalog::from_tools(tools)?).keyword_only().sequences(tasks).build()?;
/// assert_eq!(engine.stats().dimensions, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EngineBuilder {
    catalog: Catalog,
    model: Model,
    cache_dir: Option<PathBuf>,
    progress: Progress,
    skills: Option<Vec<Skill>>,
    sequences: Option<Sequences>,
    examples: Option<Examples>,
    scorer: Option<Arc<dyn Scorer>>,
    shortlist: Option<usize>,
    reranker: Option<Arc<dyn Reranker>>,
    token_counter: Option<Arc<dyn TokenCounter>>,
}

/// What ranks by meaning.
enum Model {
    Static,
    Given(Arc<dyn Embedder>),
    Optional(Optional),
    None,
}

impl EngineBuilder {
    /// Starts with the static model and nothing else.
    pub(super) fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            model: Model::Static,
            cache_dir: None,
            progress: Progress::default(),
            skills: None,
            sequences: None,
            examples: None,
            scorer: None,
            shortlist: None,
            reranker: None,
            token_counter: None,
        }
    }

    /// Ranks by meaning with this model. The static one helps it along in the hybrid mode, and
    /// stands in where it fails, unless this one is a static model too.
    #[must_use]
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.model = Model::Given(embedder);
        self
    }

    /// As [`embedder`](Self::embedder), with the model that `open` opens, if it can be had: where
    /// an endpoint fails, or opening the model and embedding the catalog takes longer than until
    /// `deadline`, the engine goes without it. The static model stands in, and the semantic stage
    /// of each pick fails for that reason.
    ///
    /// Under a deadline the model works on another thread while everything else is indexed. Work
    /// that comes too late is left behind; what was embedded by then stays in the cache, so that
    /// the next engine comes further.
    #[must_use]
    pub fn optional_embedder(
        mut self,
        deadline: Option<Instant>,
        open: impl FnOnce() -> Result<Arc<dyn Embedder>, EmbedError> + Send + 'static,
    ) -> Self {
        let model = Source::ToOpen(Box::new(open));
        self.model = Model::Optional(Optional {
            model,
            deadline: Deadline::at(deadline),
        });
        self
    }

    /// Ranks by words alone: no model is opened and no vector is made.
    #[must_use]
    pub fn keyword_only(mut self) -> Self {
        self.model = Model::None;
        self
    }

    /// Keeps embeddings in this folder, so that no text is embedded twice. Models whose vectors are
    /// quicker to compute than to look up, as the static one, leave it alone.
    #[must_use]
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(folder.into());
        self
    }

    /// Calls `report` with the number of tools embedded so far and of all tools, from any thread.
    #[must_use]
    pub fn on_progress(mut self, report: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        self.progress = Progress(Some(Arc::new(report)));
        self
    }

    /// Picks skills too, and brings their tools along. Only those are picked whose tools the
    /// catalog has; see [`Engine::skill_reports`]. They are ranked beside the tools by the built-in
    /// ranking, also where a custom scorer ranks the tools.
    #[must_use]
    pub fn skills(mut self, skills: Vec<Skill>) -> Self {
        self.skills = Some(skills);
        self
    }

    /// Raises tools that go with those in use, by what earlier tasks called; see
    /// [`PickOptions::in_use`](crate::PickOptions::in_use). It changes the order of what
    /// `min_score` leaves, of a weighted ranking.
    #[must_use]
    pub fn sequences(mut self, sequences: Sequences) -> Self {
        self.sequences = Some(sequences);
        self
    }

    /// Ranks tools by requests that they served, besides those that stand in the catalog
    /// ([`Tool::examples`](crate::Tool::examples)); see [`Engine::example_stats`].
    #[must_use]
    pub fn examples(mut self, examples: Examples) -> Self {
        self.examples = Some(examples);
        self
    }

    /// Lets this scorer rank the tools of every pick, in place of the built-in ranking. Skills it
    /// does not see, and tools in use raise nothing.
    #[must_use]
    pub fn scorer(mut self, scorer: Arc<dyn Scorer>) -> Self {
        self.scorer = Some(scorer);
        self
    }

    /// Shows the scorer only the best tools of the built-in ranking, at most so many and at least
    /// one, and those that stay whatever their score: named, always included or in use. No other
    /// tool is picked, but for those that skills and picked tools bring along. Where the scorer
    /// fails or is late, the built-in ranking stands.
    #[must_use]
    pub fn shortlist(mut self, tools: usize) -> Self {
        self.shortlist = Some(tools.max(1));
        self
    }

    /// Lets this reranker put the best candidates in another order, where
    /// [`PickOptions::rerank`](crate::PickOptions::rerank) asks for it. Skills it does not see.
    #[must_use]
    pub fn reranker(mut self, reranker: Arc<dyn Reranker>) -> Self {
        self.reranker = Some(reranker);
        self
    }

    /// Counts definitions with `counter` for
    /// [`PickOptions::token_budget`](crate::PickOptions::token_budget), which is refused without
    /// one. `picktools_provider::Definitions` is the counter for the formats of model providers.
    #[must_use]
    pub fn token_counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.token_counter = Some(counter);
        self
    }

    /// Builds the indexes.
    ///
    /// # Errors
    ///
    /// [`IndexError`] when the model fails on a tool, or two skills have one name. A cache that
    /// cannot be used is no error; see [`IndexStats::cache`](crate::engine::IndexStats::cache).
    pub fn build(self) -> Result<Engine, IndexError> {
        let mut optional = None;
        let embedders: Vec<Arc<dyn Embedder>> = match self.model {
            Model::Static => built_in()?.into_iter().collect(),
            Model::Given(embedder) => match Retriever::of(embedder.as_ref()) {
                Retriever::Model => built_in()?.into_iter().chain([embedder]).collect(),
                Retriever::Keyword | Retriever::Static => vec![embedder],
            },
            Model::Optional(model) => {
                optional = Some(model);
                built_in()?.into_iter().collect()
            }
            Model::None => Vec::new(),
        };
        let deadline = optional.as_ref().map(|optional| optional.deadline);
        let cache_dir = self.cache_dir.clone();
        let of_examples = ExampleConfig {
            cache_dir: cache_dir.clone(),
            progress: self.progress.clone(),
            deadline,
        };
        let (progress, before) = (self.progress, None);
        let config = IndexConfig {
            embedders,
            optional,
            cache_dir: self.cache_dir,
            progress,
            before,
        };
        let mut index = Index::build(self.catalog, config)?;
        let skills = self.skills.map(|skills| {
            let given = skills.into_iter().map(Arc::new).collect();
            SkillIndex::build(
                given,
                &index,
                IndexConfig {
                    cache_dir,
                    ..index.same_models(deadline)
                },
            )
        });
        let skills = skills.transpose()?;
        // Tools and skills are ranked beside each other, and so by the same models.
        if let Some(reason) = skills.as_ref().and_then(SkillIndex::left_out) {
            index.leave_out(reason);
        }
        let is_wanted = self.examples.is_some() || !index.catalog.exemplified().is_empty();
        let (given, none_known) = (self.examples.unwrap_or_default(), KnownExamples::default());
        let examples = is_wanted
            .then(|| ExampleIndex::build(&index, given, &of_examples, &none_known).map(Arc::new));
        let prior = self
            .sequences
            .map(|sequences| Arc::new(Prior::new(Arc::new(sequences), &index.names)));
        Ok(Engine {
            index: Arc::new(index),
            skills: skills.map(Arc::new),
            prior,
            examples: examples.transpose()?,
            scorer: self.scorer,
            shortlist: self.shortlist,
            reranker: self.reranker,
            costs: self
                .token_counter
                .map(|counter| Arc::new(CostTable::new(counter))),
        })
    }
}
