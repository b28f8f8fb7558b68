//! The stages composed.
//!
//! An [`Engine`] holds what is built once for a catalog; [`Engine::pick`] runs the pipeline, in
//! which a request passes each stage once:
//!
//! ```text
//! eligibility → keyword ‖ semantic → fuse → prior  (or a custom scorer)  → skills → min_score → rerank → select → budget → explain
//! ```
//!
//! Skills, where there are some, pass the same stages over an index of their own, and their tools
//! come along.
//!
//! It is synchronous, never runs a tool and keeps no state between picks. Only three things may be
//! slow, the embedding of the request, a custom scorer and a reranker, and when there is a deadline
//! they run on a thread that is left behind when it passes.

mod aliases;
mod blocked;
mod builder;
mod built_in;
mod candidates;
mod explain;
#[cfg(test)]
mod narrowed;
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

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

pub use self::builder::EngineBuilder;
pub use self::built_in::BuiltInScorer;
use self::candidates::Candidates;
use self::explain::Explainer;
use self::parts::AskedParts;
use self::ranked::Ranked;
use self::report::Report;
use self::request::Request;
pub use self::signals::Embeddings;
use self::skills::SkillIndex;
use crate::budget::CostTable;
use crate::catalog::{Catalog, ChangeError, Changes, Tool};
use crate::examples::{ExampleStats, Examples};
use crate::fuse::Mode;
pub use crate::fuse::{Retriever, RetrieverScores};
use crate::index::{
    CountedExamples, ExampleConfig, ExampleIndex, Index, KnownExamples, Row, RowKey,
};
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

/// A catalog, indexed and ready to be picked from. Cloning is cheap and shares the indexes.
///
/// ```
/// use picktools::{Catalog, Engine, PickOptions, Query, Tool};
///
/// let tools = [Tool::without_arguments("send_email", "Sends an email"), Tool::without_arguments("get_forecast", "Weather for the coming days")];
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
    /// How many tools the scorer is shown, where not all.
    shortlist: Option<usize>,
    reranker: Option<Arc<dyn Reranker>>,
    /// What definitions cost in tokens, if there is a counter.
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

