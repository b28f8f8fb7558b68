//! The builder of an engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::Engine;
use super::ranking::CustomScorer;
use super::skills::SkillIndex;
use crate::budget::CostTable;
use crate::catalog::Catalog;
use crate::deadline::Deadline;
use crate::embed::{EmbedError, Embedder, built_in};
use crate::examples::Examples;
use crate::fuse::Retriever;
use crate::index::{
    ExampleConfig, ExampleIndex, Index, IndexConfig, IndexError, KnownExamples, OptionalModel,
    OptionalModelState, Progress,
};
use crate::names::Skill;
use crate::rerank::Reranker;
use crate::scorer::Scorer;
use crate::sequences::{Prior, Sequences};
use crate::tokens::TokenCounter;

/// A builder of an [`Engine`]. By default the engine ranks by keywords and, with the
/// [static model](crate::embed::StaticEmbedder), by semantic similarity.
///
/// ```
/// use picktools::{Catalog, Engine, Tool, sequences::Sequences};
///
/// let tools = [
///     Tool::without_arguments("send_email", "Sends an email"),
///     Tool::without_arguments("get_forecast", "Weather for the coming days"),
/// ];
/// let tasks = Sequences::from_slice(br#"["get_forecast", "send_email"]"#, "tasks.jsonl")?;
/// let engine = Engine::builder(Catalog::from_tools(tools)?)
///     .keyword_only()
///     .sequences(tasks)
///     .build()?;
/// assert_eq!(engine.stats().dimensions, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EngineBuilder {
    catalog: Catalog,
    model: SemanticModel,
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

/// The embedding models of an engine.
enum SemanticModel {
    Static,
    Embedder(Arc<dyn Embedder>),
    BestEffort(OptionalModel),
    None,
}

/// The models that have to work, and the model that may fail.
type SplitModels = (Vec<Arc<dyn Embedder>>, Option<OptionalModel>);

impl SemanticModel {
    /// Splits the models into those that have to work and the one that may fail.
    fn split(self) -> Result<SplitModels, IndexError> {
        match self {
            Self::None => Ok((Vec::new(), None)),
            Self::Static => Ok((Vec::from_iter(built_in()?), None)),
            Self::BestEffort(model) => Ok((Vec::from_iter(built_in()?), Some(model))),
            Self::Embedder(embedder) => {
                let mut embedders = Vec::new();
                if Retriever::from_embedder(embedder.as_ref()) == Retriever::Model {
                    embedders.extend(built_in()?);
                }
                embedders.push(embedder);
                Ok((embedders, None))
            }
        }
    }
}

impl Engine {
    /// Indexes a catalog for keywords and, with the static model, for semantic similarity.
    ///
    /// # Errors
    ///
    /// [`IndexError`] if the index cannot be built.
    pub fn new(catalog: Catalog) -> Result<Self, IndexError> {
        Self::builder(catalog).build()
    }

    /// Returns a builder, for example to use another model or none.
    pub fn builder(catalog: Catalog) -> EngineBuilder {
        EngineBuilder::new(catalog)
    }
}

impl EngineBuilder {
    /// Makes a builder with the static model and no other component.
    fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            model: SemanticModel::Static,
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

