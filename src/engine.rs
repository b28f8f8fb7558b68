//! The engine: the composition of the stages.
//!
//! An [`Engine`] owns the index and the components that are built once for a catalog.
//! [`Engine::pick`] runs the pipeline. A request passes each stage once:
//!
//! ```text
//! eligibility → keyword ‖ semantic → fuse → prior (or a custom scorer)
//!     → skills → min_score → rerank → select → budget → explain
//! ```
//!
//! Skills pass the same stages over an index of their own, and the tools of picked skills are
//! added.
//!
//! The engine is synchronous, never runs a tool and keeps no state between picks. Only three steps
//! may be slow: embedding the request, a custom scorer and a reranker. With a deadline, they run on
//! a thread that is abandoned when the deadline passes.

mod aliases;
mod blocked;
mod builder;
mod built_in;
mod candidates;
mod explain;
#[cfg(test)]
mod narrowed;
mod once;
mod parts;
mod ranked;
mod report;
mod request;
mod rerank;
#[cfg(test)]
mod segmented;
mod set;
mod signals;
mod skills;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use self::builder::EngineBuilder;
pub use self::built_in::BuiltInScorer;
use self::candidates::Candidates;
use self::explain::Explainer;
pub use self::once::{pick_tools, pick_tools_with};
use self::parts::SubqueryResults;
use self::ranked::RequestRanking;
use self::report::Report;
use self::request::Request;
pub use self::signals::Embeddings;
use self::skills::SkillIndex;
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
use crate::select::{Decision, picks};
use crate::selection::{SELECTION_VERSION, Selection, Stage, TokenReport};
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
    scorer: Option<Arc<dyn Scorer>>,
    /// The number of tools that the scorer receives, if not all.
    shortlist: Option<usize>,
    reranker: Option<Arc<dyn Reranker>>,
    /// The token costs of definitions, if the engine has a token counter.
    costs: Option<Arc<CostTable>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("index", &self.index)
            .field("skills", &self.skills)
            .field("sequences", &self.sequence_stats())
            .field("examples", &self.example_stats())
            .field("scorer", &self.scorer.as_ref().map(|scorer| scorer.name()))
            .field("shortlist", &self.shortlist)
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
            shortlist: None,
            reranker: None,
            costs: token_counter.map(|counter| Arc::new(CostTable::new(counter))),
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
            engine.prior = Some(Arc::new(prior.recount(&index.names, &index.catalog)));
        }
        if let Some(costs) = &self.costs {
            engine.costs = Some(Arc::new(costs.emptied()));
        }
        engine.index = Arc::new(index);
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
            scorer: Some(scorer),
            shortlist: shortlist.map(|tools| tools.max(1)),
            ..self.clone()
        }
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
    /// [`PickError`] if an option is invalid or names an unknown tool. Failures of models and
    /// scorers and timeouts are not errors: [`Selection::degraded`] lists them.
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
        let mut request =
            Request::new(&self.index, query, options)?.with_examples(self.examples.as_deref());
        report.ran(Stage::Eligibility);
        let mut subquery_results = None;
        if self.scorer.is_none() {
            subquery_results = SubqueryResults::new(&request, embeddings, &mut report);
        }
        let mut ranked = match &self.scorer {
            Some(scorer) => {
                ranked::score(&request, (scorer, self.shortlist), embeddings, &mut report)
            }
            None => ranked::fuse(&request, subquery_results.as_mut(), embeddings, &mut report),
        };
        if let Some(prior) = &self.prior {
            ranked::raise(prior, &request, &mut ranked, &mut report);
        }
        let mut skills = None;
        let mut skill_tool_names = Vec::new();
        if let Some(index) = &self.skills {
            let picked = index.pick(&request, &ranked, embeddings, &mut report)?;
            request.needed = index.needed(&picked);
            let skill_tools = request.skill_tools();
            ranked::rescore_all(
                &mut ranked,
                skill_tools.into_iter(),
                &mut request,
                embeddings,
            );
            skill_tool_names = index.tool_names(&picked);
            skills = Some((index, picked));
        }
        if request.shows_nothing(&ranked) {
            let fallbacks: BTreeSet<_> = request.ranked_fallbacks().collect();
            let fallbacks = fallbacks.into_iter();
            ranked::rescore_all(&mut ranked, fallbacks, &mut request, embeddings);
        }
        let reranker = self.reranker.as_ref();
        let subqueries = parts::rank_subqueries(&request, subquery_results, &ranked);
        let window = rerank::window(&request, reranker);
        let mut candidates = Candidates::new(&request, &ranked, subqueries, window, &mut report);
        let reranked = rerank::rerank(&request, &ranked, reranker, &mut candidates, &mut report);
        let mut decisions = set::choose(&request, &ranked, &candidates, &mut report);
        ranked::rescore_all(
            &mut ranked,
            picks(&decisions).map(|(tool, _)| tool),
            &mut request,
            embeddings,
        );
        let below_threshold = candidates.below_threshold(&request, &decisions);
        let deprecated_aliases =
            aliases::deprecated_aliases(&request, &skill_tool_names, &decisions);
        let tokens = self.fit(&request, &ranked, &mut decisions)?;
        let above_threshold = candidates.not_picked(&decisions);
        let uses_fallback = report
            .degraded
            .iter()
            .any(|degraded| degraded.stage == Stage::Semantic);
        let explainer = Explainer::new(&request, &ranked, &decisions)
            .candidates(&candidates)
            .fallback(uses_fallback)
            .reranked(reranked.as_ref());
        let mut picks = explainer.picks();
        let uncalibrated = ranked.uncalibrated();
        let dropped = explainer.dropped();
        let only_fallbacks = picks.iter().all(|pick| pick.provenance.fallback);
        let may_classify = only_fallbacks && dropped.is_empty() && uncalibrated.is_none();
        let mut nothing_fits = None;
        if may_classify {
            nothing_fits = ranked.nothing_fits(&self.index.catalog);
        }
        let mut considered = None;
        if options.debug {
            considered = Some(explainer.considered(&candidates.ranking, &picks));
        }
        let selection = Selection {
            version: SELECTION_VERSION,
            catalog_digest: self.index.catalog.digest().to_owned(),
            snapshot: None,
            scorer: ranked.scorer().to_owned(),
            shortlisted: ranked.shortlisted(),
            answerable: ranked.answerable(&picks),
            nothing_fits,
            skills: skills.map(|(index, picked)| index.explain(picked, &request, &picks)),
            uncalibrated,
            ineligible: explainer.ineligible(),
            blocked: blocked::blocked_match(&request, &ranked),
            above_threshold,
            below_threshold,
            deprecated_aliases,
            unknown_in_use: request.in_use.unknown.clone(),
            unknown_values: options.unknown_values(&self.index.catalog),
            dropped,
            scorer_errors: ranked.errors().iter().map(ToString::to_string).collect(),
            considered,
            required: picks.split_off(explainer.pick_count()),
            picks,
            rerank: reranked.map(|reranked| reranked.report),
            tokens,
            stages: report.stages,
            degraded: report.degraded,
            timings: report.timings,
        };
        // All definitions that are needed have been read by now.
        match self.index.catalog.fault() {
            Some(fault) => Err(PickError::Saved {
                reason: fault.to_string(),
            }),
            None => Ok(selection),
        }
    }

    /// Fits the picks to the token budget and counts the tokens.
    fn fit(
        &self,
        request: &Request<'_>,
        ranked: &RequestRanking<'_>,
        decisions: &mut [Decision],
    ) -> Result<Option<TokenReport>, PickError> {
        let Some(budget) = &request.options.token_budget else {
            return Ok(None);
        };
        let Some(costs) = &self.costs else {
            let remedy = "give the engine a token counter (EngineBuilder::token_counter)";
            let value = budget.tokens.to_string();
            return Err(PickError::InvalidOption {
                option: "token_budget",
                value,
                remedy,
            });
        };
        let costs = costs.costs(self.index.catalog.tools(), budget);
        Ok(Some(set::fit(
            &costs,
            budget.tokens,
            request,
            ranked,
            decisions,
        )?))
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
        let mut request =
            Request::new(&self.index, query, options)?.with_examples(self.examples.as_deref());
        request.score_all = true;
        let output = signals::retrieve(
            &request,
            None,
            &mut Embeddings::default(),
            &mut Report::new(),
        );
        let mut scores = Vec::with_capacity(output.signals.len());
        for signal in output.signals {
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