/// Why an engine cannot take changes over. It stays as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The changes cannot be made.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// What has changed cannot be indexed.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl Engine {
    /// Indexes a catalog by words and by meaning, with the static model.
    ///
    /// # Errors
    ///
    /// [`IndexError`] when the index cannot be built.
    pub fn new(catalog: Catalog) -> Result<Self, IndexError> {
        Self::builder(catalog).build()
    }

    /// Starts building an engine with another model, or with none.
    pub fn builder(catalog: Catalog) -> EngineBuilder {
        EngineBuilder::new(catalog)
    }

    /// Picks from an index of tools with these rows, as it is, with the examples of the tools;
    /// `of_whole` tells what is counted over those of all tools, where there are some of them.
    pub fn of_rows(
        index: Index,
        rows: &[(RowKey, Arc<Row>)],
        of_whole: Option<CountedExamples>,
        token_counter: Option<Arc<dyn TokenCounter>>,
    ) -> Result<Self, IndexError> {
        let has_examples = !index.catalog.exemplified().is_empty();
        let known = KnownExamples::of_rows(rows, of_whole);
        let examples = has_examples.then(|| {
            ExampleIndex::build(
                &index,
                Examples::default(),
                &ExampleConfig::default(),
                &known,
            )
        });
        Ok(Self {
            examples: examples.transpose()?.map(Arc::new),
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

    /// Returns the examples that it was given and those of the tools, where there are some.
    pub fn examples(&self) -> Option<&ExampleIndex> {
        self.examples.as_deref()
    }

    /// Returns the catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.index.catalog
    }

    /// Tells of every skill that the engine was given what its tools mean, whether or not it can be
    /// picked.
    pub fn skill_reports(&self) -> &[SkillReport] {
        self.skills.as_ref().map_or(&[], |skills| skills.reports())
    }

    /// Tells what of the sequences of calls the catalog knows, where the engine was given some.
    pub fn sequence_stats(&self) -> Option<SequenceStats> {
        self.prior.as_ref().map(|prior| prior.stats())
    }

    /// Tells what of the examples the catalog knows, where there are some or the engine was given a
    /// list of them.
    pub fn example_stats(&self) -> Option<&ExampleStats> {
        self.examples.as_ref().map(|examples| &examples.stats)
    }

    /// Learns which requests tools have served, as pairs of a tool's name and a request: they
    /// become examples, [masked] and bounded as all of them are. The new engine picks as one does
    /// that is built with them, and shares everything else with this one, which stays as it is.
    ///
    /// ```
    /// use picktools::{Catalog, Engine, PickOptions, Query, Tool};
    ///
    /// let tools = [Tool::without_arguments("get_forecast", "Weather for the coming days"), Tool::without_arguments("book_room", "Books")];
    /// let engine = Engine::new(Catalog::from_tools(tools)?)?;
    /// let engine = engine.learn([("get_forecast", "do I need an umbrella for Oslo?")])?;
    /// let selection = engine.pick(&Query::new("take an umbrella or not"), &PickOptions::default())?;
    /// assert!(selection.picks[0].reason.contains("do I need an umbrella for …?\", which it served before"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [masked]: crate::examples::mask()
    ///
    /// # Errors
    ///
    /// [`IndexError`] when a model fails on an example.
    ///
    /// # Complexity
    ///
    /// Linear in the number of all examples, of which only new ones are embedded: learn a batch at
    /// once.
    pub fn learn<'e>(
        &self,
        served: impl IntoIterator<Item = (&'e str, &'e str)>,
    ) -> Result<Self, IndexError> {
        let learned = match &self.examples {
            Some(examples) => examples.learn(&self.index, served)?,
            None => {
                let none = ExampleIndex::of_definitions(&self.index)?;
                none.learn(&self.index, served)?
            }
        };
        Ok(Self {
            examples: Some(Arc::new(learned)),
            ..self.clone()
        })
    }

    /// Takes changes of tools over. Only what has come or changed is embedded and read into words;
    /// the new engine picks as one does that is built of the changed catalog, and this one stays as
    /// it is, for picks that are running and for who goes on with it.
    ///
    /// ```
    /// use picktools::{Catalog, Engine, PickOptions, Query, Tool, catalog::Changes};
    ///
    /// let engine = Engine::new(Catalog::from_tools([Tool::without_arguments("book_room", "Books a meeting room")])?)?;
    /// let put = vec![Tool::without_arguments("get_forecast", "Weather for the coming days")];
    /// let engine = engine.update(Changes { put, ..Changes::default() })?;
    /// let selection = engine.pick(&Query::new("will it rain tomorrow?"), &PickOptions::default())?;
    /// assert_eq!(selection.picks[0].tool.name, "get_forecast");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UpdateError`] when the changes are not valid, or a model fails on a tool.
    ///
    /// # Complexity
    ///
    /// Linear in the number of all tools, but for what has not changed a copy: see
    /// `docs/results.md`.
    pub fn update(&self, changes: Changes) -> Result<Self, UpdateError> {
        Ok(self.with_catalog(self.index.catalog.with_changes(changes)?)?)
    }

    /// Indexes another catalog, by the same models and with the same skills, sequences, examples,
    /// scorer and reranker. As in [`update`](Self::update), only tools that this engine does not
    /// have are embedded and read into words.
    ///
    /// # Errors
    ///
    /// [`IndexError`] when a model fails on a tool.
    pub fn with_catalog(&self, catalog: Catalog) -> Result<Self, IndexError> {
        let mut index = self.index.of_changed(catalog)?;
        let skills = self
            .skills
            .as_ref()
            .map(|skills| skills.of(&index))
            .transpose()?;
        // Tools and skills are ranked beside each other, and so by the same models.
        if let Some(reason) = skills.as_ref().and_then(SkillIndex::left_out) {
            index.leave_out(reason);
        }
        let examples = match &self.examples {
            Some(examples) => Some(examples.of_changed(&index)?),
            None if index.catalog.exemplified().is_empty() => None,
            None => Some(ExampleIndex::of_definitions(&index)?),
        };
        Ok(Self {
            skills: skills.map(Arc::new),
            prior: self
                .prior
                .as_ref()
                .map(|prior| Arc::new(prior.of(&index.names))),
            examples: examples.map(Arc::new),
            index: Arc::new(index),
            costs: self.costs.as_ref().map(|costs| Arc::new(costs.emptied())),
            ..self.clone()
        })
    }

    /// Saves the catalog and its indexes in a folder, which is made where it is not there, in the
    /// place of what was saved there before; with a note that [`Catalog::note`] gives back.
    /// [`Catalog::open_saved`] opens it. Skills, examples of files and sequences are not saved.
    ///
    /// The file takes its place whole or not at all; who reads the old one goes on with it.
    ///
    /// # Errors
    ///
    /// [`SavedError`] when the folder cannot be written to, another process is writing there, or
    /// the catalog's own index is damaged.
    pub fn save(
        &self,
        folder: impl AsRef<Path>,
        note: serde_json::Value,
    ) -> Result<(), SavedError> {
        self.index.save(folder.as_ref(), note)
    }

    /// Returns how much memory each part of the tools' index takes, without definitions.
    pub fn memory(&self) -> Vec<MemoryPart> {
        self.index.memory()
    }

    /// Returns what the indexes hold.
    pub fn stats(&self) -> IndexStats {
        self.index.stats()
    }

    /// Returns a built-in ranking as a [`Scorer`], to compose with others for
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
    /// [`PickError`] when an option makes no sense or names an unknown tool. What goes wrong
    /// with models, scorers and time is not an error: it stands in [`Selection::degraded`].
    pub fn pick(&self, query: &Query, options: &PickOptions) -> Result<Selection, PickError> {
        self.pick_embedded(query, options, &mut Embeddings::default())
    }

    /// As [`pick`](Self::pick), for a request that is embedded already, as far as it is.
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
        let mut asked_parts = None;
        if self.scorer.is_none() {
            asked_parts = AskedParts::new(&request, embeddings, &mut report);
        }
        let mut ranked = match &self.scorer {
            Some(scorer) => {
                ranked::score(&request, (scorer, self.shortlist), embeddings, &mut report)
            }
            None => ranked::fuse(&request, asked_parts.as_mut(), embeddings, &mut report),
        };
        if let Some(prior) = &self.prior {
            ranked::raise(prior, &request, &mut ranked, &mut report);
        }
        let mut skills = None;
        if let Some(index) = &self.skills {
            let picked = index.pick(&request, &ranked, embeddings, &mut report)?;
            request.needed = index.needed(&picked);
            let brought = request.brought();
            ranked::widen(&mut ranked, brought.into_iter(), &mut request, embeddings);
            skills = Some((index, picked));
        }
        let reranker = self.reranker.as_ref();
        let parts = parts::parts(&request, asked_parts, &ranked);
        let window = rerank::window(&request, reranker);
        let mut candidates = Candidates::new(&request, &ranked, parts, window, &mut report);
        let reranked = rerank::rerank(&request, &ranked, reranker, &mut candidates, &mut report);
        let mut decisions = set::choose(&request, &ranked, &candidates, &mut report);
        ranked::widen(
            &mut ranked,
            picks(&decisions).map(|(tool, _)| tool),
            &mut request,
            embeddings,
        );
        let below_threshold = candidates.below_threshold(&request, &decisions);
        let of_skills = skills
            .as_ref()
            .map_or_else(Vec::new, |(index, picked)| index.tool_names(picked));
        let deprecated_aliases = aliases::used(&request, &of_skills, &decisions);
        let tokens = self.fit(&request, &ranked, &mut decisions)?;
        let stands_in = report
            .degraded
            .iter()
            .any(|degraded| degraded.stage == Stage::Semantic);
        let why = Explainer::new(&request, &ranked, &decisions)
            .parts(&candidates.parts)
            .standing_in(stands_in)
            .reranked(reranked.as_ref());
        let mut picks = why.picks();
        let uncalibrated = ranked.uncalibrated(request.rankable());
        let dropped = why.dropped();
        let can_tell = picks.is_empty() && dropped.is_empty() && uncalibrated.is_none();
        let nothing_fits = if can_tell {
            ranked.nothing_fits(&self.index.catalog)
        } else {
            None
        };
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
            ineligible: why.ineligible(),
            blocked: blocked::blocked_match(&request, &ranked),
            below_threshold,
            deprecated_aliases,
            unknown_in_use: request.in_use.unknown.clone(),
            unknown_values: options.unknown_values(&self.index.catalog),
            dropped,
            scorer_errors: ranked.errors().iter().map(ToString::to_string).collect(),
            considered: options
                .debug
                .then(|| why.considered(&candidates.ranking, &picks)),
            required: picks.split_off(why.pick_count()),
            picks,
            rerank: reranked.map(|reranked| reranked.report),
            tokens,
            stages: report.stages,
            degraded: report.degraded,
            timings: report.timings,
        };
        // Whatever needed a definition has asked for it by now.
        match self.index.catalog.fault() {
            Some(fault) => Err(PickError::Saved {
                reason: fault.to_string(),
            }),
            None => Ok(selection),
        }
    }

    /// Fits the picks to the token budget, and counts.
    fn fit(
        &self,
        request: &Request<'_>,
        ranked: &Ranked<'_>,
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

    /// Returns the scores that each retriever of the options' mode gives to every tool, before they
    /// are fused; whether a tool is eligible makes no difference. For measuring retrievers and
    /// fitting a fusion.
    ///
    /// # Errors
    ///
    /// [`PickError`] when the options are invalid.
    pub fn retriever_scores(
        &self,
        query: &Query,
        options: &PickOptions,
    ) -> Result<Vec<RetrieverScores>, PickError> {
        let mut request =
            Request::new(&self.index, query, options)?.with_examples(self.examples.as_deref());
        request.whole = true;
        let said = signals::signals(
            &request,
            None,
            &mut Embeddings::default(),
            &mut Report::new(),
        );
        Ok(said
            .signals
            .into_iter()
            .map(RetrieverScores::from)
            .collect())
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

/// Picks from tools that are indexed for this one request, with the built-in ranking. An [`Engine`]
/// serves many requests, and may have a scorer, a reranker or skills. The time limit counts from
/// the call: what indexing takes, on tokio's blocking pool, is gone for the stages of the pick.
///
/// # Errors
///
/// [`PickError`] when the tools are not a valid catalog, and as [`Engine::pick`].
///
/// # Panics
///
/// Outside a tokio runtime.
pub async fn pick_tools(
    input: impl Into<Query>,
    tools: impl IntoIterator<Item = Tool>,
    options: PickOptions,
) -> Result<Selection, PickError> {
    let started = Instant::now();
    let (query, tools) = (input.into(), tools.into_iter().collect::<Vec<_>>());
    let pick = tokio::task::spawn_blocking(move || {
        let engine = Engine::new(Catalog::from_tools(tools)?)?;
        let timeout = options
            .timeout
            .map(|timeout| timeout.saturating_sub(started.elapsed()));
        engine.pick(&query, &PickOptions { timeout, ..options })
    });
    pick.await.map_err(|error| PickError::Worker {
        reason: error.to_string(),
    })?
}
