//! The engine: the composition of the stages.
//!
//! An [`Engine`] owns the index and the components that are built once for a catalog.
//! [`Engine::pick`] runs the pipeline. Each stage takes the values of earlier stages and returns a
//! new one, which does not change:
//!
//! ```text
//! ResolvedRequest   the options, eligible tools, named tools and subqueries
//!   → Retrieval       the signals of the retrievers
//!   → RequestRanking  a score per tool, by the retrievers or by a custom scorer
//!   → Shortlist       the candidates, after `min_score` and the reranker
//!   → Decisions       the picks, and the tools that a limit excluded
//!   → Selection       the picks within the token budget, with their reasons
//! ```
//!
//! Skills pass the same stages over an index of their own, and the tools of picked skills are
//! added. These and the tools that picks require are scored later than the others
//! (`RequestRanking::extended`), because they may be far from the request.
//!
//! The engine is synchronous, never runs a tool and keeps no state between picks. Only three steps
//! may be slow: embedding the request, a custom scorer and a reranker. With a deadline, they run on
//! a thread that is abandoned when the deadline passes.

// Modules are in reading order: each uses only those above it (`tests/main/architecture.rs`).
mod report;
mod named;
mod request;
mod embeddings;
mod retrieval;
mod ranking;
mod shortlist;
mod rerank;
mod decisions;
mod explain;
mod skills;
mod aliases;
mod blocked;
mod outcome;
mod built_in;
mod builder;
mod once;
#[cfg(test)]
mod narrowed;
#[cfg(test)]
mod segmented;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use self::builder::EngineBuilder;
pub use self::built_in::BuiltInScorer;
use self::decisions::Decisions;
pub use self::embeddings::Embeddings;
pub use self::once::{pick_tools, pick_tools_with};
use self::outcome::PickOutcome;
use self::ranking::{CustomScorer, RankingInputs, RequestRanking};
use self::report::Report;
use self::request::{CatalogIndexes, ResolvedRequest};
use self::retrieval::{RequestRetriever, Retrieval};
use self::shortlist::Shortlist;
use self::skills::{PickedSkills, SkillIndex};
use crate::access::{Access, AccessError, DecidedAccess};
use crate::budget::CostTable;
use crate::catalog::{Catalog, ChangeError, Changes};
use crate::examples::{ExampleStats, Examples};
use crate::fuse::Mode;
pub use crate::fuse::{Retriever, RetrieverScores};
use crate::index::{ExampleConfig, ExampleIndex, ExampleTotals, Index, KnownExamples, Row, RowKey};
pub use crate::index::{IndexError, IndexStats, MemoryPart};
use crate::names::SkillReport;
use crate::options::{PickError, PickOptions};
use crate::query::Query;
use crate::rerank::{Rerank, Reranker};
use crate::saved::SavedError;
use crate::scorer::Scorer;
use crate::selection::{Selection, Stage};
use crate::sequences::{Prior, SequenceStats};
use crate::tokens::TokenCounter;

/// An indexed catalog with the components that pick from it. Cloning is cheap and shares the
/// indexes.
///
/// ```
/// use picktools::{Catalog, Engine, PickOptions, Query, Tool};
///
/// let tools = [
///     Tool::without_arguments("send_email", "Sends an email"),
///     Tool::without_arguments("get_forecast", "Weather for the coming days"),
/// ];
/// let engine = Engine::new(Catalog::from_tools(tools)?)?;
/// let selection = engine.pick(&Query::new("will it rain tomorrow?"), &PickOptions::default())?;
/// println!("{}: {}", selection.picks[0].tool.name, selection.picks[0].reason);
/// # assert_eq!(selection.picks[0].tool.name, "get_forecast");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Engine {
    index: Arc<Index>,
    skills: Option<Arc<SkillIndex>>,
    prior: Option<Arc<Prior>>,
    examples: Option<Arc<ExampleIndex>>,
    scorer: Option<CustomScorer>,
    reranker: Option<Arc<dyn Reranker>>,
    /// The token costs of definitions, if the engine has a token counter.
    costs: Option<Arc<CostTable>>,
    /// The eligible tools of one access policy ([`Engine::with_access`]).
    decided: Option<Arc<DecidedAccess>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("index", &self.index)
            .field("skills", &self.skills)
            .field("sequences", &self.sequence_stats())
            .field("examples", &self.example_stats())
            .field("scorer", &self.scorer)
            .field(
                "reranker",
                &self.reranker.as_ref().map(|reranker| reranker.name()),
            )
            .finish_non_exhaustive()
    }
}