    /// Ranks by semantic similarity with this model. In hybrid mode the static model also
    /// contributes, and it is the fallback if this one fails, unless this one is a static model
    /// too.
    #[must_use]
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.model = SemanticModel::Embedder(embedder);
        self
    }

    /// Like [`embedder`](Self::embedder), with the model that `open` opens, but on a best-effort
    /// basis. The engine does without the model if an endpoint fails, or if opening the model and
    /// embedding the catalog takes longer than until `deadline`. Then the static model is the
    /// fallback, and the semantic stage of each pick fails with the cause.
    ///
    /// With a deadline, the model works on another thread while everything else is indexed. Late
    /// work is abandoned. Embeddings that are complete by then stay in the cache, so the next
    /// engine gets further.
    #[must_use]
    pub fn optional_embedder(
        mut self,
        deadline: Option<Instant>,
        open: impl FnOnce() -> Result<Arc<dyn Embedder>, EmbedError> + Send + 'static,
    ) -> Self {
        let model = OptionalModelState::ToOpen(Box::new(open));
        self.model = SemanticModel::BestEffort(OptionalModel {
            model,
            deadline: Deadline::at(deadline),
        });
        self
    }

    /// Ranks by keywords only: no model is opened and no vector is computed.
    #[must_use]
    pub fn keyword_only(mut self) -> Self {
        self.model = SemanticModel::None;
        self
    }

    /// Caches embeddings in this folder, so that no text is embedded twice. Models that compute
    /// vectors faster than a lookup, such as the static model, do not use it.
    #[must_use]
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(folder.into());
        self
    }

    /// Calls `report` with the number of embedded tools and the number of all tools, from any
    /// thread.
    #[must_use]
    pub fn on_progress(mut self, report: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        self.progress = Progress(Some(Arc::new(report)));
        self
    }

    /// Picks skills too, and adds their tools to the picks. Only skills whose tools the catalog has
    /// are picked; see [`Engine::skill_reports`]. The built-in ranking ranks them together with the
    /// tools, even if a custom scorer ranks the tools.
    #[must_use]
    pub fn skills(mut self, skills: Vec<Skill>) -> Self {
        self.skills = Some(skills);
        self
    }

    /// Raises tools that earlier tasks called together with the tools in use; see
    /// [`PickOptions::in_use`](crate::PickOptions::in_use). It changes the order of the candidates
    /// above `min_score`, in a weighted fusion only.
    #[must_use]
    pub fn sequences(mut self, sequences: Sequences) -> Self {
        self.sequences = Some(sequences);
        self
    }

    /// Ranks tools by requests that they served, in addition to the examples in the catalog
    /// ([`Tool::examples`](crate::Tool::examples)); see [`Engine::example_stats`].
    #[must_use]
    pub fn examples(mut self, examples: Examples) -> Self {
        self.examples = Some(examples);
        self
    }

    /// Ranks the tools of every pick with this scorer, in place of the built-in ranking. It does
    /// not rank skills, and tools in use raise no other tools.
    #[must_use]
    pub fn scorer(mut self, scorer: Arc<dyn Scorer>) -> Self {
        self.scorer = Some(scorer);
        self
    }

    /// Limits the scorer to the best tools of the built-in ranking: at most `tools`, at least one,
    /// plus the tools that are named, always included or in use. No other tool is picked, except
    /// the tools of picked skills and those that picks require. If the scorer fails or is late, the
    /// built-in ranking is used.
    #[must_use]
    pub fn shortlist(mut self, tools: usize) -> Self {
        self.shortlist = Some(tools);
        self
    }

    /// Reorders the best candidates with this reranker, if
    /// [`PickOptions::rerank`](crate::PickOptions::rerank) asks for it. It does not rank skills.
    #[must_use]
    pub fn reranker(mut self, reranker: Arc<dyn Reranker>) -> Self {
        self.reranker = Some(reranker);
        self
    }

    /// Counts definitions with `counter` for
    /// [`PickOptions::token_budget`](crate::PickOptions::token_budget), which is rejected without a
    /// counter. `picktools_provider::Definitions` is the counter for the formats of model
    /// providers.
    #[must_use]
    pub fn token_counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.token_counter = Some(counter);
        self
    }

    /// Builds the indexes.
    ///
    /// # Errors
    ///
    /// [`IndexError`] if the model fails on a tool, or two skills have the same name. An unusable
    /// cache is not an error; see [`IndexStats::cache`](crate::engine::IndexStats::cache).
    pub fn build(self) -> Result<Engine, IndexError> {
        let (embedders, optional) = self.model.split()?;
        let deadline = optional.as_ref().map(|optional| optional.deadline);
        let cache_dir = self.cache_dir.clone();
        let example_config = ExampleConfig {
            cache_dir: cache_dir.clone(),
            progress: self.progress.clone(),
            deadline,
        };
        let config = IndexConfig {
            embedders,
            optional,
            cache_dir: self.cache_dir,
            progress: self.progress,
            ..IndexConfig::default()
        };
        let mut index = Index::build(self.catalog, config)?;
        let mut skill_index = None;
        if let Some(skills) = self.skills {
            let all_skills = skills.into_iter().map(Arc::new).collect();
            let config = IndexConfig {
                cache_dir,
                ..index.same_models(deadline)
            };
            let skills = SkillIndex::build(all_skills, &index, config)?;
            // Tools and skills are ranked together, so they need the same models.
            if let Some(reason) = skills.left_out() {
                index.leave_out(reason);
            }
            skill_index = Some(Arc::new(skills));
        }
        let mut example_index = None;
        if self.examples.is_some() || !index.catalog.exemplified().is_empty() {
            let examples = self.examples.unwrap_or_default();
            let no_known_examples = KnownExamples::default();
            let examples =
                ExampleIndex::build(&index, examples, &example_config, &no_known_examples)?;
            example_index = Some(Arc::new(examples));
        }
        let mut prior = None;
        if let Some(sequences) = self.sequences {
            let counted = Prior::new(Arc::new(sequences), &index.names, &index.catalog)?;
            prior = Some(Arc::new(counted));
        }
        Ok(Engine {
            index: Arc::new(index),
            skills: skill_index,
            prior,
            examples: example_index,
            scorer: self
                .scorer
                .map(|scorer| CustomScorer::new(scorer, self.shortlist)),
            reranker: self.reranker,
            costs: self
                .token_counter
                .map(|counter| Arc::new(CostTable::new(counter))),
            decided: None,
        })
    }
}