/// An error from updating an engine. The engine does not change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The changes are invalid.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The changed tools cannot be indexed.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl Engine {
    /// Makes an engine from an index and its rows, with the examples of the tools. `example_totals`
    /// has the counts over the examples of all tools, if there are any.
    pub fn from_rows(
        index: Index,
        rows: &[(RowKey, Arc<Row>)],
        example_totals: Option<ExampleTotals>,
        token_counter: Option<Arc<dyn TokenCounter>>,
    ) -> Result<Self, IndexError> {
        let has_examples = !index.catalog.exemplified().is_empty();
        let known_examples = KnownExamples::from_rows(rows, example_totals);
        let mut example_index = None;
        if has_examples {
            let (examples, config) = (Examples::default(), ExampleConfig::default());
            let built = ExampleIndex::build(&index, examples, &config, &known_examples)?;
            example_index = Some(Arc::new(built));
        }
        Ok(Self {
            examples: example_index,
            index: Arc::new(index),
            skills: None,
            prior: None,
            scorer: None,
            reranker: None,
            costs: token_counter.map(|counter| Arc::new(CostTable::new(counter))),
            decided: None,
        })
    }

    /// Returns the index.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Returns the index of the examples, if there are any.
    pub fn examples(&self) -> Option<&ExampleIndex> {
        self.examples.as_deref()
    }

    /// Returns the catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.index.catalog
    }

    /// Returns a report on the tools of every skill, whether or not the skill can be picked.
    pub fn skill_reports(&self) -> &[SkillReport] {
        match &self.skills {
            Some(skills) => skills.reports(),
            None => &[],
        }
    }

    /// Returns statistics on the sequences of calls and the tools in them that the catalog has, if
    /// the engine has sequences.
    pub fn sequence_stats(&self) -> Option<SequenceStats> {
        self.prior.as_ref().map(|prior| prior.stats())
    }

    /// Returns statistics on the examples and the tools in them that the catalog has, if there are
    /// any.
    pub fn example_stats(&self) -> Option<&ExampleStats> {
        self.examples.as_ref().map(|examples| &examples.stats)
    }

    /// Adds requests that tools served, as pairs of a tool name and a request. They become
    /// examples, [masked] and limited like all others. The new engine picks like one that was built
    /// with them. It shares everything else with this one, which does not change.
    ///
    /// ```
    /// use picktools::{Catalog, Engine, PickOptions, Query, Tool};
    ///
    /// let tools = [
    ///     Tool::without_arguments("get_forecast", "Weather for the coming days"),
    ///     Tool::without_arguments("book_room", "Books"),
    /// ];
    /// let engine = Engine::new(Catalog::from_tools(tools)?)?;
    /// let engine = engine.learn([("get_forecast", "do I need an umbrella for Oslo?")])?;
    /// let query = Query::new("take an umbrella or not");
    /// let selection = engine.pick(&query, &PickOptions::default())?;
    /// let reason = &selection.picks[0].reason;
    /// assert!(reason.contains("similar to a request it served: \"do I need an umbrella for …?\""));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [masked]: crate::examples::mask()
    ///
    /// # Errors
    ///
    /// [`IndexError`] if a model fails on an example.
    ///
    /// # Complexity
    ///
    /// Linear in the number of all examples. Only new ones are embedded, so learn in batches.
    pub fn learn<'e>(
        &self,
        served: impl IntoIterator<Item = (&'e str, &'e str)>,
    ) -> Result<Self, IndexError> {
        let learned = match &self.examples {
            Some(examples) => examples.learn(&self.index, served)?,
            None => {
                let defined_examples = ExampleIndex::build_from_definitions(&self.index)?;
                defined_examples.learn(&self.index, served)?
            }
        };
        Ok(Self {
            examples: Some(Arc::new(learned)),
            ..self.clone()
        })
    }

    /// Applies changes of tools. Only new and changed tools are embedded and analysed. The new
    /// engine picks like one that was built from the changed catalog. This one does not change, and
    /// serves the picks that still use it.
    ///
    /// ```
    /// use picktools::{Catalog, Engine, PickOptions, Query, Tool, catalog::Changes};
    ///
    /// let tools = [Tool::without_arguments("book_room", "Books a meeting room")];
    /// let engine = Engine::new(Catalog::from_tools(tools)?)?;
    /// let put = vec![Tool::without_arguments("get_forecast", "Weather for the coming days")];
    /// let engine = engine.update(Changes { put, ..Changes::default() })?;
    /// let query = Query::new("will it rain tomorrow?");
    /// let selection = engine.pick(&query, &PickOptions::default())?;
    /// assert_eq!(selection.picks[0].tool.name, "get_forecast");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UpdateError`] if the changes are invalid, or a model fails on a tool.
    ///
    /// # Complexity
    ///
    /// Linear in the number of all tools; unchanged tools are only copied. See `docs/results.md`.
    pub fn update(&self, changes: Changes) -> Result<Self, UpdateError> {
        Ok(self.with_catalog(self.index.catalog.with_changes(changes)?)?)
    }

    /// Indexes another catalog with the same models, skills, sequences, examples, scorer and
    /// reranker. As in [`update`](Self::update), only tools that this engine lacks are embedded and
    /// analysed.
    ///
    /// # Errors
    ///
    /// [`IndexError`] if a model fails on a tool.
    pub fn with_catalog(&self, catalog: Catalog) -> Result<Self, IndexError> {
        let mut index = self.index.rebuild(catalog)?;
        let mut engine = self.clone();
        if let Some(skills) = &self.skills {
            let skills = skills.rebuild(&index)?;
            // Tools and skills are ranked together, so they need the same models.
            if let Some(reason) = skills.left_out() {
                index.leave_out(reason);
            }
            engine.skills = Some(Arc::new(skills));
        }
        engine.examples = match &self.examples {
            Some(examples) => Some(Arc::new(examples.rebuild(&index)?)),
            None if index.catalog.exemplified().is_empty() => None,
            None => Some(Arc::new(ExampleIndex::build_from_definitions(&index)?)),
        };
        if let Some(prior) = &self.prior {
            engine.prior = Some(Arc::new(prior.recount(&index.names, &index.catalog)?));
        }
        if let Some(costs) = &self.costs {
            engine.costs = Some(Arc::new(costs.emptied()));
        }
        engine.index = Arc::new(index);
        engine.decided = None;
        Ok(engine)
    }

    /// Saves the catalog and its indexes in a folder, with a note that [`Catalog::note`] returns.
    /// The folder is created if necessary, and an earlier index in it is replaced.
    /// [`Catalog::open_saved`] opens it. Skills, example files and sequences are not saved.
    ///
    /// The replacement is atomic. Readers of the old index keep it.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the folder cannot be written, another process writes to it, or the
    /// catalog's own index is damaged.
    pub fn save(
        &self,
        folder: impl AsRef<Path>,
        note: serde_json::Value,
    ) -> Result<(), SavedError> {
        self.index.save(folder.as_ref(), note)
    }

    /// Returns the memory of each part of the tools' index, without definitions.
    pub fn memory(&self) -> Vec<MemoryPart> {
        self.index.memory()
    }

    /// Returns statistics of the indexes.
    pub fn stats(&self) -> IndexStats {
        self.index.stats()
    }

    /// Returns an engine that ranks with this scorer, as [`EngineBuilder::scorer`] does, and shares
    /// everything else with this one. `shortlist` limits the scorer to the best tools of the
    /// built-in ranking, as [`EngineBuilder::shortlist`] does.
    #[must_use]
    pub fn with_scorer(&self, scorer: Arc<dyn Scorer>, shortlist: Option<usize>) -> Self {
        Self {
            scorer: Some(CustomScorer::new(scorer, shortlist)),
            ..self.clone()
        }
    }

    /// Returns an engine for a caller of many picks, which decides now which tools are eligible for
    /// this access policy. It shares everything else with this one. Picks with another policy,
    /// except the default one, are decided one by one, as without this method; so are the picks of an
    /// engine with another catalog that is made from this one.
    ///
    /// # Errors
    ///
    /// As [`Access::decide`].
    pub fn with_access(&self, access: Access) -> Result<Self, AccessError> {
        let Index { catalog, names, .. } = &*self.index;
        Ok(Self {
            decided: Some(Arc::new(DecidedAccess::new(access, catalog, names)?)),
            ..self.clone()
        })
    }

    /// Returns a built-in ranking as a [`Scorer`], which can be part of another scorer for
    /// [`EngineBuilder::scorer`].
    pub fn scorer(&self, mode: Mode) -> BuiltInScorer {
        BuiltInScorer {
            index: Arc::clone(&self.index),
            examples: self.examples.clone(),
            mode,
        }
    }

    /// Picks the tools that `query` needs.
    ///
    /// # Errors
    ///
    /// [`PickError`] if an option is invalid or names an unknown tool, or a definition of a saved
    /// index cannot be read. Failures of models and scorers and timeouts are not errors:
    /// [`Selection::degraded`] lists them.
    pub fn pick(&self, query: &Query, options: &PickOptions) -> Result<Selection, PickError> {
        self.pick_embedded(query, options, &mut Embeddings::default())
    }

    /// Picks like [`pick`](Self::pick), with embeddings of the request that were computed before.
    pub fn pick_embedded(
        &self,
        query: &Query,
        options: &PickOptions,
        embeddings: &mut Embeddings,
    ) -> Result<Selection, PickError> {
        if options.rerank == Rerank::Always && self.reranker.is_none() {
            return Err(PickError::NoReranker);
        }
        let mut report = Report::new();
        let mut retriever = RequestRetriever::new(embeddings);
        let request = ResolvedRequest::new(self.indexes(), query, options)?;
        report.ran(Stage::Eligibility);
        let retrieval = self.retrieve(&request, &mut retriever, &mut report);
        let inputs = RankingInputs {
            scorer: self.scorer.as_ref(),
            prior: self.prior.as_deref(),
        };
        let ranking = ranking::rank(&request, retrieval, inputs, &mut report)?;
        let skills = self.pick_skills(&request, &*ranking, &mut retriever, &mut report)?;
        let skill_tools = skills.as_ref().map(PickedSkills::tools).unwrap_or_default();
        let ranking = ranking.extended(&request, &skill_tools.eligible(&request));
        let reranker = self.reranker.as_ref();
        let window = rerank::window(&request, reranker);
        let shortlist = Shortlist::new(&request, &*ranking, skill_tools, window, &mut report);
        let (shortlist, reranked) =
            rerank::rerank(&request, &*ranking, reranker, shortlist, &mut report)?;
        let decisions = Decisions::new(&request, &*ranking, &shortlist, &mut report)?;
        let ranking = ranking.extended(&request, &decisions.picked());
        let outcome = PickOutcome {
            request: &request,
            ranking: &*ranking,
            shortlist: &shortlist,
            reranked,
            skills,
            decisions: decisions.ordered_by(&*ranking),
            report,
        };
        outcome.into_selection(self.costs.as_deref())
    }

    /// Returns the indexes of the catalog.
    fn indexes(&self) -> CatalogIndexes<'_> {
        CatalogIndexes::new(&self.index, self.examples.as_deref()).decided(self.decided.as_deref())
    }

    /// Runs the retrievers. A custom scorer needs them for a shortlist only.
    fn retrieve<'q>(
        &self,
        request: &ResolvedRequest<'q>,
        retriever: &mut RequestRetriever<'_>,
        report: &mut Report,
    ) -> Retrieval<'q> {
        match &self.scorer {
            None => retriever.retrieve(request, report),
            Some(CustomScorer {
                shortlist: Some(_), ..
            }) => retriever.retrieve_undivided(request, report),
            Some(CustomScorer {
                shortlist: None, ..
            }) => Retrieval::skipped(request, "a custom scorer replaces it", report),
        }
    }

    /// Picks the skills that the request needs, if the engine has skills.
    fn pick_skills(
        &self,
        request: &ResolvedRequest<'_>,
        ranking: &dyn RequestRanking,
        retriever: &mut RequestRetriever<'_>,
        report: &mut Report,
    ) -> Result<Option<PickedSkills<'_>>, PickError> {
        let Some(skills) = &self.skills else {
            return Ok(None);
        };
        Ok(Some(skills.pick(request, ranking, retriever, report)?))
    }

    /// Returns the scores of each retriever of the options' mode for every tool, eligible or not,
    /// before fusion. They serve to measure retrievers and to fit a fusion.
    ///
    /// # Errors
    ///
    /// [`PickError`] if the options are invalid.
    pub fn retriever_scores(
        &self,
        query: &Query,
        options: &PickOptions,
    ) -> Result<Vec<RetrieverScores>, PickError> {
        let request = ResolvedRequest::new(self.indexes(), query, options)?.for_all_tools();
        let mut embeddings = Embeddings::default();
        let mut retriever = RequestRetriever::new(&mut embeddings);
        let retrieval = retriever.retrieve_undivided(&request, &mut Report::new());
        let mut scores = Vec::with_capacity(retrieval.signals.len());
        for signal in retrieval.signals {
            scores.push(RetrieverScores::from(signal));
        }
        Ok(scores)
    }

    /// Picks on tokio's blocking pool, for asynchronous callers; otherwise as [`Engine::pick`].
    ///
    /// # Errors
    ///
    /// As [`Engine::pick`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn pick_async(
        &self,
        query: Query,
        options: PickOptions,
    ) -> Result<Selection, PickError> {
        let engine = self.clone();
        let pick = tokio::task::spawn_blocking(move || engine.pick(&query, &options));
        pick.await.map_err(|error| PickError::Worker {
            reason: error.to_string(),
        })?
    }
}
